"""How many bytes a message of an Arrow file takes when unpacked, from its metadata, before anything is unpacked.

pyarrow trusts the sizes that compressed buffers begin with. The metadata is a flatbuffer (Message.fbs, Schema.fbs of
Apache Arrow): a table starts with the distance back to its list of field offsets; a list with its length.
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["unpacked_size"]

_DICTIONARY_BATCH = 2
# Fields by number: Message (header_type, header), DictionaryBatch (data), RecordBatch (buffers, compression).
_TYPE, _HEADER, _DATA, _BUFFERS, _COMPRESSION = 1, 2, 1, 2, 3


def unpacked_size(metadata: Any, body: Any) -> int:
    """Bytes that the buffers of a message take in memory. `metadata` and `body` are its two parts, as buffers.

    Raises `ValueError` when the metadata does not lead to where its buffers are.
    """
    head, data = memoryview(metadata), memoryview(body)
    try:
        message = _follow(head, 0)
        kind = _field(head, message, _TYPE)
        batch = _table(head, message, _HEADER)
        if batch is not None and kind is not None and head[kind] == _DICTIONARY_BATCH:
            batch = _table(head, batch, _DATA)
        buffers = _table(head, batch, _BUFFERS) if batch is not None else None
        if batch is None or buffers is None or _field(head, batch, _COMPRESSION) is None:
            return data.nbytes
        total = 0
        for number in range(struct.unpack_from("<I", head, buffers)[0]):
            start, length = struct.unpack_from("<qq", head, buffers + 4 + 16 * number)
            if length < 0 or start < 0:
                raise ValueError("a buffer of negative size")
            unpacked = struct.unpack_from("<q", data, start)[0] if length >= 8 else length
            total += unpacked if unpacked >= 0 else length  # -1: this one is not compressed
    except (struct.error, IndexError) as error:
        raise ValueError(f"damaged metadata: {error}") from None
    return total


def _follow(head: memoryview, at: int) -> int:
    """Where the offset that stands at `at` leads."""
    return at + int(struct.unpack_from("<I", head, at)[0])


def _field(head: memoryview, table: int, number: int) -> int | None:
    """The position of a field of the table at `table`; None when the field has its default."""
    fields = table - struct.unpack_from("<i", head, table)[0]
    if fields < 0:
        raise ValueError("damaged metadata")
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", head, fields)[0]:
        return None
    offset = int(struct.unpack_from("<H", head, fields + place)[0])
    return table + offset if offset else None


def _table(head: memoryview, table: int, number: int) -> int | None:
    """The position of the table or list that a field refers to."""
    at = _field(head, table, number)
    return None if at is None else _follow(head, at)
