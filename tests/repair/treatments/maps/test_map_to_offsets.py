"""A d2t of another meaning becomes offsets, to the last value, and stays where its meaning is in doubt."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from treating.maps import INDEX, draft_with, only_edit, right_maps
from treatment_cases import Draft, answer, decode, draft_of, floats, integers, map_of, plan, write

from ckptdoctor.repair.edits import ReplaceTensor


def offsets(draft: Draft) -> np.ndarray:
    return decode(draft.tensors["d2t"]).astype(np.int64)


# --- map-to-offsets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "factor"), [("VOC001", 0), ("VOC002", 2)], ids=["target-ids", "subtracted-twice"])
@pytest.mark.parametrize("dialect", ["specforge-eagle3", "model-optimizer-eagle3"])
def test_arithmetic_gives_the_offsets_back_in_place(dialect: str, rule: str, factor: int, tmp_path: Path) -> None:
    draft = draft_of(dialect)
    right = draft.tensors["d2t"]
    map_of(draft, lambda d2t: d2t + (1 - factor) * INDEX)
    told = answer(write(draft, tmp_path), rule)
    assert only_edit(told) == ReplaceTensor("d2t", "I64", (128,), right.data)
    assert told.safety == "safe"


@pytest.mark.parametrize(
    ("rule", "change", "words"),
    [
        ("VOC005", lambda _: 127 - INDEX, "The right correction of one would destroy the other"),
        ("VOC006", lambda _: 2 * INDEX, "Rewriting it would destroy it if it is right"),
        ("VOC003", lambda d2t: np.where(INDEX == 100, d2t[99] - 1, d2t), "damaged"),
        ("VOC004", lambda d2t: np.where(INDEX == 127, 5000, d2t), "damaged"),
        ("VOC011", lambda d2t: 0 * d2t, "nothing to compute a map from"),
        # Target ids of which one is out of the vocabulary: arithmetic would leave it there.
        ("VOC001", lambda d2t: np.where(INDEX == 127, 5000, d2t + INDEX), "some entries fit none"),
    ],
)
def test_a_map_of_which_no_single_reading_is_left_is_not_rewritten(
    rule: str, change: object, words: str, tmp_path: Path
) -> None:
    draft = draft_of("model-optimizer-eagle3")
    map_of(draft, change)  # type: ignore[arg-type]
    folder = write(draft, tmp_path)
    told = answer(folder, rule)
    assert isinstance(told, str)
    assert words in told
    assert "decides" in told
    assert plan(folder, unsafe=True).steps == ()


def test_target_ids_that_t2d_does_not_bear_out_to_the_last_are_not_rewritten(tmp_path: Path) -> None:
    draft = draft_of()
    targets = offsets(draft) + INDEX
    targets[50] = int(np.setdiff1d(np.arange(512), targets)[0])
    draft.tensors["d2t"] = integers(np.concatenate([targets[:-1], [511 + 2]]))
    told = answer(write(draft, tmp_path), "VOC001")
    assert told == (
        "Most of d2t fits one reading and some entries fit none, so arithmetic would not make a right map of it."
        " The map file of the training run decides."
    )


def test_rounded_target_ids_are_not_rewritten(tmp_path: Path) -> None:
    draft = draft_of("model-optimizer-eagle3", map_order="ascending")
    map_of(draft, lambda d2t: 2 * (d2t + INDEX) % 512, dtype="BF16")
    draft.tensors["d2t"] = floats(np.arange(128) * 4, "BF16")
    told = answer(write(draft, tmp_path), "VOC016")
    assert isinstance(told, str)
    assert "BF16 rounds (it is exact below 256 alone)" in told


def test_floats_of_target_ids_become_offsets_in_one_fix(tmp_path: Path) -> None:
    draft = draft_of()
    right = draft.tensors["d2t"].data
    map_of(draft, lambda d2t: d2t + INDEX, dtype="F32")
    made = plan(write(draft, tmp_path))
    assert [(s.treatment, s.safety) for s in made.steps] == [("cast-map", "safe"), ("map-to-offsets", "safe")]
    new = made.state.new["d2t"]
    assert isinstance(new, ReplaceTensor)
    assert (new.dtype, new.data) == ("I64", right)
    assert {f.rule for f in made.after.judgement.findings} == {"AUX008"}


def test_map_to_offsets_alone_takes_exact_floats_and_refuses_others(tmp_path: Path) -> None:
    draft = draft_of()
    map_of(draft, lambda d2t: d2t + INDEX, dtype="F32")
    (step,) = plan(write(draft, tmp_path / "exact"), select=("map-to-offsets",)).steps
    assert step.edits[0].dtype == "I64"  # type: ignore[union-attr]
    rounded = draft_of()
    map_of(rounded, lambda d2t: d2t + INDEX, dtype="BF16")  # ids up to 511: every odd one above 256 is lost
    assert plan(write(rounded, tmp_path / "rounded"), unsafe=True).steps == ()


def test_a_receipt_of_the_same_treatment_refuses_it(tmp_path: Path) -> None:
    draft = draft_of()
    map_of(draft, lambda d2t: d2t + INDEX)
    folder = write(draft, tmp_path)
    row = {"treatment": "map-to-offsets", "subject": "d2t"}
    (folder / "ckptdoctor-receipt.json").write_text(json.dumps({"treatments": [row]}), encoding="utf-8")
    told = answer(folder, "VOC001")
    assert isinstance(told, str)
    assert "already made" in told
    assert plan(folder).steps == ()


# --- properties: any right map, in any order --------------------------------------------------------------------------


@given(right_maps(), st.sampled_from([0, 2]), st.booleans())
def test_a_right_map_made_wrong_comes_back_exactly_or_stays_as_it_is(
    drawn: tuple[np.ndarray, str], factor: int, mask: bool
) -> None:
    targets, _ = drawn
    index = np.arange(len(targets))
    right, wrong = targets - index, targets - factor * index
    with TemporaryDirectory() as name:
        folder = write(draft_with(targets, wrong, mask), Path(name))
        made = plan(folder, unsafe=True, select=("map-to-offsets",))
        if mask and wrong.any():
            assert made.steps  # t2d proves it, whatever the order
        for step in made.steps:
            assert step.treatment == "map-to-offsets"
            assert np.array_equal(np.frombuffer(step.edits[0].data, "<i8"), right)  # type: ignore[union-attr,arg-type]
        again = made.after.facts.vocab
        if made.steps:
            assert again.verdict in ("right", "zeros_first")
            assert np.array_equal(again.map.targets, targets)  # type: ignore[union-attr]


@given(right_maps(), st.booleans())
def test_a_right_map_is_never_touched(drawn: tuple[np.ndarray, str], mask: bool) -> None:
    targets, _ = drawn
    with TemporaryDirectory() as name:
        folder = write(draft_with(targets, targets - np.arange(len(targets)), mask), Path(name))
        made = plan(folder, unsafe=True, select=("map-to-offsets", "d2t-from-t2d", "cast-map", "VOC007", "VOC018"))
        assert made.steps == ()
