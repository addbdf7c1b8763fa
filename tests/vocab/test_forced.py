"""Lists of ids that are forced into a vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckptdoctor.errors import UsageError
from ckptdoctor.vocab.forced import read_ids


def test_lists_of_ids(tmp_path: Path) -> None:
    file = tmp_path / "ids.txt"
    file.write_text("5, 7\n100-103\n")
    assert read_ids(["3", "9,11", f"@{file}"]) == (3, 5, 7, 9, 11, 100, 101, 102, 103)
    for word in ("x", "-3", "5-3", "1-99999999999", "1.5", "0x10"):
        with pytest.raises(UsageError, match="--force-ids"):
            read_ids([word])
    with pytest.raises(UsageError, match="cannot be read"):
        read_ids([f"@{tmp_path / 'no'}"])
