"""PyTorch pickles (`.bin`, `.pt`, `.pth`): read by a process of their own, through torch with `weights_only=True`.

Nothing in the file is executed: torch's restricted unpickler builds tensors and plain containers and
refuses the rest. torch before 2.6 could run code even so (CVE-2025-32434) and is not used. What is read comes back as
names, shapes and places in the file; torch is an extra and is never imported here.
"""

from __future__ import annotations

import io
import os
import re
import sys
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.container import TensorInfo
from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.checkpoint.folder import open_regular
from ckptdoctor.checkpoint.pickled.plain import Other, PlainTensor, decoded
from ckptdoctor.checkpoint.pickled.reader import EndedError, ask
from ckptdoctor.checkpoint.pickled.tensor import PickledTensor, stamp_of
from ckptdoctor.checkpoint.strange import START, strange_content
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.limits import PICKLE_DIRECTORY, PICKLE_INFLATED, PICKLE_WHOLE
from ckptdoctor.text import show

__all__ = ["Other", "PickledTensors", "PlainTensor", "read_pickle", "read_plain", "torch_problem"]

_NEEDS = "needs torch 2.6 or newer: pip install 'ckptdoctor[torch]'"
_KEPT = 16


@dataclass(frozen=True)
class PickledTensors:
    """What one pickle holds. `nested_in` is the key of the dictionary that the tensors sit in (None: the outermost).

    `values` are the places of the tensors, for reading small ones later; `others` are the keys of
    the outermost dictionary beside `nested_in`. `rivals` are further dictionaries in the file that hold tensors (`""`:
    the outermost one): which of them is the draft was decided by their number of tensors alone.
    """

    tensors: tuple[TensorInfo, ...] = ()
    values: dict[str, PickledTensor] | None = None
    nested_in: str | None = None
    others: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def torch_problem() -> str | None:
    """Why pickles cannot be read here, as a reason without the file's name; None when nothing speaks against it.

    torch is looked for and not imported.
    """
    loaded = sys.modules.get("torch")
    try:
        if loaded is None and find_spec("torch") is None:
            return "torch is not installed"
        version = str(metadata.version("torch") if loaded is None else loaded.__version__)
    except ImportError:
        # Found, and without a record of its version: the process that imports it will tell.
        return "torch is not installed" if not _is_found() else None
    except Exception as error:  # noqa: BLE001 - a broken installation raises anything
        return f"torch cannot be imported: {show(error)}"
    release = re.match(r"(\d+)\.(\d+)", version)
    if release and (int(release[1]), int(release[2])) >= (2, 6):
        return None
    return f"torch {show(version)} is older than 2.6 and could run code from the file"


def _is_found() -> bool:
    try:
        return find_spec("torch") is not None
    except ImportError:
        return False


_read: OrderedDict[tuple[Any, ...], PickledTensors] = OrderedDict()


def read_pickle(path: Path, name: str) -> PickledTensors:
    """The tensors of the pickle at `path`, called `name` in faults.

    Raises `CannotExamineError` when torch is absent or too old (naming the extra), when the file is of the old form
    and too large to be read whole, or when it changes meanwhile. A file that torch refuses, or that takes more time or
    memory than any checkpoint, is a fault. `OSError` passes through.
    """
    with open_regular(path) as stream:
        status = os.fstat(stream.fileno())
        start = stream.read(START)
    size = status.st_size
    archive = start.startswith(b"PK\x03\x04")
    if size == 0:
        return _faulty("empty_file", name)
    if not archive and not start.startswith(b"\x80"):
        return _no_pickle(name, start, size)
    problem = torch_problem()
    if problem:
        raise CannotExamineError(f"reading {show(name)} {_NEEDS} ({problem})")
    if not archive and size > PICKLE_WHOLE:
        raise CannotExamineError(
            f"{show(name)}: a PyTorch file of {size} bytes that has to be read whole;"
            " save it again with torch.save or as safetensors"
        )
    bomb = _inflates(path) if archive else None
    if bomb:
        return _faulty("pickle_damaged", name, bomb, found=size)
    key = (os.path.realpath(path), name, *stamp_of(status), status.st_ctime_ns)
    if key not in _read:
        _read[key] = _tensors(path, name)
        while len(_read) > _KEPT:
            _read.popitem(last=False)
    return _read[key]


