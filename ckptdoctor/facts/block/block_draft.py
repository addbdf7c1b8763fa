"""Block drafters and parallel drafting: block size, mask token, captured layers and their extra parts.

A block drafter (DFlash, DFlash-2, Domino, XPress, JetSpec, DSpark) fills a block of masked positions in one pass; a
parallel drafter (P-EAGLE, PARD) appends masked positions to what it has drafted so far.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.facts.block.attention import LayerKinds, read_layer_kinds
from ckptdoctor.facts.block.beside_layers import Parts, read_parts
from ckptdoctor.facts.block.claims import (
    ClassName,
    Confidence,
    LackingSettings,
    MaskHidden,
    Needed,
    OtherKind,
    class_name_of,
    confidence_of,
    lacking_settings_of,
    markov_type_of,
    mask_hidden_of,
    needed_of,
    other_kind_of,
)
from ckptdoctor.facts.block.fields import Disagreeing, Stated, Values, flag_of, read_values, special_tokens, text_of
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.facts.naming.canonical import canonical_names
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Known, Unknown, known_or

__all__ = ["BlockDraft", "Causal", "MaskToken", "describe_block_draft"]

_NEEDS_HEADERS = Unknown("weight files with sound headers")
_MOST_LAYERS = 4096


@dataclass(frozen=True)
class MaskToken:
    """The token that stands for what is yet to be drafted.

    `values` are the places that name it. `limit` is the first id that is too large: the larger one of the target's
    vocabulary and the rows of the draft's own embedding. `outside` says that the id is `certain` to be too large, or
    `likely` (it is past the draft's own vocab_size and the target is not known), or `no`. `special` names the token of
    another meaning that has the same id (`eos_token_id`).
    """

    values: Values
    limit: int | None
    outside: str
    special: str | None


@dataclass(frozen=True)
class Causal:
    """Whether a position of the block sees the later ones: `stated` in the config (None: nowhere).

    `disagreement` are is_causal and dflash_config.causal that differ. `jetspec` is the place of the config that calls
    the draft a JetSpec one, whose block is causal.
    """

    stated: Stated | None
    disagreement: Disagreeing | None
    jetspec: str | None


@dataclass(frozen=True)
class BlockDraft:
    """What is known of a block drafter or of a parallel drafter.

    `family` is `block` or `parallel`; `parallel_stated` is what the config says of parallel drafting. `formula` are the
    layers that SGLang captures where the config names none, `formula_fits` whether fc takes as many. `lacking_settings`
    are settings that the stored parts need and that are not in the config.
    """

    family: str
    speculators: bool
    block_size: Values
    mask: MaskToken
    parallel_stated: Stated | None
    asks_parallel: bool
    formula: tuple[int, ...] | None
    formula_fits: bool
    causal: Causal
    class_name: Known[ClassName]
    parts: Known[Parts]
    needed: Known[tuple[Needed, ...]]
    other_kind: Known[OtherKind | None]
    projector: Stated | None
    projector_needed: Known[str | None]
    lacking_settings: Known[tuple[LackingSettings, ...]]
    markov_type: Stated | None
    markov_type_stored: Known[str | None]
    confidence: Known[Confidence]
    mask_hidden: Known[MaskHidden | None]
    layer_kinds: LayerKinds


def describe_block_draft(
    checkpoint: Checkpoint, config: Config, draft: Draft, target: Target | None, known: Knowledge
) -> BlockDraft | None:
    """None where the checkpoint has nothing of the kind."""
    table = known.words["block"]
    fields: Mapping[str, Any] = table["fields"]
    stated_parallel = flag_of(config, fields["parallel"])
    hidden = mask_hidden_of(checkpoint.tensors, draft)
    mask = read_values(config, fields["mask_token"], 0)
    asks = stated_parallel is not None and stated_parallel.value is True
    parallel = draft.kind.parallel or (draft.kind.fuses_states and (asks or hidden or not mask.absent))
    if not (draft.block or parallel or (draft.kind.model and config.at("pard_token") is not None)):
        return None
    sound = checkpoint.names_sound
    projector = text_of(config, fields["projector"])
    layers = draft.depth_stored if isinstance(draft.depth_stored, int) else 0
    parts = read_parts(_meant(checkpoint.tensors, draft, known), config, table, _sizes(draft, config), layers)
    formula = _formula(draft)
    return BlockDraft(
        family="block" if draft.block else "parallel",
        speculators=config.at("speculators_model_type") is not None,
        block_size=read_values(config, fields["block_size"]),
        mask=_mask(mask, config, draft, target, table),
        parallel_stated=stated_parallel,
        asks_parallel=asks or config.at("pard_token") is not None or config.at("ptd_token_id") is not None,
        formula=formula,
        formula_fits=formula is not None and _states(draft) == len(formula),
        causal=_causal(config, table),
        class_name=class_name_of(config, draft, known, parts) if sound else _NEEDS_HEADERS,
        parts=parts if sound else _NEEDS_HEADERS,
        needed=needed_of(config, draft, known, parts, projector) if sound else _NEEDS_HEADERS,
        other_kind=other_kind_of(config, known, parts) if sound else _NEEDS_HEADERS,
        projector=projector,
        projector_needed=_projector_of(parts, table) if sound else _NEEDS_HEADERS,
        lacking_settings=lacking_settings_of(config, parts, table) if sound else _NEEDS_HEADERS,
        markov_type=text_of(config, fields["markov_type"]),
        markov_type_stored=markov_type_of(parts, checkpoint.tensors, table) if sound else _NEEDS_HEADERS,
        confidence=confidence_of(checkpoint.tensors, config, draft, table, parts) if sound else _NEEDS_HEADERS,
        mask_hidden=hidden if sound else _NEEDS_HEADERS,
        layer_kinds=read_layer_kinds(config, draft, fields),
    )


def _meant(tensors: Mapping[str, TensorInfo], draft: Draft, known: Knowledge) -> Mapping[str, TensorInfo]:
    """The tensors by name, those with a name of a trainer's own by what it means."""
    named = canonical_names(tensors, known.naming, strip_model=draft.tabled)
    return {n.prefix + n.canonical if n.private else name: tensors[name] for name, n in named.items()}


def _projector_of(parts: Parts, table: Mapping[str, Any]) -> str | None:
    return next((kind for part, kind in table["projector_of"].items() if part in parts.stored), None)


def _sizes(draft: Draft, config: Config) -> dict[str, int]:
    sizes: dict[str, int] = {}
    if not isinstance(draft.hidden_size, Unknown):
        sizes["H"] = draft.hidden_size
    if draft.vocab_size is not None:
        vocab = config.size("draft_vocab_size")
        sizes["V"] = draft.vocab_size
        if config.at("dflash_config.selector_vocab_size") is None and config.at("selector_vocab_size") is None:
            sizes["SV"] = draft.vocab_size
        sizes["D"] = vocab.value if vocab is not None else draft.vocab_size
    return sizes


def _mask(values: Values, config: Config, draft: Draft, target: Target | None, table: Mapping[str, Any]) -> MaskToken:
    rows: list[int] = []
    embedding = known_or(draft.embedding, None)
    if embedding is not None and embedding.dtype in ("BF16", "F16", "F32"):
        rows.append(embedding.rows)
    vocabulary: Known[int] = target.vocab_size if target is not None else Unknown("the target (--target PATH)")
    certain = not isinstance(vocabulary, Unknown)
    if not isinstance(vocabulary, Unknown):
        rows.append(vocabulary)
    if not certain and draft.vocab_size is not None:
        rows.append(draft.vocab_size)
    limit = max(rows, default=None)
    too_large = limit is not None and values.value is not None and values.value >= limit
    special = special_tokens(config, table)
    return MaskToken(
        values=values,
        limit=limit,
        outside=("certain" if certain else "likely") if too_large else "no",
        special=special.get(values.value) if values.value is not None else None,
    )


def _states(draft: Draft) -> int | None:
    fc = known_or(draft.fc, None)
    return None if fc is None else fc.states


def _formula(draft: Draft) -> tuple[int, ...] | None:
    """What SGLang captures without a list (speculative/dflash_utils.py 0.5.23, build_target_layer_ids)."""
    depth, layers = draft.aux.depth, draft.depth_claimed
    if isinstance(depth, Unknown) or not draft.block or layers is None or not 0 < depth < _MOST_LAYERS:
        return None
    if layers == 1:
        return (depth // 2,)
    if depth < 4 or layers > 512:
        return None
    return tuple(round(1 + i * (depth - 4) / (layers - 1)) for i in range(layers))


def _causal(config: Config, table: Mapping[str, Any]) -> Causal:
    places = [flag for key in table["fields"]["causal"] if (flag := flag_of(config, [key])) is not None]
    differ = len(places) == 2 and places[0].value != places[1].value
    return Causal(
        stated=places[0] if places else None,
        disagreement=Disagreeing(places[0], places[1]) if differ else None,
        jetspec=_called(config, re.compile(table["jetspec"])),
    )


def _called(config: Config, pattern: re.Pattern[str]) -> str | None:
    """The key of the config that says `pattern`: by its own name, or with a text in it."""
    objects: list[tuple[str, Any]] = [("", config.document.object if config.document is not None else {})]
    objects += [
        (f"{name}.", field.value) for name in ("dflash_config", "speculators_config") if (field := config.at(name))
    ]
    for prefix, value in objects:
        if not isinstance(value, dict):
            continue
        for key, inner in list(value.items())[:512]:
            texts = [key, *(t for t in (inner if isinstance(inner, list) else [inner])[:8] if isinstance(t, str))]
            if any(pattern.search(text[:256]) for text in texts if isinstance(text, str)):
                return f"{prefix}{key}"
    return None
