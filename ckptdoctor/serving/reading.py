"""One release of an engine: a view on its contract, what was read of it, and all that was asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from packaging.version import InvalidVersion, Version

from ckptdoctor.errors import UsageError
from ckptdoctor.text import show

__all__ = ["Asked", "Contract", "Entry", "Evidence", "Reader", "Release", "parse_release"]

T = TypeVar("T")

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


@dataclass
class Asked:
    """All that was asked of one release, with its answers.

    What follows from facts and from these answers alone is the same for every release that answers so, too.
    """

    answers: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    rows: dict[int, tuple[Sequence[Mapping[str, Any]], Mapping[str, Any] | None]] = field(default_factory=dict)
    parts: dict[str, tuple[Callable[[Reader], Any], Any]] = field(default_factory=dict)
    _differed: tuple[Any, ...] | int | str | None = None

    def fits(self, release: Release) -> bool:
        """Whether `release` answers the same."""
        # What told one release apart likely tells the next one apart, too.
        if self._differed is not None and self._differs(release, self._differed):
            return False
        keys: tuple[tuple[Any, ...] | int | str, ...] = (*self.rows, *self.answers, *self.parts)
        for key in keys:
            if self._differs(release, key):
                self._differed = key
                return False
        return True

    def _differs(self, release: Release, key: tuple[Any, ...] | int | str) -> bool:
        if isinstance(key, str):
            make, known = self.parts[key]
            return not _alike(_made(make, release)[0], known)
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
    return row.get("evidence") == other.get("evidence") and _alike(row["value"], other["value"])


def _alike(value: Any, other: Any) -> bool:
    """Whether two values are the same down to their types: 1 is no True here. What both share is not looked into."""
    if value is other:
        return True
    if type(value) is not type(other):
        return False
    if isinstance(value, (list, tuple)):
        return len(value) == len(other) and all(map(_alike, value, other))
    if isinstance(value, dict):
        return len(value) == len(other) and all(map(_alike, value.items(), other.items()))
    if is_dataclass(value):
        return value == other and all(_alike(getattr(value, f.name), getattr(other, f.name)) for f in fields(value))
    return bool(value == other) and repr(value) == repr(other)


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

    def part(self, name: str, make: Callable[[Reader], T], reader: Reader | None = None) -> T:
        """`make(reader)`, where what is read matters for its answer alone; `reader` gets the entries that it rests on.

        `name` is the only one of its kind for a plan. `make` must not hold the facts, which would live as long as it.
        """
        known, found, entries = _made(make, self)
        if self.asked is not None:
            self.asked.parts[name] = (make, known)
        if reader is not None:
            reader.extend(entries)
        return found

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


def _made(make: Callable[[Reader], T], release: Release) -> tuple[tuple[T, list[str]], T, list[Entry]]:
    """What `make` makes with how sure its entries are, which is all that can tell two releases apart; and both again"""
    reader = Reader(replace(release, asked=None))
    found = make(reader)
    entries = list(reader.evidence.entries)
    return (found, [entry.evidence for entry in entries]), found, entries


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

    def extend(self, entries: Sequence[Entry]) -> None:
        """Count entries that something rests on which was made of them."""
        self._entries.extend(entries)

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
