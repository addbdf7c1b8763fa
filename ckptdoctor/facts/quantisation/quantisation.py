"""Quantisation: what the configs declare, against the tensors that are stored.

Only the modules of the draft are judged: all of its file, or the heads alone where it is the file of their target.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.facts.quantisation.cover import Skipped, Split, Uncovered, find_skipped, find_splits, find_uncovered
from ckptdoctor.facts.quantisation.patterns import TooMuchError
from ckptdoctor.facts.quantisation.scales import Orphan, Unscaled, find_orphans, find_unscaled
from ckptdoctor.facts.quantisation.scheme import Scheme
from ckptdoctor.facts.quantisation.schemes import declared_in, read_schemes, same_effect
from ckptdoctor.facts.quantisation.shapes import Misshapen, misshapen
from ckptdoctor.facts.quantisation.store import Module, gather, representatives
from ckptdoctor.facts.quantisation.target import (
    PackedEmbedding,
    Rotation,
    find_rotation,
    packed_embedding,
    target_embedding,
)
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Unknown

__all__ = ["Difference", "PackedHead", "Quantisation", "ScaleName", "describe_quantisation"]

MOST_MODULES = 4_000
MOST_SHOWN = 50


@dataclass(frozen=True)
class Difference:
    """Two configs that declare different schemes. `what` is `way`, `bits`, `group` or `modules`; for the last
    `module` is one that the first leaves alone and the second does not, or the other way round."""

    first: Scheme
    second: Scheme
    what: str
    module: str | None


@dataclass(frozen=True)
class PackedHead:
    """The draft's own head in packed form, with no tensor called lm_head.weight."""

    name: str
    file: str
    dtype: str


@dataclass(frozen=True)
class ScaleName:
    """Scales under a name that the scheme does not use: `stored` and `wanted` are the last parts of the names."""

    stored: str
    wanted: str
    example: str
    count: int


@dataclass(frozen=True)
class Quantisation:
    """What is known of the quantisation of the draft, or of the target that reaches it.

    `schemes` are all that the files declare and `scheme` the one that engines read first (None: none). `packed` and
    `plain` count the modules (of the heads alone, where these stand in the file of their target); `packed_in_file` says
    whether any module of the file is quantised, `packed_example` names one. `idle`: a scheme for quantised files, and
    not one module is quantised. `target_way` is the target's scheme for people.
    """

    schemes: tuple[Scheme, ...]
    scheme: Scheme | None
    packed: int
    plain: int
    packed_in_file: bool
    packed_example: str | None
    packed_file: str | None
    idle: bool
    uncovered: tuple[Uncovered, ...]
    skipped: tuple[Skipped, ...]
    splits: tuple[Split, ...]
    unscaled: tuple[Unscaled, ...]
    orphans: tuple[Orphan, ...]
    misshapen: tuple[Misshapen, ...]
    scale_names: tuple[ScaleName, ...]
    differences: tuple[Difference, ...]
    head: PackedHead | None
    embedding: PackedEmbedding | None
    rotation: Rotation | None
    target_way: str | None


def describe_quantisation(
    checkpoint: Checkpoint, config: Config, draft: Draft, target: Target | None, known: Knowledge
) -> Quantisation | None:
    """None where neither the draft nor its target has to do with quantisation. Never raises for any content."""
    schemes = read_schemes(checkpoint, known)
    try:
        return _described(checkpoint, config, draft, target, known, schemes)
    except TooMuchError:
        # What such lists name is not known.
        opaque = tuple(replace(scheme, opaque=True) for scheme in schemes)
        return _described(checkpoint, config, draft, target, known, opaque)


def _described(
    checkpoint: Checkpoint,
    config: Config,
    draft: Draft,
    target: Target | None,
    known: Knowledge,
    schemes: tuple[Scheme, ...],
) -> Quantisation | None:
    trusted = checkpoint.names_sound
    every = gather(checkpoint.tensors) if trusted else {}
    quantised = next((m for m in every.values() if m.is_packed), None)
    rotation = find_rotation(target, known) if target is not None else None
    words = known.words["quantisation"]
    scaled = any(m.scales and m.weight != "blocks" for m in every.values())
    nothing = not schemes and quantised is None and rotation is None and not scaled
    if nothing and not (target is not None and target.is_quantised):
        return None
    layers = _target_layers(config, target)
    heads = _heads(every, checkpoint.tensors, words)
    part = _part(every, heads, draft, known)
    shown = representatives(part, MOST_MODULES)
    scheme = schemes[0] if schemes else None
    in_file = quantised is not None or any(m.form not in ("plain", "none") for m in every.values())
    inside = bool(heads) and _may_hold_target(draft)
    splits = find_splits(shown, scheme, words, layers) if scheme is not None else ()
    uncovered = find_uncovered(shown, scheme, words, layers, splits, inside=inside) if scheme is not None else ()
    idle = scheme is not None and scheme.weights and not scheme.at_load and not in_file and trusted
    return Quantisation(
        schemes=schemes,
        scheme=scheme,
        packed=sum(m.is_packed for m in part),
        plain=sum(m.is_plain for m in part),
        packed_in_file=in_file,
        packed_example=quantised.tensors[quantised.weight or ""].name if quantised is not None else None,
        packed_file=quantised.tensors[quantised.weight or ""].file if quantised is not None else None,
        idle=bool(idle and any(u.reach == "none" and u.kind == "layers" for u in uncovered)),
        uncovered=uncovered,
        skipped=find_skipped(shown, scheme) if scheme is not None else (),
        splits=splits,
        unscaled=find_unscaled(part, scheme, words),
        orphans=find_orphans(part, words),
        misshapen=tuple(_misshapen(shown, scheme, words))[:MOST_SHOWN],
        scale_names=_scale_names(part, scheme, words),
        differences=_differences(schemes, shown),
        head=_head(every, draft),
        embedding=_embedding(every, draft, target, known, inside=inside),
        rotation=rotation,
        target_way=_target_way(target, known),
    )


