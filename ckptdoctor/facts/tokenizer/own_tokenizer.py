"""The tokenizer that a draft brings along, and the special ids in its config: against its vocabulary and its target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ckptdoctor.facts.config import Config
from ckptdoctor.facts.target import Target
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

__all__ = ["ConfigToken", "OtherTokenizer", "config_tokens", "differs", "holds_tokenizer"]

_TARGETS = Unknown("a tokenizer with special tokens beside the target, and one beside the draft")
_TOKENIZER = re.compile(
    r"^(tokenizer\.(json|model)|tokenizer_config\.json|vocab\.(json|txt)|spiece\.model|.*tiktoken.*)$"
)
# Ids that a tokenizer keeps free: their texts differ between relatives.
_FREE = re.compile(r"reserved|unused|extra_id|placeholder|\bpad\b|_pad_|^\[PAD|^<pad", re.IGNORECASE)
_KEYS = ("bos_token_id", "eos_token_id", "pad_token_id")
_PLACES = ("", "transformer_layer_config.", "text_config.", "model.")
_SHOWN = 6
_FEW = 3
"""Special tokens that both tokenizers must have at least for their ranges of ids to say something."""


@dataclass(frozen=True)
class OtherTokenizer:
    """Two tokenizers that are not of one family. `pairs` are ids with both texts, or what each calls its tokens."""

    pairs: tuple[str, ...]
    shared: int
    differing: int


@dataclass(frozen=True)
class ConfigToken:
    """A special id in the draft's config: its dotted `key`, and whether it is inside the vocabulary.

    `for_end` says that it ends a text. `of_target` are the ids that end a text of the target; `another` says that none
    of the draft's ends is among them.
    """

    key: str
    line: int | None
    values: tuple[int, ...]
    size: Known[int]
    outside: Known[bool]
    for_end: bool
    of_target: Known[tuple[int, ...]]
    another: Known[bool]


def holds_tokenizer(names: tuple[str, ...]) -> bool:
    """Whether a folder has files of a tokenizer."""
    return any(_TOKENIZER.match(name) for name in names)


def differs(own: Mapping[int, str], others: Mapping[int, str]) -> Known[OtherTokenizer | None]:
    """Whether two tokenizers are of different families, by their added tokens (id → text); None where they are not.

    Relatives differ in single tokens, and in the names of those that one of them keeps free: what most of the shared
    ids say decides. Without shared ids, tokens of one text under different ids, or no common text at all, decide.
    """
    if not own or not others:
        return _TARGETS
    shared = sorted(own.keys() & others.keys())
    differing = [i for i in shared if own[i] != others[i] and not _FREE.search(own[i]) and not _FREE.search(others[i])]
    if shared:
        if len(differing) < 2 or 2 * len(differing) <= len(shared):
            return None
        pairs = tuple(f"{i}: {show(own[i], 40)} here, {show(others[i], 40)} there" for i in differing[:_SHOWN])
        return OtherTokenizer(pairs, len(shared), len(differing))
    places = {text: i for i, text in others.items()}
    common = [i for i, text in sorted(own.items()) if text in places]
    if not common and min(len(own), len(others)) < _FEW:
        return None
    pairs = tuple(f"{show(own[i], 40)} is {i} here, {places[own[i]]} there" for i in common[:_SHOWN])
    return OtherTokenizer(pairs or (f"{_range(own)} here, {_range(others)} there",), 0, len(common))


def _range(texts: Mapping[int, str]) -> str:
    first, last = min(texts), max(texts)
    return f"{first} {show(texts[first], 40)} to {last} {show(texts[last], 40)}"


def config_tokens(config: Config, size: Known[int], target: Target | None) -> tuple[ConfigToken, ...]:
    """The special ids of the draft's config, wherever they stand; what is no whole number is left out.

    `pad_token_id` -1 means that there is none.
    """
    ends: Known[tuple[int, ...]] = Unknown("the target (--target PATH)")
    if target is not None:
        ends = target.eos_token_ids or Unknown("eos_token_id in the target's config")
    found: list[ConfigToken] = []
    for key in _KEYS:
        field = next((f for place in _PLACES if (f := config.at(place + key)) is not None), None)
        if field is None:
            continue
        listed = field.value if isinstance(field.value, list) else [field.value]
        values = tuple(v for v in listed[:64] if type(v) is int and abs(v) < 2**40)
        if not values or (key == "pad_token_id" and values == (-1,)):
            continue
        outside = size if isinstance(size, Unknown) else any(not 0 <= v < size for v in values)
        for_end = key == "eos_token_id"
        another = ends if isinstance(ends, Unknown) else for_end and not set(values) & set(ends)
        found.append(ConfigToken(field.key, field.line, values, size, outside, for_end, ends, another))
    return tuple(found)
