"""A lost head is copied from the target row by row, and not by a map in doubt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from treating.tensors import target_with, tensor
from treatment_cases import Draft, Tensor, answer, decode, draft_of, integers, map_of, write

from ckptdoctor.repair.edits import CopyTensor
from ckptdoctor.repair.plan.case import Proposal


def headless(dialect: str = "specforge-eagle3") -> Draft:
    draft = draft_of(dialect)
    del draft.tensors["lm_head.weight"]
    return draft


@pytest.mark.parametrize("order", ["ascending", "frequency"])
def test_the_rows_of_the_targets_head_come_in_the_order_of_the_map(order: str, tmp_path: Path) -> None:
    draft = draft_of("model-optimizer-eagle3", map_order=order)
    del draft.tensors["lm_head.weight"]
    target = target_with(
        tmp_path / "t", {"lm_head.weight": tensor(512, 64), "model.embed_tokens.weight": tensor(512, 64)}
    )
    told = answer(write(draft, tmp_path / "d"), "KEY008", target=target)
    assert isinstance(told, Proposal), told
    (edit,) = told.edits
    assert isinstance(edit, CopyTensor)
    targets = decode(draft.tensors["d2t"]) + np.arange(128)
    assert (edit.name, edit.source.name, edit.rows) == ("lm_head.weight", "lm_head.weight", tuple(targets))
    assert edit.path == target / "model.safetensors"
    assert (told.safety, told.assumption) == ("unsafe", "The draft was trained with the target's own head, frozen.")


def test_a_whole_head_is_copied_and_a_padded_one_is_cut(tmp_path: Path) -> None:
    folder = write(headless("specforge-eagle3-fullvocab"), tmp_path / "d")
    for rows, wanted in ((512, None), (520, tuple(range(512)))):
        target = target_with(tmp_path / f"t{rows}", {"lm_head.weight": tensor(rows, 64)})
        told = answer(folder, "KEY009", target=target)
        assert isinstance(told, Proposal), told
        assert isinstance(told.edits[0], CopyTensor)
        assert told.edits[0].rows == wanted


def test_a_tied_target_gives_its_embedding(tmp_path: Path) -> None:
    target = target_with(tmp_path / "t", {"model.embed_tokens.weight": tensor(512, 64)}, tie_word_embeddings=True)
    told = answer(write(headless(), tmp_path / "d"), "KEY008", target=target)
    assert isinstance(told, Proposal), told
    assert isinstance(told.edits[0], CopyTensor)
    assert told.edits[0].source.name == "model.embed_tokens.weight"


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        (None, "Pass --target with a folder that holds its weights"),
        (
            {"lm_head.weight": tensor(512, 96)},
            "A row of the target's head has 96 values, and the draft's states have 64",
        ),
        ({"lm_head.weight": tensor(200, 64)}, "The target's head has 200 rows"),
        ({"lm_head.weight": integers(np.zeros((512, 64)), "I8")}, "it may be quantised"),
        ({"lm_head.qweight": integers(np.zeros((8, 64)), "I32")}, "it may be quantised"),
        ({"model.embed_tokens.weight": tensor(512, 64)}, "No head of the target was found"),
    ],
)
def test_no_head_is_copied_from_a_target_that_cannot_give_it(
    tensors: dict[str, Tensor] | None, words: str, tmp_path: Path
) -> None:
    target = None if tensors is None else target_with(tmp_path / "t", tensors)
    told = answer(write(headless(), tmp_path / "d"), "KEY008", target=target)
    assert isinstance(told, str)
    assert words in told


def test_a_whole_head_without_weights_names_the_other_way(tmp_path: Path) -> None:
    told = answer(write(headless("specforge-eagle3-fullvocab"), tmp_path), "KEY009")
    assert isinstance(told, str)
    assert "set draft_vocab_size to null" in told


@pytest.mark.parametrize("fault", ["absolute", "two readings", "stale", "no map", "short"])
def test_no_rows_are_chosen_by_a_map_in_doubt(fault: str, tmp_path: Path) -> None:
    draft = headless()
    match fault:
        case "absolute":
            map_of(draft, lambda d2t: d2t + np.arange(128))
        case "two readings":
            map_of(draft, lambda _: 2 * np.arange(128))
            del draft.tensors["t2d"]
        case "stale":
            draft.tensors["t2d"] = replace(draft.tensors["t2d"], data=draft.tensors["t2d"].data[::-1])
        case "no map":
            del draft.tensors["d2t"]
        case "short":
            map_of(draft, lambda d2t: d2t[:-8])
    target = target_with(tmp_path / "t", {"lm_head.weight": tensor(512, 64)})
    told = answer(write(draft, tmp_path / "d"), "KEY008", target=target)
    assert isinstance(told, str)
    assert "The map file of the training run decides" in told
