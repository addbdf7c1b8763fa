"""What a treatment looks up in facts or plans, worked out once: a draft may give thousands of findings that ask."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["once"]

_Of = TypeVar("_Of")
_Found = TypeVar("_Found")


def once(work_out: Callable[[_Of], _Found]) -> Callable[[_Of], _Found]:
    """`work_out`, whose answer for one object is kept as long as there is the object, which must not change.

    Objects are told apart by their identity: facts are too large to be compared.
    """
    kept: dict[int, tuple[weakref.ref[Any], _Found]] = {}

    def answer(of: _Of) -> _Found:
        at = id(of)
        found = kept.get(at)
        if found is not None and found[0]() is of:
            return found[1]
        value = work_out(of)
        kept[at] = (weakref.ref(of, lambda gone: forget(at, gone)), value)
        return value

    def forget(at: int, gone: weakref.ref[Any]) -> None:
        # Another object may have taken the id before this is called.
        found = kept.get(at)
        if found is not None and found[0] is gone:
            del kept[at]

    return answer
