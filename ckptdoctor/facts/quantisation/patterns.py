"""Entries of ignore lists against names of modules, in the ways in which engines compare them.

Patterns come from files, so they are data: one that could run for long is not run, and counts as one that may name
anything, which accuses nobody.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Any

# How re itself reads a pattern; nothing public tells it.
if sys.version_info >= (3, 11):
    from re import _parser
else:
    import sre_parse as _parser

__all__ = ["STYLES", "names_module", "readable"]

LONGEST_PATTERN = 300
LONGEST_NAME = 160
MOST_REPEATS = 3
"""Unbounded repeats in one pattern; one inside another is never run."""


def names_module(entries: Iterable[str], module: str, style: str) -> bool:
    """Whether one of `entries` names `module`, compared in the way `style` (rules/facts/quantisation.yaml,
    `methods`)."""
    check = STYLES[style]
    return len(module) <= LONGEST_NAME and any(check(entry, module) for entry in entries)


def readable(entry: str) -> bool:
    """Whether the entry can be compared at all: no pattern that is broken or could run for long."""
    text = entry.removeprefix("re:").removeprefix("-:").removeprefix("+:")
    return len(text) <= LONGEST_PATTERN and (not entry.startswith(("re:", "-:", "+:")) or _compiled(text) is not None)


def _exact(entry: str, module: str) -> bool:
    if entry.startswith("re:"):
        pattern = _compiled(entry[3:])
        return pattern is not None and pattern.match(module) is not None
    return entry == module


def _suffix(entry: str, module: str) -> bool:
    return _exact(entry, module) or (not entry.startswith("re:") and bool(entry) and module.endswith(f".{entry}"))


def _path(entry: str, module: str) -> bool:
    entry = entry.strip(".")
    return bool(entry) and (_exact(entry, module) or f".{entry}." in f".{module}.")


def _substring(entry: str, module: str) -> bool:
    return bool(entry) and (entry in module or _glob_whole(entry, module))


def _glob(entry: str, module: str) -> bool:
    parts = (module, module.removeprefix("language_model."), *module.split("."))
    return any(_glob_whole(entry, part) for part in parts)


def _glob_whole(entry: str, text: str) -> bool:
    if not any(sign in entry for sign in "*?["):
        return entry == text
    pattern = _shell(entry)
    return pattern is not None and pattern.match(text) is not None


def _negative(entry: str, module: str) -> bool:
    if not entry.startswith("-:"):
        return False
    pattern = _compiled(entry[2:])
    return pattern is not None and pattern.match(module) is not None


def _bits16(entry: str, module: str) -> bool:
    """Auto-round: the whole name, its end after a dot, or a pattern found anywhere (INCConfigParser, vLLM 0.33.0)."""
    if entry == module or module.endswith(f".{entry}"):
        return True
    if not any(sign in entry for sign in r"*+?^$()[]{}|\\"):
        return False
    pattern = _compiled(entry)
    return pattern is not None and pattern.search(module) is not None


STYLES: Mapping[str, Callable[[str, str], bool]] = {
    "exact": _exact,
    "suffix": _suffix,
    "path": _path,
    "substring": _substring,
    "glob": _glob,
    "negative": _negative,
    "bits16": _bits16,
}


@lru_cache(maxsize=4096)
def _shell(entry: str) -> re.Pattern[str] | None:
    # Python 3.11 writes a shell pattern as one that never goes back over a star.
    return re.compile(translate(entry)) if len(entry) <= LONGEST_PATTERN else None


@lru_cache(maxsize=4096)
def _compiled(text: str) -> re.Pattern[str] | None:
    """The pattern; None when it is broken, long, or could run for long on a name that it does not fit."""
    if len(text) > LONGEST_PATTERN:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A last `.*` always fits what is left, so it never goes back.
            if not _is_tame(_parser.parse(text.removesuffix("$").removesuffix(".*"))):
                return None
            return re.compile(text)
    except (re.error, RecursionError, OverflowError, ValueError):
        return None


def _is_tame(tree: Any) -> bool:
    """No unbounded repeat inside a repeat, and few of them in all."""
    return _repeats(tree, inside=False) <= MOST_REPEATS


def _repeats(tree: Any, *, inside: bool) -> int:
    found = 0
    for operation, argument in tree:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _, high, inner = argument
            several = int(high) > 8 or high == _parser.MAXREPEAT
            if several and inside:
                return MOST_REPEATS + 1
            found += several + _repeats(inner, inside=inside or int(high) > 1 or high == _parser.MAXREPEAT)
        elif name == "SUBPATTERN":
            found += _repeats(argument[-1], inside=inside)
        elif name == "ATOMIC_GROUP":
            found += _repeats(argument, inside=inside)
        elif name == "BRANCH":
            branches = [_repeats(branch, inside=inside) for branch in argument[1]]
            # Alternatives under a repeat can be tried in as many ways as there are repetitions.
            found += MOST_REPEATS + 1 if inside and len(branches) > 1 else max(branches, default=0)
        elif name in ("ASSERT", "ASSERT_NOT"):
            found += _repeats(argument[1], inside=inside)
        elif name in ("GROUPREF", "GROUPREF_EXISTS"):
            return MOST_REPEATS + 1
    return found
