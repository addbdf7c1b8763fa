"""tie_word_embeddings is false where the draft stores a head of its own.

SGLang makes the embedding the head where it is true (llama_eagle3.py 0.5.23:303) and drops the stored one.
"""

from __future__ import annotations

from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """Every place of the config that says true says false.

    Refused without a stored head, since nothing could take the embedding's place.
    """
    head, config = case.facts.draft.head, case.facts.config
    if isinstance(head, Unknown):
        raise RefusedError("unread")
    if head is None:
        raise RefusedError("no_head")
    places = config.all_of(knowledge().fields["flags"]["tie_word_embeddings"])
    edits = tuple(SetConfig(place.key, False) for place in places if place.value is True)
    if not edits:
        raise RefusedError("not_tied")
    return Proposed(edits, subject="tie_word_embeddings")