def _tensors(path: Path, name: str) -> PickledTensors:
    try:
        answer, _ = _asked(path, name, "tensors")
    except EndedError as error:
        return _faulty("pickle_damaged", name, str(error))
    if "kind" in answer:
        return _faulty(answer["kind"], name, answer["detail"], found=answer.get("found"))
    stamp, real = tuple(answer["stamp"]), Path(os.path.realpath(path))
    infos, values = [], {}
    for row in answer["tensors"]:
        shape = tuple(row["shape"])
        infos.append(TensorInfo(row["name"], row["dtype"], shape, name))
        values[row["name"]] = PickledTensor(
            real, stamp, shape, tuple(row["strides"]), row["unit"], row["start"], row["turned"], row["problem"]
        )
    return PickledTensors(tuple(infos), values, answer["nested_in"], tuple(answer["others"]), tuple(answer["rivals"]))


def _asked(path: Path, name: str, what: str) -> tuple[dict[str, Any], list[bytes]]:
    """The answer of the process that reads. Raises `CannotExamineError` where it says nothing of the file's content,
    `EndedError` where the file ended it."""
    try:
        answer, blobs = ask(path, what)
    except EndedError as error:
        if error.damaged:
            raise
        raise CannotExamineError(f"{show(name)}: {error}") from None
    if "problem" in answer:
        raise CannotExamineError(f"reading {show(name)} {_NEEDS} ({answer['problem']})")
    if "unreadable" in answer:
        raise CannotExamineError(f"{show(name)}: cannot be read ({answer['unreadable']})")
    return answer, blobs


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
    """What a small PyTorch file holds (numbers, texts, lists, dictionaries, `PlainTensor`s), for files that are no
    weights. Anything else, and what is nested deeper than a few levels, is an `Other`.

    Raises `CannotExamineError` with one sentence when torch is absent or too old, or will not read the file without
    running code or within the limits. `OSError` passes through.
    """
    problem = torch_problem()
    if problem:
        raise CannotExamineError(f"reading {show(name)} {_NEEDS} ({problem})")
    with open_regular(path.resolve()) as stream:
        size = os.fstat(stream.fileno()).st_size
        archive = stream.read(4) == b"PK\x03\x04"
    if size > PICKLE_INFLATED:
        raise CannotExamineError(f"{show(name)}: {size} bytes; of such a file at most {PICKLE_INFLATED} are read")
    detail = _inflates(path.resolve()) if archive else None
    if detail is None:
        try:
            answer, blobs = _asked(path, name, "plain")
            if "kind" not in answer:
                return decoded(answer["value"], blobs)
            detail = answer["detail"]
        except EndedError as error:
            detail = str(error)
    raise CannotExamineError(f"{show(name)}: torch cannot read it safely ({detail})")


def _faulty(kind: str, name: str, detail: str = "", found: int | str | None = None) -> PickledTensors:
    return PickledTensors(faults=(Fault(kind, name, offset=0, found=found, detail=detail),))


class _SmallReads(io.FileIO):
    """A file that gives no more than `PICKLE_DIRECTORY` bytes at once: `zipfile` reads the directory in one piece."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > PICKLE_DIRECTORY:
            raise zipfile.BadZipFile("the directory of the archive is too large")
        return super().read(PICKLE_DIRECTORY if size is None or size < 0 else size) or b""


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
    return f"its pickle takes {unpacked} bytes, which is no checkpoint" if unpacked > PICKLE_INFLATED else None
