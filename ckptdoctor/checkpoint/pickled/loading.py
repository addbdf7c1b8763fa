"""In the process that reads PyTorch files: what torch makes of one, as names, shapes and places in the file."""

from __future__ import annotations

import math
import sys
import zipfile
from bisect import bisect_right
from pathlib import Path
from typing import Any, BinaryIO

from ckptdoctor.limits import PICKLE_CLAIMS, PICKLE_CLAIMS_ANYWAY
from ckptdoctor.text import show

__all__ = ["described", "load", "same_byte_order", "unplain"]

Answer = dict[str, Any]

_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "complex64": "C64",
}  # fmt: skip


class _Skimmed:
    """A file of the old form for torch: what it reads into storages is left where it is and remembered as a place."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._size = size
        self.places: list[list[int]] = []
        self.read = stream.read
        self.readline = stream.readline
        self.seek = stream.seek
        self.tell = stream.tell

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer`, or only note where its bytes stand when it is a storage and no number before one."""
        length = len(buffer)
        at = self.tell()
        if length <= 8:
            return int(self._stream.readinto(buffer))  # type: ignore[attr-defined]
        if at + length > self._size:
            return 0
        import numpy as np

        address = int(np.frombuffer(buffer, dtype=np.uint8).ctypes.data)
        last = self.places[-1] if self.places else None
        if last is not None and last[0] + last[1] == address and last[2] + last[1] == at:
            last[1] += length
        else:
            self.places.append([address, length, at])
        self.seek(at + length)
        return length


def load(stream: BinaryIO, path: str, size: int, *, mapped: bool, skim: bool) -> tuple[Any, list[list[int]]]:
    """What is in the file, and where in it the memory of its storages stands: address, length, offset.

    It is mapped, or else read; with `skim` what is in its storages is left out.
    """
    import torch

    if not mapped:
        source = _Skimmed(stream, size) if skim else stream
        loaded = torch.load(source, map_location="cpu", weights_only=True)
        return loaded, source.places if isinstance(source, _Skimmed) else []
    places: list[list[int]] = []
    whole = torch.UntypedStorage.from_file

    def noted(*args: Any, **more: Any) -> Any:
        storage = whole(*args, **more)
        places.append([storage.data_ptr(), storage.nbytes(), 0])
        return storage

    # By its descriptor: the name may lead elsewhere by now, and torch maps only what has a name in UTF-8.
    opened = f"/dev/fd/{stream.fileno()}"
    torch.UntypedStorage.from_file = staticmethod(noted)
    try:
        place = opened if Path(opened).exists() else path
        return torch.load(place, map_location="cpu", weights_only=True, mmap=True), places
    finally:
        torch.UntypedStorage.from_file = whole


def same_byte_order(stream: BinaryIO) -> bool:
    """Whether torch loads the archive without turning the bytes of each value round."""
    stream.seek(0)
    with zipfile.ZipFile(stream) as archive:
        notes = [entry for entry in archive.infolist() if entry.filename.endswith("/byteorder")]
        return all(archive.open(entry).read(16) == sys.byteorder.encode() for entry in notes)


def described(content: Any, places: list[list[int]], size: int, turned: bool) -> Answer:
    """The tensors of the dictionary that holds most of them, and what else is there; `places` are those of `load`,
    sorted, `size` the bytes of the file. What claims more than the file can hold has no values."""
    import torch

    def tensors_in(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            return {}
        return {str(k): v for k, v in value.items() if isinstance(v, torch.Tensor)}

    found, nested_in = tensors_in(content), None
    holders = [""] if found else []
    if isinstance(content, dict):
        for key, value in content.items():
            inner = tensors_in(value)
            holders += [str(key)] if inner else []
            if len(inner) > len(found):
                found, nested_in = inner, str(key)
    if not found:
        return {"kind": "pickle_without_tensors", "detail": show(type(content).__name__)}
    claimed, most = 0, PICKLE_CLAIMS * size + PICKLE_CLAIMS_ANYWAY
    rows = []
    for key, tensor in found.items():
        row = _row(key, tensor, places, turned)
        needed = math.prod(row["shape"]) * row["unit"]
        fits = needed <= max(size, PICKLE_CLAIMS_ANYWAY) and claimed + needed <= most
        claimed += needed if fits else 0
        if row["problem"] is None and not fits:
            row["problem"] = f"its shape claims {needed} bytes, and the whole file has {size}"
        rows.append(row)
    outer = content if nested_in is not None else {}
    return {
        "tensors": rows,
        "nested_in": nested_in,
        "others": [str(k) for k in outer if str(k) != nested_in],
        "rivals": [k for k in holders if k != (nested_in or "")],
    }


def _row(name: str, tensor: Any, places: list[list[int]], turned: bool) -> Answer:
    dtype = str(tensor.dtype).removeprefix("torch.")
    row: Answer = {
        "name": name, "dtype": _DTYPES.get(dtype, dtype), "shape": list(tensor.shape), "strides": [],
        "unit": tensor.element_size(), "start": None, "turned": 1, "problem": unplain(tensor),
    }  # fmt: skip
    if row["problem"] is not None:
        return row
    row["strides"] = list(tensor.stride())
    if turned:
        row["turned"] = tensor.element_size() // (2 if tensor.is_complex() else 1)
    if tensor.numel():
        row["start"] = _place(tensor, places)
        row["problem"] = None if row["start"] is not None else "its values have no place in the file"
    else:
        row["start"] = 0
    return row


def unplain(tensor: Any) -> str | None:
    """Why a torch tensor has no plain bytes, in words; None when it has."""
    if str(tensor.layout) != "torch.strided":
        return f"it is stored as {str(tensor.layout).removeprefix('torch.')}"
    if tensor.is_meta:
        return "it has no values"
    if tensor.is_quantized:
        return "its values are quantised in torch's own way"
    if tensor.is_conj() or tensor.is_neg():
        return "its values are the conjugates or negatives of what is stored"
    return "it is nested" if tensor.is_nested else None


def _place(tensor: Any, places: list[list[int]]) -> int | None:
    """The offset in the file of the first element; None where the span of the tensor is not in one stretch of it."""
    low = tensor.data_ptr()
    span = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    at = bisect_right(places, [low, sys.maxsize, 0]) - 1
    if at < 0:
        return None
    address, length, offset = places[at]
    inside = address <= low and low + span * tensor.element_size() <= address + length
    return int(low - address + offset) if inside else None
