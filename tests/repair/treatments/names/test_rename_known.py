"""The private names of a trainer become those of the engines, where every sign is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from treating.names import renamed
from treatment_cases import Draft, answer, draft_of, floats, plan, refusal, renames, write

from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.case import Case, Proposal, RefusedError
from ckptdoctor.repair.support.renaming import all_fits


def early_automodel() -> Draft:
    """An EAGLE-3 draft with the names of NeMo Automodel before NVIDIA-NeMo/Automodel#2235."""
    draft = draft_of("automodel-eagle3")
    for old, new in {
        "model.layers.0.input_layernorm.": "decoder.input_emb_layernorm.",
        "model.layers.0.hidden_norm.": "decoder.hidden_layernorm.",
        "model.layers.0.": "decoder.",
        "model.fc.": "hidden_proj.",
        "model.": "",
    }.items():
        renamed(draft, old, new)
    return draft


def test_the_private_names_of_a_trainer_become_those_of_the_engines(tmp_path: Path) -> None:
    folder = write(early_automodel(), tmp_path)
    told = answer(folder, "KEY021")
    found = renames(told)
    assert found["hidden_proj.weight"] == "fc.weight"
    assert found["decoder.input_emb_layernorm.weight"] == "midlayer.input_layernorm.weight"
    assert found["decoder.hidden_layernorm.weight"] == "midlayer.hidden_norm.weight"
    assert found["decoder.self_attn.q_proj.weight"] == "midlayer.self_attn.q_proj.weight"
    assert len(found) == 11
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    assert {f.rule for f in plan(folder).before.judgement.findings} == {"AUX008", "KEY021"}
    assert {f.rule for f in plan(folder).after.judgement.findings} == {"AUX008"}


def test_without_all_signs_a_name_is_not_taken_for_the_trainers(tmp_path: Path) -> None:
    draft = renamed(early_automodel(), "hidden_proj.", "fc.")
    assert not any(f.rule == "KEY021" for f in plan(write(draft, tmp_path)).before.judgement.findings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"decoder.post_attention_layernorm.weight": None}, "would still lack"),
        ({"decoder.mlp.up_proj.weight": (96, 64)}, "do not fit"),
        ({"fc.weight": (64, 192)}, "hidden_proj.weight would be called fc.weight"),
    ],
)
def test_a_draft_that_the_table_does_not_fit_is_left_alone(
    change: dict[str, tuple[int, ...] | None], words: str, tmp_path: Path
) -> None:
    draft = early_automodel()
    for name, shape in change.items():
        if shape is None:
            del draft.tensors[name]
        else:
            draft.tensors[name] = floats(np.zeros(shape))
    assert words in refusal(answer(write(draft, tmp_path), "KEY021"))


def test_names_that_would_make_another_draft_of_it_are_not_given(tmp_path: Path) -> None:
    before = plan(write(draft_of(), tmp_path)).before
    edits = [RenameTensor(name, f"part{at}") for at, name in enumerate(before.facts.tensors)]
    with pytest.raises(RefusedError, match="other_draft"):
        all_fits(Case(before.checkpoint, before.facts), edits)
