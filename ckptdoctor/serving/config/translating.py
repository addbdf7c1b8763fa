"""Configs in the speculators format as the flat ones that an engine makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ckptdoctor.serving.contract.contracts import Reader
from ckptdoctor.serving.contract.settings import Settings
from ckptdoctor.serving.plan import Refusal
from ckptdoctor.text import show

__all__ = ["ANY", "translate"]

ANY = "*"
"""The name of a row that takes any class, or none."""


def translate(settings: Settings, reader: Reader) -> Settings | Refusal:
    """A config in the speculators format as a flat one.

    `copies`: keys with their defaults; `when_set`: keys that are copied unless null; `renames`: new key: old
    key; `sets`: fixed values; `requires`: keys that must be there; `classes`: by `model_type`; `keeps`: class
    names that stay. `block`: how the captured layers go into dflash_config (`same`, `minus_one`), with the
    keys of `nested`; `block_outside`: the same into target_layer_ids.
    """
    kind = settings.get("speculators_model_type")
    how = reader.value(reader.contract.raw.get("translation", {}).get(kind)) if isinstance(kind, str) else None
    inner = settings.get("transformer_layer_config")
    if how is None or not isinstance(inner, Mapping):
        return Refusal("config", f"this release does not know speculators configs of type {show(kind)}")
    absent = next((key for key in ("speculators_config", *how.get("requires", ())) if settings.get(key) is None), None)
    if absent is not None:
        return Refusal("config", f"{absent} is missing")
    values = dict(inner)
    for key, default in how["copies"].items():
        values[key] = settings.get(key, default)
    for key in how["when_set"]:
        if settings.get(key) is not None:
            values[key] = settings.get(key)
    values |= {new: settings.get(old) for new, old in how.get("renames", {}).items()} | how.get("sets", {})
    chosen = _translated_class(settings, how, values.get("model_type", "llama"))
    if chosen is None:
        return Refusal("config", f"speculators configs with model_type {show(values.get('model_type'))} are not known")
    values["architectures"] = chosen
    ids = settings.get("aux_hidden_state_layer_ids")
    if "block" in how or "block_outside" in how:
        if not isinstance(ids, list):
            return Refusal("config", "aux_hidden_state_layer_ids is missing")
        if "minus_one" in (how.get("block"), how.get("block_outside")) and any(not _is_number(i) for i in ids):
            return Refusal("config", "aux_hidden_state_layer_ids holds something that is no number")
        values["eagle_aux_hidden_state_layer_ids"] = ids
    if "block" in how:
        block = {"mask_token_id": settings.get("mask_token_id"), "target_layer_ids": _shifted(ids, how["block"])}
        values["dflash_config"] = block | {k: v for k in how.get("nested", ()) if (v := settings.get(k)) is not None}
    if "block_outside" in how:
        values["target_layer_ids"] = _shifted(ids, how["block_outside"])
    return replace(settings, values=values)


def _translated_class(settings: Settings, how: Mapping[str, Any], model_type: Any) -> list[str] | None:
    names = settings.get("architectures")
    kept = [n for n in names if n in how.get("keeps", ())] if isinstance(names, list) else []
    chosen = how["classes"].get(model_type if isinstance(model_type, str) else None, how["classes"].get(ANY))
    return kept or (None if chosen is None else [chosen])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _shifted(ids: Any, how: str) -> list[int]:
    shift = -1 if how == "minus_one" else 0
    return [i + shift for i in ids if type(i) is int]
