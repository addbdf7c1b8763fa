"""Where a result may be written: never over a file that the same call reads, whatever the path to it.

A command says what it reads (`Reads`) and asks for each place that a person named (`check_places`). Two places are the
same when the system says so (device and inode), so links of both kinds, `..`, mounts and file systems that do not tell
capital letters apart make no difference. In a folder that is examined nothing is replaced but an earlier result of
ours, and nothing new gets a name that loaders look for.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ckptdoctor.earlier import BASELINE, PICTURE, REPORT, is_earlier
from ckptdoctor.errors import UsageError
from ckptdoctor.text import show

__all__ = ["BASELINE", "PICTURE", "REPORT", "Output", "Reads", "check_places", "is_loaders_name", "same_place"]

_PATH_LIMIT = 4096
_WALKED = 20_000
"""Entries below a folder that are looked at for one that has a second name outside. A checkpoint has 10,000 at most."""

_FORBIDDEN_NAMES = ("readme", "license", "licence", "notice", "merges", "makefile", "dockerfile")
_FORBIDDEN_WORDS = (
    "config", "index", "token", "vocab", "template", "param", "special", "processor", "adapter", "module", "quant",
    "scale", "map", "receipt", "state", "tekken", "weight", "lora", "shard", "manifest", "package",
)  # fmt: skip
_FORBIDDEN_ENDINGS = (
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".gguf", ".ggml", ".onnx", ".h5", ".msgpack",
    ".npy", ".npz", ".model", ".engine", ".so", ".py", ".jinja", ".j2", ".tiktoken", ".spm", ".toml", ".yaml", ".yml",
    ".jsonl", ".parquet", ".arrow", ".mar", ".nemo", ".mlmodel", ".tflite",
)  # fmt: skip
_OPEN_ENDINGS = ("", ".json", ".txt")
"""Endings that loaders read under some names: which, is a list that grows, so parts of names decide."""

_Id = tuple[int, int]


@dataclass(frozen=True)
class Output:
    """A file that is to be written: the option that named it, its place and what is written there (`REPORT`, …)."""

    option: str
    path: Path
    form: str = REPORT


@dataclass
class Reads:
    """What one call reads: whole folders and single files, each with what a person calls it."""

    folders: list[tuple[Path, str]] = field(default_factory=list)
    files: list[tuple[Path, str]] = field(default_factory=list)

    def checkpoint(self, path: str | Path | None, what: str) -> None:
        """A checkpoint or model: its folder, or that of the one file that was named. What is elsewhere has no files."""
        if path is None or not str(path) or "://" in str(path):
            return
        place = Path(path)
        with suppress(OSError, ValueError):
            if place.is_dir():
                self.folders.append((place, what))
                return
            self.files.append((place, f"a file of {what}"))
            # A link beside other weights is read beside those that lie beside the link.
            self.folders += [(folder, what) for folder in dict.fromkeys((place.parent, place.resolve().parent))]

    def folder(self, path: Path, what: str) -> None:
        """A folder of which anything may be read."""
        self.folders.append((path, what))

    def file(self, path: Path | None, what: str) -> None:
        """One file. What is beside it is not read."""
        if path is not None:
            self.files.append((path, what))


def check_places(outputs: Sequence[Output], reads: Reads) -> None:
    """See that every output may be written, before any work is done for it. Raises `UsageError` with the reason."""
    taken: list[Path] = []
    for output in outputs:
        said = f"{output.option} {show(output.path, _PATH_LIMIT)}"
        try:
            place = Path(os.path.realpath(output.path))
            if place.is_dir() or not output.path.name:
                raise UsageError(f"{said}: is a folder; name a file")
            if not place.parent.is_dir():
                raise UsageError(f"{said}: the folder for it does not exist")
            if (why := _refused(place, output.form, reads)) is not None:
                raise UsageError(f"{said}: {why}; name another file")
            if any(place == other or (_id(place) is not None and _id(place) == _id(other)) for other in taken):
                raise UsageError("two reports are to be written to the same file")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no name of a file"
            raise UsageError(f"{said}: cannot be used ({show(why)})") from None
        taken.append(place)


def _refused(place: Path, form: str, reads: Reads) -> str | None:
    """Why nothing may be written at the real path `place`; None when nothing speaks against it."""
    own = _id(place)
    if own is None and place.exists():
        return None  # a device or a pipe
    # A single file first: it is never replaced, not even when it is an earlier result of ours.
    for file, what in reads.files:
        if same_place(place, file):
            return f"is {what}, which is read and never written over"
    parents = {_id(parent) for parent in place.parents}
    for folder, what in reads.folders:
        inside = _id(folder) in parents
        if not inside and (own is None or own not in _ids_below(folder)):
            continue
        where = show(folder, _PATH_LIMIT)
        if own is None:
            if is_loaders_name(place.name):
                return f"is in the folder of {what}, {where}, and loaders look for files of such names"
        elif is_loaders_name(place.name) or not is_earlier(place, form):
            return f"is a file of {what} in {where}, which is read and never written over"
    return None


def is_loaders_name(name: str) -> bool:
    """Whether a file of this name, put beside weights, could be taken for a part of the model.

    Which names loaders read is a list that grows: refused is every ending of weights, code and settings, and of text
    and JSON every name with a word of theirs in it, unless it says that it is a report.
    """
    stem, dot, ending = name.casefold().rpartition(".")
    stem, ending = (stem, dot + ending) if dot and stem else (ending, "")
    if ending in _FORBIDDEN_ENDINGS or stem.startswith(_FORBIDDEN_NAMES) or stem == "ckptdoctor-receipt":
        return True
    if ending not in _OPEN_ENDINGS or "report" in stem or "baseline" in stem:
        return False
    return any(word in stem for word in _FORBIDDEN_WORDS)


def _id(place: Path) -> _Id | None:
    """What the system knows a folder or a regular file by, links followed; None where there is none."""
    try:
        status = place.stat()
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) else None


def same_place(one: Path, other: Path) -> bool:
    """Whether both lead to the same folder or regular file that is there."""
    return (own := _id(one)) is not None and own == _id(other)


def _ids_below(folder: Path) -> set[_Id]:
    """Those of the files in `folder`, wherever the links in it lead; the nearest first where there are too many."""
    found = set()
    waiting, seen = deque([folder]), 0
    while waiting and seen < _WALKED:
        with suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in entries:
                seen += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif (own := _id(Path(entry.path))) is not None:
                    found.add(own)
    return found
