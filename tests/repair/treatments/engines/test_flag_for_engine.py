"""Flags for one named engine, each borne out by a plan with the edits made."""

from __future__ import annotations

from pathlib import Path

import pytest
from treating.engines import repaired, story
from treatment_cases import answer, draft_of, refusal, settings, write

from ckptdoctor.repair.plan.case import Proposal
from ckptdoctor.repair.treatments.engines import flag_for_engine

LLAMA = ("LlamaForCausalLM", 61, "llama")


def test_a_flag_is_written_where_the_release_looks_for_it(tmp_path: Path) -> None:
    place = story(tmp_path, [2, 30, 58], LLAMA, {"norm_before_residual": True})
    told = answer(place, "SRV002", "vllm==0.33.0")
    assert settings(told) == {"norm_before_residual": True}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    found = repaired(place, "vllm==0.33.0")
    assert [p.outcome for p in found.before.plans] == ["degraded"]
    assert [p.outcome for p in found.after.plans] == ["served"]


def test_a_flag_that_a_release_does_not_know_cannot_be_set_anywhere(tmp_path: Path) -> None:
    told = refusal(answer(write(draft_of("specforge-eagle31"), tmp_path), "SRV002", "sglang==0.5.11"))
    assert "No field of config.json changes this in sglang==0.5.11" in told


def test_a_flag_that_no_place_takes_without_a_loss_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = story(tmp_path, [2, 30, 58], LLAMA, {"norm_before_residual": True})
    monkeypatch.setattr(flag_for_engine, "_places", lambda *_: ["somewhere.norm_before_residual"])
    assert "does not take norm_before_residual at any place" in refusal(answer(place, "SRV002", "vllm==0.33.0"))
