"""What a tensor's values are like, in one pass over them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.values.pairs import Watch
from ckptdoctor.facts.values.reading import CHUNK, Piece, Reader, place_of, readable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

__all__ = ["Gathering", "Statistics", "measure"]

_KEPT_ROWS = 1 << 21
_REMEMBERED = 20_000
_WIDEST = 1 << 16
"""Columns up to which sums are kept for each."""

_seen: OrderedDict[tuple[object, ...], Statistics] = OrderedDict()


@dataclass(frozen=True)
class Statistics:
    """The values of one tensor.

    `count` of them; `nan` and `infinite` of those are no numbers and count as zeros in what follows. `mean` and
    `spread` (standard deviation) are of all; `kurtosis` is the fourth moment over the squared second one, both about
    zero: 3 for a normal, 1.8 for a uniform distribution. `low` and `high` are the least and the greatest value.
    `limit_passed` counts values beyond 65504, the largest of float16.

    Of a matrix (the last dimension against all others): `rows`, `width`, and `row_scatter`, `column_scatter`: how much
    more the mean squares of rows (columns) differ than those of independent values would, 1 for none. `zero_rows` has
    stretches [first, last) of rows of zeros, `zero_columns` the same for columns. `repeated` counts rows
    that are the same as an earlier one (rows of zeros left out); None where that is not looked for.
    """

    count: int
    nan: int = 0
    infinite: int = 0
    mean: float = 0.0
    spread: float = 0.0
    kurtosis: float = 0.0
    low: float = 0.0
    high: float = 0.0
    limit_passed: int = 0
    rows: int = 0
    width: int = 0
    row_scatter: float | None = None
    column_scatter: float | None = None
    zero_rows: tuple[tuple[int, int], ...] = ()
    zero_columns: tuple[tuple[int, int], ...] = ()
    repeated: int | None = None

    @property
    def largest(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def constant(self) -> bool:
        """Whether all values are one and the same number."""
        return self.count > 0 and self.low == self.high and not self.nan and not self.infinite

    @property
    def all_zero(self) -> bool:
        """Whether all values are zero."""
        return self.constant and self.low == 0


def measure(
    checkpoint: Checkpoint, info: TensorInfo, reader: Reader, *, compare_rows: bool, watches: Sequence[Watch] = ()
) -> Statistics | None:
    """The statistics of `info`; None when it has no values that can be read.

    What was measured of the same bytes before is not read again. With `compare_rows`, repeated rows are counted.
    `watches` see every piece that is read.
    """
    if not readable(info):
        return None
    place = place_of(checkpoint, info)
    key = (*place, compare_rows) if place is not None else None
    if key is not None and key in _seen and not watches:
        _seen.move_to_end(key)
        return _seen[key]
    gathering = Gathering(info, compare_rows)
    try:
        for piece in reader.pieces(info):
            gathering.add(piece)
            for watch in watches:
                watch.see(piece)
    except (CannotExamineError, OSError):
        return None
    found = gathering.done()
    if key is not None:
        _seen[key] = found
        if len(_seen) > _REMEMBERED:
            _seen.popitem(last=False)
    return found


class Gathering:
    """Sums over the pieces of one tensor. Sums of a piece are in float32, those over pieces in float64."""

    def __init__(self, info: TensorInfo, compare_rows: bool) -> None:
        import numpy as np

        self._count = info.elements
        self._squares = np.empty(min(CHUNK, info.elements), dtype=np.float32)
        self._ones = np.ones(min(CHUNK, info.elements), dtype=np.float32)
        self._sums = [0.0, 0.0, 0.0]
        self._nan = self._infinite = self._beyond = 0
        self._low, self._high = math.inf, -math.inf
        self._rows: list[float] = [0.0, 0.0, 0.0]
        self._columns: npt.NDArray[np.float64] | None = None
        self._zero_rows: list[tuple[int, int]] = []
        self._marks: list[npt.NDArray[np.float32]] | None = [] if compare_rows and len(info.shape) > 1 else None
        self._width = info.shape[-1] if len(info.shape) > 1 and info.shape[-1] <= CHUNK else 0

    def add(self, piece: Piece) -> None:
        """One more piece."""
        import numpy as np

        values = piece.values
        squares = self._squares[: len(values)]
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(values, values, out=squares)
            fourth = float(np.dot(squares, squares))
        if not math.isfinite(fourth):
            values, fourth = self._without_wild(values, squares)
        self._sums[0] += float(np.dot(values, self._ones[: len(values)]))
        self._sums[2] += fourth
        self._low = min(self._low, float(values.min()))
        self._high = max(self._high, float(values.max()))
        if max(-self._low, self._high) > 65504:
            self._beyond += int(np.count_nonzero(np.abs(values) > 65504))
        if piece.width:
            self._sums[1] += self._add_rows(piece, values, squares)
        else:
            self._sums[1] += float(squares.sum(dtype=np.float64))

    def _without_wild(self, values: Floats, squares: Floats) -> tuple[Floats, float]:
        """Counts what is no number and takes zeros instead; numbers whose powers do not fit are cut for the moments."""
        import numpy as np

        nan, infinite = np.isnan(values), np.isinf(values)
        self._nan += int(nan.sum())
        self._infinite += int(infinite.sum())
        sound = np.where(nan | infinite, np.float32(0), values)
        cut = np.clip(sound, -1e9, 1e9)
        np.multiply(cut, cut, out=squares)
        wide = squares.astype(np.float64)
        return sound, float(np.dot(wide, wide))

    def _add_rows(self, piece: Piece, values: Floats, squares: Floats) -> float:
        import numpy as np

        table = squares.reshape(-1, piece.width)
        # The product with ones is faster, the sum the same for the same row wherever it stands.
        rows = table @ self._ones[: piece.width] if self._marks is None else table.sum(axis=1)
        wide = rows.astype(np.float64)
        empty = np.flatnonzero(rows == 0)
        if len(empty):
            # Squares of tiny values are zero as well.
            empty = empty[~values.reshape(-1, piece.width)[empty].any(axis=1)]
            self._add_empty(piece.first // piece.width, empty)
        self._rows[0] += len(rows) - len(empty)
        self._rows[1] += float(wide.sum())
        self._rows[2] += float(np.dot(wide, wide))
        if piece.width <= _WIDEST:
            if self._columns is None:
                self._columns = np.zeros(piece.width, dtype=np.float64)
            self._columns += self._ones[: len(table)] @ table
        if self._marks is not None and len(self._marks) * len(rows) <= _KEPT_ROWS:
            sums = values.reshape(-1, piece.width).sum(axis=1)
            self._marks.append(np.stack([rows, sums], axis=1))
        return float(wide.sum())

    def _add_empty(self, first: int, rows: npt.NDArray[np.int64]) -> None:
        for row in rows.tolist():
            at = first + row
            if self._zero_rows and self._zero_rows[-1][1] == at:
                self._zero_rows[-1] = (self._zero_rows[-1][0], at + 1)
            elif len(self._zero_rows) < 10_000:
                self._zero_rows.append((at, at + 1))

    def done(self) -> Statistics:
        """What was found."""
        count = self._count
        mean, square = self._sums[0] / count, self._sums[1] / count
        kurtosis = self._sums[2] / count / square**2 if square > 0 else 0.0
        return Statistics(
            count=count, nan=self._nan, infinite=self._infinite, mean=mean,
            spread=math.sqrt(max(0.0, square - mean**2)), kurtosis=kurtosis, low=self._low, high=self._high,
            limit_passed=self._beyond, rows=count // self._width if self._width else 0,
            width=self._width, row_scatter=self._row_scatter(kurtosis), column_scatter=self._column_scatter(kurtosis),
            zero_rows=tuple(self._zero_rows), zero_columns=self._zero_columns(), repeated=self._repeated(),
        )  # fmt: skip

    def _row_scatter(self, kurtosis: float) -> float | None:
        number, total, squares = self._rows
        if not self._width or number < 2 or total <= 0 or kurtosis <= 1:
            return None
        mean = total / number
        return (squares / number - mean**2) / mean**2 * self._width / (kurtosis - 1)

    def _column_scatter(self, kurtosis: float) -> float | None:
        import numpy as np

        if self._columns is None or len(self._columns) < 2 or kurtosis <= 1 or self._rows[0] < 2:
            return None
        mean = float(self._columns.mean())
        return float(np.var(self._columns)) / mean**2 * self._rows[0] / (kurtosis - 1) if mean > 0 else None

    def _zero_columns(self) -> tuple[tuple[int, int], ...]:
        import numpy as np

        if self._columns is None:
            return ()
        edges = np.flatnonzero(np.diff(np.concatenate([[False], self._columns == 0, [False]]).astype(np.int8)))
        return tuple((int(a), int(b)) for a, b in edges.reshape(-1, 2)[:1000])

    def _repeated(self) -> int | None:
        import numpy as np

        if not self._marks:
            return None
        marks = np.concatenate(self._marks)
        marks = marks[marks[:, 0] > 0]
        pairs = np.ascontiguousarray(marks).view(np.uint64).reshape(-1)
        return len(pairs) - len(np.unique(pairs))
