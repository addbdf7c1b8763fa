"""Values are read when they are asked for, and once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from builder.values import floats
from measuring.values import opened, values

from ckptdoctor.facts import describe
from ckptdoctor.facts.asked import Asked
from ckptdoctor.facts.values.reading import reporting
from ckptdoctor.unknown import Unknown


def test_bytes_that_were_measured_are_not_read_again(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path, {"fc.weight": floats(np.random.default_rng(1).standard_normal((64, 192)))})
    read: list[int] = []
    with reporting(read.append):
        for _ in range(3):
            describe(checkpoint, None, asked=Asked(deep=True))
    assert sum(read) == 64 * 192 * 2


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    array = np.random.default_rng(1).standard_normal((64, 192))
    assert not values(opened(tmp_path, {"fc.weight": floats(array)})).damage.not_numbers
    array[0, 0] = np.nan
    assert values(opened(tmp_path, {"fc.weight": floats(array)})).damage.not_numbers


def test_a_plain_scan_reads_no_values(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path, {"fc.weight": floats(np.full((64, 192), np.nan))})
    read: list[int] = []
    with reporting(read.append):
        assert isinstance(describe(checkpoint, None).values, Unknown)
    assert read == []
