"""Markdown that shows texts as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["GENERATED", "cell", "code", "page", "prose", "table"]

GENERATED = "<!-- Written by docs/build.py. Change the data or the code it comes from, and run it again. -->"


def page(*parts: str) -> str:
    """The parts with blank lines between them, under the line that says where the page comes from."""
    return "\n\n".join([GENERATED, *(part for part in parts if part)]) + "\n"


def prose(text: str) -> str:
    """`text` as a paragraph: what Markdown would take for markup is escaped, code between backticks stays code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else _escaped(piece) for piece in pieces)


def _escaped(text: str) -> str:
    text = re.sub(r"[\\*<>|]|\](?=\()", r"\\\g<0>", text)
    # Within a word an underscore is one; at its beginning or end it is emphasis.
    return re.sub(r"(?<![^\W_])_+|_+(?![^\W_])", lambda found: r"\_" * len(found[0]), text)


def code(text: object) -> str:
    """`text` as code."""
    return f"`{text}`" if "`" not in str(text) else f"`` {text} ``"


def cell(text: str) -> str:
    """`text` as the content of a table cell, where a bar ends the cell even within code."""
    return re.sub(r"(?<!\\)\|", r"\|", text.replace("\n", " "))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing without rows."""
    lines = ["| " + " | ".join(cell(value) or " " for value in row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *lines])
