"""What a row of a corpus holds: token ids or texts, in JSON lines as in Arrow data.

A row has ids (`input_ids`, `token_ids`, `ids`) or text (`text`, `content`, or the messages of a conversation in
`messages` or `conversations`). All positions count: a `loss_mask` beside the ids is not read. Of messages, the
contents are tokenised each by itself and without special tokens, since a chat template puts its own between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ckptdoctor.text import listing, show

__all__ = ["FIELDS", "IDS", "TEXTS", "texts_of"]

IDS = ("input_ids", "token_ids", "ids")
TEXTS = ("text", "content", "messages", "conversations")
FIELDS = (*IDS, *TEXTS)
"""The fields that a row is looked up in, the first that is there."""

_DEEPEST = 4


def texts_of(value: object, refuse: Callable[[str], Exception], depth: int = _DEEPEST) -> Iterator[str]:
    """The texts in a field of a row: itself, or the contents of its messages or of the parts of a message.

    Raises what `refuse` makes of the end of a sentence where it is something else.
    """
    if value is None:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth:
        for item in value:
            yield from texts_of(item, refuse, depth - 1)
    elif isinstance(value, dict) and depth:
        key = next((k for k in ("content", "value", "text") if k in value), None)
        if key is None and "type" not in value and "role" not in value:
            raise refuse(f"a message in it has neither content nor value, but {listing(value)}")
        # Parts without text are pictures and sounds; messages without content are calls of tools.
        yield from texts_of(value[key] if key else None, refuse, depth - 1)
    else:
        raise refuse(f"{show(repr(value), 60)} stands where text is expected")
