"""Tensors of a PyTorch file as bytes for the writer: their place in the file where they stand in one piece, which the
system can copy or share, else parts of a few MB.

On a little-endian machine their bytes are what safetensors stores: rows one after the other.
"""

from __future__ import annotations

from functools import partial

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.publish.pieces import Piece, Range, Stream
from ckptdoctor.repair.state import tensor_bytes

__all__ = ["CHUNK", "pieces_of"]

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
    if found.in_one_piece and found.start is not None:
        return (Range(found.path, found.start, found.start + length),)
    return (Stream(length, partial(found.pieces, max(CHUNK // found.unit, 1)), found.path),)
