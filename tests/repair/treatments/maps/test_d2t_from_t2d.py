"""A lost d2t is made from t2d as an assumption, and not where the mask does not tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from treating.maps import only_edit
from treatment_cases import Draft, answer, bools, decode, draft_of, integers, map_of, plan, write

from ckptdoctor.repair.edits import AddTensor


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
