"""The parameter table of an algorithm against the stored names: what is there, missing, in pieces or strange."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.tables import LAYER, ParameterTable, feed_forward
from ckptdoctor.facts.knowledge import Algorithm, Knowledge, Parameter
from ckptdoctor.facts.naming.canonical import Named

__all__ = ["Incomplete", "Layout", "Missing", "Placed", "Stranger", "lay_out"]

MAX_LAYERS = 512
MAX_EXTRA_LAYERS = 64
"""Bounds on layers that are looked for, whatever a config or a name claims."""


@dataclass(frozen=True)
class Placed:
    """A stored tensor that the table knows: its parameter, and the layer it belongs to (None: to the draft)."""

    tensor: TensorInfo
    canonical: str
    parameter: Parameter
    layer: int | None


@dataclass(frozen=True)
class Missing:
    """Parameters that one part of the draft (`where`) lacks.

    `whole` says that this part has none of its `of` parameters at all; `found_as` is the name under
    which the same parameters are stored instead, if they are. `number` is set where that is the usual
    name of a layer with another number than 0 (`layers.36` in a draft of one layer).
    """

    where: str
    names: tuple[str, ...]
    of: int
    whole: bool
    found_as: str | None = None
    number: int | None = None


@dataclass(frozen=True)
class Incomplete:
    """A set that engines fuse into one parameter (q/k/v, gate/up) and that is stored in part."""

    group: str
    where: str
    present: tuple[str, ...]
    absent: tuple[str, ...]


@dataclass(frozen=True)
class Stranger:
    """Stored names that no table claims, gathered by where they stand.

    `names` are the first fifty of `every`. `kind`: `buffer` (rotary buffers and the like), `target` (a frozen copy of
    the target) or `unknown`. `resembles` is the missing parameter that the first of them looks like, if any.
    `explained` says that they are a layer under another name, which `Missing.found_as` tells.
    """

    kind: str
    where: str
    names: tuple[str, ...]
    count: int
    resembles: str | None = None
    explained: bool = False
    every: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The stored names, sorted into the table. `head` and `fc` are judged by their own examiners."""

    placed: Mapping[str, Placed] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    strangers: tuple[Stranger, ...] = ()
    collisions: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    layer_names: tuple[str, ...] = ()
    stems: tuple[str, ...] = ()


def lay_out(
    tensors: Mapping[str, TensorInfo],
    named: Mapping[str, Named],
    algorithm: Algorithm,
    attention: str,
    config: Config,
    known: Knowledge,
) -> Layout:
    """Sort `tensors` into the table of `algorithm`. `attention` is `gqa` or `mla`."""
    per_layer = (*algorithm.layer, *known.attention[attention], *feed_forward(named.values(), algorithm, known))
    table = ParameterTable(algorithm.parameters, per_layer, known)
    placed: dict[str, Placed] = {}
    collisions: list[str] = []
    strange: list[Named] = []
    for name in named.values():
        found = table.find(name.canonical)
        if found is None:
            strange.append(name)
        elif name.canonical in placed:
            collisions.append(name.stored)
        else:
            placed[name.canonical] = Placed(tensors[name.stored], name.canonical, *found)
    layers = sorted({int(m.group(1)) for n in named.values() if (m := LAYER.match(n.canonical))})
    stored = frozenset(placed) | table.stand_ins(named.values())
    stems = _layer_stems(strange, per_layer)
    number = None if stems else _number_unlike(layers, placed, per_layer, algorithm, config)
    if number is not None:
        # The layer counts as one under another name, so that it is asked for once and no layer before it is.
        strange += [named[p.tensor.name] for p in placed.values() if p.layer == number]
        placed = {name: p for name, p in placed.items() if p.layer != number}
        outside = [n for n in named.values() if not LAYER.match(n.canonical)]
        layers, stored = [0], frozenset(placed) | table.stand_ins(outside)
        stems = _layer_stems(strange, per_layer)
    expected = [0] if number is not None else _expected_layers(layers, stems, algorithm, config)
    missing = _missing(algorithm.parameters, per_layer, expected, stored, config)
    missing = [replace(m, number=number) if m.whole else m for m in _renamed(missing, stems)]
    unclaimed = _strangers(strange, missing, known)
    aliases = {n.alias for n in named.values() if n.alias and n.canonical in placed}
    return Layout(
        placed=placed,
        missing=tuple(missing),
        incomplete=_incomplete(algorithm.parameters, per_layer, layers, stored),
        strangers=unclaimed,
        collisions=tuple(collisions),
        layers=tuple(layers),
        layer_names=tuple(sorted(aliases)),
        stems=tuple(stems),
    )


