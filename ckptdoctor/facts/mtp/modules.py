"""Stored names → the layers and modules of multi-token prediction, in whichever layout they stand."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

__all__ = ["MtpModules", "StoredLayer", "find_modules", "module_of", "tails_of"]

MAX_LAYERS = 512
"""MTP layers that are looked at, whatever is stored."""

_HINTS = ("mtp", "eh_proj", "enorm", "hnorm", "e_proj", "h_proj")


@dataclass
class StoredLayer:
    """One layer as stored: what stands before its parts (`model.layers.61.`), its number, and its parts without their
    suffix (`self_attn.q_proj`) with the names that give each. `filled` are the parts that have a weight."""

    stem: str
    root: str
    index: int
    parts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    filled: set[str] = field(default_factory=set)


@dataclass
class MtpModules:
    """What is stored of MTP: `layers` by number, `top` what belongs to the module as a whole, the `layout`, and the
    numbers of the layers of the trunk beside it."""

    layout: str = "none"
    layers: dict[int, StoredLayer] = field(default_factory=dict)
    top: StoredLayer | None = None
    trunk: frozenset[int] = frozenset()


def module_of(name: str, words: Mapping[str, Any]) -> tuple[str, bool]:
    """A stored name without the suffix of its kind of tensor, and whether it is the weight of that part.

    `words` is rules/facts/naming.yaml. A name without a suffix is a part of its own.
    """
    module, dot, last = name.rpartition(".")
    if not dot:
        return name, True
    if last == "weight" or last in words["stand_ins_for_weight"]:
        return module.removesuffix(".m"), True
    if last == "bias" or last in words["quantised_suffixes"] or last == "e_score_correction_bias":
        return module, False
    return name, True


def tails_of(layer: StoredLayer) -> frozenset[str]:
    """What stands behind the stem, one name a tensor, with `.weight` for whatever stands in for a weight."""
    found = set()
    for part, names in layer.parts.items():
        for name in names:
            last = name.rpartition(".")[2]
            if part == last or part.endswith(f".{last}"):
                found.add(part)
            elif last in ("bias", "e_score_correction_bias") or part not in layer.filled:
                found.add(f"{part}.{last}")
            else:
                found.add(f"{part}.weight")
    return frozenset(found)


def find_modules(
    names: Iterable[str],
    depth: int | None,
    declared: int | None,
    words: Mapping[str, Any],
    naming: Mapping[str, Any],
) -> MtpModules:
    """Sort `names`. Layers from number `depth` on count as MTP layers where the config declares some.

    `words` is rules/facts/mtp.yaml, `naming` rules/facts/naming.yaml.
    """
    found = MtpModules()
    elsewhere = _compiled(words["elsewhere"])
    heads: dict[str, list[str]] = defaultdict(list)
    for name in names:
        heads[_head(name)].append(name)
    heads = {head: members for head, members in heads.items() if not elsewhere.search(head)}
    names = [name for members in heads.values() for name in members]
    _ernie(names, found, words, naming)
    for layout in ("mtp_layers", "mtp"):
        if not found.layers and found.top is None:
            _prefixed(names, layout, found, words, naming)
    if not found.layers and found.top is None:
        _behind(heads, found, depth, declared, words, naming)
    mine = _stems(found)
    pattern = _compiled(words["trunk"])
    trunk = set()
    for head in heads:
        match = pattern.match(head)
        if match is not None and not head.startswith(mine):
            trunk.add(int(match["index"]))
    found.trunk = frozenset(trunk)
    return found


def _head(name: str) -> str:
    """A name up to the number of its layer; up to its third part where it has none. Names of one layer share it."""
    at = name.find("layers.")
    at = name.find(".", at + 7) if at >= 0 else name.find(".", name.find(".", name.find(".") + 1) + 1)
    return name[: at + 1] if at >= 0 else name


def _stems(found: MtpModules) -> tuple[str, ...]:
    return (*(layer.stem for layer in found.layers.values()), *((found.top.stem,) if found.top else ()))


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _put(layer: StoredLayer, name: str, part: str, words: Mapping[str, Any], naming: Mapping[str, Any]) -> None:
    part = _compiled(words["wrapped"]).sub("", part)
    module, is_weight = module_of(part, naming)
    layer.parts[module].append(name)
    if is_weight:
        layer.filled.add(module)


def _prefixed(
    names: list[str], layout: str, found: MtpModules, words: Mapping[str, Any], naming: Mapping[str, Any]
) -> None:
    """`mtp_layers.N.*`, or `mtp.*` with and without numbers."""
    patterns = words["layouts"][layout]
    layers = _compiled(patterns["layer"])
    top = _compiled(patterns["top"]) if patterns["top"] else None
    for name in names:
        if "mtp" not in name:
            continue
        match = layers.match(name)
        if match is not None:
            index = int(match["index"])
            if index not in found.layers and len(found.layers) >= MAX_LAYERS:
                continue
            layer = found.layers.setdefault(index, StoredLayer(match["stem"], match["root"], index))
            _put(layer, name, match["part"], words, naming)
        elif top is not None and (match := top.match(name)) is not None:
            if found.top is None:
                found.top = StoredLayer(match["stem"], match["root"], -1)
            _put(found.top, name, match["part"], words, naming)
    if found.layers or found.top is not None:
        found.layout = layout


def _ernie(names: list[str], found: MtpModules, words: Mapping[str, Any], naming: Mapping[str, Any]) -> None:
    pattern = _compiled(words["indexed_parts"])
    for name in names:
        match = pattern.match(name) if "mtp_" in name else None
        if match is None:
            continue
        index = int(match["index"])
        if index not in found.layers and len(found.layers) >= MAX_LAYERS:
            continue
        stem = f"{match['root']}mtp_block.{index}."
        layer = found.layers.setdefault(index, StoredLayer(stem, match["root"], index))
        part = match["rest"] if match["part"] == "mtp_block" else f"{match['part']}.{match['rest']}"
        _put(layer, name, part, words, naming)
        found.layout = "indexed"


def _behind(
    heads: Mapping[str, Sequence[str]],
    found: MtpModules,
    depth: int | None,
    declared: int | None,
    words: Mapping[str, Any],
    naming: Mapping[str, Any],
) -> None:
    """`model.layers.N.*` behind the last layer: known by its own parts, or by its number where some are declared."""
    pattern = _compiled(words["layouts"]["layers"]["layer"])
    signs = {part for kind in ("nextn", "split") for part in words["kinds"][kind]["signs"]}
    wrapped = _compiled(words["wrapped"])
    layers = [(m, head) for head in heads if (m := pattern.match(f"{head}x")) is not None and m["part"] == "x"]
    numbers: set[int] = set()
    for match, head in layers:
        for name in heads[head]:
            if any(hint in name for hint in _HINTS):
                part = wrapped.sub("", name[len(head) :])
                if module_of(part, naming)[0] in signs:
                    numbers.add(int(match["index"]))
                    break
    last = depth + declared if depth and declared else 0
    for match, head in layers:
        index = int(match["index"])
        declared_here = depth is not None and depth <= index < last
        if index in numbers or (declared_here and index > min(numbers, default=-1)):
            if index not in found.layers and len(found.layers) >= MAX_LAYERS:
                continue
            layer = found.layers.setdefault(index, StoredLayer(match["stem"], match["root"], index))
            for name in heads[head]:
                _put(layer, name, name[len(head) :], words, naming)
    if found.layers:
        found.layout = "layers"
