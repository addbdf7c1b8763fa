"""A config that lacks its model type gets it, unless it would bring other defaults."""

from __future__ import annotations

from pathlib import Path

import pytest
from treating.names import config
from treatment_cases import answer, draft_of, plan, refusal, settings, write

from ckptdoctor.repair.plan.case import Proposal
from ckptdoctor.repair.treatments.names import set_model_type


def test_a_complete_config_gets_the_type_of_its_attention(tmp_path: Path) -> None:
    draft = draft_of()
    del config(draft)["model_type"]
    folder = write(draft, tmp_path)
    told = answer(folder, "ARC007")
    assert settings(told) == {"model_type": "llama"}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    found = plan(folder, "sglang==0.5.23", "vllm==0.33.0")
    assert [p.outcome for p in found.before.plans] == ["refused", "refused"]
    assert [p.outcome for p in found.after.plans] == ["served", "served"]


@pytest.mark.parametrize("key", ["head_dim", "rms_norm_eps", "max_position_embeddings", "num_key_value_heads"])
def test_defaults_that_the_type_would_bring_are_an_assumption(key: str, tmp_path: Path) -> None:
    draft = draft_of()
    del config(draft)["model_type"], config(draft)[key]
    told = answer(write(draft, tmp_path), "ARC007")
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"
    assert told.assumption is not None
    assert "defaults of this model_type" in told.assumption


def test_latent_attention_has_several_types(tmp_path: Path) -> None:
    draft = draft_of("mla-eagle3")
    del config(draft)["model_type"]
    assert "Several model types have latent attention" in refusal(answer(write(draft, tmp_path), "ARC007"))


def test_a_type_that_a_named_release_serves_worse_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = draft_of()
    del config(draft)["model_type"]
    folder = write(draft, tmp_path)
    monkeypatch.setattr(set_model_type, "score", lambda _, facts: (facts.draft.model_type is not None,))
    assert "With model_type llama, sglang 0.5.9 serves" in refusal(answer(folder, "ARC007", "sglang==0.5.9"))