def _target_layers(config: Config, target: Target | None) -> int | None:
    """The decoder layers below the heads, for names that count on; None where nothing says."""
    if target is not None and not isinstance(target.num_layers, Unknown):
        return target.num_layers
    for key in ("num_hidden_layers", "text_config.num_hidden_layers"):
        field = config.at(key)
        if field is not None and type(field.value) is int and 0 < field.value < 2**20:
            return field.value
    return None


def _heads(every: Mapping[str, Module], tensors: Iterable[str], words: Mapping[str, object]) -> frozenset[str]:
    """The modules of heads that stand among those of their target."""
    patterns = [re.compile(p) for p in words["heads"]]  # type: ignore[attr-defined]
    layer = re.compile(str(words["head_layer"]))
    stems = {m.group(1) for name in tensors if (m := layer.match(name))}
    found = set()
    for name in every:
        match = re.match(r"^(.*\.layers\.\d+|layers\.\d+)\.", name)
        if any(p.search(name) for p in patterns) or (match is not None and match.group(1) in stems):
            found.add(name)
    return frozenset(found)


def _may_hold_target(draft: Draft) -> bool:
    return draft.kind.may_hold_target or not draft.kind.known


def _part(every: Mapping[str, Module], heads: frozenset[str], draft: Draft, known: Knowledge) -> Sequence[Module]:
    """The modules that are the draft's."""
    if heads and _may_hold_target(draft):
        own = [m for name, m in every.items() if name in heads]
        return [*own, *(m for name, m in every.items() if name == "lm_head" or name.endswith(".lm_head"))]
    copies = [re.compile(p) for p in known.naming["target_copies"]]
    return [m for name, m in every.items() if not any(p.search(name) for p in copies)]


def _misshapen(shown: Sequence[Module], scheme: Scheme | None, words: Mapping[str, object]) -> Iterable[Misshapen]:
    sizes: tuple[int, ...] = tuple(words["four_bit_groups"])  # type: ignore[arg-type]
    groups: dict[tuple[str, str], list[Misshapen]] = {}
    for module in shown:
        if module.is_packed and (found := misshapen(module, scheme, sizes)) is not None:
            groups.setdefault((found.tensor.rpartition(".")[2], found.because), []).append(found)
    return [replace(rows[0], others=len(rows) - 1) for rows in groups.values()]


def _scale_names(part: Sequence[Module], scheme: Scheme | None, words: Mapping[str, object]) -> tuple[ScaleName, ...]:
    """Scales of plain fp8 under the other of its two names."""
    if scheme is None or scheme.method != "fp8":
        return ()
    names: Mapping[str, str] = words["scale_of"]  # type: ignore[assignment]
    wanted = names["fp8_blocks"] if scheme.block is not None else names["fp8"]
    other = next(n for n in names.values() if n != wanted)
    odd = [m for m in part if m.form == "float8" and other in m.tensors and wanted not in m.tensors]
    return (ScaleName(other, wanted, odd[0].tensors[other].name, len(odd)),) if odd else ()


def _differences(schemes: tuple[Scheme, ...], shown: Sequence[Module]) -> tuple[Difference, ...]:
    found = []
    for second in schemes[1:]:
        first = schemes[0]
        ways = (_way(first), _way(second))
        if first.weights != second.weights or (first.weights and ways[0] != ways[1]):
            found.append(Difference(first, second, "way", None))
        elif None not in (first.bits, second.bits) and first.bits != second.bits:
            found.append(Difference(first, second, "bits", None))
        elif None not in (first.group, second.group) and first.group != second.group:
            found.append(Difference(first, second, "group", None))
        elif first.weights and not first.opaque and not second.opaque:
            linear = (m.name for m in shown if m.is_plain or m.is_packed)
            module = same_effect(first, second, linear)
            if module is not None:
                found.append(Difference(first, second, "modules", module))
    return tuple(found)


def _way(scheme: Scheme) -> str:
    return scheme.name.rpartition(" ")[2].upper() if scheme.method == "modelopt" else scheme.method


def _head(every: Mapping[str, Module], draft: Draft) -> PackedHead | None:
    if not draft.tabled:
        return None
    for name in ("lm_head", "model.lm_head"):
        module = every.get(name)
        if module is not None and module.weight in ("weight_packed", "qweight", "W_q"):
            info = module.tensors[module.weight or ""]
            return PackedHead(info.name, info.file, info.dtype)
    return None


def _embedding(
    every: Mapping[str, Module], draft: Draft, target: Target | None, known: Knowledge, *, inside: bool
) -> PackedEmbedding | None:
    if inside:
        own = packed_embedding(every, known)
        if own is not None:
            return own
    has_own = any(name.endswith("embed_tokens") for name in every)
    if target is None or not target.is_quantised or has_own or not draft.kind.takes_embedding:
        return None
    return target_embedding(target, known)


def _target_way(target: Target | None, known: Knowledge) -> str | None:
    if target is None:
        return None
    for document in (target.document, target.config):
        scheme = declared_in(document, "config.json", known)
        if scheme is not None:
            return scheme.name
    return None
