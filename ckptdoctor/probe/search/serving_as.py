"""Which engine releases feed and compute a draft under a given reading of its wiring, by their load plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.checkpoint import Checkpoint, JsonDocument
from ckptdoctor.facts import Facts, Target, describe
from ckptdoctor.facts.config import with_value
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.probe.wiring import Wiring
from ckptdoctor.probe.words import probe_words
from ckptdoctor.serving import LoadPlan, contracts, load_plan
from ckptdoctor.serving.compat import compatibility, fitting_ids, id_places
from ckptdoctor.serving.words import numbers

__all__ = ["Entry", "ServedAs", "entries_for", "ids_entry", "served_as", "with_entries"]

_CAPTURE = ("other_layers", "two_readings", "trained_unknown")


@dataclass(frozen=True)
class Entry:
    """A field of the draft's config and the value that it should have."""

    key: str
    value: Any


@dataclass(frozen=True)
class ServedAs:
    """How consecutive releases of an engine treat the draft under the reading in question.

    `as_it_is` says that they feed and compute it so with the config as it is, `with_entries` with the entries that a
    report names; `ids` is what the ids of captured layers must be for the newest of them (None: no ids do it, or none
    are needed). `captured` are the boundaries that they capture as it is, None where that is not known. `why` says what
    is in the way.
    """

    engine: str
    name: str
    releases: str
    as_it_is: bool
    with_entries: bool
    ids: tuple[int, ...] | None
    captured: tuple[int, ...] | None
    why: str


def entries_for(facts: Facts, wiring: Wiring, changed: Sequence[str]) -> tuple[Entry, ...]:
    """The fields of the config that say what `wiring` has in the parts `changed`, but for the captured layers."""
    parts = probe_words()["parts"]
    found = []
    for part in changed:
        field = parts[part].get("config")
        if field is not None:
            value = getattr(wiring, part)
            found += [Entry(key, value) for key in _places(facts, field)]
    return tuple(found)


def with_entries(checkpoint: Checkpoint, target: Target | None, entries: Sequence[Entry]) -> Facts:
    """The facts of the same draft with these fields in its config."""
    document = checkpoint.config
    value: Mapping[str, Any] = document.object if document is not None else {}
    for entry in entries:
        value = with_value(value, entry.key.split("."), entry.value)
    config = JsonDocument("config.json", dict(value), True)
    return describe(replace(checkpoint, config=config), target)


def served_as(
    checkpoint: Checkpoint,
    facts: Facts,
    wiring: Wiring,
    boundaries: tuple[int, ...] | None,
    changed: Sequence[str],
) -> tuple[ServedAs, ...]:
    """The releases of the engines that scans speak of, against `wiring` with these captured boundaries.

    `boundaries` is None where the samples do not say which layers their states are; then only the rest is compared.
    """
    engines = [name for name, contract in contracts().items() if contract.raw.get("in_scans")]
    entries = entries_for(facts, wiring, changed)
    edited = with_entries(checkpoint, facts.target, entries) if entries else facts
    ordered = None if boundaries is None else tuple(sorted(boundaries))
    unserved = _unserved(wiring) or (boundaries is not None and ordered != boundaries)
    rows: list[ServedAs] = []
    for before, after in zip(compatibility(facts, engines), _same_ranges(edited, facts, engines), strict=True):
        now = _problems(before.plan, wiring, ordered)
        if set(changed) - {"states"}:
            now = now or ["the config says otherwise"]
        then = _problems(after, wiring, None)
        ids = None
        if ordered is not None and _captured(after) != ordered:
            # What keeps the draft from being served may follow from the layers alone: ask again with the ids in place.
            ids = fitting_ids(edited, contracts()[after.engine], after.version, ordered)
            if ids is not None:
                added = with_entries(checkpoint, facts.target, [*entries, *ids_entry(facts, ids)])
                then = _problems(load_plan(added, contracts()[after.engine], after.version), wiring, ordered)
                ids = None if then else ids
            elif not then:
                then = [f"no ids make it capture boundaries {numbers(ordered)}"]
        rows.append(
            ServedAs(
                engine=before.engine,
                name=before.name,
                releases=before.span,
                as_it_is=not unserved and not now,
                with_entries=not unserved and not then,
                ids=ids,
                captured=_captured(before.plan),
                why="; ".join(dict.fromkeys(then or now)),
            )
        )
    return tuple(_folded(rows))


def _same_ranges(edited: Facts, facts: Facts, engines: Sequence[str]) -> list[LoadPlan]:
    """The plans of the edited draft for the newest release of each range of the draft as it is."""
    return [load_plan(edited, contracts()[r.engine], r.plan.version) for r in compatibility(facts, engines)]


def _problems(plan: LoadPlan, wiring: Wiring, ordered: tuple[int, ...] | None) -> list[str]:
    """What keeps this plan from feeding and computing the draft as `wiring` has it, in words."""
    if plan.errors:
        return [plan.errors[0].reason]
    found = [cause.text for cause in plan.causes if cause.level != "open" and cause.kind not in _CAPTURE]
    captured = _captured(plan)
    if ordered is not None and captured is not None and captured != ordered:
        found.append(f"captures boundaries {numbers(captured)}")
    if (plan.wiring.get("fc") == "skipped") is wiring.fc and plan.wiring.get("fc") is not None:
        found.append("fc is skipped" if wiring.fc else "fc is applied")
    return found


def _captured(plan: LoadPlan) -> tuple[int, ...] | None:
    """The boundaries that all known phases capture; those of the first phase where they differ."""
    told = [tuple(b) for b in plan.captured.values() if b is not None]
    return told[0] if told else None


def _unserved(wiring: Wiring) -> bool:
    parts = probe_words()["parts"]
    return any(getattr(wiring, part) in words.get("unserved", ()) for part, words in parts.items())


def _places(facts: Facts, field: str) -> tuple[str, ...]:
    """Where the config has this field, else where it would stand."""
    if field == "rope_theta":
        places = facts.draft.positions
        found = [
            f"{places.place}rope_theta" if places.old_base is not None or places.new_base is None else "",
            f"{places.place}rope_parameters.rope_theta" if places.new_base is not None else "",
        ]
        return tuple(key for key in found if key)
    keys = knowledge().fields["flags"][field]
    there = facts.config.all_of(keys)
    return (there[0].key,) if there else (keys[0],)


def _folded(rows: Sequence[ServedAs]) -> list[ServedAs]:
    """Neighbouring ranges of one engine of which a person would be told the same, as one row."""
    found: list[ServedAs] = []
    for row in rows:
        before = found[-1] if found else None
        if before is not None and _same(before, row):
            first = before.releases.split(" ")[0]
            last = row.releases.split(" to ")[-1] if " to " in row.releases else row.releases
            both = f"{first} and later" if "later" in last else f"{first} to {last}"
            found[-1] = replace(row, releases=both)
        else:
            found.append(row)
    return found


def _same(one: ServedAs, other: ServedAs) -> bool:
    alike = ["engine", "as_it_is", "with_entries", "ids", "why"]
    if one.as_it_is or one.with_entries:
        alike.append("captured")
    return all(getattr(one, name) == getattr(other, name) for name in alike)


def ids_entry(facts: Facts, ids: Sequence[int]) -> tuple[Entry, ...]:
    """The ids of captured layers in every place that an engine reads: which of two it takes depends on its release."""
    return tuple(Entry(place, list(ids)) for place in id_places(facts) or ())
