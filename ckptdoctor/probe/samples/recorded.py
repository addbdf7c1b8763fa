"""What ckptdoctor's recorder saved inside an engine: the states that a draft really received.

`next_token_ids` int64 [n] is the token whose embedding stood beside each state, `position_ids` int64 [n] the position
of each state, `hidden_states` [n, S, T] or [n, S·T]. The header's metadata has `ckptdoctor: recorded` and `boundaries`,
"[2, 4, 5]" or "null" where the recorder does not know them; their number is S. Texts follow one another: positions that
do not go up by one start a new one.

The state of position i stands beside token i + 1, so n states come with tokens 1 … n and without token 0. A text keeps
its n states and tokens 0 … n - 1: token 0 is not known (token 1 stands in its place, and it is never counted), and
token n, which has no state, is left off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import torch
from torch import Tensor

from ckptdoctor.probe.samples.recorded_text import RecordedText, UnreadableError, as_states, as_tokens
from ckptdoctor.text import listing, show

__all__ = ["UNKNOWN_FIRST", "UNKNOWN_WRITER", "is_recorded", "read_recorded"]

UNKNOWN_FIRST = (
    "the first token of each recorded text is not known; readings that use the token of a state itself see another one"
    " in its place"
)
UNKNOWN_WRITER = (
    "the recorded files do not say which tokens the target wrote and which were given to it; all but the first count"
)

_KEYS = ("next_token_ids", "position_ids", "hidden_states")
_MARK = "recorded"
_MOST_BOUNDARIES = 1024


def is_recorded(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bool:
    """Whether the recorder wrote the file."""
    return metadata.get("ckptdoctor") == _MARK or "next_token_ids" in tensors


def read_recorded(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str], name: str, width: int | None
) -> Iterator[RecordedText]:
    """The texts in the file, in order; `width` is the target's, where it is known. Raises `UnreadableError`."""
    missing = [key for key in _KEYS if key not in tensors]
    if missing:
        raise UnreadableError(f"lacks {listing(missing)} among its tensors ({listing(tensors)})")
    following = as_tokens(tensors["next_token_ids"], "next_token_ids")
    positions = as_tokens(tensors["position_ids"], "position_ids")
    if len(positions) != len(following):
        raise UnreadableError(f"position_ids has {len(positions)} values for {len(following)} tokens")
    states = as_states(tensors["hidden_states"], "hidden_states", len(following))
    boundaries = _boundaries(metadata.get("boundaries", ""))
    states = _split(states, boundaries, metadata, width)
    marks = boundaries or (None,) * states.shape[1]
    if len(marks) != states.shape[1]:
        raise UnreadableError(f"names {len(marks)} boundaries for {states.shape[1]} states")
    starts = [0, *((positions[1:] != positions[:-1] + 1).nonzero()[:, 0] + 1).tolist(), len(positions)]
    for number, (first, last) in enumerate(pairwise(starts), 1):
        tokens = torch.cat([following[first : first + 1], following[first : last - 1]])
        counted = torch.ones(last - first, dtype=torch.bool)
        counted[0] = False
        called = name if len(starts) == 2 else f"{name}, text {number}"
        yield RecordedText(called, "recorded", tokens, counted, states[first:last], marks)


def _boundaries(text: str) -> tuple[int, ...]:
    bare = text.strip().removeprefix("[").removesuffix("]")
    parts = [] if bare == "null" else [part.strip() for part in bare.split(",") if part.strip()]
    if len(parts) > _MOST_BOUNDARIES or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise UnreadableError(f"its boundaries are {show(text, 60)!r}, not numbers with commas between them")
    return tuple(int(part) for part in parts)


def _split(states: Tensor, boundaries: tuple[int, ...], metadata: Mapping[str, str], width: int | None) -> Tensor:
    """[n, S, T] from [n, S·T]: S by the boundaries, by the metadata's `states`, or by the target's width; else 1."""
    if states.dim() == 3:
        return states
    if states.dim() != 2:
        raise UnreadableError(f"hidden_states has {states.dim()} dimensions, not 2 or 3")
    joined, stated = int(states.shape[1]), metadata.get("states", "")
    columns = len(boundaries) or (int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 5 else 0)
    if not columns:
        columns = joined // width if width is not None and joined % width == 0 else 1
    if not columns or joined % columns:
        raise UnreadableError(f"its hidden states are {joined} wide, which is no multiple of {columns}")
    return states.unflatten(1, (columns, -1))
