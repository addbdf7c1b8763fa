"""Values that a config key mostly does not hold: of the wrong kind, null, zero, off by one, a word nobody knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["ABSENT", "odd_values"]

ABSENT = object()
"""The key is taken out."""

_ROPE = (
    {"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2.0}, {"rope_type": "linear"},
    {"rope_type": "dynamic", "factor": 2.0}, {"rope_type": "dynamic", "factor": "2"}, {"rope_type": "yarn"},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, {"rope_type": "yarn", "factor": 4},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 64},
    {"rope_type": "llama3", "factor": 8.0}, {"rope_type": "longrope", "factor": 2.0}, {"rope_type": "wrong"},
    {"rope_type": "default"}, {"rope_type": "mrope", "mrope_section": [2, 3, 3]}, {"factor": 2.0},
    {"rope_type": "default", "mrope_section": [2, 3, 3]}, {"rope_type": "default", "mrope_section": [2, 2, 2]},
    {"rope_type": None}, {"rope_type": 1}, {"rope_type": "ntk", "factor": 2.0}, {"type": "su", "factor": 2.0},
    {"type": "yarn", "rope_type": "linear", "factor": 2.0}, {"rope_type": "linear", "factor": -1.0},
)  # fmt: skip

_EXTRA: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("gelu", "relu", "swish", "SiLU", "gelu_pytorch_tanh", "swigluoai", "wrong"),
    "model_type": ("qwen2", "qwen3", "mistral", "gemma", "eagle", "deepseek_v3", "wrong", "llama"),
    "architectures": (["Wrong"], ["LlamaForCausalLM"], "LlamaForCausalLMEagle3", ["LlamaForCausalLMEagle3", "Wrong"],
                      ["Wrong", "LlamaForCausalLMEagle3"], [None], [1]),
    "rope_scaling": _ROPE,
    "rope_parameters": tuple({"rope_theta": 10000.0, **each} for each in _ROPE),
    "torch_dtype": ("float16", "float32", "auto", "wrong", "torch.bfloat16", "fp16"),
    "dtype": ("float16", "float32", "auto", "wrong", "torch.bfloat16"),
    "eagle_config": ({"eagle_aux_hidden_state_layer_ids": [1, 3]}, {"eagle_aux_hidden_state_layer_ids": None},
                     {"eagle_aux_hidden_state_layer_ids": "1,3,4"}, {"eagle_aux_hidden_state_layer_ids": {}},
                     {"eagle_aux_hidden_state_layer_ids": ["1", "3", "4"]}, {"use_aux_hidden_state": False},
                     {"use_aux_hidden_state": "false"}, {"use_aux_hidden_state": None}, {"norm_before_fc": True},
                     {"other": 1}),
    "layer_types": (["full_attention"], ["sliding_attention"], ["wrong"], ["full_attention"] * 3, [None],
                    ["linear_attention", "full_attention"]),
    "quantization_config": ({"quant_method": "fp8"}, {"quant_method": "wrong"}, {"bits": 4}),
    "eagle_aux_hidden_state_layer_ids": ([1, 3], [1, 3, 4, 5], ["1", "3", "4"], [0, 1, 2], [1, 3, 99]),
    "target_layer_ids": ([1, 4], [1, 4, 6, 7], ["1", "4", "6"], [-1, 4, 6], [1, 4, 99], [1.0, 4.0, 6.0], [4, 1, 6]),
    "aux_hidden_state_layer_ids": ([2, 4], [2, 4, 5, 6], ["2", "4", "5"], [2, 4, 99]),
    "markov_head_type": ("gated", "rnn", "wrong"),
    "projector_type": ("domino", "dspark", "wrong"),
    "mask_token_id": (511, 512, 99999),
    "sliding_window": (0, 64, 4096),
    "speculators_model_type": ("eagle", "dflash", "dspark", "wrong"),
    "rope_theta": (1e6,),
}  # fmt: skip
"""Values of single keys beside those of their kind."""

_MAY_BE_ADDED: Mapping[str, Any] = {
    "head_dim": 16, "num_key_value_heads": 2, "draft_vocab_size": 128, "rope_scaling": None, "rope_parameters": None,
    "mlp_bias": False, "attention_bias": False, "bias": False, "use_cache": True, "target_hidden_size": 64,
    "eagle_config": {}, "eagle_aux_hidden_state_layer_ids": [1, 3, 4], "num_aux_hidden_states": 3, "fc_norm": False,
    "norm_before_residual": False, "norm_before_fc": False, "norm_output": False, "use_aux_norm": False,
    "layer_types": [], "sliding_window": None, "use_sliding_window": False, "quantization_config": None,
    "compression_config": None, "hot_vocab_size": 128, "mask_token_id": 500, "num_target_layers": 8,
    "target_layer_ids": [1, 4, 6], "block_size": 8, "partial_rotary_factor": 1.0, "pretraining_tp": 1,
    "rope_interleaved": False, "logit_scale": 1.0, "tie_word_embeddings": False, "pard_token": 500,
    "initializer_range": 0.02, "attention_dropout": 0.0, "bos_token_id": 1, "pad_token_id": 0,
    "max_window_layers": 2, "is_causal": False, "auto_map": None, "torch_dtype": "bfloat16", "dtype": "bfloat16",
    "num_nextn_predict_layers": 1, "rope_theta": 10000.0, "max_position_embeddings": 256, "id2label": {},
    "num_labels": 2, "transformers_version": "5.8.1", "intermediate_size_mlp": 128, "text_config": {},
}  # fmt: skip
"""Keys that a class or transformers may read, with a value of their kind: changed where they are absent, too."""

_NOT_INNER = ("verifier", "proposal_methods")


def odd_values(config: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any, str]]:
    """Key, value (or `ABSENT`), and the change in words, for every key at this place of a config."""
    added = {} if place and place != "transformer_layer_config" else _MAY_BE_ADDED
    for key, value in {**added, **config}.items():
        seen = [json.dumps(config[key])] if key in config else []
        if key in config:
            yield key, ABSENT, "absent"
        for odd in (*_of_kind(value), *_EXTRA.get(key, ())):
            text = json.dumps(odd)
            if text not in seen:
                seen.append(text)
                yield key, odd, f"= {text}"


def _of_kind(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (None, "false", "true", 0, 1, 0.0, [], {}, not value, value)
    if isinstance(value, int):
        doubled = 2 * value if value else 2
        return (None, str(value), float(value), True, [], {}, 0, -1, value + 1, value - 1, doubled, value + 0.5)
    if isinstance(value, float):
        return (None, str(value), 1, 0, True, [], {}, -value, value * 2)
    if isinstance(value, str):
        return (None, 1, True, [], {}, "", "unheard of")
    if isinstance(value, list):
        return (None, [], {}, "x", 3, value[:-1], [*value, *value[-1:]], [str(v) for v in value], [value], True)
    if isinstance(value, Mapping):
        return (None, {}, [], "x", 1, True, [dict(value)], "{}")
    return (None, {}, [], "x", 1, True, 0)
