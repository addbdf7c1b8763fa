"""A layer that is stored under another number than 0 gets the name that engines look for."""

from __future__ import annotations

from pathlib import Path

import pytest
from treatment_cases import answer, draft_of, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.examining import survey
from ckptdoctor.facts import read_target
from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.case import Proposal


def renamed(told: Proposal | str) -> dict[str, str]:
    assert isinstance(told, Proposal), told
    return {edit.name: edit.to for edit in told.edits if isinstance(edit, RenameTensor)}


@pytest.mark.parametrize("stored", ["layers.1.", "layers.36.", "model.layers.36."])
def test_the_layer_is_renamed_with_the_prefix_that_it_alone_carries(stored: str, tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors = {n.replace("midlayer.", stored): t for n, t in draft.tensors.items()}
    folder = write(draft, tmp_path)
    told = renamed(answer(folder, "KEY030"))
    assert told
    assert all(old.startswith(stored) and new == f"midlayer.{old.removeprefix(stored)}" for old, new in told.items())


def test_a_later_layer_of_a_deeper_draft_is_no_layer_under_another_number(tmp_path: Path) -> None:
    draft = draft_of("speculators-eagle3")
    draft.config["transformer_layer_config"]["num_hidden_layers"] = 2
    draft.tensors = {
        n.replace("layers.0.", "layers.1."): t for n, t in draft.tensors.items() if not n.endswith("hidden_norm.weight")
    }
    folder = write(draft, tmp_path)
    found = survey(open_checkpoint(str(folder)), read_target(str(folder / "target")), rulebook(), []).judgement.findings
    assert "KEY030" not in {f.rule for f in found}
    assert "KEY006" in {f.rule for f in found}


def test_a_layer_that_lacks_a_part_is_left_alone(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors = {n.replace("midlayer.", "layers.36."): t for n, t in draft.tensors.items() if "o_proj" not in n}
    told = answer(write(draft, tmp_path), "KEY030")
    assert not isinstance(told, Proposal)
