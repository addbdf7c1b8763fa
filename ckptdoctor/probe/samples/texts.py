"""Texts that a target is run on: text files, JSON lines and JSON documents of prompts, conversations or token ids.

A text file holds one text between empty lines. A row of JSON is a text, a list of token ids, a list of messages, or an
object with one of the fields that `rules/probe/samples.yaml` names.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ckptdoctor.checkpoint.folder import open_regular
from ckptdoctor.probe.samples.recorded_text import UnreadableError
from ckptdoctor.resources import shipped
from ckptdoctor.text import listing, show

__all__ = ["Prompt", "read_prompts"]

_DOCUMENT_LIMIT = 64 * 1024 * 1024
_LINE_LIMIT = 16 * 1024 * 1024
_MOST = 100_000


@dataclass(frozen=True)
class Prompt:
    """One text to run: exactly one of `text`, `messages` (role and content) and `ids`. `mask` is a loss mask of the
    ids.
    """

    name: str
    text: str | None = None
    messages: tuple[dict[str, str], ...] = ()
    ids: tuple[int, ...] = ()
    mask: tuple[bool, ...] | None = None


def read_prompts(place: Path, name: str) -> Iterator[Prompt | tuple[str, UnreadableError]]:
    """The prompts in the file `place`, called `name`; a row that is none comes as its name and the reason.

    Raises `UnreadableError` for the file as a whole.
    """
    try:
        with open_regular(place) as stream:
            if place.name.endswith(".txt"):
                yield from _blocks(_decoded(stream.read(_DOCUMENT_LIMIT + 1)), name)
                return
            if _is_lines(stream):
                yield from islice(_lines(stream, name), _MOST)
                return
            data = stream.read(_DOCUMENT_LIMIT + 1)
    except OSError as error:
        raise UnreadableError(f"cannot be read ({show(error.strerror or error)})") from None
    yield from _document(_decoded(data), name, place)


def _decoded(data: bytes) -> str:
    if len(data) > _DOCUMENT_LIMIT:
        raise UnreadableError(f"more than {_DOCUMENT_LIMIT} bytes in one document; save it as JSON lines (.jsonl)")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is no text in UTF-8 (byte {error.start})") from None


def _is_lines(stream: BinaryIO) -> bool:
    """Whether the file is JSON lines: its first line is a row by itself, and more follows. Leaves the stream at 0."""
    filled = (line for line in iter(lambda: stream.readline(_LINE_LIMIT + 1), b"") if not line.isspace())
    first, more = next(filled, b""), next(filled, None) is not None
    stream.seek(0)
    try:
        return more and isinstance(json.loads(first), (dict, list, str))
    except (ValueError, RecursionError):
        return False


def _lines(stream: BinaryIO, name: str) -> Iterator[Prompt | tuple[str, UnreadableError]]:
    number = 0
    while line := stream.readline(_LINE_LIMIT + 1):
        number += 1
        called = f"{name}, line {number}"
        if len(line) > _LINE_LIMIT:
            yield called, UnreadableError(f"more than {_LINE_LIMIT} bytes in one line")
            return
        if not line.isspace():
            yield _row_of(line, called)


def _document(text: str, name: str, place: Path) -> Iterator[Prompt | tuple[str, UnreadableError]]:
    """A JSON document of rows, or of one row; without the name of one, and not like one, plain text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if place.name.endswith(".jsonl") and "\n" in text.strip():
            yield from islice(_lines(io.BytesIO(text.encode()), name), _MOST)
            return
        if place.name.endswith((".json", ".jsonl")):
            why = "it is nested too deep" if isinstance(error, RecursionError) else show(error, 80)
            raise UnreadableError(f"is no JSON ({why})") from None
        yield from _blocks(text, name)
        return
    if isinstance(value, dict):
        holder = next((k for k in shipped("probe/samples")["rows"]["holders"] if isinstance(value.get(k), list)), None)
        value = value[holder] if holder else [value]
    if not isinstance(value, list) or (value and all(type(v) is int for v in value)):
        value = [value]
    if value and all(isinstance(v, dict) and _message_field(v, "role") for v in value):
        value = [value]
    for number, row in enumerate(value[:_MOST], 1):
        yield _prompt_or_reason(row, name if len(value) == 1 else f"{name}, row {number}")


