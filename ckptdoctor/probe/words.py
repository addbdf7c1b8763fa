"""The words of a probe: the parts of a wiring and its verdicts, as `rules/probe/readings.yaml` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import yaml

from ckptdoctor.probe.wiring import EMBEDDING, Wiring
from ckptdoctor.resources import rules_dir

__all__ = ["boundaries_of", "probe_words", "said_of", "states_in_words"]


@lru_cache(maxsize=1)
def probe_words() -> Mapping[str, Any]:
    """The whole of `rules/probe/readings.yaml`."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (rules_dir() / "probe" / "readings.yaml").read_text(encoding="utf-8")
    words: Mapping[str, Any] = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader, in C
    return words


def said_of(part: str, wiring: Wiring, boundaries: Sequence[int | None]) -> str:
    """The value of one part in words; `boundaries` are those of the samples' columns."""
    if part == "states":
        return states_in_words(wiring.states, boundaries)
    value = getattr(wiring, part)
    words = probe_words()["parts"][part].get("values", {})
    return str(words.get(str(value), f"{value:g}" if isinstance(value, float) else value))


def states_in_words(states: Sequence[int], boundaries: Sequence[int | None]) -> str:
    """`boundaries [0, 3, 5]`, or where the samples do not say which they are, `recorded states 1, 2, 3`."""
    words = probe_words()["parts"]["states"]
    known = boundaries_of(states, boundaries)
    if known is not None:
        return str(words["boundaries"]).format(boundaries=f"[{', '.join(str(b) for b in known)}]")
    names = [words["embedding"] if column == EMBEDDING else str(column + 1) for column in states]
    return str(words["columns"]).format(columns=", ".join(names))


def boundaries_of(states: Sequence[int], boundaries: Sequence[int | None]) -> tuple[int, ...] | None:
    """The boundaries of a choice of states, in its order; None where the samples do not say."""
    found = [0 if column == EMBEDDING else boundaries[column] for column in states]
    known = tuple(b for b in found if b is not None)
    return known if len(known) == len(states) and any(b is not None for b in boundaries) else None
