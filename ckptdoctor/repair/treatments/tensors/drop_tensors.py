"""Tensors that are no part of the draft are left out: copies of the target, rotary buffers, a trainer's own.

vLLM stops on a name that it has no parameter for; SGLang from 0.4.9 on and the EAGLE reference pass over it. What no
engine reads can go, unless it is a trained part of the draft under another name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from ckptdoctor.facts import Facts
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.repair.edits import DropTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.layouts import named_tensors
from ckptdoctor.repair.support.once import once
from ckptdoctor.serving import LoadPlan
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]


def propose(case: Case, names: Sequence[str], kind: str, resembles: str | None) -> Proposed:
    """`names` left out. `kind` and `resembles` are those of the `Stranger` that they are.

    Refused as long as the draft lacks anything that they might be or may be of another kind, and for names that a named
    engine reads, that stand where the draft's own stand, inside a decoder layer, or are low-rank adapters.
    """
    draft, gone = case.facts.draft, frozenset(names)
    if resembles is not None:
        raise RefusedError("resembles", name=names[0], resembles=resembles)
    for plan in case.plans:
        used = gone & _used(plan)
        if used:
            first = next(name for name in case.facts.tensors if name in used)
            raise RefusedError("read", name=first, engine=plan.label)
    adapters = [re.compile(pattern) for pattern in knowledge().naming["adapter_parts"]]
    adapter = next((n for n in names if any(p.search(n) for p in adapters)), None)
    if adapter is not None:
        raise RefusedError("adapter", name=adapter)
    if not isinstance(draft.names, Unknown):
        parts = _unmerged(case.facts)
        part = next((n for n in names if n in parts), None)
        if part is not None:
            raise RefusedError("unmerged", name=part)
    if kind == "unknown" and not _is_named(draft):
        raise RefusedError("other_kind", name=names[0], kind=draft.algorithm_name)
    mapped = next((m for m in case.facts.vocab.elsewhere if m.name in gone), None)
    if mapped is not None and kind == "unknown":
        raise RefusedError("map", name=mapped.name, length=mapped.length)
    if kind != "buffer":
        _refuse_parts(names, case.facts, kind)
        lacking = _lacking(draft)
        # A config that cannot be read does not tell whether the draft has a head of its own.
        own_head = case.facts.vocab.claimed_draft_size is not None or not draft.has_config
        if lacking is None and draft.head is None and own_head:
            lacking = "lm_head.weight"
        if lacking is not None:
            raise RefusedError("lacking", name=names[0], lacking=lacking)
    return Proposed(tuple(DropTensor(name) for name in names), subject=f"{kind} tensors, {names[0]} first")


@once
def _used(plan: LoadPlan) -> frozenset[str]:
    return frozenset(stored.name for stored in plan.stored if stored.fate == "used")


@once
def _unmerged(facts: Facts) -> frozenset[str]:
    """The names that are parts of a parameter which engines have in one."""
    names = facts.draft.names
    return frozenset() if isinstance(names, Unknown) else frozenset(n for u in names.unmerged for n in u.names)


@once
def _prefixes(facts: Facts) -> Counter[str]:
    """How many names have each prefix."""
    return Counter(n.prefix for n in named_tensors(facts).values() if n.prefix)


def _refuse_parts(names: Sequence[str], facts: Facts, kind: str) -> None:
    """Refuse names that stand where parameters of the draft stand."""
    named = named_tensors(facts)
    others: tuple[str, ...] = ()
    if kind == "target":
        left = _prefixes(facts) - Counter(named[name].prefix for name in frozenset(names) if name in named)
        others = tuple(left)
    for name in names:
        if kind == "target" and name.startswith(others):
            raise RefusedError("same_prefix", name=name)
        if kind == "unknown" and named[name].alias:
            raise RefusedError("in_layer", name=name)


def _is_named(draft: Draft) -> bool:
    """Whether the config says the kind of the draft as well; P-EAGLE goes by the classes of EAGLE-3."""
    said = {draft.architecture.algorithm, draft.architecture.format_algorithm}
    return not {draft.algorithm, *draft.kind.serves_as}.isdisjoint(said)


def _lacking(draft: Draft) -> str | None:
    """A parameter that the draft should store and does not."""
    if isinstance(draft.names, Unknown):
        return None
    first = chain((m.names[0] for m in draft.names.missing), (i.absent[0] for i in draft.names.incomplete))
    return next(first, None)
