"""Keys of the config that lead nowhere are left out. Generic: the rule says which, and in `refuse` when not to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckptdoctor.repair.edits import RemoveConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import writable

__all__ = ["propose"]


def propose(case: Case, keys: Sequence[str], refuse: str | None = None) -> Proposed:
    """The dotted `keys` of config.json left out. Refused when none of them is there."""
    if refuse is not None:
        raise RefusedError(refuse, keys=tuple(keys))
    config = writable(case).object
    edits = tuple(RemoveConfig(key) for key in keys if _stands(config, key))
    if not edits:
        raise RefusedError("absent", keys=tuple(keys))
    return Proposed(edits, subject=keys[0].split(".")[0])


def _stands(value: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True
