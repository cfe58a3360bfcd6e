"""The procedural families: one function `build(rng, names) -> Step` each, in one registry."""

from rsi.tasks.families import files, git, system, text
from rsi.tasks.step import Build

FAMILIES: dict[str, Build] = files.FAMILIES | text.FAMILIES | system.FAMILIES | git.FAMILIES
"""The training families, by name."""
