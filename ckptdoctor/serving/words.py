"""Reasons of a plan in words: the kinds are measured here, the sentences stand in `rules/serving/words.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import yaml

from ckptdoctor.resources import rules_dir
from ckptdoctor.text import listing

__all__ = ["Reason", "faults", "numbers"]


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
        values = {**self.values, "names": listing(self.names, 3)}
        return str(_words()[self.level][self.kind]).format_map(values)


@lru_cache(maxsize=1)
def _words() -> Mapping[str, Mapping[str, str]]:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (rules_dir() / "serving" / "words.yaml").read_text(encoding="utf-8")
    words: Mapping[str, Mapping[str, str]] = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader, in C
    return words


def faults() -> Mapping[str, Sequence[str]]:
    """Kinds of faults in files, by what they mean for every engine that is written in Python."""
    return cast("Mapping[str, Sequence[str]]", _words()["faults"])


def numbers(values: Sequence[int]) -> str:
    """`[2, 30, 58]`."""
    return f"[{', '.join(str(v) for v in values)}]"
