"""The parameter table of an algorithm against the stored names: what is there, missing, in pieces or strange."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import Algorithm, Knowledge, Parameter
from ckptdoctor.facts.names import Named
from ckptdoctor.facts.tables import LAYER, ParameterTable

__all__ = ["Incomplete", "Layout", "Missing", "Placed", "Stranger", "lay_out"]

MAX_LAYERS = 512
MAX_EXTRA_LAYERS = 64
"""Bounds on layers that are looked for, whatever a config or a name claims."""

_TRIPLES = (
    ("q/k/v", ("q_proj", "k_proj", "v_proj")),
    ("gate/up", ("gate_proj", "up_proj")),
)


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
    which the same parameters are stored instead, if they are.
    """

    where: str
    names: tuple[str, ...]
    of: int
    whole: bool
    found_as: str | None = None


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

    `kind`: `buffer` (rotary buffers and the like), `target` (a frozen copy of the target) or
    `unknown`. `resembles` is the missing parameter that the first of them looks like, if any.
    """

    kind: str
    where: str
    names: tuple[str, ...]
    count: int
    resembles: str | None = None


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


def lay_out(
    tensors: Mapping[str, TensorInfo],
    named: Mapping[str, Named],
    algorithm: Algorithm,
    attention: str,
    config: Config,
    known: Knowledge,
) -> Layout:
    """Sort `tensors` into the table of `algorithm`. `attention` is `gqa` or `mla`."""
    per_layer = (*algorithm.layer, *known.attention[attention], *known.feed_forward)
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
    expected = _expected_layers(layers, stems, algorithm, config)
    missing = _missing(algorithm.parameters, per_layer, expected, stored, config)
    unclaimed = _strangers(strange, missing, known)
    aliases = {n.alias for n in named.values() if n.alias and n.canonical in placed}
    return Layout(
        placed=placed,
        missing=tuple(_renamed(missing, stems)),
        incomplete=_incomplete(named.values()),
        strangers=unclaimed,
        collisions=tuple(collisions),
        layers=tuple(layers),
        layer_names=tuple(sorted(aliases)),
    )


def _required(parameter: Parameter, config: Config) -> bool:
    if parameter.optional or parameter.judged:
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
    fused = {f"self_attn.{p}.weight" for p in _TRIPLES[0][1]} | {f"mlp.{p}.weight" for p in _TRIPLES[1][1]}
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
        # A q/k/v or gate/up set that is there in part is told as such (see `_incomplete`).
        in_pieces = {name for name in lacking if name in fused and not whole and _has_sibling(name, layer, stored)}
        lacking = [name for name in lacking if name not in in_pieces]
        if lacking:
            names = tuple(f"layers.{layer}.{name}" for name in lacking)
            found.append(Missing(f"layers.{layer}", names, len(wanted), whole))
    return found


def _has_sibling(name: str, layer: int, stored: frozenset[str]) -> bool:
    module, projection, weight = name.split(".")
    for _, members in _TRIPLES:
        if projection in members:
            return any(f"layers.{layer}.{module}.{m}.{weight}" in stored for m in members if m != projection)
    return False


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


def _incomplete(named: Iterable[Named]) -> tuple[Incomplete, ...]:
    """q/k/v and gate/up sets of which only a part is stored, wherever they stand."""
    modules: dict[tuple[str, str], set[str]] = defaultdict(set)
    pattern = re.compile(r"^(.*?)\b([qkv]_proj|gate_proj|up_proj)\.(weight|weight_packed|qweight)$")
    for name in named:
        match = pattern.match(name.canonical)
        if match:
            modules[(match.group(1), match.group(3))].add(match.group(2))
    found = []
    for (module, weight), present in sorted(modules.items()):
        for group, members in _TRIPLES:
            there = [m for m in members if m in present]
            # A q_proj alone is how latent attention without a compressed query looks.
            if there and len(there) < len(members) and not (there == ["q_proj"] and "q_proj" in module):
                absent = tuple(f"{module}{m}.{weight}" for m in members if m not in present)
                stored = tuple(f"{module}{m}.{weight}" for m in there)
                found.append(Incomplete(group, module.rstrip("."), stored, absent))
    return tuple(found)


def _strangers(strange: Sequence[Named], missing: Sequence[Missing], known: Knowledge) -> tuple[Stranger, ...]:
    buffers = [re.compile(p) for p in known.naming["buffers"]]
    copies = [re.compile(p) for p in known.naming["target_copies"]]
    lacking = [name for m in missing for name in m.names]
    groups: dict[tuple[str, str], list[Named]] = defaultdict(list)
    for name in strange:
        if any(p.search(name.canonical) for p in buffers):
            kind = "buffer"
        elif any(p.search(name.stored) or p.search(name.canonical) for p in copies):
            kind = "target"
        else:
            kind = "unknown"
        where = name.stored.split(".")[0] if kind == "unknown" else ""
        groups[(kind, where)].append(name)
    found = []
    for (kind, where), members in sorted(groups.items()):
        near = difflib.get_close_matches(members[0].canonical, lacking, n=1, cutoff=0.6) if kind == "unknown" else []
        stored = tuple(n.stored for n in members)
        found.append(Stranger(kind, where, stored[:50], len(stored), near[0] if near else None))
    return tuple(found)
