"""The shape of attention where the config does not give it, and how wide keys and values are in the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Known, Unknown

__all__ = ["KeyValueShape", "default_head_dim", "target_kv_shape"]

_OTHER_CACHES = ("kv_lora_rank",)


@dataclass(frozen=True)
class KeyValueShape:
    """Heads of keys and values, and the width of one."""

    heads: int
    width: int

    def page(self, tensor_parallel: int) -> int:
        """Numbers of keys per token on each of `tensor_parallel` ranks (as many of values): one head at least."""
        return max(1, self.heads // max(1, tensor_parallel)) * self.width


def default_head_dim(config: Config) -> int | None:
    """head_dim of a flat config that gives none, where its model_type has a default; None where engines divide."""
    kind = config.at("model_type")
    if config.at("hidden_size") is None or kind is None or not isinstance(kind.value, str):
        return None
    return _by_type(kind.value)


def _by_type(model_type: str | None) -> int | None:
    found: int | None = knowledge().words["geometry"]["head_dim"].get(model_type)
    return found


def target_kv_shape(target: Target | None) -> Known[KeyValueShape]:
    """Key and value heads of the target; unknown for latent attention and hybrids, whose caches are of other kinds."""
    if target is None:
        return Unknown("the target (--target PATH)")
    config = target.config
    if target.is_hybrid or any(config.get(key) is not None for key in _OTHER_CACHES):
        return Unknown("a target whose layers all keep keys and values")
    heads, hidden = _size(config.get("num_attention_heads")), _size(config.get("hidden_size"))
    given, kv_heads = _size(config.get("head_dim")), _size(config.get("num_key_value_heads")) or heads
    width = given or _by_type(target.model_type) or (hidden // heads if hidden and heads else None)
    if not kv_heads or not width:
        return Unknown("the key and value heads in the target's config")
    return KeyValueShape(kv_heads, width)


def _size(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 2**31 else None
