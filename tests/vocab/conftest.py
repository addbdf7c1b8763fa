"""A target and token counts for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from vocab_targets import (
    write_counts,
    zipf_counts,
)


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    return write_counts(tmp_path / "counts.json", zipf_counts())
