"""Accepted length, per-token acceptance and rates: one into the other.

`length` is the accepted length of a step: accepted draft tokens and the target's own token. `proposed` is the number of
draft tokens in the longest chain that a step can accept, so 1 ≤ length ≤ proposed + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["conditional", "length_of", "length_of_rate", "per_token", "per_token_without_end"]

_HALVINGS = 60


def length_of(acceptance: float, proposed: int) -> float:
    """1 + a + a² + … + a^k: the length when every draft token is accepted with probability `acceptance`."""
    total = term = 1.0
    for _ in range(proposed):
        term *= acceptance
        total += term
    return total


def per_token(length: float, proposed: int) -> float:
    """The `acceptance` that gives this length, by bisection; in [0, 1], also for lengths beyond what is possible."""
    if length <= 1 or proposed < 1:
        return 0.0
    if length >= proposed + 1:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if length_of(middle, proposed) < length:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def per_token_without_end(length: float) -> float:
    """The least `acceptance` that can give this length, with any number of draft tokens: 1 - 1 / length."""
    return max(0.0, 1 - 1 / length) if length > 0 else 0.0


def length_of_rate(rate: float, formula: str, tokens: int, proposed: int) -> float | None:
    """The length that a rate means, by the formula of rules/acceptance/logs.yaml; None where none follows from it.

    `tokens` is the number of draft tokens as the engine counts them.
    """
    if formula == "verified":
        return rate * tokens
    if formula == "proposed":
        return 1 + rate * proposed
    return None


def conditional(positions: Sequence[float], floor: float = 0.05) -> list[float | None]:
    """How often each draft token is accepted once it is reached, from how often it is accepted at all.

    None where the token before is accepted in less than `floor` of the steps: printed figures say nothing there.
    """
    found: list[float | None] = []
    before = 1.0
    for share in positions:
        found.append(min(share / before, 1.0) if before >= floor else None)
        before = share
    return found
