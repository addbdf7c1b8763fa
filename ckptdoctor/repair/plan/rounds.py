"""One course of a repair: its steps in their order, the draft after them, and what stays as it is. Pure.

Treatments come in stages (containers, prefixes, names, tensors, config, engine). After each the draft is judged again
as it would then be, so that a treatment always sees what the ones before it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.examining import Survey, survey
from ckptdoctor.facts import Target
from ckptdoctor.findings import Finding, Severity
from ckptdoctor.repair.edits import (
    AddTensor,
    CastTensor,
    ConvertPickle,
    CopyTensor,
    DropTensor,
    RenameTensor,
    ReplaceTensor,
    SetConfig,
)
from ckptdoctor.repair.plan.case import Case, Proposal, Refusal
from ckptdoctor.repair.plan.deciding import Course, Options, Unfixed, allowed, disputed, joined, rivals, unfixed
from ckptdoctor.repair.plan.proposing import proposed
from ckptdoctor.repair.plan.treatments_known import treatments
from ckptdoctor.repair.receipt_reading import Earlier, earlier_of
from ckptdoctor.repair.state import State
from ckptdoctor.repair.words import said
from ckptdoctor.rulebook import Rule, RuleBook
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance

__all__ = ["NOTHING_SETTLED", "RepairPlan", "Settled", "run"]

_ROUNDS = 24
_LAST = 1 << 30
_CONVERT = "convert-pickle"
_OF_TENSORS = (RenameTensor, DropTensor, ReplaceTensor, CastTensor, AddTensor, CopyTensor)
Answer = tuple[Finding, "Proposal | Refusal | None"]


@dataclass(frozen=True)
class RepairPlan:
    """What would be done. `before` and `after` are the draft as it is and as it would be; `steps` the proposals in the
    order in which they are made, each in the names that the steps before it left. `appeared` are errors that only the
    repaired draft would have, `ineffective` the steps whose finding would stay: with either, nothing is written.
    `provenance` is what was said of the training, as far as it holds for the ids of the copy; `bases` are the draft
    before each step.
    `unasked` says that there are repairs which only `--unsafe` makes."""

    before: Survey
    after: Survey
    state: State
    steps: tuple[Proposal, ...]
    unfixed: tuple[Unfixed, ...]
    appeared: tuple[Finding, ...] = ()
    ineffective: tuple[Proposal, ...] = ()
    provenance: Provenance = NOTHING_SAID
    bases: tuple[State, ...] = field(default=(), repr=False)
    unasked: bool = False


@dataclass(frozen=True)
class Settled:
    """What is known of single steps before a course begins, by `Proposal.key`: those that are `withheld` and why, and
    those that are unsafe because of what they are `assumed` to do."""

    withheld: Mapping[tuple[str, str], str] = field(default_factory=dict)
    assumed: Mapping[tuple[str, str], str] = field(default_factory=dict)


NOTHING_SETTLED = Settled()


def run(
    before: Survey,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    options: Options,
    wanted: Callable[[Proposal], bool],
    settled: Settled = NOTHING_SETTLED,
) -> RepairPlan:
    """Make the repairs of `before`, stage by stage, with regard to what is `settled`."""

    def look(at: Checkpoint, provenance: Provenance) -> Survey:
        return survey(at, target, rules, options.engines, options.asked, provenance)

    provenance, checkpoint = options.provenance, before.checkpoint
    state, now, earlier = State.of(checkpoint), before, earlier_of(checkpoint)
    bases: list[State] = []
    course = Course(withheld=dict(settled.withheld))
    answers: list[Answer] = []
    for _ in range(_ROUNDS):
        case = _case(now, options, provenance)
        answers = []
        batch: list[Proposal] = []
        # What a later stage would propose is not asked before the earlier ones are done: it may be long in answering.
        for findings in _by_stage(now.judgement.findings):
            more = [(finding, _settled(proposed(case, finding, earlier), settled)) for finding in findings]
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
        course.made_keys |= {p.key for p in batch}
        bases += [base] * len(batch)
        provenance = _said_of_ids(now, batch, provenance)
        now = look(state.checkpoint, provenance)
    stay = tuple(unfixed(finding, answer, options, wanted, course) for finding, answer in answers)
    still = {a.key for _, a in answers if isinstance(a, Proposal)}
    ineffective = tuple(p for p in course.made if p.key in still)
    unasked = not options.unsafe and any(_waits(f, answer, options, wanted, course) for f, answer in answers)
    return RepairPlan(
        before,
        now,
        state,
        tuple(course.made),
        stay,
        _appeared(before, now),
        ineffective,
        provenance,
        tuple(bases),
        unasked,
    )


def _settled(answer: Proposal | Refusal | None, settled: Settled) -> Proposal | Refusal | None:
    if isinstance(answer, Proposal) and answer.safety == "safe" and answer.key in settled.assumed:
        return answer.resting_on(settled.assumed[answer.key])
    return answer


def _waits(
    finding: Finding,
    answer: Proposal | Refusal | None,
    options: Options,
    wanted: Callable[[Proposal], bool],
    course: Course,
) -> bool:
    """Whether this is a repair that is not made because it is unsafe."""
    if not isinstance(answer, Proposal) or answer.safety == "safe" or not answer.edits:
        return False
    if finding.severity is Severity.NOTE and not (options.select or options.engines):
        return False
    return wanted(answer) and answer.key not in course.withheld


def _converted_first(
    case: Case,
    batch: list[Proposal],
    findings: Sequence[Finding],
    earlier: Earlier,
    wanted: Callable[[Proposal], bool],
    course: Course,
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
    if isinstance(answer, Proposal):
        why = said("pickles_kept", treatment=_CONVERT)
    else:
        why = said("pickles_refused", why=answer.why) if answer is not None else said("pickles_unasked")
    course.withheld |= {p.key: why for p in changing}
    return [p for p in batch if p not in changing]


def _said_of_ids(now: Survey, batch: Sequence[Proposal], provenance: Provenance) -> Provenance:
    """What holds of the ids once these steps are made: numbers that were written for a release are that release's, and
    no longer the trainer's."""
    places = {source.key for source in now.facts.draft.aux.sources}
    for step in batch:
        if any(isinstance(e, SetConfig) and e.key in places for e in step.edits):
            engine, _, release = step.engines[0].partition("==") if step.engines else ("", "", "")
            return Provenance(None, (engine, release), written_for=True) if release else NOTHING_SAID
    return provenance


