"""The types of facts: which facts a fact has, and what its items are, read from the dataclasses' annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, cached_property
from typing import Any

from ckptdoctor.unknown import Unknown

__all__ = ["NoSuchFactError", "attribute_type", "element_type", "facts_of", "item_type", "listed", "union"]

_PLAIN = (str, int, float, bool, bytes)
_MAPPINGS = (dict, Mapping)
_LISTS = (list, tuple, set, frozenset, Sequence, Iterable, Collection)


class NoSuchFactError(Exception):
    """None of the types a fact may have knows this name. `options` are the names that would do."""

    def __init__(self, options: Iterable[str]) -> None:
        super().__init__()
        self.options = sorted(set(options))


def union(hints: Iterable[object]) -> object:
    """The type of a value that has one of these types."""
    several = tuple(hints)
    if not several or Any in several:
        return Any
    return typing.Union[several]  # noqa: UP007  # built from a tuple, which `|` cannot take


def listed(hint: object) -> object:
    """The type of a list of such values."""
    return types.GenericAlias(list, (hint,))


def attribute_type(hint: object, name: str) -> object:
    """The type of the fact `name` of a value of type `hint`; `Any` where nothing is known.

    A value that may have one of several types has the facts of all of them. Raises `NoSuchFactError`.
    """
    found: list[object] = []
    options: set[str] = set()
    for kind in _alternatives(hint):
        if _is_open(kind):
            return Any
        facts = facts_of(kind) if isinstance(kind, type) and is_dataclass(kind) else {}
        options.update(facts)
        if name in facts:
            found.append(facts[name])
    if not found:
        raise NoSuchFactError(options)
    return union(found)


def element_type(hint: object) -> object:
    """The type of what a loop over a value of type `hint` gives."""
    return _inner_type(hint, mapping_argument=0)


def item_type(hint: object) -> object:
    """The type of what a subscript of a value of type `hint` gives."""
    return _inner_type(hint, mapping_argument=1)


def _inner_type(hint: object, mapping_argument: int) -> object:
    inner: list[object] = []
    for kind in _alternatives(hint):
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in _MAPPINGS or (isinstance(origin, type) and issubclass(origin, Mapping)):
            inner.append(arguments[mapping_argument])
        elif origin is tuple:
            inner.extend(argument for argument in arguments if argument is not Ellipsis)
        elif origin is not None and arguments:
            inner.append(arguments[0])
        elif kind is str:
            inner.append(str)
        else:
            return Any
    return union(inner)


def _alternatives(hint: object) -> tuple[object, ...]:
    """The types a value may have once it is known and there: unions are taken apart, None and Unknown left out."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _alternatives(typing.get_args(hint)[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(kind for part in typing.get_args(hint) for kind in _alternatives(part))
    return () if hint in (None, type(None), Unknown) else (hint,)


def _is_open(kind: object) -> bool:
    """Whether nothing is known of the names that a value of this type has."""
    origin = typing.get_origin(kind) or kind
    if isinstance(kind, type) and issubclass(kind, _PLAIN):
        return False
    if origin is typing.Literal or origin in _LISTS or origin in _MAPPINGS:
        return False
    return not (isinstance(kind, type) and is_dataclass(kind))


@cache
def facts_of(kind: type) -> Mapping[str, object]:
    """The fields and properties of a dataclass with their types; methods are no facts, for rules cannot call them."""
    facts = {name: hint for name, hint in typing.get_type_hints(kind).items() if not name.startswith("_")}
    for name in dir(kind):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(kind, name)
        getter = member.fget if isinstance(member, property) else None
        if isinstance(member, cached_property):
            getter = member.func
        if getter is not None:
            facts[name] = typing.get_type_hints(getter).get("return", Any)
    return facts
