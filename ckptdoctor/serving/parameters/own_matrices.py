"""Whether values show that the draft's embedding or head is its own, so that the target's cannot take its place."""

from __future__ import annotations

from ckptdoctor.facts import Facts
from ckptdoctor.unknown import known_or

__all__ = ["own_embedding", "own_head"]


def own_embedding(facts: Facts) -> bool:
    """Whether the embedding began as the target's and was trained; False where values were not read."""
    values = known_or(facts.values, None)
    embedding = None if values is None else known_or(values.embedding, None)
    return embedding is not None and embedding.kind == "own"


def own_head(facts: Facts) -> float | None:
    """The cosine of the draft's head with the target's, if the two differ; None where they do not, or were not read."""
    values = known_or(facts.values, None)
    head = None if values is None else known_or(values.head, None)
    return None if head is None or head.same else head.cosine
