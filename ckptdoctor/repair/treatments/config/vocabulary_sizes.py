"""draft_vocab_size and vocab_size say what the tensors and the target say: the sizes put into the right fields.

D, the draft vocabulary, is the number of rows of the head and of entries of d2t; engines size both by draft_vocab_size.
V, the target's vocabulary, is the rows of the embedding, the entries of t2d and the target's own vocab_size. The field
vocab_size is touched only where it holds D or less, so that it cannot be V.
"""

from __future__ import annotations

from ckptdoctor.facts import Facts
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import set_field, standing, writable
from ckptdoctor.unknown import Unknown, known_or

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """draft_vocab_size := D, and vocab_size := V where it is smaller than the vocabulary.

    Refused when head and map differ, when there is no head, when a head without a map is not one of the whole
    vocabulary, or when the sources of V disagree.
    """
    writable(case)
    facts = case.facts
    draft = _draft_size(facts)
    size = _size(facts, draft)
    edits: list[SetConfig] = []
    if size is not None and size != facts.draft.vocab_size:
        edits += set_field(case, "vocab_size", size)
    if facts.vocab.claimed_draft_size != draft or len(standing(case, "draft_vocab_size")) > 1:
        try:
            edits += set_field(case, "draft_vocab_size", draft, home="draft_vocab_size")
        except RefusedError as refused:
            if refused.key != "same":
                raise
    if not edits:
        raise RefusedError("right", draft=draft, size=facts.draft.vocab_size)
    return Proposed(tuple(edits), subject="vocabulary sizes")


def _draft_size(facts: Facts) -> int:
    head, d2t = facts.draft.head, facts.vocab.d2t
    if isinstance(head, Unknown) or isinstance(d2t, Unknown):
        raise RefusedError("unread")
    if head is None:
        raise RefusedError("no_head")
    if d2t is None:
        if head.rows != facts.draft.vocab_size:
            raise RefusedError("no_map", rows=head.rows)
        return head.rows
    if d2t.length != head.rows:
        raise RefusedError("lengths", name=d2t.name, entries=d2t.length, head=head.name, rows=head.rows)
    return head.rows


def _size(facts: Facts, draft: int) -> int | None:
    """The target's vocabulary where vocab_size must be corrected, None where it may stay."""
    claimed = facts.draft.vocab_size
    sources = _sources(facts)
    largest = max((*sources.values(), draft))
    if claimed is None or claimed > draft or (claimed == largest and (sources or facts.vocab.d2t is None)):
        return None
    if not sources:
        raise RefusedError("no_source", claimed=claimed, draft=draft)
    if len(set(sources.values())) > 1:
        raise RefusedError("sources", sources=tuple(f"{name} {size}" for name, size in sources.items()))
    if largest not in sources.values():
        raise RefusedError("sources", sources=(f"the head {draft}", *(f"{n} {s}" for n, s in sources.items())))
    return largest


def _sources(facts: Facts) -> dict[str, int]:
    found: dict[str, int] = {}
    embedding, t2d = known_or(facts.draft.embedding, None), known_or(facts.vocab.t2d, None)
    if embedding is not None:
        found[f"rows of {embedding.name}"] = embedding.rows
    if t2d is not None:
        found[f"entries of {t2d.name}"] = t2d.length
    if facts.target is not None and not isinstance(facts.target.vocab_size, Unknown):
        found["the target's vocab_size"] = facts.target.vocab_size
    return found
