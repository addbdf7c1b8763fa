"""The plan of a repair: which proposals are made, in which order, and what stays as it is and why. Pure.

Treatments come in stages (containers, prefixes, names, tensors, config, engine). After each the draft is judged again
as it would then be, so that a treatment always sees what the ones before it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.examining import Survey, survey
from ckptdoctor.facts import Target
from ckptdoctor.facts.launch import Launch
from ckptdoctor.findings import Finding, Severity
from ckptdoctor.planning import Chosen
from ckptdoctor.repair.edits import (
    AddTensor,
    CastTensor,
    ConvertPickle,
    CopyTensor,
    DropTensor,
    RenameTensor,
    ReplaceTensor,
    SetConfig,
    conflict,
)
from ckptdoctor.repair.proposal import Case, Proposal, Refusal
from ckptdoctor.repair.propose import proposed
from ckptdoctor.repair.receipts import Earlier, earlier_of
from ckptdoctor.repair.registry import treatments
from ckptdoctor.repair.state import State
from ckptdoctor.rulebook import Rule, RuleBook
from ckptdoctor.text import listing

__all__ = ["Options", "RepairPlan", "Unfixed", "plan_repair"]

_ROUNDS = 24
_LAST = 1 << 30
_CONVERT = "convert-pickle"
_OF_TENSORS = (RenameTensor, DropTensor, ReplaceTensor, CastTensor, AddTensor, CopyTensor)
_REVEALING = 4
"""Steps that are left out one after the other because of what they bring to light."""
Answer = tuple[Finding, "Proposal | Refusal | None"]
_ORDER = {"refused": 0, "broken": 1, "degraded": 2, "served": 3}


@dataclass(frozen=True)
class Options:
    """What the person asked for.

    `unsafe` allows repairs that rest on an assumption. `select` are rule ids, names, families or treatments: only
    these are made, and notes too; empty for all that answer an error or a warning. `deep` lets facts read weights.
    """

    unsafe: bool = False
    select: tuple[str, ...] = ()
    engines: tuple[Chosen, ...] = ()
    launch: Launch | None = None
    trained_with: str | None = None
    deep: bool = False


@dataclass(frozen=True)
class Unfixed:
    """A finding that stays, and why nothing is done about it, in a sentence; for one without a treatment (`treated`
    False) what its rule advises."""

    finding: Finding
    why: str
    treated: bool = True


@dataclass(frozen=True)
class RepairPlan:
    """What would be done. `before` and `after` are the draft as it is and as it would be; `steps` the proposals in the
    order in which they are made, each in the names that the steps before it left. `appeared` are errors that only the
    repaired draft would have, `ineffective` the steps whose finding would stay: with either, nothing is written.
    `writer` is the trainer in whose way the ids of the copy are read; `bases` are the draft before each step."""

    before: Survey
    after: Survey
    state: State
    steps: tuple[Proposal, ...]
    unfixed: tuple[Unfixed, ...]
    appeared: tuple[Finding, ...] = ()
    ineffective: tuple[Proposal, ...] = ()
    writer: str | None = None
    bases: tuple[State, ...] = field(default=(), repr=False)


@dataclass
class _Course:
    """What has been decided so far, by (treatment, subject)."""

    made: list[Proposal] = field(default_factory=list)
    withheld: dict[tuple[str, str], str] = field(default_factory=dict)


def plan_repair(
    checkpoint: Checkpoint,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    options: Options,
    wanted: Callable[[Proposal], bool] = lambda _: True,
) -> RepairPlan:
    """Plan the repair of `checkpoint`. `wanted` says which proposals `--select` allows. Reads no weights but small
    tensors and what a treatment has to compare.

    A step that brings an error to light which the source does not show (a field that could not be read hid it) is left
    out with what rests on it, so that the others are made.
    """
    withheld: dict[tuple[str, str], str] = {}
    plan = _plan(checkpoint, target, rules, options, wanted, withheld)
    for _ in range(_REVEALING):
        better = None
        for step in plan.steps if plan.appeared else ():
            errors = listing([f"{f.rule} {f.name}" for f in plan.appeared], 6)
            reason = (
                f"made, it would bring to light what this draft hides now ({errors}), which is to be corrected with it"
            )
            without = {**withheld, (step.treatment, step.subject): reason}
            trial = _plan(checkpoint, target, rules, options, wanted, without)
            if len(trial.appeared) < len(plan.appeared):
                better, withheld = trial, without
                break
        if better is None:
            break
        plan = better
    return plan


def _plan(
    checkpoint: Checkpoint,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    options: Options,
    wanted: Callable[[Proposal], bool],
    withheld: Mapping[tuple[str, str], str],
) -> RepairPlan:
    """The plan without the steps `withheld`, which say why they are not made."""

    def look(at: Checkpoint, writer: str | None) -> Survey:
        return survey(at, target, rules, options.engines, options.launch, writer, deep=options.deep)

    writer = options.trained_with
    before = look(checkpoint, writer)
    state, now, earlier = State.of(checkpoint), before, earlier_of(checkpoint)
    bases: list[State] = []
    course = _Course(withheld=dict(withheld))
    answers: list[Answer] = []
    for _ in range(_ROUNDS):
        case = _case(now, options, writer)
        answers = []
        batch: list[Proposal] = []
        # What a later stage would propose is not asked before the earlier ones are done: it may be long in answering.
        for findings in _by_stage(now.judgement.findings):
            more = [(finding, proposed(case, finding, earlier)) for finding in findings]
            answers += more
            batch = _next(case, more, options, wanted, course)
            if case.checkpoint.kind == "pickle":
                batch = _converted_first(case, batch, now.judgement.findings, earlier, wanted, course)
            if batch:
                break
        if not batch:
            break
        base, state = state, state.after(edit for proposal in batch for edit in proposal.edits)
        course.made += batch
        bases += [base] * len(batch)
        if _renumbers(now, batch):
            writer = None
        now = look(state.checkpoint, writer)
    unfixed = tuple(_unfixed(finding, answer, options, wanted, course) for finding, answer in answers)
    still = {(a.treatment, a.subject) for _, a in answers if isinstance(a, Proposal)}
    ineffective = tuple(p for p in course.made if (p.treatment, p.subject) in still)
    return RepairPlan(
        before, now, state, tuple(course.made), unfixed, _appeared(before, now), ineffective, writer, tuple(bases)
    )


def _converted_first(
    case: Case,
    batch: list[Proposal],
    findings: Sequence[Finding],
    earlier: Earlier,
    wanted: Callable[[Proposal], bool],
    course: _Course,
) -> list[Proposal]:
    """What can be made of PyTorch files: when tensors are to change, their conversion alone, which has to come first.

    Where they cannot be converted, or are not to be, the changes of tensors are left out.
    """
    changing = [p for p in batch if any(isinstance(edit, _OF_TENSORS) for edit in p.edits)]
    if not changing or any(isinstance(edit, ConvertPickle) for p in batch for edit in p.edits):
        return batch
    asked = (f for f in findings if f.fix is not None and f.fix.treatment == _CONVERT)
    answer = next((proposed(case, finding, earlier) for finding in asked), None)
    if isinstance(answer, Proposal) and wanted(answer):
        return [answer]
    why = f"the weights are PyTorch files, which are not written again: select '{_CONVERT}' too"
    if not isinstance(answer, Proposal):
        why = (
            f"the weights are PyTorch files and cannot be converted: {answer.why if answer else 'no rule asks for it'}"
        )
    course.withheld |= {(p.treatment, p.subject): why for p in changing}
    return [p for p in batch if p not in changing]


def _renumbers(now: Survey, batch: Sequence[Proposal]) -> bool:
    """Whether a step writes the captured layers in other numbers: then they are no longer in the trainer's."""
    places = {source.key for source in now.facts.draft.aux.sources}
    return any(isinstance(e, SetConfig) and e.key in places for p in batch for e in p.edits)


