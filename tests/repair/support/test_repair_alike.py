"""Two tensors are alike to the last byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from treating.tensors import tensor
from treatment_cases import Tensor, put

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.repair.support.alike import alike


def test_tensors_are_compared_to_the_last_byte_in_chunks(tmp_path: Path) -> None:
    raw = bytes(np.random.default_rng(0).integers(0, 256, 3 << 20, dtype=np.uint8))
    put(tmp_path / "a.safetensors", {"a": Tensor("U8", (len(raw),), raw), "n": tensor(1)})
    put(
        tmp_path / "b.safetensors",
        {"b": Tensor("U8", (len(raw),), raw), "c": Tensor("U8", (len(raw),), raw[:-1] + bytes([raw[-1] ^ 1]))},
    )
    checkpoint = open_checkpoint(str(tmp_path))
    a, b, c = (checkpoint.tensors[name] for name in "abc")
    assert alike(checkpoint, a, b) is True
    assert alike(checkpoint, a, c) is False
    assert alike(checkpoint, a, replace(b, shape=(1, len(raw)))) is False
    assert not isinstance(alike(checkpoint, a, replace(b, start=None)), bool)
