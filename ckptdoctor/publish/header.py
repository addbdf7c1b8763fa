"""A safetensors file with other names or tensors: a new header, and the old data in place.

Bytes of tensors that stay are never decoded: they are ranges of the source for the kernel to copy. The format
(`safetensors` 0.8, README "Format"): eight bytes of header length, the header as JSON, then the data without a hole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ckptdoctor.checkpoint.container import DTYPE_BITS, HEADER_LIMIT
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.publish.pieces import Literal, Piece, Range

__all__ = ["Slot", "container_pieces"]

BLOCK = 4096
"""Bytes of a file-system block: data that keeps its place within a block can share its blocks with the source."""

_WORTH_SHARING = 1024 * 1024


@dataclass(frozen=True)
class Slot:
    """A tensor of the new file: its header entry and the pieces that its bytes come from, `length` bytes in all."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def length(self) -> int:
        """Bytes of the tensor."""
        return sum(piece.length for piece in self.pieces)

    @property
    def alignment(self) -> int:
        """Bytes of an element: where the tensor may begin."""
        return max(1, DTYPE_BITS[self.dtype] // 8)


def container_pieces(slots: Sequence[Slot], metadata: Mapping[str, str]) -> tuple[Piece, ...]:
    """The pieces of a safetensors file that holds `slots` with the header texts `metadata`.

    The order of the slots is kept unless a tensor would begin at an odd place; then the widest elements come first,
    as the `safetensors` package writes them. Raises `CannotExamineError` for a header beyond the format's limit.
    """
    slots = _aligned(slots)
    entries: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for slot in slots:
        entries[slot.name] = {"dtype": slot.dtype, "shape": list(slot.shape), "data_offsets": [at, at + slot.length]}
        at += slot.length
    text = json.dumps(entries, separators=(",", ":")).encode()
    data = _merged(piece for slot in slots for piece in slot.pieces)
    text += b" " * _padding(8 + len(text), data)
    if len(text) > HEADER_LIMIT:
        raise CannotExamineError(
            f"the header of the copy would have {len(text)} bytes; the format allows {HEADER_LIMIT}"
        )
    return Literal(len(text).to_bytes(8, "little") + text), *data


def _aligned(slots: Sequence[Slot]) -> list[Slot]:
    at = 0
    for slot in slots:
        if at % slot.alignment:
            return sorted(slots, key=lambda s: -s.alignment)
        at += slot.length
    return list(slots)


def _merged(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces, neighbours in the source joined to one range."""
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if isinstance(piece, Range) and isinstance(last, Range) and (piece.path, piece.start) == (last.path, last.end):
            merged[-1] = Range(last.path, last.start, piece.end)
        elif piece.length:
            merged.append(piece)
    return merged


def _padding(start: int, data: Sequence[Piece]) -> int:
    """Spaces after the header: data begins at a multiple of 8, large data at the place in its block where it was."""
    before = 0
    for piece in data:
        if isinstance(piece, Range) and piece.length >= _WORTH_SHARING:
            spaces = (piece.start - before - start) % BLOCK
            if (start + spaces) % 8 == 0:
                return spaces
        before += piece.length
    return -start % 8
