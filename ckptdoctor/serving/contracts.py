"""Engine contracts: `rules/serving/ENGINE.yaml`, timelines of named behaviours per release.

A timeline is a list of entries in ascending release order; an entry holds from its release until the
next one. Every entry names its source and whether it was executed or read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from ckptdoctor.errors import UsageError
from ckptdoctor.resources import rules_dir
from ckptdoctor.text import listing, show

__all__ = ["Contract", "Entry", "Release", "contracts", "parse_release"]

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
    """What is known of one engine. `raw` is the file; `targets` the file of its target classes, or empty."""

    engine: str
    name: str
    scheme: str
    releases: tuple[str, ...]
    raw: Mapping[str, Any]
    targets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def newest(self) -> str:
        """The newest release that was read."""
        return self.releases[-1]


@dataclass
class Release:
    """One release of an engine, as a view on its contract. Remembers which entries were used."""

    contract: Contract
    version: str
    used: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._order = parse_release(self.version, self.contract.scheme)

    def has_reached(self, release: str) -> bool:
        """Whether this release is `release` or a later one."""
        return self._order >= parse_release(release, self.contract.scheme)

    def entry(self, timeline: Sequence[Mapping[str, Any]] | None) -> Entry | None:
        """The entry that holds in this release, or None before the first one."""
        found: Mapping[str, Any] | None = None
        for row in timeline or ():
            if self.has_reached(str(row["from"])):
                found = row
        if found is None:
            return None
        entry = Entry(
            str(found["from"]), found["value"], str(found.get("source", "")), str(found.get("evidence", "read"))
        )
        self.used.append(entry)
        return entry

    def value(self, timeline: Sequence[Mapping[str, Any]] | None, default: Any = None) -> Any:
        """The value that holds in this release, or `default` before the first entry."""
        entry = self.entry(timeline)
        return default if entry is None else entry.value

    def peek(self, timeline: Sequence[Mapping[str, Any]] | None, default: Any = None) -> Any:
        """As `value`, for an entry that is not yet known to matter: it does not count as used."""
        before = len(self.used)
        value = self.value(timeline, default)
        del self.used[before:]
        return value

    def note(self, row: Mapping[str, Any]) -> None:
        """Remember that `row`, which is no entry of a timeline, was used."""
        since = str(row.get("from", self.contract.releases[0]))
        self.used.append(Entry(since, None, str(row.get("source", "")), str(row.get("evidence", "read"))))

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row with optional `from` and `until` applies to this release (`until` is the first without it)."""
        return ("from" not in row or self.has_reached(str(row["from"]))) and not (
            "until" in row and self.has_reached(str(row["until"]))
        )

    @property
    def executed(self) -> bool:
        """Whether every entry used so far was executed; what rests on no entry is not proven by one."""
        return bool(self.used) and all(entry.evidence == "executed" for entry in self.used)


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
    stack: list[Any] = [contract.raw, contract.targets]
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
    layers = _load(base / "layers.yaml")["tables"]
    for path in sorted(base.glob("*.yaml")):
        if path.stem in ("layers", "words") or path.stem.endswith("-targets"):
            continue
        raw = {**_load(path), "layers": layers}
        for entry in raw["classes"].values():
            entry |= {rows: _flat(entry[rows]) for rows in ("parameters", "refuses") if rows in entry}
        beside = base / f"{path.stem}-targets.yaml"
        targets = _load(beside) if beside.exists() else {}
        releases = tuple(str(r) for r in raw["releases"])
        found[raw["engine"]] = Contract(raw["engine"], raw["name"], raw["scheme"], releases, raw, targets)
    return found


def choose(requirement: str) -> tuple[Contract, str, str | None]:
    """`sglang` or `sglang==0.5.9` → the contract, the release, and a remark when the release is not a known one.

    Without a release the newest known one is meant. Raises `UsageError` for an unknown engine or a
    release before the first one.
    """
    engine, _, wanted = requirement.partition("==")
    known = contracts()
    contract = known.get(engine.strip().lower())
    if contract is None:
        raise UsageError(f"unknown engine '{show(engine)}'; known are {listing(sorted(known), 12)}")
    release = wanted.strip() or contract.newest
    order = parse_release(release, contract.scheme)
    known_as = next((r for r in contract.releases if parse_release(r, contract.scheme) == order), None)
    if known_as is not None:
        remark = f"the releases of {contract.name} are not told apart" if known_as != release else None
        return contract, known_as, remark if contract.scheme == "undated" else None
    if order > parse_release(contract.newest, contract.scheme):
        return (
            contract,
            release,
            f"{contract.name} {show(release)} is newer than the contract, which ends at {contract.newest}",
        )
    if order < parse_release(contract.releases[0], contract.scheme):
        raise UsageError(
            f"{contract.name} {show(release)} is older than the first known release, {contract.releases[0]}"
        )
    return contract, release, f"{contract.name} {show(release)} was not read; it is taken for its predecessor"


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
