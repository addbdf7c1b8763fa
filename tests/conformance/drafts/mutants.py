"""Clean drafts of each class, and what one changed key or one changed tensor makes of them."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.drafts.odd_values import ABSENT, odd_values

if TYPE_CHECKING:
    from builder import Recipe
    from builder.draft import Draft, Tensor

__all__ = ["BASES", "FIXED", "Base", "Mutant", "clean", "fixed", "mutants"]

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "fixtures"))


@dataclass(frozen=True)
class Base:
    """A clean draft: the recipe it is built by, what is set in its config, and what a user asks for (vLLM).

    `keys` are the mappings inside of the config whose keys are changed too, besides the outermost ones.
    """

    name: str
    recipe: str
    engines: tuple[str, ...] = ("sglang", "vllm")
    config: tuple[tuple[str, Any], ...] = ()
    asked: tuple[tuple[str, Any], ...] | None = None
    keys: tuple[str, ...] = ()
    flat: bool = False
    prefix: str = ""
    adds: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class Mutant:
    """One draft with one thing changed. `what` says which, in words; `folder` where it is to be written."""

    base: str
    what: str
    kind: str
    engines: tuple[str, ...]
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    target: Mapping[str, Any]
    asked: Mapping[str, Any] | None
    begins: str = ""

    @property
    def name(self) -> str:
        """The name of its folder, which says what it holds and nothing that an engine could read out of a path."""
        return self.begins + self.digest[:14]

    @property
    def digest(self) -> str:
        """What a loader can tell apart: the values of floating tensors are marks (see alike.py)."""
        digest = hashlib.sha256(json.dumps([self.config, self.target, self.asked, self.begins]).encode())
        for name, tensor in self.tensors.items():
            digest.update(f"{name} {tensor.dtype} {tensor.shape}".encode())
            digest.update(tensor.data if tensor.dtype not in ("BF16", "F16", "F32", "F64") else b"")
        return digest.hexdigest()

    def write(self, place: Path, name: str | None = None) -> Path:
        """Write the draft into a folder of its own in `place`."""
        from builder.container import encode

        folder = place / (name or self.name)
        if not (folder / "target" / "config.json").is_file():
            (folder / "target").mkdir(parents=True, exist_ok=True)
            (folder / "model.safetensors").write_bytes(encode(self.tensors, {"format": "pt"}))
            (folder / "config.json").write_text(json.dumps(self.config, indent=1), encoding="utf-8")
            if self.asked is not None:
                (folder / "target" / "asked.json").write_text(json.dumps(self.asked), encoding="utf-8")
            (folder / "target" / "config.json").write_text(json.dumps(self.target), encoding="utf-8")
        return folder


_EAGLE3 = (("method", "eagle3"),)
_PEAGLE = (*_EAGLE3, ("parallel_drafting", True))
_EAGLE = (("method", "eagle"),)
_DFLASH = (("method", "dflash"),)
_DSPARK = (("method", "dspark"),)
_MEDUSA = (("method", "medusa"), ("num_speculative_tokens", 5))
_LAYER = "transformer_layer_config"
_IN_DFLASH = ("dflash_config",)
_YARN = {
    "type": "yarn", "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 128, "beta_fast": 32.0,
    "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
}  # fmt: skip

BASES = {
    base.name: base
    for base in (
        Base("eagle3", "specforge-eagle3", asked=_EAGLE3, keys=("rope_parameters",)),
        Base("eagle3-mo", "model-optimizer-eagle3", asked=_EAGLE3, keys=("eagle_config", "rope_scaling")),
        Base("eagle3-norms", "specforge-eagle31", asked=_EAGLE3),
        Base(
            "eagle3-qwen3",
            "speculators-eagle3-qwen3",
            engines=("vllm",),
            config=(("architectures", ["Eagle3Qwen3ForCausalLM"]),),
            asked=_EAGLE3,
            flat=True,
        ),
        Base("eagle3-speculators", "speculators-eagle3", ("vllm",), asked=_EAGLE3, keys=(_LAYER, "speculators_config")),
        # A CPU insists on rope scaling here (see CPU_STOPS in compare.py).
        Base("mla", "mla-eagle3", config=(("rope_scaling", _YARN),), asked=_EAGLE3, keys=("eagle_config",)),
        Base("peagle", "peagle-for-vllm", asked=_PEAGLE),
        Base("peagle-speculators", "speculators-peagle", ("vllm",), asked=_PEAGLE, keys=(_LAYER,)),
        Base(
            "eagle1-llama",
            "eagle-eagle1-safetensors",
            ("sglang",),
            (("architectures", ["LlamaForCausalLMEagle"]),),
            adds=(("fc.bias", (64,)),),
        ),
        Base("eagle1", "eagle-eagle1-safetensors", ("vllm",), asked=_EAGLE),
        Base(
            "eagle1-qwen2",
            "eagle-eagle1-safetensors",
            ("sglang",),
            (("architectures", ["Qwen2ForCausalLMEagle"]), ("model_type", "qwen2")),
            adds=(
                ("fc.bias", (64,)),
                ("layers.0.self_attn.q_proj.bias", (64,)),
                ("layers.0.self_attn.k_proj.bias", (32,)),
                ("layers.0.self_attn.v_proj.bias", (32,)),
            ),
        ),
        Base(
            "eagle1-mistral",
            "eagle-eagle1-safetensors",
            ("sglang",),
            (("architectures", ["MistralForCausalLMEagle"]), ("model_type", "mistral")),
            prefix="model.",
            adds=(("model.layers.0.input_layernorm.weight", (64,)), ("model.norm.weight", (64,))),
        ),
        Base("dflash", "model-optimizer-dflash", asked=_DFLASH, keys=_IN_DFLASH),
        Base("dflash-speculators", "speculators-dflash", ("vllm",), asked=_DFLASH, keys=(_LAYER,)),
        Base("dflash2", "dflash2", asked=_DFLASH, keys=_IN_DFLASH),
        Base("domino", "specforge-domino", ("sglang",), (("architectures", ["DFlashDraftModel"]),), keys=_IN_DFLASH),
        Base("laguna", "laguna-class", ("sglang",), keys=_IN_DFLASH),
        Base("dspark", "deepspec-dspark", asked=_DSPARK),
        Base("dspark-speculators", "speculators-dspark", ("vllm",), asked=_DSPARK, keys=(_LAYER,)),
        Base("medusa", "medusa-for-vllm", ("vllm",), asked=_MEDUSA),
    )
}


FIXED: Mapping[str, tuple[str, ...]] = {
    "eagle3": (
        "num_hidden_layers = null", "num_hidden_layers = true", 'vocab_size = "512"', 'rms_norm_eps = "1e-05"',
        "rms_norm_eps = 1", "attention_bias = null", "tie_word_embeddings = null", "use_cache = null",
        'mlp_bias = "false"', "hidden_size = 64.0", "num_key_value_heads = -1", "num_key_value_heads = 4",
        'hidden_act = "gelu"', 'model_type = "unheard of"', "model_type = 1", "eagle_config = []", "eagle_config = {}",
        'eagle_config = "x"', "eagle_config = true", 'layer_types = ["wrong"]', "layer_types = [null]",
        'rope_scaling = {"rope_type": "wrong"}', 'rope_scaling = {"rope_type": null}',
        'rope_scaling = {"rope_type": "linear"}', 'rope_scaling = {"rope_type": "linear", "factor": 2.0}',
        'rope_scaling = {"type": "su", "factor": 2.0}', 'rope_scaling = {"rope_type": "dynamic", "factor": "2"}',
        'rope_scaling = "x"', "compression_config = []", "text_config = {}", "num_labels = 2.0", "id2label = []",
        "torch_dtype = []", "auto_map = null", "partial_rotary_factor = null",
        "in a folder named my-mistral-7b-eagle3-…",
        "in a folder named eagle3-draft-…", "in a folder named leanstral-…", "with extra.weight", "without fc.weight",
        "midlayer.self_attn.k_proj.weight is [31, 128]", "midlayer.self_attn.k_proj.weight is [33, 128]",
    ),
    "eagle3-mo": ("rope_scaling.factor = -32.0", "rope_scaling.original_max_position_embeddings = 0",
                  "eagle_config = null", "pretraining_tp = 1.5", "attention_dropout = []"),
    "eagle3-qwen3": ("head_dim = null", "sliding_window = true", "attention_bias = 1"),
    "eagle3-speculators": ("transformer_layer_config.rms_norm_eps absent", "transformer_layer_config.head_dim absent",
                           "transformer_layer_config.num_hidden_layers = true", "speculators_config absent"),
    "mla": ('rope_scaling = {"rope_type": "linear", "factor": 2.0}', "q_lora_rank = null"),
    "eagle1-llama": ('hidden_act = "relu"', "max_position_embeddings = null"),
    "eagle1-qwen2": ("max_window_layers = null",),
    "eagle1-mistral": ("num_key_value_heads = null", "without model.norm.weight"),
    "dflash": ("dflash_config = []", 'dflash_config.target_layer_ids = "x"', "num_attention_heads = 8"),
    "dspark-speculators": ('aux_hidden_state_layer_ids = ["2", "4", "5"]',),
}  # fmt: skip
"""A sample that every run of the matrix takes: of each kind of value at least one, by base and change."""


def fixed(place: Path) -> Iterator[Path]:
    """The drafts of `FIXED`, written into `place` under names that say what was changed."""
    number = 0
    for mutant in mutants():
        if mutant.what in FIXED.get(mutant.base, ()):
            number += 1
            words = "-".join(re.findall(r"[a-z0-9]+", mutant.what.lower()))[:40]
            # No engine may take a word for one of its own (see is_mistral_model of SGLang).
            yield mutant.write(place, mutant.name if mutant.begins else f"odd{number:02}_{words.replace('eagle', 'e')}")


def clean(base: Base, recipes: Mapping[str, Recipe]) -> Mutant:
    """The clean draft itself."""
    from builder import build_draft
    from builder.values import random_tensor

    draft: Draft = build_draft(recipes[base.recipe])
    assert draft.config is not None
    assert draft.target is not None
    config = {key: value for key, value in draft.config.items() if key != "auto_map"}
    if base.flat:
        outer = {k: config[k] for k in ("draft_vocab_size", "norm_before_residual", "dtype") if k in config}
        config = {**config[_LAYER], **outer, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 5]}}
    config |= dict(base.config)
    tensors = {base.prefix + name: tensor for name, tensor in draft.tensors.items()}
    for name, shape in base.adds:
        tensors[name] = random_tensor(name, shape, next(iter(tensors.values())).dtype)
    asked = None if base.asked is None else dict(base.asked)
    return Mutant(base.name, "clean", "clean", base.engines, config, tensors, draft.target, asked)


def mutants(kinds: Sequence[str] = ("keys", "tensors", "paths")) -> Iterator[Mutant]:
    """Every clean draft, and all that one change makes of it."""
    from builder import load_recipes

    recipes = load_recipes()
    for base in BASES.values():
        whole = clean(base, recipes)
        yield whole
        if "keys" in kinds:
            yield from _keys(whole, base)
        if "tensors" in kinds:
            yield from _tensors(whole)
        if "paths" in kinds:
            for begins in ("my-mistral-7b-eagle3-", "eagle3-draft-", "mistral-large-3-", "leanstral-", "b.c_d-"):
                yield _with(whole, f"in a folder named {begins}…", "paths", begins=begins)


def _keys(whole: Mutant, base: Base) -> Iterator[Mutant]:
    for place in ("", *base.keys):
        here = whole.config if not place else whole.config.get(place)
        if not isinstance(here, Mapping):
            continue
        for key, value, text in odd_values(here, place):
            changed = {k: v for k, v in here.items() if k != key} | ({} if value is ABSENT else {key: value})
            config = changed if not place else {**whole.config, place: changed}
            where = f"{place}.{key}" if place else key
            yield _with(whole, f"{where} {text}", "keys", config=config)


def _tensors(whole: Mutant) -> Iterator[Mutant]:
    from builder.draft import Tensor
    from builder.values import random_tensor

    def changed(what: str, tensors: Mapping[str, Any]) -> Mutant:
        return _with(whole, what, "tensors", tensors=tensors)

    for name, tensor in whole.tensors.items():
        others = {other: t for other, t in whole.tensors.items() if other != name}
        yield changed(f"without {name}", others)
        yield changed(f"{name} under an unknown name", {**others, name.replace(".weight", ".kernel") + "_x": tensor})
        yield changed(f"{name} under a prefix", {**others, f"draft_model.{name}": tensor})
        for dim in range(len(tensor.shape)):
            for step in (1, -1):
                shape = tuple(size + step if at == dim else size for at, size in enumerate(tensor.shape))
                floating = tensor.dtype in ("BF16", "F16", "F32")
                other = random_tensor(name, shape, tensor.dtype) if floating else _cut(tensor, shape)
                yield changed(f"{name} is {list(shape)}", {**others, name: other})
        count = math.prod(tensor.shape)
        yield changed(f"{name} in I32", {**others, name: Tensor("I32", tensor.shape, bytes(4 * count))})
    for extra in ("extra.weight", "model.extra.weight", "layers.0.self_attn.extra.weight", "layers.0.mlp.up_proj.bias",
                  "layers.9.mlp.up_proj.weight", "lm_head.bias", "rotary_emb.inv_freq"):  # fmt: skip
        yield changed(f"with {extra}", {**whole.tensors, extra: random_tensor(extra, (64,))})


def _cut(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    from builder.draft import Tensor

    size = len(tensor.data) // max(1, math.prod(tensor.shape))
    needed = math.prod(shape) * size
    return Tensor(tensor.dtype, shape, tensor.data[:needed].ljust(needed, b"\0"))


def _with(
    whole: Mutant,
    what: str,
    kind: str,
    config: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Any] | None = None,
    begins: str = "",
) -> Mutant:
    config = config or whole.config
    asked = whole.asked
    if asked is not None and "num_speculative_tokens" in asked and type(config.get("num_heads")) is int:
        asked = {**asked, "num_speculative_tokens": config["num_heads"]}  # one token for each head (Medusa)
    return Mutant(
        whole.base, what, kind, whole.engines, config, tensors or whole.tensors, whole.target, asked, begins
    )  # fmt: skip
