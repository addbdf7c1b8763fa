"""Two tensors side by side: the same to the last bit, but for rounding, scaled, in another order, or changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.checkpoint.container import DTYPE_BITS
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.values.reading import Piece, Reader, readable, told

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Likeness", "Watch", "likeness", "same_bytes"]

_ROWS = 1 << 21
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Likeness:
    """How a tensor relates to another of the same shape.

    `kind`: `same` (every bit, and the dtype), `rounded` (equal but for the rounding of the narrower dtype), `scaled`
    (by `factor`), `permuted` (the same rows in another order), `changed`, or `unread`. `cosine` is that of all values
    that differ; `moved` the length of the difference over that of the other; `exact`: rounded without any loss.
    """

    kind: str
    cosine: float | None = None
    moved: float | None = None
    factor: float = 1.0
    exact: bool = False


class Watch:
    """Compares the pieces of one tensor, as they are read, with those of `other`. Ask for `done` after the last one.

    Where one matrix has more rows than the other (vocabularies are padded), the first rows of both are compared.
    """

    def __init__(self, info: TensorInfo, other: TensorInfo, reader: Reader, words: Mapping[str, Any]) -> None:
        self._same_dtype = info.dtype == other.dtype
        self._padded = info.shape != other.shape
        narrow = min((info.dtype, other.dtype), key=lambda d: (DTYPE_BITS[d], d == "F16"))
        self._step = words["rounding"].get(narrow, 0.0)
        self._close = words["same"]
        self._pieces = reader.pieces(other)
        self._all_equal = self._within = self._exact = True
        self._dot = self._own = self._others = self._apart = 0.0
        self._some_equal = False
        self._marks: tuple[list[npt.NDArray[np.float32]], list[npt.NDArray[np.float32]]] = ([], [])
        self._failed = False

    def see(self, piece: Piece) -> None:
        """One more piece of the tensor."""
        if self._failed:
            return
        try:
            other = next(self._pieces)
        except StopIteration:
            self._failed = not self._padded
            return
        except (CannotExamineError, OSError):
            self._failed = True
            return
        self._compare(piece, other)

    def _compare(self, piece: Piece, other: Piece) -> None:
        import numpy as np

        count = min(len(piece.values), len(other.values))
        a, b = piece.values[:count], other.values[:count]
        if self._same_dtype and np.array_equal(piece.raw[:count], other.raw[:count]):
            self._some_equal = self._some_equal or bool(a.any())
            self._keep_rows(piece, a, a)
            return
        self._all_equal = False
        with np.errstate(all="ignore"):
            apart = a - b
            self._dot += float(np.dot(a, b))
            self._own += float(np.dot(a, a))
            self._others += float(np.dot(b, b))
            self._apart += float(np.dot(apart, apart))
            if not self._same_dtype and self._within:
                np.abs(apart, out=apart)
                self._exact = self._exact and not apart.any()
                self._within = bool((apart <= np.abs(b) * np.float32(self._step) + np.float32(1e-7)).all())
        self._keep_rows(piece, a, b)

    def _keep_rows(self, piece: Piece, a: Any, b: Any) -> None:
        import numpy as np

        if not piece.width or not self._same_dtype or len(self._marks[0]) * max(1, len(a) // piece.width) > _ROWS:
            return
        with np.errstate(all="ignore"):
            for values, kept in zip((a, b), self._marks, strict=True):
                table = values.reshape(-1, piece.width)
                kept.append(np.square(table).sum(axis=1))

    def done(self) -> Likeness:
        """How the two relate."""
        if self._failed:
            return Likeness("unread")
        if self._all_equal and self._same_dtype:
            return Likeness("same", 1.0, 0.0, exact=True)
        lengths = math.sqrt(self._own * self._others) if self._own > 0 and self._others > 0 else 0.0
        cosine = self._dot / lengths if lengths and math.isfinite(lengths) else None
        moved = math.sqrt(self._apart / self._others) if self._others > 0 and math.isfinite(self._apart) else None
        figures = (None if cosine is None else round(cosine, 6), None if moved is None else float(f"{moved:.4g}"))
        if not self._same_dtype and self._within:
            return Likeness("rounded", *figures, exact=self._exact)
        if cosine is not None and cosine > self._close and not self._some_equal:
            factor = math.sqrt(self._own / self._others)
            if abs(factor - 1) > 0.01:
                return Likeness("scaled", *figures, factor=float(f"{factor:.4g}"))
        return Likeness("permuted" if self._permuted() else "changed", *figures)

    def _permuted(self) -> bool:
        import numpy as np

        if not self._marks[0]:
            return False
        mine, theirs = (np.sort(np.concatenate(kept)) for kept in self._marks)
        return len(mine) > 3 and mine[0] != mine[-1] and bool(np.array_equal(mine, theirs))


def likeness(
    first: tuple[Checkpoint, TensorInfo, Reader],
    second: tuple[Checkpoint, TensorInfo, Reader],
    words: Mapping[str, Any],
) -> Likeness:
    """How two tensors of one shape relate, read side by side."""
    (checkpoint, info, reader), (other_checkpoint, other, other_reader) = first, second
    if not readable(info) or not readable(other):
        same = info.dtype == other.dtype and same_bytes(checkpoint, info, other_checkpoint, other)
        return Likeness("same", 1.0, 0.0, exact=True) if same else Likeness("changed" if same is False else "unread")
    watch = Watch(info, other, other_reader, words)
    try:
        for piece in reader.pieces(info):
            watch.see(piece)
    except (CannotExamineError, OSError):
        return Likeness("unread")
    return watch.done()


def same_bytes(first: Checkpoint, info: TensorInfo, second: Checkpoint, other: TensorInfo) -> bool | None:
    """Whether two tensors of safetensors files have the same bytes, whatever they mean; None where that is unread."""
    if info.start is None or info.end is None or other.start is None or other.end is None:
        return None
    left = info.end - info.start
    if left != other.end - other.start:
        return False
    try:
        with first.reading(info.file) as a, second.reading(other.file) as b:
            a.seek(info.start)
            b.seek(other.start)
            while left > 0:
                size = min(_BLOCK, left)
                mine = a.read(size)
                if mine != b.read(size) or not mine:
                    return False
                told(len(mine))
                left -= len(mine)
    except (CannotExamineError, OSError):
        return None
    return True
