"""The draft that the tests of written copies start from, and a place for them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from written_copies import MB


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with weights of 3 MB and a config, both of an earlier day and with modes of their own."""
    folder = tmp_path / "source"
    folder.mkdir()
    for number, (name, data) in enumerate(
        {"model.safetensors": random.Random(1).randbytes(3 * MB + 5), "config.json": b"{}", "empty.txt": b""}.items()
    ):
        path = folder / name
        path.write_bytes(data)
        path.chmod(0o640 - number * 0o40)
        os.utime(path, ns=(1_500_000_000_123_456_789 + number, 1_600_000_000_987_654_321 + number))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "around" / "root"
    folder.mkdir(parents=True)
    return folder
