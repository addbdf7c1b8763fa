"""The plan of a repair: which proposals are made, in which order, and what stays as it is and why. Pure.

Treatments come in stages (containers, prefixes, names, tensors, config, engine). After each the draft is judged again
as it would then be, so that a treatment always sees what the ones before it left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.examining import Survey, survey
from ckptdoctor.facts import Target
from ckptdoctor.facts.launch import Launch
from ckptdoctor.findings import Finding, Severity
from ckptdoctor.planning import Chosen
from ckptdoctor.repair.edits import conflict
from ckptdoctor.repair.proposal import Case, Proposal, Refusal
from ckptdoctor.repair.propose import proposed
from ckptdoctor.repair.receipts import earlier_of
from ckptdoctor.repair.registry import treatments
from ckptdoctor.repair.state import State
from ckptdoctor.rulebook import Rule, RuleBook
from ckptdoctor.text import listing

__all__ = ["Options", "RepairPlan", "Unfixed", "plan_repair"]

_ROUNDS = 24
_ORDER = {"refused": 0, "broken": 1, "degraded": 2, "served": 3}


@dataclass(frozen=True)
class Options:
    """What the person asked for.

    `unsafe` allows repairs that rest on an assumption. `select` are rule ids, names, families or treatments: only
    these are made, and notes too; empty for all that answer an error or a warning.
    """

    unsafe: bool = False
    select: tuple[str, ...] = ()
    engines: tuple[Chosen, ...] = ()
    launch: Launch | None = None
    trained_with: str | None = None


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
    repaired draft would have, `ineffective` the steps whose finding would stay: with either, nothing is written. `bases`
    are the draft before each step."""

    before: Survey
    after: Survey
    state: State
    steps: tuple[Proposal, ...]
    unfixed: tuple[Unfixed, ...]
    appeared: tuple[Finding, ...] = ()
    ineffective: tuple[Proposal, ...] = ()
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
    tensors and what a treatment has to compare."""

    def look(at: Checkpoint) -> Survey:
        return survey(at, target, rules, options.engines, options.launch, options.trained_with)

    before = look(checkpoint)
    state, now, earlier = State.of(checkpoint), before, earlier_of(checkpoint)
    bases: list[State] = []
    course = _Course()
    answers: list[tuple[Finding, Proposal | Refusal | None]] = []
    for _ in range(_ROUNDS):
        case = _case(now, options)
        answers = [(finding, proposed(case, finding, earlier)) for finding in now.judgement.findings]
        batch = _next(case, answers, options, wanted, course)
        if not batch:
            break
        base, state = state, state.after(edit for proposal in batch for edit in proposal.edits)
        course.made += batch
        bases += [base] * len(batch)
        now = look(state.checkpoint)
    unfixed = tuple(_unfixed(finding, answer, options, wanted, course) for finding, answer in answers)
    still = {(a.treatment, a.subject) for _, a in answers if isinstance(a, Proposal)}
    ineffective = tuple(p for p in course.made if (p.treatment, p.subject) in still)
    return RepairPlan(
        before, now, state, tuple(course.made), unfixed, _appeared(before, now), ineffective, tuple(bases)
    )


def _case(now: Survey, options: Options) -> Case:
    releases = tuple((contract, release) for contract, release, _ in options.engines)
    return Case(now.checkpoint, now.facts, releases, now.plans, options.launch, options.trained_with, reads=True)


def _next(
    case: Case,
    answers: Sequence[tuple[Finding, Proposal | Refusal | None]],
    options: Options,
    wanted: Callable[[Proposal], bool],
    course: _Course,
) -> list[Proposal]:
    """The proposals of the lowest stage that can be made now, those in conflict taken out for good."""
    while True:
        made = {(p.treatment, p.subject) for p in course.made}
        open_ones: list[Proposal] = []
        for finding, answer in answers:
            if not isinstance(answer, Proposal) or not answer.edits:
                continue
            key = (answer.treatment, answer.subject)
            if key in made or key in course.withheld or not _allowed(case, finding, answer, options, wanted):
                continue
            open_ones.append(answer)
        if not open_ones:
            return []
        stage = min(treatments()[p.treatment].stage for p in open_ones)
        batch = _joined([p for p in open_ones if treatments()[p.treatment].stage == stage])
        good = [p for p in batch if not _disputed(p, batch, course)]
        if good:
            return good


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
                f"two repairs want something else of {found[1]} ({listing((*proposal.rules, *other.rules), 6)}), so neither"
                " is made; choose one with --select"
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
    """Errors that the repaired draft has and the source neither had nor had to skip."""
    known: Collection[str] = {f.rule for f in before.judgement.findings if f.severity is Severity.ERROR}
    skipped = {skip.rule for skip in before.judgement.skipped}
    return tuple(
        f
        for f in after.judgement.findings
        if f.severity is Severity.ERROR and f.rule not in known and f.rule not in skipped
    )


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


