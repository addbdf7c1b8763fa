"""A draft-to-target map read under each of its possible meanings.

`target = d2t[i] + k·i` with k = 0 (absolute ids), 1 (offsets, what engines read) or 2 (the index was
subtracted twice). A reading *fits* when its targets are unique and inside [0, V). With t2d (D True
bits, their positions summing to T) the only possible k is (T − Σ d2t) / (D(D−1)/2), and it is
confirmed when the targets are exactly the True positions; order plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckptdoctor.facts.vocabulary.id_list import Violation, fills_up, order_of, outside_of, relation_to_mask, repeats_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]

__all__ = ["READINGS", "MapReading", "Violation", "read_map"]

READINGS = (0, 1, 2)
# A value beyond this is no token id in any reading; keeps sums inside 64 bits.
_FAR = 2**36
# A map is called damaged, not of another convention, while fewer than one entry in a hundred is wrong.
_DAMAGE_SHARE = 0.01
# How often an index may have been subtracted (or added, if negative) for t2d to bear it out.
_MOST = 8
_NAMES = {0: "absolute", 1: "right", 2: "offset_twice"}


@dataclass(frozen=True)
class MapReading:
    """What a map can mean.

    `readings`: the k that fit, ascending: those whose targets are exactly t2d's True positions where t2d bears one
    out, else all whose targets are unique and inside the vocabulary. `confirmed`: the k that t2d bears out, or None
    (a k outside 0, 1 and 2 when the index was subtracted more often). `verdict` names the state of the map: `identity`,
    `right`, `stale_t2d`, `absolute`, `offset_twice`, `open`, `damaged`, `zeros_never_loaded`, `zeros_first`,
    `zeros_lost`, `zeros_undecided`, `empty`. `violations` counts the entries that are wrong as offsets. `repeated` and
    `out_of_range` are counted in the reading that the verdict speaks of (offsets, unless the map is of
    another convention). `ascending`: targets never fall. `order` is that of the targets in the reading that the verdict
    speaks of: `ascending`, `frequency` (neighbours rise and fall, as in a list by falling count) or `other`. `padding`
    counts entries at the end that only fill a right map up to a round size. `targets` are the target ids under offsets,
    for coverage. `mask_relation` and `mask_shift` say how d2t and a t2d that does not bear it out are the same map all
    the same (`map_parts.relation_to_mask`).
    """

    readings: tuple[int, ...]
    confirmed: int | None
    verdict: str
    violations: int
    repeated: Violation | None
    out_of_range: Violation | None
    ascending: bool
    targets: Any
    order: str = "ascending"
    padding: int = 0
    mask_relation: str | None = None
    mask_shift: int = 0


@dataclass(frozen=True)
class _Readings:
    """A map under each k: its targets (int64, shape [D]), what is wrong with them, the k that fit without t2d, and how
    many entries at the end only fill it up as offsets (0 where offsets fit as they are)."""

    targets: dict[int, IntArray]
    repeated: dict[int, Violation | None]
    outside: dict[int, Violation | None]
    fits: tuple[int, ...]
    fill: int

    def wrong(self, k: int) -> int:
        """How many entries break the reading k."""
        return sum(v.count for v in (self.repeated[k], self.outside[k]) if v)


def read_map(d2t: IntArray, size: int, t2d: BoolArray | None, whole: int | None = None) -> MapReading:
    """Read `d2t` (int64, shape [D]) for a target vocabulary of `size` ids; `t2d` is bool, shape [V], or None.

    `whole` is the size of the vocabulary without padding (default: `size`): a map of as many zeros is the identity.
    """
    import numpy as np

    count = len(d2t)
    whole = size if whole is None else whole
    read = _read(d2t, size)
    positions = None if t2d is None else np.flatnonzero(t2d).astype(np.int64)
    agreeing, padding = _agreeing(read, t2d)
    confirmed = 1 if 1 in agreeing else agreeing[0] if agreeing else None
    if confirmed not in (None, *READINGS) and 1 in read.fits:
        confirmed = None  # offsets fit: then t2d is the stale one
    if confirmed is None and not padding:
        padding = read.fill
    relation, shift = None, 0
    if positions is not None and t2d is not None and confirmed is None:
        relation, shift = relation_to_mask(read.targets[0], positions, len(t2d))
    verdict, told = _verdict(read, confirmed, positions, size, whole, len(t2d) if t2d is not None else 0)
    offsets = read.targets[1]
    fits = tuple(sorted({*read.fits, 1})) if read.fill else read.fits
    real = count - padding if verdict in ("right", "absolute", "offset_twice") else count
    return MapReading(
        readings=tuple(k for k in agreeing if k in READINGS) or fits,
        confirmed=confirmed,
        verdict=verdict,
        violations=read.wrong(1),
        repeated=read.repeated[told],
        out_of_range=read.outside[told],
        ascending=bool(np.all(offsets[1:] >= offsets[:-1])),
        targets=offsets,
        order=order_of(read.targets[told][:real]),
        padding=count - real,
        mask_relation=relation,
        mask_shift=shift,
    )


def _read(d2t: IntArray, size: int) -> _Readings:
    import numpy as np

    near = np.clip(d2t, -_FAR, _FAR)
    index = np.arange(len(d2t), dtype=np.int64)
    targets = {k: near + k * index for k in READINGS}
    repeated = {k: repeats_of(targets[k], size) for k in READINGS}
    outside = {k: outside_of(targets[k], size) for k in READINGS}
    fits = tuple(k for k in READINGS if repeated[k] is None and outside[k] is None)
    fill, twice = 0, repeated[1]
    if twice is not None and outside[1] is None:
        # From the first repeated id on, all entries have one offset or one id.
        tail, offsets = targets[1][twice.draft_id :], near[twice.draft_id :]
        alike = len(tail) > 1 and ((tail == tail[0]).all() or (offsets == offsets[0]).all())
        fill = len(tail) if alike and fills_up(targets[1], twice.draft_id) else 0
    return _Readings(targets, repeated, outside, fits, fill)


def _agreeing(read: _Readings, t2d: BoolArray | None) -> tuple[tuple[int, ...], int]:
    """The k whose targets are exactly the True places of `t2d`, and how many entries at the end only fill the map up
    beyond them."""
    import numpy as np

    near = read.targets[0]
    marks = 0 if t2d is None else int(np.count_nonzero(t2d))
    if t2d is None or not 0 < marks <= len(near):
        return (), 0
    rest = len(near) - marks
    if marks == 1:  # without a second entry all readings are one
        candidates: tuple[int, ...] = READINGS
    else:
        total = int(np.flatnonzero(t2d).sum()) - int(near[:marks].sum())
        k, odd = divmod(total, marks * (marks - 1) // 2)
        # Two entries agree with some k or other by chance.
        candidates = (k,) if not odd and (k in READINGS or (marks > 2 and abs(k) <= _MOST)) else ()
    index = np.arange(len(near), dtype=np.int64)
    found = []
    for k in candidates:
        targets = read.targets[k] if k in READINGS else near + k * index
        if _marks_of(targets[:marks], t2d) and (not rest or fills_up(targets, marks)):
            found.append(k)
    return tuple(found), rest if found else 0


def _marks_of(targets: IntArray, t2d: BoolArray) -> bool:
    """Whether `targets`, as many as `t2d` has True places, are exactly these."""
    import numpy as np

    if int(targets.min()) < 0 or int(targets.max()) >= len(t2d):
        return False
    seen = np.zeros(len(t2d), dtype=bool)
    seen[targets] = True
    return bool(np.array_equal(seen, t2d))


def _verdict(
    read: _Readings, confirmed: int | None, positions: IntArray | None, size: int, whole: int, mask_length: int
) -> tuple[str, int]:
    """The name of the map's state, and the reading in which its violations are to be told."""
    d2t, fits = read.targets[0], read.fits
    count = len(d2t)
    if not count:
        return "empty", 1
    if count >= 2 and not d2t.any():
        cause = _zeros(count, min(size, whole), positions, mask_length)
        return ("zeros_first" if cause == "zeros_lost" and confirmed == 1 else cause), 1
    if confirmed is not None:
        return (_NAMES[confirmed], confirmed) if confirmed in READINGS else ("damaged", 1)
    if positions is not None:
        told = _nearest(read, positions, mask_length) if len(positions) else None
        if told is not None and told != 1:
            return _NAMES[told], told
        if 1 in fits:
            return "stale_t2d", 1
        if told == 1:
            return "damaged", 1
    if 1 in fits:
        return "right", 1
    if read.fill:
        return ("open" if fits else "right"), 1
    if len(fits) > 1:
        return "open", 1
    slightly = max(1, int(count * _DAMAGE_SHARE))
    if fits == (0,):
        return ("damaged", 1) if read.wrong(1) <= slightly else ("absolute", 0)
    if fits == (2,):
        return ("damaged", 1) if read.wrong(1) - _padding(read.targets[1]) <= slightly else ("offset_twice", 2)
    least = min(READINGS, key=lambda k: (read.wrong(k), k != 1))
    if least == 0 and read.wrong(0) <= slightly:
        return "absolute", 0
    return "damaged", 1


