"""The header of a GGUF file of llama.cpp, read within limits: what it is, and whether it is whole.

The format (ggml, docs/gguf.md; gguf-py/gguf/constants.py): the magic `GGUF`, a version, the number of tensors and of
metadata entries, the entries (key, type, value), one description for each tensor, and, from the next multiple of
`general.alignment` on, the data. Only scalars and short lists of numbers are kept; vocabularies are passed over.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.limits import GGUF_ENTRIES, GGUF_HEADER, GGUF_LIST, GGUF_LISTED_TEXTS, GGUF_TENSORS, GGUF_TEXT
from ckptdoctor.text import show

__all__ = ["GgufHeader", "read_gguf"]

MAGIC = b"GGUF"
_KEY_LIMIT = 65_535

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_PIECE = 1 << 20
_LENGTH = struct.Struct("<Q")
_BLOCK = re.compile(r"blk\.([0-9]{1,6})\.")
# Elements and bytes of a block of each tensor type whose size is fixed (ggml.h, gguf-py GGML_QUANT_SIZES).
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2),
}  # fmt: skip


@dataclass(frozen=True)
class GgufHeader:
    """What the header says. `metadata` has the scalars and short lists; `keys` are all keys; `blocks` are the numbers
    of the blocks of which tensors are stored (`blk.3.*`). `faults` are damage: then the rest is what was read before.
    """

    version: int | None = None
    tensor_count: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    keys: frozenset[str] = frozenset()
    faults: tuple[Fault, ...] = ()
    blocks: frozenset[int] = frozenset()

    @property
    def architecture(self) -> str | None:
        """`general.architecture`, None where it is absent or no text."""
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else None


class _DamagedError(Exception):
    """The header cannot be read on; the text says why."""


def read_gguf(stream: BinaryIO, file: str, size: int) -> GgufHeader:
    """The header of the GGUF file `file` of `size` bytes, open in `stream`. Never raises for any content; `OSError` of
    the stream passes through."""
    reader = _Reader(stream, size)
    metadata: dict[str, Any] = {}
    keys: set[str] = set()
    version: int | None = None
    tensors: int | None = None
    try:
        version, tensors, entries = _opening(reader)
        for _ in range(entries):
            key = reader.text(_KEY_LIMIT)
            if key is None:
                raise _DamagedError("a metadata key of more than 65535 bytes")
            if key in keys:
                raise _DamagedError(f"the metadata key {show(key)} stands twice")
            keys.add(key)
            value = reader.value(reader.number("I"))
            if value is not None:
                metadata[key] = value
        blocks = _tensors(reader, tensors, metadata, size)
    except _DamagedError as error:
        fault = Fault("gguf_damaged", file, offset=reader.at, found=size, detail=str(error))
        return GgufHeader(version, tensors, metadata, frozenset(keys), (fault,))
    return GgufHeader(version, tensors, metadata, frozenset(keys), (), blocks)


def _opening(reader: _Reader) -> tuple[int, int, int]:
    if reader.take(4) != MAGIC:
        raise _DamagedError("it does not begin with the letters GGUF")
    version = reader.number("I")
    if version & 0xFFFF == 0 and version:
        raise _DamagedError("it was written for machines with the other order of bytes")
    if version not in (2, 3):
        raise _DamagedError(f"it is of version {version} of the format, and llama.cpp reads 2 and 3")
    tensors, entries = reader.number("Q"), reader.number("Q")
    if entries > GGUF_ENTRIES:
        raise _DamagedError(f"it announces {entries} metadata entries; more than {GGUF_ENTRIES} are not read")
    if tensors > GGUF_TENSORS:
        raise _DamagedError(f"it announces {tensors} tensors; more than {GGUF_TENSORS} are not read")
    return version, tensors, entries


def _tensors(reader: _Reader, count: int, metadata: Mapping[str, Any], size: int) -> frozenset[int]:
    """Walk over the descriptions of the tensors, and see that the file holds their data. The numbers of blocks."""
    blocks: set[int] = set()
    alignment = metadata.get("general.alignment", 32)
    alignment = alignment if type(alignment) is int and 0 < alignment <= 1 << 20 else 32
    ends: list[tuple[int, str]] = []
    for _ in range(count):
        name = reader.text(_KEY_LIMIT) or ""
        if (block := _BLOCK.match(name)) is not None:
            blocks.add(int(block[1]))
        dimensions = reader.number("I")
        if dimensions > 8:
            raise _DamagedError(f"the tensor {show(name)} has {dimensions} dimensions")
        elements = 1
        for _ in range(dimensions):
            elements *= reader.number("Q")
        per_block, width = _BLOCKS.get(reader.number("I"), (1, 0))
        ends.append((reader.number("Q") + elements // per_block * width, name))
    start = -(-reader.at // alignment) * alignment
    end, last = max(ends, default=(0, ""))
    if start + end > size:
        raise _DamagedError(f"the file has {size} bytes, and {show(last)} ends at {start + end}: it is cut short")
    return frozenset(blocks)


class _Reader:
    """Sequential reading that knows where the file ends. `at` is the offset of the next byte."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._size, self.at = stream, min(size, GGUF_HEADER), 0
        self._whole = size <= GGUF_HEADER
        self._texts = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        self._need(count)
        data = self._stream.read(count)
        if len(data) != count:
            raise _DamagedError("the file ends inside its header")
        self.at += count
        return data

    def skip(self, count: int) -> None:
        """Pass over `count` bytes."""
        self._need(count)
        self._stream.seek(count, 1)
        self.at += count

    def _need(self, count: int) -> None:
        if self.at + count > self._size:
            limit = "the file ends inside its header" if self._whole else f"its header is longer than {GGUF_HEADER}"
            raise _DamagedError(limit)

    def number(self, code: str) -> Any:
        """The next number, little endian."""
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def text(self, limit: int = GGUF_TEXT) -> str | None:
        """The next text; None for one of more than `limit` bytes, which is passed over."""
        length = self.number("Q")
        if length > limit:
            self.skip(length)
            return None
        return self.take(length).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        """The next value of the type `kind`; None for one that is not kept."""
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _TEXT:
            return self.text()
        if kind == _LIST:
            return self._list(self.number("I"), self.number("Q"))
        raise _DamagedError(f"a metadata value of type {kind}, which the format does not have")

    def _list(self, kind: int, count: int) -> list[Any] | None:
        if kind == _TEXT:
            self._pass_texts(self._bounded(count, 8))
            return None
        if kind not in _SCALARS:
            raise _DamagedError(f"a metadata list of type {kind}, which is not read")
        width = struct.calcsize(f"<{_SCALARS[kind]}")
        self._bounded(count, width)
        if count > GGUF_LIST:
            self.skip(count * width)
            return None
        return list(struct.unpack(f"<{count}{_SCALARS[kind]}", self.take(count * width)))

    def _pass_texts(self, count: int) -> None:
        """Pass over `count` texts: their lengths are read out of large pieces, for there may be a million."""
        self._texts += count
        if self._texts > GGUF_LISTED_TEXTS:
            raise _DamagedError(f"its lists announce more than {GGUF_LISTED_TEXTS} texts, and no more are read")
        piece, start, end = b"", self.at, self.at
        at = self.at
        for _ in range(count):
            if at + 8 > end:
                self._stream.seek(at)
                piece = self._stream.read(min(_PIECE, self._size - at))
                start, end = at, at + len(piece)
            if at + 8 > end:
                self._need(self._size)
                raise _DamagedError("the file ends inside its header")
            at += 8 + _LENGTH.unpack_from(piece, at - start)[0]
        self._need(at - self.at)
        self._stream.seek(at)
        self.at = at

    def _bounded(self, count: int, width: int) -> int:
        """`count`, when as many values of `width` bytes can still come."""
        if self.at + count * width > self._size:
            raise _DamagedError("a metadata list is longer than the file")
        return count
