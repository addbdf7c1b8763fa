"""The head that a draft does not store is taken from the target's weights: unsafe, since it may have had its own.

A draft over a part of the vocabulary gets the rows of the target's head in the order of d2t, one over all of it the
whole head. The other way for a whole vocabulary, draft_vocab_size null, needs no copy, but stops SGLang before 0.5.2,
and from then on makes it take the target's embedding in place of the draft's too (llama_eagle3.py). A stored head is
used by every release of every engine, so it is the first answer; the refusal without weights names the other.
"""

from __future__ import annotations

from ckptdoctor.facts.vocabulary.vocab import VocabMap
from ckptdoctor.repair.edits import CopyTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.unknown import Unknown, known_or

__all__ = ["propose"]

_RIGHT = ("right", "zeros_first")
_HEAD = "lm_head.weight"


def propose(case: Case) -> Proposed:
    """lm_head.weight, [D, hidden size], in the target's dtype.

    Refused without the target's weights, for a head of another width, with too few rows or quantised, and for a
    reduced draft whose d2t is not right beyond doubt.
    """
    draft, vocab = case.facts.draft, case.facts.vocab
    if draft.head is not None:
        raise RefusedError("stored")
    reduced = vocab.reduced
    if isinstance(reduced, Unknown) or isinstance(vocab.draft_size, Unknown) or isinstance(draft.hidden_size, Unknown):
        raise RefusedError("sizes")
    rows = _rows(vocab) if reduced else None
    weights = case.target_weights()
    if weights is None:
        raise RefusedError("no_target" if reduced else "no_target_whole")
    source = weights.head
    path = None if source is None else weights.place(source)
    if source is None or path is None or source.start is None:
        raise RefusedError("no_head")
    if source.shape[1] != draft.hidden_size:
        raise RefusedError("width", target=source.shape[1], draft=draft.hidden_size)
    needed = max(rows) + 1 if rows else vocab.draft_size
    if source.shape[0] < needed:
        raise RefusedError("too_few", rows=source.shape[0], needed=needed)
    if rows is None and source.shape[0] > vocab.draft_size:
        rows = tuple(range(vocab.draft_size))  # a padded head
    return Proposed((CopyTensor(_HEAD, path, source, rows),), subject=_HEAD)


def _rows(vocab: VocabMap) -> tuple[int, ...]:
    """The target ids in the order of d2t; refused unless it is right and of one reading."""
    reading, d2t = vocab.map, known_or(vocab.d2t, None)
    if d2t is None or reading is None:
        raise RefusedError("no_map")
    sure = reading.confirmed == 1 or reading.verdict == "zeros_first" or reading.readings == (1,)
    if reading.verdict not in _RIGHT or not sure or not d2t.integer or not vocab.lengths_agree:
        raise RefusedError("map", name=d2t.name)
    return tuple(int(target) for target in reading.targets)
