"""Small drafts of which the engines' own answers are known: the plan says the same, or that it does not know."""

from __future__ import annotations

import pytest
from recipe_cases import need_shared

from ckptdoctor.planning import plan_for

ANSWERS = [
    ("glm4moe-target", "vllm==0.33.0", "refused"),
    ("mtp-declared-missing", "vllm==0.33.0", "refused"),
    ("mtp-extra-tensor", "vllm==0.33.0", "refused"),
    ("mtp-extra-tensor", "sglang==0.5.23", "served/unknown"),
    ("mtp-all-experts-missing", "vllm==0.33.0", "broken"),
    ("mtp-all-experts-missing", "sglang==0.5.23", "broken"),
    ("qwen3next-no-fc", "vllm==0.33.0", "broken"),
    ("qwen3next-no-fc", "sglang==0.5.23", "broken"),
    ("glm4moe-missing-sglang", "sglang==0.5.23", "broken"),
    ("mimo-two-layers-sglang", "sglang==0.5.23", "broken/degraded"),
    ("num-hidden-layers-null", "sglang==0.5.23", "refused"),
    ("num-hidden-layers-null", "sglang==0.5.12.post1", "refused"),
    ("rms-norm-eps-string", "sglang==0.5.23", "refused"),
    ("rms-norm-eps-string", "sglang==0.5.12.post1", "refused"),
    ("hidden-act-gelu", "sglang==0.5.23", "refused"),
    ("hidden-act-gelu", "sglang==0.5.9", "refused"),
    ("model-type-unknown", "sglang==0.5.23", "refused"),
    ("model-type-unknown", "vllm==0.33.0", "refused"),
    ("my-mistral-7b-eagle3", "sglang==0.5.12.post1", "refused"),
    ("my-mistral-7b-eagle3", "sglang==0.5.23", "refused"),
    ("my-mistral-7b-eagle3", "sglang==0.5.9", "broken"),
    ("eagle-config-empty-list", "vllm==0.33.0", "served"),
    ("speculators-without-rms-norm-eps", "vllm==0.33.0", "refused"),
    ("deepseek-eagle1-moe", "vllm==0.33.0", "served/unknown"),
    ("deepseek-eagle1-moe", "sglang==0.5.23", "broken"),
    ("deepseek-eagle1-dense", "vllm==0.33.0", "refused"),
    ("mistral-eagle1-plain", "vllm==0.33.0", "refused"),
    ("dflash-qwen3.5-target", "sglang==0.5.11", "served"),
    ("dflash-qwen3.5-target", "sglang==0.5.20", "served"),
    ("dflash-qwen2-target", "sglang==0.5.23", "refused"),
    ("dflash-glm4-moe-target", "sglang==0.5.23", "refused"),
    ("dflash-mrope-as-target", "vllm==0.22.0", "refused"),
    ("dflash-mrope-as-target", "vllm==0.25.0", "refused"),
    ("dflash-mrope-other", "vllm==0.22.0", "refused"),
    ("dflash-plain-rope", "vllm==0.25.0", "served"),
    ("kind-dflash", "mlx-vlm", "unknown"),
    ("kind-gemma4-assistant", "mlx-vlm", "unknown"),
    ("kind-qwen3.5-mtp", "mlx-vlm", "unknown"),
    ("kind-dflash", "lmdeploy", "unknown"),
    ("kind-dflash", "openvino", "unknown"),
    ("kind-qwen3.5-mtp", "llama.cpp", "unknown"),
    ("kind-gemma4-assistant", "llama.cpp", "unknown"),
    ("kind-glm4-moe-mtp", "llama.cpp", "unknown"),
    ("kind-glm4-moe-mtp", "lmdeploy", "unknown"),
    ("kind-qwen3.5-mtp", "lmdeploy", "unknown"),
    ("default-shaped-ids-qwen3", "sglang==0.5.23", "unknown/degraded"),
    ("default-shaped-ids-qwen3", "vllm==0.33.0", "unknown/served"),
    ("default-shaped-ids-kimi", "sglang==0.5.23", "unknown/served"),
    ("speculators-four-states", "vllm==0.33.0", "refused"),
]
"""Folder, release, and the outcomes that are right: what the loader did, or what its source says."""


@pytest.mark.shared
@pytest.mark.parametrize(("name", "engine", "right"), ANSWERS)
def test_the_plan_is_what_the_engine_does(name: str, engine: str, right: str) -> None:
    draft = need_shared("cases") / "inputs" / name
    target = draft / "target" if (draft / "target").is_dir() else draft
    plan, _ = plan_for(str(draft), engine, target=str(target), launch=None, trained_with=None)
    assert plan.outcome in right.split("/"), plan.reasons


@pytest.mark.shared
def test_the_edit_that_serves_four_states_is_found() -> None:
    draft = need_shared("cases") / "inputs" / "speculators-four-states"
    plan, _ = plan_for(str(draft), "vllm==0.33.0", target=str(draft / "target"), launch=None, trained_with=None)
    assert plan.edits == (("transformer_layer_config.num_aux_hidden_states", 4),)
