"""What the tests of treatments of the config share: healthy drafts with other values in their configs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treatment_cases import Draft, answer, draft_of, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.repair.plan.case import Case, Proposal


def changed(dialect: str = "specforge-eagle3", config: dict[str, Any] | None = None, **sizes: Any) -> Draft:
    """A healthy draft with other values in its config (dotted keys; ... removes one)."""
    draft = draft_of(dialect, **sizes)
    for key, value in (config or {}).items():
        *path, last = key.split(".")
        place: Any = draft.config
        for part in path:
            place = place.setdefault(part, {})
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return draft


def is_safe(told: Proposal | str) -> bool:
    return isinstance(told, Proposal) and told.safety == "safe"


def told_of(draft: Draft, tmp_path: Path, rule: str) -> Proposal | str:
    return answer(write(draft, tmp_path), rule)


def case_of(folder: Path) -> Case:
    checkpoint = open_checkpoint(str(folder))
    return Case(checkpoint, describe(checkpoint, None), reads=True)
