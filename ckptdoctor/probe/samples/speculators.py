"""speculators' hidden states: one file for each text, all captured layers and the last one.

Since 0.5 they are safetensors that vLLM writes, `hs_N.safetensors` with `token_ids` [n] and `hidden_states` [n, S, T];
the last of the S is the state after the last layer, before the final norm, and the loss mask stands in row N of the
dataset beside (speculators 0.9.0, speculators/train/data.py; vLLM 0.33.0, example_hidden_states_connector.py). Before
that they were PyTorch files, `data_N.pt` with `input_ids`, `loss_mask` and `hidden_states`, a list of S tensors [n, T]
(scripts/data_generation_offline.py); some of those releases took the last state after the final norm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ckptdoctor.probe.samples.masks import Datasets
from ckptdoctor.probe.samples.recorded_text import RecordedText, UnreadableError, as_mask, as_states, as_tokens
from ckptdoctor.text import listing

__all__ = ["is_speculators", "is_speculators_pickle", "read_speculators", "read_speculators_pickle"]

_NUMBER = re.compile(r"hs_(\d{1,9})\.safetensors$")


def is_speculators(tensors: Mapping[str, Tensor]) -> bool:
    """Whether a safetensors file has the names of speculators' hidden states."""
    return {"token_ids", "hidden_states"} <= tensors.keys()


def is_speculators_pickle(content: Mapping[str, Any]) -> bool:
    """Whether a PyTorch file has the names of speculators' earlier form."""
    return isinstance(content.get("hidden_states"), (list, tuple)) and "input_ids" in content


def read_speculators(
    tensors: Mapping[str, Tensor], place: Path, name: str, layers: int | None, datasets: Datasets
) -> RecordedText:
    """The text in a safetensors file; `layers` is how many the target has, where that is known.

    The loss mask is looked up in `datasets`; without one every token but the first counts, and `datasets` takes note of
    it. Raises `UnreadableError`.
    """
    tokens = as_tokens(tensors["token_ids"], "token_ids", least=3)
    states = as_states(tensors["hidden_states"], "hidden_states", len(tokens))
    if states.dim() != 3:
        raise UnreadableError(f"hidden_states has {states.dim()} dimensions, not 3 (tokens, layers, width)")
    number = _NUMBER.search(place.name)
    counted = datasets.mask(place, int(number[1]) if number else None, tokens)
    if counted is None:
        counted = _all_but_first(tokens)
    boundaries = (*(None,) * (states.shape[1] - 1), layers)
    return RecordedText(name, "speculators", tokens, counted, states, boundaries, states[:, -1])


def read_speculators_pickle(content: Mapping[str, Any], name: str) -> RecordedText:
    """The text in a PyTorch file of the earlier form. Raises `UnreadableError`."""
    tokens = as_tokens(content["input_ids"], "input_ids", least=3)
    length = len(tokens)
    mask = content.get("loss_mask")
    counted = _all_but_first(tokens) if mask is None else as_mask(mask, "loss_mask", length)
    layers = [as_states(h, f"hidden_states[{i}]", length) for i, h in enumerate(content["hidden_states"])]
    sizes = sorted({tuple(layer.shape[1:]) for layer in layers})
    if not layers or len(sizes) != 1 or len(sizes[0]) != 1:
        raise UnreadableError(f"hidden_states are of the sizes {listing(map(list, sizes))}, not all [n, T] alike")
    states = torch.stack([layer.to(layers[0].dtype) for layer in layers], 1)
    return RecordedText(name, "speculators", tokens, counted, states, (None,) * len(layers), layers[-1])


def _all_but_first(tokens: Tensor) -> Tensor:
    counted = torch.ones(len(tokens), dtype=torch.bool)
    counted[0] = False
    return counted
