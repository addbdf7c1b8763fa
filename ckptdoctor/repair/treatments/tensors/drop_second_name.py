"""Of two names for one parameter with the same bytes, one is left out.

To vLLM, and to SGLang from 0.5.12 on, midlayer and layers.0 are the same layer, and of two tensors the later one
stays. With equal bytes it does not matter which; with different ones the training run decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ckptdoctor.facts.naming.canonical import Named
from ckptdoctor.repair.edits import DropTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.alike import alike
from ckptdoctor.repair.support.layouts import named_tensors
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]

_Style = tuple[str, str, str]


def propose(case: Case) -> Proposed:
    """All names but one of each parameter left out; refused when any two of them differ by a byte.

    The same kind of name is kept for all: the one with which the named engines serve best, else the one that
    most other tensors have, else the shortest prefix and the name of an only layer (`midlayer`), which the older
    releases know too.
    """
    draft = case.facts.draft
    if isinstance(draft.names, Unknown) or not draft.names.collisions:
        raise RefusedError("unread")
    named = named_tensors(case.facts)
    colliding = {named[name].canonical for name in draft.names.collisions}
    rivals: dict[str, list[Named]] = defaultdict(list)
    for name in named.values():
        if name.canonical in colliding:
            rivals[name.canonical].append(name)
    if case.reads:
        for names in rivals.values():
            _refuse_unlike(case, names)
    votes = Counter(_style(n) for n in named.values() if n.canonical not in colliding)
    styles = sorted({_style(n) for names in rivals.values() for n in names}, key=lambda s: _preference(s, votes))
    choices = [_dropped(rivals, [style, *styles]) for style in styles]
    best = max(choices, key=lambda edits: _served(case, edits)) if case.engines else choices[0]
    return Proposed(best, subject="second names")


def _style(name: Named) -> _Style:
    """What a name has beyond its canonical form: prefix, layer without its number, and whose own it is."""
    return name.prefix, name.alias.split(".")[0], name.private


def _preference(style: _Style, votes: Counter[_Style]) -> tuple[int, int, int, bool]:
    prefix, alias, private = style
    return -votes[style], len(private), len(prefix), alias == "layers"


def _dropped(rivals: dict[str, list[Named]], wanted: Sequence[_Style]) -> tuple[DropTensor, ...]:
    edits = []
    for names in rivals.values():
        kept = min(names, key=lambda n: wanted.index(_style(n)))
        edits += [DropTensor(n.stored) for n in names if n is not kept]
    return tuple(edits)


def _served(case: Case, edits: Sequence[DropTensor]) -> tuple[int, int]:
    """How the named engines would serve: the worst outcome, then all of them together."""
    outcomes = [plan.outcome.worth for plan in case.plans_after(edits)]
    return min(outcomes), sum(outcomes)


def _refuse_unlike(case: Case, names: Sequence[Named]) -> None:
    first, *others = (case.checkpoint.tensors[n.stored] for n in names)
    for other in others:
        same = alike(case.checkpoint, first, other, case.most_read)
        if isinstance(same, Unknown):
            raise RefusedError("uncompared", first=first.name, second=other.name)
        if not same:
            raise RefusedError("differ", first=first.name, second=other.name)
