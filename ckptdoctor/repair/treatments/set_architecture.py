"""architectures names the class that builds what is stored: chosen by planning the draft under every class that is known.

Engines choose the class by this name (SGLang models/registry.py, vLLM registry.py) and do not look whether it suits.
"""

from __future__ import annotations

from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.repair.choosing import Option, lost, reach, suits_all, unlike
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.proposal import Case, Proposed, RefusedError
from ckptdoctor.serving import contracts
from ckptdoctor.text import listing

__all__ = ["propose"]

_KEY = "architectures"


def propose(case: Case) -> Proposed:
    """One class name for the list `architectures`.

    For named engines the one that is best for each of them, else the one under which most known releases load the
    draft whole. Never one that drops a stored part of the draft. Refused where nothing is better than what is there,
    and where engines want different names.
    """
    if not case.facts.draft.has_config:
        raise RefusedError("no_config")
    options = [Option("the name as it is", ()), *(Option(n, (SetConfig(_KEY, [n]),)) for n in _names(case))]
    chosen = _for_engines(case, options) if case.engines else _for_most(case, options)
    return Proposed(chosen.edits, subject=_KEY)


def _names(case: Case) -> list[str]:
    """The names of classes for this kind of draft: those that trainers write, then those that a named engine has."""
    draft = case.facts.draft
    kinds = {draft.algorithm, "eagle3"} if draft.algorithm == "peagle" else {draft.algorithm}
    known = knowledge().architectures
    named = [contract for contract, _ in case.engines]
    asked = named or [c for c in contracts().values() if c.raw.get("in_scans")]
    rows = {
        row["name"]: contract in named
        for contract in asked
        for row in contract.raw["architectures"]
        if draft.algorithm in contract.raw["classes"][row["class"]].get("algorithms", ())
        and known.get(row["name"], {}).get("algorithm", draft.algorithm) in kinds
    }
    usual = [n for n in known if n in rows]
    return [*usual, *(n for n in rows if n not in known and rows[n] and n != "*")]


def _for_engines(case: Case, options: list[Option]) -> Option:
    chosen, scores = suits_all(case, options)
    if not chosen.edits or not unlike(case, scores):
        raise RefusedError("nothing", engine=listing([p.label for p in case.plans]))
    facts = case.after(chosen.edits)
    for plan in case.plans_after(chosen.edits):
        gone = lost(plan, facts)
        if gone:
            raise RefusedError("drops", engine=plan.label, name=chosen.label, names=gone[:4])
    return chosen


def _for_most(case: Case, options: list[Option]) -> Option:
    found = [(option, reach(case, case.after(option.edits))) for option in options]
    now = found[0][1]
    chosen, best = max(found, key=lambda pair: (pair[1].whole, pair[1].served))
    if not chosen.edits or best.whole <= now.whole:
        raise RefusedError("nothing", engine="known release")
    missing = now.newest - best.newest
    if missing:
        raise RefusedError("engines_differ", name=chosen.label, engines=sorted(missing))
    return chosen
