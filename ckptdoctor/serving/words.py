"""Reasons of a plan in words: the kinds are measured here, the sentences stand in `rules/serving/words.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ckptdoctor.sentences import Sentences
from ckptdoctor.text import listing

__all__ = ["Reason", "faults"]

_WORDS = Sentences("serving/words")


@dataclass(frozen=True)
class Reason:
    """Why a plan is not served as trained. `level` is `broken` or `degraded`; `open` is what decides between outcomes
    and is not known, `aside` what is not known and decides nothing. `values` fill the sentence."""

    level: str
    kind: str
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The sentence, without a full stop."""
        return _WORDS.say(self.level, self.kind, **{**self.values, "names": listing(self.names, 3)})


def faults() -> Mapping[str, Sequence[str]]:
    """Kinds of faults in files, by what they mean for every engine that is written in Python."""
    return cast("Mapping[str, Sequence[str]]", _WORDS["faults"])
