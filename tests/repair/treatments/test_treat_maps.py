"""Treatments of d2t and t2d: what they write, to the last value, and above all what they leave alone."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from treatment_cases import Draft, Tensor, answer, bools, decode, draft_of, floats, integers, map_of, plan, write

from ckptdoctor.repair.edits import AddTensor, CastTensor, RenameTensor, ReplaceTensor
from ckptdoctor.repair.plan.case import Proposal

INDEX = np.arange(128, dtype=np.int64)


def offsets(draft: Draft) -> np.ndarray:
    return decode(draft.tensors["d2t"]).astype(np.int64)


def only_edit(told: Proposal | str) -> ReplaceTensor | CastTensor | AddTensor:
    assert isinstance(told, Proposal), told
    (edit,) = told.edits
    assert isinstance(edit, (ReplaceTensor, CastTensor, AddTensor))
    return edit


# --- map-to-offsets -----------------------------------------------------------------------------------------------


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


# --- properties: any right map, in any order ----------------------------------------------------------------------

VOCAB = 512


@st.composite
def right_maps(draw: st.DrawFn) -> tuple[np.ndarray, str]:
    """Distinct target ids of a vocabulary, in one of the orders that writers use: (targets, order)."""
    count = draw(st.integers(20, 200))
    order = draw(st.sampled_from(["ascending", "frequency", "descending"]))
    zeros = draw(st.integers(0, count - 1))
    rest = draw(st.lists(st.integers(zeros, VOCAB - 1), min_size=count - zeros, max_size=count - zeros, unique=True))
    targets = np.array([*range(zeros), *rest], dtype=np.int64)
    if order == "ascending":
        targets = np.sort(targets)
    elif order == "descending":
        targets = np.sort(targets)[::-1].copy()
    else:
        targets = np.array(draw(st.permutations(targets.tolist())), dtype=np.int64)
    return targets, order


def draft_with(targets: np.ndarray, stored: np.ndarray, mask: bool) -> Draft:
    draft = draft_of("specforge-eagle3", draft_vocab=len(targets))
    draft.tensors["d2t"] = integers(stored)
    if mask:
        marked = np.zeros(VOCAB, dtype=bool)
        marked[targets] = True
        draft.tensors["t2d"] = bools(marked)
    else:
        del draft.tensors["t2d"]
    return draft


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


@given(right_maps(), st.booleans())
def test_t2d_from_a_right_map_marks_its_targets_and_nothing_else(drawn: tuple[np.ndarray, str], stale: bool) -> None:
    targets, _ = drawn
    with TemporaryDirectory() as name:
        draft = draft_with(targets, targets - np.arange(len(targets)), False)
        if stale:
            draft.tensors["t2d"] = bools(np.arange(VOCAB) % 7 == 0)
        made = plan(write(draft, Path(name)), unsafe=True, select=("t2d-from-d2t",))
        assume(made.steps)
        (step,) = made.steps
        mask = np.frombuffer(step.edits[0].data, "u1")  # type: ignore[union-attr,arg-type]
        assert set(np.flatnonzero(mask)) == set(targets)
        assert made.after.facts.vocab.confirmed == 1 or made.after.facts.vocab.verdict == "zeros_first"
        # The map itself is not among the edits.
        assert {e.name for s in made.steps for e in s.edits} == {"t2d"}  # type: ignore[union-attr]


# --- cast-map -----------------------------------------------------------------------------------------------------


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


# --- t2d-from-d2t -------------------------------------------------------------------------------------------------


def healthy_mask() -> bytes:
    return draft_of().tensors["t2d"].data


def test_a_mask_that_cannot_be_of_this_head_is_written_again(tmp_path: Path) -> None:
    draft = draft_of()
    mask = decode(draft.tensors["t2d"]).astype(bool)
    mask = mask.copy()
    mask[np.flatnonzero(~mask)[0]] = True  # 129 marks for 128 rows
    draft.tensors["t2d"] = bools(mask)
    told = answer(write(draft, tmp_path), "VOC007")
    assert only_edit(told) == ReplaceTensor("t2d", "BOOL", (512,), healthy_mask())
    assert told.safety == "safe"


def test_a_mask_that_fits_the_head_as_well_is_written_over_on_an_assumption_alone(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors["t2d"] = bools(np.roll(decode(draft.tensors["t2d"]).astype(bool)[::-1], 37))
    folder = write(draft, tmp_path)
    told = answer(folder, "VOC007")
    assert only_edit(told) == ReplaceTensor("t2d", "BOOL", (512,), healthy_mask())
    assert (told.safety, told.assumption) == (
        "unsafe",
        "d2t belongs to this head, and t2d, which marks as many ids and others, is left from another map.",
    )
    assert plan(folder).steps == ()


def test_a_short_mask_is_written_in_full_length(tmp_path: Path) -> None:
    draft = draft_of()
    mask = decode(draft.tensors["t2d"]).astype(bool)
    draft.tensors["t2d"] = bools(mask[: int(np.flatnonzero(mask)[-1]) + 1])
    assert len(draft.tensors["t2d"].data) < 512
    told = answer(write(draft, tmp_path), "VOC018")
    assert only_edit(told) == ReplaceTensor("t2d", "BOOL", (512,), healthy_mask())
    assert told.safety == "safe"


def test_a_lost_mask_is_added_beside_the_map_with_its_prefix(tmp_path: Path) -> None:
    draft = draft_of()
    del draft.tensors["t2d"]
    draft.tensors["model.d2t"] = draft.tensors.pop("d2t")
    told = answer(write(draft, tmp_path), "VOC023")
    assert only_edit(told) == AddTensor("model.t2d", "BOOL", (512,), healthy_mask())
    assert told.safety == "safe"


def test_a_mask_for_another_target_gets_the_length_of_the_drafts_own_vocabulary(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors["t2d"] = bools(np.arange(516) % 4 == 0)  # of 516 ids, not 512
    told = answer(write(draft, tmp_path), "VOC007")
    assert only_edit(told) == ReplaceTensor("t2d", "BOOL", (512,), healthy_mask())


def stale(draft: Draft) -> Draft:
    draft.tensors["t2d"] = bools(np.arange(512) % 3 == 0)
    return draft


@pytest.mark.parametrize(
    ("rule", "draft", "words"),
    [
        ("VOC018", "absolute", "not a right map of offsets as it stands"),
        ("VOC018", "damaged", "not a right map of offsets as it stands"),
        ("VOC018", "whole", "covers the whole vocabulary"),
        ("VOC007", "lengths", "may belong to another head"),
        ("VOC023", "two readings", "would seem to prove it"),
        ("VOC007", "float", "not a right map of offsets as it stands"),
    ],
)
def test_a_mask_is_not_written_from_a_map_in_doubt(rule: str, draft: str, words: str, tmp_path: Path) -> None:
    made = draft_of("specforge-eagle3-fullvocab" if draft == "whole" else "specforge-eagle3")
    short = Tensor("BOOL", (500,), made.tensors["t2d"].data[:500])
    match draft:
        case "absolute":
            map_of(made, lambda d2t: d2t + INDEX)
            made.tensors["t2d"] = short
        case "damaged":
            map_of(made, lambda d2t: np.where(INDEX == 127, 5000, d2t))
            made.tensors["t2d"] = short
        case "whole":
            made.tensors["t2d"] = short
        case "lengths":
            map_of(stale(made), lambda d2t: d2t[:-8])
        case "two readings":
            map_of(made, lambda _: 2 * INDEX)
            del made.tensors["t2d"]
        case "float":
            map_of(stale(made), lambda d2t: d2t, dtype="F32")
    told = answer(write(made, tmp_path), rule)
    assert isinstance(told, str)
    assert words in told


def test_a_mask_that_is_the_same_map_moved_is_kept_as_evidence(tmp_path: Path) -> None:
    draft = draft_of()
    map_of(draft, lambda d2t: d2t + 1)
    folder = write(draft, tmp_path)
    told = answer(folder, "VOC038")
    assert isinstance(told, str)
    assert "the same map moved by 1" in told
    assert plan(folder, select=("t2d-from-d2t",)).steps == ()
    assert plan(folder, unsafe=True).steps == ()


def test_a_mask_that_is_turned_round_is_written_again(tmp_path: Path) -> None:
    draft = draft_of()
    right = decode(draft.tensors["t2d"]).astype(bool)
    draft.tensors["t2d"] = bools(~right)
    told = answer(write(draft, tmp_path), "VOC007")
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    assert only_edit(told).data == right.tobytes()


def test_target_ids_are_repaired_first_and_their_mask_after(tmp_path: Path) -> None:
    draft = draft_of()
    map_of(draft, lambda d2t: d2t + INDEX)
    mask = decode(draft.tensors["t2d"]).astype(bool)
    draft.tensors["t2d"] = bools(mask[: int(np.flatnonzero(mask)[-1]) + 1])
    made = plan(write(draft, tmp_path))
    assert [s.treatment for s in made.steps] == ["map-to-offsets", "t2d-from-d2t"]
    assert made.after.facts.vocab.confirmed == 1


# --- d2t-from-t2d -------------------------------------------------------------------------------------------------


def without_map(dialect: str = "specforge-eagle3", **sizes: object) -> Draft:
    draft = draft_of(dialect, **sizes)
    del draft.tensors["d2t"]
    return draft


def test_an_absent_map_is_made_in_ascending_order_as_an_assumption(tmp_path: Path) -> None:
    folder = write(without_map(), tmp_path)
    told = answer(folder, "VOC008")
    assert only_edit(told) == AddTensor("d2t", "I64", (128,), draft_of().tensors["d2t"].data)
    assert told.safety == "unsafe"
    assert "ascending order of target ids" in (told.assumption or "")
    assert plan(folder).steps == ()
    assert [s.treatment for s in plan(folder, unsafe=True).steps] == ["d2t-from-t2d"]


@pytest.mark.parametrize(
    ("rule", "case", "words"),
    [
        ("VOC008", "no t2d", "Neither d2t nor t2d is stored"),
        ("VOC008", "all true", "marks every token"),
        ("VOC008", "one more", "marks 129 target ids, and the head has 128 rows"),
        ("VOC008", "not a mask", "no readable mask of zeros and ones"),
        ("VOC008", "outside", "beyond the vocabulary of 512"),
        ("VOC008", "claimed", "or draft_vocab_size another number"),
        ("VOC008", "frequency", "does not number draft ids in the order of target ids"),
    ],
)
def test_an_absent_map_is_not_made_where_the_mask_does_not_tell(
    rule: str, case: str, words: str, tmp_path: Path
) -> None:
    draft = without_map("model-optimizer-eagle3" if case == "frequency" else "specforge-eagle3")
    mask = decode(draft_of().tensors["t2d"]).astype(bool).copy()
    match case:
        case "no t2d":
            del draft.tensors["t2d"]
        case "all true":
            draft.tensors["t2d"] = bools(np.ones(512, dtype=bool))
        case "one more":
            mask[np.flatnonzero(~mask)[0]] = True
            draft.tensors["t2d"] = bools(mask)
        case "not a mask":
            draft.tensors["t2d"] = integers(mask.astype(np.int64) * 7, "I64")
        case "outside":
            moved = np.concatenate([mask, np.zeros(64, dtype=bool)])
            moved[np.flatnonzero(moved)[-1]] = False
            moved[570] = True
            draft.tensors["t2d"] = bools(moved)
        case "claimed":
            assert draft.config is not None
            draft.config["draft_vocab_size"] = 120
        case "frequency":
            draft.tensors["t2d"] = bools(mask)
    told = answer(write(draft, tmp_path), rule)
    assert isinstance(told, str)
    assert words in told


@pytest.mark.parametrize(
    "name", ["draft_id_to_target_id", "model.draft_id_to_target_id", "draft_to_target", "draft_d2t"]
)
def test_a_map_under_another_name_is_renamed_and_none_is_made_up(name: str, tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors[name] = draft.tensors.pop("d2t")
    folder = write(draft, tmp_path)
    told = answer(folder, "VOC037" if "d2t" in name else "VOC036")
    assert isinstance(told, Proposal)
    assert told.edits == (RenameTensor(name, "d2t"),)
    assert told.safety == "unsafe"
    assert [s.treatment for s in plan(folder, unsafe=True).steps] == ["rename-map"]


def test_target_ids_under_another_name_are_not_renamed(tmp_path: Path) -> None:
    draft = draft_of()
    map_of(draft, lambda d2t: d2t + INDEX)
    draft.tensors["draft_id_to_target_id"] = draft.tensors.pop("d2t")
    told = answer(write(draft, tmp_path), "VOC036")
    assert isinstance(told, str)
    assert "no right map of offsets" in told


def test_numbers_for_each_row_of_the_head_are_neither_dropped_nor_passed_over(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors["chosen"] = draft.tensors.pop("d2t")
    folder = write(draft, tmp_path)
    for rule in ("VOC008", "KEY010"):
        told = answer(folder, rule)
        assert isinstance(told, str)
        assert "chosen holds 128" in told
    assert plan(folder, unsafe=True).steps == ()


def test_a_stored_map_of_zeros_is_not_replaced_by_one_from_the_mask(tmp_path: Path) -> None:
    draft = draft_of()
    map_of(draft, lambda d2t: 0 * d2t)
    folder = write(draft, tmp_path)
    told = answer(folder, "VOC011")
    assert isinstance(told, str)
    assert plan(folder, unsafe=True).steps == ()
