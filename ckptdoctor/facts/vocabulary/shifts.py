"""Rows of a head that are right but for a shift, and the exact edges of a block that is not right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ckptdoctor.facts.vocabulary.alignment import Block, Chance, best_diagonal, boundary

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Ints = npt.NDArray[np.int64]

__all__ = ["REACH", "Rows", "id_shift", "refined", "row_shift"]

REACH = 32
"""The largest shift that is looked for, in both directions."""
_WINDOWS, _WINDOW = 8, 16
_SINGLE = 12
_PASSED = 6
_GAP = 512
"""Rows between two sampled ones that are read to find an edge."""


class Rows(Protocol):
    """Unit rows of two heads (float32, shape [n, width]) and the map between them."""

    count: int

    def draft(self, draft_ids: Ints) -> Floats:
        """Rows of the draft's head."""

    def target(self, ids: Ints) -> Floats:
        """Rows of the target's head; zeros outside of it."""

    def ids(self, draft_ids: Ints, reading: int) -> Ints:
        """The target ids of draft ids."""

    def cosines(self, draft_ids: Ints, reading: int) -> Floats:
        """The cosine of each row with that of its target."""


def row_shift(rows: Rows, reading: int, block: Block, chance: Chance) -> int | None:
    """The s ≠ 0 for which row i of the head belongs to entry i + s of the map, in `block`; None where there is none."""
    import numpy as np

    window = min(_WINDOW, block.last - block.first)
    starts = np.unique(np.linspace(block.first, block.last - window, _WINDOWS).astype(np.int64))
    found: dict[int, list[float]] = {s: [] for s in range(-REACH, REACH + 1)}
    for start in (int(s) for s in starts):
        mine = np.arange(start, start + window, dtype=np.int64)
        entries = np.arange(max(0, start - REACH), min(rows.count, start + window + REACH), dtype=np.int64)
        cross = rows.draft(mine) @ rows.target(rows.ids(entries, reading)).T
        for s in found:
            places = mine + s - entries[0]
            inside = (places >= 0) & (places < len(entries))
            found[s] += [float(v) for v in cross[np.flatnonzero(inside), places[inside]]]
    return best_diagonal(found, chance)


def id_shift(rows: Rows, reading: int, block: Block, chance: Chance) -> int | None:
    """The s ≠ 0 for which the rows of `block` belong to the target ids s above the map's; None where there is none."""
    import numpy as np

    mine = np.unique(np.linspace(block.first, block.last - 1, _SINGLE).astype(np.int64))
    around = np.arange(-REACH, REACH + 1, dtype=np.int64)
    draft, ids = rows.draft(mine), rows.ids(mine, reading)
    found: dict[int, list[float]] = {int(s): [] for s in around}
    for row, at in zip(draft, ids, strict=True):
        for s, value in zip(around, rows.target(at + around) @ row, strict=True):
            found[int(s)].append(float(value))
    return best_diagonal(found, chance)


def refined(rows: Rows, sampled: Ints, block: Block, reading: int, good: float, chance: Chance) -> Block:
    """The rows [first, last) of a block that is known by the places of sampled rows: what lies between the last sampled
    row on one side of an edge and the first on the other is read. A sampled row that only looked alike by chance is
    passed over."""
    first = int(sampled[block.first]) if block.first > _PASSED else 0
    last = int(sampled[block.last - 1]) + 1 if block.last + _PASSED < len(sampled) else rows.count
    for place in range(block.first, max(0, block.first - _PASSED), -1):
        start, stop = int(sampled[place - 1]), int(sampled[place]) + 1
        edge = _edge(rows, start, stop, reading, good, chance, falls=True)
        if edge > start:
            first = edge
            break
    for place in range(block.last, min(len(sampled), block.last + _PASSED)):
        start, stop = int(sampled[place - 1]), int(sampled[place]) + 1
        stop = rows.count if place + 1 == len(sampled) else stop
        edge = _edge(rows, start, stop, reading, good, chance, falls=False)
        if edge < stop:
            last = edge
            break
    return Block(first, max(last, first + 1))


def _edge(rows: Rows, start: int, stop: int, reading: int, good: float, chance: Chance, *, falls: bool) -> int:
    """The row of [start, stop) at which likeness ends (`falls`) or begins; `start` or `stop` where it never does."""
    import numpy as np

    step = max(1, -(-(stop - start) // _GAP))
    between = np.arange(start, stop, step, dtype=np.int64)
    place = boundary(rows.cosines(between, reading), good, chance, falls=falls)
    return int(between[place]) if place < len(between) else stop
