"""A vocabulary map that is stored under a name which is neither d2t nor t2d."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.knowledge import knowledge

__all__ = ["MapElsewhere", "maps_elsewhere"]

_INTEGERS = frozenset({"I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"})
_MASKS = _INTEGERS | {"BOOL"}


@dataclass(frozen=True)
class MapElsewhere:
    """A tensor of one dimension that may be a map. `name` as stored.

    `meaning` is `d2t` or `t2d` where the name says so, else `unknown`: whole numbers, one for each row of the head.
    `read_by_part` says that the name holds the text d2t (or t2d): SGLang takes any such name for the map and passes
    over any such mask, and vLLM passes over the mask (models/llama_eagle3.py of both).
    """

    name: str
    file: str
    length: int
    meaning: str
    read_by_part: bool


def maps_elsewhere(
    canonical: Mapping[str, TensorInfo], rows: int | None, vocabulary: int | None
) -> tuple[MapElsewhere, ...]:
    """The tensors that may be maps, known names first. `rows` are the head's, `vocabulary` the ids of the target."""
    naming = knowledge().naming
    names = {meaning: re.compile("|".join(patterns)) for meaning, patterns in naming["map_names"].items()}
    suffixes = tuple(f".{suffix}" for suffix in naming["quantised_suffixes"])
    found = []
    for name, info in canonical.items():
        if name in ("d2t", "t2d") or len(info.shape) != 1 or info.dtype not in _MASKS or info.shape[0] < 2:
            continue
        meaning = next((m for m, pattern in names.items() if pattern.search(name)), None)
        length = info.shape[0]
        if meaning is None:
            if info.dtype == "BOOL" or length not in (rows, vocabulary) or name.endswith(suffixes):
                continue
            meaning = "unknown"
        elif meaning == "d2t" and (info.dtype == "BOOL" or rows not in (None, length)):
            continue
        found.append(MapElsewhere(info.name, info.file, length, meaning, meaning in info.name))
    order = ("d2t", "t2d", "unknown")
    return tuple(sorted(found, key=lambda m: (order.index(m.meaning), m.name)))
