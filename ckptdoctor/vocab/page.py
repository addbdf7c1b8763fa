"""All that `ckptdoctor vocab show` tells of one draft vocabulary, measured: the map, its tokens, its coverage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ckptdoctor.checkpoint import Checkpoint, TensorInfo, open_checkpoint
from ckptdoctor.checkpoint.folder import locate
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import Facts, Target, describe, read_target
from ckptdoctor.facts.asked import Asked
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.coverage import NEEDS_COUNTS, Coverage, coverage_of
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.tokenizer.token_texts import read_token_texts
from ckptdoctor.facts.tokenizer.tokens import Token, describe_tokens
from ckptdoctor.facts.vocabulary.heads import HeadComparison
from ckptdoctor.facts.vocabulary.map_readings import READINGS
from ckptdoctor.facts.vocabulary.token_map import TokenMap, read_token_map
from ckptdoctor.facts.vocabulary.vocab import VocabMap, describe_vocab
from ckptdoctor.summary import title
from ckptdoctor.tokencounts.token_counts import TokenCounts, read_token_counts
from ckptdoctor.unknown import Known, Unknown, known_or

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]

__all__ = ["Page", "Span", "page_from", "page_of", "spans", "targets_of"]

_SPANS = 20
"""Rows of the histogram at most."""

_MEANT = {"right": 1, "stale_t2d": 1, "identity": 1, "zeros_first": 1, "absolute": 0, "offset_twice": 2}
"""The reading that a verdict speaks for; no entry: none is sure."""


_MAP_ALONE = frozenset({"d2t", "t2d", "lm_head.weight"})
_BARE = "a vocabulary map without a draft"


@dataclass(frozen=True)
class Span:
    """Target ids from `first` to `last` (both in), and how many of them the draft can propose."""

    first: int
    last: int
    held: int


@dataclass(frozen=True)
class Page:
    """One draft vocabulary.

    `ids` are the target ids of its draft ids under `reading` (int64, shape [D]; None where no reading is sure, or the
    draft proposes from all). `inside` and `outside` are the special tokens that the draft can and cannot propose.
    `token_map` is the file when PATH is a token map of FR-Spec; `vocab` then has its ids as a map, if it holds ids.
    """

    path: str
    title: str
    target: Target | None
    vocab: VocabMap
    reading: int | None
    ids: IntArray | None
    spans: tuple[Span, ...]
    inside: tuple[Token, ...]
    outside: Known[tuple[Token, ...]]
    counts: TokenCounts | None
    coverage: Known[Coverage]
    heads: Known[HeadComparison]
    token_map: TokenMap | None = None


def page_of(path: str, *, target: str | None = None, token_counts: str | None = None) -> Page:
    """Measure the vocabulary of the draft (or the token map) at `path`, with the target and the counts that are given.

    Raises `CannotExamineError` when one of the three cannot be read.
    """
    root, only = locate(path)
    known_target = read_target(target) if target is not None else None
    counts = None
    if token_counts is not None:
        places = [*([locate(target)[0]] if target is not None else []), root]
        tokenizer = next((p / "tokenizer.json" for p in places if (p / "tokenizer.json").is_file()), None)
        counts = read_token_counts(token_counts, tokenizer)
    found = None if only is None else _token_map(path, known_target)
    if found is not None:
        return _page_of_list(path, root, found, known_target, counts)
    checkpoint = open_checkpoint(path)
    facts = describe(checkpoint, known_target, asked=Asked(counts=counts, heads=True))
    line = _BARE if checkpoint.config is None and {*checkpoint.tensors} <= _MAP_ALONE else title(facts)
    return page_from(path, line, facts, counts)


def page_from(path: str, line: str, facts: Facts, counts: TokenCounts | None) -> Page:
    """The page of the draft at `path` from its facts; `line` says what the draft is."""
    vocab = facts.vocab
    verdict = known_or(vocab.verdict, "")
    reading = _MEANT.get(verdict) if vocab.map is not None else None
    ids = None if reading is None else targets_of(vocab, reading)
    outside = facts.tokens.unreachable
    lost = {t.id for t in known_or(outside, ())}
    size = known_or(vocab.size, 0)
    return Page(
        path=path, title=line, target=facts.target, vocab=vocab, reading=reading, ids=ids,
        spans=tuple(spans(ids, size)) if ids is not None else (),
        inside=() if isinstance(outside, Unknown) else tuple(t for t in facts.tokens.specials if t.id not in lost),
        outside=outside, counts=counts, coverage=facts.coverage, heads=facts.heads,
    )  # fmt: skip


def _token_map(path: str, target: Target | None) -> TokenMap | None:
    """The token map in the file `path`; None where it is a draft: safetensors, an index, or a pickle of weights."""
    if path.endswith((".safetensors", ".index.json")):
        return None
    try:
        found = read_token_map(path, None if target is None else target.vocab_size)
    except CannotExamineError:
        if path.endswith((".npy", ".json")):
            raise
        return None
    return found if found.meaning != "other" or found.form != "torch" else None


def _page_of_list(path: str, root: Path, found: TokenMap, target: Target | None, counts: TokenCounts | None) -> Page:
    """The page of a token map: its entries are the target ids themselves, and it has no head."""
    import numpy as np

    ids = found.ids if found.meaning == "ids" and len(found.shape) == 1 else None
    tensors = {} if ids is None else {"d2t": TensorInfo("d2t", "I64", (len(ids),), path, None, None)}
    arrays = {} if ids is None else {"d2t": ids - np.arange(len(ids), dtype=np.int64)}
    listed = Checkpoint(path, root, False, "list", (), 0, tensors, (), None, arrays=arrays)
    vocab = describe_vocab(listed, Config(None, knowledge()), tensors, None, target, True)
    tokens = describe_tokens(root, target, vocab)
    outside = tokens.unreachable
    coverage: Known[Coverage] = NEEDS_COUNTS
    if ids is None:
        outside = coverage = Unknown("a list of target ids")
    elif counts is not None:
        texts = read_token_texts(target.root if target is not None and target.root is not None else root)
        coverage = coverage_of(counts, vocab, texts)
    lost = {t.id for t in known_or(outside, ())}
    size = known_or(vocab.size, 0)
    return Page(
        path=path, title="a token map (FR-Spec)", target=target, vocab=vocab, reading=None if ids is None else 1,
        ids=ids, spans=tuple(spans(ids, size)) if ids is not None else (),
        inside=() if isinstance(outside, Unknown) else tuple(t for t in tokens.specials if t.id not in lost),
        outside=outside, counts=counts, coverage=coverage, heads=Unknown("a draft"), token_map=found,
    )  # fmt: skip


def targets_of(vocab: VocabMap, reading: int) -> IntArray | None:
    """The target ids of the map under one reading, int64, shape [D]; None without a map."""
    import numpy as np

    if vocab.map is None or reading not in READINGS:
        return None
    offsets: IntArray = np.asarray(vocab.map.targets, dtype=np.int64)
    return offsets + (reading - 1) * np.arange(len(offsets), dtype=np.int64)


def spans(ids: IntArray, size: int, most: int = _SPANS) -> Iterator[Span]:
    """The ids 0 to `size` in spans of a round length, `most` at most, and how many different ones of `ids` each has."""
    import numpy as np

    if size <= 0:
        return
    step = next(step for power in range(14) for m in (1, 2, 5) if -(-size // (step := m * 10**power)) <= most)
    held = np.bincount(np.unique(ids[(ids >= 0) & (ids < size)]) // step, minlength=-(-size // step))
    for number, count in enumerate(held.tolist()):
        yield Span(number * step, min((number + 1) * step, size) - 1, count)
