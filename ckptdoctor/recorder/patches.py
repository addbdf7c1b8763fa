"""Replacements that can be taken back: in an instance's own dictionary, a class or a module.

A replaced method of an instance is an entry of its `__dict__` that shadows the one of its class. Taking it back is the
removal of that entry: nothing is left, and it is safe while another thread runs the method (a hook of torch is not:
its table is walked while a module runs).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["Patches", "wrapped"]

Function = Callable[..., Any]
Around = Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]


def wrapped(original: Function, around: Around, is_on: Callable[[], bool]) -> Function:
    """`original`, called through `around` while `is_on()`; plainly afterwards, and wherever torch is compiling it."""
    import torch

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        # First: a compiler that traces this sees the call of the original and nothing else, so no graph breaks here.
        if torch.compiler.is_compiling() or not is_on():
            return original(*args, **kwargs)
        return around(original, args, kwargs)

    return call


class Patches:
    """Replacements made so far; `undo` takes all of them back."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []
        self.on = True

    def __len__(self) -> int:
        return len(self._made)

    def wrap(self, owner: Any, name: str, around: Around) -> None:
        """Replaces the method or function `owner.name`; a method of an instance only for this instance."""
        in_place = isinstance(owner, type) or type(owner).__name__ == "module"
        own = owner.__dict__.get(name, _NONE)
        original = own if in_place and own is not _NONE else getattr(owner, name)
        made: Any = wrapped(original, around, lambda: self.on)
        if in_place:
            setattr(owner, name, made)
        else:
            owner.__dict__[name] = made
        self._made.append((owner, name, own, made))

    def undo(self, owner: Any = None) -> None:
        """Takes everything back, or what was replaced in `owner`. What others have put on top since stays theirs."""
        if owner is None:
            self.on = False
        for entry in reversed(list(self._made)):
            where, name, before, made = entry
            if owner is not None and where is not owner:
                continue
            self._made.remove(entry)
            if where.__dict__.get(name) is not made:
                continue
            if isinstance(where, type) or type(where).__name__ == "module":
                if before is _NONE:
                    delattr(where, name)
                else:
                    setattr(where, name, before)
            elif before is _NONE:
                where.__dict__.pop(name, None)
            else:
                where.__dict__[name] = before


_NONE: Any = object()
