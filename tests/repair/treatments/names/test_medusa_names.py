"""Names of Medusa heads: the renames, and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from treatment_cases import Draft, answer, draft_of, plan, renames, write

from ckptdoctor.repair.edits import RenameTensor, SetConfig


def prefixed(draft: Draft, prefix: str) -> Draft:
    draft.tensors = {prefix + name: tensor for name, tensor in draft.tensors.items()}
    return draft


@pytest.mark.parametrize("prefix", ["medusa_head.", "module.", "module.medusa_head.", "_orig_mod.heads."])
def test_what_stands_before_the_numbers_is_taken_off(tmp_path: Path, prefix: str) -> None:
    draft = draft_of("medusa-original")
    names = list(draft.tensors)
    told = answer(write(prefixed(draft, prefix), tmp_path), "MED011")
    assert renames(told) == {prefix + name: name for name in names}


@pytest.mark.parametrize("prefix", ["module.", "medusa_head."])
def test_heads_in_the_layout_of_vllm_stay_in_it(tmp_path: Path, prefix: str) -> None:
    draft = draft_of("medusa-vllm")
    names = list(draft.tensors)
    told = answer(write(prefixed(draft, prefix), tmp_path), "MED011")
    assert renames(told) == {prefix + name: name for name in names}


def test_a_name_that_is_taken_is_not_given_twice(tmp_path: Path) -> None:
    draft = prefixed(draft_of("medusa-original"), "medusa_head.")
    draft.tensors["4.1.weight"] = draft.tensors["medusa_head.4.1.weight"]
    told = answer(write(draft, tmp_path), "MED011")
    assert isinstance(told, str)
    assert "4.1.weight, which is there already" in told


def test_for_a_vllm_that_does_not_know_the_authors_names(tmp_path: Path) -> None:
    draft = draft_of("medusa-original", layers=2)
    assert draft.config is not None
    draft.config |= {"model_type": "medusa", "medusa_num_heads": 5, "hidden_size": 64, "vocab_size": 512}
    made = plan(write(draft, tmp_path), "vllm==0.18.0", unsafe=True)
    edits = [edit for step in made.steps for edit in step.edits]
    assert {e.name: e.to for e in edits if isinstance(e, RenameTensor)} == {
        name: _of_vllm(name) for name in draft.tensors
    }
    assert [(e.key, e.value) for e in edits if isinstance(e, SetConfig)] == [("medusa_fc_bias", True)]


def _of_vllm(name: str) -> str:
    head, layer, *rest = name.split(".")
    return f"blocks.{head}.layers.{layer}.{rest[1]}" if rest[0] == "linear" else f"lm_heads.{head}.weight"


def test_a_vllm_that_knows_them_gets_no_other_names(tmp_path: Path) -> None:
    draft = draft_of("medusa-original")
    assert draft.config is not None
    draft.config |= {"model_type": "medusa", "medusa_num_heads": 5, "hidden_size": 64, "vocab_size": 512}
    made = plan(write(draft, tmp_path), "vllm==0.25.0", unsafe=True)
    assert [type(edit) for step in made.steps for edit in step.edits] == [SetConfig]
