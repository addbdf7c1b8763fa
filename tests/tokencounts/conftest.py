"""Tokenizers of two kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from token_files import (
    byte_level,
    unigram,
)


@pytest.fixture(params=[byte_level, unigram], ids=["byte-level", "unigram"])
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[object, Path]:
    folder = tmp_path / "target"
    folder.mkdir()
    return request.param(folder), folder / "tokenizer.json"
