"""Doors of git, with and without git-lfs."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_repositories import Door, door_in


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return door_in(tmp_path, lfs=False)


@pytest.fixture
def lfs_door(tmp_path: Path) -> Door:
    return door_in(tmp_path, lfs=True)
