"""A t2d is written from a right map, and stays where the map is in doubt."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from treating.maps import INDEX, VOCAB, draft_with, only_edit, right_maps
from treatment_cases import Draft, Tensor, answer, bools, decode, draft_of, map_of, plan, write

from ckptdoctor.repair.edits import AddTensor, ReplaceTensor
from ckptdoctor.repair.plan.case import Proposal

# --- properties: any right map, in any order --------------------------------------------------------------------------


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


# --- t2d-from-d2t -----------------------------------------------------------------------------------------------------


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
