"""The judgement on what is about to be uploaded to the Hub: a private copy of it, and the verdict on that copy."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.hub_errors import hub_problems
from ckptdoctor.checkpoint.remote import at_hub
from ckptdoctor.errors import CkptdoctorError, UsageError
from ckptdoctor.findings import Examination
from ckptdoctor.policy import Policy
from ckptdoctor.registry.gate import Verdict, judge_tree
from ckptdoctor.registry.hub.tree import Where, commit_tree
from ckptdoctor.registry.snapshot import snapshot
from ckptdoctor.text import show

__all__ = ["RefusedUploadError", "judged_commit", "judged_folder"]


class RefusedUploadError(CkptdoctorError):
    """The judgement does not let it pass; nothing was sent. The text is the report; `verdict` has the findings."""

    exit_code = 1

    def __init__(self, verdict: Verdict) -> None:
        from ckptdoctor.report import render, surface_for

        report = render(verdict.report, "text", surface_for(None))
        super().__init__(f"{verdict.sentence}; nothing was uploaded\n\n{report}")
        self.verdict = verdict

    def __reduce__(self) -> tuple[type[RefusedUploadError], tuple[Verdict]]:
        return type(self), (self.verdict,)


@contextmanager
def judged_folder(path: str | Path, policy: Policy, shown: str | None = None) -> Iterator[tuple[Path, Verdict]]:
    """A private copy of the folder `path`, and the verdict on it. The copy is what is to be sent.

    Raises `UsageError` when `path` is no folder, `CannotExamineError` when it cannot be copied.
    """
    folder = Path(path)
    if at_hub(str(path)) or not folder.is_dir():
        raise UsageError(f"{show(path)}: not a folder; name the folder of the draft on this machine")
    with snapshot(folder) as copy:
        yield copy, _for_people(judge_tree(copy, policy, shown or str(path)), copy, str(path))


@contextmanager
def judged_commit(
    operations: list[Any], policy: Policy, where: Where, private: Path | None = None
) -> Iterator[tuple[tuple[Any, ...], str | None]]:
    """The operations to send in place of `operations`, and the commit that they are to be made on (None: any).

    With `private`, the additions are from this folder, which nobody changes. Raises `RefusedUploadError` where the
    verdict is no, and as `commit_tree`.
    """
    near = None if private is None else private.parent
    with tempfile.TemporaryDirectory(prefix=".ckptdoctor-", dir=near, ignore_cleanup_errors=True) as place:
        with hub_problems(f"hf://{show(where.repo)}", where.repo, where.revision):
            tree = commit_tree(Path(place), operations, where, private)
        verdict = _for_people(judge_tree(tree.root, policy, where.repo, skipped=frozenset()), tree.root, None)
        if verdict.refused:
            raise RefusedUploadError(verdict)
        yield tree.operations, tree.base


def _for_people(verdict: Verdict, root: Path, shown: str | None) -> Verdict:
    """Next commands with the folder that the person knows as `shown`; without one, those for a folder go."""

    def commands(examination: Examination) -> tuple[str, ...]:
        if shown is None:
            return tuple(c for c in examination.next_commands if str(root) not in c)
        return tuple(c.replace(str(root), shlex.quote(shown)) for c in examination.next_commands)

    report = verdict.report
    people = tuple(replace(e, next_commands=tuple(show(c, 4096) for c in commands(e))) for e in report.examinations)
    return replace(verdict, report=replace(report, examinations=people))
