"""Forms of packed modules, and the matrices behind them."""

from __future__ import annotations

import pytest

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.quantisation.shapes import misshapen
from ckptdoctor.facts.quantisation.store import gather, unpacked


def infos(**shapes: tuple[str, tuple[int, ...]]) -> dict[str, TensorInfo]:
    stem = "m.q_proj."
    return {stem + name: TensorInfo(stem + name, dtype, shape, "f") for name, (dtype, shape) in shapes.items()}


@pytest.mark.parametrize(
    ("tensors", "form", "shape"),
    [
        (infos(weight=("BF16", (64, 32))), "plain", (64, 32)),
        (infos(weight=("F8_E4M3", (64, 32)), weight_scale=("F32", (1,))), "float8", (64, 32)),
        (infos(weight=("U8", (64, 16)), weight_scale=("F8_E4M3", (64, 2))), "four bits", (64, 32)),
        (infos(weight_packed=("U8", (64, 16)), weight_scale=("F8_E4M3", (64, 2))), "four bits", (64, 32)),
        (infos(weight=("I8", (64, 32)), weight_scale=("F32", (64, 1))), "int8", (64, 32)),
        (infos(qweight=("I32", (4, 64)), scales=("F16", (1, 64)), qzeros=("I32", (1, 8))), "packed", (64, 32)),
        (infos(qweight=("I32", (8, 64)), scales=("F16", (1, 64)), qzeros=("I32", (1, 16))), "packed", (64, 32)),
        (infos(qweight=("I32", (32, 8)), scales=("F16", (1, 64)), qzeros=("I32", (1, 8))), "packed", (64, 32)),
        (infos(**{"weight": ("U8", (1024, 1)), "weight.absmax": ("F32", (32,))}), "bitsandbytes", (1024, 1)),
        (infos(weight_scale=("F32", (1,))), "none", None),
    ],
)  # fmt: skip
def test_the_form_and_the_matrix_behind_it(
    tensors: dict[str, TensorInfo], form: str, shape: tuple[int, int] | None
) -> None:
    module = gather(tensors)["m.q_proj"]
    assert module.form == form
    assert module.logical_shape == shape
    assert misshapen(module, None, (16, 32)) is None


def test_recognition_sees_matrices_where_weights_are_packed() -> None:
    tensors = infos(weight_packed=("I32", (64, 4)), weight_scale=("BF16", (64, 1)))
    assert unpacked(tensors)["m.q_proj.weight"].shape == (64, 32)
    plain = infos(weight=("BF16", (64, 32)))
    assert unpacked(plain) is plain
