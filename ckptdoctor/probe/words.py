"""The words of a probe: the parts of a wiring and its verdicts, as `rules/probe/readings.yaml` has them."""

from __future__ import annotations

from collections.abc import Sequence

from ckptdoctor.probe.wiring import EMBEDDING, Wiring
from ckptdoctor.sentences import Sentences, numbers

__all__ = ["WORDS", "boundaries_of", "said_of", "states_in_words"]


WORDS = Sentences("probe/readings")
"""What a report of a probe says."""


def said_of(part: str, wiring: Wiring, boundaries: Sequence[int | None]) -> str:
    """The value of one part in words; `boundaries` are those of the samples' columns."""
    if part == "states":
        return states_in_words(wiring.states, boundaries)
    value = getattr(wiring, part)
    words = WORDS["parts"][part].get("values", {})
    return str(words.get(str(value), f"{value:g}" if isinstance(value, float) else value))


def states_in_words(states: Sequence[int], boundaries: Sequence[int | None]) -> str:
    """`boundaries [0, 3, 5]`, or where the samples do not say which they are, `recorded states 1, 2, 3`."""
    known = boundaries_of(states, boundaries)
    if known is not None:
        return WORDS.say("parts", "states", "boundaries", boundaries=numbers(known))
    names = [WORDS.say("parts", "states", "embedding") if column == EMBEDDING else str(column + 1) for column in states]
    return WORDS.say("parts", "states", "columns", columns=", ".join(names))


def boundaries_of(states: Sequence[int], boundaries: Sequence[int | None]) -> tuple[int, ...] | None:
    """The boundaries of a choice of states, in its order; None where the samples do not say."""
    found = [0 if column == EMBEDDING else boundaries[column] for column in states]
    known = tuple(b for b in found if b is not None)
    return known if len(known) == len(states) and any(b is not None for b in boundaries) else None
