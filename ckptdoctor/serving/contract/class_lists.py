"""Whole lists of what a release knows: `rules/serving/ENGINE-classes.yaml`, read out of its sources.

Only such a list makes absence evidence. Of a release that was not read the answer is None: not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ckptdoctor.serving.contract.contracts import Release, contracts

__all__ = ["ClassLists", "lists_of"]


@dataclass(frozen=True)
class ClassLists:
    """The lists of one release: its own, else those of the last read one before it."""

    release: Release
    raw: Mapping[str, Any]

    @property
    def are_read(self) -> bool:
        """Whether there are whole lists for this release."""
        return bool(self.release.ask(_are_read))

    def registers(self, name: str) -> bool | None:
        """Whether the release has a model class of this name."""
        return self._has("registered", self.raw.get("registered"), name)

    @property
    def may_fall_back(self) -> bool:
        """Whether a name that the Transformers library knows is served without a class of the engine's own."""
        reached = [r for r in self.raw.get("fallback", ()) if self.release.has_reached(str(r["from"]))]
        return bool(reached) and bool(reached[-1]["transformers"])

    def captures(self, algorithm: str, name: str) -> bool | None:
        """Whether the target class `name` has what a start with a draft of this algorithm asks it for.

        None, too, for a class that hands on what it does not have to the model inside of it.
        """
        asked = self.release.ask(_asked_for, algorithm)
        found = [self.has_way(how, name) for how in asked]
        return True if True in found else False if found and None not in found else None

    def has_way(self, how: str, name: str) -> bool | None:
        """Whether the class has the setter or interface `how`; None for one that hands on what it does not have."""
        if self._has("forwarding", self.raw.get("forwarding"), name):
            return None
        return self._has(how, self.raw.get("captures", {}).get(how), name)

    def knows_model_type(self, kind: str) -> bool | None:
        """Whether configs with this model_type are read without code of their own."""
        return self._has("model_types", self.raw.get("model_types"), kind)

    def source_of(self, what: str) -> Mapping[str, Any]:
        """The list `what` (`registered`, `captures`, `model_types`) as an entry that an answer rests on."""
        source = str(self.raw.get("sources", {}).get(what, ""))
        executed = self.release.ask(_is_executed, what)
        return {"from": _at(self.release), "source": source, "evidence": "executed" if executed else "read"}

    def _has(self, what: str, spans: Sequence[Mapping[str, Any]] | None, name: str) -> bool | None:
        if spans is None:
            return None
        found: bool | None = self.release.ask(_is_listed, what, name)
        return found


def lists_of(release: Release) -> ClassLists:
    """The lists that hold in `release`. A release between or after those that were read takes the one before it."""
    return ClassLists(release, release.contract.lists)


def _at(release: Release) -> str | None:
    """The release whose lists hold."""
    return _read_at(release.contract.engine, release.version)


def _are_read(release: Release) -> bool:
    return _at(release) is not None


def _is_listed(release: Release, what: str, name: str) -> bool | None:
    at = _at(release)
    return None if at is None else name in _names(release.contract.engine, what, at)


def _is_executed(release: Release, what: str) -> bool:
    """Whether the engine itself was asked in this release: for the names that it registers, or for its interfaces."""
    raw = release.contract.lists
    asked = {"captures": raw.get("executed", ()), **raw.get("asked", {})}
    return _at(release) in asked.get(what, ())


def _asked_for(release: Release, algorithm: str) -> tuple[str, ...]:
    return _asked(release.contract.engine, release.version, algorithm)


@lru_cache(maxsize=1024)
def _names(engine: str, what: str, at: str) -> frozenset[str]:
    """The names on one list in one release."""
    contract = contracts()[engine]
    raw, release = contract.lists, Release(contract, at)
    spans = raw["captures"][what] if what in raw.get("captures", {}) else raw[what]
    return frozenset(name for span in spans if release.holds(span) for name in span["names"])


@lru_cache(maxsize=1024)
def _read_at(engine: str, version: str) -> str | None:
    """The last release up to `version` whose lists were read."""
    contract, at = contracts()[engine], None
    for read in contract.lists.get("read", ()):
        if Release(contract, version).has_reached(str(read)):
            at = str(read)
    return at


@lru_cache(maxsize=1024)
def _asked(engine: str, version: str, algorithm: str) -> tuple[str, ...]:
    """The setters or interfaces of which a start with a draft of this algorithm wants one."""
    contract = contracts()[engine]
    rows = contract.lists.get("asks", {}).get(algorithm, ())
    reached = [row for row in rows if Release(contract, version).has_reached(str(row["from"]))]
    return tuple(reached[-1]["any_of"]) if reached else ()
