"""Drafts with latent attention, block drafters and EAGLE-1, release by release."""

from __future__ import annotations

from typing import Any

import pytest
from measuring.plans import MLP, OUTSIDE, H, Make, Shapes, V, fates, layer, left, parameter, plan, stages

BLOCK: Shapes = {
    "fc.weight": (H, 3 * H),
    "norm.weight": (H,),
    "hidden_norm.weight": (H,),
    **layer("layers.0.", H, norms=("input_layernorm",)),
    "layers.0.self_attn.q_norm.weight": (16,),
    "layers.0.self_attn.k_norm.weight": (16,),
}
BLOCK_CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "block_size": 8,
    "dflash_config": {"target_layer_ids": [0, 2, 4], "mask_token_id": 5},
}
MLA_CONFIG: dict[str, Any] = {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v3",
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "head_dim": ...,
    "num_key_value_heads": 4,
}
MLA: Shapes = {
    **OUTSIDE,
    "layers.0.self_attn.q_a_proj.weight": (32, 2 * H),
    "layers.0.self_attn.kv_a_proj_with_mqa.weight": (24, 2 * H),
    "layers.0.self_attn.q_a_layernorm.weight": (32,),
    "layers.0.self_attn.kv_a_layernorm.weight": (16,),
    "layers.0.self_attn.q_b_proj.weight": (96, 32),
    "layers.0.self_attn.kv_b_proj.weight": (128, 16),
    "layers.0.self_attn.o_proj.weight": (H, 64),
    "layers.0.mlp.gate_proj.weight": (MLP, H),
    "layers.0.mlp.up_proj.weight": (MLP, H),
    "layers.0.mlp.down_proj.weight": (H, MLP),
    "layers.0.input_layernorm.weight": (H,),
    "layers.0.hidden_norm.weight": (H,),
    "layers.0.post_attention_layernorm.weight": (H,),
}


def test_latent_attention_needs_0_5_12(made: Make) -> None:
    folder = made(MLA, **MLA_CONFIG)
    assert stages(plan(folder, "0.5.11"))[0] == "class"
    assert left(plan(folder, "0.5.12")) == []


@pytest.mark.parametrize("lost", ["q_a_proj", "kv_a_proj_with_mqa"])
def test_half_of_the_fused_projection_is_forgotten(made: Make, lost: str) -> None:
    found = plan(made({k: shape for k, shape in MLA.items() if f".{lost}." not in k}, **MLA_CONFIG), "0.5.23")
    assert left(found) == ["model.midlayer.self_attn.fused_qkv_a_proj_with_mqa.weight"]
    kept = {"q_a_proj", "kv_a_proj_with_mqa"} - {lost}
    assert fates(found, f"layers.0.self_attn.{kept.pop()}.") == {"dropped"}


@pytest.mark.parametrize(("release", "refused"), [("0.5.17", True), ("0.5.18", False)])
def test_honest_ids_without_num_target_layers_are_refused_before_0_5_18(
    made: Make, release: str, refused: bool
) -> None:
    found = plan(made(BLOCK, **BLOCK_CONFIG), release)
    assert ("construct" in stages(found)) is refused
    assert left(plan(made(BLOCK, **BLOCK_CONFIG, num_target_layers=8), release)) == []


def test_a_block_drafter_without_ids_takes_as_many_states_as_it_has_layers(made: Make) -> None:
    shapes = {**BLOCK, "fc.weight": (H, H)}
    found = plan(made(shapes, **BLOCK_CONFIG | {"dflash_config": {"mask_token_id": 5}}), "0.5.23")
    assert parameter(found, "fc.weight").shape == (H, H)


MARKOV: Shapes = {**BLOCK, "markov_head.markov_w1.weight": (V, 8), "markov_head.markov_w2.weight": (V, 8)}
DSPARK = BLOCK_CONFIG | {
    "architectures": ["DSparkDraftModel"],
    "markov_rank": 8,
    "markov_head_type": "vanilla",
    "num_target_layers": 8,
}


@pytest.mark.parametrize(
    ("release", "name", "known"),
    [
        ("0.5.15", "Qwen3DSparkModel", False),
        ("0.5.16", "Qwen3DSparkModel", True),
        ("0.5.16", "DSparkDraftModel", False),
        ("0.5.17", "DSparkDraftModel", True),
        ("0.5.18", "LingDSparkModel", False),
        ("0.5.19", "LingDSparkModel", True),
    ],
)
def test_the_names_of_dspark_drafts(made: Make, release: str, name: str, known: bool) -> None:
    assert (stages(plan(made(MARKOV, **DSPARK | {"architectures": [name]}), release)) == ["class"]) is not known


def test_a_dspark_draft_is_whole_and_its_confidence_head_passed_over(made: Make) -> None:
    found = plan(
        made({**MARKOV, "confidence_head.proj.weight": (1, H + 8), "confidence_head.proj.bias": (1,)}, **DSPARK),
        "0.5.23",
    )
    assert left(found) == []
    assert fates(found, "confidence_head.") == {"dropped"}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"markov_rank": ...}, "markov_rank"),
        ({"markov_head_type": ...}, "markov_head_type"),
        ({"markov_head_type": "tree"}, "tree"),
        ({"markov_rank": ..., "dspark_config": {"markov_rank": 8}}, "top level"),
        ({"markov_rank": ..., "dflash_config": {**BLOCK_CONFIG["dflash_config"], "markov_rank": 8}}, "top level"),
    ],
)
def test_a_dspark_draft_says_its_rank_at_the_top_level(made: Make, config: dict[str, Any], reason: str) -> None:
    found = plan(made(MARKOV, **DSPARK | config), "0.5.23")
    assert stages(found)[0] == "construct"
    assert reason in found.errors[0].reason


def test_an_unknown_markov_tensor_is_loud_where_others_are_dropped(made: Make) -> None:
    found = plan(made({**MARKOV, "markov_head.extra.weight": (4,), "extra.weight": (4,)}, **DSPARK), "0.5.23")
    assert stages(found)[0] == "load"
    assert (fates(found, "markov_head.extra"), fates(found, "extra")) == ({"rejected"}, {"dropped"})


@pytest.mark.parametrize(("release", "loud"), [("0.5.19", False), ("0.5.20", True)])
def test_domino_tensors_without_their_type_are_loud_from_0_5_20(made: Make, release: str, loud: bool) -> None:
    found = plan(made({**BLOCK, "prefix_gru.weight_ih_l0": (72, H)}, **BLOCK_CONFIG, num_target_layers=8), release)
    assert ("load" in stages(found)) is loud


def test_eagle_1_keys_must_not_have_a_prefix(made: Make) -> None:
    body = {"fc.weight": (H, 2 * H), "fc.bias": (H,), **layer("layers.0.", H, norms=())}
    config = {"architectures": ["LlamaForCausalLMEagle"], "draft_vocab_size": ...}
    assert left(plan(made(body, **config), "0.5.23")) == []
    found = plan(made({f"model.{k}": shape for k, shape in body.items()}, **config), "0.5.23")
    assert "model.fc.weight" in left(found)
    assert found.outcome == "broken"


def test_an_eagle_1_draft_without_a_bias_keeps_a_random_one(made: Make) -> None:
    body = {"fc.weight": (H, 2 * H), **layer("layers.0.", H, norms=())}
    found = plan(made(body, architectures=["LlamaForCausalLMEagle"], draft_vocab_size=...), "0.5.23")
    assert left(found) == ["model.fc.bias"]
