"""The pass over the bytes behind `read_json`: tokens by regular expressions, an explicit stack, and a budget.

It works on bytes, because a text decoded as a whole takes four times its size as soon as it holds
one emoji, and because positions are then byte offsets. No step looks twice at more than a constant
share of what it has seen, so the time is linear in the input for every input.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ckptdoctor.checkpoint.faults import Fault

__all__ = ["KeyPath", "Scanner", "SyntaxFaultError"]

KeyPath = tuple[str, ...]

MAX_DEPTH = 64
MAX_STRING = 1024 * 1024
MAX_NUMBER = 400
# What is built is paid for in bytes of memory (CPython's sizes, rounded up), so that a hostile file
# cannot take more however its values are cut; a header of 100,000 ordinary entries costs some 120 million.
_OBJECT, _ARRAY, _NUMBER_COST, _TEXT, _REPEATED, _KEY, _PLACE = 256, 128, 56, 64, 16, 64, 256
MAX_COST = 160_000_000
# And in steps, which bounds the time: a header of 100,000 entries takes some 1.3 million.
MAX_STEPS = 2_000_000
# Short texts that come again and again (`dtype`, `BF16`) are kept once; only the first ones are remembered.
_MEMO_LENGTH, _MEMO_SIZE = 32, 512

_SPACE = re.compile(rb"[ \t\n\r]*")
_STRING = re.compile(rb'"([^"\\\x00-\x1f]{0,%d})"' % MAX_STRING)
_KEY_COLON = re.compile(rb'"([^"\\\x00-\x1f]{0,%d})"[ \t\n\r]*:[ \t\n\r]*' % MAX_STRING)
_ESCAPED_PART = re.compile(rb'(?:[^"\\\x00-\x1f]+|\\[^\x00-\x1f]){0,1000}')
_OPEN = re.compile(rb"[{\[][ \t\n\r]*([}\]]?)")
_LIST = rb"\[((?:0|[1-9][0-9]{0,17})(?:, ?(?:0|[1-9][0-9]{0,17})){0,15})\]"
_COUNTS = re.compile(_LIST)
# The usual entry of a safetensors header, which is most of what this reader ever reads, in one step.
_ENTRY = re.compile(rb'\{"dtype": ?"([A-Z0-9_]{1,16})", ?"shape": ?%s, ?"data_offsets": ?%s\}' % (_LIST, _LIST))
_NEXT = re.compile(rb"[ \t\n\r]*([,}\]]?)[ \t\n\r]*")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(rb"true|false|null|NaN|-?Infinity")
_WORDS: Mapping[bytes, Any] = {b"true": True, b"false": False, b"null": None}
_SURROGATE = re.compile("[\ud800-\udfff]")
_DECODER = json.JSONDecoder()
_BRACE = ord("{")
_BOM = b"\xef\xbb\xbf"


def _integers(text: bytes) -> list[int]:
    return [int(number) for number in text.split(b",")]


def _space(data: bytes, at: int) -> int:
    """The position after the white space at `at`."""
    match = _SPACE.match(data, at)
    return match.end() if match else at


class SyntaxFaultError(Exception):
    def __init__(self, kind: str, offset: int, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.offset, self.detail = kind, offset, detail


class Scanner:
    """One pass over the bytes with an explicit stack; see `read_json`."""

    def __init__(
        self, data: bytes, file: str, only: frozenset[str] | None, base: int, depth: int, room: int = 1
    ) -> None:
        self.data, self.file, self.only, self.base, self.depth = data, file, only, base, depth
        self.most_cost, self.most_steps = room * MAX_COST, room * MAX_STEPS
        self.faults: dict[str, Fault] = {}
        self.counts: Counter[str] = Counter()
        self.places: dict[KeyPath, tuple[int, int]] = {}
        self.memo: dict[bytes, str] = {}
        self.cost = self.steps = 0
        self.line, self.counted_to = 1, 0

    def note(self, kind: str, offset: int, **more: Any) -> None:
        """Keep the first fault of each kind and count the rest: there may be a million of them."""
        if kind not in self.faults:
            self.faults[kind] = Fault(kind, self.file, offset=offset, **more)
        self.counts[kind] += 1

    def spend(self, cost: int, at: int) -> None:
        self.cost += cost
        self.steps += 1
        if self.cost > self.most_cost or self.steps > self.most_steps:
            raise SyntaxFaultError("json_too_many_values", at, "more values than any real file of this kind holds")

    def expected(self, what: str, at: int) -> SyntaxFaultError:
        early = at >= len(self.data)
        return SyntaxFaultError("json_syntax", at, "the file ends too early" if early else f"{what} is expected here")

    def text(self, raw: bytes, at: int) -> str:
        """The string between quotes, without escapes, whose opening quote is at `at`."""
        known = self.memo.get(raw)
        if known is not None:
            self.spend(_REPEATED, at)
            return known
        self.spend(_TEXT + len(raw) * (1 if raw.isascii() else 4), at)
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise SyntaxFaultError("json_encoding", at + 1 + error.start, "the text is not UTF-8") from None
        if len(raw) <= _MEMO_LENGTH and len(self.memo) < _MEMO_SIZE:
            self.memo[raw] = text
        return text

    def string(self, at: int) -> tuple[str, int]:
        """The string whose opening quote is at `at`, and the position after its closing quote."""
        plain = _STRING.match(self.data, at)
        if plain:
            return self.text(plain[1], at), plain.end()
        end = at + 1
        while part := _ESCAPED_PART.match(self.data, end):
            if part.end() - at - 1 > MAX_STRING:
                raise SyntaxFaultError("json_long_string", at, f"a string of more than {MAX_STRING} bytes")
            if part.end() == end:
                break
            end = part.end()
        if self.data[end : end + 1] != b'"':
            end += self.data[end : end + 1] == b"\\"
            if end >= len(self.data):
                raise SyntaxFaultError("json_syntax", at, "the file ends inside a string")
            raise SyntaxFaultError("json_syntax", end, "a raw control character inside a string")
        text = self.text(self.data[at + 1 : end], at)
        try:
            text = _DECODER.raw_decode(f'"{text}"')[0]
        except ValueError:
            raise SyntaxFaultError("json_syntax", at, "a string with a wrong escape") from None
        # One wide character widens the whole text.
        self.spend(_TEXT + len(text) * (1 if text.isascii() else 4), at)
        if _SURROGATE.search(text):
            self.note("json_encoding", at, detail="half of a surrogate pair, which is no character")
        return text, end + 1

    def scalar(self, at: int) -> tuple[Any, int]:
        """The number or word at `at`, and the position after it."""
        self.spend(_NUMBER_COST, at)
        match = _NUMBER.match(self.data, at)
        if match:
            return self.number(match), match.end()
        match = _WORD.match(self.data, at)
        if match is None:
            raise self.expected("a value", at)
        word = match.group()
        if word in _WORDS:
            return _WORDS[word], match.end()
        self.note("json_not_a_number", at, found=word.decode())
        return float(word), match.end()

    def number(self, match: re.Match[bytes]) -> int | float | None:
        length = match.end() - match.start()
        if length <= MAX_NUMBER:
            text = match.group()
            if match.lastindex is None and text != b"-0":
                whole = int(text)
                if -(2**63) <= whole < 2**64:
                    return whole
            else:
                real = float(text)
                if real not in (float("inf"), float("-inf")):
                    return real
        found = f"{length} characters long" if length > 40 else match.group().decode()
        self.note("json_huge_number", match.start(), found=found)
        return None

    def key(self, holder: dict[str, Any], base: KeyPath | None, at: int) -> tuple[str, KeyPath | None, int]:
        """Read `"key" :` at `at`; gives the key, its path (None without a place) and where its value starts."""
        data = self.data
        plain = _KEY_COLON.match(data, at)
        if plain:
            name, end = self.text(plain[1], at), plain.end()
        else:
            if data[at : at + 1] != b'"':
                raise self.expected("a key in double quotes", at)
            name, end = self.string(at)
            colon = _space(data, end)
            if data[colon : colon + 1] != b":":
                raise self.expected("a colon after the key", colon)
            end = _space(data, colon + 1)
        if name in holder:
            # `found` is the depth: 1 for a key of the outermost object.
            level = self.depth if base is None else len(base)
            self.note("json_duplicate_key", at, tensor=name, found=level + 1)
        if base is None or len(base) >= self.depth:
            self.spend(_KEY, at)
            return name, None, end
        self.spend(_KEY + _PLACE, at)
        path = (*base, name)
        self.line += data.count(b"\n", self.counted_to, at)
        self.counted_to = at
        self.places[path] = (at + self.base, self.line)
        return name, path, end

    def whole(self, at: int, is_entry: bool, level: int) -> tuple[Any, int] | None:
        """A list of a few counts, or a whole entry of a header, in one step; None when it is not so simple."""
        if is_entry:
            entry = _ENTRY.match(self.data, at) if level + 1 < MAX_DEPTH else None
            if entry is None:
                return None
            shape, offsets = _integers(entry[2]), _integers(entry[3])
            self.spend(_OBJECT + 4 * _REPEATED + 2 * _ARRAY + _NUMBER_COST * (len(shape) + len(offsets)), at)
            return {"dtype": self.text(entry[1], at), "shape": shape, "data_offsets": offsets}, entry.end()
        counts = _COUNTS.match(self.data, at)
        if counts is None:
            return None
        numbers = _integers(counts[1])
        self.spend(_ARRAY + _NUMBER_COST * len(numbers), at)
        return numbers, counts.end()

    def read(self) -> Any:
        """The whole value. Raises `SyntaxFaultError` where the text stops being JSON."""
        data, at = self.data, 0
        if data.startswith(_BOM):
            self.note("json_byte_order_mark", 0)
            at = len(_BOM)
        at = _space(data, at)
        # The innermost open container with its path (None where keys have no place), and those around it.
        root: list[Any] = []
        holder: dict[str, Any] | list[Any] = root
        base: KeyPath | None = ()
        stack: list[tuple[dict[str, Any] | list[Any], KeyPath | None]] = []
        key, path = "", base
        while True:
            value: Any
            opened = _OPEN.match(data, at)
            if opened:
                if len(stack) >= MAX_DEPTH:
                    raise SyntaxFaultError("json_too_deep", at, f"more than {MAX_DEPTH} levels of nesting")
                is_object = data[at] == _BRACE
                whole = self.whole(at, is_object and (path is None or len(path) >= self.depth), len(stack))
                if whole:
                    value, at = whole
                else:
                    self.spend(_OBJECT if is_object else _ARRAY, at)
                    value, at = {} if is_object else [], opened.end()
            else:
                whole = None
                value, at = self.string(at) if data[at : at + 1] == b'"' else self.scalar(at)
            if isinstance(holder, dict):
                holder[key] = value
            else:
                holder.append(value)
            if opened and not whole and opened[1] != (b"}" if is_object else b"]"):
                stack.append((holder, base))
                at = opened.start(1)
                if is_object:
                    holder, base = value, path
                    key, path, at = self.key(value, base, at)
                else:
                    holder, base, path = value, None, None
                continue
            while True:  # A value is complete: close containers until one goes on.
                if (
                    len(stack) == 1
                    and self.only is not None
                    and isinstance(holder, dict)
                    and self.only <= holder.keys()
                ):
                    return holder
                following = _NEXT.match(data, at)
                assert following is not None
                at = following.end()
                if not stack:
                    if following.start(1) != len(data):
                        what = "something follows after the end of the value"
                        raise SyntaxFaultError("json_syntax", following.start(1), what)
                    return root[0]
                is_object = isinstance(holder, dict)
                if following[1] == b",":
                    break
                if following[1] != (b"}" if is_object else b"]"):
                    raise self.expected("a comma or a closing bracket", following.start(1))
                holder, base = stack.pop()
            if isinstance(holder, dict):
                key, path, at = self.key(holder, base, at)
            else:
                path = None
