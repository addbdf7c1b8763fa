"""The writing system of a piece of text, by the names that Unicode gives its characters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

__all__ = ["BYTES", "DIGITS", "NOTHING", "PUNCTUATION", "SPACE", "script_of"]

DIGITS, SPACE, PUNCTUATION, BYTES, NOTHING = "digits", "space", "punctuation", "parts of characters", "unknown"
"""What a piece is that has no letters: digits, white space, punctuation and symbols, some bytes of a character, or
one whose text is not known."""

_BYTES = re.compile(r"<0x[0-9A-F]{2}>|\ufffd")
# First words of character names that do not name the script.
_NAMES = {
    "CJK": "Han", "IDEOGRAPHIC": "Han", "KANGXI": "Han", "HANGZHOU": "Han", "FEMININE": "Latin", "MASCULINE": "Latin",
    "KELVIN": "Latin", "ANGSTROM": "Latin", "DOUBLE-STRUCK": "Latin", "SCRIPT": "Latin", "BLACK-LETTER": "Latin",
    "MATHEMATICAL": "Latin", "MICRO": "Greek", "OHM": "Greek",
}  # fmt: skip
_BEFORE = frozenset(
    {"FULLWIDTH", "HALFWIDTH", "SMALL", "PARENTHESIZED", "CIRCLED", "SQUARED", "SUPERSCRIPT", "SUBSCRIPT"}
)
_TWO_WORDS = frozenset({"OLD", "NEW", "TAI", "CANADIAN", "LINEAR", "WARANG", "SORA", "PAU", "MENDE", "NYIAKENG"})
_COMMON = frozenset({"COMBINING", "MODIFIER", "VARIATION", "KATAKANA-HIRAGANA", "ARABIC-INDIC", "PRESENTATION"})


def script_of(text: str) -> str:
    """The script that most letters of `text` are of (`Latin`, `Cyrillic`, `Han`, `Hangul`, …), else what it is instead.

    The first of two that are equally frequent. `<0xNN>` stands for a byte that is no character by itself.
    """
    if text.isascii() and "<0x" not in text:
        if any(c.isalpha() for c in text):
            return "Latin"
        return _without_letters(text)
    rest = _BYTES.sub("", text)
    found = Counter(script for c in rest if (script := _letter(c)) is not None)
    if found:
        return found.most_common(1)[0][0]
    return BYTES if rest != text else _without_letters(rest)


def _without_letters(text: str) -> str:
    bare = text.strip()
    if not bare:
        return SPACE if text else NOTHING
    return DIGITS if all(unicodedata.category(c) == "Nd" for c in bare) else PUNCTUATION


@lru_cache(maxsize=65_536)
def _letter(char: str) -> str | None:
    """The script of a letter or of a mark that belongs to one; None for all other characters."""
    if unicodedata.category(char)[0] not in "LM":
        return None
    words = unicodedata.name(char, "").split()
    while words and words[0] in _BEFORE:
        words = words[1:]
    if not words or words[0] in _COMMON:
        return None
    if words[0] in _NAMES:
        return _NAMES[words[0]]
    return " ".join(words[: 2 if words[0] in _TWO_WORDS else 1]).title()
