"""Drafts for the tests of gates: a sick one, a healthy one, and one that gives a warning alone."""

from __future__ import annotations

from pathlib import Path

from builder import build
from recipe_cases import RECIPES

__all__ = ["HEALTHY", "SICK", "WARNED", "draft"]

SICK, HEALTHY, WARNED = "d2t-absolute", "speculators-eagle3", "t2d-length"


def draft(folder: Path, recipe: str = HEALTHY) -> Path:
    """The draft of `recipe` in the new folder `folder`, without its target."""
    build(RECIPES[recipe], folder)
    for path in sorted((folder / "target").iterdir()):
        path.unlink()
    (folder / "target").rmdir()
    return folder
