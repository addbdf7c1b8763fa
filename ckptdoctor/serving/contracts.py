"""Engine contracts: `rules/serving/ENGINE.yaml`, timelines of named behaviours per release.

A timeline is a list of entries in ascending release order; an entry holds from its release until the
next one. Every entry names its source and whether it was executed or read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ckptdoctor.errors import UsageError
from ckptdoctor.resources import read_yaml, rules_dir
from ckptdoctor.text import show

__all__ = ["Contract", "Entry", "Release", "contracts", "parse_release"]

_LONGEST = 64
"""Characters of a release number; Python refuses to read numbers of thousands of digits."""


@dataclass(frozen=True)
class Entry:
    """One entry of a timeline."""

    since: str
    value: Any
    source: str
    evidence: str


@dataclass(frozen=True)
class Contract:
    """What is known of one engine. `raw` is the file, `targets` the file of its target classes, `lists` the whole lists
    of classes that were read out of its releases (serving/class_lists.py); the last two may be empty."""

    engine: str
    name: str
    scheme: str
    releases: tuple[str, ...]
    raw: Mapping[str, Any]
    targets: Mapping[str, Any] = field(default_factory=dict)
    lists: Mapping[str, Any] = field(default_factory=dict)

    @property
    def newest(self) -> str:
        """The newest release that was read."""
        return self.releases[-1]


@dataclass(frozen=True)
class Evidence:
    """The entries that an answer rests on. Whoever reads a contract returns them with the answer.

    `read` is False for a release that nobody has read: what is said of it is borrowed from its predecessor.
    """

    entries: tuple[Entry, ...] = ()
    read: bool = True

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence((*self.entries, *other.entries), self.read and other.read)

    @property
    def executed(self) -> bool:
        """Whether every entry was executed; what rests on no entry is not proven by one."""
        return self.read and bool(self.entries) and all(entry.evidence == "executed" for entry in self.entries)


@dataclass(frozen=True)
class Release:
    """One release of an engine, as a view on its contract."""

    contract: Contract
    version: str

    @cached_property
    def is_read(self) -> bool:
        """Whether the contract was read at this very release."""
        return self.contract.scheme == "undated" or self.version in self.contract.releases

    def has_reached(self, release: str) -> bool:
        """Whether this release is `release` or a later one."""
        return _is_reached(self.version, release, self.contract.scheme)

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row with optional `from` and `until` applies to this release (`until` is the first without it)."""
        return ("from" not in row or self.has_reached(str(row["from"]))) and not (
            "until" in row and self.has_reached(str(row["until"]))
        )

    def peek(self, timeline: Sequence[Mapping[str, Any]] | None, default: Any = None) -> Any:
        """The value that holds in this release, for an answer that does not rest on it (yet)."""
        found = self._row(timeline)
        return default if found is None else found["value"]

    def reader(self) -> Reader:
        """A reader of this release's entries, with an evidence of its own."""
        return Reader(self)

    def _row(self, timeline: Sequence[Mapping[str, Any]] | None) -> Mapping[str, Any] | None:
        if not timeline:
            return None
        key = (id(timeline), self.version)
        known = _ROWS.get(key)
        if known is None or known[0] is not timeline:
            reached = [row for row in timeline if self.has_reached(str(row["from"]))]
            known = _ROWS[key] = (timeline, reached[-1] if reached else None)
        return known[1]


_ROWS: dict[tuple[int, str], tuple[Sequence[Mapping[str, Any]], Mapping[str, Any] | None]] = {}
"""The entry of each timeline that holds in a release. The timeline is kept with it, so that no other takes its id."""


@dataclass
class Reader:
    """Reads entries for one answer. The function that makes the answer makes the reader, and returns its evidence."""

    release: Release
    _entries: list[Entry] = field(default_factory=list)

    @property
    def evidence(self) -> Evidence:
        """What was read so far."""
        return Evidence(tuple(self._entries), self.release.is_read)

    def value(self, timeline: Sequence[Mapping[str, Any]] | None, default: Any = None) -> Any:
        """The value that holds in this release, or `default` before the first entry."""
        row = self.release._row(timeline)
        if row is None:
            return default
        self.note(row)
        return row["value"]

    def note(self, row: Mapping[str, Any]) -> None:
        """Count `row` as something that the answer rests on: an entry of a timeline, or a row that holds."""
        since = str(row.get("from", self.release.contract.releases[0]))
        self._entries.append(
            Entry(since, row.get("value"), str(row.get("source", "")), str(row.get("evidence", "read")))
        )

    # What needs no evidence is asked of the release.
    @property
    def contract(self) -> Contract:
        """The contract of the engine."""
        return self.release.contract

    @property
    def version(self) -> str:
        """The release that is read."""
        return self.release.version

    def holds(self, row: Mapping[str, Any]) -> bool:
        """As `Release.holds`."""
        return self.release.holds(row)

    def has_reached(self, release: str) -> bool:
        """As `Release.has_reached`."""
        return self.release.has_reached(release)

    def peek(self, timeline: Sequence[Mapping[str, Any]] | None, default: Any = None) -> Any:
        """As `Release.peek`."""
        return self.release.peek(timeline, default)


