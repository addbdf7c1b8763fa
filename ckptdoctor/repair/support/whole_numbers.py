"""Values of a map as whole numbers, and only where none of them can have been rounded.

A float of p significant bits holds every whole number below 2**p; from there on it holds some, and the others are
rounded to a neighbour (IEEE 754; 257 becomes 256 in BF16). So a float is believed below 2**p alone. One that went
through a narrower type on its way holds only numbers of that type, which shows as soon as it holds large ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.repair.plan.case import RefusedError
from ckptdoctor.unknown import Unknown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]

__all__ = ["whole_numbers"]

_SIGNIFICANT_BITS = {"BF16": 8, "F16": 11, "F32": 24, "F64": 53}


def whole_numbers(checkpoint: Checkpoint, info: TensorInfo, *, proven: bool) -> IntArray:
    """The values of `info` as int64, shape [elements]. `proven` says that something else bears out each of them.

    Raises `RefusedError`: `unread`, `not_whole`, or `rounded` where a value may stand for another one.
    """
    values = checkpoint.integers(info.name)
    bits = _SIGNIFICANT_BITS.get(info.dtype)
    if isinstance(values, Unknown):
        raise RefusedError("unread" if bits is None else "not_whole", name=info.name)
    if bits is None or not len(values):
        return values
    if int(abs(values).max()) >= 2**bits:
        raise RefusedError("rounded", name=info.name, dtype=info.dtype, limit=2**bits)
    for dtype, narrow in _SIGNIFICANT_BITS.items():
        if narrow < bits and not proven and _went_through(values, narrow):
            raise RefusedError("rounded", name=info.name, dtype=dtype, limit=2**narrow)
    return values


def _went_through(values: IntArray, bits: int) -> bool:
    """Whether there are values that need more than `bits` bits by their size, and none that has them."""
    import numpy as np

    size = np.abs(values)
    lowest_bit = np.maximum(size & -size, 1)
    return bool((size >= 2**bits).any()) and bool((size // lowest_bit < 2**bits).all())
