"""What can be measured in a list of target ids without knowing what it means: repeats, ends, order, fill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]

__all__ = ["Violation", "fills_up", "order_of", "outside_of", "relation_to_mask", "repeats_of"]

FILL_LIMIT = 1024
"""Entries at most that only round a draft vocabulary up; engines and trainers pad to multiples of 8 to 512."""

# Ids below this are found through a table of as many places; the others, which no vocabulary has, by sorting.
_SCATTERED = 2**23
_MULTIPLE = 8
_SMALLEST = 64


@dataclass(frozen=True)
class Violation:
    """Entries that break a reading. `draft_id` is the first of them, `target_id` what it gives, `other` the
    draft id that has the same target (None when the target is out of range)."""

    count: int
    draft_id: int
    target_id: int
    other: int | None = None


def repeats_of(targets: IntArray, size: int) -> Violation | None:
    """The entries of `targets` (int64, shape [D]) inside [0, size) whose id an earlier entry has already."""
    import numpy as np

    # Targets that are outside are counted as such.
    kept = (targets >= 0) & (targets < size)
    inside = targets if kept.all() else targets[kept]
    if not len(inside):
        return None
    end = int(inside.max()) + 1
    if end <= _SCATTERED:
        seen = np.zeros(end, dtype=bool)
        seen[inside] = True
        if np.count_nonzero(seen) == len(inside):
            return None
    index = np.flatnonzero(kept)
    if end <= _SCATTERED:
        first = np.zeros(end, dtype=np.int64)
        first[inside[::-1]] = index[::-1]  # of several equal ids the first entry is written last
        earlier = first[inside]
    else:
        _, where, inverse = np.unique(inside, return_index=True, return_inverse=True)
        earlier = index[where][inverse]
    again = np.flatnonzero(earlier != index)
    if not len(again):
        return None
    return Violation(len(again), int(index[again[0]]), int(inside[again[0]]), int(earlier[again[0]]))


def outside_of(targets: IntArray, size: int) -> Violation | None:
    """The entries of `targets` that are no id of a vocabulary of `size`."""
    import numpy as np

    where = np.flatnonzero((targets < 0) | (targets >= size))
    return Violation(len(where), int(where[0]), int(targets[where[0]])) if len(where) else None


def order_of(targets: IntArray) -> str:
    """`ascending`, `frequency` (neighbours rise and fall about equally often, as in a list by falling count), `other`.

    Nothing in a file proves by what a list was ordered; `frequency` is its look alone.
    """
    import numpy as np

    if len(targets) < 2:
        return "ascending"
    rises = float((np.diff(targets) > 0).mean())
    if rises == 1.0:
        return "ascending"
    return "frequency" if 0.25 <= rises <= 0.75 else "other"


def relation_to_mask(d2t: IntArray, positions: IntArray, mask_length: int) -> tuple[str | None, int]:
    """How the offsets `d2t` (int64, shape [D]) and the marks of t2d (`positions`, ascending, of `mask_length` places)
    are the same map in spite of being at odds: `moved` (each target is one and the same number above the mark: the
    second value), `negated` (the offsets with the other sign give the marks), `complement` (t2d marks exactly the ids
    that d2t does not give). (None, 0) where they are not. Marks that are one run prove nothing: any run is any other,
    moved.
    """
    import numpy as np

    count = len(d2t)
    if count < 3 or not len(positions) or not d2t.any():
        return None, 0
    index = np.arange(count, dtype=np.int64)
    targets = np.sort(index + d2t)
    if len(positions) == count and int(positions[-1]) - int(positions[0]) >= count:
        apart = targets - positions
        if apart[0] and bool((apart == apart[0]).all()):
            return "moved", int(apart[0])
        if bool(np.array_equal(np.sort(index - d2t), positions)):
            return "negated", 0
    inside = targets[0] >= 0 and targets[-1] < mask_length
    if inside and len(positions) == mask_length - count and bool((targets[1:] > targets[:-1]).all()):
        marked = np.zeros(mask_length, dtype=bool)
        marked[positions] = True
        if not marked[targets].any():
            return "complement", 0
    return None, 0


def fills_up(targets: IntArray, start: int) -> bool:
    """Whether the entries of `targets` from `start` on only fill a map up to a round size.

    They do when all have one and the same offset (target id minus draft id), or give one id, or ids that earlier
    entries have already. A single one counts only with the offset 0 or such an id.
    """
    import numpy as np

    count = len(targets)
    rest = count - start
    if count < _SMALLEST or count % _MULTIPLE or not 0 < rest <= min(FILL_LIMIT, start):
        return False
    tail = targets[start:]
    offsets = tail - np.arange(start, count, dtype=np.int64)
    constant = bool((offsets == offsets[0]).all()) and (rest > 1 or not offsets[0])
    same = rest > 1 and bool((tail == tail[0]).all())
    return constant or same or bool(np.isin(tail, targets[:start]).all())
