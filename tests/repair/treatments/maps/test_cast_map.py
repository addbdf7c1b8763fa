"""Maps of another dtype become the integers that they hold, and stay where a value may have been rounded."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from treating.maps import draft_with, right_maps
from treatment_cases import answer, bools, decode, draft_of, floats, integers, map_of, plan, write

from ckptdoctor.repair.edits import CastTensor

# --- properties: any right map, in any order --------------------------------------------------------------------------


@given(right_maps(), st.sampled_from(["BF16", "F16", "F32", "F64"]), st.booleans())
def test_a_cast_never_changes_an_id(drawn: tuple[np.ndarray, str], dtype: str, mask: bool) -> None:
    targets, _ = drawn
    right = targets - np.arange(len(targets))
    with TemporaryDirectory() as name:
        draft = draft_with(targets, right, mask)
        draft.tensors["d2t"] = floats(right, dtype)
        made = plan(write(draft, Path(name)), unsafe=True, select=("cast-map", "map-to-offsets"))
        for step in made.steps:
            assert np.array_equal(np.frombuffer(step.edits[0].data, "<i8"), right)  # type: ignore[union-attr,arg-type]
        if np.abs(right).max() < 256 or (dtype in ("F16", "F32", "F64") and mask):
            assert [s.treatment for s in made.steps] == ["cast-map"]


# --- cast-map ---------------------------------------------------------------------------------------------------------


def test_narrow_integers_are_cast_when_they_are_selected_and_not_before(tmp_path: Path) -> None:
    draft = draft_of()
    right = draft.tensors["d2t"].data
    map_of(draft, lambda d2t: d2t, dtype="I32")
    draft.tensors["t2d"] = integers(decode(draft.tensors["t2d"]), "I64")
    mask = decode(draft.tensors["t2d"]).astype("u1").tobytes()
    folder = write(draft, tmp_path)
    assert plan(folder).steps == ()
    made = plan(folder, select=("VOC021", "VOC022"))
    assert {e for s in made.steps for e in s.edits} == {
        CastTensor("d2t", "I64", right),
        CastTensor("t2d", "BOOL", mask),
    }
    assert {s.safety for s in made.steps} == {"safe"}


@pytest.mark.parametrize(
    ("values", "dtype", "words"),
    [
        (np.arange(128) + 0.5, "F32", "no whole numbers"),
        (np.where(np.arange(128) == 3, np.nan, 1), "F32", "no whole numbers"),
        (np.where(np.arange(128) == 3, np.inf, 1), "F16", "no whole numbers"),
        # 257 becomes 256 in BF16, and 2049 becomes 2048 in F16: a value at the limit may stand for another one.
        (np.where(np.arange(128) == 127, 257, 0), "BF16", "BF16 rounds (it is exact below 256 alone)"),
        (np.where(np.arange(128) == 127, 2049, 0), "F16", "F16 rounds (it is exact below 2048 alone)"),
        (np.where(np.arange(128) == 127, 2**24 + 1, 0), "F32", "F32 rounds (it is exact below 16777216 alone)"),
        # Whole numbers in F32 that are all numbers of BF16: they were rounded before.
        (np.arange(128) // 2 * 8, "F32", "BF16 rounds"),
    ],
)
def test_floats_that_may_be_other_ids_are_not_cast(values: np.ndarray, dtype: str, words: str, tmp_path: Path) -> None:
    draft = draft_of("model-optimizer-eagle3")
    draft.tensors["d2t"] = floats(values, dtype)
    told = answer(write(draft, tmp_path), "VOC016")
    assert isinstance(told, str)
    assert words in told
    assert "The map file of the training run decides." in told


def test_large_values_in_a_wider_float_are_cast_where_t2d_bears_them_out(tmp_path: Path) -> None:
    draft = draft_of(draft_vocab=64)
    targets = np.arange(64) * 8
    mask = np.zeros(512, dtype=bool)
    mask[targets] = True
    draft.tensors["d2t"] = floats(targets, "F32")  # ids, all of them numbers of BF16
    draft.tensors["t2d"] = bools(mask)
    assert [s.treatment for s in plan(write(draft, tmp_path / "with")).steps] == ["cast-map", "map-to-offsets"]
    del draft.tensors["t2d"]
    assert plan(write(draft, tmp_path / "without"), unsafe=True).steps == ()


def test_a_mask_of_other_values_is_not_cast(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors["t2d"] = integers(decode(draft.tensors["t2d"]).astype(np.int64) * 3, "I64")
    told = answer(write(draft, tmp_path), "VOC022")
    assert isinstance(told, str)
    assert "other values than 0 and 1" in told
