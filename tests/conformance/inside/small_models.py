"""Small targets and drafts for the probes of a wiring, and where an engine may read ids.

Imports nothing but Python's own modules: both sides of a probe read it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

DEPTH = 12
"""Layers of the small targets: n//2 and n-3 are told apart."""


WIDTH = 64


FIRST = 5
"""An id that every class reaches; it stands in each list, for a capture of nothing is another case."""


DENSE = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": DEPTH, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32", "rope_theta": 10000.0,
    "bos_token_id": 1, "eos_token_id": 2, "attention_bias": False,
}  # fmt: skip


EXPERTS = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True,
}  # fmt: skip


MLA = {
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "n_group": 1,
    "topk_group": 1, "topk_method": "noaux_tc",
    "rope_scaling": {"type": "yarn", "rope_type": "yarn", "factor": 2.0, "beta_fast": 32.0, "beta_slow": 1.0,
                     "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 128},
    "scoring_func": "sigmoid", "norm_topk_prob": True, "moe_layer_freq": 1,
    "first_k_dense_replace": 1, "routed_scaling_factor": 1.0, "num_key_value_heads": 4, "head_dim": None,
}  # fmt: skip


TARGETS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {"model_type": "llama"},
    "Qwen2ForCausalLM": {"model_type": "qwen2"},
    "Qwen3ForCausalLM": {"model_type": "qwen3"},
    "Qwen2MoeForCausalLM": {"model_type": "qwen2_moe", **EXPERTS},
    "Qwen3MoeForCausalLM": {"model_type": "qwen3_moe", **EXPERTS},
    "DeepseekV3ForCausalLM": {"model_type": "deepseek_v3", **MLA},
    "Glm4MoeForCausalLM": {
        "model_type": "glm4_moe", **{k: v for k, v in MLA.items() if "rank" not in k and "rope" not in k},
        "num_key_value_heads": 2, "head_dim": 16, "partial_rotary_factor": 0.5, "use_qk_norm": True,
    },
    "MiniMaxM2ForCausalLM": {
        "model_type": "minimax_m2", "num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 8,
        "scoring_func": "sigmoid", "use_routing_bias": True, "use_qk_norm": True, "qk_norm_type": "per_layer",
        "attn_type_list": [1] * DEPTH, "shared_intermediate_size": 0,
    },
    "GptOssForCausalLM": {
        "model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"] * (DEPTH // 2), "attention_bias": True,
        "swiglu_limit": 7.0,
        "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                         "original_max_position_embeddings": 128},
    },
    "ApertusForCausalLM": {"model_type": "apertus", "hidden_act": "xielu"},
    "MistralForCausalLM": {"model_type": "mistral"},
    "Phi3ForCausalLM": {"model_type": "phi3", "pad_token_id": 0},
    "MiniCPMForCausalLM": {
        "model_type": "llama", "scale_emb": 1, "scale_depth": DEPTH**0.5, "dim_model_base": 64, "num_experts": 0,
    },
}  # fmt: skip


MLA_DRAFT = {**MLA, "model_type": "deepseek_v3", "num_hidden_layers": 1}


DRAFTS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLMEagle3": {"model_type": "llama", "num_hidden_layers": 1},
    "Eagle3DeepseekV2ForCausalLM": {k: v for k, v in MLA_DRAFT.items() if v is not None},
    "LlamaForCausalLMEagle": {"model_type": "llama", "num_hidden_layers": 1},
    "Qwen2ForCausalLMEagle": {"model_type": "qwen2", "num_hidden_layers": 1},
    "MistralForCausalLMEagle": {"model_type": "mistral", "num_hidden_layers": 1},
}


AUX_IDS = "eagle_aux_hidden_state_layer_ids"


KEEP_NUMBERS = ("GptOssForCausalLM", "Qwen3MoeForCausalLM")
"""Targets of vLLM whose layers keep their numbers on a later pipeline stage; the contract says so in a source."""


MODEL_TYPES = (
    "llama", "qwen", "qwen2", "qwen3", "minicpm", "gpt_oss", "hunyuan_vl", "hunyuan_v1_dense", "afmoe", "nemotron_h",
    "deepseek_v2", "deepseek_v3", "kimi_k2", "kimi_k25", "minimax_m2", "gemma4", "laguna", "mistral", "phi3",
)  # fmt: skip


VLLM_PLACES = (
    AUX_IDS, f"eagle_config.{AUX_IDS}", "dflash_config.target_layer_ids", "dspark_target_layer_ids",
    "target_layer_ids", "dflash_config.layer_ids", "eagle_config.layer_ids",
)  # fmt: skip


VLLM_DRAFTS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLMEagle3": {"model_type": "llama", "num_hidden_layers": 1, "draft_vocab_size": 64},
    "Eagle3Qwen3ForCausalLM": {"model_type": "qwen3", "num_hidden_layers": 1, "draft_vocab_size": 64},
    "Eagle3DeepseekV2ForCausalLM": {
        **MLA_DRAFT, "model_type": "deepseek_v2", "draft_vocab_size": 64, "n_routed_experts": None,
    },
    "EagleLlamaForCausalLM": {"model_type": "llama", "num_hidden_layers": 1},
    "DFlashDraftModel": {
        "model_type": "qwen3", "num_hidden_layers": 1, "target_layer_ids": None,
        "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 5, 8]}, "block_size": 8,
    },
}  # fmt: skip


def nested(place: str, value: Any) -> dict[str, Any]:
    """A config with `value` at a dotted place."""
    outer, _, inner = place.rpartition(".")
    return {outer: {inner: value}} if outer else {inner: value}


def config_folder(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="wiring-"))
    config = {"architectures": [name], **DENSE, **TARGETS[name]}
    config = {k: v for k, v in config.items() if v is not None}
    from transformers import CONFIG_MAPPING

    if config["model_type"] not in CONFIG_MAPPING:  # a type younger than this transformers: the same keys, generic
        config["model_type"] = "mixtral"
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