def _case(now: Survey, options: Options, provenance: Provenance) -> Case:
    releases = tuple((contract, release) for contract, release, _ in options.engines)
    return Case(
        now.checkpoint, now.facts, releases, now.plans, options.asked.launch, provenance, reads=True,
        most_read=options.most_read,
    )  # fmt: skip


def _next(
    case: Case,
    answers: Sequence[Answer],
    options: Options,
    wanted: Callable[[Proposal], bool],
    course: Course,
) -> list[Proposal]:
    """The proposals of one stage that can be made now, those in conflict taken out for good."""
    open_ones: list[Proposal] = []
    for finding, answer in answers:
        if not isinstance(answer, Proposal) or not answer.edits:
            continue
        if (
            answer.key not in course.made_keys
            and answer.key not in course.withheld
            and allowed(case, finding, answer, options, wanted)
        ):
            open_ones.append(answer)
    batch = joined(open_ones)
    beside = rivals(batch)
    return [p for p in batch if not disputed(p, beside(p), course)]


def _by_stage(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings whose treatments are made together, the first stage first; last those without one."""
    stages: dict[int, list[Finding]] = {}
    for finding in findings:
        stage = _LAST if finding.fix is None else treatments()[finding.fix.treatment].stage
        stages.setdefault(stage, []).append(finding)
    return [stages[stage] for stage in sorted(stages)]


def _appeared(before: Survey, after: Survey) -> tuple[Finding, ...]:
    """Errors that the repaired draft has and the source neither had nor had to skip. How an engine serves that stops
    before it could is skipped too."""
    known = {pair for f in before.judgement.findings if f.severity is Severity.ERROR for pair in _by_engine(f)}
    skipped = {skip.rule for skip in before.judgement.skipped} | {fault.part for fault in before.judgement.faults}
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
