"""PyTorch pickles (`.bin`, `.pt`, `.pth`): read through torch with `weights_only=True`, memory-mapped.

Nothing in the file is executed: torch's restricted unpickler builds tensors and plain containers and
refuses the rest. torch before 2.6 could run code even so (CVE-2025-32434) and is not used. torch is
an extra and is imported only here.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.container import TensorInfo
from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.checkpoint.folder import open_regular
from ckptdoctor.checkpoint.strange import START, strange_content
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

__all__ = ["PickledTensors", "read_pickle", "read_plain", "torch_problem"]

WHOLE_LIMIT = 4 * 1024**3
"""Bytes at most of a PyTorch file that cannot be mapped (the form before torch 1.6) and has to be read whole."""

INFLATED_LIMIT = 256 * 1024 * 1024
"""Bytes of the pickle inside an archive at most; the tensors lie beside it."""

_DIRECTORY_LIMIT = 16 * 1024 * 1024
_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "complex64": "C64",
}  # fmt: skip
_SURROGATE = re.compile("[\ud800-\udfff]")
# What torch says when a file needs more than tensors and plain containers.
_OBJECT = re.compile(r"GLOBAL (\S+)|unrecognized function (.+)|add_safe_globals`,? but got (.+)|(TorchScript) archive")


@dataclass(frozen=True)
class PickledTensors:
    """What one pickle holds. `nested_in` is the key of the dictionary that the tensors sit in (None: the outermost).

    `values` keeps the (memory-mapped) tensors for reading small ones later; `others` are the keys of
    the outermost dictionary beside `nested_in`. `rivals` are further dictionaries in the file that hold tensors (`""`:
    the outermost one): which of them is the draft was decided by their number of tensors alone.
    """

    tensors: tuple[TensorInfo, ...] = ()
    values: dict[str, Any] | None = None
    nested_in: str | None = None
    others: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def torch_problem() -> str | None:
    """Why pickles cannot be read here, as a reason without the file's name; None when they can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    except Exception as error:  # noqa: BLE001 - a broken installation raises OSError, RuntimeError and worse
        return f"torch cannot be imported: {show(error)}"
    release = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    if release and (int(release[1]), int(release[2])) >= (2, 6):
        return None
    return f"torch {show(torch.__version__)} is older than 2.6 and could run code from the file"


def read_pickle(path: Path, name: str) -> PickledTensors:
    """The tensors of the pickle at `path`, called `name` in faults.

    Raises `CannotExamineError` when torch is absent or too old (naming the extra), or when the file
    is of the old form and too large to be read whole. A file that torch refuses is a fault. `OSError`
    passes through.
    """
    size = path.stat().st_size
    with open_regular(path) as stream:
        start = stream.read(START)
    archive = start.startswith(b"PK\x03\x04")
    if size == 0:
        return _faulty("empty_file", name)
    if not archive and not start.startswith(b"\x80"):
        return _no_pickle(name, start, size)
    problem = torch_problem()
    if problem:
        needs = "needs torch 2.6 or newer: pip install 'ckptdoctor[torch]'"
        raise CannotExamineError(f"reading {show(name)} {needs} ({problem})")
    import torch

    # Only the zip form of torch 1.6 and later can be mapped, and only by a name in UTF-8.
    mapped = archive and not _SURROGATE.search(str(path))
    if not mapped and size > WHOLE_LIMIT:
        raise CannotExamineError(
            f"{show(name)}: a PyTorch file of {size} bytes that has to be read whole;"
            " save it again with torch.save or as safetensors"
        )
    bomb = _inflates(path) if archive else None
    if bomb:
        return _faulty("pickle_damaged", name, bomb, found=size)
    try:
        with warnings.catch_warnings(), open_regular(path) as stream:
            warnings.simplefilter("ignore")
            content = torch.load(path if mapped else stream, map_location="cpu", weights_only=True, mmap=mapped)
            return _describe(content, name)
    except Exception as error:  # noqa: BLE001 - torch raises anything at all on damaged input
        return _refused(error, name)


