"""MTP layers and EAGLE-1 drafts under the classes of SGLang and vLLM: what stops, what is silent, what is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_cases import RECIPES, Built, need_shared

from ckptdoctor.planning import plan_for
from ckptdoctor.serving import LoadPlan

VLLM, SGLANG = "vllm==0.33.0", "sglang==0.5.23"


def plan_of(folder: Path, engine: str) -> LoadPlan:
    """The plan for a folder with its target's config in `target`, or that is its own target."""
    target = folder / "target" if (folder / "target").exists() else folder
    plan, _ = plan_for(str(folder), engine, target=str(target), launch=None, trained_with=None)
    return plan


@pytest.mark.parametrize(
    ("recipe", "engine", "outcome", "words"),
    [
        # Nothing of the declared layer is stored: DeepSeek's class stops for each, SGLang says nothing.
        ("mtp-lost-for-vllm", VLLM, "refused", "no MTP layer is stored at model.layers.3.*"),
        ("mtp-lost-for-vllm", SGLANG, "broken", "none is stored"),
        ("fewer-mtp-layers-than-declared", VLLM, "refused", "no tensor is stored at model.layers.4.*"),
        ("fewer-mtp-layers-than-declared", SGLANG, "refused", "takes 1 MTP layer"),
        ("mtp-two-layers", VLLM, "unknown", "not in the contract"),
        # Parts: norms and torch's own Linear stop vLLM, everything else keeps its memory.
        ("mtp-norm-lost", VLLM, "refused", "model.layers.3.hnorm.weight"),
        ("mtp-norm-lost", SGLANG, "degraded", "model.layers.3.hnorm.weight"),
        ("mtp-entrance-lost", VLLM, "refused", "eh_proj"),
        ("mtp-entrance-lost", SGLANG, "broken", "eh_proj"),
        ("mtp-fc-missing", VLLM, "broken", "mtp.fc.weight"),
        ("mtp-fc-missing", "vllm==0.20.2", "refused", "mtp.fc.weight"),
        ("mtp-fc-missing", SGLANG, "broken", "mtp.fc.weight"),
        ("mtp-all-experts-missing", VLLM, "broken", "and 9 more"),
        ("mtp-all-experts-missing", "vllm==0.20.2", "refused", "and 9 more"),
        ("mtp-all-experts-missing", SGLANG, "broken", "and 9 more"),
        ("mtp-set-in-part", VLLM, "broken", "k_proj"),
        # Names that are no parameter.
        ("mtp-extra-tensor", VLLM, "refused", "model.layers.3.foo.weight names no parameter"),
        ("mtp-extra-tensor", SGLANG, "unknown", "not in the contract"),
        # Counts.
        ("mtp-switched-off", VLLM, "refused", "divided by it"),
        ("mtp-two-layers-of-mimo", SGLANG, "degraded", "every step runs model.mtp_layers.1.*"),
        ("mtp-two-layers-of-mimo", VLLM, "unknown", "not in the contract"),
        ("mtp-projection-shape", SGLANG, "refused", "[64, 64]; the projection takes [64, 128]"),
        # EAGLE-1.
        ("mistral-eagle1", VLLM, "served", ""),
        ("mistral-eagle1-plain", VLLM, "refused", "fc.weight names no parameter"),
        ("mistral-eagle1-without-norm", VLLM, "refused", "no tensor is stored for model.norm.weight"),
        ("deepseek-eagle1", VLLM, "served", ""),
        ("deepseek-eagle1", SGLANG, "broken", "no class for EAGLE-1"),
        ("deepseek-eagle1-dense", VLLM, "refused", "layers.0.mlp.gate_proj.weight names no parameter"),
    ],
)
def test_the_plan_says_what_the_loader_does(recipe: str, engine: str, outcome: str, words: str, built: Built) -> None:
    plan = plan_of(built.path(RECIPES[recipe]), engine)
    assert plan.outcome == outcome, plan.reasons
    assert words in "; ".join(plan.reasons)


