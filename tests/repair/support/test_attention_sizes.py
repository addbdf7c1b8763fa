"""Sizes of attention: one field that explains every tensor is corrected, two readings are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from treatment_cases import answer, draft_of, plan, write

from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Proposal


def edits_for(folder: Path, config: dict[str, Any], dialect: str = "specforge-eagle3", **sizes: Any) -> Any:
    """The edits proposed for the first disagreeing size of a draft whose config says `config`, or the refusal."""
    draft = draft_of(dialect, **sizes)
    assert draft.config is not None
    draft.config |= config
    draft.config = {key: value for key, value in draft.config.items() if value is not None}
    told = answer(write(draft, folder), "GEO009")
    return set(told.edits) if isinstance(told, Proposal) else told


def test_key_heads_that_are_not_given_come_from_the_tensors(tmp_path: Path) -> None:
    assert edits_for(tmp_path / "d", {"num_key_value_heads": None}) == {SetConfig("num_key_value_heads", 2)}


def test_heads_in_each_others_place_are_exchanged(tmp_path: Path) -> None:
    swapped = {"num_attention_heads": 2, "num_key_value_heads": 4}
    wanted = {SetConfig("num_attention_heads", 4), SetConfig("num_key_value_heads", 2)}
    assert edits_for(tmp_path / "d", swapped) == wanted


@pytest.mark.parametrize("claimed", [20, 24, 40])
def test_a_head_dim_that_gives_no_whole_heads_is_corrected(claimed: int, tmp_path: Path) -> None:
    assert edits_for(tmp_path / "d", {"head_dim": claimed}, head_dim=32) == {SetConfig("head_dim", 32)}


def test_a_head_dim_that_divides_the_rows_is_left_alone_unless_the_target_settles_it(tmp_path: Path) -> None:
    draft = draft_of(head_dim=32)
    assert draft.config is not None
    assert draft.target is not None
    draft.config["head_dim"] = 16
    assert "heads and head_dim could both be wrong" in str(answer(write(draft, tmp_path / "one"), "GEO009"))
    draft.target["head_dim"] = 32
    told = answer(write(draft, tmp_path / "two"), "GEO009")
    assert isinstance(told, Proposal)
    assert told.edits == (SetConfig("head_dim", 32),)


@pytest.mark.parametrize(
    ("field", "wrong", "right"),
    [
        ("q_lora_rank", 20, 48),
        ("kv_lora_rank", 20, 32),
        ("qk_rope_head_dim", 4, 8),
        ("qk_nope_head_dim", 4, 16),
        ("v_head_dim", 4, 16),
        ("num_attention_heads", 2, 4),
    ],
)
def test_one_wrong_field_of_latent_attention_is_corrected(field: str, wrong: int, right: int, tmp_path: Path) -> None:
    draft = draft_of("mla-eagle3")
    assert draft.config is not None
    assert draft.config[field] == right
    draft.config[field] = wrong
    done = plan(write(draft, tmp_path / "d"))
    assert [edit for step in done.steps for edit in step.edits] == [SetConfig(field, right)]
    assert "GEO009" not in {left.finding.rule for left in done.unfixed}


def test_two_wrong_fields_of_latent_attention_are_left_alone(tmp_path: Path) -> None:
    told = edits_for(tmp_path / "d", {"qk_rope_head_dim": 4, "v_head_dim": 4}, "mla-eagle3")
    assert "product of several fields" in told
