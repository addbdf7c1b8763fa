"""The stored names of Medusa heads: which head, which layer and which part each of them is, whatever the layout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ckptdoctor.facts.knowledge import knowledge

__all__ = ["MedusaName", "layout_of", "written"]

_MOST_HEADS = 4096


@dataclass(frozen=True)
class MedusaName:
    """One stored name. `prefix` is what stands before the layout's own form; `layer` is None for the output, whose
    number in the name (if it has one) is `number`. `part` is `weight` or `bias`."""

    name: str
    prefix: str
    head: int
    layer: int | None
    number: int | None
    part: str


def layout_of(names: Iterable[str]) -> tuple[str, tuple[MedusaName, ...]] | None:
    """The layout that most of `names` are in, and those names; None where no name is in any."""
    stored = list(names)
    found: list[tuple[str, tuple[MedusaName, ...]]] = []
    for layout in knowledge().words["medusa"]["layouts"]:
        read = tuple(n for name in stored if (n := _read(name, layout)) is not None)
        if any(n.layer is not None for n in read):
            found.append((layout, _of_one_prefix(read)))
    return max(found, key=lambda item: len(item[1]), default=None)


def _of_one_prefix(names: tuple[MedusaName, ...]) -> tuple[MedusaName, ...]:
    """The names under the prefix that most of the heads' layers have: others belong to something else."""
    prefix = Counter(n.prefix for n in names if n.layer is not None).most_common(1)[0][0]
    return tuple(n for n in names if n.prefix == prefix)


def written(name: MedusaName, layout: str, prefix: str, layers: int) -> str:
    """The name in another layout, for heads of `layers` layers."""
    forms: Mapping[str, Any] = knowledge().words["medusa"]["layouts"][layout]
    form = forms["output"] if name.layer is None else forms["linear"]
    layer = layers if name.layer is None else name.layer
    return f"{prefix}{form.format(head=name.head, layer=layer)}.{name.part}"


def _read(name: str, layout: str) -> MedusaName | None:
    linear, output = _patterns(layout)
    match = linear.fullmatch(name)
    if match is not None:
        return _named(name, match, int(match["layer"]), None)
    match = output.fullmatch(name)
    if match is None:
        return None
    number = match.groupdict().get("layer")
    return _named(name, match, None, None if number is None else int(number))


def _named(name: str, match: re.Match[str], layer: int | None, number: int | None) -> MedusaName | None:
    head = int(match["head"])
    if head >= _MOST_HEADS or (layer or 0) >= _MOST_HEADS:
        return None
    return MedusaName(name, match["prefix"], head, layer, number, match["part"])


@lru_cache(maxsize=16)
def _patterns(layout: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of a head's layers and of its output."""
    forms: Mapping[str, Any] = knowledge().words["medusa"]["layouts"][layout]

    def pattern(form: str) -> re.Pattern[str]:
        text = re.escape(form).replace(r"\{head\}", r"(?P<head>\d{1,6})").replace(r"\{layer\}", r"(?P<layer>\d{1,6})")
        return re.compile(rf"(?P<prefix>(?:[^.\n]+\.)*?){text}\.(?P<part>weight|bias)")

    return pattern(forms["linear"]), pattern(forms["output"])
