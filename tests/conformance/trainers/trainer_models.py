"""The trainers' own classes: SpecForge's and speculators' models, run on the CPU. Imports nothing of ckptdoctor.

Their code is run as it is, with TORCHDYNAMO_DISABLE=1 (no compiler is needed then) and with the eager attention that
speculators itself offers. Weights are put in with load_state_dict, for which names are brought into the class's own
form; what else has to be changed for a draft is told in `Outcome.changes`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from torch import Tensor

from tests.conformance.trainers.trainer_cases import LENGTH, STEPS, Inputs, inputs_of

__all__ = ["NotLoadableError", "Outcome", "run_class"]

_FROM_TARGET = {"embed_tokens.weight"}


class NotLoadableError(Exception):
    """A draft that a class cannot load; the message says why."""


class _EnoughError(Exception):
    """Raised by a hook once the head has run; the losses that follow are not wanted."""


@dataclass(frozen=True)
class Outcome:
    """What a class computed: `logits` float32 [steps, n, D], nan where it computes nothing (P-EAGLE, at the end of the
    text); `hidden` float32 [steps, n, H], None where it does not show. `changes` says what was done to the draft."""

    logits: np.ndarray[Any, Any]
    hidden: np.ndarray[Any, Any] | None
    inputs: Inputs
    changes: tuple[str, ...] = ()


def run_class(folder: Path, trainer: str) -> Outcome:
    """Load the draft in `folder` into its trainer's class (`specforge`, `speculators`) and run it.

    Raises `NotLoadableError` where the class cannot take it.
    """
    torch.manual_seed(0)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights, changes = _weights(folder)
    if "fc.weight" not in weights:
        raise NotLoadableError("it has no fc")
    parallel = "mask_hidden" in weights
    if config.get("draft_vocab_size") is None:
        config["draft_vocab_size"] = len(weights["lm_head.weight"])
        changes.append("draft_vocab_size of the head's rows")
    build = _specforge if trainer == "specforge" else _speculators
    model = build(config, weights, parallel, changes)
    table = _load(model, weights)
    inputs = inputs_of(weights["fc.weight"].shape[1], *table.shape)
    if not weights.keys() & _FROM_TARGET:
        model.embed_tokens.weight.data = torch.from_numpy(inputs.embedding.copy())
    run: Callable[..., Any] = {
        ("specforge", False): _chain_specforge, ("specforge", True): _groups_specforge,
        ("speculators", False): _chain_speculators, ("speculators", True): _groups_speculators,
    }[trainer, parallel]  # fmt: skip
    with torch.no_grad():
        logits, hidden = run(model.float().eval(), inputs, config)
    return Outcome(logits, hidden, inputs, tuple(changes))


def _weights(folder: Path) -> tuple[dict[str, Tensor], list[str]]:
    """The draft's tensors by plain names, and what was done to them."""
    stored: dict[str, Tensor] = {}
    changes: list[str] = []
    for file in sorted(folder.glob("*.safetensors")):
        from safetensors.torch import load_file

        stored.update(load_file(file))
    if not stored:
        for file in sorted([*folder.glob("*.bin"), *folder.glob("*.pt")]):
            content = torch.load(file, map_location="cpu", weights_only=True)
            inner = content.get("draft_state_dict")
            if inner is not None:
                changes.append("draft_state_dict taken out")
            stored.update({k: v for k, v in (inner or content).items() if isinstance(v, torch.Tensor)})
    plain: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        if name.startswith("target_model."):
            changes.append("target_model.* left out")
            continue
        short = name.removeprefix("model.")
        if short != name:
            changes.append("prefix model. taken off")
        plain[short] = tensor
    return plain, sorted(set(changes))


def _load(model: Any, weights: dict[str, Tensor]) -> Tensor:
    """Put the weights in; every parameter but the embedding must be there. Returns the embedding."""
    own = {name for name, _ in model.named_parameters()}
    unknown = set(weights) - own - {"d2t", "t2d"}
    lacking = own - set(weights) - _FROM_TARGET - {"verifier_lm_head.weight", "verifier_norm.weight"}
    if unknown or lacking:
        raise NotLoadableError(f"unknown to the class: {sorted(unknown)[:4]}; lacking: {sorted(lacking)[:4]}")
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items() if name in own}, strict=False)
    table: Tensor = model.embed_tokens.weight
    return table


