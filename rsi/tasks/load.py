"""Reading Harbor task directories: ours and foreign ones up to schema 1.4, and the linter."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from rsi.tasks.task import CheckSpec, Task

NEWEST = (1, 4)


class TaskError(ValueError):
    """A task or suite that cannot be used. The text names file, field and remedy."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)


class Check(_Section):
    name: str
    kind: str = "final"
    holds_before: bool = False

    @field_validator("kind")
    @classmethod
    def _kind(cls, v: str) -> str:
        if v not in ("intermediate", "final"):
            raise ValueError('must be "intermediate" or "final"')
        return v


class Metadata(_Section):
    family: str = ""
    category: str = ""
    suite: str = ""
    checks: list[Check] = []


class Limit(_Section):
    timeout_sec: float = Field(gt=0, allow_inf_nan=False)


class Environment(_Section):
    """Sizes in MB; the older `memory = "2G"` and `storage = "10G"` are read too."""

    memory_mb: int = Field(2048, gt=0, validation_alias=AliasChoices("memory_mb", "memory"))
    storage_mb: int = Field(10240, gt=0, validation_alias=AliasChoices("storage_mb", "storage"))
    cpus: float = Field(1, gt=0)

    @field_validator("memory_mb", "storage_mb", mode="before")
    @classmethod
    def _size(cls, v: Any) -> Any:
        if isinstance(v, str):
            m = re.fullmatch(r"(\d+)\s*([KMGT]?)i?B?", v.strip(), re.IGNORECASE)
            if not m:
                raise ValueError('must be a number of MB or a size as "2G"')
            return max(1, int(int(m[1]) * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2}[m[2].upper()]))
        return v


class TaskConfig(_Section):
    """task.toml. Unknown sections and keys are kept (`model_extra`)."""

    schema_version: str = Field("1.0", validation_alias=AliasChoices("schema_version", "version"))
    metadata: Metadata = Metadata()
    agent: Limit = Limit(timeout_sec=600)
    verifier: Limit = Limit(timeout_sec=600)
    environment: Environment = Environment()

    @field_validator("schema_version")
    @classmethod
    def _known(cls, v: str) -> str:
        m = re.fullmatch(r"(\d+)\.(\d+)", v)
        if not m or (int(m[1]), int(m[2])) > NEWEST:
            raise ValueError(f"must be a version up to {NEWEST[0]}.{NEWEST[1]}")
        return v


def read_config(task_dir: Path) -> tuple[TaskConfig, dict]:
    """task.toml as a model and as the plain table. Raises TaskError, naming file, field and remedy."""
    file = Path(task_dir) / "task.toml"
    try:
        table = tomllib.loads(file.read_text())
    except FileNotFoundError as e:
        raise TaskError(f"{file}: not found; a task directory needs task.toml") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise TaskError(f"{file}: not TOML ({e}); correct the syntax") from e
    try:
        return TaskConfig.model_validate(table), table
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        raise TaskError(f"{file}: {where}: {first['msg']} (found {first.get('input')!r}); correct this field") from e


def load_task(task_dir: Path) -> Task:
    """Read one Harbor task directory. Raises TaskError, naming file, field and remedy."""
    root = Path(task_dir).resolve()
    config, table = read_config(root)
    for name in ("instruction.md", "tests/test.sh"):
        if not (root / name).is_file():
            raise TaskError(f"{root / name}: not found; add the file")
    meta = config.metadata
    return Task(
        id=root.name,
        path=root,
        instruction=(root / "instruction.md").read_text(),
        family=meta.family or meta.category,
        suite=meta.suite,
        checks=tuple(CheckSpec(c.name, c.kind, c.holds_before) for c in meta.checks),
        verifier_timeout_s=config.verifier.timeout_sec,
        memory_mb=config.environment.memory_mb,
        storage_mb=config.environment.storage_mb,
        metadata=table.get("metadata", {}),
    )


def load_suite(path: Path) -> list[Task]:
    """Every task directory below `path`, by name. Raises TaskError when there is none or one cannot be read."""
    dirs = sorted(p.parent for p in Path(path).glob("*/task.toml"))
    if not dirs:
        raise TaskError(f"{path}: no task directories (…/task.toml); make the suite first")
    return [load_task(d) for d in dirs]