def _required(parameter: Parameter, config: Config) -> bool:
    if parameter.optional or parameter.judged or parameter.one_of:
        return False
    if parameter.if_declared and config.size(parameter.if_declared) is None:
        return False
    for flag, value in (parameter.unless or {}).items():
        stated = config.flag(flag)
        if stated is not None and stated.value == value:
            return False
    return True


def _missing(
    top: Sequence[Parameter],
    per_layer: Sequence[Parameter],
    layers: Sequence[int],
    stored: frozenset[str],
    config: Config,
) -> list[Missing]:
    found: list[Missing] = []
    absent = tuple(p.name for p in top if _required(p, config) and p.name not in stored)
    if absent:
        found.append(Missing("the draft", absent, sum(_required(p, config) for p in top), False))
    for layer in layers:
        wanted = [
            p.name
            for p in per_layer
            if _required(p, config) and (p.layers == "all" or (p.layers == "first") == (layer == 0))
        ]
        lacking = [name for name in wanted if f"layers.{layer}.{name}" not in stored]
        whole = len(lacking) == len(wanted)
        lacking += _alternatives(per_layer, layer, stored)
        # A set that is there in part is told as such (see `_incomplete`).
        lacking = [name for name in lacking if whole or not _in_pieces(name, per_layer, layer, stored)]
        if lacking:
            names = tuple(f"layers.{layer}.{name}" for name in lacking)
            found.append(Missing(f"layers.{layer}", names, len(wanted), whole))
    return found


def _alternatives(per_layer: Sequence[Parameter], layer: int, stored: frozenset[str]) -> list[str]:
    """The first of each set of alternatives of which nothing is stored."""
    sets: dict[str, list[str]] = defaultdict(list)
    for parameter in per_layer:
        if parameter.one_of and (parameter.layers == "all" or (parameter.layers == "first") == (layer == 0)):
            sets[parameter.one_of].append(parameter.name)
    return [names[0] for names in sets.values() if not any(f"layers.{layer}.{n}" in stored for n in names)]


def _in_pieces(name: str, per_layer: Sequence[Parameter], layer: int, stored: frozenset[str]) -> bool:
    """Whether another member of the set that `name` belongs to is stored."""
    group = next((p.group for p in per_layer if p.name == name), None)
    return group is not None and any(
        p.group == group and p.name != name and f"layers.{layer}.{p.name}" in stored for p in per_layer
    )


def _expected_layers(
    stored: Sequence[int], stems: Mapping[str, frozenset[str]], algorithm: Algorithm, config: Config
) -> list[int]:
    """The layers that must be whole: all up to the last stored one, and those that the config declares.

    A deeper claim of an EAGLE draft proves nothing by itself (published ones say 40 and store one layer)
    unless something that looks like a layer lies about under another name.
    """
    last = max(stored, default=0)
    declared = config.size("num_hidden_layers")
    if declared is not None and (algorithm.block or stems):
        last = max(last, min(int(declared.value) - 1, last + MAX_EXTRA_LAYERS))
    return list(range(min(last, MAX_LAYERS) + 1))


