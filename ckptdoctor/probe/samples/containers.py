"""The files that states are kept in, opened without running or copying what is in them: safetensors and PyTorch files.

Tensors are memory-mapped, so that of a long text only the part that is taken is read.
"""

from __future__ import annotations

import gzip
import mmap
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ckptdoctor.checkpoint.container import TensorInfo, read_header
from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.checkpoint.folder import open_regular
from ckptdoctor.checkpoint.pickles import read_pickle
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.probe.samples.recorded_text import UnreadableError
from ckptdoctor.text import show

__all__ = ["UNPACKED_LIMIT", "container_of", "opened_pickle", "read_safetensors"]

UNPACKED_LIMIT = 2 * 1024**3
"""Bytes that a packed file may unpack to at most."""

_PIECE = 1 << 20
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


def container_of(place: Path) -> str:
    """`pickle`, `gzip`, `safetensors` or `text`, by how the file begins. Raises `UnreadableError`."""
    try:
        with open_regular(place) as stream:
            start = stream.read(9)
    except OSError as error:
        raise UnreadableError(f"cannot be read ({show(error.strerror or error)})") from None
    if not start:
        raise UnreadableError("is empty")
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if start.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")) and start[8:9] != b"{":
        return "pickle"
    return "safetensors" if start[8:9] == b"{" and b"\0" in start[:8] else "text"


def read_safetensors(place: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    """The tensors of the file, mapped (never written back), and the texts of its header's metadata.

    Tensors of dtypes that torch has no plain form of are left out. Raises `UnreadableError`.
    """
    try:
        with open_regular(place) as stream:
            size = place.stat().st_size
            header = read_header(stream, place.name, size)
            fault = next((f for f in header.faults if f.kind != "metadata_not_text"), None)
            if fault is not None:
                raise UnreadableError(f"a damaged safetensors file: {_told(fault)}")
            # A private copy: torch warns of memory that it may not write.
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:
        raise UnreadableError(f"cannot be read ({show(getattr(error, 'strerror', None) or error)})") from None
    return {info.name: _mapped(mapped, info) for info in header.tensors if info.dtype in _DTYPES}, header.metadata


def _mapped(source: mmap.mmap, info: TensorInfo) -> Tensor:
    dtype = _DTYPES[info.dtype]
    if not info.elements:
        return torch.empty(info.shape, dtype=dtype)
    start = info.start or 0
    if start % dtype.itemsize:  # written by hand; torch wants values at whole multiples of their size
        return torch.frombuffer(bytearray(source[start : info.end]), dtype=dtype).reshape(info.shape)
    return torch.frombuffer(source, dtype=dtype, count=info.elements, offset=start).reshape(info.shape)


@contextmanager
def opened_pickle(place: Path, *, packed: bool) -> Iterator[Mapping[str, Any]]:
    """The outermost dictionary of the PyTorch file, by text keys; what it holds is good inside the `with` only.

    Raises `UnreadableError` where torch does not read it without running code, or it unpacks to too much.
    """
    if not packed:
        yield _loaded(place, place.name)
        return
    with tempfile.TemporaryDirectory(prefix="ckptdoctor-") as folder:
        unpacked = Path(folder) / "features.ckpt"
        _unpack(place, unpacked)
        yield _loaded(unpacked, place.name)


def _unpack(place: Path, to: Path) -> None:
    size = 0
    try:
        with open_regular(place) as file, gzip.open(file) as stream, to.open("wb") as out:
            while piece := stream.read(_PIECE):
                size += len(piece)
                if size > UNPACKED_LIMIT:
                    raise UnreadableError(f"unpacks to more than {UNPACKED_LIMIT} bytes")
                out.write(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"a damaged gzip file ({show(getattr(error, 'strerror', None) or error)})") from None


def _loaded(place: Path, name: str) -> Mapping[str, Any]:
    try:
        # It looks at the archive first, and tells in words what torch refuses.
        described = read_pickle(place, name)
        if described.faults:
            raise UnreadableError(_told(described.faults[0]))
        with open_regular(place) as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mapped = stream.read(4) == b"PK\x03\x04"
            stream.seek(0)
            content = torch.load(place if mapped else stream, map_location="cpu", weights_only=True, mmap=mapped)
    except UnreadableError:
        raise
    except CannotExamineError as error:
        raise UnreadableError(str(error)) from None
    except Exception as error:  # noqa: BLE001 - torch raises anything at all on damaged input
        raise UnreadableError(f"torch cannot read it ({show(error, 80)})") from None
    if not isinstance(content, dict):
        raise UnreadableError(f"holds a {show(type(content).__name__)}, not a dictionary of tensors")
    return {key: value for key, value in content.items() if isinstance(key, str)}


def _told(fault: Fault) -> str:
    what = fault.kind.replace("_", " ")
    if fault.kind == "data_past_end":
        return f"it ends at byte {fault.found}, its header promises {fault.expected}"
    if fault.kind == "pickle_objects":
        return f"it holds {fault.found}, which is no tensor; nothing but tensors and plain values is read"
    return f"{what} ({fault.detail})" if fault.detail else what
