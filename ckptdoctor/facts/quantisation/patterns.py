"""Entries of ignore lists against names of modules, in the ways in which engines compare them.

Patterns come from files, so they are data. They run in RE2, which never goes back; what it does not have (look-around,
references to groups) is not run and counts as one that may name anything, which accuses nobody. Plain entries are
looked up and not tried one by one, and a list as a whole has a budget.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from ckptdoctor.limits import PATTERN_LENGTH, PATTERN_NAME, PATTERN_STEPS, PATTERNS

# How re itself reads a pattern; nothing public tells it.
if sys.version_info >= (3, 11):
    from re import _parser
else:
    import sre_parse as _parser

__all__ = ["STYLES", "Named", "TooMuchError", "named", "names_module", "readable"]

_SIGN = re.compile(r"[*+?^$()\[\]{}|\\]")
_MARKS = ("re:", "-:", "+:")


class TooMuchError(Exception):
    """A list whose patterns take more steps than any list in use."""


class Named:
    """The modules that a list of entries names, compared in the way `style` (rules/facts/quantisation.yaml, `methods`;
    `prefix`: by their beginnings). The same list may be asked again and again, up to its budget of steps."""

    def __init__(self, entries: Iterable[str], style: str) -> None:
        self._style = style
        self._plain: set[str] = set()
        self._steps = 0
        self._known: dict[str, bool] = {}
        patterns: list[str] = []
        for entry in entries:
            text = _pattern_of(entry, style)
            if text is not None:
                patterns.append(text)
            elif not entry.startswith(_MARKS):
                self._plain.add(entry.strip(".") if style == "path" else entry)
        self._plain.discard("")
        self._lengths = {len(entry) for entry in self._plain}
        self._one, self._size = _together(tuple(dict.fromkeys(patterns)))

    def names(self, module: str) -> bool:
        """Whether an entry names `module`. Raises `TooMuchError` when the budget is used up."""
        if len(module) > PATTERN_NAME:
            return False
        if module not in self._known:
            self._known[module] = self._is_plain(module) or self._is_pattern(module)
        return self._known[module]

    def _is_plain(self, module: str) -> bool:
        plain, style = self._plain, self._style
        if not plain or style == "negative":
            return False
        if module in plain:
            return True
        if style in ("suffix", "bits16"):
            return any(tail in plain for tail in _tails(module))
        if style == "path":
            dotted = [-1, *(at for at, char in enumerate(module) if char == "."), len(module)]
            return any(module[a + 1 : b] in plain for n, a in enumerate(dotted) for b in dotted[n + 1 :])
        if style == "prefix":
            return any(module[:end] in plain for end in range(1, len(module)))
        if style == "substring":
            self._spend(len(module) * len(self._lengths) * 16)
            return any(module[at : at + n] in plain for n in self._lengths for at in range(len(module) - n + 1))
        return style == "glob" and any(part in plain for part in _parts(module))

    def _is_pattern(self, module: str) -> bool:
        if self._one is None:
            return False
        found = False
        for text in _parts(module) if self._style == "glob" else (module,):
            self._spend(self._size * (len(text) + 1))
            found = found or (self._one.search if self._style == "bits16" else self._one.match)(text) is not None
        return found

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > PATTERN_STEPS:
            raise TooMuchError


@lru_cache(maxsize=8)
def named(entries: tuple[str, ...], style: str) -> Named:
    """`Named` of the list, which is the same one for a checkpoint and for what repairs would make of it."""
    return Named(entries, style)


STYLES = frozenset({"exact", "suffix", "path", "substring", "glob", "negative", "bits16"})


def names_module(entries: Iterable[str], module: str, style: str) -> bool:
    """Whether one of `entries` names `module`, compared in the way `style`. Raises as `Named.names` does."""
    return Named(entries, style).names(module)


def readable(entries: Iterable[str]) -> bool:
    """Whether all entries can be compared at all: no pattern that is broken, long or beyond RE2, and not too many."""
    return _are_readable(tuple(entries))


@lru_cache(maxsize=8)
def _are_readable(entries: tuple[str, ...]) -> bool:
    patterns = 0
    for entry in entries:
        text = entry[3:] if entry.startswith("re:") else entry[2:] if entry.startswith(_MARKS) else None
        patterns += text is not None or _SIGN.search(entry) is not None
        length = len(entry if text is None else text)
        if patterns > PATTERNS or length > PATTERN_LENGTH or (text is not None and not _is_sound(text)):
            return False
    return True


def _pattern_of(entry: str, style: str) -> str | None:
    """The pattern that the entry is in this style; None for a plain one, or one that is not run."""
    if style in ("substring", "glob"):
        return _shell(entry) if len(entry) <= PATTERN_LENGTH and any(sign in entry for sign in "*?[") else None
    if style == "bits16":
        return entry if _SIGN.search(entry) is not None and _is_sound(entry) else None
    mark = "-:" if style == "negative" else "re:"
    text = entry.removeprefix(mark) if entry.startswith(mark) and style != "prefix" else None
    return text if text is not None and _is_sound(text) else None


def _tails(module: str) -> Iterator[str]:
    """What follows each dot."""
    for at, char in enumerate(module):
        if char == ".":
            yield module[at + 1 :]


def _parts(module: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((module, module.removeprefix("language_model."), *module.split("."))))


def _shell(entry: str) -> str:
    """A shell pattern in the words of RE2; a set without an end is a bracket, as `fnmatch` has it."""
    made, at = [], 0
    while at < len(entry):
        char = entry[at]
        at += 1
        if char == "*":
            made.append(".*")
        elif char == "?":
            made.append(".")
        elif char == "[" and (end := entry.find("]", at + (entry[at : at + 1] == "!") + 1)) > 0:
            held, negated = entry[at:end].removeprefix("!"), entry[at] == "!"
            inside = "".join("-" if c == "-" and 0 < n < len(held) - 1 else re.escape(c) for n, c in enumerate(held))
            made.append(f"[{'^' if negated else ''}{inside}]")
            at = end + 1
        else:
            made.append(re.escape(char))
    text = f"(?s:{''.join(made)})\\z"
    return text if _in_re2(text) is not None else r"[^\x00-\x{10FFFF}]"


@lru_cache(maxsize=4096)
def _is_sound(text: str) -> bool:
    """Whether RE2 runs the pattern and means what `re` means by it."""
    if len(text) > PATTERN_LENGTH or not text.isascii():
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what is about to change its meaning
            _parser.parse(text)
    except (re.error, RecursionError, OverflowError, ValueError, Warning):
        return False
    return not re.search(r"\\[sSwWdDbBAZ]?[zCpPQEU]", text) and _in_re2(text) is not None


def _in_re2(text: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except (re2.error, ValueError, OverflowError):
        return None


def _together(patterns: tuple[str, ...]) -> tuple[Any, int]:
    """One program for all patterns and its size; (None, 0) for none. Raises `TooMuchError` when it is too large."""
    if not patterns:
        return None, 0
    program = _in_re2("|".join(f"(?:{text})" for text in patterns)) if len(patterns) <= PATTERNS else None
    if program is None:
        raise TooMuchError
    return program, int(program.programsize)