def _no_pickle(name: str, start: bytes, size: int) -> PickledTensors:
    """A file that begins neither like a zip archive nor like a pickle: torch is not asked."""
    if start[8:9] == b"{" and 0 < int.from_bytes(start[:8], "little") < size:
        return _faulty("not_pytorch", name, "this is a safetensors file with the wrong ending", found=size)
    strange = strange_content(start)
    if strange is None:
        return _faulty("pickle_damaged", name, "it starts neither like a zip archive nor like a pickle", found=size)
    kind, cause = strange
    return _faulty(kind if kind == "lfs_pointer" else "not_pytorch", name, cause, found=size)


def read_plain(path: Path, name: str) -> Any:
    """What a small PyTorch file holds (numbers, texts, lists, dictionaries, tensors), for files that are no weights.

    Raises `CannotExamineError` with one sentence when torch is absent or too old, or will not read the file without
    running code. `OSError` passes through.
    """
    problem = torch_problem()
    if problem:
        needs = "needs torch 2.6 or newer: pip install 'ckptdoctor[torch]'"
        raise CannotExamineError(f"reading {show(name)} {needs} ({problem})")
    import torch

    size = path.stat().st_size
    if size > INFLATED_LIMIT:
        raise CannotExamineError(f"{show(name)}: {size} bytes; of such a file at most {INFLATED_LIMIT} are read")
    with path.open("rb") as stream:
        archive = stream.read(4) == b"PK\x03\x04"
    detail = _inflates(path) if archive else None
    if detail is None:
        try:
            with warnings.catch_warnings(), path.open("rb") as stream:
                warnings.simplefilter("ignore")
                return torch.load(stream, map_location="cpu", weights_only=True)
        except Exception as error:  # noqa: BLE001 - torch raises anything at all on damaged input
            detail = _refused(error, name).faults[0].detail
    raise CannotExamineError(f"{show(name)}: torch cannot read it safely ({detail})")


def _faulty(kind: str, name: str, detail: str = "", found: int | None = None) -> PickledTensors:
    return PickledTensors(faults=(Fault(kind, name, offset=0, found=found, detail=detail),))


def _refused(error: Exception, name: str) -> PickledTensors:
    """Why torch would not read the file, without its advice to load it unsafely."""
    text = str(error)
    match = _OBJECT.search(text)
    if match:
        thing = next(group for group in match.groups() if group)
        return PickledTensors(
            faults=(Fault("pickle_objects", name, found=show(thing), detail=f"it holds {show(thing)}"),)
        )
    said = text.partition("WeightsUnpickler error:")[2] or text
    first = (said.strip().splitlines() or [""])[0].partition(". ")[0]
    return PickledTensors(faults=(Fault("pickle_damaged", name, detail=show(f"{type(error).__name__}: {first}")),))


class _SmallReads(io.FileIO):
    """A file that gives no more than `_DIRECTORY_LIMIT` bytes at once: `zipfile` reads the directory in one piece."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > _DIRECTORY_LIMIT:
            raise zipfile.BadZipFile("the directory of the archive is too large")
        return super().read(_DIRECTORY_LIMIT if size is None or size < 0 else size) or b""


def _inflates(path: Path) -> str | None:
    """Whether torch would unpack a file much larger than it is; torch.save compresses nothing."""
    try:
        with (
            open_regular(path) as file,
            _SmallReads(file.fileno(), closefd=False) as stream,
            zipfile.ZipFile(stream) as archive,
        ):
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        return f"the archive is damaged: {show(error)}"
    unpacked = sum(e.file_size for e in entries if e.compress_type != zipfile.ZIP_STORED or e.filename.endswith(".pkl"))
    return f"its pickle takes {unpacked} bytes, which is no checkpoint" if unpacked > INFLATED_LIMIT else None


def _describe(content: Any, name: str) -> PickledTensors:
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
        return _faulty("pickle_without_tensors", name, show(type(content).__name__))
    infos = []
    for key, value in found.items():
        dtype = str(value.dtype).removeprefix("torch.")
        infos.append(TensorInfo(key, _DTYPES.get(dtype, dtype), tuple(value.shape), name))
    outer = content if nested_in is not None else {}
    others = tuple(str(k) for k in outer if str(k) != nested_in)
    return PickledTensors(tuple(infos), found, nested_in, others, tuple(k for k in holders if k != (nested_in or "")))