def _number_unlike(
    layers: Sequence[int],
    placed: Mapping[str, Placed],
    per_layer: Sequence[Parameter],
    algorithm: Algorithm,
    config: Config,
) -> int | None:
    """The number of the one stored layer of an EAGLE draft where it is not 0 and no other layer was lost.

    That none was lost follows from a config of one layer, or from parts that only the first layer of a draft has.
    """
    if algorithm.block or len(layers) != 1 or layers[0] == 0:
        return None
    here = {name.removeprefix(f"layers.{layers[0]}.") for name, p in placed.items() if p.layer == layers[0]}
    if sum(not p.optional for p in per_layer) > 2 * sum(p.name in here for p in per_layer if not p.optional):
        return None
    declared = config.size("num_hidden_layers")
    first = {p.name for p in per_layer if p.layers == "first" and _required(p, config)}
    alone = declared is None or declared.value == 1
    return layers[0] if alone or (len(first) > 1 and first <= here) else None


def _layer_stems(strange: Sequence[Named], per_layer: Sequence[Parameter]) -> dict[str, frozenset[str]]:
    """Names under which something with most of the parts of a layer is stored (`decoder.` → its parts)."""
    suffixes = [p.name for p in per_layer if "{" not in p.name]
    needed = sum(not p.optional for p in per_layer)
    stems: dict[str, set[str]] = defaultdict(set)
    for name in strange:
        for suffix in suffixes:
            if name.stored.endswith(suffix):
                stems[name.stored.removesuffix(suffix)].add(suffix)
    return {stem: frozenset(parts) for stem, parts in stems.items() if len(parts) * 2 >= needed}


def _renamed(missing: Sequence[Missing], stems: Mapping[str, frozenset[str]]) -> list[Missing]:
    """Give each wholly missing layer the name under which its parts are stored instead, in order."""
    free = iter(stems)
    found = []
    for part in missing:
        stem = next(free, None) if part.whole else None
        found.append(part if stem is None else replace(part, found_as=stem.rstrip(".")))
    return found


def _incomplete(
    top: Sequence[Parameter], per_layer: Sequence[Parameter], layers: Sequence[int], stored: frozenset[str]
) -> tuple[Incomplete, ...]:
    """Sets (q/k/v, gate/up, q_norm/k_norm, …) of which only a part is stored."""
    found = []
    for where, rows in [("", top), *((f"layers.{layer}.", per_layer) for layer in layers)]:
        sets: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row.group:
                sets[row.group].append(f"{where}{row.name}")
        for group, names in sets.items():
            present = tuple(n for n in names if n in stored)
            if present and len(present) < len(names):
                absent = tuple(n for n in names if n not in stored)
                found.append(Incomplete(group, where.rstrip("."), present, absent))
    return tuple(found)


def _strangers(strange: Sequence[Named], missing: Sequence[Missing], known: Knowledge) -> tuple[Stranger, ...]:
    buffers = [re.compile(p) for p in known.naming["buffers"]]
    copies = [re.compile(p) for p in known.naming["target_copies"]]
    lacking = [name for m in missing for name in m.names]
    renamed = tuple(f"{m.found_as}." for m in missing if m.found_as is not None)
    groups: dict[tuple[str, str], list[Named]] = defaultdict(list)
    for name in strange:
        if any(p.search(name.canonical) for p in buffers):
            kind = "buffer"
        elif any((not name.prefix and p.search(name.stored)) or p.search(name.canonical) for p in copies):
            kind = "target"
        else:
            kind = "unknown"
        where = name.stored.split(".")[0] if kind == "unknown" else ""
        groups[(kind, where)].append(name)
    found = []
    for (kind, where), members in sorted(groups.items()):
        near = difflib.get_close_matches(members[0].canonical, lacking, n=1, cutoff=0.6) if kind == "unknown" else []
        stored = tuple(n.stored for n in members)
        explained = bool(renamed) and all(name.startswith(renamed) for name in stored)
        found.append(Stranger(kind, where, stored[:50], len(stored), near[0] if near else None, explained, stored))
    return tuple(found)
