"""Gates: a draft is judged where it is uploaded, pushed or registered, and a bad one stays outside.

The names below are imported when first used: MLflow loads this package in every process that opens a registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Verdict", "gate_policy", "judge_tree"]

if TYPE_CHECKING:
    from ckptdoctor.registry.gate import Verdict, gate_policy, judge_tree

_HOMES = {
    "Verdict": "ckptdoctor.registry.gate",
    "gate_policy": "ckptdoctor.registry.gate",
    "judge_tree": "ckptdoctor.registry.gate",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'ckptdoctor.registry' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
