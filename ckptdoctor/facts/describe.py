"""Checkpoint, target and knowledge → `Facts`, the only names that rules may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args, get_type_hints

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.facts.asked import NOTHING_ASKED, Asked
from ckptdoctor.facts.block.block_draft import BlockDraft, describe_block_draft
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.coverage import NEEDS_COUNTS, Coverage, coverage_of
from ckptdoctor.facts.draft.absent_sizes import absent_sizes
from ckptdoctor.facts.draft.aux_layers import read_aux_layers
from ckptdoctor.facts.draft.classes import architecture_of
from ckptdoctor.facts.draft.details import (
    fc_of,
    first_attention_input,
    matrix_of,
    model_type_of,
    names_of,
    writing_of,
)
from ckptdoctor.facts.draft.draft import Draft, Flags
from ckptdoctor.facts.draft.dtypes import read_dtypes
from ckptdoctor.facts.draft.layout import Layout, lay_out
from ckptdoctor.facts.draft.signs import Evidence, Verdict, weigh
from ckptdoctor.facts.draft.sizes import claims_of, measure_sizes
from ckptdoctor.facts.files import Files, describe_files
from ckptdoctor.facts.kind import UNKNOWN_KIND
from ckptdoctor.facts.knowledge import Algorithm, Knowledge, knowledge
from ckptdoctor.facts.launch.against import against_draft
from ckptdoctor.facts.medusa.medusa import MedusaHeads, describe_medusa
from ckptdoctor.facts.mtp.mtp import MtpHeads, describe_mtp
from ckptdoctor.facts.naming.canonical import Named, canonical_names
from ckptdoctor.facts.quantisation.quantisation import Quantisation, describe_quantisation
from ckptdoctor.facts.quantisation.store import head_of, unpacked
from ckptdoctor.facts.recognising import attention_of, evidence_of, hidden_by_shape
from ckptdoctor.facts.rope.positions import read_positions
from ckptdoctor.facts.rope.scaling import read_scaling
from ckptdoctor.facts.rope.target import compare_rope
from ckptdoctor.facts.target import Target
from ckptdoctor.facts.target_weights import find_target_weights
from ckptdoctor.facts.tokenizer.token_texts import TokenTexts, read_token_texts
from ckptdoctor.facts.tokenizer.tokens import Tokens, describe_tokens
from ckptdoctor.facts.values.values import Values, measure_values
from ckptdoctor.facts.vocabulary.disputed_sizes import with_disputes
from ckptdoctor.facts.vocabulary.heads import HeadComparison, compare_heads
from ckptdoctor.facts.vocabulary.token_map import GivenTokenMap, given_token_map
from ckptdoctor.facts.vocabulary.vocab import VocabMap, describe_vocab
from ckptdoctor.findings import Confidence
from ckptdoctor.launch.line import Launch
from ckptdoctor.unknown import Known, Unknown

__all__ = ["FACT_NAMES", "Facts", "describe"]

_NEEDS_TARGET = Unknown("the target (--target PATH)")
_NEEDS_VALUES = Unknown("the values of the weights (--deep)")
_NEEDS_HEADERS = Unknown("weight files with sound headers")
_NEEDS_TABLE = Unknown("an algorithm whose full set of parameters is known")
_PLAIN = Algorithm("unknown", "unknown", 0, (), False, False, None, (), (), (), {}, UNKNOWN_KIND)


@dataclass(frozen=True)
class Facts:
    """All facts of one examination.

    `uncertain` names those that are one reading among several. `config` and `tensors` are what engines are
    simulated on; rules do not see them.
    """

    files: Files
    draft: Draft
    target: Target | None
    vocab: VocabMap
    tokens: Tokens
    config: Config
    tensors: Mapping[str, TensorInfo]
    uncertain: Mapping[str, Confidence]
    coverage: Known[Coverage] = NEEDS_COUNTS
    heads: Known[HeadComparison] = _NEEDS_VALUES
    token_map: GivenTokenMap | None = None
    launch: Launch | None = None
    mtp: MtpHeads | None = None
    quantisation: Quantisation | None = None
    block: BlockDraft | None = None
    medusa: MedusaHeads | None = None
    values: Known[Values] = _NEEDS_VALUES

    def roots(self) -> dict[str, object]:
        """The facts by root name, as expressions see them."""
        found = {name: getattr(self, name) for name in FACT_NAMES}
        # What nobody asked for is absent, not unknown.
        found |= {name: None for name, value in found.items() if value is NEEDS_COUNTS or value is _NEEDS_VALUES}
        return found if self.target is not None else {**found, "target": _NEEDS_TARGET}


def _only(hint: object) -> type:
    """The type of a fact that may be unknown or None."""
    found: type = next(kind for kind in get_args(hint) or (hint,) if kind not in (Unknown, type(None)))
    return found


FACT_NAMES: Mapping[str, type] = {
    name: _only(hint) for name, hint in get_type_hints(Facts).items() if name not in ("config", "tensors", "uncertain")
}
"""The roots of every expression in a rule: each is a field of `Facts`."""


def describe(
    checkpoint: Checkpoint,
    target: Target | None,
    known: Knowledge | None = None,
    asked: Asked = NOTHING_ASKED,
) -> Facts:
    """Measure everything that rules may ask about `checkpoint`. Never raises for any content.

    No weights are read unless `asked` says so.
    """
    known = known or knowledge()
    config = Config(checkpoint.config, known)
    evidence = evidence_of(checkpoint, config)
    found = weigh({a.id: (a.needs, a.signs) for a in known.algorithms.values()}, evidence)
    algorithm = known.algorithms.get(found.winner or "", _PLAIN)
    writers = {w.id: (3, w.signs) for w in known.writers.values()}
    writer = weigh(writers, Evidence(**{**evidence.__dict__, "algorithm": algorithm.id}))
    named = canonical_names(checkpoint.tensors, known.naming, strip_model=algorithm.tabled)
    canonical = {n.canonical: checkpoint.tensors[n.stored] for n in reversed(named.values())}
    trusted = checkpoint.names_sound
    attention = attention_of(checkpoint.tensors)
    layout: Layout | None = None
    if trusted and algorithm.tabled:
        kind = "mla" if attention == "mla" else "gqa"
        layout = lay_out(checkpoint.tensors, named, algorithm, kind, config, known)
    head = head_of(canonical)
    vocab = describe_vocab(checkpoint, config, canonical, head if _owns_head(algorithm) else None, target, trusted)
    draft = _draft(checkpoint, config, known, algorithm, attention, writer, named, canonical, layout, target)
    if not isinstance(draft.sizes, Unknown):
        draft = replace(draft, sizes=with_disputes(draft.sizes, vocab, target))
    uncertain: dict[str, Confidence] = {}
    if found.winner is not None and found.margin <= 1:
        uncertain["draft.algorithm"] = Confidence.LIKELY
    if writer.winner is not None and writer.margin <= 1:
        uncertain["draft.writer"] = Confidence.LIKELY
    mtp = describe_mtp(checkpoint, config, draft, target, known)
    quantisation = describe_quantisation(checkpoint, config, draft, target, known)
    block = describe_block_draft(checkpoint, config, draft, target, known)
    return Facts(
        files=describe_files(checkpoint),
        draft=draft,
        target=target,
        vocab=vocab,
        tokens=describe_tokens(checkpoint.root, target, vocab, config),
        config=config,
        tensors=checkpoint.tensors,
        uncertain=uncertain,
        coverage=NEEDS_COUNTS if asked.counts is None else coverage_of(asked.counts, vocab, _texts(checkpoint, target)),
        heads=_heads(checkpoint, target, vocab) if asked.deep or asked.heads else _NEEDS_VALUES,
        token_map=given_token_map(asked.launch, checkpoint.root, vocab.size),
        launch=against_draft(asked.launch, checkpoint, draft, target, block, mtp, quantisation),
        mtp=mtp,
        quantisation=quantisation,
        block=block,
        medusa=describe_medusa(checkpoint, config, draft, target, known),
        values=measure_values(checkpoint, draft, target, asked.against, known) if asked.deep else _NEEDS_VALUES,
    )


def _heads(checkpoint: Checkpoint, target: Target | None, vocab: VocabMap) -> Known[HeadComparison]:
    if target is None:
        return _NEEDS_TARGET
    return compare_heads(checkpoint, vocab, find_target_weights(str(target.root)) if target.root is not None else None)


def _texts(checkpoint: Checkpoint, target: Target | None) -> Known[TokenTexts]:
    """The texts of the target's tokens, else those that the draft brings along."""
    texts: Known[TokenTexts] = Unknown("a tokenizer.json beside the target or the draft")
    for place in (target.root if target is not None else None, checkpoint.root):
        if isinstance(texts, Unknown) and place is not None:
            texts = read_token_texts(place)
    return texts


