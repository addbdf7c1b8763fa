"""architectures names the class that builds what is stored: found by planning the draft under every known class.

Engines choose the class by this name (SGLang models/registry.py, vLLM registry.py) and do not look whether it suits.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.plan.choosing import Option, Score, helps, lost, suits_all
from ckptdoctor.repair.plan.reaching import loads_newest, newest_scores, reach
from ckptdoctor.repair.support.layouts import layouts
from ckptdoctor.serving import contracts
from ckptdoctor.serving.contract.contracts import Release
from ckptdoctor.text import listing
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]

_KEY = "architectures"
_LOST = 3
"""Where a score counts the stored parts without a place."""


def propose(case: Case) -> Proposed:
    """One class name for the list `architectures`.

    For named engines the one that is best for each of them, else the one under which most known releases load the
    draft whole. Never one that drops a stored part of the draft. Refused where the kind of draft is a guess, where
    nothing is better than what is there, and where engines want different names.
    """
    _refuse_guess(case)
    options = [Option("the name as it is", ()), *(Option(n, (SetConfig(_KEY, [n]),)) for n in _names(case))]
    chosen = _for_engines(case, options) if case.engines else _for_most(case, options)
    return Proposed(chosen.edits, subject=_KEY)


def _refuse_guess(case: Case) -> None:
    """Refuse while the kind of draft is one reading among several, or tensors are stored that it has no place for."""
    draft = case.facts.draft
    if "draft.algorithm" in case.facts.uncertain:
        raise RefusedError("guess", kind=draft.algorithm_name)
    strangers = () if isinstance(draft.names, Unknown) else draft.names.strangers
    odd = [name for s in strangers if s.kind == "unknown" and not s.explained for name in s.names]
    if odd:
        raise RefusedError("strange", kind=draft.algorithm_name, names=odd[:4])


def _names(case: Case) -> list[str]:
    """The names of classes for this kind of draft: those that trainers write, then those that a named engine has."""
    draft = case.facts.draft
    kinds = {draft.algorithm, *draft.kind.serves_as}
    known = knowledge().architectures
    named = [contract for contract, _ in case.engines]
    asked = named or [c for c in contracts().values() if c.raw.get("in_scans")]
    releases = [Release(contract, version) for contract, version in case.engines]
    rows = {
        row["name"]: contract in named
        for contract in asked
        for row in contract.raw["architectures"]
        if all(release.holds(row) for release in releases if release.contract is contract)
        and draft.algorithm in contract.raw["classes"][row["class"]].get("algorithms", ())
        and known.get(row["name"], {}).get("algorithm", draft.algorithm) in kinds
    }
    usual = [n for n in known if n in rows]
    return [*usual, *(n for n in rows if n not in known and rows[n] and n != "*")]


def _for_engines(case: Case, options: list[Option]) -> Option:
    """The name that suits the named engines as the tensors are called now, else as they could be called."""
    found = _best(case, options, ()) or _best(case, options, layouts(case.facts)[1:])
    if found is None:
        raise RefusedError("nothing", engine=listing([p.label for p in case.plans]))
    chosen, scores = found
    for plan, row in zip(case.plans_after(chosen.edits), scores, strict=True):
        if row[_LOST]:
            gone = lost(plan, case.after(chosen.edits))
            raise RefusedError("drops", engine=plan.label, name=chosen.label, names=gone[:4])
    _stays_loud(case, chosen)
    return chosen


def _stays_loud(case: Case, chosen: Option) -> None:
    """Refuse a class that turns a loud stop into a draft that runs on random numbers, whatever its names become."""
    for number, before in enumerate(case.plans):
        if not before.is_refused:
            continue
        left: list[tuple[str, ...]] = []
        for more in ((), *(option.edits for option in layouts(case.facts)[1:])):
            plan = case.plans_after((*chosen.edits, *more))[number]
            if not plan.is_refused:
                biases = frozenset(plan.left_biases)
                left.append(tuple(n for n in plan.left_random if n not in biases))
        least = min(left, key=len, default=())
        if least:
            raise RefusedError("random", engine=before.label, name=chosen.label, names=least[:4])


def _best(case: Case, options: list[Option], later: Sequence[Option]) -> tuple[Option, tuple[Score, ...]] | None:
    """The best name and its scores; None where the one that is there is as good.

    Without `later` also None where it is not clear as the tensors are called now.
    """
    try:
        chosen, scores = suits_all(case, options, later)
    except RefusedError:
        if later:
            raise
        return None
    if not chosen.edits or not helps(case, scores, later) or (not later and any(row[_LOST] for row in scores)):
        return None
    return chosen, scores


def _for_newest(case: Case, options: list[Option]) -> Option:
    """The name under which the newest releases lose least, where something else stops all of them.

    Better for one of the engines, worse for none, and dropping nothing.
    """
    rows = [newest_scores(case, case.after(o.edits) if o.edits else case.facts) for o in options]
    better = [
        (row, option)
        for row, option in zip(rows[1:], options[1:], strict=True)
        if row != rows[0] and all(new <= old and not new[_LOST] for new, old in zip(row, rows[0], strict=True))
    ]
    if not better:
        raise RefusedError("nothing_known")
    return min(better, key=lambda pair: pair[0])[1]


def _for_most(case: Case, options: list[Option]) -> Option:
    now = reach(case, case.facts)
    # All releases are asked only about names that a newest one takes.
    facts = {option.label: case.after(option.edits) for option in options[1:]}
    found = [(o, reach(case, facts[o.label])) for o in options[1:] if loads_newest(case, facts[o.label])]
    if not found:
        return _for_newest(case, options)
    chosen, best = max(found, key=lambda pair: (pair[1].whole, pair[1].served))
    if best.whole <= now.whole:
        raise RefusedError("nothing_known")
    missing = now.newest - best.newest
    if missing:
        raise RefusedError("engines_differ", name=chosen.label, engines=sorted(missing))
    return chosen
