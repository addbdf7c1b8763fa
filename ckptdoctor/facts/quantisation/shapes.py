"""Shapes of packed weights, scales and zeros against each other and against the scheme."""

from __future__ import annotations

from dataclasses import dataclass

from ckptdoctor.facts.quantisation.scheme import Scheme
from ckptdoctor.facts.quantisation.store import Module

__all__ = ["Misshapen", "misshapen"]


@dataclass(frozen=True)
class Misshapen:
    """A tensor of a quantised module whose shape does not go with the others: `expected` and `found` are shapes; of
    several that would do, `expected` is the first. `beside` is the tensor that it is held against;
    `others` counts the modules that are wrong in the same way."""

    tensor: str
    file: str
    expected: tuple[int, ...]
    found: tuple[int, ...]
    beside: str
    because: str
    others: int = 0


def misshapen(module: Module, scheme: Scheme | None, four_bit_groups: tuple[int, ...]) -> Misshapen | None:
    """The first tensor of `module` that does not fit; None where all fit or nothing is known."""
    weight = module.weight
    if weight is None or len(module.tensors[weight].shape) != 2:
        return None
    if weight == "qweight":
        return _of_qweight(module, scheme)
    if weight == "weight_packed" and module.form == "packed":
        return _of_whole_numbers(module, scheme)
    if module.form == "four bits":
        return _of_four_bits(module, weight, four_bit_groups)
    if module.form in ("float8", "int8"):
        return _of_bytes(module, weight, scheme)
    return None


def _fault(module: Module, suffix: str, expected: tuple[int, ...], beside: str, because: str) -> Misshapen | None:
    info = module.tensors[suffix]
    if info.shape == expected:
        return None
    return Misshapen(info.name, info.file, expected, info.shape, module.tensors[beside].name, because)


def _up(length: int, size: int) -> int:
    return -(-length // size)


def _groups(length: int, group: int) -> int:
    return 1 if group == -1 else _up(length, group)


def _of_qweight(module: Module, scheme: Scheme | None) -> Misshapen | None:
    """GPTQ: [K·bits/32, N] with scales [K/g, N] and zeros [K/g, N·bits/32]; AWQ: [K, N·bits/32] with the same
    scales."""
    scales, zeros = module.tensors.get("scales"), module.tensors.get("qzeros")
    rows, columns = module.tensors["qweight"].shape
    if scales is None or len(scales.shape) != 2:
        return None
    groups, outputs = scales.shape
    declared = scheme.bits if scheme is not None else None
    bits = declared or module.packed_bits or 4
    along_input = columns == outputs
    if not along_input and columns * 32 != outputs * bits:
        expected = (groups, columns if scheme is None or scheme.method != "awq" else columns * 32 // bits)
        return _fault(module, "scales", expected, "qweight", "one scale for each output")
    inputs = rows * 32 // bits if along_input else rows
    if zeros is not None:
        found = _fault(
            module, "qzeros", (groups, outputs * bits // 32), "scales", f"zeros of {bits} bits, packed in 32"
        )
        if found is not None:
            return found
    if scheme is not None and scheme.group is not None:
        expected = (_groups(inputs, scheme.group), outputs)
        why = "one scale for a whole row" if scheme.group == -1 else f"one scale for {scheme.group} values"
        return _fault(module, "scales", expected, "qweight", f"{bits} bits, {why}")
    return None


def _of_whole_numbers(module: Module, scheme: Scheme | None) -> Misshapen | None:
    """compressed-tensors: [N, K·bits/32] with weight_scale [N, K/g] or [N, 1]."""
    scale = module.tensors.get("weight_scale")
    rows, columns = module.tensors["weight_packed"].shape
    if scale is None or len(scale.shape) != 2:
        return None
    if scale.shape[0] != rows:
        return _fault(module, "weight_scale", (rows, scale.shape[1]), "weight_packed", "one scale for each output")
    if scheme is None or scheme.bits not in (2, 3, 4, 8) or scheme.group is None:
        return None
    inputs = columns * 32 // scheme.bits
    why = "one scale for a whole row" if scheme.group == -1 else f"one scale for {scheme.group} values"
    expected = (rows, _groups(inputs, scheme.group))
    return _fault(module, "weight_scale", expected, "weight_packed", f"{scheme.bits} bits, {why}")


def _of_four_bits(module: Module, weight: str, sizes: tuple[int, ...]) -> Misshapen | None:
    """NVFP4 and MXFP4: [N, K/2] bytes with one scale for each 16 or 32 values of a row."""
    scale = module.tensors.get("weight_scale")
    rows, columns = module.tensors[weight].shape
    if scale is None or len(scale.shape) != 2:
        return None
    allowed = [(rows, _up(2 * columns, size)) for size in sizes]
    if scale.shape in allowed:
        return None
    return _fault(module, "weight_scale", allowed[0], weight, f"one scale for {' or '.join(map(str, sizes))} values")


def _of_bytes(module: Module, weight: str, scheme: Scheme | None) -> Misshapen | None:
    """FP8 and INT8: one scale for the matrix, for each row, or for each block."""
    suffix = next((s for s in ("weight_scale_inv", "weight_scale", "scale") if s in module.tensors), None)
    if suffix is None:
        return None
    rows, columns = module.tensors[weight].shape
    scale = module.tensors[suffix].shape
    block = scheme.block if scheme is not None else None
    if block is not None and scheme is not None and scheme.method == "fp8":
        expected = (_up(rows, block[0]), _up(columns, block[1]))
        return _fault(module, suffix, expected, weight, f"one scale for a block of {block[0]} × {block[1]}")
    if scale in ((), (1,), (1, 1), (rows,), (rows, 1), (1, rows)):
        return None
    fits = len(scale) == 2 and 0 < scale[0] <= rows and 0 < scale[1] <= columns
    if fits and _blocks_fit(rows, scale[0]) and _blocks_fit(columns, scale[1]):
        return None
    return _fault(module, suffix, (rows, 1), weight, "one scale for each row, or for each block")


def _blocks_fit(length: int, blocks: int) -> bool:
    """Whether `blocks` blocks of one usual size cover `length`."""
    return any(_up(length, size) == blocks for size in (1, 16, 32, 64, 128, 256, 512, length))
