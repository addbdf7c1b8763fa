"""A commit or the index as a folder: its files as they would be after a clone, with git-lfs's objects in place.

Nothing is checked out: no filter and no hook runs. A pointer becomes its object where the tree's attributes hand it to
git-lfs, as in a clone; what else they would make of a file that a loader reads is a problem.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ckptdoctor.errors import CannotExamineError, CkptdoctorError
from ckptdoctor.publish.copying import copy_range
from ckptdoctor.registry.git.attributes import NONE
from ckptdoctor.registry.git.clones import Clone, clone_of, clone_problems
from ckptdoctor.registry.git.commands import Objects
from ckptdoctor.registry.git.entries import Entry, bad_name
from ckptdoctor.registry.git.lfs import POINTER_LIMIT, Pointer, object_path, read_pointer, sha256_of
from ckptdoctor.registry.trees import drafts_in
from ckptdoctor.text import show

__all__ = ["Layout", "LfsObjects", "lay_out"]

LINK_LIMIT = 4096
"""Bytes of where a link leads; no file system takes more."""

_KEPT_FREE = 64 << 20


@dataclass(frozen=True)
class LfsObjects:
    """Where git-lfs's objects are looked for. `missing` ends the sentence about one that is in none of `stores`.

    With `may_miss` it is no reason to refuse: nothing in its folder is judged then.
    """

    stores: tuple[Path, ...]
    missing: str
    may_miss: bool = False


@dataclass
class Layout:
    """What came of laying out a tree. `problems` (path, sentence) are reasons to refuse it, `remarks` are not."""

    root: Path
    problems: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    from_lfs: dict[Path, Pointer] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    links: dict[Path, str] = field(default_factory=dict)
    written: dict[str, Path] = field(default_factory=dict)
    clone: Clone = field(default_factory=Clone)
    texts: set[str] = field(default_factory=set)


def lay_out(entries: Iterable[Entry], objects: Objects, root: Path, lfs: LfsObjects) -> Layout:
    """Make the files of `entries` in the new empty folder `root`, in whose parent nothing else is called `attributes`.

    An object of git-lfs that is a weight file's or lies beside one is read whole: one whose content is not what its
    pointer names is a problem. Raises `CannotExamineError` when it cannot be done at all (no space, a broken object).
    """
    layout = Layout(root)
    entries = tuple(entries)
    layout.clone = _attributes(entries, objects, root.with_name("attributes"))
    layout.problems += layout.clone.problems
    for entry in entries:
        why = bad_name(entry.path)
        if why is not None:
            layout.problems.append((entry.path, why))
        elif entry.kind == "submodule":
            layout.remarks.append(f"{show(entry.path)} is a submodule, another repository: it was not looked into.")
        else:
            try:
                _place(layout, entry, objects, lfs)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                layout.problems.append((entry.path, _cannot(error)))
    _link(layout)
    _leave_out(layout)
    if not layout.problems:
        layout.problems += _after_all(layout, entries)
    return layout


def _attributes(entries: Iterable[Entry], objects: Objects, private: Path) -> Clone:
    private.mkdir(mode=0o700)
    try:
        return clone_of([entry for entry in entries if bad_name(entry.path) is None], objects, private)
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _after_all(layout: Layout, entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """What is wrong with files in the folders of drafts: objects that are damaged, and what clones make of them."""
    try:
        folders = set(drafts_in(layout.root))
        objects = {path.relative_to(layout.root).as_posix() for path in layout.from_lfs}
        found = list(clone_problems(layout.clone, entries, layout.root, folders, objects, layout.texts))
    except CkptdoctorError:
        return []  # the judgement says so
    return found or list(_damaged(layout, folders))


def _cannot(error: OSError) -> str:
    if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
        return (
            "another file or folder of the same name is in its way; names may not differ in upper and lower case alone"
        )
    return f"it cannot be laid out ({show(error.strerror or error)})"


def _place(layout: Layout, entry: Entry, objects: Objects, lfs: LfsObjects) -> None:
    path = layout.root / entry.path
    size, parts = objects.blob(entry.oid)
    if entry.kind == "link":
        if size > LINK_LIMIT:
            _drain(parts)
            layout.problems.append(
                (entry.path, f"it is a link whose text has {size} bytes; at most {LINK_LIMIT} are read")
            )
            return
        # Links come last: nothing is written through one.
        layout.links[path] = os.fsdecode(b"".join(parts))
        return
    pointer = None
    if size < POINTER_LIMIT:
        content = b"".join(parts)
        pointer, parts = read_pointer(content), iter((content,))
    path.parent.mkdir(parents=True, exist_ok=True)
    if pointer is not None and not layout.clone.attributes.get(entry.path, NONE).in_lfs:
        layout.texts.add(entry.path)
    elif pointer is not None:
        _place_object(layout, entry.path, pointer, lfs)
        return
    _enough_space(layout.root, size)
    _write(path, parts, layout.written.get(entry.oid))
    layout.written.setdefault(entry.oid, path)


def _write(path: Path, parts: Iterator[bytes], same: Path | None) -> None:
    """A new file of `parts`, or a second name of the file `same`: a tree may hold one content a thousand times."""
    if same is not None:
        with suppress(OSError):
            os.link(same, path, follow_symlinks=False)
            _drain(parts)
            return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        _drain(parts)
        raise
    with os.fdopen(descriptor, "wb", buffering=0) as stream:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[stream.write(view) or 0 :]


def _drain(parts: Iterator[bytes]) -> None:
    for _ in parts:
        pass


def _enough_space(root: Path, size: int) -> None:
    if size > _KEPT_FREE and size > os.statvfs(root).f_bavail * os.statvfs(root).f_frsize - _KEPT_FREE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _place_object(layout: Layout, name: str, pointer: Pointer, lfs: LfsObjects) -> None:
    path = layout.root / name
    if pointer.extended:
        layout.problems.append(
            (name, "its git-lfs pointer names an extension, a program that would change its content")
        )
        return
    if pointer.size == 0:  # git-lfs stores no object for an empty file
        _write(path, iter(()), None)
        return
    source = object_path(pointer.oid, lfs.stores)
    if source is None:
        if lfs.may_miss:
            layout.missing[name] = None
        else:
            layout.problems.append((name, f"it is a git-lfs pointer, and its object {pointer.oid} {lfs.missing}"))
        return
    found = source.stat().st_size
    if found != pointer.size:
        layout.problems.append(
            (name, f"its git-lfs object has {found} bytes, and the pointer says {pointer.size}: one of them is damaged")
        )
        return
    _bring(source.resolve(), path)
    layout.from_lfs[path] = pointer


def _bring(source: Path, path: Path) -> None:
    """`source` at `path`: by a hard link, which costs nothing and which nobody writes through, else as a copy."""
    try:
        os.link(source, path, follow_symlinks=False)
        return
    except FileExistsError:
        raise
    except OSError:
        pass  # another file system, one without links, or a file of somebody else: a copy does it
    read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(read).st_size
        _enough_space(path.parent, size)
        write = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            copy_range(read, 0, size, write, 0, lambda _: None, show(source))
        finally:
            os.close(write)
    except CkptdoctorError as error:
        raise CannotExamineError(str(error)) from None
    finally:
        os.close(read)


def _link(layout: Layout) -> None:
    """The links of the tree: those that stay in it."""
    ready: list[tuple[Path, str]] = []
    for make in (True, False):  # all folders before any link: none is made through one
        for path, leads in layout.links.items() if make else ready:
            try:
                if make:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    ready.append((path, leads))
                else:
                    path.symlink_to(leads)
            except (OSError, ValueError) as error:
                why = _cannot(error) if isinstance(error, OSError) else "it is a link that leads nowhere"
                layout.problems.append((path.relative_to(layout.root).as_posix(), why))
    for path, leads in layout.links.items():
        # Not the text alone: a link may lead out by way of another one.
        real = Path(os.path.realpath(path))
        # Into .git too, which is empty here and full of objects in a clone.
        if leads.startswith("/") or not real.is_relative_to(layout.root) or ".git" in _low(real, layout.root):
            name = path.relative_to(layout.root).as_posix()
            layout.problems.append((name, f"it is a link that leads out of the repository, to {show(leads)}"))
            if path.is_symlink():  # and no file or folder of the same name
                path.unlink()


def _low(real: Path, root: Path) -> tuple[str, ...]:
    return tuple(part.lower() for part in real.relative_to(root).parts)


def _leave_out(layout: Layout) -> None:
    """Folders with an object that is not here: whatever were found in the rest of such a checkpoint would be wrong."""
    for folder in dict.fromkeys((layout.root / name).parent for name in layout.missing):
        for path in [p for p in folder.iterdir() if p.is_symlink() or not p.is_dir()]:
            path.unlink()
            layout.from_lfs.pop(path, None)
        inside = folder.relative_to(layout.root).as_posix()
        where = "The folder at the top" if inside == "." else show(inside)
        layout.remarks.append(f"{where} was not judged: it holds objects of git-lfs that are not here.")


def _damaged(layout: Layout, folders: set[Path]) -> Iterator[tuple[str, str]]:
    """Objects beside weights whose content is not what the pointer names."""
    for path, pointer in layout.from_lfs.items():
        if path.parent not in folders:
            continue
        name = path.relative_to(layout.root).as_posix()
        try:
            content = sha256_of(path)
        except OSError as error:
            yield name, f"its git-lfs object {pointer.oid} cannot be read ({show(error.strerror or error)})"
            continue
        if content != pointer.oid:
            yield (
                name,
                f"its git-lfs object {pointer.oid} does not hold what its name says: it is damaged or was changed;"
                " delete it and fetch it again",
            )
