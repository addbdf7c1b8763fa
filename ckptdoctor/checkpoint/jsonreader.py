"""The one JSON reader, for configs, indexes and safetensors headers alike.

The standard library accepts duplicate keys, NaN and any depth, and forgets where a key stood. This
reader works on bytes, keeps the byte offset of each key, needs no recursion, and turns everything
doubtful into a `Fault` instead of an exception. What is valid under RFC 8259 is read exactly as
`json.loads` reads it (a property test holds the two together).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ckptdoctor.checkpoint.faults import Fault

__all__ = ["CONFIG_LIMIT", "JsonDocument", "read_json"]

CONFIG_LIMIT = 16 * 1024 * 1024
"""Bytes of a config that are read at most."""

MAX_DEPTH = 64
MAX_STRING = 1024 * 1024
MAX_NUMBER = 400
# What is built is paid for in units of some 40 bytes, so that a hostile file cannot take more than
# about 160 MB however its values are cut; a header of 100,000 ordinary entries costs some 3 million.
_OBJECT, _ARRAY, _SCALAR, _PLACED_KEY, _KEY = 6, 2, 1, 6, 1
MAX_COST = 4_000_000

_SPACE = re.compile(rb"[ \t\n\r]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: tuple[tuple[bytes, Any], ...] = ((b"true", True), (b"false", False), (b"null", None))
_LOOSE: tuple[tuple[bytes, float], ...] = (
    (b"NaN", float("nan")),
    (b"Infinity", float("inf")),
    (b"-Infinity", float("-inf")),
)
_BOM = b"\xef\xbb\xbf"

KeyPath = tuple[str, ...]


@dataclass(frozen=True)
class JsonDocument:
    """A JSON file as read: its value, what is wrong with it, and where each key stands.

    `value` is None when the text is no JSON (then `readable` is False). Keys inside arrays have no
    position of their own: they belong to the key that holds the array.
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


