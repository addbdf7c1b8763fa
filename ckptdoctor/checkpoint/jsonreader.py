"""The one JSON reader, for configs, indexes and safetensors headers alike.

The standard library accepts duplicate keys, NaN and any depth, and forgets where a key stood. This
reader keeps the byte offset and line of each key, bounds what it builds, and turns everything
doubtful into a `Fault` instead of an exception. What is valid under RFC 8259 and within the limits
is read as `json.loads` reads it (a property test holds the two together; the one exception is `-0`,
a float here as it is for the Rust readers, which refuse it as a count).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.checkpoint.jsonscan import KeyPath, Scanner, SyntaxFaultError

__all__ = ["CONFIG_LIMIT", "JsonDocument", "read_json"]

CONFIG_LIMIT = 16 * 1024 * 1024
"""Bytes of a config that are read at most."""


@dataclass(frozen=True)
class JsonDocument:
    """A JSON file as read: its value, what is wrong with it, and where each key stands.

    `value` is None when the text is no JSON (then `readable` is False). `places` gives the byte
    offset and the line of each key; keys inside arrays have no place of their own: they belong to
    the key that holds the array.
    """

    file: str
    value: Any
    readable: bool
    faults: tuple[Fault, ...] = ()
    places: Mapping[KeyPath, tuple[int, int]] = field(default_factory=dict)

    def line(self, *path: str) -> int | None:
        """The line (from 1) on which the key at `path` stands, or None if it is not there."""
        place = self.places.get(path)
        return None if place is None else place[1]

    @property
    def object(self) -> dict[str, Any]:
        """The value when it is an object, else an empty one."""
        return self.value if isinstance(self.value, dict) else {}


def read_json(
    data: bytes, file: str, *, only: Collection[str] | None = None, base: int = 0, depth: int = 4, room: int = 1
) -> JsonDocument:
    """Read JSON from `data`, which came from `file`.

    Never raises for any input: what is wrong is in `faults`, at byte offsets counted from `base`
    plus the start of `data`. Duplicate keys keep the last value, as Python and the Rust reader do.
    The places of keys are kept down to `depth` levels. With `only`, reading stops as soon as those
    top-level keys have been read (for files whose interesting part stands first, such as
    `tokenizer.json`). With `room`, so many times as many values as usual are taken.
    """
    reader = Scanner(data, file, frozenset(only) if only is not None else None, base, depth, room)
    try:
        value, readable = reader.read(), True
    except SyntaxFaultError as fault:
        reader.note(fault.kind, fault.offset, detail=fault.detail)
        value, readable = None, False
    faults = tuple(
        replace(
            fault,
            offset=(fault.offset or 0) + base,
            line=1 + data.count(b"\n", 0, fault.offset or 0),
            count=reader.counts[fault.kind],
        )
        for fault in reader.faults.values()
    )
    places = reader.places if readable else {}
    if "json_duplicate_key" in reader.faults:
        places = {path: place for path, place in places.items() if _stands(value, path)}
    return JsonDocument(file, value, readable, faults, places)


def _stands(value: Any, path: KeyPath) -> bool:
    """Whether the value has something at `path`: below the first of two equal keys it has not."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True
