"""The parameter table of an algorithm against the stored names: what is there, missing, in pieces or strange."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import Algorithm, Knowledge, Parameter
from ckptdoctor.facts.names import Named

__all__ = ["Incomplete", "Layout", "Missing", "Placed", "Stranger", "lay_out"]

_LAYER = re.compile(r"^layers\.(\d+)\.(.+)$")
_BLANK = {"{j}": r"\d+", "{i}": r"\d+", "{word}": r"\w+", "{rest}": r".+"}
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
    table = _Table(algorithm.parameters, per_layer, known)
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
    layers = sorted({int(m.group(1)) for n in named.values() if (m := _LAYER.match(n.canonical))})
    stored = frozenset(placed) | table.stand_ins(named.values())
    missing = _missing(algorithm.parameters, per_layer, layers, stored, config)
    unclaimed = _strangers(strange, missing, known)
    aliases = {n.alias for n in named.values() if n.alias and n.canonical in placed}
    return Layout(
        placed=placed,
        missing=tuple(_renamed(m, strange, per_layer) for m in missing),
        incomplete=_incomplete(named.values()),
        strangers=unclaimed,
        collisions=tuple(collisions),
        layers=tuple(layers),
        layer_names=tuple(sorted(aliases)),
    )


class _Table:
    """Lookup of canonical names in a parameter table, biases and quantisation suffixes included."""

    def __init__(self, top: Sequence[Parameter], layer: Sequence[Parameter], known: Knowledge) -> None:
        self._top, self._top_patterns = self._split(top)
        self._layer: dict[str, list[Parameter]] = defaultdict(list)
        exact, self._layer_patterns = self._split(layer)
        for parameter in layer:
            if parameter.name in exact:
                self._layer[parameter.name].append(parameter)
        self._suffixes = frozenset(known.naming["quantised_suffixes"])
        self._stand_ins = tuple(known.naming["stand_ins_for_weight"])

    @staticmethod
    def _split(rows: Sequence[Parameter]) -> tuple[dict[str, Parameter], list[tuple[re.Pattern[str], Parameter]]]:
        exact = {row.name: row for row in rows if "{" not in row.name}
        patterns = []
        for row in rows:
            if "{" in row.name:
                text = re.escape(row.name).replace(r"\{", "{").replace(r"\}", "}")
                for blank, pattern in _BLANK.items():
                    text = text.replace(blank, pattern)
                patterns.append((re.compile(f"^{text}$"), row))
        return exact, patterns

    def find(self, canonical: str) -> tuple[Parameter, int | None] | None:
        """The parameter that `canonical` names, and its layer; None for a stranger."""
        found = self._plain(canonical)
        if found is not None:
            return found
        module, _, last = canonical.rpartition(".")
        if last == "bias" or last in self._suffixes:
            owner = self._plain(f"{module}.weight")
            if owner is not None:
                return Parameter(canonical, optional=True, judged="bias" if last == "bias" else "quantised"), owner[1]
        return None

    def _plain(self, canonical: str) -> tuple[Parameter, int | None] | None:
        if canonical in self._top:
            return self._top[canonical], None
        match = _LAYER.match(canonical)
        if match:
            layer, rest = int(match.group(1)), match.group(2)
            for parameter in self._layer.get(rest, ()):
                if parameter.layers == "all" or (parameter.layers == "first") == (layer == 0):
                    return parameter, layer
            for pattern, parameter in self._layer_patterns:
                if pattern.match(rest):
                    return parameter, layer
        for pattern, parameter in self._top_patterns:
            if pattern.match(canonical):
                return parameter, None
        return None

    def stand_ins(self, named: object) -> frozenset[str]:
        """Plain names that are stored in a packed form (`q_proj.weight_packed` for `q_proj.weight`)."""
        found: set[str] = set()
        for name in named:  # type: ignore[attr-defined]
            module, _, last = name.canonical.rpartition(".")
            if last in self._stand_ins:
                found.add(f"{module}.weight")
        return frozenset(found)


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
    for layer in layers or [0]:
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


def _renamed(missing: Missing, strange: Sequence[Named], per_layer: Sequence[Parameter]) -> Missing:
    """Whether most of a missing layer is stored under another name: then that name is the finding."""
    suffixes = [p.name for p in per_layer if "{" not in p.name]
    stems: dict[str, set[str]] = defaultdict(set)
    for name in strange:
        for suffix in suffixes:
            if name.stored.endswith(suffix):
                stems[name.stored.removesuffix(suffix)].add(suffix)
    if missing.where == "the draft" or not missing.whole or not stems:
        return missing
    stem, matched = max(stems.items(), key=lambda item: len(item[1]))
    if len(matched) * 2 < missing.of:
        return missing
    return Missing(missing.where, missing.names, missing.of, missing.whole, stem.rstrip("."))


def _incomplete(named: object) -> tuple[Incomplete, ...]:
    """q/k/v and gate/up sets of which only a part is stored, wherever they stand."""
    modules: dict[tuple[str, str], set[str]] = defaultdict(set)
    pattern = re.compile(r"^(.*?)\b([qkv]_proj|gate_proj|up_proj)\.(weight|weight_packed|qweight)$")
    for name in named:  # type: ignore[attr-defined]
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
