"""The safetensors container: its header, read strictly and without touching a single weight.

The format (`safetensors` 0.8, README "Format"): eight bytes of header length, little endian; that
many bytes of JSON; then the data. Each entry gives dtype, shape and `data_offsets` counted from the
start of the data; together the entries cover the data without hole or overlap. The `safetensors`
package stops at the first violation with an exception, and accepts duplicate names; this reader
names every kind of violation with its place, and a property test holds its verdict to the package's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from ckptdoctor.checkpoint.faults import Fault, first_of_each
from ckptdoctor.checkpoint.jsonreader import JsonDocument, read_json
from ckptdoctor.checkpoint.strange import START, strange_content
from ckptdoctor.text import show

__all__ = ["DTYPE_BITS", "HEADER_LIMIT", "NAME_LIMIT", "Header", "TensorInfo", "read_header"]

HEADER_LIMIT = 100_000_000
"""Bytes of header at most: the limit of the `safetensors` package."""

NAME_LIMIT = 100_000
"""Tensors in one file at most."""

DTYPE_BITS: Mapping[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
    "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64,
}  # fmt: skip
"""Bits per element of every dtype that `safetensors` 0.8.0 accepts."""

_METADATA = "__metadata__"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One stored tensor. `start` and `end` are absolute byte offsets in `file`; None inside a pickle.

    `alias_of` is the name in the file when the tensor is looked at under another one; None otherwise.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    start: int | None = None
    end: int | None = None
    alias_of: str | None = None

    @property
    def stored_as(self) -> str:
        """The name in the file, where `name` is one that a repair would give it."""
        return self.alias_of or self.name

    @property
    def elements(self) -> int:
        """The number of elements (1 for a scalar)."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Header:
    """What a header says. `sound` is False when names or shapes cannot be trusted."""

    tensors: tuple[TensorInfo, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    sound: bool = True


def read_header(stream: BinaryIO, file: str, size: int) -> Header:
    """The header of the safetensors file `file` of `size` bytes, open in `stream`.

    Reads the length and the header, never the data. Never raises for any content; `OSError` of the
    stream passes through.
    """

    def failed(kind: str, **more: Any) -> Header:
        return Header(faults=(Fault(kind, file, **more),), sound=False)

    if size == 0:
        return failed("empty_file", offset=0)
    start = stream.read(START)
    strange = strange_content(start)
    # A true header opens its JSON in the ninth byte, whatever its length happens to spell.
    if strange is not None and start[8:9] != b"{":
        kind, cause = strange
        return failed(kind if kind == "lfs_pointer" else "not_safetensors", offset=0, detail=cause, found=size)
    if size < 8:
        return failed("header_past_end", offset=0, expected=8, found=size)
    length = int.from_bytes(start[:8], "little")
    if length > HEADER_LIMIT:
        return failed("header_too_long", offset=0, expected=HEADER_LIMIT, found=length)
    if 8 + length > size:
        return failed("header_past_end", offset=0, expected=8 + length, found=size)
    stream.seek(8)
    raw = stream.read(length)
    if len(raw) < length:
        return failed("header_past_end", offset=0, expected=8 + length, found=8 + len(raw))
    entries = raw.count(b'"data_offsets"')
    if entries > NAME_LIMIT:
        return failed("too_many_tensors", offset=8, expected=NAME_LIMIT, found=entries)
    document = read_json(raw, file, base=8, depth=1)
    del raw
    faults = [_as_header_fault(fault) for fault in document.faults]
    if not document.readable:
        return Header(faults=tuple(faults), sound=False)
    if not isinstance(document.value, dict):
        return failed("header_not_object", offset=8)
    if len(document.value) > NAME_LIMIT:
        return failed("too_many_tensors", offset=8, expected=NAME_LIMIT, found=len(document.value))
    tensors, metadata, more = _entries(document, file, 8 + length)
    layout = _layout_faults(tensors, file, 8 + length, size)
    faults = list(first_of_each([*faults, *more, *layout]))
    short = [fault for fault in faults if fault.kind == "data_past_end"]
    return Header(
        tensors=tuple(tensors),
        metadata=metadata,
        faults=tuple(faults),
        # A file that is merely cut short still has its whole header: names and shapes are good.
        sound=len(short) == len(faults),
    )


def _as_header_fault(fault: Fault) -> Fault:
    """A fault of the header's JSON in the words of the container, where lines say nothing."""
    if fault.kind == "json_duplicate_key":
        twice = fault.found == 1
        detail = "" if twice else f"the key {show(fault.tensor)} stands twice in one entry"
        return replace(fault, kind="duplicate_name" if twice else "header_entry", line=None, found=None, detail=detail)
    what = fault.detail or fault.kind.removeprefix("json_").replace("_", " ")
    return replace(fault, kind="header_json", line=None, detail=what)


def _entries(document: JsonDocument, file: str, base: int) -> tuple[list[TensorInfo], dict[str, str], list[Fault]]:
    tensors: list[TensorInfo] = []
    metadata: dict[str, str] = {}
    faults: list[Fault] = []
    for name, entry in document.object.items():
        at = document.places[(name,)][0]
        if name == _METADATA:
            if isinstance(entry, dict) and all(isinstance(v, str) for v in entry.values()):
                metadata = entry
            elif entry is not None:
                faults.append(Fault("metadata_not_text", file, offset=at))
            continue
        problem = _entry_problem(entry)
        if problem:
            faults.append(Fault("header_entry", file, offset=at, tensor=name, detail=problem))
            continue
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        bits = DTYPE_BITS.get(dtype)
        needed = _counted(shape, bits or 8)
        if needed is None:
            problem = "shape holds more elements than 64 bits can count"
            faults.append(Fault("header_entry", file, offset=at, tensor=name, detail=problem))
            continue
        if bits is None:
            faults.append(Fault("unknown_dtype", file, offset=at, tensor=name, found=dtype))
        elif needed != (end - begin) * 8:
            detail = f"{dtype} {list(shape)}" + (", which is no whole number of bytes" if needed % 8 else "")
            sizes = {"expected": (needed + 7) // 8, "found": end - begin}
            faults.append(Fault("size_mismatch", file, offset=at, tensor=name, detail=detail, **sizes))
        tensors.append(TensorInfo(name, dtype, shape, file, base + begin, base + end))
    return tensors, metadata, faults


def _entry_problem(entry: Any) -> str | None:
    """What is wrong with the form of one header entry, in words; None if nothing is."""

    def counts(value: Any) -> bool:
        return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**64 for v in value)

    if not isinstance(entry, dict):
        return "the entry is not an object"
    if not isinstance(entry.get("dtype"), str):
        return "dtype is missing or not a text"
    if not counts(entry.get("shape")):
        return "shape is missing or not a list of whole numbers"
    if len(entry["shape"]) > 64:
        return "shape has more than 64 dimensions"
    offsets: Any = entry.get("data_offsets")
    if not counts(offsets) or len(offsets) != 2:
        return "data_offsets is missing or not a pair of whole numbers"
    if offsets[0] > offsets[1]:
        return "data_offsets ends before it begins"
    return None


def _counted(shape: tuple[int, ...], bits: int) -> int | None:
    """The bits of a tensor; None when counting them in 64 bits overflows on the way, as it does in the package."""
    total = 1
    for factor in (*shape, bits):
        total *= factor
        if total >= 2**64:
            return None
    return total


def _layout_faults(tensors: list[TensorInfo], file: str, base: int, size: int) -> list[Fault]:
    """Holes, overlaps, and data that ends before or after the file does. Offsets are bytes in the file."""
    faults: list[Fault] = []
    covered, previous = base, ""
    for tensor in sorted(tensors, key=lambda t: (t.start or 0, t.end or 0)):
        start, end = tensor.start or 0, tensor.end or 0
        if start > covered:
            faults.append(Fault("hole", file, offset=covered, tensor=tensor.name, found=start - covered))
        elif start < covered:
            faults.append(
                Fault("overlap", file, offset=start, tensor=tensor.name, other=previous, found=covered - start)
            )
        if end > covered:
            covered, previous = end, tensor.name
    if covered > size:
        cut = next(t for t in sorted(tensors, key=lambda t: t.end or 0) if (t.end or 0) > size)
        lost = sum((t.end or 0) > size for t in tensors)
        faults.append(
            Fault("data_past_end", file, offset=size, tensor=cut.name, expected=covered, found=size, count=lost)
        )
    elif covered < size:
        faults.append(Fault("trailing_bytes", file, offset=covered, expected=covered, found=size))
    return faults
