"""The rotary embedding in torch: angles by position, and the turning of queries and keys."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ckptdoctor.probe.network.turning import Turning

__all__ = ["Angles", "angles", "turned"]

Angles = tuple[Tensor, Tensor]
"""Cosine and sine, float32 [n, dims/2] each."""


def angles(turning: Turning, positions: Tensor, base: float, *, scaled: bool) -> Angles:
    """Cosine and sine of each pair of dimensions at `positions` (int64 [n]), multiplied by the attention factor.

    `base` stands for rope_theta; without `scaled` the scaling of the config is left out. As transformers 5.24 has them
    (modeling_rope_utils.py), which are those of SpecForge 0.2.0 for the kinds that it knows.
    """
    plain = torch.arange(0, turning.dims, 2, dtype=torch.float32, device=positions.device) / max(turning.dims, 1)
    if not scaled or not turning.scaled:
        frequencies = 1.0 / base**plain
    else:
        frequencies = _SCALED[turning.kind](turning, plain, base, positions)
    angle = positions.to(torch.float32)[:, None] * frequencies
    factor = turning.attention if scaled else 1.0
    return angle.cos() * factor, angle.sin() * factor


def turned(x: Tensor, by: Angles, *, interleaved: bool) -> Tensor:
    """`x` [n, heads, size] with its first dimensions turned, the rest as they are.

    Halves are turned together (Llama), or neighbours with `interleaved` (DeepSeek).
    """
    cos, sin = by[0][:, None], by[1][:, None]
    half = cos.shape[-1]
    first, rest = x[..., : 2 * half], x[..., 2 * half :]
    if interleaved:
        one, other = first[..., 0::2], first[..., 1::2]
    else:
        one, other = first[..., :half], first[..., half:]
    new = (one * cos - other * sin, other * cos + one * sin)
    # Interleaved pairs may stay apart: queries and keys are ordered alike, and only their products count.
    return torch.cat([*new, rest], -1)


def _linear(turning: Turning, plain: Tensor, base: float, _positions: Tensor) -> Tensor:
    return 1.0 / base**plain / turning.number("factor")


def _dynamic(turning: Turning, plain: Tensor, base: float, positions: Tensor) -> Tensor:
    """The base grows with the text. SpecForge's table is longer than the limit from the start (`rows`)."""
    last = int(positions.max()) + 1 if len(positions) else 1
    length = max(float(last), turning.number("rows"))
    factor = turning.number("factor")
    stretched = factor * length / turning.limit - (factor - 1)
    return 1.0 / (base * stretched ** (turning.dims / max(turning.dims - 2, 1))) ** plain


def _llama3(turning: Turning, plain: Tensor, base: float, _positions: Tensor) -> Tensor:
    frequencies = 1.0 / base**plain
    factor, original = turning.number("factor"), turning.number("original_max_position_embeddings")
    low, high = turning.number("low_freq_factor"), turning.number("high_freq_factor")
    wavelength = 2 * math.pi / frequencies
    smooth: Any = (original / wavelength - low) / (high - low) if low != high else 0.0
    between = (1 - smooth) * frequencies / factor + smooth * frequencies
    stretched = torch.where(wavelength > original / low, frequencies / factor, between)
    return torch.where(wavelength < original / high, frequencies, stretched)


def _yarn(turning: Turning, plain: Tensor, base: float, _positions: Tensor) -> Tensor:
    original, dims = turning.number("original_max_position_embeddings"), turning.dims

    def place(rotations: float) -> float:
        return dims * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base) or 1e-9)

    low, high = place(turning.number("beta_fast")), place(turning.number("beta_slow"))
    if turning.number("truncate"):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(dims // 2, dtype=torch.float32, device=plain.device) - low) / (high - low)).clamp(0, 1)
    pace = base**plain
    return ramp / (turning.number("factor") * pace) + (1 - ramp) / pace


def _longrope(turning: Turning, plain: Tensor, base: float, positions: Tensor) -> Tensor:
    last = int(positions.max()) + 1 if len(positions) else 1
    long = last > turning.number("original_max_position_embeddings")
    factors = torch.tensor(turning.long if long else turning.short, dtype=torch.float32, device=plain.device)
    return 1.0 / (factors * base**plain)


_SCALED = {"linear": _linear, "dynamic": _dynamic, "llama3": _llama3, "yarn": _yarn, "longrope": _longrope}
