"""Values at dotted places of other people's objects: an attribute that is not there is no error."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["ABSENT", "arguments", "first", "function_at", "reach"]

ABSENT: Any = object()


def reach(start: Any, path: str, absent: Any = None) -> Any:
    """The value at `path` (`model.layers.0.weight`), or `absent`. The first name may be a key of a mapping."""
    value = start
    try:
        for name in path.split("."):
            if isinstance(value, Mapping):
                value = value[name]
            elif name.isdecimal():
                value = value[int(name)]
            else:
                value = getattr(value, name)
    except Exception:  # noqa: BLE001 - properties of an engine may raise anything
        return absent
    return value


def first(start: Any, paths: Iterable[str], absent: Any = None) -> Any:
    """The value at the first of the paths where there is one that is not None."""
    for path in paths:
        value = reach(start, path)
        if value is not None:
            return value
    return absent


def arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names, as far as the signature tells."""
    try:
        return dict(inspect.signature(function).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return dict(kwargs)


def function_at(place: str) -> Callable[..., Any] | None:
    """The function `module:name` where the module is imported already. Imports nothing."""
    module, _, name = place.partition(":")
    found = reach(sys.modules.get(module), name) if module in sys.modules else None
    return found if callable(found) else None
