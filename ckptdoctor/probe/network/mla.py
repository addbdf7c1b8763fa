"""Multi-head latent attention (MLA) of DeepSeek: queries, keys and values of all heads from low-rank projections."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ckptdoctor.probe.network.anatomy import Anatomy
from ckptdoctor.probe.network.rotary import Angles, turned

__all__ = ["latent_attention"]

Named = Callable[[Tensor, str], Tensor]


def latent_attention(
    x: Tensor, anatomy: Anatomy, at: str, by: Angles, linear: Named, norm: Named
) -> tuple[Tensor, Tensor, Tensor]:
    """Query and key [n, heads, plain + turned] and value [n, heads, value] from `x` [n, 2H or H].

    As DeepSeek-V3 computes them (transformers 5.24, models/deepseek_v3; vLLM 0.33.0, models/deepseek_v2.py): the turned
    part of the key is one for all heads, and neighbours are turned together. The norms inside take rms_norm_eps as vLLM
    and SGLang do; transformers has 1e-6 there whatever the config says.
    """
    sizes = anatomy.latent
    assert sizes is not None
    length, pairs = x.shape[0], anatomy.turning.interleaved
    low = x if sizes.query is None else norm(linear(x, at + "q_a_proj"), at + "q_a_layernorm")
    query = linear(low, at + ("q_proj" if sizes.query is None else "q_b_proj")).unflatten(-1, (anatomy.heads, -1))
    plain, positioned = query.split([sizes.plain, sizes.turned], -1)
    query = torch.cat([plain, turned(positioned, by, interleaved=pairs)], -1)
    joined, shared = linear(x, at + "kv_a_proj_with_mqa").split([sizes.key_value, sizes.turned], -1)
    both = linear(norm(joined, at + "kv_a_layernorm"), at + "kv_b_proj").unflatten(-1, (anatomy.heads, -1))
    plain_key, value = both.split([sizes.plain, sizes.value], -1)
    one = turned(shared[:, None], by, interleaved=pairs).expand(length, anatomy.heads, -1)
    return query, torch.cat([plain_key, one], -1), value
