"""The shipped parameter files, and switching between them without losing what somebody edited."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent


class ProfileError(ValueError):
    """The profile cannot be switched to; the text says why and what to do."""


def shipped() -> dict[str, Path]:
    return {p.stem: p for p in sorted(FOLDER.glob("*.yaml"))}


def switch(name: str, params: Path, force: bool = False) -> dict[str, tuple[object, object]]:
    """Copy profile `name` over `params`; returns {key: (before, after)} for the values that changed.

    Raises ProfileError for an unknown name, and, without `force`, when `params` holds values of no shipped profile.
    """
    known = shipped()
    if name not in known:
        raise ProfileError(f"no profile {name!r}; there are: {', '.join(known)}")
    if not params.parent.joinpath("dvc.yaml").is_file():
        raise ProfileError(f"{params.absolute().parent}: no dvc.yaml here; run this in the project's root")
    before = yaml.safe_load(params.read_text()) if params.is_file() else {}
    if params.is_file() and not force and all(before != yaml.safe_load(p.read_text()) for p in known.values()):
        raise ProfileError(f"{params} holds edits of yours (it equals no shipped profile); keep a copy and add --force to replace it")
    shutil.copyfile(known[name], params)
    old, new = flat(before), flat(yaml.safe_load(known[name].read_text()))
    return {key: (old.get(key, "–"), new.get(key, "–")) for key in sorted(old.keys() | new.keys()) if old.get(key, "–") != new.get(key, "–")}


def flat(tree: dict, prefix: str = "") -> dict[str, object]:
    """{"rpr.steps": 15, ...}"""
    out: dict[str, object] = {}
    for key, value in tree.items():
        out |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return out
