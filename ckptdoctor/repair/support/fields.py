"""Fields of a draft's config for treatments: where a field stands, so that an edit keeps the dialect of the file."""

from __future__ import annotations

from typing import Any

from ckptdoctor.checkpoint import JsonDocument
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, RefusedError

__all__ = ["CONFIG", "places_of", "set_field", "standing", "writable"]

CONFIG = "config.json"


def writable(case: Case, file: str = CONFIG) -> JsonDocument:
    """The JSON file `file`, when it can be written again without losing a value.

    Refuses `unreadable` when it is no JSON object, `huge` when it holds a number that no reader of 64 bits can keep.
    """
    document = case.checkpoint.config if file == CONFIG else case.checkpoint.json(file)
    if document is None or not document.readable or not isinstance(document.value, dict):
        raise RefusedError("unreadable", file=file)
    faults = (*document.faults, *case.checkpoint.faults)
    if any(fault.kind == "json_huge_number" and fault.file == file for fault in faults):
        raise RefusedError("huge", file=file)
    return document


def places_of(name: str) -> list[str]:
    """The dotted keys under which the field `name` may stand (rules/facts/fields.yaml), the usual one first; a key that
    is no such field stands for itself."""
    fields = knowledge().fields
    limit: list[str] = fields["positions"]["limit"]
    places: list[str] | None = fields["sizes"].get(name) or fields["flags"].get(name)
    return places or (limit if name == limit[0] else [name])


def standing(case: Case, name: str) -> list[str]:
    """The keys of the field `name` that hold a value (not null)."""
    return [key for key in places_of(name) if case.facts.config.at(key) is not None]


def set_field(case: Case, name: str, value: Any, home: str | None = None) -> tuple[SetConfig, ...]:
    """The edits after which the field `name` holds `value` wherever it stands, or at `home` where it stands nowhere.

    Without `home` it goes beside hidden_size, which in a nested dialect is the object of the layer. Refuses `same` when
    nothing would change, `blocked` when something that is no object stands in the way.
    """
    document = writable(case)
    keys = standing(case, name) or [home or _beside_hidden_size(case, name)]
    edits = tuple(SetConfig(key, value) for key in keys if not _holds(case, key, value))
    if not edits:
        raise RefusedError("same", at=keys[0], value=value)
    for edit in edits:
        inner: Any = document.object
        for part in edit.key.split(".")[:-1]:
            inner = inner.get(part)
            if inner is None:
                break
            if not isinstance(inner, dict):
                raise RefusedError("blocked", at=edit.key)
    return edits


def _holds(case: Case, key: str, value: Any) -> bool:
    field = case.facts.config.at(key)
    return field is not None and type(field.value) is type(value) and field.value == value


def _beside_hidden_size(case: Case, name: str) -> str:
    places = places_of(name)
    for key in standing(case, "hidden_size"):
        prefix, dot, _ = key.rpartition(".")
        candidate = f"{prefix}{dot}{places[0]}"
        if candidate in places:
            return candidate
    return places[0]
