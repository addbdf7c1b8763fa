"""The class that a config names, and the other words for what a draft is (rules/facts/classes.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.draft import Architecture
from ckptdoctor.facts.knowledge import Knowledge, knowledge

__all__ = ["architecture_of", "is_ordinary"]


def architecture_of(config: Config, known: Knowledge) -> Architecture:
    """The first name of `architectures`, what is known of it, and what else in the config says what the draft is."""
    field = config.at("architectures")
    words = known.words["classes"]
    name = _first(field.value if field else None)
    entry: Mapping[str, Any] = known.architectures.get(name, {}) if name is not None else {}
    layer_type, kind = (
        _text(config, path) for path in ("transformer_layer_config.model_type", "speculators_model_type")
    )
    wrapped = _text(config, "model_type") == "eagle" and isinstance(getattr(config.at("model"), "value", None), Mapping)
    nested = next((n for place in words["nested"] if (f := config.at(place)) and (n := _first(f.value))), None)
    return Architecture(
        name=name,
        line=field.line if field else None,
        algorithm=entry.get("algorithm"),
        attention=entry.get("attention"),
        ordinary=name is not None and (entry.get("algorithm") == "plain" or (not entry and is_ordinary(name))),
        nested=nested if name is None else None,
        in_layers=config.at("transformer_layer_config") is not None or config.at("speculators_model_type") is not None,
        wrapped=wrapped,
        as_text=field is not None and isinstance(field.value, str),
        format_name=kind,
        format_algorithm=words["speculators_types"].get(kind) if kind is not None else None,
        layer_type=layer_type,
        layer_attention=words["layer_types"].get(layer_type) if layer_type is not None else None,
    )


def _first(value: Any) -> str | None:
    """The class name that a value of `architectures` begins with: a list of names, or one as a text."""
    name = value[0] if isinstance(value, list) and value else value
    return name if isinstance(name, str) else None


def _text(config: Config, path: str) -> str | None:
    field = config.at(path)
    return field.value if field is not None and isinstance(field.value, str) else None


@lru_cache(maxsize=256)
def is_ordinary(name: str) -> bool:
    """Whether `name` is that of an ordinary model's class: it ends as those do, and no part says that it drafts."""
    words = knowledge().words["classes"]
    if any(re.search(part, name) for part in words["drafts"]):
        return False
    return any(re.search(end, name) for end in words["ordinary"])