def _nearest(read: _Readings, positions: IntArray, mask_length: int) -> int | None:
    """The reading that was meant though nothing agrees with t2d to the last id: nine entries in ten agree with it, and
    where offsets fit by themselves, ten times fewer disagree than with offsets. None where there is none."""
    import numpy as np

    marked = np.zeros(mask_length, dtype=bool)
    marked[positions] = True
    missed = {}
    for k, targets in read.targets.items():
        inside = targets[(targets >= 0) & (targets < mask_length)]
        missed[k] = len(targets) - int(marked[inside].sum())
    best = min(READINGS, key=lambda k: (missed[k], k != 1))
    if missed[best] * 10 > len(read.targets[0]):
        return None
    return best if 1 not in read.fits or missed[best] * 10 <= missed[1] else 1


def _padding(targets: IntArray) -> int:
    """How many entries at the end may only fill a map up: those that repeat the target id of the one before.

    A right map in ascending order that ends so has no id twice either when the index is added once more.
    """
    import numpy as np

    other = np.flatnonzero(targets != targets[-1])
    most = len(targets) - 1 - (int(other[-1]) + 1 if len(other) else 0)
    return most if 2 * most <= len(targets) else 0


def _zeros(count: int, whole: int, positions: IntArray | None, mask_length: int) -> str:
    """Why a map is all zeros: nothing to map, never loaded, trained on the first ids, or lost."""
    if count >= whole:
        return "identity"
    if positions is None or not len(positions):
        return "zeros_undecided"
    # True everywhere, or wherever there is a token at all.
    if int(positions[-1]) == len(positions) - 1 and len(positions) >= min(whole, mask_length):
        return "zeros_never_loaded"
    if len(positions) == count and int(positions[-1]) == count - 1:
        return "zeros_first"
    return "zeros_lost"
