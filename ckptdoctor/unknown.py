"""`Unknown`: a fact that could not be measured, and what it would take to measure it.

A fact is never guessed. What needs the target's config, a tokenizer or torch, and has none, is
`Unknown(needs)`; a rule that reaches it is skipped and counted with that need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

__all__ = ["Known", "Unknown", "UnknownFactError", "known", "known_or"]

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True)
class Unknown:
    """A fact that is not known.

    `needs` names, in the words of a person, what would make it known: `"the target (--target)"`.
    """

    needs: str

    def __bool__(self) -> bool:
        raise UnknownFactError(self)


class UnknownFactError(Exception):
    """An expression reached a fact that is not known."""

    def __init__(self, unknown: Unknown) -> None:
        super().__init__(unknown.needs)
        self.unknown = unknown


Known: TypeAlias = T | Unknown


def known(value: T | Unknown) -> T:
    """The value of a fact, for code that cannot go on without it. Raises `UnknownFactError` when it is unknown."""
    if isinstance(value, Unknown):
        raise UnknownFactError(value)
    return value


def known_or(value: T | Unknown, default: D) -> T | D:
    """The value of a fact, `default` where it is unknown."""
    return default if isinstance(value, Unknown) else value
