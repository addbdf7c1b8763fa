"""Fields of a block drafter's config that stand in several places: what each holds, and whether two disagree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.config import SIZE_LIMIT, Config, Field

__all__ = ["Disagreeing", "Stated", "Values", "flag_of", "read_values", "special_tokens", "stated", "text_of", "whole"]

_LONGEST_LIST = 512


@dataclass(frozen=True)
class Stated:
    """A value of the config as it stands in the file (`text`, quotes and all) at the dotted `key`."""

    key: str
    line: int | None
    value: Any
    text: str


@dataclass(frozen=True)
class Disagreeing:
    """Two places that should hold the same value and hold different ones."""

    first: Stated
    second: Stated


@dataclass(frozen=True)
class Values:
    """A whole number that may stand in several places.

    `first` is the first place that holds one of at least `least`, and `value` its number; `bad` are the places that
    hold something else (null counts as absent), `too_small` those of them that hold a smaller whole number,
    `unreadable` the others; `disagreement` are two places with different numbers.
    """

    first: Stated | None
    value: int | None
    all: tuple[Stated, ...]
    bad: tuple[Stated, ...]
    disagreement: Disagreeing | None

    @property
    def too_small(self) -> tuple[Stated, ...]:
        """The places with a whole number that is too small."""
        return tuple(place for place in self.bad if type(place.value) is int and place.value < SIZE_LIMIT)

    @property
    def unreadable(self) -> tuple[Stated, ...]:
        """The places with something that is no whole number, or one beyond all sizes."""
        return tuple(place for place in self.bad if place not in self.too_small)

    @property
    def absent(self) -> bool:
        """Whether no place holds anything."""
        return not self.all and not self.bad


def stated(field: Field) -> Stated:
    """`field` with its value as text."""
    try:
        text = json.dumps(field.value, ensure_ascii=True, default=str)
    except (ValueError, RecursionError):
        text = "a value that cannot be written"
    return Stated(field.key, field.line, field.value, text)


def whole(value: object, least: int = 1) -> int | None:
    """`value` as a whole number of at least `least`; None for anything else, true and false among them."""
    return value if type(value) is int and least <= value < SIZE_LIMIT else None


def read_values(config: Config, places: Sequence[str], least: int = 1) -> Values:
    """Read the whole number at `places`, in their order."""
    good: list[Stated] = []
    bad: list[Stated] = []
    for field in config.all_of(places):
        (bad if whole(field.value, least) is None else good).append(stated(field))
    other = next((place for place in good[1:] if place.value != good[0].value), None)
    return Values(
        first=good[0] if good else None,
        value=whole(good[0].value, least) if good else None,
        all=tuple(good),
        bad=tuple(bad),
        disagreement=Disagreeing(good[0], other) if other is not None else None,
    )


def flag_of(config: Config, places: Sequence[str]) -> Stated | None:
    """The first of `places` that holds true or false."""
    return next((stated(f) for f in config.all_of(places) if isinstance(f.value, bool)), None)


def text_of(config: Config, places: Sequence[str]) -> Stated | None:
    """The first of `places` that holds a text."""
    return next((stated(f) for f in config.all_of(places) if isinstance(f.value, str)), None)


def special_tokens(config: Config, fields: Mapping[str, Any]) -> dict[int, str]:
    """The ids of tokens with a meaning of their own, by id (rules/facts/block.yaml, `special_tokens`)."""
    found: dict[int, str] = {}
    for name in fields["special_tokens"]:
        for place in fields["places_of_special_tokens"]:
            field = config.at(f"{place}{name}")
            values = field.value if field is not None else None
            for value in (values if isinstance(values, list) else [values])[:_LONGEST_LIST]:
                if (token := whole(value, 0)) is not None:
                    found.setdefault(token, name)
    return found
