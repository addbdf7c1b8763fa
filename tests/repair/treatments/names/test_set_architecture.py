"""The class is the one under which most releases, or the named ones, load the draft."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from treating.names import config
from treatment_cases import Draft, answer, draft_of, floats, plan, refusal, settings, write

from ckptdoctor.facts import Facts
from ckptdoctor.repair.plan.case import Proposal
from ckptdoctor.repair.plan.reaching import Reach
from ckptdoctor.repair.treatments.names import set_architecture


@pytest.mark.parametrize(
    ("dialect", "says", "rule", "right"),
    [
        ("specforge-eagle3", ["Qwen3ForCausalLM"], "ARC001", "LlamaForCausalLMEagle3"),
        ("specforge-eagle3", ["LlamaForCausalLM"], "ARC002", "LlamaForCausalLMEagle3"),
        ("specforge-eagle3", None, "ARC003", "LlamaForCausalLMEagle3"),
        ("specforge-eagle3", ["DFlashDraftModel"], "ARC004", "LlamaForCausalLMEagle3"),
        ("mla-eagle3", ["LlamaForCausalLMEagle3"], "ARC005", "Eagle3DeepseekV2ForCausalLM"),
    ],
)
def test_the_class_is_the_one_under_which_most_releases_load_the_draft(
    dialect: str, says: list[str] | None, rule: str, right: str, tmp_path: Path
) -> None:
    draft = draft_of(dialect)
    config(draft)["architectures"] = says
    folder = write(draft, tmp_path)
    told = answer(folder, rule)
    assert settings(told) == {"architectures": [right]}
    assert isinstance(told, Proposal)
    assert told.safety == ("unsafe" if rule == "ARC004" else "safe")
    after = plan(folder, unsafe=True, select=(rule,)).after
    assert rule not in {f.rule for f in after.judgement.findings}


def test_a_named_engine_without_the_class_gets_the_one_that_it_has(tmp_path: Path) -> None:
    draft = draft_of()
    config(draft)["architectures"] = ["LlamaForCausalLMEagle3Deep"]
    folder = write(draft, tmp_path)
    assert settings(answer(folder, "SRV005", "vllm==0.33.0")) == {"architectures": ["LlamaForCausalLMEagle3"]}
    assert [p.outcome for p in plan(folder, "vllm==0.33.0", "sglang==0.5.23").after.plans] == ["served", "served"]


def test_names_that_are_treated_later_do_not_hide_the_right_class(tmp_path: Path) -> None:
    folder = write(draft_of("automodel-eagle3"), tmp_path)
    found = plan(folder, "sglang==0.5.9", "vllm==0.33.0")
    assert [s.treatment for s in found.steps] == ["set-architecture", "strip-prefix", "layout-for-engine"]
    assert [p.outcome for p in found.after.plans] == ["served", "served"]


def biased_eagle1(name: str) -> Draft:
    draft = draft_of("eagle-eagle1")
    draft.pickle = None
    config(draft)["architectures"] = [name]
    for part in ("q_proj", "k_proj", "v_proj"):
        weight = draft.tensors[f"layers.0.self_attn.{part}.weight"]
        draft.tensors[f"layers.0.self_attn.{part}.bias"] = floats(np.ones(weight.shape[0]))
    return draft


def test_a_class_that_drops_trained_biases_is_never_chosen(tmp_path: Path) -> None:
    folder = write(biased_eagle1("Qwen2ForCausalLM"), tmp_path)
    told = refusal(answer(folder, "SRV005", "vllm==0.33.0"))
    assert "no place for layers.0.self_attn." in told
    assert plan(folder, "vllm==0.33.0").steps == ()


def test_two_engines_that_want_two_names_get_none(tmp_path: Path) -> None:
    draft = draft_of("eagle-eagle1")
    draft.tensors["fc.bias"] = floats(np.ones(64))
    config(draft)["architectures"] = ["LlamaForCausalLM"]
    folder = write(draft, tmp_path)
    told = refusal(answer(folder, "ARC002", "sglang==0.5.23", "vllm==0.33.0"))
    assert "The named engines want different names" in told
    assert "sglang 0.5.23: LlamaForCausalLMEagle" in told
    assert settings(answer(folder, "ARC002", "sglang==0.5.23")) == {"architectures": ["LlamaForCausalLMEagle"]}


def test_a_name_that_one_engine_would_lose_is_not_written_without_naming_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = draft_of()
    config(draft)["architectures"] = ["LlamaForCausalLM"]
    folder = write(draft, tmp_path)

    def reached(_: object, facts: Facts) -> Reach:
        plain = facts.draft.architecture.algorithm == "plain"
        return Reach(1, 1, frozenset({"vllm"})) if plain else Reach(9, 9, frozenset({"sglang"}))

    monkeypatch.setattr(set_architecture, "reach", reached)
    assert "the newest of vllm would no longer load the draft" in refusal(answer(folder, "ARC002"))


def test_a_name_that_is_as_good_as_any_stays(tmp_path: Path) -> None:
    assert "No class name that is known" in refusal(answer(write(draft_of("eagle-eagle1"), tmp_path), "ARC002"))
