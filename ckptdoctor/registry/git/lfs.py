"""Git-lfs: what a pointer says, and the object that it stands for in a storage on this machine."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.registry.git.commands import Repository

__all__ = ["POINTER_LIMIT", "Pointer", "object_path", "own_stores", "read_pointer", "sha256_of"]

POINTER_LIMIT = 1024
"""Bytes from which on git-lfs takes no file for a pointer."""

# The names of the format, of today and of long ago, that git-lfs itself accepts.
_POINTER = re.compile(
    rb"version (?:https://git-lfs\.github\.com/spec/v1|http://git-media\.io/v/2|https://hawser\.github\.com/spec/v1)\n"
    rb"(?P<extensions>(?:ext-[^\n]*\n)*)oid sha256:(?P<oid>[0-9a-f]{64})\nsize (?P<size>[0-9]{1,19})\s*"
)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Pointer:
    """The object that a pointer file stands for. `extended`: programs of the person's own would change its content."""

    oid: str
    size: int
    extended: bool


def read_pointer(content: bytes) -> Pointer | None:
    """The pointer in the file `content`; None when it is an ordinary file."""
    found = _POINTER.fullmatch(content) if len(content) < POINTER_LIMIT else None
    if found is None:
        return None
    return Pointer(found["oid"].decode("ascii"), int(found["size"]), bool(found["extensions"]))


def own_stores(repository: Repository) -> tuple[Path, ...]:
    """Where git-lfs keeps the objects of `repository`: its own folder first, then those of what it borrows from."""
    chosen = repository.config("lfs.storage", "--type=path")
    # As git-lfs does: a relative folder is in the git folder.
    stores = [repository.common / (chosen or "lfs") / "objects"]
    try:
        alternates = os.fsdecode((repository.common / "objects" / "info" / "alternates").read_bytes()).splitlines()
    except OSError:
        alternates = []
    borrowed = [line for line in alternates if line and not line.startswith("#")]
    stores += [(repository.common / "objects" / line).resolve().parent / "lfs" / "objects" for line in borrowed]
    return tuple(stores)


def object_path(oid: str, stores: Iterable[Path]) -> Path | None:
    """The file of the object `oid` in the first of `stores` that has it.

    A store may be laid out as git-lfs does it (`aa/bb/aabb…`, in the folder or in `objects` in it), or as Gitea and
    GitLab do (`aa/bb/…` with the rest of the id).
    """
    names = [f"{oid[:2]}/{oid[2:4]}/{oid}", f"objects/{oid[:2]}/{oid[2:4]}/{oid}", f"{oid[:2]}/{oid[2:4]}/{oid[4:]}"]
    places = (store / name for store in stores for name in names)
    return next((place for place in places if os.path.isfile(place)), None)  # noqa: PTH113  # no error, whatever is there


def sha256_of(path: Path) -> str:
    """The SHA-256 of the file `path`, in constant memory. Raises `OSError`."""
    total = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        buffer = memoryview(bytearray(_CHUNK))
        while count := stream.readinto(buffer):
            total.update(buffer[:count])
    return total.hexdigest()
