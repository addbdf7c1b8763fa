"""The judgement that every gate asks for: all drafts of a tree, by a policy that does not come from that tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.facts import read_target
from ckptdoctor.facts.asked import Asked
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.findings import Examination, Report, Severity
from ckptdoctor.launch.line import parse_launch
from ckptdoctor.planning import chosen_engines
from ckptdoctor.policy import NO_POLICY, Policy, applied, check_rules, counts, load_policy, read_baseline
from ckptdoctor.policy.project import PROJECT_FILES
from ckptdoctor.registry.time_limit import TimeIsUpError, check_time, gate_seconds, time_limit
from ckptdoctor.registry.trees import NOT_SENT, drafts_in, drafts_without_weights
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.report.wording import PATH_LIMIT, fault_lines
from ckptdoctor.resources import rules_dir
from ckptdoctor.scanning import about, examination
from ckptdoctor.serving.layers.provenance import provenance_of
from ckptdoctor.text import listing, plural, show

__all__ = ["Verdict", "fault_reasons", "gate_policy", "is_draft", "judge_tree", "outcome_of"]


@dataclass(frozen=True)
class Verdict:
    """What a gate decides of a tree.

    `outcome` is `refused`, `warned` (it passes, and the report says what to look at: warnings, and releases that the
    policy names of which it is not known how they serve a draft, or which nobody has read), `passed` or `empty` (there
    is no checkpoint in it). `report` holds the findings, with the paths as the person knows them; `reasons` are the
    causes of a refusal that are no findings, a sentence each.
    """

    outcome: str
    report: Report
    reasons: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the tree stays outside."""
        return self.outcome == "refused"

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        told = {s: self.report.count(s) for s in (Severity.ERROR, Severity.WARNING)}
        found = " and ".join(plural(n, s.value) for s, n in told.items() if n)
        return {
            "refused": f"refused: {found or 'nothing'} found" if not self.reasons else f"refused: {self.reasons[0]}",
            "warned": "; ".join([f"passes, with {found} to look at" if found else "passes", *_open_ends(self.report)]),
            "passed": "passes",
            "empty": "passes: there is no checkpoint in it",
        }[self.outcome]


def outcome_of(report: Report, policy: Policy) -> str:
    """The verdict on what was examined by `policy`, as `Verdict.outcome` has it."""
    # What ckptdoctor itself gets wrong was not looked at, and a gate lets nothing in that was not.
    if report.failed or fault_reasons(report) or counts(report, policy.fail_on):
        return "refused"
    if not report.examinations:
        return "empty"
    loud = report.count(Severity.WARNING) or report.count(Severity.ERROR)
    return "warned" if loud or _open_ends(report) else "passed"


def fault_reasons(report: Report) -> list[str]:
    """What was not judged because of faults of ckptdoctor, a sentence for each draft and kind of part."""
    return [f"{show(e.path, PATH_LIMIT)}: {said}" for e in report.examinations for said in fault_lines(e.faults)]


def is_draft(examination: Examination) -> bool:
    """Whether it is a draft, and neither an ordinary model nor something that nobody knows."""
    return knowledge().kind_of(examination.draft.get("algorithm")).is_draft


def _open_ends(report: Report) -> list[str]:
    """What stays open of the releases that the policy names: a draft passes with it, and not in silence."""
    drafts = [e for e in report.examinations if is_draft(e)]
    plans = [plan for e in drafts for plan in e.plans if plan["outcome"] == "unknown"]
    named = dict.fromkeys(f"{plan['engine']} {plan['version']}" for plan in plans)
    said = [f"it is not known how {listing(named)} serves it"] if named else []
    return said + [caveat.rstrip(".") for caveat in dict.fromkeys(c for e in drafts for c in e.caveats)]


