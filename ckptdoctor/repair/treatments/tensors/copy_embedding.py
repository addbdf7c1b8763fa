"""An engine that never takes the target's embedding gets it with the draft.

Unsafe, since the draft may have had its own. MLX-VLM builds embed_tokens and does not share it (rules/serving); SGLang
and vLLM take the target's where none is stored, and so does every trainer that leaves it out of its export (SpecForge,
Model-Optimizer, the EAGLE reference).
"""

from __future__ import annotations

from ckptdoctor.repair.edits import CopyTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]

_EMBEDDING = "embed_tokens.weight"


def propose(case: Case) -> Proposed:
    """embed_tokens.weight, [vocabulary, hidden size], the whole matrix in the target's dtype.

    Refused without the target's weights, for another width than the draft's states have, and for another vocabulary
    than the draft's config says.
    """
    draft = case.facts.draft
    if draft.embedding is not None:
        raise RefusedError("stored")
    if isinstance(draft.hidden_size, Unknown):
        raise RefusedError("sizes")
    weights = case.target_weights()
    if weights is None:
        raise RefusedError("no_target")
    source = weights.embedding
    path = None if source is None else weights.place(source)
    if source is None or path is None or source.start is None:
        raise RefusedError("no_embedding")
    if source.shape[1] != draft.hidden_size:
        raise RefusedError("width", target=source.shape[1], draft=draft.hidden_size)
    if draft.vocab_size is not None and source.shape[0] != draft.vocab_size:
        raise RefusedError("rows", target=source.shape[0], draft=draft.vocab_size)
    return Proposed((CopyTensor(_EMBEDDING, path, source),), subject=_EMBEDDING)