class _SyntaxFaultError(Exception):
    def __init__(self, kind: str, offset: int, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.offset, self.detail = kind, offset, detail


class _Reader:
    """One pass over the bytes with an explicit stack; see `read_json`."""

    def __init__(self, data: bytes, file: str, only: frozenset[str] | None, depth: int) -> None:
        self.data, self.file, self.only, self.depth = data, file, only, depth
        self.faults: dict[str, Fault] = {}
        self.places: dict[KeyPath, tuple[int, int]] = {}
        self.top: set[str] = set()
        self.cost = 0
        self.line, self.counted_to = 1, 0

    def note(self, kind: str, offset: int, **more: Any) -> None:
        """Keep the first fault of each kind and count the rest: there may be a million of them."""
        first = self.faults.get(kind)
        if first is None:
            self.faults[kind] = Fault(kind, self.file, offset=offset, **more)
        else:
            self.faults[kind] = replace(first, count=first.count + 1)

    def spend(self, units: int, at: int) -> None:
        self.cost += units
        if self.cost > MAX_COST:
            raise _SyntaxFaultError(
                "json_too_many_values", at, "more values than any real file of this kind holds"
            )

    def space(self, at: int) -> int:
        match = _SPACE.match(self.data, at)
        return match.end() if match else at

    def string(self, at: int) -> tuple[str, int]:
        """The string whose opening quote is at `at`, and the position after its closing quote."""
        data, start = self.data, at + 1
        pos = start
        escaped = False
        while True:
            match = _PLAIN.match(data, pos)
            pos = match.end() if match else pos
            if pos - start > MAX_STRING:
                raise _SyntaxFaultError("json_long_string", at, f"a string of more than {MAX_STRING} bytes")
            char = data[pos : pos + 1]
            if char == b'"':
                break
            if char == b"\\":
                escaped = True
                pos += 2
            elif not char:
                raise _SyntaxFaultError("json_syntax", at, "the file ends inside a string")
            else:
                raise _SyntaxFaultError("json_syntax", pos, "a raw control character inside a string")
        raw = data[start:pos]
        self.spend(len(raw) // (40 if raw.isascii() else 10), at)
        try:
            if escaped:
                return str(json.loads(b'"' + raw + b'"')), pos + 1
            return raw.decode("utf-8"), pos + 1
        except UnicodeDecodeError as error:
            raise _SyntaxFaultError("json_encoding", at + 1 + error.start, "the text is not UTF-8") from None
        except ValueError:
            raise _SyntaxFaultError("json_syntax", at, "a string with a wrong escape") from None

    def scalar(self, at: int) -> tuple[Any, int]:
        data = self.data
        self.spend(_SCALAR, at)
        if data[at : at + 1] == b'"':
            return self.string(at)
        for word, value in _WORDS:
            if data.startswith(word, at):
                return value, at + len(word)
        for word, number in _LOOSE:
            if data.startswith(word, at):
                self.note("json_not_a_number", at, found=word.decode())
                return number, at + len(word)
        match = _NUMBER.match(data, at)
        if match is None:
            raise _SyntaxFaultError(
                "json_syntax", at, "a value is expected here" if at < len(data) else "the file ends too early"
            )
        return self.number(match), match.end()

    def number(self, match: re.Match[bytes]) -> int | float | None:
        text = match.group()
        if len(text) <= MAX_NUMBER:
            if match.group(1) is None and match.group(2) is None:
                whole = int(text)
                if -(2**63) <= whole < 2**64:
                    return whole
            else:
                real = float(text)
                if real not in (float("inf"), float("-inf")):
                    return real
        self.note(
            "json_huge_number",
            match.start(),
            found=f"{len(text)} characters long" if len(text) > 40 else text.decode(),
        )
        return None

    def read(self) -> Any:
        """The whole value. Raises `_SyntaxFaultError` where the text stops being JSON."""
        at = 0
        if self.data.startswith(_BOM):
            self.note("json_byte_order_mark", 0)
            at = len(_BOM)
        root: list[Any] = []
        # One frame per open container: the container, the key it waits to fill, and its path
        # (None below an array, where keys have no position of their own).
        stack: list[tuple[dict[str, Any] | list[Any], KeyPath | None]] = [(root, ())]
        key: str | None = None
        path: KeyPath | None = ()
        while True:
            at = self.space(at)
            char = self.data[at : at + 1]
            if char in (b"{", b"["):
                if len(stack) > MAX_DEPTH:
                    raise _SyntaxFaultError("json_too_deep", at, f"more than {MAX_DEPTH} levels of nesting")
                self.spend(_OBJECT if char == b"{" else _ARRAY, at)
                child: dict[str, Any] | list[Any] = {} if char == b"{" else []
                self.put(stack[-1][0], key, child)
                inner = path if char == b"{" else None
                stack.append((child, inner))
                at = self.space(at + 1)
                if self.data[at : at + 1] == (b"}" if char == b"{" else b"]"):
                    at = self.close(stack, at)
                elif char == b"{":
                    key, path, at = self.key(child, inner, at)
                    continue
                else:
                    key, path = None, None
                    continue
            else:
                value, at = self.scalar(at)
                self.put(stack[-1][0], key, value)
            # After a value: close containers until one goes on.
            while len(stack) > 1:
                if self.only is not None and len(stack) == 2 and self.only <= self.top:
                    return root[0]
                at = self.space(at)
                holder, base = stack[-1]
                char = self.data[at : at + 1]
                if char == b",":
                    at = self.space(at + 1)
                    if isinstance(holder, dict):
                        key, path, at = self.key(holder, base, at)
                    else:
                        key, path = None, None
                    break
                if char == (b"}" if isinstance(holder, dict) else b"]"):
                    at = self.close(stack, at)
                    continue
                what = (
                    "the file ends too early" if not char else "a comma or a closing bracket is expected here"
                )
                raise _SyntaxFaultError("json_syntax", at, what)
            else:
                at = self.space(at)
                if at != len(self.data):
                    raise _SyntaxFaultError("json_syntax", at, "something follows after the end of the value")
                return root[0]

    @staticmethod
    def put(holder: dict[str, Any] | list[Any], key: str | None, value: Any) -> None:
        if isinstance(holder, dict):
            holder[key or ""] = value
        else:
            holder.append(value)

    @staticmethod
    def close(stack: list[tuple[dict[str, Any] | list[Any], KeyPath | None]], at: int) -> int:
        stack.pop()
        return at + 1

    def key(self, holder: Any, base: KeyPath | None, at: int) -> tuple[str, KeyPath | None, int]:
        """Read `"key" :` at `at`; gives the key, its path and where its value starts."""
        if self.data[at : at + 1] != b'"':
            what = (
                "a key in double quotes is expected here"
                if at < len(self.data)
                else "the file ends too early"
            )
            raise _SyntaxFaultError("json_syntax", at, what)
        start = at
        name, at = self.string(at)
        path = None if base is None else (*base, name)
        if name in holder:
            # `found` is the depth: 1 for a key of the outermost object.
            self.note("json_duplicate_key", start, tensor=name, found=len(path) if path else self.depth + 1)
        if path is not None and len(path) <= self.depth:
            self.spend(_PLACED_KEY, start)
            self.line += self.data.count(b"\n", self.counted_to, start)
            self.counted_to = start
            self.places[path] = (start, self.line)
        else:
            self.spend(_KEY, start)
        if base == ():
            self.top.add(name)
        at = self.space(at)
        if self.data[at : at + 1] != b":":
            raise _SyntaxFaultError("json_syntax", at, "a colon is expected after a key")
        return name, path, at + 1


def read_json(
    data: bytes, file: str, *, only: Collection[str] | None = None, base: int = 0, depth: int = 4
) -> JsonDocument:
    """Read JSON from `data`, which came from `file`.

    Never raises for any input: what is wrong is in `faults`, at byte offsets counted from `base`
    plus the start of `data`. Duplicate keys keep the last value, as Python and the Rust reader do.
    The places of keys are kept down to `depth` levels. With `only`, reading stops as soon as those
    top-level keys have been read (for files whose interesting part stands first, such as
    `tokenizer.json`).
    """
    reader = _Reader(data, file, frozenset(only) if only is not None else None, depth)
    try:
        value, readable = reader.read(), True
    except _SyntaxFaultError as fault:
        reader.note(fault.kind, fault.offset, detail=fault.detail)
        value, readable = None, False
    faults = tuple(
        replace(fault, offset=(fault.offset or 0) + base, line=1 + data.count(b"\n", 0, fault.offset or 0))
        for fault in reader.faults.values()
    )
    places = {path: (at + base, line) for path, (at, line) in reader.places.items()} if readable else {}
    return JsonDocument(file, value, readable, faults, places)
