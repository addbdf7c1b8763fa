"""Tensors of a PyTorch file as bytes for the writer: the place in the file where that is known, else parts of a few MB.

The tensors are memory-mapped where torch can (`torch.load(mmap=True)`); torch is imported only where such a file was
opened. On a little-endian machine their memory is what safetensors stores: rows one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.publish.pieces import Piece, Range, Stream
from ckptdoctor.repair.memory_mapped import place_in_file
from ckptdoctor.repair.state import tensor_bytes

__all__ = ["CHUNK", "pieces_of", "same_view", "unplain"]

CHUNK = 4 << 20
"""Bytes of a tensor that are held at once."""


def pieces_of(checkpoint: Checkpoint, info: TensorInfo) -> tuple[Piece, ...]:
    """The bytes of the tensor `info`, which `checkpoint` has from a PyTorch file.

    Only the elements of the tensor itself, never the rest of a larger storage that it is a view of.
    """
    found = checkpoint.pickled(info.name)
    length = tensor_bytes(info)
    if found is None or not length:
        return ()
    tensor, path = found[0].detach(), found[1]
    start = place_in_file(tensor, path, length) if path is not None else None
    if path is not None and start is not None:
        return (Range(path, start, start + length),)
    return (Stream(length, partial(_chunks, tensor), path or Path(checkpoint.path)),)


def unplain(tensor: Any) -> str | None:
    """Why a torch tensor has no plain bytes, in words; None when it has."""
    if str(tensor.layout) != "torch.strided":
        return f"it is stored as {str(tensor.layout).removeprefix('torch.')}"
    if tensor.is_meta:
        return "it has no values"
    if tensor.is_quantized:
        return "its values are quantised in torch's own way"
    return "it is nested" if tensor.is_nested else None


def same_view(one: Any, other: Any) -> bool:
    """Whether two torch tensors are the same elements of the same storage."""

    def seen(tensor: Any) -> tuple[Any, ...]:
        return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()

    return seen(one) == seen(other) and bool(one.numel())


def _chunks(tensor: Any) -> Iterator[memoryview]:
    """The elements of `tensor` in row-major order, at most `CHUNK` bytes at a time."""
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        flat = tensor.reshape(-1)
        step = max(CHUNK // tensor.element_size(), 1)
        for start in range(0, flat.numel(), step):
            yield _bytes(flat[start : start + step])
        return
    row = tensor.numel() // tensor.shape[0] * tensor.element_size() if tensor.dim() else tensor.element_size()
    if row > CHUNK and tensor.dim() > 1:
        for part in tensor:
            yield from _chunks(part)
        return
    if not tensor.dim():
        yield _bytes(tensor.resolve_conj().resolve_neg().reshape(1).clone())
        return
    step = max(CHUNK // max(row, 1), 1)
    for start in range(0, tensor.shape[0], step):
        yield _bytes(tensor[start : start + step].resolve_conj().resolve_neg().contiguous().reshape(-1))


def _bytes(flat: Any) -> memoryview:
    """The memory of a contiguous one-dimensional tensor, whatever its dtype (numpy has no bfloat16 and no float8)."""
    import torch

    if flat.stride(0) != 1:  # a single element keeps the stride of the tensor that it was taken from
        flat = flat.clone(memory_format=torch.contiguous_format)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())
