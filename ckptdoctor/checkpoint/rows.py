"""Some rows of a large matrix, read by ranges of bytes: what lies between them is not touched."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from ckptdoctor.checkpoint.container import DTYPE_BITS, TensorInfo
from ckptdoctor.checkpoint.opened import NUMPY_CODES, Checkpoint, widened
from ckptdoctor.checkpoint.pickled.tensor import PickledTensor
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["ROWS_LIMIT", "read_rows"]

ROWS_LIMIT = 64 * 1024 * 1024
"""Bytes of rows that one call reads at most."""

_FLOATS = frozenset({"BF16", "F16", "F32"})


def read_rows(checkpoint: Checkpoint, info: TensorInfo, rows: npt.NDArray[np.int64]) -> Known[npt.NDArray[np.float32]]:
    """The rows `rows` (any order, repeats allowed) of the matrix `info` as float32, shape [len(rows), width].

    Unknown when the tensor is no matrix of BF16, F16 or F32, the rows are more than `ROWS_LIMIT` bytes or outside of
    it, or their bytes cannot be read.
    """
    import numpy as np

    unreadable = Unknown(f"readable values of {show(info.name)}")
    if len(info.shape) != 2 or info.dtype not in _FLOATS:
        return Unknown(f"values of {show(info.name)} as BF16, F16 or F32")
    height, width = info.shape
    if len(rows) == 0 or width == 0:
        return np.zeros((len(rows), width), dtype=np.float32)
    if int(rows.min()) < 0 or int(rows.max()) >= height:
        return unreadable
    if len(rows) * width * DTYPE_BITS[info.dtype] // 8 > ROWS_LIMIT:
        return Unknown(f"narrower rows of {show(info.name)}")
    if info.name in checkpoint.arrays:
        return np.asarray(checkpoint.arrays[info.name]).reshape(height, width)[rows].astype(np.float32)
    held = checkpoint.pickled(info.name) if info.name in checkpoint.tensors else None
    wanted, back = np.unique(rows, return_inverse=True)
    try:
        stored = _stored(checkpoint, info, wanted) if held is None else _pickled(held, info, wanted)
    except (CannotExamineError, OSError):
        return unreadable
    return unreadable if stored is None else stored[back.reshape(-1)]


def _stored(checkpoint: Checkpoint, info: TensorInfo, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | None:
    """The rows (ascending, each once) as float32; None when the file is shorter than its header says."""
    import numpy as np

    height, width = info.shape
    row = width * DTYPE_BITS[info.dtype] // 8
    if info.start is None or info.end is None or info.end - info.start != height * row:
        return None
    out = np.empty((len(rows), width), dtype=np.float32)
    with checkpoint.reading(info.file) as stream:
        for first, last in _runs(rows):
            stream.seek(info.start + int(rows[first]) * row)
            raw = stream.read((last - first) * row)
            if len(raw) != (last - first) * row:
                return None
            out[first:last] = widened(np.frombuffer(raw, dtype=NUMPY_CODES[info.dtype]), info.dtype).reshape(-1, width)
    return out


def _pickled(held: PickledTensor, info: TensorInfo, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """The rows (ascending, each once) of a tensor in a PyTorch file. Raises `CannotExamineError`."""
    import numpy as np

    out = np.empty((len(rows), info.shape[1]), dtype=np.float32)
    code = NUMPY_CODES[info.dtype]
    if not held.in_one_piece:
        whole = widened(np.frombuffer(held.rows(0, info.shape[0]), dtype=code), info.dtype)
        out[:] = whole.reshape(info.shape)[rows]
        return out
    for first, last in _runs(rows):
        raw = held.rows(int(rows[first]), last - first)
        out[first:last] = widened(np.frombuffer(raw, dtype=code), info.dtype).reshape(-1, info.shape[1])
    return out


def _runs(rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Stretches [first, last) of neighbouring rows, which one read brings."""
    import numpy as np

    breaks = (np.flatnonzero(np.diff(rows) != 1) + 1).tolist()
    edges = [0, *breaks, len(rows)]
    yield from pairwise(edges)