def gate_policy(path: Path | None, installed: Path | None = None) -> Policy:
    """The policy of a gate: that of `--policy PATH`, else the one that was `installed` with it, else none of a project.

    It is never looked for in the tree that is judged. What gates take more seriously than scans (rules/policy) holds
    where the policy does not say otherwise. Raises `UsageError` for a file that cannot be read.
    """
    chosen = path if path is not None else installed
    policy = load_policy(chosen) if chosen is not None else NO_POLICY
    usual = load_policy(rules_dir() / "policy" / "gate.toml")
    return replace(policy, severities={**usual.severities, **policy.severities})


def judge_tree(
    root: Path, policy: Policy, shown: str, today: date | None = None, skipped: frozenset[str] = NOT_SENT
) -> Verdict:
    """Judge every draft in the folder `root` (and in its folders, but for those called as one of `skipped`), which the
    person knows as `shown`.

    A folder whose config describes a draft and that holds no weights is refused: nobody can load it. Whatever cannot be
    examined is refused too, and so is what takes longer than a gate may: a gate lets nothing in that it could not look
    at. Raises `UsageError` for a policy that names unknown rules, engines or a target that cannot be read.
    """
    asked = Asked(launch=parse_launch(policy.launch) if policy.launch else None, deep=policy.deep)
    rules = rulebook(policy.rules)
    check_rules(policy, rules)
    chosen_engines(policy.engines)
    provenance = provenance_of(policy.trained_with, policy.captured_with)
    target = read_target(policy.target) if policy.target else None
    baseline = read_baseline(policy.baseline) if policy.baseline else None
    seconds = gate_seconds()
    try:
        with time_limit(seconds):
            return _judged(root, policy, shown, today, (asked, rules, provenance, target, baseline), skipped)
    except TimeIsUpError:
        why = f"judging it takes more than {seconds} seconds (CKPTDOCTOR_GATE_SECONDS)"
        return Verdict("refused", Report((), ((shown, why),)), (f"{shown} could not be examined: {why}",))


def _judged(
    root: Path, policy: Policy, shown: str, today: date | None, given: tuple[Any, ...], skipped: frozenset[str]
) -> Verdict:
    asked, rules, provenance, target, baseline = given
    examinations: list[Examination] = []
    failed: list[tuple[str, str]] = []
    remarks: list[str] = []
    try:
        folders = drafts_in(root, skipped)
        failed += [(_label(root, f, shown), _no_weights(kind)) for f, kind in drafts_without_weights(root, skipped)]
        remarks += _own_projects(root, shown)
    except CkptdoctorError as error:
        return Verdict("refused", Report((), ((shown, str(error)),)), (f"{shown} could not be examined",))
    for folder in folders:
        check_time()
        label = _label(root, folder, shown)
        try:
            found = examination(str(folder), target, rules, policy.engines, asked, provenance=provenance)
        except CkptdoctorError as error:
            failed.append((label, str(error).replace(str(folder), label)))
            continue
        judged, said = applied(policy, replace(found, path=label), today or date.today(), baseline)
        examinations.append(judged)
        remarks += said
    report = Report(
        tuple(examinations),
        tuple(failed),
        str(policy.source) if policy.source else None,
        tuple(dict.fromkeys(remarks)),
        policy.fail_on,
        about(examinations, rules),
    )
    unread = tuple(f"{p} could not be examined: {why}" for p, why in failed)
    return Verdict(outcome_of(report, policy), report, (*unread, *fault_reasons(report)))


def _no_weights(kind: str) -> str:
    return f"its config.json describes a draft ({kind}), and there are no weights beside it, so nobody can load it"


def _own_projects(root: Path, shown: str) -> list[str]:
    """A project file in the tree has no say here, and the person is told so."""
    own = [n for n in PROJECT_FILES if n != "pyproject.toml" and (root / n).exists()]
    return [f"{name} in {shown} is not followed: what is judged does not set its own rules." for name in own]


def _label(root: Path, folder: Path, shown: str) -> str:
    inside = folder.relative_to(root).as_posix()
    return shown if inside == "." else f"{shown.rstrip('/')}/{inside}"
