"""What kind of module a quantised one is, by the last part of its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckptdoctor.facts.quantisation.store import Module

__all__ = ["MOST_SHOWN", "kind_of", "last_part"]


MOST_SHOWN = 50


def last_part(name: str) -> str:
    return name.rpartition(".")[2]


def kind_of(module: Module, words: Mapping[str, Any]) -> str | None:
    last = last_part(module.name)
    if last == "lm_head":
        return "head"
    if last in words["fused_input"]:
        return "fc"
    return "layers" if last in words["linear"] or "experts." in module.name else None
