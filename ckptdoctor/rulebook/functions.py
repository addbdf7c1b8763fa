"""The functions and operators that expressions may use; there are no others."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ckptdoctor import closures, text
from ckptdoctor.unknown import Unknown, UnknownFactError

__all__ = ["FUNCTIONS", "OPERATORS", "Shown"]

_LONGEST = 2_000
_MOST_ITEMS = 100


class Shown(str):
    """Text that `show` or `listing` has already made safe to print, and cut where it was too long."""

    __slots__ = ()


def _first_unknown(value: object) -> Unknown | None:
    if isinstance(value, Unknown):
        return value
    if isinstance(value, (list, tuple)):
        return next((found for item in value if (found := _first_unknown(item)) is not None), None)
    return None


def _refuse_unknown(*values: object) -> None:
    for value in values:
        if (found := _first_unknown(value)) is not None:
            raise UnknownFactError(found)


def _of_known(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, for items that are all known: an unknown item would else be compared as if it were a value."""

    def judged(*values: object, **options: object) -> Any:
        _refuse_unknown(*values)
        return function(*values, **options)

    return judged


def _unique(items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(items))


def _show(value: object, limit: int = text.LIMIT) -> Shown:
    return Shown(text.show(value, min(limit, _LONGEST)))


def _listing(items: Iterable[object], limit: int = 4) -> Shown:
    return Shown(text.listing(items, min(limit, _MOST_ITEMS)))


def _plural(count: int, singular: str, several: str | None = None) -> str:
    return text.plural(count, singular, several)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "all": all,
    "any": any,
    "len": len,
    "listing": _listing,
    "max": _of_known(max),
    "min": _of_known(min),
    "plural": _plural,
    "show": _show,
    "sorted": _of_known(sorted),
    "sum": _of_known(sum),
    "unique": _of_known(_unique),
}
"""Every function an expression can call, by its name."""


def _contains(item: object, container: Any) -> bool:
    if item in container:
        return True
    _refuse_unknown(container)
    return False


def _remainder(left: Any, right: Any) -> Any:
    # `%` on text is formatting, which could ask for a gigabyte of padding.
    if isinstance(left, (str, bytes)):
        raise TypeError("% works on numbers only")
    return left % right


_KEPT = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Gt, ast.Lt, ast.GtE, ast.LtE, ast.Not, ast.USub)

OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    **{kind: closures.OPERATORS[kind] for kind in _KEPT},
    ast.Mod: _remainder,
    ast.Eq: _of_known(operator.eq),
    ast.NotEq: _of_known(operator.ne),
    ast.In: _contains,
    ast.NotIn: lambda item, container: not _contains(item, container),
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
"""Every operator an expression can use, by the type of its syntax node."""
