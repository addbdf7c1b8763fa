"""What an output file is made of: pieces, written one after the other.

The writer knows nothing of tensors, and the treatments nothing of files: between them stand these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Literal", "OutputFile", "Piece", "Range", "Stream", "Zeros", "whole"]


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes that are not in the source: a header, a config, a small tensor."""

    data: bytes

    @property
    def length(self) -> int:
        """Bytes of the piece."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Zeros:
    """`length` zero bytes."""

    length: int


@dataclass(frozen=True, slots=True)
class Range:
    """The bytes from `start` to `end` of the real file `path`, copied by the kernel and never decoded."""

    path: Path
    start: int
    end: int

    @property
    def length(self) -> int:
        """Bytes of the piece."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Stream:
    """`length` bytes that `chunks()` gives in parts of a few MB: tensors of a PyTorch file.

    `source` is the file that they come from.
    """

    length: int
    chunks: Callable[[], Iterator[bytes | memoryview]]
    source: Path


Piece = Literal | Zeros | Range | Stream


@dataclass(frozen=True)
class OutputFile:
    """A file of the copy. `name` is relative to its root, with `/`; `like` is the file whose mode and time it keeps.

    `source` is the name of the source file that it stands for, None for a new file. `unchanged` says that it is that
    file, byte for byte. `keep` are permissions and time of last change (in ns) for a file that is like none.
    """

    name: str
    pieces: tuple[Piece, ...]
    like: Path | None = None
    source: str | None = None
    unchanged: bool = False
    keep: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return sum(piece.length for piece in self.pieces)


def whole(name: str, path: Path, size: int) -> OutputFile:
    """The file at `path`, `size` bytes, under `name` as it is."""
    return OutputFile(name, (Range(path, 0, size),) if size else (), like=path, source=name, unchanged=True)
