"""A random embedding is left out, so that engines share the embedding of the target.

Unsafe: it takes for granted that the draft was trained with the target's embedding, as by every trainer that copies and
freezes it (SpecForge, speculators, TorchSpec, the EAGLE reference). SGLang and vLLM share it where none is stored
(rules/serving); an engine that does not is refused.
"""

from __future__ import annotations

from ckptdoctor.repair.edits import DropTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.unknown import Unknown, known_or

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """The draft's embedding left out. Refused for another width or vocabulary than the target's, and where it was
    trained by itself."""
    draft, target = case.facts.draft, case.facts.target
    embedding = known_or(draft.embedding, None)
    if embedding is None:
        raise RefusedError("none")
    if draft.flags.embed_requires_grad is True or draft.kind.trains_embedding:
        raise RefusedError("trained", name=embedding.name)
    width = target.hidden_size if target is not None else Unknown("the target")
    if isinstance(width, Unknown) or width != embedding.columns:
        raise RefusedError("width", name=embedding.name, draft=embedding.columns)
    edits = (DropTensor(embedding.name),)
    lacking = next((plan for plan in case.plans_after(edits) if plan.lacks_embedding), None) if case.engines else None
    if lacking is not None:
        raise RefusedError("not_shared", engine=lacking.label)
    return Proposed(edits, subject=embedding.name)
