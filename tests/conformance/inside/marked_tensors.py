"""Tensors that show where they went, and parameters that show what filled them.

Every parameter is filled with a sentinel before the load, and every floating tensor is handed to the engine's loader in
its own shape and dtype but filled with one number that no other tensor has. Whatever the loader does (rename, fuse,
slice, cast, drop), each element of each parameter then tells where it came from. Integer and boolean tensors (d2t, t2d)
keep their values, because loaders compute with them.

The pure parts import without torch, so that a test can reach them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

SHARDS = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj_with_mqa": ("q_a_proj", "kv_a_proj_with_mqa"),
    "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
    "kv_proj": ("k_proj", "v_proj"),
}
"""The stored names behind the rows of a fused parameter, in row order."""


def mark(number: int) -> float:
    """The number-th of a series of distinct numbers that bfloat16, float16 and float32 all hold exactly.

    Sign, exponent and 7 bits of fraction: 16 powers of two of 128 steps each, between 1 and 65536, ends left out.
    """
    exponent, step = divmod(number + 1, 128)
    if number < 0 or exponent > 15:
        raise ValueError(f"no mark {number}: a checkpoint of more than 2000 tensors is no draft")
    return float(2**exponent) * (1 + step / 128)


class Marks:
    """The tensors on their way into the loader, and afterwards the map from a value back to its stored name."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.current: str | None = None
        self._names: dict[float, str] = {}
        self._plain: dict[str, Any] = {}

    def __call__(self, stored: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        import torch

        for key, tensor in stored:
            self.keys.append(key)
            self.current = key
            # Only dtypes that hold a mark; the engine has already read, joined and named the tensor by itself.
            if getattr(tensor, "dtype", None) in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
                value = mark(len(self._names))
                self._names[value] = key
                yield key, torch.full_like(tensor, value)
            else:
                if isinstance(tensor, torch.Tensor):
                    self._plain[key] = tensor.clone()
                yield key, tensor
        self.current = None

    def of_values(self, values: Iterable[float]) -> list[str]:
        """The stored names behind values, in file order; what no mark explains is `<computed>`."""
        found = {self._names.get(value, "<computed>") for value in values}
        return [key for key in [*dict.fromkeys(self.keys), "<computed>"] if key in found]

    def of_equal(self, tensor: Any) -> list[str]:
        """The stored tensor (of those that keep their values) that this one equals."""
        import torch

        for key, plain in self._plain.items():
            same_size = plain.numel() == tensor.numel() > 0
            if same_size and torch.equal(plain.flatten().to(tensor), tensor.flatten()):
                return [key]
        return []

    def plain(self) -> dict[str, Any]:
        return dict(self._plain)


_INTEGER_SENTINEL = 77


@contextlib.contextmanager
def construction() -> Iterator[None]:
    """The state of torch while an engine builds a model: its dtype, and NaN in whatever is left uninitialised."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def fill_with_sentinel(model: Any, result: dict[str, Any]) -> None:
    """Notes shape and initial state of each parameter, then overwrites it."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            result["parameters"][name] = list(parameter.shape)
            if not parameter.is_meta:
                result["initial"][name] = _initial(parameter)
                parameter.data.fill_(float("nan") if parameter.is_floating_point() else _INTEGER_SENTINEL)


def _initial(parameter: Any) -> str:
    import torch

    values = parameter.detach()
    if values.is_floating_point():
        empty = values.float().isnan()
    else:
        empty = values == (1 if values.dtype == torch.bool else torch.iinfo(values.dtype).max)
    for kind, fits in (("empty", empty), ("zeros", values == 0), ("ones", values == 1)):
        if bool(fits.all()):
            return kind
    # A kernel of a convolution that hands on what it is given: ones for the first tap, zeros for the others.
    if values.dim() == 3 and bool((values[:, 0] == 1).all()) and not bool(values[:, 1:].any()):
        return "identity"
    return "random"


def account(model: Any, marks: Marks, result: dict[str, Any]) -> None:
    """Fills loaded, partially, untouched and ignored from what the parameters hold after the load."""
    for name, parameter in model.named_parameters():
        sources, missing = _trace(parameter.detach(), marks)
        if not sources:
            result["untouched"].append(name)
            continue
        result["loaded"][name] = sources
        if missing is not None:
            owner = model.get_submodule(name.rpartition(".")[0])
            result["partially"][name] = missing_shards(name, _shard_sizes(owner), missing.tolist())
    for name, buffer in model.named_buffers():
        sources, _ = _trace(buffer.detach(), marks)
        if sources and "<computed>" not in sources:
            result["loaded"][name] = sources
    landed = {key for keys in result["loaded"].values() for key in keys}
    result["ignored"] = [key for key in dict.fromkeys(marks.keys) if key not in landed]


def _trace(tensor: Any, marks: Marks) -> tuple[list[str], Any]:
    """Which stored tensors a parameter holds, and which of its rows (a boolean each) still hold the sentinel."""
    if tensor.is_meta or not tensor.numel():
        return [], None
    if not tensor.is_floating_point():
        untouched = (tensor == _INTEGER_SENTINEL).all()
        return ([] if untouched else marks.of_equal(tensor) or ["<computed>"]), None
    values = tensor.float()
    unfilled = values.isnan()
    if unfilled.all():
        return [], None
    rows = unfilled.reshape(values.shape[0], -1).any(dim=1) if values.dim() else unfilled.reshape(1)
    found = values[~unfilled].unique().tolist() if tensor.element_size() > 1 else []
    return marks.of_values(found) if found else marks.of_equal(tensor), rows if rows.any() else None


def _shard_sizes(module: Any) -> list[int]:
    return list(getattr(module, "output_partition_sizes", None) or getattr(module, "output_sizes", None) or [])


def missing_shards(name: str, sizes: Sequence[int], unfilled_rows: Sequence[bool]) -> list[str]:
    """Names the parts of a fused parameter that nothing filled; rows, where the parts have no names."""
    parts = name.split(".")
    names = SHARDS.get(parts[-2] if len(parts) > 1 else "", ())
    if not names or len(names) != len(sizes) or sum(sizes) != len(unfilled_rows):
        return [f"rows {a}:{b}" for a, b in _runs(unfilled_rows)]
    missing, start = [], 0
    for shard, size in zip(names, sizes, strict=True):
        if any(unfilled_rows[start : start + size]):
            missing.append(shard)
        start += size
    return missing


def _runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    edges = [i for i in range(len(flags) + 1) if (i > 0 and flags[i - 1]) != (i < len(flags) and flags[i])]
    return list(zip(edges[::2], edges[1::2], strict=True))
