"""What the trainers' classes and the probe's network are compared on: drafts, and the same input for both.

Beside the drafts that trainers wrote there are made ones: configs of each kind of rotary scaling, of sliding windows,
of the norms and of several layers, with weights large enough that each of these changes the outcome.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from builder.container import encode
from builder.draft import Tensor
from builder.values import floats, integers

__all__ = ["KEPT", "LENGTH", "MADE", "RECORDED", "STEPS", "Inputs", "Made", "inputs_of", "write_made"]

LENGTH, STEPS = 14, 3
"""Positions of the text, and steps of every chain."""

KEPT = (0, 4, 9, 13)
"""The positions whose logits are recorded in `RECORDED`, by draft and trainer."""

RECORDED = Path(__file__).parents[1] / "recorded" / "trainer_classes.npz"

HIDDEN, HEADS, KV_HEADS, HEAD, INNER, VOCABULARY, ROWS = 48, 4, 2, 16, 80, 160, 96
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Inputs:
    """One text: `tokens` int64 [n], `states` float32 [n, K·T], and an `embedding` float32 [V, H] for drafts that store
    none."""

    tokens: npt.NDArray[np.int64]
    states: Floats
    embedding: Floats

    def given(self, step: int) -> npt.NDArray[np.int64]:
        """int64 [n]: the token at each position of `step`: the text moved left, with 0 after its end, as both trainers
        have it."""
        return np.concatenate([self.tokens[step:], np.zeros(step, dtype=np.int64)])


def inputs_of(states: int, vocabulary: int, hidden: int) -> Inputs:
    """The same input every time for a draft whose fc takes `states` values."""
    random = np.random.default_rng(20250801)
    tokens = random.integers(1, vocabulary, LENGTH)
    return Inputs(
        tokens=tokens.astype(np.int64),
        states=random.standard_normal((LENGTH, states)).astype(np.float32),
        embedding=random.standard_normal((vocabulary, hidden)).astype(np.float32),
    )


@dataclass(frozen=True)
class Made:
    """A made draft: the class that it is for (`specforge` or `speculators`), and what its config says beside sizes.

    `layer` are fields of the decoder layer, `flags` those of the draft.
    """

    trainer: str
    layer: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    layers: int = 1
    algorithm: str = "eagle3"
    model_type: str = "llama"


def _rope(kind: str, **numbers: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 5000.0, **numbers}}


_YARN = {"factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 16, "beta_slow": 2}
_LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8}
_LONG = {"short_factor": [1.0 + n / 8 for n in range(8)], "long_factor": [2.0 + n for n in range(8)]}
_WINDOWS = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": True}

MADE: Mapping[str, Made] = {
    "sf_linear": Made("specforge", _rope("linear", factor=4.0)),
    "sf_dynamic": Made("specforge", {**_rope("dynamic", factor=3.0), "max_position_embeddings": 8}),
    "sf_llama3": Made("specforge", _rope("llama3", **_LLAMA3)),
    "sf_yarn_mscale": Made("specforge", _rope("yarn", **_YARN, mscale=0.8, mscale_all_dim=0)),
    "sf_yarn_both": Made("specforge", _rope("yarn", **_YARN, mscale=1.0, mscale_all_dim=0.5)),
    "sf_old_spelling": Made(
        "specforge",
        {"rope_theta": 700.0, "rope_scaling": {"type": "linear", "factor": 2.0}, "partial_rotary_factor": 0.5},
    ),
    "sf_fc_norm": Made("specforge", flags={"fc_norm": True, "norm_output": True}),
    "sf_no_head_norm": Made("specforge", flags={"fc_norm": True, "norm_output": False}),
    "sf_says_before_residual": Made("specforge", flags={"norm_before_residual": True}),
    "sf_gelu": Made("specforge", {"hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-3}),
    "sf_peagle": Made("specforge", flags={"norm_before_residual": False}, layers=3, algorithm="peagle"),
    "sf_peagle_yarn": Made(
        "specforge", _rope("yarn", **_YARN, mscale=1.0, mscale_all_dim=0), {"norm_before_residual": True}, 2, "peagle"
    ),
    "spec_plain": Made("speculators", {"attention_bias": True, "mlp_bias": True}),
    "spec_linear": Made("speculators", _rope("linear", factor=4.0)),
    "spec_dynamic": Made("speculators", {**_rope("dynamic", factor=3.0), "max_position_embeddings": 8}),
    "spec_llama3": Made("speculators", _rope("llama3", **_LLAMA3)),
    "spec_yarn": Made("speculators", _rope("yarn", **_YARN)),
    "spec_yarn_attention": Made("speculators", _rope("yarn", **_YARN, attention_factor=0.7)),
    "spec_yarn_mscale": Made("speculators", _rope("yarn", **_YARN, mscale=0.8, mscale_all_dim=0.4)),
    "spec_yarn_one_mscale": Made("speculators", _rope("yarn", **_YARN, mscale=0.8)),
    "spec_longrope_short": Made("speculators", _rope("longrope", **_LONG, original_max_position_embeddings=64)),
    "spec_longrope_long": Made("speculators", _rope("longrope", **_LONG, original_max_position_embeddings=8)),
    "spec_nested": Made(
        "speculators",
        {
            **_WINDOWS,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 900.0},
                "sliding_attention": {"rope_type": "linear", "rope_theta": 50.0, "factor": 2.0},
            },
        },
        layers=2,
        model_type="qwen3",
    ),
    "spec_windows": Made("speculators", _WINDOWS, {"norm_before_residual": True}, 2, model_type="qwen3"),
    "spec_eagle31": Made("speculators", flags={"fc_norm": True, "norm_output": True, "norm_before_residual": True}),
    "spec_input_norm": Made("speculators", flags={"norm_before_fc": True}, layers=3, model_type="qwen3"),
    "spec_peagle": Made("speculators", flags={"norm_before_residual": True, "norm_output": True}, layers=2,
                        algorithm="peagle", model_type="qwen3"),
    "spec_peagle_windows": Made("speculators", _WINDOWS, {"fc_norm": True}, 2, "peagle", "qwen3"),
}  # fmt: skip


def write_made(name: str, folder: Path) -> None:
    """Write the made draft `name` as a checkpoint, its config in the dialect of its trainer."""
    made = MADE[name]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(_config(made), indent=1), encoding="utf-8")
    tensors = {part: _values(part, shape) for part, shape in _shapes(made).items()}
    tensors["d2t"] = integers(np.arange(ROWS) // 3)
    kept = np.zeros(VOCABULARY, dtype=bool)
    kept[np.arange(ROWS) + np.arange(ROWS) // 3] = True
    tensors["t2d"] = integers(kept, "BOOL")
    (folder / "model.safetensors").write_bytes(encode(tensors))


def _config(made: Made) -> dict[str, Any]:
    layer = {
        "model_type": made.model_type, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "num_hidden_layers": made.layers, "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 256, "hidden_act": "silu", **made.layer,
    }  # fmt: skip
    if made.trainer == "specforge":
        name = "PEagleDraftModel" if made.algorithm == "peagle" else "LlamaForCausalLMEagle3"
        more: dict[str, Any] = {"pard_token": VOCABULARY - 1} if made.algorithm == "peagle" else {}
        if "rope_parameters" in layer:  # its exporter writes the base in both spellings
            more |= {"rope_theta": layer["rope_parameters"]["rope_theta"], "dtype": "float32"}
        own = {"architectures": [name], "draft_vocab_size": ROWS, "transformers_version": "5.8.1"}
        return {**own, **layer, **made.flags, **more}
    return {
        "speculators_model_type": made.algorithm, "architectures": ["Eagle3DraftModel"], "draft_vocab_size": ROWS,
        "transformer_layer_config": layer, "speculators_version": "0.9.0", **made.flags,
        **({"mask_token_id": VOCABULARY - 1} if made.algorithm == "peagle" else {}),
    }  # fmt: skip


def _shapes(made: Made) -> dict[str, tuple[int, ...]]:
    joined = 3 * HIDDEN
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (HIDDEN, joined), "norm.weight": (HIDDEN,), "lm_head.weight": (ROWS, HIDDEN),
        "embed_tokens.weight": (VOCABULARY, HIDDEN),
    }  # fmt: skip
    if made.flags.get("fc_norm"):
        shapes |= {f"fc_norm.{j}.weight": (HIDDEN,) for j in range(3)}
    if made.flags.get("norm_before_fc"):
        shapes["input_norm.weight"] = (joined,)
    if made.algorithm == "peagle":
        shapes["mask_hidden"] = (1, 1, joined)
    for number in range(made.layers):
        name = "midlayer" if (made.trainer, made.algorithm) == ("specforge", "eagle3") else f"layers.{number}"
        shapes |= {f"{name}.{part}": shape for part, shape in _layer(made, number == 0).items()}
    return shapes


def _layer(made: Made, first: bool) -> dict[str, tuple[int, ...]]:
    taken = 2 * HIDDEN if first else HIDDEN
    rows = {"q": HEADS * HEAD, "k": KV_HEADS * HEAD, "v": KV_HEADS * HEAD}
    shapes: dict[str, tuple[int, ...]] = {f"self_attn.{n}_proj.weight": (size, taken) for n, size in rows.items()}
    shapes |= {
        "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD), "mlp.gate_proj.weight": (INNER, HIDDEN),
        "mlp.up_proj.weight": (INNER, HIDDEN), "mlp.down_proj.weight": (HIDDEN, INNER),
        "input_layernorm.weight": (HIDDEN,), "post_attention_layernorm.weight": (HIDDEN,),
    }  # fmt: skip
    if first:
        shapes["hidden_norm.weight"] = (HIDDEN,)
    if made.model_type == "qwen3":
        shapes |= {"self_attn.q_norm.weight": (HEAD,), "self_attn.k_norm.weight": (HEAD,)}
    if made.layer.get("attention_bias"):
        shapes |= {f"self_attn.{n}_proj.bias": (size,) for n, size in {**rows, "o": HIDDEN}.items()}
    if made.layer.get("mlp_bias"):
        shapes |= {f"mlp.{n}_proj.bias": (size,) for n, size in {"gate": INNER, "up": INNER, "down": HIDDEN}.items()}
    return shapes


def _values(name: str, shape: tuple[int, ...]) -> Tensor:
    """Values of the size that trained weights have: rows of unit length about, norms around one."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    values = random.standard_normal(math.prod(shape)).reshape(shape)
    if name.endswith("norm.weight") or name.startswith("fc_norm"):
        return floats(1.0 + 0.3 * values, "F32")
    wide = name in ("embed_tokens.weight", "mask_hidden") or len(shape) == 1
    return floats(values if wide else values * 1.2 / math.sqrt(shape[-1]), "F32")
