"""The judgement of a model version: its drafts, and no other models that a registry holds beside them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ckptdoctor.checkpoint.foreign import format_of
from ckptdoctor.errors import CkptdoctorError, UsageError
from ckptdoctor.findings import Report
from ckptdoctor.policy import Policy
from ckptdoctor.registry.gate import Verdict, fault_reasons, is_draft, judge_tree, outcome_of
from ckptdoctor.registry.mlflow.sources import Place, digest

__all__ = ["EMPTY", "Judged", "is_unchanged", "judge", "remarked"]

_RANKS = ("empty", "passed", "warned", "refused")


@dataclass(frozen=True)
class Judged:
    """A verdict, and what identifies the files that it is about (empty where there is no draft in them)."""

    verdict: Verdict
    digest: str = ""


EMPTY = Judged(Verdict("empty", Report(())))


def judge(found: Callable[[], Iterable[Place]], policy: Policy, shown: str) -> Judged:
    """Judge the drafts at the places that `found` gives; people know them as `shown`.

    What cannot be looked at is refused, with its reason. Raises `UsageError` for a policy that cannot be followed.
    """
    try:
        judged = [_judge_place(place, policy, shown) for place in found()]
    except UsageError:
        raise
    except CkptdoctorError as error:
        report = Report((), ((shown, str(error)),), str(policy.source) if policy.source else None)
        return Judged(Verdict("refused", report, (str(error),)))
    worst = max(judged, key=lambda item: _RANKS.index(item.verdict.outcome), default=EMPTY)
    return replace(worst, digest=_joined(item.digest for item in judged))


def is_unchanged(found: Callable[[], Iterable[Place]], judged: Judged, policy: Policy, shown: str) -> bool:
    """Whether the files are still those that were judged. What cannot be looked at any more is not."""
    if not judged.digest:
        return judge(found, policy, shown).verdict.outcome == "empty"
    try:
        return _joined(place.digest() if place.may_hold_drafts() else "" for place in found()) == judged.digest
    except CkptdoctorError:
        return False


def remarked(judged: Judged, remark: str) -> Judged:
    """The same judgement, with `remark` in its report."""
    report = replace(judged.verdict.report, remarks=(*judged.verdict.report.remarks, remark))
    return replace(judged, verdict=replace(judged.verdict, report=report))


def _joined(digests: Iterable[str]) -> str:
    several = [item for item in digests if item]
    return several[0] if len(several) == 1 else hashlib.sha256("".join(several).encode()).hexdigest() if several else ""


def _judge_place(place: Place, policy: Policy, shown: str) -> Judged:
    if not place.may_hold_drafts():
        return EMPTY
    if place.folder is not None and place.folder.is_dir():
        # A look at the files where they lie costs no copy, and most versions of a registry hold no draft at all.
        first = _without_others(_judged_whole(place.folder, policy, shown), place.folder, policy, shown)
        if first.outcome == "refused":
            return Judged(first)
        if first.outcome == "empty" and not _links(place.folder):
            return EMPTY
    with place.copy() as copied:
        verdict = _without_others(_judged_whole(copied, policy, shown), copied, policy, shown)
        return Judged(_without_commands(verdict), digest(copied)) if verdict.outcome != "empty" else EMPTY


def _judged_whole(folder: Path, policy: Policy, shown: str) -> Verdict:
    """The verdict on all folders: whoever downloads a version gets `.git` and `.cache` of it as well."""
    return judge_tree(folder, policy, shown, skipped=frozenset())


def _links(folder: Path) -> bool:
    """Whether there are links to folders, which the copy refuses."""
    return any(path.is_symlink() and path.is_dir() for path in folder.rglob("*"))


def _without_commands(verdict: Verdict) -> Verdict:
    """The verdict without commands to run next: they name the private copy, which nobody finds any more."""
    kept = tuple(replace(e, next_commands=()) for e in verdict.report.examinations)
    return replace(verdict, report=replace(verdict.report, examinations=kept))


def _without_others(verdict: Verdict, root: Path, policy: Policy, shown: str) -> Verdict:
    """The verdict without folders that are no drafts: without a config.json, and with no tensors that drafts have.

    An MLflow model of another kind (a pickled module, a state dict, an adapter) is judged by nobody here. A folder
    with a config.json or a GGUF file is one that an engine would load as a draft, and is judged whatever is in it.
    """
    report = verdict.report

    def configured(label: str) -> bool:
        folder = root / label[len(shown.rstrip("/")) :].lstrip("/")
        return (folder / "config.json").exists() or any(format_of(name) == "gguf" for name in os.listdir(folder))  # noqa: PTH208  # names alone

    if verdict.reasons == (f"{shown} could not be examined",):  # the tree as a whole
        return verdict
    kept = tuple(e for e in report.examinations if configured(e.path) or is_draft(e))
    failed = tuple((path, why) for path, why in report.failed if configured(path))
    left = replace(report, examinations=kept, failed=failed)
    reasons = (*(f"{path} could not be examined: {why}" for path, why in failed), *fault_reasons(left))
    outcome = outcome_of(left, policy)
    return Verdict("empty" if outcome == "passed" and not any(map(is_draft, kept)) else outcome, left, reasons)
