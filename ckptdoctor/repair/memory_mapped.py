"""Where in its PyTorch file the bytes of a memory-mapped tensor stand, so that the kernel can copy them.

torch maps the whole archive and lets each tensor point into it (torch/serialization.py, `mmap=True`). Copied from the
file, the bytes of even a large draft are never held in memory. Only Linux tells what is mapped where; elsewhere, and
for everything that is in doubt, the answer is None and the tensor is read.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.folder import open_regular

__all__ = ["place_in_file"]

_MAPS = Path("/proc/self/maps")
_SAMPLE = 4096


def place_in_file(tensor: Any, path: Path, length: int) -> int | None:
    """The offset in the file `path` of the `length` bytes of a contiguous tensor; None when it is not known.

    The bytes there are compared with the tensor's at its start, middle and end.
    """
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg() or not length:
        return None
    try:
        start = _offset(tensor.data_ptr(), length, path.stat().st_ino)
        if start is None or start + length > path.stat().st_size or not _same_byte_order(path):
            return None
        return start if _alike(tensor, path, start, length) else None
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return None


def _offset(address: int, length: int, inode: int) -> int | None:
    """The offset in the file `inode` of what is mapped at `address`."""
    with _MAPS.open("rb") as lines:
        for line in lines:
            span, _, offset, _, number, *_ = line.split(maxsplit=5)
            low, high = (int(part, 16) for part in span.split(b"-"))
            if low <= address and address + length <= high:
                return address - low + int(offset, 16) if int(number) == inode else None
    return None


def _same_byte_order(path: Path) -> bool:
    """Whether torch loads the file without turning the bytes of each value round."""
    with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
        notes = [entry for entry in archive.infolist() if entry.filename.endswith("/byteorder")]
        return all(archive.open(entry).read(16) == sys.byteorder.encode() for entry in notes)


def _alike(tensor: Any, path: Path, start: int, length: int) -> bool:
    import torch

    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if plain.element_size() > 1 and plain.reshape(-1).stride(0) != 1:
        return False
    memory = plain.reshape(-1).view(torch.uint8)
    with open_regular(path) as stream:
        for at in {0, length // 2, max(length - _SAMPLE, 0)}:
            stream.seek(start + at)
            held = memory[at : at + _SAMPLE].numpy().tobytes()
            if stream.read(len(held)) != held:
                return False
    return True
