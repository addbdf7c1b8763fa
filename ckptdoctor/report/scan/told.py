"""How many findings of one rule a report tells: a draft may have thousands, and nobody reads them one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from ckptdoctor.findings import Finding

__all__ = ["IN_JSON", "IN_MACHINES", "IN_WORDS", "kind_of", "more_words", "told"]

IN_WORDS = 20
"""Findings of one rule, with one severity, in text, Markdown, HTML and annotations."""

IN_MACHINES = 100
"""The same in SARIF and JUnit, whose readers show a list of them."""

IN_JSON = 10_000
"""The same in JSON, which is complete but for this."""

_Item = TypeVar("_Item")


def told(items: Iterable[_Item], kind: Callable[[_Item], Hashable], limit: int) -> list[tuple[_Item, int]]:
    """The first `limit` items of each kind, in their order; the last of a kind comes with how many are left out."""
    every = list(items)
    counts = Counter(kind(item) for item in every)
    seen: Counter[Hashable] = Counter()
    found = []
    for item in every:
        which = kind(item)
        seen[which] += 1
        if seen[which] <= limit:
            found.append((item, counts[which] - limit if seen[which] == limit else 0))
    return found


def kind_of(finding: Finding) -> Hashable:
    """What findings have in common of which only the first are told."""
    return finding.rule, finding.severity


def more_words(more: int, rule: str) -> str:
    """`and 2,996 more findings of GEO010 (--format json has them)`; empty where there are no more."""
    if more <= 0:
        return ""
    return f"and {more:,} more {'finding' if more == 1 else 'findings'} of {rule} (--format json has them)"
