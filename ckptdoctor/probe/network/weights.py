"""The weights of a draft as float32 tensors by their canonical names, whatever file, prefix or dtype they come in."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.checkpoint.container import DTYPE_BITS
from ckptdoctor.checkpoint.pickled.tensor import PickledTensor
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import Facts
from ckptdoctor.facts.target_weights import find_target_weights
from ckptdoctor.probe.network.anatomy import Anatomy, Part
from ckptdoctor.probe.network.stored_parts import FLOATS, expected
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown

__all__ = ["MOST_VALUES", "read_weights", "target_matrices"]

MOST_VALUES = 2**32
"""Values of all weights of a draft at most: 16 GiB as float32."""

_TORCH = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}


def read_weights(checkpoint: Checkpoint, facts: Facts, anatomy: Anatomy) -> dict[str, Tensor]:
    """The weights that the network uses: canonical name → float32, `d2t` int64 [D], `mask_hidden` float32 [K·T].

    They are the draft's own; what it takes from its target is not among them (`target_matrices`). Layers are counted
    from 0, and q, k, v, gate and up stand for themselves. Raises `CannotExamineError` when bytes cannot be read or the
    weights are too large.
    """
    wanted = {name: anatomy.parts[name] for name, _, _ in expected(anatomy, facts) if name in anatomy.parts}
    if sum(math.prod(part.shape) for part in wanted.values()) > MOST_VALUES:
        raise CannotExamineError(f"the draft has more than {MOST_VALUES} values; it is too large to be run here")
    weights = {name: _part(checkpoint, part) for name, part in wanted.items()}
    if "mask_hidden" in weights:
        weights["mask_hidden"] = weights["mask_hidden"].reshape(-1)
    if "d2t" in anatomy.parts:
        values = checkpoint.integers(anatomy.parts["d2t"].name)
        if isinstance(values, Unknown):
            raise CannotExamineError(f"the draft cannot be run without {values.needs}")
        weights["d2t"] = torch.from_numpy(values.copy())
    return weights


def target_matrices(path: str, anatomy: Anatomy) -> dict[str, Tensor]:
    """What a draft takes from the target at `path` where it has none of its own.

    `embed_tokens.weight` float32 [V, H]; `lm_head.weight` float32 [V, H] where the draft has neither a head nor a tied
    one. Empty where the target has no weights there, or they have not the draft's width.
    """
    found = find_target_weights(path)
    if found is None:
        return {}
    taken: dict[str, Tensor] = {}
    head = None if anatomy.head or anatomy.tied else found.head
    embedding = None if "embed_tokens.weight" in anatomy.parts else found.embedding
    for name, info in (("embed_tokens.weight", embedding), ("lm_head.weight", head)):
        if info is not None and info.shape[1] == anatomy.hidden and info.elements <= MOST_VALUES:
            taken[name] = read_tensor(found.checkpoint, info)
    return taken


def read_tensor(checkpoint: Checkpoint, info: TensorInfo) -> Tensor:
    """The whole tensor `info` as float32. Raises `CannotExamineError` when it cannot be read."""
    return _part(checkpoint, Part(info, info.shape))


def _part(checkpoint: Checkpoint, part: Part) -> Tensor:
    info = part.info
    if info.dtype not in FLOATS:
        raise CannotExamineError(f"{show(info.name)} is quantised ({info.dtype}); only plain weights can be run")
    held = checkpoint.pickled(info.name) if info.name in checkpoint.tensors else None
    if info.name in checkpoint.arrays:
        whole: Any = torch.from_numpy(checkpoint.arrays[info.name].copy()).reshape(info.shape)
    elif held is not None:
        return _pickled(held, part)
    else:
        return _stored(checkpoint, part)
    try:
        rows = whole.detach() if part.first is None else whole.detach()[part.first : part.first + part.shape[0]]
        return rows.to(torch.float32, copy=True).contiguous()
    except (RuntimeError, TypeError, NotImplementedError) as error:  # a sparse or meta tensor has no plain values
        raise CannotExamineError(f"the values of {show(info.name)} cannot be read") from error


def _pickled(held: PickledTensor, part: Part) -> Tensor:
    """The part by its bytes in a PyTorch file."""
    try:
        count = part.shape[0] if part.shape else 1
        data = bytearray(held.rows(part.first or 0, count) if part.shape else b"".join(held.pieces(1)))
    except CannotExamineError as error:  # a sparse or meta tensor has no plain values
        raise CannotExamineError(f"the values of {show(part.info.name)} cannot be read") from error
    if not data:
        return torch.zeros(part.shape)
    return torch.frombuffer(data, dtype=getattr(torch, _TORCH[part.info.dtype])).to(torch.float32).reshape(part.shape)


def _stored(checkpoint: Checkpoint, part: Part) -> Tensor:
    """The part by its bytes in a safetensors file."""
    info, size = part.info, DTYPE_BITS[part.info.dtype] // 8
    needed = info.elements * size
    if info.start is None or info.end is None or info.end - info.start != needed:
        raise CannotExamineError(f"the bytes of {show(info.name)} are not as many as its shape needs")
    skipped = 0 if part.first is None else part.first * math.prod(info.shape[1:]) * size
    wanted = math.prod(part.shape) * size
    data = bytearray(wanted)
    with checkpoint.reading(info.file) as stream:
        stream.seek(info.start + skipped)
        read = stream.readinto(data)  # type: ignore[attr-defined]
    if read != wanted:
        raise CannotExamineError(f"{show(info.file)} ends inside {show(info.name)}")
    if not wanted:
        return torch.zeros(part.shape)
    return torch.frombuffer(data, dtype=getattr(torch, _TORCH[info.dtype])).to(torch.float32).reshape(part.shape)
