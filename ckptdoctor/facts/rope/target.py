"""The rotary embedding of the draft against that of the target.

A draft has its own: nothing makes it be the target's. But trainers' templates copy it, and a value that is neither the
default nor the target's was mostly copied from the template of another target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.config import Config
from ckptdoctor.facts.rope.positions import NEW_SPELLING, Positions
from ckptdoctor.facts.rope.scaling import rotary_number, sections_of
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Known, Unknown

__all__ = ["RopeDifference", "RopeOfBoth", "compare_rope"]

_DEFAULT_BASE = 10000.0


@dataclass(frozen=True)
class RopeDifference:
    """A value of the draft's rotary embedding that is not the target's. `key` is dotted, `line` that of the draft."""

    key: str
    line: int | None
    draft: Any
    target: Any


@dataclass(frozen=True)
class RopeOfBoth:
    """The rotary embedding of draft and target.

    `target_base` is the target's rope_theta, None where its config gives none or several; `base_lost` says that the
    draft gives none and engines take another than the target's. `unlike` are base and scaling of the draft that are
    neither a default nor the target's. `sections` are differences in `mrope_section` and `mrope_interleaved`, where
    both have sections.
    """

    target_base: float | None
    base_lost: bool
    unlike: tuple[RopeDifference, ...]
    sections: tuple[RopeDifference, ...]


def compare_rope(
    config: Config, positions: Positions, block: bool, target: Target | None, words: Mapping[str, Any]
) -> Known[RopeOfBoth]:
    """Both embeddings; `words` is rules/facts/rope.yaml. Unknown without a target or its rotary fields."""
    if target is None:
        return Unknown("the target (--target PATH)")
    theirs = _flat(target.config)
    if not theirs:
        return Unknown("rotary fields in the target's config")
    base = rotary_number(theirs.get("rope_theta"))
    default = 1_000_000.0 if block else _DEFAULT_BASE
    unlike: list[RopeDifference] = []
    if base not in (None, _DEFAULT_BASE) and positions.base not in (None, default, _DEFAULT_BASE, base):
        held = config.at(f"{positions.place}rope_theta") or config.at(f"{positions.place}{NEW_SPELLING}.rope_theta")
        if held is not None:
            unlike.append(RopeDifference(held.key, held.line, positions.base, base))
    described = [(said, at) for said, at in _described(config, positions.place) if _kind(said) != "default"]
    mine, place = described[0] if described else ({}, "")
    if mine and _kind(mine) == _kind(theirs):
        for name in words["copied"]:
            one, other = rotary_number(mine.get(name)), rotary_number(theirs.get(name))
            if None not in (one, other) and one != other:
                unlike.append(_difference(config, f"{place}.{name}", mine[name], theirs[name]))
    return RopeOfBoth(
        target_base=base,
        base_lost=base not in (None, default) and not _gives_base(config, positions.place),
        unlike=tuple(unlike),
        sections=tuple(
            d for said, at in _described(config, positions.place) for d in _sections(config, said, at, theirs)
        ),
    )


def _sections(
    config: Config, mine: Mapping[str, Any], place: str, theirs: Mapping[str, Any]
) -> tuple[RopeDifference, ...]:
    one, other = sections_of(mine.get("mrope_section")), sections_of(theirs.get("mrope_section"))
    if one is None or other is None:
        return ()
    found = []
    if one != other:
        found.append(_difference(config, f"{place}.mrope_section", list(one), list(other)))
    mixed, theirs_mixed = (bool(said.get("mrope_interleaved", False)) for said in (mine, theirs))
    if mixed != theirs_mixed:
        found.append(_difference(config, f"{place}.mrope_interleaved", mixed, theirs_mixed))
    return tuple(found)


def _difference(config: Config, key: str, draft: Any, target: Any) -> RopeDifference:
    field = config.at(key)
    return RopeDifference(key, field.line if field else None, draft, target)


def _described(config: Config, place: str) -> list[tuple[Mapping[str, Any], str]]:
    """What the draft says of its scaling, and where, in each spelling: rope_parameters before rope_scaling."""
    fields = (config.at(place + NEW_SPELLING), config.at(place + "rope_scaling"))
    return [(field.value, field.key) for field in fields if field is not None and isinstance(field.value, dict)]


def _gives_base(config: Config, place: str) -> bool:
    """Whether the draft has a rotary base in some form, of whatever type, or one for each kind of layer."""
    parameters = config.at(place + NEW_SPELLING)
    each = parameters is not None and any(isinstance(v, dict) for v in _items(parameters.value))
    keys = ("rope_theta", f"{NEW_SPELLING}.rope_theta", "rotary_emb_base")
    return each or any(config.at(place + key) is not None for key in keys)


def _items(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """The target's rotary fields in one object, whichever spelling it has; empty for one with several embeddings."""
    found: dict[str, Any] = {}
    for key in ("rope_scaling", NEW_SPELLING):
        said = config.get(key)
        if isinstance(said, dict):
            if any(isinstance(value, dict) for value in said.values()):
                return {}
            found |= said
    if "rope_theta" not in found and config.get("rope_theta") is not None:
        found["rope_theta"] = config["rope_theta"]
    return found


def _kind(said: Mapping[str, Any]) -> str:
    kind = said.get("rope_type", said.get("type"))
    # Engines call a rotary embedding in sections the default kind with sections.
    return kind if isinstance(kind, str) and kind != "mrope" else "default"
