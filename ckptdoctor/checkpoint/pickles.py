"""PyTorch pickles (`.bin`, `.pt`, `.pth`): read through torch with `weights_only=True`, memory-mapped.

Nothing in the file is executed: torch's restricted unpickler builds tensors and plain containers and
refuses the rest. torch before 2.6 could run code even so (CVE-2025-32434) and is not used. torch is
an extra and is imported only here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.container import TensorInfo
from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

__all__ = ["PickledTensors", "read_pickle", "torch_problem"]

_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "complex64": "C64",
}  # fmt: skip
_NEEDS_TORCH = "reading {} needs torch 2.6 or newer: pip install 'ckptdoctor[torch]'"


@dataclass(frozen=True)
class PickledTensors:
    """What one pickle holds. `nested_in` is the key of the dictionary that the tensors sit in (None: the outermost).

    `values` keeps the (memory-mapped) tensors for reading small ones later; `others` are the keys of
    the outermost dictionary that hold no tensor.
    """

    tensors: tuple[TensorInfo, ...] = ()
    values: dict[str, Any] | None = None
    nested_in: str | None = None
    others: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def torch_problem() -> str | None:
    """Why pickles cannot be read here, as a reason without the file's name; None when they can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    major, minor = (int(part) for part in str(torch.__version__).split(".")[:2])
    return (
        None
        if (major, minor) >= (2, 6)
        else f"torch {show(torch.__version__)} is older than 2.6 and could run code from the file"
    )


def read_pickle(path: Path, name: str) -> PickledTensors:
    """The tensors of the pickle at `path`, called `name` in faults.

    Raises `CannotExamineError` naming the extra when torch is absent or too old. A file that torch
    refuses is a fault.
    """
    problem = torch_problem()
    if problem:
        raise CannotExamineError(f"{_NEEDS_TORCH.format(show(name))} ({problem})")
    import pickle

    import torch

    def refused(kind: str, error: Exception) -> PickledTensors:
        first_line = (str(error).strip().splitlines() or [""])[0]
        return PickledTensors(
            faults=(Fault(kind, name, detail=show(f"{type(error).__name__}: {first_line}")),)
        )

    if path.stat().st_size == 0:
        return PickledTensors(faults=(Fault("empty_file", name, offset=0),))
    with path.open("rb") as stream:
        if stream.read(24).startswith(b"version https://git-lfs"):
            cause = "the repository was cloned without git-lfs"
            return PickledTensors(
                faults=(Fault("lfs_pointer", name, offset=0, found=path.stat().st_size, detail=cause),)
            )
    # Only the zip format of torch 1.6 and later can be mapped; an older file is read whole.
    for mapped in (True, False):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
            break
        except pickle.UnpicklingError as error:
            return refused(
                "pickle_objects" if "weights_only" in str(error).lower() else "pickle_damaged", error
            )
        except Exception as error:  # noqa: BLE001 - torch raises anything at all on damaged input
            if not mapped or "mmap" not in str(error):
                return refused("pickle_damaged", error)
    return _describe(content, name)


def _describe(content: Any, name: str) -> PickledTensors:
    import torch

    def tensors_in(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            return {}
        return {str(k): v for k, v in value.items() if isinstance(v, torch.Tensor)}

    found, nested_in = tensors_in(content), None
    if isinstance(content, dict):
        for key, value in content.items():
            inner = tensors_in(value)
            if len(inner) > len(found):
                found, nested_in = inner, str(key)
    if not found:
        return PickledTensors(
            faults=(Fault("pickle_without_tensors", name, detail=show(type(content).__name__)),)
        )
    infos = tuple(
        TensorInfo(
            key,
            _DTYPES.get(str(value.dtype).removeprefix("torch."), str(value.dtype)),
            tuple(value.shape),
            name,
        )
        for key, value in found.items()
    )
    outer = content if nested_in is not None else {}
    others = tuple(str(k) for k in outer if str(k) != nested_in)
    return PickledTensors(infos, found, nested_in, others)
