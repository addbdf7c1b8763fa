"""Engine contracts: `rules/serving/ENGINE.yaml`, timelines of named behaviours per release.

A timeline is a list of entries in ascending release order; an entry holds from its release until the
next one. Every entry names its source and whether it was executed or read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from ckptdoctor.errors import UsageError
from ckptdoctor.resources import rules_dir
from ckptdoctor.text import show

__all__ = ["Asked", "Contract", "Entry", "Release", "contracts", "parse_release"]

_LONGEST = 64
"""Characters of a release number; Python refuses to read numbers of thousands of digits."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


@dataclass
class Asked:
    """All that was asked of one release, with its answers.

    What follows from facts and from these answers alone is the same for every release that answers so, too.
    """

    answers: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    rows: dict[int, tuple[Sequence[Mapping[str, Any]], Mapping[str, Any] | None]] = field(default_factory=dict)
    _differed: tuple[Any, ...] | int | None = None

    def fits(self, release: Release) -> bool:
        """Whether `release` answers the same."""
        # What told one release apart likely tells the next one apart, too.
        if self._differed is not None and self._differs(release, self._differed):
            return False
        for key in (*self.rows, *self.answers):
            if self._differs(release, key):
                self._differed = key
                return False
        return True

    def _differs(self, release: Release, key: tuple[Any, ...] | int) -> bool:
        if isinstance(key, int):
            timeline, row = self.rows[key]
            return not _same(release._row(timeline), row)
        return bool(key[0](release, *key[1:]) != self.answers[key])


def _same(row: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two entries of a timeline say the same, and were found out in the same way."""
    if row is other:
        return True
    if row is None or other is None:
        return False
    return bool(row["value"] == other["value"]) and row.get("evidence") == other.get("evidence")


@dataclass(frozen=True)
class Release:
    """One release of an engine, as a view on its contract.

    `asked` takes down what is asked of it. Whoever goes by a release asks these methods, or `ask`; its `version` is a
    name and nothing else.
    """

    contract: Contract
    version: str
    asked: Asked | None = field(default=None, compare=False, repr=False)

    @property
    def is_read(self) -> bool:
        """Whether the contract was read at this very release."""
        return bool(self.ask(_is_read))

    def has_reached(self, release: str) -> bool:
        """Whether this release is `release` or a later one."""
        answer = _is_reached(self.version, release, self.contract.scheme)
        if self.asked is not None:
            self.asked.answers[Release.has_reached, release] = answer
        return answer

    def ask(self, question: Callable[..., Any], *about: Any) -> Any:
        """`question(release, *about)`, for what goes by the version itself. `about` has to be hashable."""
        if self.asked is None:
            return question(self, *about)
        key = (question, *about)
        if key not in self.asked.answers:
            self.asked.answers[key] = question(replace(self, asked=None), *about)
        return self.asked.answers[key]

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row with optional `from` and `until` applies to this release (`until` is the first without it)."""
        if "from" not in row and "until" not in row:
            return True
        return bool(self.ask(_holds, row.get("from"), row.get("until")))

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
            reached = [row for row in timeline if _is_reached(self.version, str(row["from"]), self.contract.scheme)]
            known = _ROWS[key] = (timeline, reached[-1] if reached else None)
        if self.asked is not None:
            self.asked.rows[key[0]] = known
        return known[1]


def _holds(release: Release, since: Any, until: Any) -> bool:
    return (since is None or release.has_reached(str(since))) and not (
        until is not None and release.has_reached(str(until))
    )


def _is_read(release: Release) -> bool:
    return release.contract.scheme == "undated" or release.version in release.contract.releases


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


@lru_cache(maxsize=4)
def contracts(root: Path | None = None) -> Mapping[str, Contract]:
    """All contracts under `root` (default: the shipped rules), by engine."""
    base = (root or rules_dir()) / "serving"
    found: dict[str, Contract] = {}
    shared = {
        "layers": _load(base / "layers.yaml")["tables"],
        "config_kinds": _load(base / "config-kinds.yaml"),
        "mtp_parts": _load(base / "mtp-parts.yaml"),
    }
    aside = ("layers", "words", "config-kinds", "mtp-parts")
    for path in sorted(base.glob("*.yaml")):
        if path.stem in aside or path.stem.endswith(("-targets", "-classes")):
            continue
        raw = {**_load(path), **shared}
        for entry in raw["classes"].values():
            entry |= {rows: _flat(entry[rows]) for rows in ("parameters", "refuses") if rows in entry}
        beside = base / f"{path.stem}-targets.yaml"
        targets = _load(beside) if beside.exists() else {}
        listed = base / f"{path.stem}-classes.yaml"
        lists = _load(listed) if listed.exists() else {}
        releases = tuple(str(r) for r in raw["releases"])
        found[raw["engine"]] = Contract(raw["engine"], raw["name"], raw["scheme"], releases, raw, targets, lists)
    return found


def _flat(rows: Sequence[Any]) -> list[Any]:
    """Rows, in which a list stands for the rows of another class that belong here too."""
    return [row for item in rows for row in (_flat(item) if isinstance(item, list) else [item])]


def _load(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader, in C


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
