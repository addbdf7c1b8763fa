"""Weights that are not there as one matrix: adapters, weight norm, flattened parameters (rules/facts/naming.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.naming.canonical import Named

__all__ = ["Unmerged", "unmerged_of"]


@dataclass(frozen=True)
class Unmerged:
    """Tensors of one kind; `names` are the first eight of `count`.

    `kind`: `adapter` (low-rank, with its base layer), `weight_norm` (a matrix as direction and length) or `flat`
    (parameters of several modules in one row of numbers).
    """

    kind: str
    names: tuple[str, ...]
    count: int


def unmerged_of(named: Iterable[Named], naming: Mapping[str, Any]) -> tuple[Unmerged, ...]:
    """The kinds that are there. Names of more than 4096 characters are passed over."""
    stored = [n.stored for n in named if len(n.stored) <= 4096]
    found = []
    for kind, patterns in naming["unmerged"].items():
        compiled = [re.compile(p) for p in patterns]
        names = [name for name in stored if any(p.search(name) for p in compiled)]
        if names:
            found.append(Unmerged(kind, tuple(names[:8]), len(names)))
    return tuple(found)
