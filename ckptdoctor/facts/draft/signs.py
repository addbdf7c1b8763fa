"""Recognition by several signs: each that holds adds its weight, and the heaviest candidate wins.

One config key decides nothing by itself: people copy configs. Names and shapes weigh more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import Sign

__all__ = ["Evidence", "Verdict", "holds", "weigh"]


@dataclass(frozen=True)
class Evidence:
    """What signs are looked for in.

    `names` are the stored tensor names; `attention_inputs` the input widths of the query projections
    in units of the hidden size; `fc_inputs` those of fc; `files` the names in the folder.
    """

    names: tuple[str, ...]
    config: Config
    attention_inputs: frozenset[int]
    fc_inputs: frozenset[int]
    files: tuple[str, ...]
    state_keys: tuple[str, ...]
    container: str
    algorithm: str | None = None


@dataclass(frozen=True)
class Verdict:
    """The winner (None: nobody reached what it needs), how clear it is, and all that had points."""

    winner: str | None
    margin: int
    scores: Mapping[str, int]


def weigh(candidates: Mapping[str, tuple[int, Sequence[Sign]]], evidence: Evidence) -> Verdict:
    """Weigh the signs of all candidates (`id -> (points needed, signs)`); a draw has no winner."""
    scores = {
        name: sum(sign.weight for sign in signs if holds(sign.conditions, evidence))
        for name, (_, signs) in candidates.items()
    }
    able = sorted((n for n in scores if scores[n] >= candidates[n][0]), key=lambda n: -scores[n])
    if not able:
        return Verdict(None, 0, scores)
    margin = scores[able[0]] - (scores[able[1]] if len(able) > 1 else 0)
    return Verdict(able[0] if margin > 0 else None, margin, scores)


def holds(conditions: Mapping[str, Any], evidence: Evidence) -> bool:
    """Whether all conditions of a sign hold."""
    return all(_CHECKS[kind](value, evidence) for kind, value in conditions.items())


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _named(pattern: str, names: tuple[str, ...]) -> bool:
    search = re.compile(pattern).search
    return any(search(name) for name in names)


def _architecture(pattern: str, evidence: Evidence) -> bool:
    field = evidence.config.at("architectures")
    names = field.value if field and isinstance(field.value, list) else []
    return any(isinstance(n, str) and re.search(pattern, n) for n in names)


def _equals(wanted: Mapping[str, Any], evidence: Evidence) -> bool:
    return all((f := evidence.config.at(key)) is not None and f.value == value for key, value in wanted.items())


def _matches(wanted: Mapping[str, str], evidence: Evidence) -> bool:
    fields = {key: evidence.config.at(key) for key in wanted}
    return all(
        f is not None and isinstance(f.value, str) and re.search(wanted[key], f.value) is not None
        for key, f in fields.items()
    )


# The closed list of things a sign may ask for; every one given in a sign must hold.
_CHECKS: Mapping[str, Any] = {
    "tensor": lambda v, e: all(_named(p, e.names) for p in _many(v)),
    "no_tensor": lambda v, e: not any(_named(p, e.names) for p in _many(v)),
    "config": lambda v, e: all(e.config.at(key) is not None for key in _many(v)),
    "no_config": lambda v, e: all(e.config.at(key) is None for key in _many(v)),
    "config_equals": _equals,
    "config_matches": _matches,
    "architecture": _architecture,
    "attention_input": lambda v, e: v in e.attention_inputs,
    "fc_input": lambda v, e: v in e.fc_inputs,
    "file": lambda v, e: _named(v, e.files),
    "state_keys": lambda v, e: all(key in e.state_keys for key in _many(v)),
    "container": lambda v, e: e.container == v,
    "algorithm": lambda v, e: e.algorithm == v,
}
