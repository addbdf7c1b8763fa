"""Embedding and head: whether the target's take their place, and how many rows an engine builds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckptdoctor.serving.contract.contracts import Reader, Release
from ckptdoctor.serving.contract.settings import Settings
from ckptdoctor.serving.parameters.building import Built

__all__ = ["is_shared", "padded"]


def padded(item: Built, release: Release) -> tuple[int, ...] | None:
    """The shape as built: engines round the rows of embedding and head up, and fill the rest with zeros."""
    padding = release.contract.raw.get("vocab_padding")
    if padding is None or item.shape is None or item.role not in ("embedding", "head"):
        return item.shape
    rows = padding["rows"]
    return (-(-item.shape[0] // rows) * rows, *item.shape[1:])


def is_shared(
    item: Built,
    keys: tuple[str, ...],
    entry: Mapping[str, Any],
    settings: Settings,
    symbols: Mapping[str, Any],
    reader: Reader,
) -> bool:
    """Whether the target's tensor takes this parameter's place after loading."""
    if item.role not in ("head", "embedding"):
        return False
    variant = reader.value(entry["behaviours"].get(item.role), "own")
    hidden, width = symbols["H"], symbols["T"]
    draft_size = settings.get("draft_vocab_size")
    if variant == "target":
        return True
    if variant == "own_if_stored":
        return not keys
    if variant == "own_if_named":  # a name in the file is enough, whether the tensor was loaded or not
        return not settings.stores("embed_tokens" if item.role == "embedding" else "lm_head")
    if variant == "target_if_same_shape":
        if item.role == "head":
            return bool(symbols["TV"]) and symbols["D"] == symbols["TV"]
        return bool(hidden == width)
    if variant == "target_unless_target_hidden_size_differs":
        return bool(hidden == width) or draft_size is None
    if variant == "own_unless_draft_vocab_size_is_null":
        return draft_size is None
    return False
