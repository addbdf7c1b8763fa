"""Trees that are not on this machine: organisations of the Hub, and everything that fsspec reaches."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ckptdoctor.audit.places import FOLDER_LIMIT, Place, mark_of, own_folders, weighty
from ckptdoctor.checkpoint.remote import RemoteError, RemoteFile, RemoteFolder, attach
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import plural, show

__all__ = ["fsspec_folder", "fsspec_places", "hub_places"]

_PATH_LIMIT = 1000
_TIMES = ("etag", "ETag", "md5Hash", "crc32c", "CRC", "mtime", "LastModified", "last_modified", "updated", "created")
"""What file systems tell of a file that changes with its content, the best first."""


def fsspec_places(root: str, label: str, limit: int = FOLDER_LIMIT) -> Iterator[Place]:
    """The places in the tree at the address `root` (`s3://bucket/models`), with keys that begin with `label`.

    Raises `RemoteError`, also for a tree of more than `limit` folders.
    """
    files, start = _file_system(root)
    with _problems(root):
        if not files.exists(start) or not files.isdir(start):
            raise RemoteError(f"{show(root, _PATH_LIMIT)}: no such folder")
    waiting = [start]
    seen = 0
    while waiting:
        folder = waiting.pop()
        seen += 1
        if seen > limit:
            raise RemoteError(f"{show(root, _PATH_LIMIT)}: has more than {limit} folders; name a part of it")
        inside = folder[len(start) :].strip("/")
        key = f"{label}/{inside}" if inside else label
        told = _joined(root, inside)
        try:
            with _problems(told):
                listed = files.ls(folder, detail=True)
        except RemoteError as error:
            yield Place(key, told, "", problem=str(error).partition(": ")[2], root=root, inner=folder)
            continue
        paths = {_last(e["name"]): e["name"].rstrip("/") for e in listed if e["type"] == "directory"}
        inner = [paths[name] for name in own_folders(sorted(paths))]
        inside_files = [e for e in listed if e["type"] == "file"]
        names = {_name(e) for e in inside_files}
        if "config.json" in names or weighty(names):
            yield Place(key, told, mark_of(map(_told, inside_files)), look=True, root=root, inner=folder)
        waiting += [n for n in reversed(inner) if n != folder and not _last(n).startswith(".")]


def fsspec_folder(place: Place) -> RemoteFolder:
    """The files of `place`, read in ranges as they are asked for. Raises `RemoteError`."""
    files, _ = _file_system(place.root or "")
    with _problems(place.path):
        listed = files.ls(place.inner, detail=True)
    found: dict[str, RemoteFile] = {}
    for entry in listed:
        if entry["type"] == "file":
            told = f"{show(place.path, _PATH_LIMIT)}/{show(_name(entry))}"
            found[_name(entry)] = _FsspecFile(files, entry["name"], told, _size(entry))
    folders = frozenset(_last(e["name"]) for e in listed if e["type"] == "directory")
    return attach(place.path, found, folders)


@dataclass(frozen=True)
class _FsspecFile:
    """One file that fsspec reaches."""

    files: Any
    path: str
    told: str
    size: int

    @property
    def advice(self) -> str:
        """What to do where it is not read from here."""
        return "copy the folder to this machine first"

    def fetch(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`. Raises `RemoteError`."""
        with _problems(self.told):
            data = self.files.cat_file(self.path, start=start, end=end)
        if len(data) != end - start:
            raise RemoteError(f"{self.told}: the answer has {plural(len(data), 'byte')} of {end - start}")
        return bytes(data)


def hub_places(root: str, label: str, limit: int = FOLDER_LIMIT) -> Iterator[Place]:
    """The models of the organisation `root` (`hf://org`), or the one repository (`hf://org/name[@revision]`).

    Each at the commit that is the newest now. Raises `RemoteError`.
    """
    from ckptdoctor.checkpoint.hub_errors import hub_problems, need_hub

    hub = need_hub()
    name, _, revision = root.removeprefix("hf://").rstrip("/").partition("@")
    if "/" in name:
        from ckptdoctor.checkpoint.hub import hub_repository

        repository = hub_repository(name, revision or None)
        yield Place(label, f"hf://{name}@{repository.commit}", repository.commit, look=True)
        return
    if revision or not name:
        raise CannotExamineError(f"{show(root)}: organisations on the Hub are named hf://org, models hf://org/name")
    count = 0
    with hub_problems(show(root), name):
        for info in hub.HfApi().list_models(author=name, expand=["sha", "siblings"]):
            count += 1
            if count > limit:
                raise RemoteError(f"{show(root)}: has more than {limit} models")
            if weighty(s.rfilename for s in info.siblings or () if "/" not in s.rfilename):
                short = info.id.partition("/")[2] or info.id
                yield Place(f"{label}/{short}", f"hf://{info.id}@{info.sha}", str(info.sha), look=True)
    if count == 0:
        raise RemoteError(f"{show(root)}: has no models that you may see")


@lru_cache(maxsize=64)
def _file_system(root: str) -> tuple[Any, str]:
    """The file system behind the address `root`, and the path of the tree in it. Raises `RemoteError`."""
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise RemoteError(
            f"{show(root, _PATH_LIMIT)}: addresses like this need the package fsspec; install it with: "
            "pip install 'ckptdoctor[hub]'"
        ) from None
    try:
        with _problems(root):
            files, path = core.url_to_fs(root)
    except ValueError as error:
        raise RemoteError(f"{show(root, _PATH_LIMIT)}: {show(error, 300)}") from None
    return files, str(path).rstrip("/")


@contextmanager
def _problems(told: str) -> Iterator[None]:
    """Whatever a file system raises becomes a sentence: each of them has errors of its own."""
    try:
        yield
    except (RemoteError, ValueError):
        raise
    except ImportError as error:
        raise RemoteError(f"{show(told, _PATH_LIMIT)}: a package is missing ({show(error, 300)})") from None
    except Exception as error:  # noqa: BLE001  # each file system raises what its own client raises
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise RemoteError(f"{show(told, _PATH_LIMIT)}: cannot be read ({show(why, 300)})") from None


def _joined(root: str, inside: str) -> str:
    """The address of a folder of the tree; in a chain of addresses the first one is that of the innermost tree."""
    first, chained, rest = root.partition("::")
    return f"{first.rstrip('/')}/{inside}{chained}{rest}" if inside else root


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _name(entry: Mapping[str, Any]) -> str:
    return _last(entry["name"])


def _size(entry: Mapping[str, Any]) -> int:
    size = entry.get("size")
    return size if isinstance(size, int) and size >= 0 else 0


def _told(entry: Mapping[str, Any]) -> tuple[object, ...]:
    return _name(entry), _size(entry), str(next((entry[key] for key in _TIMES if entry.get(key) is not None), ""))
