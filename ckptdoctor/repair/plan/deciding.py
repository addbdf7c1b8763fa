"""Which of the proposals are made: what was asked for, what is in conflict, and why the others are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ckptdoctor.facts.asked import NOTHING_ASKED, Asked
from ckptdoctor.findings import Finding, Severity
from ckptdoctor.planning import Chosen
from ckptdoctor.repair.edits import Aspect, aspects, conflict
from ckptdoctor.repair.plan.case import Case, Proposal, Refusal
from ckptdoctor.repair.plan.proving import worse
from ckptdoctor.repair.words import said
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance
from ckptdoctor.serving.outcomes import is_better
from ckptdoctor.text import listing, show

__all__ = ["Course", "Options", "Unfixed", "allowed", "disputed", "joined", "rivals", "unfixed"]


@dataclass(frozen=True)
class Options:
    """What the person asked for.

    `unsafe` allows repairs that rest on an assumption. `select` are rule ids, names, families or treatments: only
    these are made, and notes too; empty for all that answer an error or a warning. `asked` is what facts may use beside
    the files. `most_read` are the bytes of a large tensor that may be compared with another one, None for all.
    """

    unsafe: bool = False
    select: tuple[str, ...] = ()
    engines: tuple[Chosen, ...] = ()
    provenance: Provenance = NOTHING_SAID
    asked: Asked = NOTHING_ASKED
    most_read: int | None = None


@dataclass(frozen=True)
class Unfixed:
    """A finding that stays, and why nothing is done about it, in a sentence; for one without a treatment (`treated`
    False) what its rule advises."""

    finding: Finding
    why: str
    treated: bool = True


@dataclass
class Course:
    """What has been decided so far, by (treatment, subject)."""

    made: list[Proposal] = field(default_factory=list)
    made_keys: set[tuple[str, str]] = field(default_factory=set)
    withheld: dict[tuple[str, str], str] = field(default_factory=dict)


def joined(proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals, those that make the same edits as one that answers all their findings."""
    found: dict[tuple[str, str, tuple[object, ...]], Proposal] = {}
    for proposal in proposals:
        key = (proposal.treatment, proposal.subject, proposal.edits)
        if key in found:
            first = found[key]
            rules = tuple(dict.fromkeys((*first.rules, *proposal.rules)))
            engines = tuple(dict.fromkeys((*first.engines, *proposal.engines)))
            sure = proposal if first.safety == "unsafe" else first
            found[key] = replace(sure, rules=rules, engines=engines, read=first.read or proposal.read)
        else:
            found[key] = proposal
    return list(found.values())


def rivals(batch: Sequence[Proposal]) -> Callable[[Proposal], list[Proposal]]:
    """The proposals of a batch that want something of a thing that another one also wants something of."""
    found: dict[Aspect, list[int]] = {}
    for number, proposal in enumerate(batch):
        for thing in _things(proposal):
            found.setdefault(thing, []).append(number)

    def beside(proposal: Proposal) -> list[Proposal]:
        numbers = {number for thing in _things(proposal) for number in found.get(thing, ())}
        return [batch[number] for number in sorted(numbers)]

    return beside


def _things(proposal: Proposal) -> set[Aspect]:
    """What the proposal is about; of a config the outermost keys, since an object is in conflict with its members."""
    every = (aspect for edit in proposal.edits for aspect in aspects(edit))
    return {(kind, key.partition(".")[0] if kind == "config" else key) for kind, key in every}


def disputed(proposal: Proposal, batch: Sequence[Proposal], course: Course) -> bool:
    """Whether another proposal of the batch wants something else of the same thing; both are then withheld."""
    for other in batch:
        if other is proposal:
            continue
        found = next((a for x in proposal.edits for y in other.edits if (a := conflict(x, y)) is not None), None)
        if found is not None:
            rules = listing((*proposal.rules, *other.rules), 6)
            course.withheld[proposal.key] = said("disputed", thing=show(found[1]), rules=rules)
            return True
    return False


def allowed(
    case: Case, finding: Finding, proposal: Proposal, options: Options, wanted: Callable[[Proposal], bool]
) -> bool:
    """Whether the proposal may be made: selected, safe (or unsafe ones asked for), and for more than a mere note."""
    if not wanted(proposal) or (proposal.safety == "unsafe" and not options.unsafe):
        return False
    return finding.severity is not Severity.NOTE or bool(options.select) or _helps(case, proposal)


def _helps(case: Case, proposal: Proposal) -> bool:
    """Whether a named engine serves the draft better with the proposal, and none worse."""
    if not case.engines:
        return False
    pairs = list(zip(case.plans, case.plans_after(proposal.edits), strict=True))
    if any(worse(now, after) for now, after in pairs):
        return False
    return any(is_better(after.outcome, now.outcome) or len(after.errors) < len(now.errors) for now, after in pairs)


def unfixed(
    finding: Finding,
    answer: Proposal | Refusal | None,
    options: Options,
    wanted: Callable[[Proposal], bool],
    course: Course,
) -> Unfixed:
    """A finding that stays, with the reason."""
    why = _why(finding, answer, options, wanted, course)
    return Unfixed(finding, why, answer is not None and (isinstance(answer, Refusal) or bool(answer.edits)))


def _why(
    finding: Finding,
    answer: Proposal | Refusal | None,
    options: Options,
    wanted: Callable[[Proposal], bool],
    course: Course,
) -> str:
    if isinstance(answer, Refusal):
        return answer.why
    if answer is None or not answer.edits:
        return finding.advice
    withheld = course.withheld.get(answer.key)
    if withheld is not None:
        return withheld
    if answer.key in course.made_keys:
        return said("not_gone", treatment=answer.treatment)
    if not wanted(answer):
        return said("not_selected", treatment=answer.treatment)
    if answer.safety == "unsafe" and not options.unsafe:
        return said("needs_unsafe", assumption=answer.assumption)
    return said("note", rule=finding.rule)
