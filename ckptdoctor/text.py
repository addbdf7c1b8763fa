"""The one way to print what comes from a file: names, values and paths are data, never markup.

Everything foreign that reaches a message, a table, a log line or an annotation goes through
`show`. It leaves ordinary text as it is and turns what could move the cursor, reorder the line or
hide characters into visible escapes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

__all__ = ["LIMIT", "listing", "numbers", "plural", "show"]

LIMIT = 160
"""Characters of one foreign value that a message carries at most."""

# Control, format (bidi marks, zero width joiners, soft hyphen), surrogates, private use, unassigned,
# line and paragraph separators. Combining marks are left: they cannot leave their line.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def _escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def show(value: object, limit: int = LIMIT) -> str:
    """`value` as text that is safe in a terminal, a log or a report.

    Control, bidi, format, private and unassigned characters become `\\xNN`, `\\uNNNN` or
    `\\UNNNNNNNN`; backslashes stay as they are. A text longer than `limit` characters is cut and says
    how many were left out. Never raises for any string.
    """
    text = value if isinstance(value, str) else str(value)
    left_out = len(text) - limit
    if left_out > 0:
        text = text[:limit]
    if not (text.isascii() and text.isprintable()):
        text = "".join(_escape(c) if unicodedata.category(c) in _UNSAFE else c for c in text)
    return f"{text}… (+{left_out} characters)" if left_out > 0 else text


def listing(items: Iterable[object], limit: int = 4) -> str:
    """A readable list: `a, b and c`, or `a, b, c, d and 7 more`; `none` for no items."""
    found = list(items)
    values = [show(item, 80) for item in found[:limit]]
    if not found:
        return "none"
    if len(found) > limit:
        return f"{', '.join(values)} and {len(found) - limit} more"
    if len(values) == 1:
        return values[0]
    return f"{', '.join(values[:-1])} and {values[-1]}"


def numbers(values: Sequence[object], limit: int = 64) -> str:
    """`[2, 30, 58]`, or the first `limit` of them and how many more there are."""
    more = f", … {len(values) - limit:,} more" if len(values) > limit else ""
    return f"[{', '.join(show(value, 40) for value in values[:limit])}{more}]"


def plural(count: int, singular: str, several: str | None = None) -> str:
    """`1 tensor`, `3 tensors`, `2 entries` (pass the plural when it is not an added s)."""
    return f"{count} {singular if count == 1 else several or singular + 's'}"
