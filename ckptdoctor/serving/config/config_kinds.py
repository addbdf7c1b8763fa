"""Kinds of values in a config: which ones end a start, and which ones nobody has tried.

The tables stand in `rules/serving/config-kinds.yaml`; `config` of a contract says which strict one holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ckptdoctor.serving.contract.settings import Settings

__all__ = ["refused_kind", "uncertain_sizes", "untried_kinds"]

# The symbols of shapes that follow from a size, by its key.
_FOLLOW: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("H", "T", "hd", "Q", "KV"),
    "num_attention_heads": ("Q", "KV", "hd", "MQ", "KB", "MV"),
    "num_key_value_heads": ("KV",),
    "head_dim": ("hd", "Q", "KV"),
    "intermediate_size": ("I",),
    "vocab_size": ("V", "D"),
    "draft_vocab_size": ("D",),
    "target_hidden_size": ("T",),
    "q_lora_rank": ("QL",),
    "kv_lora_rank": ("KL", "KA"),
    "qk_nope_head_dim": ("MQ", "KB"),
    "qk_rope_head_dim": ("KA", "MQ"),
    "v_head_dim": ("KB", "MV"),
}

# Sizes that do not follow where another key gives them.
_GIVEN_BY: Mapping[tuple[str, str], str] = {
    ("vocab_size", "D"): "draft_vocab_size",
    ("hidden_size", "T"): "target_hidden_size",
    ("hidden_size", "hd"): "head_dim",
    ("hidden_size", "Q"): "head_dim",
    ("hidden_size", "KV"): "head_dim",
    ("num_attention_heads", "hd"): "head_dim",
}


def refused_kind(settings: Settings, config: Mapping[str, Any], tables: Mapping[str, Any]) -> str | None:
    """The first key of a flat config whose kind of value this release refuses.

    `config` is the entry of the contract: `kinds` hold for types with defaults, `every_kind` for every type, and
    `strict` names a table by model_type, in which `like` says which type is read as another one.
    """
    kind = settings.get("model_type")
    kind = kind if isinstance(kind, str) else None
    allowed: dict[str, Any] = dict(config.get("every_kind", {}))
    if kind in config.get("defaults_by_type", {}):
        allowed |= config.get("kinds", {})
    if "strict" in config and kind is not None:
        table = tables["strict"][config["strict"]]
        fields = table["by_type"].get(config.get("like", {}).get(kind, kind))
        allowed |= {} if fields is None else {**table["common"], **fields}
    return next((key for key, kinds in allowed.items() if settings.type_of(key) not in ("absent", *kinds)), None)


def untried_kinds(settings: Settings, tables: Mapping[str, Any]) -> list[str]:
    """The keys whose kind of value was never tried, and sizes that are none."""
    usual, found = tables["usual"], []
    for key in _keys_there(settings, usual):
        if settings.type_of(key) not in usual[key] or (key in _FOLLOW and _is_no_size(settings.get(key))):
            found.append(key)
    return found


def _keys_there(settings: Settings, usual: Mapping[str, Any]) -> Iterator[str]:
    """The keys of the table that the config has: most of those that it names are in no config together."""
    for key, value in settings.values.items():
        if key in usual:
            yield key
        if isinstance(value, Mapping):
            yield from (nested for inner in value if (nested := f"{key}.{inner}") in usual)


def uncertain_sizes(settings: Settings) -> set[str]:
    """The symbols that follow from a value which is no size: what an engine makes of it is not known."""
    return {
        symbol
        for key, symbols in _FOLLOW.items()
        if _is_no_size(settings.get(key))
        for symbol in symbols
        if not _is_size(settings.get(_GIVEN_BY.get((key, symbol), "")))
    }


def _is_no_size(value: Any) -> bool:
    return value is not None and not _is_size(value)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**40
