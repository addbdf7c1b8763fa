"""Text to token ids with the target's tokenizer.json, in batches, through the `tokenizers` library (an extra)."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.weights import TOKENIZER_LIMIT
from ckptdoctor.text import show
from ckptdoctor.tokencounts.tally import Tally

__all__ = ["TextCounter"]

_CHARACTERS_AT_ONCE = 500_000
_TEXTS_AT_ONCE = 1_000
_TEXT_LIMIT = 16_000_000


class TextCounter:
    """Counts the tokens of texts, a few at a time. Special tokens are counted where the text has them, and not added.

    Raises `CannotExamineError` at once when there is no tokenizer.json or no library to read it with.
    """

    def __init__(self, tally: Tally, tokenizer: Path | None) -> None:
        self._tally = tally
        self._tokenizer = _load(tally, tokenizer)
        self._waiting: list[str] = []
        self._characters = 0

    def add(self, text: str) -> None:
        """Count `text`, now or with those to come. Raises `CannotExamineError` for one of many megabytes."""
        if len(text) > _TEXT_LIMIT:
            raise self._tally.refuse(f"one text has {len(text)} characters; at most {_TEXT_LIMIT} are taken at once")
        # Half a surrogate pair (JSON can hold one) is no character and cannot be handed over.
        self._waiting.append(text.encode("utf-8", "replace").decode("utf-8"))
        self._characters += len(text)
        if self._characters >= _CHARACTERS_AT_ONCE or len(self._waiting) >= _TEXTS_AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Count what is still waiting."""
        import numpy as np

        texts, self._waiting, self._characters = self._waiting, [], 0
        if not texts:
            return
        encode = getattr(self._tokenizer, "encode_batch_fast", self._tokenizer.encode_batch)
        try:
            encoded = encode(texts, add_special_tokens=False)
        except Exception as error:  # noqa: BLE001 - the library raises plain Exception
            raise self._tally.refuse(f"the tokenizer stops at a text ({show(error)})") from None
        ids = np.fromiter(chain.from_iterable(e.ids for e in encoded), dtype=np.int64)
        self._tally.add_ids(ids)


def _load(tally: Tally, place: Path | None) -> Any:
    if place is None:
        raise tally.refuse("holds text, which needs the target's tokenizer.json (--target PATH)")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise tally.refuse("counting the tokens of text needs tokenizers: pip install 'ckptdoctor[text]'") from None
    size = place.stat().st_size
    if size > TOKENIZER_LIMIT:
        raise tally.refuse(f"{show(place)} has {size} bytes; at most {TOKENIZER_LIMIT} are read")
    try:
        tokenizer = Tokenizer.from_file(str(place))
        # Settings that a training run may have left in the file.
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except Exception as error:  # noqa: BLE001 - the library raises plain Exception
        raise tally.refuse(f"{show(place)} is no tokenizer ({show(error)})") from None
    return tokenizer