def _blocks(text: str, name: str) -> Iterator[Prompt]:
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.strip():
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    found = ["\n".join(block) for block in blocks if block]
    for number, block in enumerate(found, 1):
        yield Prompt(name if len(found) == 1 else f"{name}, text {number}", text=block)


def _row_of(line: bytes, called: str) -> Prompt | tuple[str, UnreadableError]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else show(error, 80)
        return called, UnreadableError(f"no JSON ({why})")
    return _prompt_or_reason(value, called)


def _prompt_or_reason(value: Any, called: str) -> Prompt | tuple[str, UnreadableError]:
    try:
        return _prompt(value, called)
    except UnreadableError as reason:
        return called, reason


def _prompt(value: Any, called: str) -> Prompt:
    if isinstance(value, str):
        if not value.strip():
            raise UnreadableError("an empty text")
        return Prompt(called, text=value)
    if isinstance(value, list):
        if value and all(isinstance(item, dict) for item in value):
            return Prompt(called, messages=_messages(value))
        return Prompt(called, ids=_ids(value))
    if not isinstance(value, dict):
        raise UnreadableError(f"{show(repr(value), 60)} is no text, no list of token ids and no messages")
    words = shipped("probe/samples")["rows"]
    fields = [*words["messages"], *words["ids"], *words["prompts"]]
    field = next((name for name in fields if value.get(name)), None)
    if field is None:
        raise UnreadableError(f"none of {listing(fields, 20)} is among its fields ({listing(value)})")
    inner = value[field]
    if field in words["ids"]:
        ids = _ids(inner)
        return Prompt(called, ids=ids, mask=_mask(value, len(ids)))
    if field in words["messages"] and isinstance(inner, list):
        return Prompt(called, messages=_messages(inner))
    # Several turns of one user (MT-Bench): the first stands alone.
    if isinstance(inner, list) and inner and isinstance(inner[0], str):
        inner = inner[0]
    if not isinstance(inner, str):
        raise UnreadableError(f"{show(repr(inner), 60)} stands in {field} where a text is expected")
    return _prompt(inner, called)


def _ids(value: Any) -> tuple[int, ...]:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):  # a batch of one
        value = value[0]
    if not isinstance(value, list) or not value or not all(type(v) is int and 0 <= v < 2**31 for v in value):
        raise UnreadableError(f"{show(repr(value), 60)} stands where a list of token ids is expected")
    return tuple(value)


def _mask(row: dict[str, Any], length: int) -> tuple[bool, ...] | None:
    for name in shipped("probe/samples")["rows"]["mask"]:
        value = row.get(name)
        if isinstance(value, list) and len(value) == length:
            return tuple(bool(v) for v in value)
    return None


def _messages(value: list[Any]) -> tuple[dict[str, str], ...]:
    messages = []
    for item in value:
        role = _message_field(item, "role") if isinstance(item, dict) else None
        content = _content(item) if isinstance(item, dict) else None
        known = shipped("probe/samples")["messages"]["roles"].get(str(role).lower())
        if known is None or content is None:
            raise UnreadableError(
                f"{show(repr(item), 60)} stands where a message with a role and a content is expected"
            )
        messages.append({"role": known, "content": content})
    if not messages:
        raise UnreadableError("a conversation without messages")
    return tuple(messages)


def _message_field(item: dict[str, Any], what: str) -> Any:
    return next((item[key] for key in shipped("probe/samples")["messages"][what] if item.get(key)), None)


def _content(item: dict[str, Any]) -> str | None:
    value = _message_field(item, "content")
    if isinstance(value, list):  # parts: those that are text
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        value = "".join(part for part in parts if isinstance(part, str)) or None
    return value if isinstance(value, str) else None