def _case(now: Survey, options: Options, writer: str | None) -> Case:
    releases = tuple((contract, release) for contract, release, _ in options.engines)
    return Case(now.checkpoint, now.facts, releases, now.plans, options.launch, writer, reads=True)


def _next(
    case: Case,
    answers: Sequence[Answer],
    options: Options,
    wanted: Callable[[Proposal], bool],
    course: _Course,
) -> list[Proposal]:
    """The proposals of one stage that can be made now, those in conflict taken out for good."""
    made = {(p.treatment, p.subject) for p in course.made}
    open_ones: list[Proposal] = []
    for finding, answer in answers:
        if not isinstance(answer, Proposal) or not answer.edits:
            continue
        key = (answer.treatment, answer.subject)
        if key not in made and key not in course.withheld and _allowed(case, finding, answer, options, wanted):
            open_ones.append(answer)
    batch = _joined(open_ones)
    return [p for p in batch if not _disputed(p, batch, course)]


def _by_stage(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings whose treatments are made together, the first stage first; last those without one."""
    stages: dict[int, list[Finding]] = {}
    for finding in findings:
        stage = _LAST if finding.fix is None else treatments()[finding.fix.treatment].stage
        stages.setdefault(stage, []).append(finding)
    return [stages[stage] for stage in sorted(stages)]


def _joined(proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals, those that make the same edits as one that answers all their findings."""
    joined: dict[tuple[str, str, tuple[object, ...]], Proposal] = {}
    for proposal in proposals:
        key = (proposal.treatment, proposal.subject, proposal.edits)
        if key in joined:
            rules = tuple(dict.fromkeys((*joined[key].rules, *proposal.rules)))
            joined[key] = replace(joined[key], rules=rules)
        else:
            joined[key] = proposal
    return list(joined.values())


def _disputed(proposal: Proposal, batch: Sequence[Proposal], course: _Course) -> bool:
    """Whether another proposal of the batch wants something else of the same thing; both are then withheld."""
    for other in batch:
        if other is proposal:
            continue
        found = next((a for x in proposal.edits for y in other.edits if (a := conflict(x, y)) is not None), None)
        if found is not None:
            course.withheld[(proposal.treatment, proposal.subject)] = (
                f"two repairs want something else of {found[1]} ({listing((*proposal.rules, *other.rules), 6)}), so"
                " neither is made; choose one with --select"
            )
            return True
    return False


def _allowed(
    case: Case, finding: Finding, proposal: Proposal, options: Options, wanted: Callable[[Proposal], bool]
) -> bool:
    if not wanted(proposal) or (proposal.safety == "unsafe" and not options.unsafe):
        return False
    return finding.severity is not Severity.NOTE or bool(options.select) or _helps(case, proposal)


def _helps(case: Case, proposal: Proposal) -> bool:
    """Whether a named engine serves the draft better with the proposal, and none worse."""
    if not case.engines:
        return False
    pairs = list(zip(case.plans, case.plans_after(proposal.edits), strict=True))
    gains = [_ORDER[after.outcome] - _ORDER[now.outcome] for now, after in pairs]
    fewer = any(len(after.errors) < len(now.errors) for now, after in pairs)
    return min(gains) >= 0 and (max(gains) > 0 or fewer)


def _appeared(before: Survey, after: Survey) -> tuple[Finding, ...]:
    """Errors that the repaired draft has and the source neither had nor had to skip. How an engine serves that stops
    before it could is skipped too."""
    known = {pair for f in before.judgement.findings if f.severity is Severity.ERROR for pair in _by_engine(f)}
    skipped = {skip.rule for skip in before.judgement.skipped}
    refused = {f"{plan.engine}=={plan.version}" for plan in before.plans if plan.outcome == "refused"}
    return tuple(
        f
        for f in after.judgement.findings
        if f.severity is Severity.ERROR
        and f.rule not in skipped
        and any(pair not in known and pair[1] not in refused for pair in _by_engine(f))
    )


def _by_engine(finding: Finding) -> list[tuple[str, str]]:
    return [(finding.rule, engine) for engine in finding.engines or ("",)]


def _unfixed(
    finding: Finding,
    answer: Proposal | Refusal | None,
    options: Options,
    wanted: Callable[[Proposal], bool],
    course: _Course,
) -> Unfixed:
    why = _why(finding, answer, options, wanted, course)
    return Unfixed(finding, why, answer is not None and (isinstance(answer, Refusal) or bool(answer.edits)))


def _why(
    finding: Finding,
    answer: Proposal | Refusal | None,
    options: Options,
    wanted: Callable[[Proposal], bool],
    course: _Course,
) -> str:
    if isinstance(answer, Refusal):
        return answer.why
    if answer is None or not answer.edits:
        return finding.advice
    withheld = course.withheld.get((answer.treatment, answer.subject))
    if withheld is not None:
        return withheld
    if (answer.treatment, answer.subject) in {(p.treatment, p.subject) for p in course.made}:
        return f"'{answer.treatment}' was made and did not take it away"
    if not wanted(answer):
        return f"'{answer.treatment}' is not among what --select names"
    if answer.safety == "unsafe" and not options.unsafe:
        return f"it would rest on an assumption, and needs --unsafe: {answer.assumption}"
    return f"a note is left alone unless --select names it (--select {finding.rule})"
