"""How releases of engines count the ids of captured layers when they run the target of a training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.serving.contract.contracts import Contract, Release, contracts
from ckptdoctor.serving.layers.boundaries import to_boundaries
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown

__all__ = ["Counted", "changes_between", "counted_by"]

_BLOCK_IDS = "target_layer_ids"
"""Keys that end so go through `block_ids_to_boundaries`, all others through the target's own timeline."""


@dataclass(frozen=True)
class Counted:
    """The boundaries that a release captures for the ids in the config, or None and `why` that is not known.

    `executed` says whether the contract entry behind it was executed.
    """

    boundaries: tuple[int, ...] | None
    executed: bool = False
    why: str = ""


def counted_by(facts: Facts, engine: str, version: str) -> Counted:
    """What `version` of `engine` makes of the draft's ids in this target. Pure."""
    contract = contracts()[engine]
    named = f"{contract.name} {show(version)}"
    if version not in contract.releases and contract.scheme != "undated":
        return Counted(None, why=f"nobody has read how {named} counts layers")
    timeline, why = _timeline(facts, contract)
    if timeline is None:
        return Counted(None, why=why)
    release = Release(contract, version)
    row = next((r for r in reversed(timeline) if release.has_reached(str(r["from"]))), None)
    if row is None or not release.has_reached(_since(facts, contract)):
        return Counted(None, why=f"{named} captures no layers in {_class(facts)}")
    boundaries = _boundaries(facts, row)
    if boundaries is None:
        return Counted(None, why=f"{named} takes no ids for {_class(facts)}")
    return Counted(boundaries, row.get("evidence") == "executed")


def changes_between(facts: Facts, engines: Iterable[str], strict: bool = False) -> str | None:
    """A clause that says in which release the meaning of the draft's ids changed; None where it never did.

    With `strict` also one where that is not known, because the target is not.
    """
    for engine in engines:
        contract = contracts()[engine]
        timeline, why = _timeline(facts, contract)
        if timeline is None and strict:
            return why
        told = [(str(row["from"]), b) for row in timeline or () if (b := _boundaries(facts, row)) is not None]
        since = next((since for (_, before), (since, after) in pairwise(told) if before != after), None)
        if since is not None:
            return f"the release that captured decides: {contract.name} {since} changed it for {_class(facts)}"
    return None


def _timeline(facts: Facts, contract: Contract) -> tuple[Sequence[Mapping[str, Any]] | None, str]:
    """The timeline that the ids go through in this target's class, or None and why there is none."""
    if facts.target is None:
        return None, f"which layers {contract.name} captures rests on the target (--target PATH)"
    row = _row(facts, contract)
    if row is None:
        return None, f"how {contract.name} counts the layers of {_class(facts)} is not in its contract"
    key = facts.draft.aux.key
    block = facts.draft.block or (key is not None and key.endswith(_BLOCK_IDS))
    timeline = contract.targets.get("block_ids_to_boundaries") if block else row["ids_to_boundaries"]
    return (timeline, "") if timeline else (None, f"how {contract.name} counts such ids is not in its contract")


def _row(facts: Facts, contract: Contract) -> Mapping[str, Any] | None:
    rows: Sequence[Mapping[str, Any]] = contract.targets.get("targets", ())
    architecture = facts.target.architecture if facts.target is not None else None
    exact = next((r for r in rows if architecture in r["classes"]), None)
    return exact or next((r for r in rows if "*" in r["classes"]), None)


def _since(facts: Facts, contract: Contract) -> str:
    """The first release that captures in this target's class."""
    classes = (_row(facts, contract) or {}).get("classes", {})
    architecture = facts.target.architecture if facts.target is not None else None
    return str(classes.get(architecture, classes.get("*", contract.releases[0])))


def _boundaries(facts: Facts, row: Mapping[str, Any]) -> tuple[int, ...] | None:
    aux = facts.draft.aux
    if row["value"] == "ignored" or aux.ids is None or isinstance(aux.depth, Unknown):
        return None
    return tuple(sorted(to_boundaries(str(row["value"]), aux.ids, aux.depth)))


def _class(facts: Facts) -> str:
    return show((facts.target.architecture if facts.target is not None else None) or "this target")
