"""A suite as one deterministic tar: thousands of small files are one file to the pipeline, and still directories to people."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from rsi.tasks.load import TaskError


def archive_of(suite: Path) -> Path:
    return suite.with_name(suite.name + ".tar")


def pack(suite: Path) -> Path:
    """Write `suite`.tar beside the directory: sorted names, no owners, no times, so that equal tasks give equal bytes."""
    target = archive_of(suite)
    part = target.with_name(target.name + f".part{os.getpid()}")
    with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(p for p in suite.rglob("*") if p.is_file()):
            info = tarfile.TarInfo(str(file.relative_to(suite)))
            data = file.read_bytes()
            info.size, info.mode = len(data), 0o755 if os.access(file, os.X_OK) else 0o644
            tar.addfile(info, io.BytesIO(data))
    os.replace(part, target)
    return target


def unpacked(suite: Path) -> Path:
    """The directory of `suite`, made from its archive where it is missing.

    The archive is what the pipeline tracks. Raises TaskError when a file of the directory differs from it.
    """
    source = archive_of(suite)
    if not source.is_file():
        raise TaskError(f"{source}: not found; run `dvc repro tasks` first")
    with tarfile.open(source) as tar:
        if not suite.is_dir():
            part = suite.with_name(suite.name + f".part{os.getpid()}")
            tar.extractall(part, filter="data")
            try:
                os.replace(part, suite)
            except OSError:  # another stage was faster
                if not suite.is_dir():
                    raise
            return suite
        for info in tar:
            if _bytes(suite / info.name) != tar.extractfile(info).read():
                raise TaskError(
                    f"{suite / info.name}: differs from {source}; to use tasks of your own name their directory in params.yaml "
                    f"(tasks.pool_path, tasks.suites.*.path), to get the generated ones back delete {suite}"
                )
    return suite


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
