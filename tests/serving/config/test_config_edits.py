"""Edits of config.json with which a release serves a draft: found by planning, told as they were planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from story_drafts import IDS_KEY, draft, facts_of, target, trainer

from ckptdoctor.planning import better_releases
from ckptdoctor.serving import contracts, load_plan
from ckptdoctor.serving.config.config_edits import edited


def served_with(facts: object, engine: str, version: str) -> tuple[tuple[str, object], ...]:
    plan = better_releases(facts, load_plan(facts, contracts()[engine], version))  # type: ignore[arg-type]
    if plan.edits:
        again = load_plan(edited(facts, plan.edits), contracts()[engine], version)  # type: ignore[arg-type]
        assert again.outcome == "served"
    return plan.edits


def test_a_head_that_is_tied_by_mistake(tmp_path: Path) -> None:
    folder = draft(tmp_path / "draft", tie_word_embeddings=True)
    facts = facts_of(folder, target(tmp_path / "target", "LlamaForCausalLM", 8, "llama"))
    assert served_with(facts, "sglang", "0.5.23") == (("tie_word_embeddings", False),)


def test_a_draft_that_is_served_needs_none() -> None:
    assert served_with(trainer("spec_eagle3_llama"), "vllm", "0.33.0") == ()


def test_what_no_edit_can_repair_gets_none(tmp_path: Path) -> None:
    folder = draft(tmp_path / "draft", architectures=["NoSuchModel"])
    facts = facts_of(folder, target(tmp_path / "target", "LlamaForCausalLM", 8, "llama"))
    assert served_with(facts, "sglang", "0.5.23") == ()


@pytest.mark.parametrize("nested", [None, [], "three"])
def test_no_key_is_written_into_what_is_no_mapping(tmp_path: Path, nested: object) -> None:
    facts = facts_of(draft(tmp_path / "draft", eagle_config=nested), None)
    changed = edited(facts, ((f"eagle_config.{IDS_KEY}", [1, 3, 4]),))
    assert changed is None
