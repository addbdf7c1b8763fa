"""Values of tensors in small pieces: each byte is read once, into buffers that are used again.

Memory does not depend on the size of a tensor. Tensors of safetensors files are read by their place in the file, those
of PyTorch files too, without torch, and those that a repair would write from memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.checkpoint.container import DTYPE_BITS
from ckptdoctor.errors import CannotExamineError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Raw = npt.NDArray[Any]

__all__ = ["CHUNK", "FLOATS", "Piece", "Reader", "place_of", "readable", "reporting", "told"]

CHUNK = 1 << 17
"""Values of one piece at most: decoded and squared they fit the cache of a core."""

FLOATS = frozenset({"F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2"})
"""Dtypes that are decoded. What is packed in other ways has no value of its own."""

_CODES = {"F64": "<f8", "F32": "<f4", "BF16": "<u2", "F16": "<f2", "F8_E4M3": "u1", "F8_E5M2": "u1"}

Told = Callable[[int], None]
_told: ContextVar[Told | None] = ContextVar("told", default=None)


@contextmanager
def reporting(tell: Told) -> Iterator[None]:
    """While it lasts, `tell` is called with the bytes of weights that were read since the last call."""
    token = _told.set(tell)
    try:
        yield
    finally:
        _told.reset(token)


def told(count: int) -> None:
    """Tell whoever wants to know that `count` more bytes were read."""
    tell = _told.get()
    if tell is not None:
        tell(count)


@dataclass(frozen=True)
class Piece:
    """Some whole rows of a tensor, or a stretch of it where a row alone is too long (`width` 0 then).

    `values` are float32, flat; they are good until the next piece. `raw` are the same as stored.
    """

    first: int
    width: int
    raw: Raw
    values: Floats


def readable(info: TensorInfo) -> bool:
    """Whether the tensor has values of a float dtype, of the size that its shape says."""
    if info.dtype not in FLOATS or info.elements == 0:
        return False
    return (
        info.start is None or info.end is None or info.end - info.start == info.elements * DTYPE_BITS[info.dtype] // 8
    )


def place_of(checkpoint: Checkpoint, info: TensorInfo) -> tuple[object, ...] | None:
    """What names these bytes and no others: the file as it is now, and the place in it. None for what has no place."""
    if info.name in checkpoint.arrays:
        return None
    path = checkpoint.real_path(info.file)
    if path is None:
        return None
    try:
        seen = path.stat()
    except OSError:
        return None
    file = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    within = info.stored_as if info.start is None else (info.start, info.end)
    return (*file, within, info.dtype, info.shape)


class Reader:
    """Reads tensors of one checkpoint. Two readers may be at work side by side; each has its own buffers."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        import numpy as np

        self._checkpoint = checkpoint
        self._raw = bytearray(CHUNK * 8)
        self._wide = np.empty(CHUNK, dtype=np.uint32)
        self._tables: dict[str, Floats] = {}

    def pieces(self, info: TensorInfo) -> Iterator[Piece]:
        """The values of `info`, in order. Raises `CannotExamineError` or `OSError` where they cannot be read."""
        width = info.shape[-1] if len(info.shape) > 1 else 0
        if width > CHUNK:
            width = 0
        step = CHUNK // width * width if width else CHUNK
        if info.name in self._checkpoint.arrays:
            yield from self._of_memory(info, width, step)
            return
        held = self._checkpoint.pickled(info.name) if info.name in self._checkpoint.tensors else None
        if held is not None:
            first = 0
            for raw in held.pieces(step):
                told(len(raw))
                yield self._piece(raw, info.dtype, first, width)
                first += step
            return
        if info.start is None:
            raise CannotExamineError("values that stand nowhere")
        size = DTYPE_BITS[info.dtype] // 8
        view = memoryview(self._raw)
        with self._checkpoint.reading(info.file) as stream:
            stream.seek(info.start)
            for first in range(0, info.elements, step):
                count = min(step, info.elements - first)
                part = view[: count * size]
                if stream.readinto(part) != count * size:  # type: ignore[attr-defined]
                    raise CannotExamineError("the file is shorter than its header says")
                told(count * size)
                yield self._piece(part, info.dtype, first, width)

    def _piece(self, raw: Any, dtype: str, first: int, width: int) -> Piece:
        import numpy as np

        stored = np.frombuffer(raw, dtype=_CODES[dtype])
        return Piece(first, width, stored, self._decoded(stored, dtype))

    def _decoded(self, stored: Raw, dtype: str) -> Floats:
        import numpy as np

        if dtype == "F32":
            return stored.view(np.float32)
        wide = self._wide[: len(stored)]
        if dtype == "BF16":
            wide[:] = stored
            np.left_shift(wide, np.uint32(16), out=wide)
            return wide.view(np.float32)
        floats = wide.view(np.float32)
        if dtype in ("F16", "F64"):
            with np.errstate(over="ignore"):
                floats[:] = stored
        else:
            if dtype not in self._tables:
                self._tables[dtype] = _eight_bits(dtype)
            np.take(self._tables[dtype], stored, out=floats)
        return floats

    def _of_memory(self, info: TensorInfo, width: int, step: int) -> Iterator[Piece]:
        import numpy as np

        flat = np.ascontiguousarray(self._checkpoint.arrays[info.name]).reshape(-1)
        if flat.dtype.kind == "f" and info.dtype == "BF16":
            flat = (flat.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        stored = flat.view(_CODES[info.dtype])
        for first in range(0, info.elements, step):
            part = stored[first : first + step]
            yield Piece(first, width, part, self._decoded(part, info.dtype))


def _eight_bits(dtype: str) -> Floats:
    """What the 256 codes of an eight-bit float mean: E4M3 without infinities (NaN is S.1111.111), or E5M2."""
    import numpy as np

    exponent_bits, bias = (4, 7) if dtype == "F8_E4M3" else (5, 15)
    mantissa_bits = 7 - exponent_bits
    table = np.empty(256, dtype=np.float32)
    for code in range(256):
        sign = -1.0 if code & 0x80 else 1.0
        exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
        mantissa = code & ((1 << mantissa_bits) - 1)
        if dtype == "F8_E4M3" and code & 0x7F == 0x7F:
            value = math.nan
        elif dtype == "F8_E5M2" and exponent == 31:
            value = math.nan if mantissa else math.inf
        elif exponent == 0:
            value = math.ldexp(mantissa, 1 - bias - mantissa_bits)
        else:
            value = math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)
        table[code] = sign * value
    return table
