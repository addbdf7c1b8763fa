"""What a module for multi-token prediction must consist of, against what is stored of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.mtp.modules import MtpModules, StoredLayer, module_of

__all__ = ["MtpExperts", "MtpGap", "MtpProjection", "experts_of", "gaps_of", "halves_of", "kind_of", "projections_of"]

MAX_SHOWN = 50


@dataclass(frozen=True)
class MtpGap:
    """Parts that one layer, or the module as a whole (`where`), lacks; `present` are others of the same set."""

    where: str
    names: tuple[str, ...]
    present: tuple[str, ...] = ()


@dataclass(frozen=True)
class MtpExperts:
    """A layer whose experts are not all there.

    `stored` of `wanted` experts are whole. `holes` says that numbers below the highest stored one are missing, or parts
    of an expert, or that the model's own layers have more; else the config alone says that there are more.
    """

    where: str
    stored: int
    wanted: int
    missing: tuple[str, ...]
    holes: bool


@dataclass(frozen=True)
class MtpProjection:
    """The projection of embedding and state, [rows, columns], and the width that the config gives (None: none)."""

    name: str
    file: str
    rows: int
    columns: int
    hidden: int | None


def kind_of(found: MtpModules, words: Mapping[str, Any]) -> str:
    """The kind of module by the parts that no other has."""
    if found.layout in ("none", "assistant"):
        return found.layout
    parts = {part for layer in _all(found) for part in layer.parts}
    kinds = words["kinds"]
    if found.layout != "layers" and parts & set(kinds["dspark"]["signs"]):
        return "dspark"
    for kind in ("split", "nextn", "mimo", "ernie", "qwen"):
        if parts & set(kinds[kind]["signs"]):
            return kind
    return "nextn" if found.layout == "layers" else "unknown"


def _all(found: MtpModules) -> Iterator[StoredLayer]:
    yield from found.layers.values()
    if found.top is not None:
        yield found.top


def _steps(found: MtpModules, kind: str, words: Mapping[str, Any]) -> list[list[StoredLayer]]:
    """The layers of each step: from one with the parts of an entrance to the next; each by itself where none has."""
    layers = [found.layers[index] for index in sorted(found.layers)]
    entry = words["kinds"].get(kind, {})
    signs = set(entry.get("signs", ())) if entry.get("per") == "layer" else set()
    heads = [bool(signs & set(layer.parts)) for layer in layers]
    if not any(heads) or not heads[0]:
        return [[layer] for layer in layers]
    steps: list[list[StoredLayer]] = []
    for layer, is_first in zip(layers, heads, strict=True):
        if is_first:
            steps.append([])
        steps[-1].append(layer)
    return steps


def gaps_of(
    found: MtpModules,
    kind: str,
    tensors: Mapping[str, TensorInfo],
    words: Mapping[str, Any],
) -> tuple[MtpGap, ...]:
    """What each step, or the module as a whole, lacks. Only kinds that are known are judged."""
    entry = words["kinds"].get(kind)
    if entry is None or kind == "dspark":
        return ()
    top = found.top.filled if found.top is not None else set()
    gaps = []
    if entry["per"] == "module":
        absent = tuple(name for name in entry["needs"] if name not in top)
        if absent:
            gaps.append(MtpGap(_module(found), absent))
    norms = _norms_of_trunk(found, tensors)
    for step in _steps(found, kind, words):
        filled = {part for layer in step for part in layer.filled}
        absent = ()
        if entry["per"] == "layer":
            absent = tuple(name for name in entry["needs"] if name not in step[0].filled)
            exits = entry.get("one_of", ())
            if exits and not filled & set(exits) and "norm" not in top:
                absent = (*absent, exits[0] if found.layout == "layers" else exits[1])
        lacking = (*absent, *_decoder(step, kind, norms, entry, words))
        if lacking:
            gaps.append(MtpGap(step[0].stem.rstrip("."), lacking))
    if entry["per"] == "module" and not found.layers:
        gaps.append(MtpGap(_module(found), ("layers.0",)))
    return tuple(gaps[:MAX_SHOWN])


def _module(found: MtpModules) -> str:
    if found.top is not None:
        return found.top.stem.rstrip(".")
    return found.layers[min(found.layers)].stem.rstrip(".").removesuffix(".layers.0")


def _decoder(
    step: Sequence[StoredLayer], kind: str, norms: frozenset[str], entry: Mapping[str, Any], words: Mapping[str, Any]
) -> tuple[str, ...]:
    """What the decoder layer inside lacks: attention, a feed-forward part, or norms."""
    filled = {part for layer in step for part in layer.filled}
    absent = []
    if not any(re.match(words["attention"], part) for part in filled):
        absent.append("self_attn")
    if not any(re.match(words["feed_forward"], part) for part in filled):
        absent.append("mlp")
    own = {*entry["needs"], *entry.get("one_of", ())}
    have = {part for part in step[0].filled if "." not in part and "norm" in part and part not in own}
    wanted = norms or (frozenset(words["usual_norms"]) if kind in ("nextn", "mimo") and len(step) == 1 else frozenset())
    if len(have) < len(wanted):
        absent += sorted(wanted - have)[: len(wanted) - len(have)]
    return tuple(absent)


def _norms_of_trunk(found: MtpModules, tensors: Mapping[str, TensorInfo]) -> frozenset[str]:
    """The norms that every layer of the model itself has; empty without them."""
    if not found.trunk or not found.layers:
        return frozenset()
    mine = tuple(layer.stem for layer in _all(found))
    of: dict[str, set[str]] = defaultdict(set)
    for name in tensors:
        if "norm" in name and not name.startswith(mine):
            match = re.match(r"^((?:\w+\.){0,3}?layers\.\d{1,7})\.(\w*norm\w*)\.(?:m\.)?weight$", name)
            if match is not None:
                of[match[1]].add(match[2])
    return frozenset.intersection(*map(frozenset, of.values())) if of else frozenset()


def halves_of(found: MtpModules, kind: str, words: Mapping[str, Any]) -> tuple[MtpGap, ...]:
    """The sets of parts (q, k, v and o; gate, up and down) of which only some are stored."""
    if kind not in words["kinds"] or kind == "dspark":
        return ()
    return tuple([gap for layer in found.layers.values() for gap in _halves(layer, words)][:MAX_SHOWN])


def _halves(layer: StoredLayer, words: Mapping[str, Any]) -> Iterator[MtpGap]:
    for row in words["sets"]:
        if any(part in layer.parts for part in row.get("unless", ())):
            continue
        if "if_any" in row and not any(part in layer.filled for part in row["if_any"]):
            continue
        present = tuple(part for part in row["all"] if part in layer.filled)
        if present and len(present) < len(row["all"]):
            absent = tuple(part for part in row["all"] if part not in layer.filled)
            yield MtpGap(layer.stem.rstrip("."), absent, present)


def experts_of(
    found: MtpModules,
    claimed: int | None,
    tensors: Mapping[str, TensorInfo],
    words: Mapping[str, Any],
    naming: Mapping[str, Any],
) -> tuple[MtpExperts, ...]:
    """Layers with single experts of which some, or some parts, are missing."""
    pattern = re.compile(words["expert"])
    seen: list[tuple[StoredLayer, str, dict[int, set[str]]]] = []
    for layer in found.layers.values():
        groups: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for part in layer.filled:
            match = pattern.match(part)
            if match is not None:
                groups[match["group"]][int(match["index"])].add(match["part"])
        seen += [(layer, group, of) for group, of in groups.items()]
    beside = _experts_of_trunk(found, tensors, naming) if found.layers else 0
    lost = _without_experts(found, max(beside, claimed or 0), words)
    for layer, group, of in seen:
        parts = set[str]().union(*of.values())
        sure = max(max(of) + 1, beside)
        wanted = max(sure, claimed or 0)
        if wanted > 2**16:
            continue
        whole = [index for index, have in of.items() if have == parts]
        if len(whole) == wanted:
            continue
        missing = [f"{group}.{i}.{p}" for i in range(wanted) for p in sorted(parts - of.get(i, set()))]
        where = layer.stem.rstrip(".")
        lost.append(MtpExperts(where, len(whole), wanted, tuple(missing[:MAX_SHOWN]), len(whole) < sure))
    return tuple(lost[:MAX_SHOWN])


def _without_experts(found: MtpModules, wanted: int, words: Mapping[str, Any]) -> list[MtpExperts]:
    """Layers with a router and no expert at all, single or stacked."""
    lost = []
    for layer in found.layers.values():
        lonely = words["router"] in layer.filled and not any(part.startswith("mlp.experts") for part in layer.parts)
        if lonely and 0 < wanted <= 2**16:
            missing = [f"mlp.experts.{i}.{p}" for i in range(min(wanted, MAX_SHOWN)) for p in words["expert_parts"]]
            lost.append(MtpExperts(layer.stem.rstrip("."), 0, wanted, tuple(missing[:MAX_SHOWN]), True))
    return lost


def _experts_of_trunk(found: MtpModules, tensors: Mapping[str, TensorInfo], naming: Mapping[str, Any]) -> int:
    """How many experts the layers of the model itself have, where all of them have the same number; else 0."""
    mine = tuple(layer.stem for layer in _all(found))
    highest: dict[str, int] = {}
    for name in tensors:
        at = name.find(".experts.")
        if at < 0 or name.startswith(mine) or not module_of(name, naming)[1]:
            continue
        index = name[at + 9 :].partition(".")[0]
        if index.isdecimal() and len(index) < 7:
            highest[name[:at]] = max(highest.get(name[:at], 0), int(index) + 1)
    return next(iter(highest.values())) if len(set(highest.values())) == 1 else 0


def projections_of(
    found: MtpModules,
    kind: str,
    tensors: Mapping[str, TensorInfo],
    hidden: int | None,
    words: Mapping[str, Any],
    every: bool = False,
) -> tuple[MtpProjection, ...]:
    """The projections of embedding and state that are not [hidden, 2 * hidden]; with `every` all of them."""
    wrong = []
    for part in words["kinds"].get(kind, {}).get("projection", ()):
        for layer in _all(found):
            for name in layer.parts.get(part, ()):
                info = tensors[name]
                if not name.endswith(".weight") or len(info.shape) != 2 or info.dtype in ("U8", "I8", "I32", "F4"):
                    continue
                rows, columns = info.shape
                if every or columns != 2 * rows or (hidden is not None and rows != hidden):
                    wrong.append(MtpProjection(name, info.file, rows, columns, hidden))
    return tuple(wrong[:MAX_SHOWN])