@pytest.mark.parametrize("recipe", [n for n, r in RECIPES.items() if n.startswith("mtp-") and r.wrong is None])
@pytest.mark.parametrize("engine", [VLLM, "vllm==0.20.2", SGLANG, "sglang==0.5.9"])
def test_a_whole_mtp_model_is_never_broken(recipe: str, engine: str, built: Built) -> None:
    plan = plan_of(built.path(RECIPES[recipe]), engine)
    assert plan.outcome in ("unknown", "refused"), plan.reasons
    # An export for SGLang is found by SGLang alone, and SGLang takes one layer.
    found = recipe not in ("mtp-nextn", "mtp-found-by-engine") or engine.startswith("sglang")
    if found and not (recipe == "mtp-two-layers" and engine.startswith("sglang")):
        assert not any("MTP layer" in reason or "no tensor" in reason for reason in plan.reasons)


def test_stacked_experts_are_loaded_one_by_one(built: Built) -> None:
    plan = plan_of(built.path(RECIPES["deepseek-eagle1"]), VLLM)
    stacked = next(p for p in plan.parameters if p.name.endswith("routed_experts.w13_weight"))
    assert stacked.shape == (4, 256, 64)
    assert len(stacked.keys) == 8
    assert stacked.state == "loaded"


def test_block_drafts_with_mrope_need_the_second_runner(built: Built) -> None:
    folder = built.path(RECIPES["mrope-in-a-block-draft"])
    first, second = plan_of(folder, "vllm==0.20.2"), plan_of(folder, VLLM)
    assert first.outcome == "refused"
    assert "V1 model runner" in first.reasons[0]
    assert second.outcome == "served"
    speculative = '{"model": "org/draft", "method": "dflash"}'
    line = f"VLLM_USE_V2_MODEL_RUNNER=0 vllm serve org/model --speculative-config '{speculative}'"
    asked, _ = plan_for(str(folder), VLLM, target=f"{folder}/target", launch=line, trained_with=None)
    assert "V1 model runner" in asked.reasons[0]


@pytest.mark.parametrize(
    ("folder", "version", "outcome"),
    [
        ("dflash-mrope-as-target", "0.22.0", "refused"),
        ("dflash-mrope-as-target", "0.25.0", "refused"),  # a hybrid target keeps the V1 runner
        ("dflash-mrope-as-target", "0.33.0", "served"),
        ("dflash-mrope-other", "0.25.0", "refused"),
        ("dflash-plain-rope", "0.25.0", "served"),
    ],
)
def test_the_runner_depends_on_release_and_target(folder: str, version: str, outcome: str) -> None:
    assert plan_of(need_shared("cases") / "inputs" / folder, f"vllm=={version}").outcome == outcome


@pytest.mark.parametrize(
    ("folder", "engine", "words"),
    [
        ("kind-dflash", "mlx-vlm", "MLX-VLM has a drafter for DFlash drafts"),
        ("kind-dflash", "llama.cpp", "its contract holds eagle3 only"),
        ("kind-gemma4-assistant", "mlx-vlm", "drafters/gemma4_assistant"),
        ("kind-qwen3.5-mtp", "lmdeploy", "qwen3_5_mtp.py"),
        ("kind-glm4-moe-mtp", "mlx-vlm", "of this model"),
        ("kind-glm4-moe-mtp", "llama.cpp", "conversion/glm.py"),
        ("gguf-mtp-healthy", "llama.cpp", "not examined"),
        ("gguf-eagle3-healthy", "llama.cpp", "not examined"),
    ],
)
def test_what_no_table_holds_is_not_known(folder: str, engine: str, words: str) -> None:
    path = str(need_shared("cases") / "inputs" / folder)
    plan, _ = plan_for(path, engine, target=None, launch=None, trained_with=None)
    assert plan.outcome == "unknown"
    assert words in "; ".join(plan.reasons)


def test_a_gguf_file_without_its_mtp_block_is_refused(built: Built) -> None:
    for recipe, outcome in (("gguf-nextn-block-missing", "refused"), ("gguf-with-nextn-block", "unknown")):
        plan, _ = plan_for(str(built.path(RECIPES[recipe])), "llama.cpp", target=None, launch=None, trained_with=None)
        assert plan.outcome == outcome
