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
_VERSIONS = frozenset(
    {"https://git-lfs.github.com/spec/v1", "http://git-media.io/v/2", "https://hawser.github.com/spec/v1"}
)
_KEYS = ("version", "oid", "size")
_EXTENSION = re.compile(r"ext-[0-9]-\w+", re.ASCII)
_OID = re.compile(r"sha256:([0-9a-f]{64})")
_SIZE = re.compile(r"\+?0*([0-9]{1,19})")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Pointer:
    """The object that a pointer file stands for. `extended`: programs of the person's own would change its content."""

    oid: str
    size: int
    extended: bool


def read_pointer(content: bytes) -> Pointer | None:
    """The pointer in the file `content`, in every form that git-lfs takes for one (lfs/pointer.go, `decodeKVData`):
    with blanks and empty lines around, with line ends of Windows, and with lines of extensions anywhere.

    None when it is an ordinary file.
    """
    if len(content) >= POINTER_LIMIT:
        return None
    values: dict[str, str] = {}
    extended = False
    # Blanks as Go has them; a text in another encoding than UTF-8 is no pointer, since every line of one is ASCII.
    for line in content.decode("utf-8", "replace").strip().split("\n"):
        text = line.removesuffix("\r")
        if not text:
            continue
        key, blank, value = text.partition(" ")
        if not blank or len(values) == len(_KEYS):
            return None
        if key == _KEYS[len(values)]:
            values[key] = value
        elif _EXTENSION.match(key):
            extended = True
        else:
            return None
    oid, size = _OID.fullmatch(values.get("oid", "")), _SIZE.fullmatch(values.get("size", ""))
    if values.get("version") not in _VERSIONS or oid is None or size is None or int(size[1]) >= 2**63:
        return None
    return Pointer(oid[1], int(size[1]), extended)


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
