"""A draft-to-target map read under each of its possible meanings.

`target = d2t[i] + k·i` with k = 0 (absolute ids), 1 (offsets, what engines read) or 2 (the index was
subtracted twice). A reading *fits* when its targets are unique and inside [0, V). With t2d (D True
bits, their positions summing to T) the only possible k is (T − Σ d2t) / (D(D−1)/2), and it is
confirmed when the targets are exactly the True positions; order plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]

__all__ = ["READINGS", "MapReading", "Violation", "read_map"]

READINGS = (0, 1, 2)
# A value beyond this is no token id in any reading; keeps sums inside 64 bits.
_FAR = 2**40
# A map is called damaged, not of another convention, while fewer than one entry in a hundred is wrong.
_DAMAGE_SHARE = 0.01


@dataclass(frozen=True)
class Violation:
    """Entries that break a reading. `draft_id` is the first of them, `target_id` what it gives, `other` the
    draft id that has the same target (None when the target is out of range)."""

    count: int
    draft_id: int
    target_id: int
    other: int | None = None


@dataclass(frozen=True)
class MapReading:
    """What a map can mean.

    `readings`: the k that fit, ascending. `confirmed`: the k whose targets are exactly t2d's True
    positions, or None. `verdict` names the state of the map: `identity`, `right`, `stale_t2d`,
    `absolute`, `offset_twice`, `open`, `damaged`, `zeros_never_loaded`, `zeros_first`, `zeros_lost`,
    `zeros_undecided`, `empty`. `violations` counts the entries that are wrong as offsets. `repeated` and
    `out_of_range` are counted in the reading that the verdict speaks of (offsets, unless the map is of
    another convention). `ascending`: targets never fall. `targets` are the target ids under offsets,
    for coverage.
    """

    readings: tuple[int, ...]
    confirmed: int | None
    verdict: str
    violations: int
    repeated: Violation | None
    out_of_range: Violation | None
    ascending: bool
    smallest: int
    largest: int
    first_targets: tuple[int, ...]
    targets: Any


def read_map(d2t: IntArray, size: int, t2d: BoolArray | None) -> MapReading:
    """Read `d2t` (int64, shape [D]) for a target vocabulary of `size` ids; `t2d` is bool, shape [V], or None."""
    import numpy as np

    count = len(d2t)
    index = np.arange(count, dtype=np.int64)
    near = np.clip(d2t, -_FAR, _FAR)
    targets = {k: near + k * index for k in READINGS}
    repeated = {k: _repeats(targets[k], size) for k in READINGS}
    outside = {k: _outside(targets[k], size) for k in READINGS}
    fits = tuple(k for k in READINGS if repeated[k] is None and outside[k] is None)
    positions = None if t2d is None else np.flatnonzero(t2d).astype(np.int64)
    confirmed = None if positions is None else _confirmed(d2t, index, positions)
    verdict, told = _verdict(
        targets, fits, confirmed, positions, size, len(t2d) if t2d is not None else 0, repeated, outside
    )
    offsets = targets[1]
    return MapReading(
        readings=fits,
        confirmed=confirmed,
        verdict=verdict,
        violations=sum(v.count for v in (repeated[1], outside[1]) if v),
        repeated=repeated[told],
        out_of_range=outside[told],
        ascending=bool(np.all(np.diff(offsets) >= 0)),
        smallest=int(d2t.min()) if count else 0,
        largest=int(d2t.max()) if count else 0,
        first_targets=tuple(int(t) for t in offsets[:5]),
        targets=offsets,
    )


def _repeats(targets: IntArray, size: int) -> Violation | None:
    import numpy as np

    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    same = ordered[1:] == ordered[:-1]
    # Targets that are outside are counted as such.
    same &= (ordered[1:] >= 0) & (ordered[1:] < size)
    where = np.flatnonzero(same)
    if not len(where):
        return None
    later = order[where + 1]
    first = int(np.argmin(later))
    return Violation(len(where), int(later[first]), int(targets[later[first]]), int(order[where[first]]))


def _outside(targets: IntArray, size: int) -> Violation | None:
    import numpy as np

    where = np.flatnonzero((targets < 0) | (targets >= size))
    return Violation(len(where), int(where[0]), int(targets[where[0]])) if len(where) else None


def _confirmed(d2t: IntArray, index: IntArray, positions: IntArray) -> int | None:
    import numpy as np

    count = len(d2t)
    if count < 2 or len(positions) != count:
        return None
    # Python integers: the sums of hostile values may leave 64 bits.
    total = int(positions.sum()) - sum(int(v) for v in d2t)
    triangle = count * (count - 1) // 2
    if total % triangle:
        return None
    k = total // triangle
    if not 0 <= k <= count:
        return None
    targets = np.sort(np.clip(d2t, -_FAR, _FAR) + k * index)
    return k if bool(np.array_equal(targets, positions)) else None


def _verdict(
    targets: dict[int, IntArray],
    fits: tuple[int, ...],
    confirmed: int | None,
    positions: IntArray | None,
    size: int,
    mask_length: int,
    repeated: dict[int, Violation | None],
    outside: dict[int, Violation | None],
) -> tuple[str, int]:
    """The name of the map's state, and the reading in which its violations are to be told."""
    import numpy as np

    d2t = targets[0]
    count = len(d2t)
    if not count:
        return "empty", 1
    if count >= 2 and not d2t.any():
        return _zeros(count, size, positions, mask_length), 1
    if confirmed is not None:
        return {0: ("absolute", 0), 1: ("right", 1)}.get(confirmed, ("offset_twice", 2))
    if positions is not None:
        if not len(positions):
            return ("stale_t2d" if 1 in fits else "damaged"), 1
        # Nothing agrees to the last id: the reading that agrees best is the one that was meant.
        share = {k: float(np.isin(targets[k], positions).mean()) for k in READINGS}
        best = max(READINGS, key=lambda k: (share[k], k == 1))
        if share[best] >= 0.9:
            if best == 1:
                return ("stale_t2d" if 1 in fits else "damaged"), 1
            return ("absolute", 0) if best == 0 else ("offset_twice", 2)
        if 1 in fits:
            return "stale_t2d", 1
    if 1 in fits:
        return "right", 1
    if len(fits) > 1:
        return "open", 1
    wrong = {k: sum(v.count for v in (repeated[k], outside[k]) if v) for k in READINGS}
    slightly = max(1, int(count * _DAMAGE_SHARE))
    if fits == (0,):
        return ("damaged", 1) if wrong[1] <= slightly else ("absolute", 0)
    if fits == (2,):
        return ("damaged", 1) if wrong[1] - _padding(targets[1]) <= slightly else ("offset_twice", 2)
    least = min(READINGS, key=lambda k: (wrong[k], k != 1))
    if least == 0 and wrong[0] <= slightly:
        return "absolute", 0
    return "damaged", 1


def _padding(targets: IntArray) -> int:
    """How many entries may only fill a map up: those that repeat one target id, while most do not.

    A right map in ascending order that ends so has no id twice either when the index is added once more.
    """
    import numpy as np

    most = int(np.unique(targets, return_counts=True)[1].max()) - 1
    return most if 2 * most <= len(targets) else 0


def _zeros(count: int, size: int, positions: IntArray | None, mask_length: int) -> str:
    """Why a map is all zeros: nothing to map, never loaded, trained on the first ids, or lost."""
    if count >= size:
        return "identity"
    if positions is None or not len(positions):
        return "zeros_undecided"
    if len(positions) == mask_length:
        return "zeros_never_loaded"
    if len(positions) == count and int(positions[-1]) == count - 1:
        return "zeros_first"
    return "zeros_lost"