def _owns_head(algorithm: Algorithm) -> bool:
    return algorithm.tabled and any(p.judged == "head" and p.shape[:1] == ("D",) for p in algorithm.parameters)


def _draft(
    checkpoint: Checkpoint,
    config: Config,
    known: Knowledge,
    algorithm: Algorithm,
    attention: str,
    written: Verdict,
    named: Mapping[str, Named],
    canonical: Mapping[str, TensorInfo],
    layout: Layout | None,
    target: Target | None,
) -> Draft:
    trusted = checkpoint.names_sound
    claims = claims_of(config)
    tokens = _tokens(claims.values, canonical)
    embedding = matrix_of(canonical.get("embed_tokens.weight"), claims.values.get("H"), tokens)
    # One that is the wrong way round says nothing about the sizes; it is told as what it is.
    wrong_way = embedding is not None and embedding.transposed
    measured = {n: p for n, p in layout.placed.items() if n != "embed_tokens.weight" or not wrong_way} if layout else {}
    values, sizes, shapes = (
        measure_sizes(measured, claims, algorithm.attention_input) if layout else (dict(claims.values), (), ())
    )
    aux = read_aux_layers(config, known.fields["aux_layer_ids"], algorithm, target)
    positions = read_positions(config, known.fields["positions"])
    rotary = config.size("qk_rope_head_dim") if attention == "mla" else None
    turned = rotary.value if rotary else values.get("hd")
    untabled: Unknown = _NEEDS_TABLE if trusted else _NEEDS_HEADERS
    depth = config.size("num_hidden_layers")
    declared_target = config.size("target_hidden_size")
    if declared_target is None and "H" in values:
        values = {**values, "T": values["H"]}
    hidden = values.get("H") or hidden_by_shape(checkpoint.tensors)
    head = head_of(canonical)
    flags = {name: (f.value if (f := config.flag(name)) else None) for name in known.fields["flags"]}
    variant = next((v for v, p in algorithm.variants if any(p.search(n) for n in checkpoint.tensors)), None)
    return Draft(
        algorithm=algorithm.id,
        algorithm_name=algorithm.name,
        kind=algorithm.kind,
        variant=variant,
        block=algorithm.block,
        tabled=algorithm.tabled,
        attention=attention if trusted else _NEEDS_HEADERS,
        architecture=architecture_of(config, known),
        writer=writing_of(written, known),
        has_config=config.present,
        model_type=model_type_of(config),
        hidden_size=hidden if hidden is not None else Unknown("hidden_size in config.json"),
        heads=_value(config, "num_attention_heads"),
        kv_heads=_value(config, "num_key_value_heads"),
        head_dim=claims.values.get("hd"),
        vocab_size=claims.values.get("V"),
        target_hidden_size=declared_target.value if declared_target else None,
        depth_claimed=depth.value if depth else None,
        depth_claimed_line=depth.line if depth else None,
        depth_claimed_key=depth.key if depth else None,
        depth_stored=len(layout.layers) if layout else untabled,
        first_attention_input=first_attention_input(unpacked(canonical)) if trusted else _NEEDS_HEADERS,
        fc=fc_of(canonical, values, aux.claimed, algorithm, target) if trusted else _NEEDS_HEADERS,
        head=matrix_of(head, hidden, tokens) if trusted else _NEEDS_HEADERS,
        embedding=embedding if trusted else _NEEDS_HEADERS,
        names=names_of(layout, named, canonical, known) if layout else untabled,
        sizes=sizes if layout else untabled,
        absent_sizes=absent_sizes(config, values, known) if layout else untabled,
        shapes=shapes if layout else untabled,
        flags=Flags(**{k: flags[k] for k in Flags.__dataclass_fields__}),
        aux=aux,
        positions=positions,
        scaling=read_scaling(config, positions.place, turned, known.words["rope"]),
        rope=compare_rope(config, positions, algorithm.block, target, known.words["rope"]),
        dtypes=read_dtypes(config, checkpoint.tensors if trusted else {}, target),
        malformed=tuple(config.malformed),
        depth_of_target=depth is not None and target is not None and depth.value == target.num_layers,
    )


def _tokens(values: Mapping[str, int], canonical: Mapping[str, TensorInfo]) -> frozenset[int]:
    """How many tokens a head or an embedding may have rows for: by the config, and by the map."""
    d2t = canonical.get("d2t")
    given = {values.get("V"), values.get("D"), d2t.shape[0] if d2t is not None and len(d2t.shape) == 1 else None}
    return frozenset(n for n in given if n is not None)


def _value(config: Config, name: str) -> int | None:
    field = config.size(name)
    return field.value if field else None
