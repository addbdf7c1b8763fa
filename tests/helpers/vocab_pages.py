"""Pages of vocabularies made by hand, around maps that the real code reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.coverage import Costly, Coverage, Part
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.tokenizer.tokens import Token
from ckptdoctor.facts.vocabulary.heads import HeadComparison
from ckptdoctor.facts.vocabulary.vocab import VocabMap, describe_vocab
from ckptdoctor.tokencounts.token_counts import TokenCounts
from ckptdoctor.unknown import Known, Unknown
from ckptdoctor.vocab.page import _MEANT, Page, spans, targets_of

COUNTS = TokenCounts(np.array([600, 100, 50, 250], dtype=np.int64), "counts.json", "json")
MASKED = "masked"
"""A t2d that marks exactly what the map means (where the map's meaning is one of its readings)."""


def info(name: str, dtype: str, length: int) -> TensorInfo:
    return TensorInfo(name, dtype, (length,), "model.safetensors", None, None)


def make_vocab(d2t: Any, size: int | None, mask: Any = None) -> VocabMap:
    """The map `d2t` in a target vocabulary of `size` ids; `mask` are the ids that t2d marks, or MASKED."""
    tensors: dict[str, TensorInfo] = {}
    arrays: dict[str, Any] = {}
    if d2t is not None:
        tensors["d2t"], arrays["d2t"] = info("d2t", "I64", len(d2t)), np.asarray(d2t, dtype=np.int64)
    if mask is not None:
        assert size is not None
        marks = np.zeros(size, dtype=np.int64)
        if isinstance(mask, str):
            offsets = arrays["d2t"] + np.arange(len(d2t))
            mask = offsets if len(set(offsets.tolist())) == len(d2t) and offsets.max() < size else arrays["d2t"]
        marks[mask] = 1
        tensors["t2d"], arrays["t2d"] = info("t2d", "BOOL", size), marks
    checkpoint = Checkpoint(
        "draft", Path(), True, "safetensors", ("model.safetensors",), 0, tensors, (), None, arrays=arrays
    )
    config = Config(None, knowledge())
    found = describe_vocab(checkpoint, config, tensors, None, None, True)
    if size is not None and mask is None and d2t is not None:
        found = _sized(checkpoint, tensors, size)
    return found


def _sized(checkpoint: Checkpoint, tensors: dict[str, TensorInfo], size: int) -> VocabMap:
    """The same with `vocab_size` from a config, since no t2d has it."""
    from ckptdoctor.checkpoint.jsonreader import read_json

    document = read_json(b'{"vocab_size": %d}' % size, "config.json")
    return describe_vocab(checkpoint, Config(document, knowledge()), tensors, None, None, True)


def make_coverage(**changes: Any) -> Coverage:
    fields: dict[str, Any] = {
        "total": 1000, "covered": 750, "share": 0.75, "size": 128, "best_share": 0.9,
        "curve": ((64, 0.81), (128, 0.9), (256, 0.97), (512, 1.0)),
        "scripts": (Part("Latin", 900, 700, (7,), 400, 1), Part("special tokens", 100, 50, (3,), 2, 1)),
        "specials": Part("special tokens", 100, 50, (3,), 2, 1),
        "bytes": Part("single bytes", 0, 0, (), 0, 0), "digits": Part("digits", 0, 0, (), 10, 0),
        "costliest": (Costly(7, " the", 200, 0.2), Costly(3, "<|im_end|>", 50, 0.05)),
        "accepted_with_all": 2.952, "accepted_with_map": 2.176, "accepted_with_best": 2.612,
    }  # fmt: skip
    return Coverage(**{**fields, **changes})


def make_heads(**changes: Any) -> HeadComparison:
    fields: dict[str, Any] = {
        "by_reading": ((0, 0.011), (1, 0.972), (2, -0.004)), "chance": 0.002, "best": 1, "sampled": 128,
        "shift": None, "wrong_from": None,
    }  # fmt: skip
    return HeadComparison(**{**fields, **changes})


def make_page(
    d2t: Any,
    size: int | None,
    mask: Any = None,
    *,
    path: str = "draft",
    title: str = "EAGLE-3 draft",
    source: str = "counts.json",
    coverage: Known[Coverage] = Unknown("token counts (--token-counts FILE)"),  # noqa: B008
    heads: Known[HeadComparison] = Unknown("the target (--target PATH)"),  # noqa: B008
    inside: tuple[Token, ...] = (),
    outside: Known[tuple[Token, ...]] = (),
) -> Page:
    vocab = make_vocab(d2t, size, mask)
    verdict = "" if isinstance(vocab.verdict, Unknown) else vocab.verdict
    reading = _MEANT.get(verdict)
    ids = None if reading is None else targets_of(vocab, reading)
    return Page(
        path=path, title=title, target=None, vocab=vocab, reading=reading, ids=ids,
        spans=() if ids is None or size is None else tuple(spans(ids, size)), inside=inside, outside=outside,
        coverage=coverage, heads=heads,
        counts=None if isinstance(coverage, Unknown) else TokenCounts(COUNTS.counts, source, "json"),
    )  # fmt: skip
