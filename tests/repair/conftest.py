"""A sick draft to repair, and a place for its copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from recipe_cases import RECIPES, Built


@pytest.fixture
def source(built: Built, tmp_path: Path) -> Path:
    """A draft whose map holds target ids, with a sub-folder, an empty file and an empty folder beside it."""
    folder = tmp_path / "source"
    shutil.copytree(built.path(RECIPES["d2t-absolute"]), folder)
    (folder / "sub").mkdir()
    (folder / "sub" / "notes.txt").write_text("kept")
    (folder / "empty").touch()
    (folder / "nothing").mkdir()
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"
