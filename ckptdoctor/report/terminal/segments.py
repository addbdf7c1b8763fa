"""Styled text before it is printed: segments, lines, and the wrapping that both renderers share.

Wrapping is done here and not by rich, so that plain and coloured output have the same lines.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from ckptdoctor.text import show

__all__ = ["BLANK", "Line", "Segment", "line", "physical"]

# `show` cuts long values; a whole message was capped where it was made and must not be cut again.
_NO_LIMIT = 1 << 60
_BREAK_AFTER = "./_-,:"


@dataclass(frozen=True)
class Segment:
    """A piece of text with the name of a style (see `render`); the empty name is plain text."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Line:
    """One line as it is meant; `physical` cuts it to the width.

    `indent` is the space before the first part, `hang` what the continuations have on top of it. A line
    with `wrap=False` is left whole: a command must stay one line to be copied.
    """

    segments: tuple[Segment, ...] = ()
    indent: int = 0
    hang: int = 0
    wrap: bool = True


BLANK = Line()


def line(*parts: Segment | str, indent: int = 0, hang: int = 0, wrap: bool = True) -> Line:
    """A line from segments and plain strings, made harmless once more: nothing raw gets past this point."""
    segments = (part if isinstance(part, Segment) else Segment(part) for part in parts)
    cleaned = tuple(Segment(_clean(s.text), s.style) for s in segments if s.text)
    return Line(cleaned, indent, hang, wrap)


def physical(item: Line, width: int) -> Iterator[tuple[Segment, ...]]:
    """The lines that `item` fills on a terminal `width` columns wide, each with its indent."""
    text = "".join(s.text for s in item.segments)
    if not text:
        yield ()
        return
    first = max(width - item.indent, 1)
    rest = max(first - item.hang, 1)
    spans = _spans(text, first, rest) if item.wrap else iter([(0, len(text))])
    indent = item.indent
    for start, end in spans:
        parts = tuple(_cut(item.segments, start, end))
        yield (Segment(" " * indent), *parts) if indent else parts
        indent = item.indent + item.hang


def _clean(text: str) -> str:
    # Rule texts may hold line ends of their YAML; everything else that is not printable is foreign.
    return show(re.sub(r"[ \t]*[\n\t][ \t]*", " ", text), _NO_LIMIT)


def _cells(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _fit(text: str, start: int, room: int) -> int:
    """The end of the longest piece from `start` that takes at most `room` columns; at least one character."""
    if text.isascii():
        return min(start + room, len(text))
    used = 0
    for position in range(start, len(text)):
        used += _cells(text[position])
        if used > room and position > start:
            return position
    return len(text)


def _spans(text: str, first: int, rest: int) -> Iterator[tuple[int, int]]:
    start, room = 0, first
    while start < len(text):
        end = _fit(text, start, room)
        if end == len(text):
            yield start, end
            return
        cut = text.rfind(" ", start, end + 1)
        if cut > start and text[start:cut].strip():
            yield start, cut
        else:
            # One word longer than the line: rather after a dot or an underscore than inside a part.
            soft = max(text.rfind(mark, start + (end - start) // 2, end) for mark in _BREAK_AFTER)
            cut = soft + 1 if soft > start else end
            yield start, cut
        start = cut
        while start < len(text) and text[start] == " ":
            start += 1
        room = rest


def _cut(segments: tuple[Segment, ...], start: int, end: int) -> Iterator[Segment]:
    offset = 0
    for segment in segments:
        low, high = max(start - offset, 0), min(end - offset, len(segment.text))
        if low < high:
            yield Segment(segment.text[low:high], segment.style)
        offset += len(segment.text)