def _renamed(weights: dict[str, Tensor], old: str, new: str, changes: list[str]) -> None:
    for name in [n for n in weights if n.startswith(old)]:
        weights[new + name.removeprefix(old)] = weights.pop(name)
        if f"{old}* called {new}*" not in changes:
            changes.append(f"{old}* called {new}*")


# --- SpecForge ---------------------------------------------------------------------------------------------------


def _specforge(config: dict[str, Any], weights: dict[str, Tensor], parallel: bool, changes: list[str]) -> Any:
    from transformers import LlamaConfig

    if parallel:
        from specforge.modeling.draft.peagle import PEagleDraftModel as Model
    else:
        from specforge.modeling.draft.llama3_eagle import LlamaForCausalLMEagle3 as Model

        _renamed(weights, "layers.0.", "midlayer.", changes)
    try:
        return Model(LlamaConfig.from_dict(config))
    except (TypeError, AttributeError, ValueError, KeyError) as error:
        raise NotLoadableError(f"the class cannot be built: {error}") from error


def _chain_specforge(model: Any, inputs: Inputs, _config: dict[str, Any]) -> tuple[Any, Any]:
    """Training-time test as its trainer runs it (algorithms/eagle3): backbone again and again with one cache_hidden."""
    hidden = model.project_hidden_states(torch.from_numpy(inputs.states)[None])
    mask = model.prepare_decoder_attention_mask(torch.ones(1, LENGTH, dtype=torch.bool), hidden, 1, LENGTH, 0)
    places = torch.arange(LENGTH)[None]
    cache: list[list[Tensor]] = [[], []]
    logits, states = [], []
    for step in range(STEPS):
        embedded = model.embed_input_ids(torch.from_numpy(inputs.given(step))[None])
        hidden = model.backbone(embedded, hidden, cache, mask, places)
        states.append(hidden[0].numpy())
        logits.append(model.compute_logits(hidden)[0].numpy())
    return np.stack(logits), np.stack(states)


def _groups_specforge(model: Any, inputs: Inputs, config: dict[str, Any]) -> tuple[Any, Any]:
    """The forward of its trainer up to the head, with every chain that fits into the text."""
    with _no_triton():
        from specforge.algorithms.peagle.model import OnlinePEagleModel, generate_cod_sample_indices

    text = torch.ones(1, LENGTH)
    anchors, depth = generate_cod_sample_indices(
        seq_length=LENGTH, loss_mask=text, lengths=torch.tensor([LENGTH]), num_depths=STEPS, down_sample_ratio=1.0,
        down_sample_ratio_min=1.0,
    )  # fmt: skip
    trainer = OnlinePEagleModel(model, _mask_token(config), STEPS, 1.0, 1.0)
    tokens = torch.from_numpy(inputs.tokens)[None]
    states = torch.from_numpy(inputs.states)[None]
    out = _until_head(model, lambda: trainer(tokens, text, None, text, states))
    return _by_anchor(out, anchors, depth), None


@contextlib.contextmanager
def _no_triton() -> Iterator[None]:
    """SpecForge's losses are kernels of triton, which comes with a CUDA build of torch alone. None of them is run."""
    lacking = [name for name in ("triton", "triton.language") if importlib.util.find_spec("triton") is None]
    sys.modules.update({name: MagicMock(name=name) for name in lacking})
    try:
        yield
    finally:
        for name in lacking:
            del sys.modules[name]


# --- speculators -------------------------------------------------------------------------------------------------


