"""What a config says of MTP layers: how many there are, and the sizes that they must fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.config import Config

__all__ = ["MtpClaim", "MtpClaims", "claims_of_mtp"]

LIMIT = 2**31
"""No count in a config is larger."""


@dataclass(frozen=True)
class MtpClaim:
    """One field that says how many MTP layers there are: dotted `key`, `line` from 1. `value` is None, and `text` its
    spelling, where it is no whole number."""

    key: str
    line: int | None
    value: int | None
    text: str


@dataclass(frozen=True)
class MtpClaims:
    """The claims of a config.

    `counts` are all fields that say how many MTP layers there are. `depth` is the number of layers of the model as its
    config has it (None: not said), at `depth_key`; `hidden` its width; `experts` the number of experts of an MTP layer.
    `odd_projection` says that the model projects other sizes than [H, 2H].
    """

    counts: tuple[MtpClaim, ...]
    depth: int | None
    depth_key: str | None
    depth_line: int | None
    hidden: int | None
    experts: int | None
    odd_projection: bool

    @property
    def count(self) -> MtpClaim | None:
        """The first count that is a whole number."""
        return next((c for c in self.counts if c.value is not None), None)


def claims_of_mtp(config: Config, words: Mapping[str, Any]) -> MtpClaims:
    """Read `config` by the words of rules/facts/mtp.yaml. Never raises for any config."""
    places = words["places"]
    counts = []
    for key in words["declared"]:
        for place in places:
            field = config.at(_join(place, key))
            if field is None or isinstance(field.value, (list, dict)):
                continue
            whole = type(field.value) is int and 0 <= field.value < LIMIT
            text = json.dumps(field.value, ensure_ascii=True, default=str)[:40]
            counts.append(MtpClaim(field.key, field.line, field.value if whole else None, text))
    depth = _first(config, places, words["depth"], 0)
    hidden = _first(config, places, words["hidden"], 1)
    experts = _first(config, places, words["own_experts"], 1) or _first(config, places, words["experts"], 1)
    return MtpClaims(
        counts=tuple(counts),
        depth=depth[0] if depth else None,
        depth_key=depth[1] if depth else None,
        depth_line=depth[2] if depth else None,
        hidden=hidden[0] if hidden else None,
        experts=experts[0] if experts else None,
        odd_projection=any(config.at(_join(p, k)) is not None for p in places for k in words["other_projections"]),
    )


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _first(
    config: Config, places: Sequence[str], keys: Sequence[str], lowest: int
) -> tuple[int, str, int | None] | None:
    """The first whole number: a wrapper's inner config wins over the wrapper's own fields."""
    for place in (*places[1:], *places[:1]):
        for key in keys:
            field = config.at(_join(place, key))
            if field is not None and type(field.value) is int and lowest <= field.value < LIMIT:
                return field.value, field.key, field.line
    return None
