"""A tensor of a PyTorch file as a place in that file. Its values are read from there, without torch and without a map:
a file that is cut meanwhile gives a sentence, where a mapped one would end the process.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ckptdoctor.checkpoint.folder import open_regular
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.limits import PICKLE_GATHERED
from ckptdoctor.text import show

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["PickledTensor", "stamp_of"]


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file is replaced or written to."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class PickledTensor:
    """A tensor of the PyTorch file `path`, as it was when it had `stamp`.

    `strides` count elements, `unit` is the bytes of one. `start` is the offset in the file of the first element.
    `turned` is the bytes of each number that stand in the other byte order (1: none do). `problem` says why there are
    no plain bytes, in words; None where there are.
    """

    path: Path
    stamp: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    unit: int
    start: int | None = None
    turned: int = 1
    problem: str | None = None

    @property
    def length(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * self.unit

    @property
    def in_one_piece(self) -> bool:
        """Whether its bytes stand in the file row by row, as safetensors has them."""
        if self.problem is not None or self.start is None:
            return False
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return self.turned == 1

    def same_view(self, other: PickledTensor) -> bool:
        """Whether both are the same elements in the same place."""

        def seen(one: PickledTensor) -> tuple[Any, ...]:
            return one.path, one.start, one.shape, one.strides, one.unit, one.problem

        return seen(self) == seen(other) and self.problem is None and bool(self.length)

    def data(self, first: int, count: int) -> bytes:
        """The bytes of `count` elements from the element `first` on, row by row, of one that is in one piece.

        Raises `CannotExamineError` when the file has changed or has no plain bytes of it.
        """
        with self._file() as stream:
            return self._read(stream, first * self.unit, count * self.unit)

    def pieces(self, elements: int) -> Iterator[bytes]:
        """All its bytes, row by row, in pieces of `elements` elements (the last may be shorter).

        Raises `CannotExamineError` as `data` does, and where it is too large to be put in order.
        """
        total = math.prod(self.shape)
        if not total:
            return
        with self._file() as stream:
            if self.in_one_piece:
                for first in range(0, total, elements):
                    yield self._read(stream, first * self.unit, min(elements, total - first) * self.unit)
                return
            flat = self._ordered(stream)
            for first in range(0, total, elements):
                yield flat[first : first + elements].tobytes()

    def rows(self, first: int, count: int) -> bytes:
        """The bytes of `count` rows from the row `first` on (of the first dimension). Raises as `pieces` does."""
        width = math.prod(self.shape[1:])
        if self.in_one_piece:
            return self.data(first * width, count * width)
        with self._file() as stream:
            return self._ordered(stream)[first * width : (first + count) * width].tobytes()

    @contextmanager
    def _file(self) -> Iterator[BinaryIO]:
        if self.problem is not None or self.start is None:
            raise CannotExamineError(f"{show(self.path)}: {self.problem or 'its place in the file is not known'}")
        try:
            with open_regular(self.path) as stream:
                if stamp_of(os.fstat(stream.fileno())) != self.stamp:
                    raise CannotExamineError(f"{show(self.path)}: it was changed while it was examined")
                yield stream
        except OSError as error:
            raise CannotExamineError(f"{show(self.path)}: cannot be read ({show(error.strerror or error)})") from None

    def _read(self, stream: BinaryIO, offset: int, length: int) -> bytes:
        stream.seek((self.start or 0) + offset)
        data = stream.read(length)
        if len(data) != length:
            raise CannotExamineError(f"{show(self.path)}: it was cut while it was examined")
        return data

    def _ordered(self, stream: BinaryIO) -> npt.NDArray[Any]:
        """The elements row by row, each as bytes; what lies between them in the file is read and left."""
        import numpy as np

        span = 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        if max(span * self.unit, self.length) > PICKLE_GATHERED:
            raise CannotExamineError(f"{show(self.path)}: a tensor of it is too large to be put in order")
        stored = np.frombuffer(self._read(stream, 0, span * self.unit), dtype=np.uint8)
        if self.turned > 1:
            stored = stored.reshape(-1, self.turned)[:, ::-1].reshape(-1)
        elements = np.ascontiguousarray(stored).view(f"V{self.unit}")
        steps = tuple(stride * self.unit for stride in self.strides)
        ordered = np.lib.stride_tricks.as_strided(elements, self.shape, steps, writeable=False)
        return np.ascontiguousarray(ordered).reshape(-1)