def _speculators(config: dict[str, Any], weights: dict[str, Tensor], parallel: bool, changes: list[str]) -> Any:
    import torch.nn.attention.flex_attention  # noqa: F401 - speculators' classes take it for loaded
    from speculators import Eagle3DraftModel, Eagle3SpeculatorConfig, PEagleDraftModel, PEagleSpeculatorConfig

    _renamed(weights, "midlayer.", "layers.0.", changes)
    if "speculators_model_type" not in config:
        changes.append("config put into the speculators format")
        config = _wrapped(config, weights)
    if "pard_token" in config:
        config["mask_token_id"] = config.pop("pard_token")
    states = weights["fc.weight"].shape[1] // len(weights["norm.weight"])
    config.setdefault("eagle_aux_hidden_state_layer_ids", list(range(1, states + 1)))
    if parallel:
        config["mask_token_id"] = _mask_token(config)
    kind: Any = PEagleSpeculatorConfig if parallel else Eagle3SpeculatorConfig
    fields = kind.model_fields
    made = kind(**{name: value for name, value in config.items() if name in fields and name != "speculators_config"})
    made.transformer_layer_config._attn_implementation = "eager"
    return (PEagleDraftModel if parallel else Eagle3DraftModel)(made)


def _wrapped(config: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    flags = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "draft_vocab_size", "pard_token")
    layer = {name: value for name, value in config.items() if name not in (*flags, "architectures", "torch_dtype")}
    layer["model_type"] = "qwen3" if any(n.endswith("q_norm.weight") for n in weights) else "llama"
    kept = {name: config[name] for name in flags if config.get(name) is not None}
    return {"transformer_layer_config": layer, **kept}


def _chain_speculators(model: Any, inputs: Inputs, _config: dict[str, Any]) -> tuple[Any, Any]:
    """Its forward, which feeds the text's own tokens on; logits and states are taken by hooks."""
    logits: list[Any] = []
    hidden: list[Any] = []
    model.lm_head.register_forward_hook(lambda _m, _i, out: logits.append(out[0].numpy()))
    model.norm.register_forward_hook(lambda _m, given, _o: hidden.append(given[0][0].numpy()))
    tokens = torch.from_numpy(inputs.tokens)[None]
    model(torch.from_numpy(inputs.states)[None], tokens, torch.zeros_like(tokens), ttt_steps=STEPS)
    return np.stack(logits), np.stack(hidden)


def _groups_speculators(model: Any, inputs: Inputs, _config: dict[str, Any]) -> tuple[Any, Any]:
    """Its forward up to the head; at each depth it leaves out one chain by chance."""
    from speculators.models.peagle.data import generate_cod_sample_indices

    text = torch.ones(1, LENGTH)
    rates = {"num_depths": STEPS, "down_sample_ratio": 1.0, "down_sample_ratio_min": 1.0}
    torch.manual_seed(1)
    anchors, depth = generate_cod_sample_indices(seq_length=LENGTH, loss_mask=text, **rates)
    torch.manual_seed(1)
    tokens = torch.from_numpy(inputs.tokens)[None]
    states = torch.from_numpy(inputs.states)[None]
    out = _until_head(
        model,
        lambda: model(
            states, tokens, torch.zeros_like(tokens), loss_mask=text, verifier_last_hidden_states=states, **rates
        ),
    )
    return _by_anchor(out, anchors, depth), None


# --- P-EAGLE -----------------------------------------------------------------------------------------------------


def _mask_token(config: dict[str, Any]) -> int:
    """The mask token; one that is not given is the last token of the vocabulary, on both sides."""
    layer = config.get("transformer_layer_config", config)
    size = layer["vocab_size"] if isinstance(layer, dict) else layer.vocab_size
    given = config.get("mask_token_id", config.get("pard_token"))
    return int(size - 1 if given is None else given)


def _until_head(model: Any, run: Callable[[], Any]) -> Tensor:
    """What the head gives; the run is ended there."""
    caught: list[Tensor] = []

    def stop(_module: Any, _given: Any, out: Tensor) -> None:
        caught.append(out)
        raise _EnoughError

    hook = model.lm_head.register_forward_hook(stop)
    try:
        run()
    except _EnoughError:
        pass
    finally:
        hook.remove()
    return caught[0][0]


def _by_anchor(out: Tensor, anchors: Tensor, depth: Tensor) -> np.ndarray[Any, Any]:
    """float32 [steps, n, D] by the place where each chain began; nan where the trainer sampled no such chain."""
    logits = torch.full((STEPS, LENGTH, out.shape[-1]), float("nan"))
    known = anchors >= 0
    logits[depth[known], anchors[known]] = out[known]
    return logits.numpy()
