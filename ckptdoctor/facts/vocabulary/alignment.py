"""Whether two sets of rows belong together: cosines of pairs, against pairs at random.

Rows are compared after the mean row of their own side is taken off, since the rows of a head share a direction that
says nothing about the token. A finding of similarity has to be `CLEAR` standard errors above what rows paired at random
have, one of dissimilarity less than `FAINT`; between the two nothing is said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Ints = npt.NDArray[np.int64]

__all__ = [
    "CLEAR",
    "FAINT",
    "Block",
    "Chance",
    "best_diagonal",
    "boundary",
    "mean_row",
    "own_pairs",
    "units",
    "weakest_block",
]

CLEAR = 8.0
FAINT = 3.0
EFFECT = 0.05
"""A mean cosine that is nearer to chance than this counts as no similarity, however many rows were looked at."""
_FEWEST = 8
"""Sampled rows that a block must have to be spoken of."""
_ALIKE, _APART, _ABOVE = 0.4, 0.15, 6.0
"""Two rows are the same token's: their cosine, its distance from the second best, and its distance from chance."""


@dataclass(frozen=True)
class Chance:
    """Cosines of rows paired at random: their mean and their standard deviation."""

    mean: float
    spread: float

    @classmethod
    def of(cls, cross: Floats) -> Chance:
        """From the cosines of all rows of one side with all of the other, without the pairs on the diagonal."""
        import numpy as np

        height, width = cross.shape
        apart = np.arange(height)[:, None] != np.arange(width)
        values = cross[apart].astype(np.float64)
        return cls(float(values.mean()), max(float(values.std()), 1e-6))

    def score(self, cosines: Floats) -> float:
        """How many standard errors the mean of `cosines` lies above chance; 0 for one that is hardly above it."""
        if not len(cosines):
            return 0.0
        above = float(cosines.mean(dtype="float64")) - self.mean
        return above * math.sqrt(len(cosines)) / self.spread if above >= EFFECT else min(above, 0.0)

    def is_faint(self, cosines: Floats) -> bool:
        """Whether the median of `cosines` is what chance gives: a few rows that are alike do not count against it."""
        import numpy as np

        above = float(np.median(cosines)) - self.mean
        return above * math.sqrt(len(cosines) * 2 / math.pi) / self.spread < FAINT


@dataclass(frozen=True)
class Block:
    """Places [first, last) of a sequence."""

    first: int
    last: int


def units(rows: Floats, mean: Floats | None = None) -> Floats:
    """The rows (float32, shape [n, width]) without `mean` (default: their own), at length 1.

    Rows of zeros and rows with values that are not finite become zeros, and have no part in the mean.
    """
    import numpy as np

    usable = np.isfinite(rows).all(axis=1) & (rows != 0).any(axis=1)
    clean = np.where(usable[:, None], rows, np.float32(0))
    if mean is None:
        mean = mean_row(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.where(usable[:, None], clean - mean, np.float32(0)).astype(np.float32)
        length = np.sqrt((moved.astype(np.float64) ** 2).sum(axis=1))
    length[~np.isfinite(length) | (length < 1e-12)] = np.inf
    return np.asarray(moved / length[:, None], dtype=np.float32)


def mean_row(rows: Floats) -> Floats:
    """The mean of the rows that are finite and not all zeros, float32, shape [width]."""
    import numpy as np

    usable = np.isfinite(rows).all(axis=1) & (rows != 0).any(axis=1)
    if not usable.any():
        return np.zeros(rows.shape[1], dtype=np.float32)
    return np.asarray(rows[usable].mean(axis=0, dtype=np.float64), dtype=np.float32)


def weakest_block(cosines: Floats, chance: Chance) -> Block | None:
    """The stretch of `cosines` (in the order of the rows) that is no better than chance, while the rest is clearly
    better; None when there is none. Rows that were trained for long are less alike, and never without likeness."""
    import numpy as np

    values = cosines.astype(np.float64)
    upper = np.sort(values)[len(values) // 2 :]
    lack = (float(upper.mean()) + chance.mean) / 2 - values
    total, start, best = 0.0, 0, (0.0, 0, 0)
    for place, value in enumerate(lack):
        if total <= 0:
            total, start = 0.0, place
        total += float(value)
        best = max(best, (total, start, place + 1))
    _, first, last = best
    inside, outside = cosines[first:last], np.concatenate([cosines[:first], cosines[last:]])
    if len(inside) < _FEWEST or len(outside) < _FEWEST:
        return None
    if not chance.is_faint(inside) or chance.score(outside) < CLEAR:
        return None
    gap = float(outside.mean()) - float(inside.mean())
    error = math.sqrt(outside.var() / len(outside) + inside.var() / len(inside)) or 1e-6
    return Block(first, last) if gap / error >= CLEAR else None


def boundary(cosines: Floats, good: float, chance: Chance, *, falls: bool) -> int:
    """Where `cosines` change once from likeness to none (`falls`) or the other way: the first place of what follows.

    `good` is the mean cosine of rows that are alike. The answer is the most likely place, and exact where the rows
    differ by much more than they scatter.
    """
    import numpy as np

    lean = cosines.astype(np.float64) - (good + chance.mean) / 2
    if not falls:
        lean = -lean
    return int(np.argmax(np.concatenate([[0.0], np.cumsum(lean)])))


def best_diagonal(sums: dict[int, list[float]], chance: Chance) -> int | None:
    """The shift whose pairs (`sums`: shift → cosines) are alike while those of all others are not; None if there is
    none, or it is 0."""
    import numpy as np

    arrays = {shift: np.asarray(values, dtype=np.float32) for shift, values in sums.items() if len(values) >= _FEWEST}
    if len(arrays) < 2:
        return None
    ranked = sorted(arrays, key=lambda shift: float(arrays[shift].mean()), reverse=True)
    first, second = ranked[0], ranked[1]
    above = float(arrays[first].mean()) - chance.mean
    ahead = float(arrays[first].mean()) - float(arrays[second].mean())
    return first if first and chance.score(arrays[first]) >= CLEAR and ahead >= above / 2 else None


def own_pairs(cross: Floats, chance: Chance) -> int:
    """How many rows of one side are clearly the same as one row of the other that does not stand at their place.

    `cross` are the cosines, shape [n, n]. A pair counts when each is the other's best by far: rows that many others are
    like (tokens that were never trained) are no pair.
    """
    import numpy as np

    n = len(cross)
    if n < 3:
        return 0
    rows = np.argmax(cross, axis=1)
    top = cross[np.arange(n), rows]
    second_of_row = np.partition(cross, -2, axis=1)[:, -2]
    second_of_column = np.partition(cross, -2, axis=0)[-2, :]
    mutual = np.argmax(cross, axis=0)[rows] == np.arange(n)
    alike = top >= max(_ALIKE, chance.mean + _ABOVE * chance.spread)
    apart = (top - second_of_row >= _APART) & (top - second_of_column[rows] >= _APART)
    return int((mutual & alike & apart & (rows != np.arange(n))).sum())
