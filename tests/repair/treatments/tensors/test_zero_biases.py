"""A bias that an engine always builds becomes zeros, unless one may have been trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from treatment_cases import Draft, answer, draft_of, floats, plan, write

from ckptdoctor.repair.edits import AddTensor


def eagle1(**config: Any) -> Draft:
    draft = draft_of("eagle-eagle1")
    assert draft.config is not None
    draft.config |= {"architectures": ["LlamaForCausalLMEagle"], **config}
    return draft


def test_a_bias_that_an_engine_always_builds_becomes_zeros(tmp_path: Path) -> None:
    made = plan(write(eagle1(), tmp_path), "sglang==0.5.23", select=("zero-biases",))
    (step,) = made.steps
    assert step.edits == (AddTensor("fc.bias", "F16", (64,)),)
    assert step.safety == "safe"
    (after,) = made.after.plans
    assert (after.left_random, after.errors) == ((), ())
    assert "KEY020" not in {f.rule for f in made.after.judgement.findings}
    # Made once: the copy has nothing more to be filled.
    assert [s.treatment for s in made.steps].count("zero-biases") == 1


@pytest.mark.parametrize("field", ["bias", "attention_bias", "mlp_bias"])
def test_biases_that_the_config_declares_are_not_filled_with_zeros(field: str, tmp_path: Path) -> None:
    told = answer(write(eagle1(**{field: True}), tmp_path), "KEY020", "sglang==0.5.23")
    assert isinstance(told, str)
    assert f"config.json sets {field} to true" in told


def test_a_part_of_a_fused_bias_that_was_lost_is_not_zero(tmp_path: Path) -> None:
    draft = eagle1(architectures=["Qwen2ForCausalLMEagle"], model_type="qwen2")
    draft.tensors["layers.0.self_attn.q_proj.bias"] = floats(np.ones(64), "F16")
    told = answer(write(draft, tmp_path), "KEY020", "sglang==0.4.9")
    assert isinstance(told, str)
    assert "of which only some are stored" in told


def test_biases_of_fused_projections_are_stored_part_by_part(tmp_path: Path) -> None:
    draft = eagle1(architectures=["Qwen2ForCausalLMEagle"], model_type="qwen2")
    made = plan(write(draft, tmp_path), "sglang==0.4.9", select=("zero-biases",))
    edits = {e.name: e for s in made.steps for e in s.edits}  # type: ignore[union-attr]
    assert set(edits) == {"fc.bias", *(f"layers.0.self_attn.{p}_proj.bias" for p in "qkv")}
    assert edits["layers.0.self_attn.k_proj.bias"] == AddTensor("layers.0.self_attn.k_proj.bias", "F16", (32,))
    assert made.after.plans[0].left_random == ()


def test_no_zeros_where_weights_are_missing_too(tmp_path: Path) -> None:
    draft = eagle1()
    del draft.tensors["layers.0.mlp.down_proj.weight"]
    made = plan(write(draft, tmp_path), "sglang==0.5.23", select=("zero-biases",))
    assert "KEY020" not in {f.rule for f in made.before.judgement.findings}
    assert made.steps == ()
