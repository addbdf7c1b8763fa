"""Names that one trainer had for itself, as a fact: whose they are, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ckptdoctor.facts.naming.canonical import Named

__all__ = ["PrivateNames", "private_names_of"]


@dataclass(frozen=True)
class PrivateNames:
    """Names that one trainer used for itself and that no engine looks for: what the first two of them mean is told."""

    trainer: str
    count: int
    of: int
    examples: tuple[str, ...]
    meanings: tuple[str, ...]


def private_names_of(named: Iterable[Named]) -> tuple[PrivateNames, ...]:
    """The trainers whose own names are there."""
    all_named = list(named)
    found = []
    for trainer in dict.fromkeys(n.private for n in all_named if n.private):
        members = [n for n in all_named if n.private == trainer]
        # The telling ones first: those whose own module is called otherwise, not only the layer around it.
        members.sort(key=lambda n: n.stored.split(".")[-2:] == n.canonical.split(".")[-2:])
        shown = members[:2]
        found.append(
            PrivateNames(
                trainer, len(members), len(all_named), tuple(n.stored for n in shown), tuple(n.canonical for n in shown)
            )
        )
    return tuple(found)
