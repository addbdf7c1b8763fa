"""Tensors that are none of the draft are left out, and what may be a part of it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from treating.tensors import dropped, tensor
from treatment_cases import answer, draft_of, plan, write

from ckptdoctor.repair.plan.case import Proposal


def test_copies_of_the_target_are_left_out_all_of_them(tmp_path: Path) -> None:
    draft = draft_of()
    names = [f"target_model.model.layers.{n}.mlp.up_proj.weight" for n in range(75)]
    draft.tensors |= dict.fromkeys(names, tensor(4, 4))
    told = answer(write(draft, tmp_path), "KEY012")
    assert dropped(told) == [(name, None) for name in sorted(names)]
    assert isinstance(told, Proposal)
    assert told.safety == "safe"


def test_rotary_buffers_are_left_out_when_they_are_selected(tmp_path: Path) -> None:
    draft = draft_of("eagle-eagle3")
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY013")
    assert {name for name, _ in dropped(told)} == {n for n in draft.tensors if n.endswith("inv_freq")}
    assert [s.treatment for s in plan(folder).steps] == []
    assert "drop-tensors" in [s.treatment for s in plan(folder, select=("KEY013",)).steps]


def test_strangers_are_left_out_on_the_assumption_that_they_are_the_trainers(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors |= {"loss_head.weight": tensor(64), "loss_head.scale": tensor(64)}
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY010")
    assert dropped(told) == [("loss_head.scale", None), ("loss_head.weight", None)]
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"
    assert told.assumption == "They belong to the trainer, and the draft computes nothing with them."
    assert plan(folder).steps == ()


@pytest.mark.parametrize(
    ("rule", "extra", "lost", "words"),
    [
        ("KEY010", "normalisation.weight", r"norm.weight", "may be"),
        ("KEY010", "loss_head.weight", "midlayer.post_attention_layernorm.weight", "may be what is left of it"),
        ("KEY010", "loss_head.weight", "midlayer.self_attn.k_proj.weight", "may be what is left of it"),
        ("KEY010", "loss_head.weight", "lm_head.weight", "lacks lm_head.weight"),
        ("KEY012", "verifier_lm_head.weight", "lm_head.weight", "lacks lm_head.weight"),
        ("KEY012", "target_model.norm.weight", "norm.weight", "may be what is left of it"),
        ("KEY010", "midlayer.self_attn.sinks", None, "inside a decoder layer"),
        ("KEY010", "fc.lora_A.weight", None, "low-rank adapter"),
        ("KEY010", "base_model.model.midlayer.self_attn.q_proj.lora_B.weight", None, "low-rank adapter"),
    ],
)
def test_what_may_be_a_part_of_the_draft_is_not_left_out(
    rule: str, extra: str, lost: str | None, words: str, tmp_path: Path
) -> None:
    draft = draft_of()
    draft.tensors[extra] = tensor(64)
    if lost is not None:
        del draft.tensors[lost]
    folder = write(draft, tmp_path)
    told = answer(folder, rule)
    assert isinstance(told, str)
    assert words in told
    assert all(s.treatment != "drop-tensors" for s in plan(folder, unsafe=True).steps)


def test_what_stands_under_the_prefix_of_the_draft_itself_is_left_out_as_an_assumption(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors = {f"base_model.model.{name}": t for name, t in draft.tensors.items()}
    draft.tensors["base_model.model.gate.weight"] = tensor(64)
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY010")
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"
    assert "drop-tensors" not in [step.treatment for step in plan(folder).steps]
