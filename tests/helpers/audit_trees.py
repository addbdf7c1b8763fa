"""Trees of drafts for the tests of audits."""

from __future__ import annotations

import shutil
from pathlib import Path

from builder import build
from recipe_cases import RECIPES

from ckptdoctor.audit.auditing import Options, audit
from ckptdoctor.audit.roots import roots_of
from ckptdoctor.audit.setup import setup_for
from ckptdoctor.audit.summary import Summary
from ckptdoctor.policy import NO_POLICY

__all__ = ["HEALTHY", "SICK", "WARNED", "Silent", "audited", "draft", "rows_of"]

SICK, HEALTHY, WARNED = "d2t-absolute", "specforge-eagle3", "t2d-length"


def draft(folder: Path, recipe: str = HEALTHY, target: bool = False) -> Path:
    """The draft of `recipe` in the new folder `folder`; without its target unless `target`."""
    build(RECIPES[recipe], folder)
    if not target and (folder / "target").exists():
        shutil.rmtree(folder / "target")
    return folder


class Silent:
    """A watch that remembers the checkpoints that workers began."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def phase(self, name: str, total: int | None) -> None:
        """Nothing is told."""

    def began(self, key: str) -> None:
        """Remember it."""
        self.begun.append(key)

    def ended(self, key: str) -> None:
        """Nothing is told."""


def audited(
    root: Path | str, out: Path | None = None, watch: Silent | None = None, **changes: object
) -> tuple[Summary, list[bytes]]:
    """The audit of `root` with one job, and the lines of its rows."""
    options = {name: changes.pop(name) for name in ("limit", "fresh", "retry", "jobs", "folders") if name in changes}
    options = {"jobs": 1, "out": out, **options}
    lines: list[bytes] = []
    setup = setup_for(changes.pop("policy", NO_POLICY), **changes)  # type: ignore[arg-type]
    summary = audit(roots_of([str(root)]), setup, Options(**options), watch or Silent(), lines.append)  # type: ignore[arg-type]
    return summary, lines


def rows_of(lines: list[bytes]) -> dict[str, dict[str, object]]:
    """The rows by the last part of their key."""
    import json

    rows = [json.loads(line) for line in lines]
    return {row["key"].rpartition("/")[2]: row for row in rows}
