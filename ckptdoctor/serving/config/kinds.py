"""Kinds of drafts that a contract says something of, and what is known of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.serving.config.translating import ANY
from ckptdoctor.serving.contract.class_lists import lists_of
from ckptdoctor.serving.contract.contracts import Reader, Release
from ckptdoctor.serving.contract.settings import Settings
from ckptdoctor.serving.words import Reason
from ckptdoctor.text import listing

__all__ = ["reads_kind", "unread_kind"]


def unread_kind(facts: Facts, settings: Settings, reader: Reader) -> Reason:
    """What is known of drafts of a kind that the contract has no table for: whether the engine has a class for them
    (`also`), of any model or of families of models by their model_type."""
    contract = reader.contract
    values = {"engine": contract.name, "kind": facts.draft.algorithm_name}
    rows = [r for r in contract.raw.get("also", ()) if facts.draft.algorithm in r["kinds"] and reader.holds(r)]
    types = [settings.get(key) for key in ("model_type", "text_config.model_type")]
    for row in rows:
        reader.note(row)
        if not row.get("model_types") or any(isinstance(t, str) and t in row["model_types"] for t in types):
            return Reason("open", "kind_without_table", {**values, "what": row["what"], "source": row["source"]})
    if rows:
        families = listing(sorted({t for row in rows for t in row["model_types"]}), 6)
        return Reason("open", "kind_of_others", {**values, "what": rows[0]["what"], "families": families})
    return Reason("open", "kind_not_read", {**values, "kinds": listing(sorted(_kinds(contract.raw)), 6)})


def _kinds(raw: Mapping[str, Any]) -> set[str]:
    """The kinds of drafts that the contract has classes for."""
    return {kind for entry in raw["classes"].values() for kind in entry.get("algorithms", ())}


def reads_kind(facts: Facts, release: Release) -> bool:
    """Whether the contract says anything of drafts of this kind: a class for it, or for the name in its config, or
    that its classes are all there are."""
    raw = release.contract.raw
    if facts.draft.algorithm in _kinds(raw) or raw.get("all_kinds") or lists_of(release).are_read:
        return True
    if facts.mtp is not None and not facts.mtp.speculators and raw.get("mtp"):
        return True
    listed = facts.config.document.object.get("architectures") if facts.config.document is not None else None
    named = {row["name"] for row in raw["architectures"]} - {ANY}
    return isinstance(listed, list) and any(isinstance(n, str) and n in named for n in listed)
