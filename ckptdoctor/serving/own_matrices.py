"""Whether values show that the draft's embedding or head is its own, so that the target's cannot take its place."""

from __future__ import annotations

from ckptdoctor.facts import Facts
from ckptdoctor.unknown import Unknown

__all__ = ["own_embedding", "own_head"]


def own_embedding(facts: Facts) -> bool:
    """Whether the embedding began as the target's and was trained; False where values were not read."""
    values = facts.values
    if isinstance(values, Unknown) or isinstance(values.embedding, Unknown) or values.embedding is None:
        return False
    return values.embedding.kind == "own"


def own_head(facts: Facts) -> float | None:
    """The cosine of the draft's head with the target's, if the two differ; None where they do not, or were not read."""
    values = facts.values
    if isinstance(values, Unknown) or isinstance(values.head, Unknown) or values.head is None or values.head.same:
        return None
    return values.head.cosine
