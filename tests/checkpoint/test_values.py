"""Values of small tensors: whole numbers of any dtype, and `Unknown` instead of a guess."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import container, entry, folder
from safetensors.numpy import save

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.checkpoint import opened as module
from ckptdoctor.unknown import Unknown


def values(root: Path, data: bytes, name: str = "d2t") -> list[int] | str:
    """The integers of a tensor, or what it would take to know them."""
    found = open_checkpoint(str(folder(root, model__safetensors=data))).integers(name)
    if isinstance(found, Unknown):
        return found.needs
    assert found.dtype == np.int64
    assert found.ndim == 1
    return [int(value) for value in found]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_every_plain_dtype(tmp_path: Path, dtype: str) -> None:
    assert values(tmp_path, save({"x": np.ones(1, "u1"), "d2t": np.array([0, 1, 100], dtype)})) == [0, 1, 100]


def test_bool_bfloat16_and_shapes(tmp_path: Path) -> None:
    assert values(tmp_path, save({"d2t": np.array([True, False, True])})) == [1, 0, 1]
    assert values(tmp_path, save({"d2t": np.array([[1, 2], [3, 4]])})) == [1, 2, 3, 4]
    assert values(tmp_path, save({"d2t": np.zeros((0,), np.int64)})) == []
    assert values(tmp_path, save({"d2t": np.array(7)})) == [7]
    raw = struct.pack("<HHH", 0x3F80, 0xC000, 0x4380)
    assert values(tmp_path, container({"d2t": entry("BF16", [3], 0, 6)}, raw)) == [1, -2, 256]


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_what_is_no_whole_number(tmp_path: Path, value: float, dtype: str) -> None:
    assert values(tmp_path, save({"d2t": np.array([1, value], dtype)})) == "whole numbers in d2t"


def test_numbers_that_do_not_fit(tmp_path: Path) -> None:
    assert values(tmp_path, save({"d2t": np.array([2.0**60])})) == "whole numbers in d2t"
    assert values(tmp_path, save({"d2t": np.array([2**63], np.uint64)})) == "values of d2t that fit 64 bits"
    assert values(tmp_path, save({"d2t": np.array([2**63 - 1], np.uint64)})) == [2**63 - 1]


@pytest.mark.parametrize(
    "data",
    [
        container({"d2t": entry("F8_E4M3", [1], 0, 1)}, bytes(1)),
        container({"d2t": entry("F128", [1], 0, 16)}, bytes(16)),
        container({"d2t": entry("I64", [2], 0, 8)}, bytes(8)),
        container({"d2t": entry("I64", [2], 0, 16)}, bytes(9)),
    ],
)
def test_bytes_that_cannot_be_believed(tmp_path: Path, data: bytes) -> None:
    assert values(tmp_path, data) == "readable values of d2t"


def test_a_large_tensor_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VALUE_LIMIT", 3)
    assert values(tmp_path, save({"d2t": np.arange(3)})) == [0, 1, 2]
    assert values(tmp_path, save({"d2t": np.arange(4)})) == "readable values of d2t"
