"""A map in the forms that trainers take beside the tensors of a checkpoint."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.publish.pieces import Literal
from ckptdoctor.text import show

if TYPE_CHECKING:
    from ckptdoctor.vocab.building import BoolArray, IntArray

__all__ = ["numpy_file", "torch_file"]


def torch_file(offsets: IntArray, mask: BoolArray) -> Literal:
    """The file that SpecForge's `load_vocab_mapping` reads: `{"d2t": int64 [D], "t2d": bool [V]}`."""
    from ckptdoctor.checkpoint.pickles import torch_problem

    if why := torch_problem():
        raise CannotExamineError(f"--also specforge writes a PyTorch file: {why} (pip install 'ckptdoctor[torch]')")
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a broken installation raises anything
        raise CannotExamineError(
            f"--also specforge writes a PyTorch file: torch cannot be imported ({show(error)})"
        ) from None

    buffer = io.BytesIO()
    torch.save({"d2t": torch.from_numpy(offsets), "t2d": torch.from_numpy(mask)}, buffer)
    return Literal(buffer.getvalue())


def numpy_file(values: IntArray | BoolArray) -> Literal:
    """The file that `numpy.load` reads: speculators takes d2t.npy and t2d.npy."""
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return Literal(buffer.getvalue())
