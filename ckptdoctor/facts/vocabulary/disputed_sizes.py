"""Sizes that the tensors show and that something else in the files contradicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ckptdoctor.facts.draft.sizes import Size
from ckptdoctor.facts.target import Target
from ckptdoctor.facts.vocabulary.vocab import VocabMap
from ckptdoctor.unknown import known_or

__all__ = ["with_disputes"]

_RIGHT = ("right", "stale_t2d")


def with_disputes(sizes: Sequence[Size], vocab: VocabMap, target: Target | None) -> tuple[Size, ...]:
    """`sizes` with `disputed_by` filled: what proves more ids of the vocabulary than the embedding has rows."""
    return tuple(replace(s, disputed_by=_larger(s.stored, vocab, target)) if s.symbol == "V" else s for s in sizes)


def _larger(rows: int, vocab: VocabMap, target: Target | None) -> tuple[str, ...]:
    found: list[str] = []
    if vocab.map is not None and vocab.verdict in _RIGHT and len(vocab.map.targets):
        largest = int(vocab.map.targets.max())
        if largest >= rows:
            found.append(f"d2t reaches to id {largest}")
    t2d = known_or(vocab.t2d, None)
    if t2d is not None and t2d.length > rows:
        found.append(f"t2d has {t2d.length} entries")
    if target is not None and known_or(target.vocab_size, 0) > rows:
        found.append(f"the target has {target.vocab_size} tokens")
    if vocab.claimed_draft_size is not None and vocab.claimed_draft_size > rows:
        found.append(f"draft_vocab_size is {vocab.claimed_draft_size}")
    return tuple(found)
