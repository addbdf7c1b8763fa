"""`Fault`: one thing that is wrong with a file as a file, found while opening.

Opening measures and never decides: it says what it saw, where, and what it should have seen. How
bad that is, and in which words it is told, stands in `rules/checks/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

__all__ = ["Fault", "first_of_each"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a file.

    `kind` is one of the names that `rules/checks/files.yaml` and its neighbours judge.
    `offset` counts bytes from the start of the file, `line` counts lines from 1.
    `expected` and `found` are what should be there and what is; `other` names the second tensor or
    file where two are in conflict; `detail` is the likely cause in plain words, or what a reader said.
    `count` tells how many faults of this kind the file has: the first stands for all.
    """

    kind: str
    file: str
    offset: int | None = None
    line: int | None = None
    tensor: str | None = None
    other: str | None = None
    expected: int | str | None = None
    found: int | str | None = None
    detail: str = ""
    count: int = 1


def first_of_each(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """The first fault of each kind and file, with `count` saying how many it stands for."""
    first: dict[tuple[str, str], Fault] = {}
    counts: dict[tuple[str, str], int] = {}
    for fault in faults:
        key = (fault.kind, fault.file)
        first.setdefault(key, fault)
        counts[key] = counts.get(key, 0) + fault.count
    return tuple(replace(fault, count=counts[key]) for key, fault in first.items())
