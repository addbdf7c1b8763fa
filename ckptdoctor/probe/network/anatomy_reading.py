"""From config and shapes of tensors to the anatomy of a draft and the wiring that its files state. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import Facts
from ckptdoctor.facts.knowledge import Knowledge, knowledge
from ckptdoctor.probe.network.anatomy import ACTIVATION, EPS, Anatomy
from ckptdoctor.probe.network.measures import heads_of, hidden_of, latent_of, states_of, vocabulary_of
from ckptdoctor.probe.network.stored_parts import check_parts, known_parts
from ckptdoctor.probe.network.turning import turning_of
from ckptdoctor.probe.wiring import Wiring
from ckptdoctor.serving.layers.training import trained_boundaries
from ckptdoctor.text import show

__all__ = ["anatomy_of", "forward_customs", "stated_wiring"]

_ACTIVATIONS = frozenset({"silu", "swish", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "relu2"})
_MOST_LAYERS = 64
_SWITCHED = frozenset({"qwen2", "qwen3", "qwen3_moe"})
"""Kinds of layers that forget sliding_window where use_sliding_window is false (their configs in transformers 5.24)."""


def forward_customs(facts: Facts, known: Knowledge | None = None) -> Mapping[str, Any]:
    """What the writer's own class computes in its own way (rules/writers, conventions.forward), by the field's name.

    `residual` is `configured` where norm_before_residual is read, else `before_norm`. An unknown writer has none, and
    its flags mean what engines take them for.
    """
    writer = (known or knowledge()).writers.get(facts.draft.writer.id)
    if writer is None:
        return {"residual": "configured"}
    own = writer.conventions.get("forward", {}).get(facts.draft.algorithm, {})
    return {"residual": writer.conventions["residual"], **own}


def anatomy_of(facts: Facts, known: Knowledge | None = None) -> Anatomy:
    """The anatomy of the draft that `facts` describe.

    Sizes are those of the tensors; the config gives what no tensor shows. Later layers are ordinary decoder layers of
    input H, as speculators, Model-Optimizer, SpecForge's P-EAGLE and vLLM have them; their first norm is
    input_layernorm, and hidden_norm where that alone is stored (SGLang 0.5.23 uses hidden_norm in every layer,
    llama_eagle3.py, though no trainer writes one there). Raises `CannotExamineError` with the reason where a draft
    cannot be run.
    """
    known = known or knowledge()
    draft = facts.draft
    if not draft.kind.fuses_states:
        kind = draft.algorithm_name if draft.kind.known else "of an unknown kind"
        raise CannotExamineError(f"this draft is {show(kind)}; only EAGLE-3 and P-EAGLE drafts can be run")
    parts, layers = known_parts(facts, known)
    if not 0 < layers <= _MOST_LAYERS:
        raise CannotExamineError(f"{layers} decoder layers are stored; at most {_MOST_LAYERS} are run")
    customs = forward_customs(facts, known)
    attention = draft.attention if isinstance(draft.attention, str) else "llama"
    hidden = hidden_of(parts)
    width, states = states_of(facts, parts, hidden)
    latent = latent_of(facts, parts) if attention == "mla" else None
    heads, kv_heads, head_dim = heads_of(facts, parts, latent)
    vocabulary, rows, tied = vocabulary_of(facts, parts)
    turning = turning_of(facts, latent.turned if latent else head_dim, customs, mla=latent is not None)
    if turning.problem and customs.get("rope_scaling") != "unread":
        raise CannotExamineError(turning.problem)
    anatomy = Anatomy(
        algorithm=draft.algorithm, attention=attention, hidden=hidden, target_width=width, states=states, layers=layers,
        heads=heads, kv_heads=kv_heads, head_dim=head_dim, vocab_size=vocabulary, draft_vocab_size=rows,
        turning=turning, eps=_eps(facts), activation=_activation(facts), latent=latent,
        windows=_windows(facts, layers, customs), parallel=draft.kind.parallel,
        first_norms=tuple(
            "input_layernorm" if f"layers.{n}.input_layernorm.weight" in parts else "hidden_norm"
            for n in range(1, layers)
        ),
        fc="fc.weight" in parts, fc_norm="fc_norm.0.weight" in parts, input_norm="input_norm.weight" in parts,
        hidden_norm="layers.0.hidden_norm.weight" in parts, input_layernorm="layers.0.input_layernorm.weight" in parts,
        norm="norm.weight" in parts, head="lm_head.weight" in parts, tied=tied, mask_hidden="mask_hidden" in parts,
        mask_token=_mask_token(facts, known), parts=parts,
    )  # fmt: skip
    check_parts(anatomy, facts)
    return anatomy


def stated_wiring(facts: Facts, anatomy: Anatomy, columns: int | Sequence[int | None]) -> Wiring:
    """The wiring as the files state it, in the sense of their writer.

    `columns` is the number of recorded states, or which boundary each of them is (`Samples.boundaries`): then the
    draft's own boundaries are looked for, and the first ones are taken where they are not there. A norm that the config
    does not mention counts as meant where it is stored. norm_before_residual counts as false where a config that may
    have it does not: vLLM 0.33.0 takes it for true in the speculators format (transformers_utils/configs/speculators),
    speculators 0.9.0 itself for false.
    """
    flags, customs, turning = facts.draft.flags, forward_customs(facts), anatomy.turning
    meaning = customs.get("norm_output", "next_step")
    fixed = facts.draft.writer.rope_base
    return Wiring(
        states=_columns(facts, anatomy, columns),
        fc=anatomy.fc,
        norm_before_fc=anatomy.input_norm and flags.norm_before_fc is not False,
        fc_norm=anatomy.fc_norm and flags.fc_norm is not False,
        residual_after_norm=customs["residual"] == "configured" and bool(flags.norm_before_residual),
        norm_output=meaning == "next_step" and bool(flags.norm_output) and anatomy.norm,
        head_norm=anatomy.norm and not (meaning == "head" and flags.norm_output is False),
        rope_base=turning.base if fixed is None else float(fixed),
        rope_scaling=customs.get("rope_scaling") != "unread",
    )


def _columns(facts: Facts, anatomy: Anatomy, columns: int | Sequence[int | None]) -> tuple[int, ...]:
    count = columns if isinstance(columns, int) else len(columns)
    first = tuple(range(min(anatomy.states, count)))
    if isinstance(columns, int):
        return first
    wanted = trained_boundaries(facts).boundaries
    places = [columns.index(b) for b in wanted or () if b in columns]
    return tuple(places) if len(places) == anatomy.states else first


def _layer_field(facts: Facts, key: str) -> Any:
    """A field of the decoder layer, wherever the dialect keeps it."""
    found = facts.config.all_of((key, f"transformer_layer_config.{key}", f"model.{key}"))
    return found[0].value if found else None


def _eps(facts: Facts) -> float:
    value = _layer_field(facts, "rms_norm_eps")
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1
    return float(value) if good else EPS


def _activation(facts: Facts) -> str:
    value = _layer_field(facts, "hidden_act")
    if value is None:
        return ACTIVATION
    if value not in _ACTIVATIONS:
        raise CannotExamineError(f"the activation {show(value)} (hidden_act) is not known here")
    return str(value)


def _windows(facts: Facts, layers: int, customs: Mapping[str, Any]) -> tuple[int | None, ...]:
    """The window of each layer: only those that layer_types calls sliding_attention have one."""
    kinds, window = _layer_field(facts, "layer_types"), _layer_field(facts, "sliding_window")
    if customs.get("windows") == "unread" or not isinstance(kinds, list) or type(window) is not int or window < 1:
        return (None,) * layers
    if facts.draft.model_type in _SWITCHED and _layer_field(facts, "use_sliding_window") is False:
        return (None,) * layers
    padded = [*kinds[:layers], *[None] * (layers - len(kinds))]
    return tuple(window if kind == "sliding_attention" else None for kind in padded)


def _mask_token(facts: Facts, known: Knowledge) -> int | None:
    fields = facts.config.all_of(known.words["block"]["fields"]["mask_token"])
    return next((f.value for f in fields if type(f.value) is int and 0 <= f.value < 2**31), None)
