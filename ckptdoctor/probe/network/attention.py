"""Attention over the text and over each position's own chain: one softmax over both."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["Kept", "Memory", "attend"]

_SCORES, _QUERIES = 2**26, 256
"""Scores and queries that are held at once: longer texts are gone through in blocks, which never look at later keys."""


@dataclass
class Kept:
    """Keys [n, kv, size] and values [n, kv, value size] of one layer: of the first pass, and of each further step."""

    keys: Tensor
    values: Tensor
    chain_keys: list[Tensor] = field(default_factory=list)
    chain_values: list[Tensor] = field(default_factory=list)


@dataclass
class Memory:
    """What the layers keep of the steps that were taken."""

    layers: list[Kept] = field(default_factory=list)
    steps: int = 0
    """Steps taken, the pass over the text among them."""


def attend(query: Tensor, kept: Kept, scale: float, window: int | None, follows: bool) -> Tensor:
    """[n, heads, value size] from `query` [n, heads, size], all positions at once.

    The query of position i sees the keys of the first pass at 0 … i, and its own keys of the further steps. With a
    window w it sees those from i - w + 1 on, whatever the step (speculators 0.9.0, models/eagle3/attention.py), or with
    `follows` from i + steps - w + 1 on (its models/peagle/attention.py, and what a server with a window of w does); its
    own chain is always seen.
    """
    length, heads, size = query.shape
    groups = kept.keys.shape[1]
    grouped = query.reshape(length, groups, heads // groups, size)
    rows = max(1, min(_QUERIES, _SCORES // max(1, heads * (length + len(kept.chain_keys)))))
    chain = (torch.stack(kept.chain_keys), torch.stack(kept.chain_values)) if kept.chain_keys else None
    blocks = [
        _block(grouped[first : first + rows], first, kept, chain, scale, window, follows)
        for first in range(0, length, rows)
    ]
    if not blocks:
        return query.new_zeros(0, heads, kept.values.shape[-1])
    return torch.cat(blocks).reshape(length, heads, -1)


def _block(
    query: Tensor,
    first: int,
    kept: Kept,
    chain: tuple[Tensor, Tensor] | None,
    scale: float,
    window: int | None,
    follows: bool,
) -> Tensor:
    """[b, kv, group, value size] of the queries `first` … `first` + b - 1. No later key is even looked at."""
    end = first + len(query)
    keys, values = kept.keys[:end], kept.values[:end]
    scores = torch.einsum("qkgd,skd->kgqs", query, keys) * scale
    own = torch.arange(first, end, device=query.device)[:, None]
    place = torch.arange(end, device=query.device)[None]
    unseen = place > own
    if window is not None:
        unseen = unseen | (place <= own + (len(kept.chain_keys) if follows else 0) - window)
    scores = scores.masked_fill(unseen, -math.inf)
    if chain is None:
        return torch.einsum("kgqs,skv->qkgv", scores.softmax(-1), values)
    chain_keys, chain_values = chain[0][:, first:end], chain[1][:, first:end]
    further = torch.einsum("qkgd,jqkd->kgqj", query, chain_keys) * scale
    weights = torch.cat([scores, further], -1).softmax(-1)
    seen, own_weights = weights[..., :end], weights[..., end:]
    return torch.einsum("kgqs,skv->qkgv", seen, values) + torch.einsum("kgqj,jqkv->qkgv", own_weights, chain_values)
