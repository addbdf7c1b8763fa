"""Codes without scales, and scales without codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.quantisation.module_kinds import MOST_SHOWN, kind_of, last_part
from ckptdoctor.facts.quantisation.scheme import Scheme
from ckptdoctor.facts.quantisation.store import Module

__all__ = ["Orphan", "Unscaled", "find_orphans", "find_unscaled"]


@dataclass(frozen=True)
class Unscaled:
    """Quantised values without what gives them back their size: `lacks` is the last part of the names that are
    absent."""

    modules: tuple[str, ...]
    count: int
    lacks: str
    example: str
    file: str


@dataclass(frozen=True)
class Orphan:
    """Scales without quantised values. `beside`: `nothing`, or `plain` where the weight is stored plain."""

    names: tuple[str, ...]
    count: int
    beside: str
    file: str


def find_unscaled(part: Iterable[Module], scheme: Scheme | None, words: Mapping[str, Any]) -> tuple[Unscaled, ...]:
    """The quantised modules whose scales, or zeros that others have, are not stored."""
    modules = list(part)
    with_zeros = sum("qzeros" in m.tensors for m in modules)
    groups: dict[str, list[Module]] = {}
    for module in modules:
        suffix = module.weight
        if suffix is None or kind_of(module, words) is None:
            continue
        info = module.tensors[suffix]
        needs = words["needs"].get(suffix)
        if needs is not None:
            if not any(n in module.tensors for n in needs):
                groups.setdefault(needs[0], []).append(module)
            elif suffix == "qweight" and with_zeros and "qzeros" not in module.tensors:
                groups.setdefault("qzeros", []).append(module)
        elif suffix == "blocks" and "scales" not in module.tensors:
            groups.setdefault("scales", []).append(module)
        elif scheme is not None and scheme.weights and not module.scales and _holds_codes(info, words):
            groups.setdefault("weight_scale_inv" if scheme.block else "weight_scale", []).append(module)
    found = []
    for lacks, rows in groups.items():
        info = rows[0].tensors[rows[0].weight or ""]
        found.append(Unscaled(tuple(m.name for m in rows[:MOST_SHOWN]), len(rows), lacks, info.name, info.file))
    return tuple(found)


def _holds_codes(info: TensorInfo, words: Mapping[str, Any]) -> bool:
    return len(info.shape) >= 2 and (info.dtype in ("U8", "I8") or info.dtype in words["float8"])


def find_orphans(part: Iterable[Module], words: Mapping[str, Any]) -> tuple[Orphan, ...]:
    """The scales and zeros that belong to no quantised weight."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for module in part:
        if kind_of(module, words) is None and last_part(module.name) != "embed_tokens":
            continue
        beside = "nothing" if module.weight is None else "plain" if module.is_plain else ""
        if not beside:
            continue
        for suffix, info in module.tensors.items():
            if suffix in words["scales"] or suffix in words["zeros"]:
                groups.setdefault(beside, []).append((info.name, info.file))
    return tuple(
        Orphan(tuple(name for name, _ in rows[:MOST_SHOWN]), len(rows), beside, rows[0][1])
        for beside, rows in sorted(groups.items())
    )
