"""Where the recorder looks in an engine: `rules/recorder/engines.yaml`, for one release of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from packaging.version import InvalidVersion, Version

from ckptdoctor.resources import shipped

__all__ = ["DraftPlaces", "EnginePlaces", "Quiet", "places_for", "places_in_programs"]


@dataclass(frozen=True)
class DraftPlaces:
    """One kind of draft class. All but `names` and `kind` are dotted places in the model, or in a call's arguments.

    `method` takes the states, found at `states` of its arguments; the look is taken where the value at `phase` is one
    of `phases` (a mapping from it to our name of the phase), always without. `fc`, `norms` (those before fc),
    `embedding` and `head` are in the model; the map is the first of `maps` that is there, and `holds` says what it
    holds. `tokens_method` takes the ids of the next tokens at `ids` and their positions at `positions`; at `unpaired`
    the model says that these do not stand beside the states.
    """

    names: tuple[str, ...]
    kind: str
    method: str
    states: tuple[str, ...]
    fc: tuple[str, ...]
    phase: str | None = None
    phases: Mapping[str, str] = field(default_factory=dict)
    norms: tuple[str, ...] = ()
    embedding: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    holds: str = "offsets"
    tokens_method: str | None = None
    ids: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()
    unpaired: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quiet:
    """A method during which nothing that arrives is real: always, or where one of the arguments `when` is true."""

    module: str
    owner: str
    method: str
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class EnginePlaces:
    """One release of an engine. `built` are functions (`module:name`) that return every model, draft and target.

    `draft_when` and `draft_same` (two places that hold the same object) tell a draft by the arguments of such a call;
    `draft_path` and `target_path` are the folders of both there. `layers` is where a target keeps the boundaries that
    it captures, `captures` a switch that is false where it captures none. `capturing` are functions that are true
    while CUDA graphs are recorded, `rank` one that gives the rank in tensor parallelism.
    """

    engine: str
    release: str
    built: tuple[str, ...]
    drafts: tuple[DraftPlaces, ...]
    draft_when: tuple[str, ...] = ()
    draft_same: tuple[str, ...] = ()
    draft_path: tuple[str, ...] = ()
    target_path: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    captures: tuple[str, ...] = ()
    width: tuple[str, ...] = ()
    capturing: tuple[str, ...] = ()
    rank: tuple[str, ...] = ()
    quiet: tuple[Quiet, ...] = ()

    def draft(self, name: str) -> DraftPlaces | None:
        """The places of a class by its name, or None where it is no draft that takes states over fc."""
        return next((d for d in self.drafts if name in d.names), None)


def places_for(engine: str, release: str | None = None) -> EnginePlaces | None:
    """The places of the installed release (or of `release`), None for an engine that is not in the rules."""
    row = next((r for r in shipped("recorder/engines")["engines"] if r["engine"] == engine), None)
    if row is None:
        return None
    version = release or metadata.version(row["package"])
    version = version.partition("+")[0]
    return EnginePlaces(
        engine=engine,
        release=version,
        built=tuple(r["function"] for r in _holding(row["built"], version)),
        drafts=tuple(_draft(r) for r in _holding(row["drafts"], version)),
        quiet=tuple(
            Quiet(r["module"], r["class"], r["method"], tuple(r.get("when", ())))
            for r in _holding(row.get("quiet", ()), version)
        ),
        **{name: tuple(row.get(name, ())) for name in _LISTS},
    )


def places_in_programs() -> DraftPlaces:
    """The places in a torch program that is no engine: the names that trainers give."""
    return _draft(shipped("recorder/engines")["programs"])


_LISTS = ("draft_when", "draft_same", "draft_path", "target_path", "layers", "captures", "width", "capturing", "rank")


def _draft(row: Mapping[str, Any]) -> DraftPlaces:
    taken: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k not in ("from", "until", "source")
    }
    return DraftPlaces(**taken)


def _holding(rows: Sequence[Mapping[str, Any]], release: str) -> list[Mapping[str, Any]]:
    try:
        now = Version(release)
    except InvalidVersion:  # a build from a checkout: as the newest
        return [r for r in rows if "until" not in r]
    return [
        r
        for r in rows
        if ("from" not in r or now >= Version(r["from"])) and not ("until" in r and now >= Version(r["until"]))
    ]
