"""The process that reads PyTorch files for us, with torch, under limits of time and memory that the system enforces.

Nothing in a file is executed: torch's restricted unpickler (`weights_only=True`) builds tensors and plain containers
and refuses the rest. What goes back are names, shapes and places in the file, and plain values of small files; the
weights stay where they are. It reads one request a line and ends with its input.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any, BinaryIO

from ckptdoctor.checkpoint.folder import open_regular
from ckptdoctor.checkpoint.pickled.loading import described, load, same_byte_order
from ckptdoctor.checkpoint.pickled.plain import encoded
from ckptdoctor.checkpoint.pickled.tensor import stamp_of
from ckptdoctor.limits import PICKLE_MEMORY, PICKLE_SECONDS
from ckptdoctor.text import show

__all__ = ["main"]

# What torch says when a file needs more than tensors and plain containers.
_OBJECT = re.compile(r"GLOBAL (\S+)|unrecognized function (.+)|add_safe_globals`,? but got (.+)|(TorchScript) archive")
_HOARD = 1 << 30

Answer = dict[str, Any]


def main() -> None:
    """Answer requests (a line of JSON each) on what was standard output, until the input ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever a library prints is no answer
    problem = _torch_problem()
    _set("RLIMIT_CORE", 0)
    at_start = _in_use()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        blobs: list[bytes] = []
        answer: Answer = {"problem": problem} if problem else _bounded(request, blobs)
        answer["blobs"] = [len(blob) for blob in blobs]
        text = json.dumps(answer).encode("ascii")
        out.write(len(text).to_bytes(8, "little") + text)
        for blob in blobs:
            out.write(blob)
        out.flush()
        if _in_use() > at_start + _HOARD:
            return


def _torch_problem() -> str | None:
    try:
        import torch
        import torch.serialization
    except ImportError:
        return "torch is not installed"
    except Exception as error:  # noqa: BLE001 - a broken installation raises OSError, RuntimeError and worse
        return f"torch cannot be imported: {show(error)}"
    release = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    if release and (int(release[1]), int(release[2])) >= (2, 6):
        _warm_up()
        return None
    return f"torch {show(torch.__version__)} is older than 2.6 and could run code from the file"


def _warm_up() -> None:
    """Load something once, for what torch imports only then."""
    import torch

    for zipped in (True, False):
        buffer = io.BytesIO()
        torch.save({"a": torch.zeros(1)}, buffer, _use_new_zipfile_serialization=zipped)
        buffer.seek(0)
        torch.load(buffer, map_location="cpu", weights_only=True)


# --- limits -------------------------------------------------------------------------------------------------------


def _bounded(request: Answer, blobs: list[bytes]) -> Answer:
    """The answer to `request`, computed under limits; past the limit of time the system ends this process."""
    try:
        with open_regular(Path(request["path"])) as stream:
            status = os.fstat(stream.fileno())
            _limit(status.st_size)
            try:
                answer = _answer(request, stream, status.st_size, blobs)
            finally:
                _unlimit()
            after = os.fstat(stream.fileno())
    except OSError as error:
        return {"unreadable": show(error.strerror or error)}
    except MemoryError:
        blobs.clear()
        return _too_much()
    if stamp_of(after) != stamp_of(status):
        blobs.clear()
        return {"unreadable": "it was changed while it was read"}
    return {**answer, "stamp": list(stamp_of(status))}


def _too_much() -> Answer:
    return {"unreadable": f"it takes more than {PICKLE_MEMORY} bytes of memory, which no checkpoint does"}


def _limit(size: int) -> None:
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime)  # the system counts whole seconds
    _set("RLIMIT_CPU", spent + PICKLE_SECONDS)
    held = _in_use()
    if held:
        _set("RLIMIT_AS", held + size + PICKLE_MEMORY)


def _unlimit() -> None:
    for name in ("RLIMIT_CPU", "RLIMIT_AS"):
        _set(name, None)


def _set(name: str, most: int | None) -> None:
    try:
        import resource
    except ImportError:  # a system without limits
        return
    which = getattr(resource, name, None)
    if which is None:
        return
    _, hard = resource.getrlimit(which)
    wanted = hard if most is None else most if hard == resource.RLIM_INFINITY else min(most, hard)
    try:
        resource.setrlimit(which, (wanted, hard))
    except (OSError, ValueError):
        return


def _in_use() -> int:
    """Bytes of address space of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - no path of a person
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


# --- reading ------------------------------------------------------------------------------------------------------


def _answer(request: Answer, stream: BinaryIO, size: int, blobs: list[bytes]) -> Answer:
    archive = stream.read(4) == b"PK\x03\x04"
    stream.seek(0)
    plain = request["what"] == "plain"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content, places = load(stream, request["path"], size, mapped=archive and not plain, skim=not plain)
        if plain:
            return {"value": encoded(content, blobs)}
        turned = archive and not same_byte_order(stream)
        return described(content, sorted(places), size, turned)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - torch raises anything at all on damaged input
        return _refused(error)


def _refused(error: Exception) -> Answer:
    """Why torch would not read the file, without its advice to load it unsafely."""
    text = str(error)
    match = _OBJECT.search(text)
    if match:
        thing = show(next(group for group in match.groups() if group))
        return {"kind": "pickle_objects", "found": thing, "detail": f"it holds {thing}"}
    if "not enough memory" in text or "bad_alloc" in text or "Cannot allocate memory" in text:
        return _too_much()
    said = text.partition("WeightsUnpickler error:")[2] or text
    first = (said.strip().splitlines() or [""])[0].partition(". ")[0]
    return {"kind": "pickle_damaged", "detail": show(f"{type(error).__name__}: {first}")}
