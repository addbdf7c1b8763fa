"""SpecForge's offline features: one PyTorch file for each text.

`scripts/prepare_hidden_states.py` saves `input_ids` int64 [n], `loss_mask` [n], `hidden_state` [1, n, T] after the
target's final norm, and `aux_hidden_state` [1, n, K·T], the captured states side by side (SpecForge 0.2.0,
specforge/runtime/data_plane/offline_reader.py and specforge/algorithms/eagle3/data.py). Features that a server wrote
lack the batch dimension and may bring further keys. `loss_mask` marks the tokens that the target wrote; the trainer
leaves out the last position, which has no token after it, and so do chains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckptdoctor.probe.samples.recorded_text import RecordedText, UnreadableError, as_mask, as_states, as_tokens
from ckptdoctor.text import listing

__all__ = ["is_specforge", "read_specforge"]

_KEYS = ("input_ids", "loss_mask", "aux_hidden_state")


def is_specforge(content: Mapping[str, Any]) -> bool:
    """Whether the dictionary has SpecForge's keys for hidden states."""
    return "hidden_state" in content or "aux_hidden_state" in content


def read_specforge(content: Mapping[str, Any], name: str, width: int | None) -> RecordedText:
    """The text in `content`, called `name`; `width` is the target's, where it is known.

    Raises `UnreadableError`, and says which of the values do not fit together.
    """
    if "aux_hidden_state" not in content and "hidden_state" in content:
        raise UnreadableError(
            "has hidden_state alone, without aux_hidden_state: EAGLE-3 features are prepared with aux hidden states"
            " (--enable-aux-hidden-states)"
        )
    missing = [key for key in _KEYS if key not in content]
    if missing:
        raise UnreadableError(f"lacks {listing(missing)} among its keys ({listing(content)})")
    tokens = as_tokens(content["input_ids"], "input_ids", least=3)
    length = len(tokens)
    counted = as_mask(content["loss_mask"], "loss_mask", length)
    joined = as_states(content["aux_hidden_state"], "aux_hidden_state", length)
    final = None
    if content.get("hidden_state") is not None:
        final = as_states(content["hidden_state"], "hidden_state", length)
        if final.dim() != 2:
            raise UnreadableError(f"hidden_state has {final.dim()} dimensions for each text, not 2")
        width = int(final.shape[1])
    if joined.dim() == 2:
        if width is None:
            raise UnreadableError("has no hidden_state, so the width of one state is not known; name the --target")
        if joined.shape[1] % width:
            raise UnreadableError(f"aux_hidden_state is {joined.shape[1]} wide, no multiple of the target's {width}")
        joined = joined.unflatten(1, (-1, width))
    if joined.dim() != 3:
        raise UnreadableError(f"aux_hidden_state has {joined.dim()} dimensions for each text, not 2")
    return RecordedText(name, "specforge", tokens, counted, joined, (None,) * joined.shape[1], final)
