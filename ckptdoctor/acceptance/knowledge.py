"""What the data under rules/acceptance know: engines and their numbers, lines of logs, bands and causes, words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from packaging.version import InvalidVersion, Version

from ckptdoctor.resources import shipped
from ckptdoctor.sentences import Sentences

__all__ = [
    "WORDS",
    "Band",
    "Cause",
    "Engine",
    "LineKind",
    "RateKind",
    "Setting",
    "bands",
    "engines",
    "line_kinds",
    "rate_kinds",
    "rate_kinds_of",
    "settings",
    "signs",
]

Range = tuple["float | None", "float | None"]


@dataclass(frozen=True)
class Engine:
    """How an engine counts: `verified` of its number of draft tokens (called `number`) are no proposals.

    `trees` tells that the number may be spread over several candidates a step.
    """

    id: str
    name: str
    number: str
    verified: int
    counts: str
    trees: bool = False


@dataclass(frozen=True)
class RateKind:
    """One meaning of "acceptance rate"; `formula` is `verified`, `proposed` or `matches` (see logs.yaml)."""

    id: str
    formula: str
    says: str
    of: tuple[Mapping[str, str], ...]

    def span(self, engine: str) -> str | None:
        """The releases of `engine` that mean it so, in words; empty for all of them, None for none."""
        for row in self.of:
            if row["engine"] == engine:
                return f"before {row['below']}" if "below" in row else f"from {row['from']} on" if "from" in row else ""
        return None


@dataclass(frozen=True)
class LineKind:
    """A kind of line with figures: it holds one of the texts `holds`, and each of `fields` that fits gives groups."""

    id: str
    engine: str | None
    what: str
    kind: str
    holds: tuple[str, ...]
    fields: tuple[re.Pattern[str], ...]
    by_running: bool
    first_is_warm_up: bool


@dataclass(frozen=True)
class Setting:
    """A line that says how the server was started; `fields` are patterns with one group."""

    engine: str
    holds: str
    fields: Mapping[str, re.Pattern[str]]
    starts: bool
    ready: bool


@dataclass(frozen=True)
class Cause:
    """Why a number is as it is; `rules` are ids of `ckptdoctor explain`, `seen_in` public reports."""

    says: str
    rules: tuple[str, ...]
    seen_in: tuple[str, ...]


@dataclass(frozen=True)
class Band:
    """A band of numbers, or a further sign: what it means, what causes it, which command to run next."""

    id: str
    level: str
    title: str
    says: str
    causes: tuple[Cause, ...]
    next: tuple[str, ...]
    when: Mapping[str, Range]

    def holds(self, measures: Mapping[str, float]) -> bool:
        """Whether every measure of `when` is known and in its range, both ends included."""
        for name, (low, high) in self.when.items():
            value = measures.get(name)
            if value is None or (low is not None and value < low) or (high is not None and value > high):
                return False
        return True


WORDS = Sentences("acceptance/words")
"""The sentences of a report."""
_LOGS = Sentences("acceptance/logs")


@lru_cache(maxsize=1)
def engines() -> Mapping[str, Engine]:
    """The engines whose numbers are known, by id."""
    keys = ("name", "number", "verified", "counts")
    rows = _LOGS["engines"].items()
    return {id_: Engine(id_, **{key: row[key] for key in keys}, trees=bool(row.get("trees"))) for id_, row in rows}


@lru_cache(maxsize=1)
def rate_kinds() -> Mapping[str, RateKind]:
    """The meanings of "acceptance rate", by id."""
    return {row["id"]: RateKind(row["id"], row["formula"], row["says"], tuple(row["of"])) for row in _LOGS["rates"]}


def rate_kinds_of(engine: str, release: str | None) -> list[RateKind]:
    """What this release of an engine means by a rate; every meaning of the engine where the release does not tell."""
    try:
        version = Version(release) if release is not None else None
    except InvalidVersion:
        version = None
    return [kind for kind in rate_kinds().values() if any(_is_of(row, engine, version) for row in kind.of)]


def _is_of(row: Mapping[str, str], engine: str, version: Version | None) -> bool:
    if row["engine"] != engine:
        return False
    if version is None:
        return True
    return not (
        ("from" in row and version < Version(row["from"])) or ("below" in row and version >= Version(row["below"]))
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    number = r"\d{1,15}(?:\.\d{1,15})?"
    return re.compile(pattern.replace("{n}", number).replace("{i}", r"\d{1,15}"))


@lru_cache(maxsize=1)
def line_kinds() -> Sequence[LineKind]:
    """The kinds of lines with figures, the most telling first."""
    return tuple(
        LineKind(
            id=row["id"],
            engine=row["engine"],
            what=row["what"],
            kind=row["kind"],
            holds=(row["holds"], *row.get("also", ())),
            fields=tuple(_compiled(p) for p in (*row["fields"], *row.get("also_fields", ()))),
            by_running=row.get("weight") == "running",
            first_is_warm_up=bool(row.get("first_is_warm_up")),
        )
        for row in _LOGS["lines"]
    )


@lru_cache(maxsize=1)
def settings() -> Sequence[Setting]:
    """The lines that say how the server was started."""
    return tuple(
        Setting(
            row["engine"],
            row["holds"],
            {name: _compiled(pattern) for name, pattern in row.get("fields", {}).items()},
            bool(row.get("starts")),
            bool(row.get("ready")),
        )
        for row in _LOGS["settings"]
    )


@lru_cache(maxsize=1)
def _causes() -> Mapping[str, tuple[Band, ...]]:
    return {name: tuple(_band(row) for row in rows) for name, rows in shipped("acceptance/causes").items()}


def bands() -> Sequence[Band]:
    """The bands of numbers; the first that holds is the one."""
    return _causes()["bands"]


def signs() -> Sequence[Band]:
    """Further signs; each that holds is told."""
    return _causes()["signs"]


def _band(row: Mapping[str, Any]) -> Band:
    causes = (Cause(c["says"], tuple(c["rules"]), tuple(c["seen_in"])) for c in row["causes"])
    when = {name: (low, high) for name, (low, high) in row["when"].items()}
    return Band(row["id"], row["level"], row["title"], row["says"], tuple(causes), tuple(row["next"]), when)
