"""A lost embedding is copied from the target, where it can give it."""

from __future__ import annotations

from pathlib import Path

import pytest
from treating.tensors import target_with, tensor
from treatment_cases import Draft, Tensor, answer, draft_of, write

from ckptdoctor.repair.edits import CopyTensor
from ckptdoctor.repair.plan.case import Proposal


def without_embedding() -> Draft:
    draft = draft_of("speculators-eagle3")
    del draft.tensors["embed_tokens.weight"]
    return draft


def test_an_engine_that_does_not_share_gets_the_targets_embedding(tmp_path: Path) -> None:
    folder = write(without_embedding(), tmp_path / "d")
    target = target_with(tmp_path / "t", {"model.embed_tokens.weight": tensor(512, 64)})
    told = answer(folder, "KEY022", "mlx-vlm==0.6.5", target=target)
    assert isinstance(told, Proposal), told
    (edit,) = told.edits
    assert isinstance(edit, CopyTensor)
    assert (edit.name, edit.source.name, edit.rows) == ("embed_tokens.weight", "model.embed_tokens.weight", None)
    assert told.safety == "unsafe"


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({}, "No embedding of the target"),
        ({"model.embed_tokens.weight": tensor(512, 32)}, "has 32 values"),
        ({"model.embed_tokens.weight": tensor(600, 64)}, "has 600 rows"),
        ({"lm_head.weight": tensor(512, 64)}, "No embedding of the target"),
    ],
)
def test_no_embedding_is_copied_from_a_target_that_cannot_give_it(
    tensors: dict[str, Tensor], said: str, tmp_path: Path
) -> None:
    target = target_with(tmp_path / "t", tensors or {"norm.weight": tensor(64)})
    told = answer(write(without_embedding(), tmp_path / "d"), "KEY022", "mlx-vlm==0.6.5", target=target)
    assert isinstance(told, str)
    assert said in told
