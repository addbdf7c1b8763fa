"""Statistics of a tensor, in constant memory, are those of the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder.draft import Tensor
from builder.values import floats
from hypothesis import given
from hypothesis import strategies as st
from measuring.values import opened

from ckptdoctor.facts.values.reading import CHUNK, Reader
from ckptdoctor.facts.values.statistics import Statistics, measure


def statistics(folder: Path, tensor: Tensor, name: str = "fc.weight") -> Statistics:
    checkpoint = opened(folder, {name: tensor})
    seen = measure(checkpoint, checkpoint.tensors[name], Reader(checkpoint), compare_rows=True)
    assert seen is not None
    return seen


@given(st.integers(1, 40), st.integers(2, 90), st.integers(0, 2**32 - 1), st.sampled_from(["BF16", "F16", "F32"]))
def test_statistics_are_those_that_numpy_gives(
    tmp_path_factory: pytest.TempPathFactory, rows: int, columns: int, seed: int, dtype: str
) -> None:
    stored = floats(np.random.default_rng(seed).standard_normal((rows, columns)) * 0.02, dtype)
    seen = statistics(tmp_path_factory.mktemp("values"), stored)
    exact = decoded(stored).astype(np.float64)
    second = (exact**2).mean()
    assert seen.spread == pytest.approx(exact.std(), rel=1e-4, abs=1e-7)
    assert seen.kurtosis == pytest.approx((exact**4).mean() / second**2, rel=1e-4)
    assert (seen.low, seen.high) == (pytest.approx(exact.min()), pytest.approx(exact.max()))
    assert (seen.rows, seen.width, seen.repeated) == (rows, columns, 0)


def decoded(tensor: Tensor) -> np.ndarray[Any, Any]:
    from builder.values import decode

    return decode(tensor)


def test_a_tensor_of_many_pieces_is_measured_as_a_whole(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((CHUNK // 1000 + 7, 3000)).astype(np.float32)
    values[CHUNK // 3000] = 0
    values[:, 5] = 0
    seen = statistics(tmp_path, floats(values, "F32"))
    assert seen.spread == pytest.approx(values.std(), rel=1e-5)
    assert seen.zero_rows == ((CHUNK // 3000, CHUNK // 3000 + 1),)
    assert seen.zero_columns == ((5, 6),)


def test_rows_longer_than_a_piece_are_read_as_one_stretch(tmp_path: Path) -> None:
    seen = statistics(tmp_path, floats(np.ones((2, CHUNK + 5)), "BF16"))
    assert (seen.constant, seen.low, seen.width) == (True, 1.0, 0)


def test_what_is_no_number_is_counted_and_taken_for_zero(tmp_path: Path) -> None:
    array = np.full((4, 32), 2.0)
    array[0, 0], array[1, 1], array[2, 2] = np.nan, np.inf, 1e30
    seen = statistics(tmp_path, floats(array, "F32"))
    assert (seen.nan, seen.infinite, seen.limit_passed) == (1, 1, 1)
    assert seen.largest == pytest.approx(1e30)


def test_tiny_values_are_no_zeros(tmp_path: Path) -> None:
    array = np.full((40, 32), 1e-30)
    array[3] = 0
    assert statistics(tmp_path, floats(array, "F32")).zero_rows == ((3, 4),)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2"])
def test_eight_bit_floats_are_decoded_as_torch_decodes_them(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    from ckptdoctor.facts.values.reading import _eight_bits

    kind = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}[dtype]
    theirs = torch.arange(256, dtype=torch.uint8).view(kind).float().numpy()
    assert np.array_equal(_eight_bits(dtype), theirs, equal_nan=True)
