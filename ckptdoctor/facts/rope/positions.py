"""Positions: the base and scaling of the rotary embedding as the config writes them, and how far its table reaches.

Two spellings are in use. The old one has `rope_theta` and `rope_scaling` (and `partial_rotary_factor`) beside the other
fields of the layer; transformers 5 puts all of them into `rope_parameters` (SpecForge 0.2.0 writes both).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.config import Config, Field

__all__ = ["NEW_SPELLING", "Positions", "old_spelling", "read_positions"]

NEW_SPELLING = "rope_parameters"
_BASE, _SCALING, _PARTIAL = "rope_theta", "rope_scaling", "partial_rotary_factor"


@dataclass(frozen=True)
class Positions:
    """The rotary positions of a draft.

    `place` stands before the keys (`""`: top level, else it ends in a dot). `old_base` and `new_base` are rope_theta in
    the two spellings, `base` the one that is there. `only_new` are the fields of the old spelling that are lacking
    although `rope_parameters` gives them. `scaling` is the kind of scaling (`default` for none). `limit` is
    max_position_embeddings (at `key`, `line`), `rows` the positions that engines compute a table for. `fixed` says that
    the table's values do not depend on its length, so that it can be made longer. `assumed` is the
    max_position_embeddings that engines take for a flat config that gives none, where its model_type has a default.
    """

    place: str
    old_base: float | None
    new_base: float | None
    base: float | None
    only_new: tuple[str, ...]
    scaling: str
    limit: int | None
    key: str | None
    line: int | None
    base_line: int | None
    rows: int | None
    fixed: bool
    assumed: int | None


def read_positions(config: Config, words: Mapping[str, Any]) -> Positions:
    """Read the positions; `words` is `positions` of rules/facts/fields.yaml."""
    places = [f"{place}." if place else "" for place in words["places"]]
    held = [p for p in places if any(config.at(p + key) for key in (_BASE, _SCALING, NEW_SPELLING))]
    place = held[0] if held else ""
    old_base, new = config.number(place + _BASE), _object(config, place + NEW_SPELLING)
    if not _each(new):
        config.number(f"{place}{NEW_SPELLING}.{_BASE}")
    old_scaling = _object(config, place + _SCALING)
    given = new or old_scaling
    scaling = _kind(given)
    limits = [f for key in words["limit"] if (f := config.number(key, whole=True)) is not None]
    limit = limits[0] if limits else None
    first = _number(old_base.value) if old_base else None
    second = _number(new.get(_BASE))
    return Positions(
        place=place,
        old_base=first,
        new_base=second,
        base=second if first is None else first,
        only_new=tuple(key for key in old_spelling(new) if config.at(place + key) is None),
        scaling=scaling,
        limit=int(limit.value) if limit else None,
        key=limit.key if limit else None,
        line=limit.line if limit else None,
        base_line=_line(config.at(place + NEW_SPELLING), old_base),
        rows=_rows(int(limit.value), scaling, given, words) if limit else None,
        assumed=None if config.all_of(words["limit"]) else _assumed(config, words["assumed"]),
        fixed=all(_kind(said) in words["fixed"] for said in (new, old_scaling, *_each(new))),
    )


def old_spelling(new: Mapping[str, Any]) -> dict[str, Any]:
    """What `rope_parameters` says, in the old spelling; empty for one with an object for each kind of layer."""
    if _each(new):
        return {}
    said: dict[str, Any] = {}
    if _number(new.get(_BASE)) is not None:
        said[_BASE] = new[_BASE]
    if _number(new.get(_PARTIAL)) not in (None, 1.0):
        said[_PARTIAL] = new[_PARTIAL]
    rest = {k: v for k, v in new.items() if k not in (_BASE, _PARTIAL)}
    if rest.get("rope_type", rest.get("type", "default")) != "default" or len(rest) > 1:
        said[_SCALING] = rest
    return said


def _rows(limit: int, scaling: str, given: Mapping[str, Any], words: Mapping[str, Any]) -> int:
    """Rows of the rotary table, as SGLang and vLLM size it (layers/rotary_embedding in both)."""
    factor = _number(given.get("factor")) or 1.0
    if scaling in words["from_original"]:
        original = _number(given.get("original_max_position_embeddings")) or limit
        return int(min(original * factor, 2**50))
    return int(min(limit * factor, 2**50)) if scaling in words["times_factor"] else limit


def _assumed(config: Config, by_type: Mapping[str, int]) -> int | None:
    kind = config.at("model_type")
    flat = config.at("hidden_size") is not None and kind is not None and isinstance(kind.value, str)
    return by_type.get(kind.value) if flat and kind is not None else None


def _each(new: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What `rope_parameters` says of each kind of layer, where it does."""
    return [value for value in new.values() if isinstance(value, dict)]


def _kind(scaling: Mapping[str, Any]) -> str:
    kind = scaling.get("rope_type", scaling.get("type"))
    return kind if isinstance(kind, str) else "default"


def _object(config: Config, key: str) -> Mapping[str, Any]:
    field = config.at(key)
    return field.value if field is not None and isinstance(field.value, dict) else {}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**63:
        return None
    return float(value)


def _line(*fields: Field | None) -> int | None:
    return next((field.line for field in fields if field is not None), None)