@lru_cache(maxsize=1 << 16)
def _is_reached(version: str, release: str, scheme: str) -> bool:
    return parse_release(version, scheme) >= parse_release(release, scheme)


@lru_cache(maxsize=4096)
def parse_release(release: str, scheme: str) -> tuple[Any, ...]:
    """A release as something that can be ordered. Raises `UsageError` for one that cannot."""
    if scheme == "undated":
        return (0,)
    if len(release) > _LONGEST:
        raise UsageError(f"'{show(release)}' is no release number")
    if scheme == "build":
        digits = release.lstrip("b")
        if digits.isdecimal():
            return (int(digits),)
    else:
        try:
            return (Version(release),)
        except InvalidVersion:
            pass
    raise UsageError(f"'{show(release)}' is no release number")


@lru_cache(maxsize=32)
def _marks(engine: str) -> tuple[str, ...]:
    contract = contracts()[engine]
    found: set[str] = set()
    stack: list[Any] = [contract.raw, contract.targets, contract.lists]
    asked = (contract.lists.get("executed", ()), *contract.lists.get("asked", {}).values())
    found |= {str(release) for releases in asked for release in releases}
    # What holds of such a release need not hold of the next one.
    found |= {after for after in contract.releases if any(_next(contract, str(r)) == after for rs in asked for r in rs)}
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping):
            for key, inner in value.items():
                if key in ("from", "until") and isinstance(inner, str):
                    found.add(inner)
                elif key in ("knows", "classes") and isinstance(inner, Mapping):
                    found |= {v for v in inner.values() if isinstance(v, str)}
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    # Under `classes` a translation names classes, the targets name releases.
    return tuple(sorted(mark for mark in found if _is_release(mark, contract.scheme)))


def _next(contract: Contract, release: str) -> str | None:
    at = contract.releases.index(release) if release in contract.releases else len(contract.releases)
    return contract.releases[at + 1] if at + 1 < len(contract.releases) else None


def _is_release(text: str, scheme: str) -> bool:
    try:
        parse_release(text, scheme)
    except UsageError:
        return False
    return True


def borders(contract: Contract) -> tuple[str, ...]:
    """Every release at which anything in the contract begins or ends."""
    return _marks(contract.engine)


@lru_cache(maxsize=4)
def contracts(root: Path | None = None) -> Mapping[str, Contract]:
    """All contracts under `root` (default: the shipped rules), by engine."""
    base = (root or rules_dir()) / "serving"
    found: dict[str, Contract] = {}
    shared = {
        "layers": read_yaml(base / "layers.yaml")["tables"],
        "config_kinds": read_yaml(base / "config-kinds.yaml"),
        "mtp_parts": read_yaml(base / "mtp-parts.yaml"),
    }
    aside = ("layers", "words", "config-kinds", "mtp-parts")
    for path in sorted(base.glob("*.yaml")):
        if path.stem in aside or path.stem.endswith(("-targets", "-classes")):
            continue
        raw = {**read_yaml(path), **shared}
        for entry in raw["classes"].values():
            entry |= {rows: _flat(entry[rows]) for rows in ("parameters", "refuses") if rows in entry}
        beside = base / f"{path.stem}-targets.yaml"
        targets = read_yaml(beside) if beside.exists() else {}
        listed = base / f"{path.stem}-classes.yaml"
        lists = read_yaml(listed) if listed.exists() else {}
        releases = tuple(str(r) for r in raw["releases"])
        found[raw["engine"]] = Contract(raw["engine"], raw["name"], raw["scheme"], releases, raw, targets, lists)
    return found


def _flat(rows: Sequence[Any]) -> list[Any]:
    """Rows, in which a list stands for the rows of another class that belong here too."""
    return [row for item in rows for row in (_flat(item) if isinstance(item, list) else [item])]


def evidence(contract: Contract) -> tuple[int, int]:
    """How many entries of a contract were executed, and how many only read."""
    executed = read = 0
    stack: list[Any] = [contract.raw, contract.targets]
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping):
            if value.get("evidence") == "executed":
                executed += 1
            elif value.get("evidence") == "read":
                read += 1
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    return executed, read
