"""The page of facts: every name that an expression can use, from the dataclasses of `ckptdoctor.facts`."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from ckptdoctor.examining import RULE_NAMES
from ckptdoctor.rulebook.facttypes import facts_of
from ckptdoctor.rulebook.functions import FUNCTIONS
from ckptdoctor.unknown import Unknown
from generator.markdown import code, page, prose, table

__all__ = ["facts_page"]

_PLAIN = {int: "whole number", str: "text", bool: "True or False", float: "number"}


def facts_page() -> str:
    """All facts by root, each dataclass once."""
    parts = [
        "# Facts",
        "The names that the expressions and texts of a rule can use. `draft.fc.in_features` is the fact "
        "`in_features` of the fact `fc` of `draft`. *or unknown* means that a rule which reaches the fact may be "
        "skipped, because something was not given or not readable; *or None* means that there is none. "
        "`plan` is there in rules of scope `serving` alone. "
        "A list can be asked with `len`, `any` and so on, or with `for_each`, which calls each item `it`.",
        f"Functions: {', '.join(code(name) for name in FUNCTIONS)}.",
    ]
    seen: dict[type, str] = {}
    for root, kind in RULE_NAMES.items():
        parts.append(f"## {root}")
        parts += _section(kind, root, seen)
    return page(*parts)


def _section(kind: type, path: str, seen: dict[type, str]) -> Iterator[str]:
    """The description and the table of `kind`, then those of the dataclasses in it that were not shown before."""
    hints = facts_of(kind)
    yield "\n\n".join(_description(kind))
    yield table(("fact", "is"), ((code(f"{path}.{name}"), _type(hint)) for name, hint in hints.items()))
    for name, hint in hints.items():
        for inner, listed in _inner(hint):
            title = f"{path}.{name}" + (" (each item)" if listed else "")
            yield f"### {title}"
            if inner in seen:
                yield f"As {code(seen[inner])}."
            else:
                seen[inner] = title
                yield from _section(inner, "it" if listed else f"{path}.{name}", seen)


def _description(kind: type) -> list[str]:
    paragraphs = re.split(r"\n\s*\n", inspect.getdoc(kind) or "")
    return [prose(" ".join(paragraph.split())) for paragraph in paragraphs]


def _inner(hint: Any, listed: bool = False) -> Iterator[tuple[type, bool]]:
    """The dataclasses that a value of this type is or holds, and whether in a list."""
    if isinstance(hint, type) and is_dataclass(hint) and hint is not Unknown:
        yield hint, listed
    origin = typing.get_origin(hint)
    for argument in typing.get_args(hint):
        yield from _inner(argument, listed or origin in (tuple, list, frozenset))


def _type(hint: Any) -> str:
    if isinstance(hint, str):
        return code(hint)
    if hint is Any:
        return "any value"
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, str):
        return _PLAIN[str]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        words = [_type(one) for one in arguments if one not in (type(None), Unknown)]
        words += ["None"] if type(None) in arguments else []
        words += ["unknown"] if Unknown in arguments else []
        return " or ".join(words)
    if origin in (tuple, list, frozenset):
        return f"list of {_several(arguments[0])}"
    if origin is not None:
        return f"mapping to {_several(arguments[-1])}"
    return code(getattr(hint, "__name__", str(hint)))


def _several(hint: Any) -> str:
    words = _type(hint)
    return f"{words}s" if hint in (int, str) else words
