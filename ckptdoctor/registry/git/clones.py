"""What keeps a clone from holding what was laid out: attributes, names that differ in case alone, settings of git-lfs.

Only files that loaders read are looked at, in folders with a draft in them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ckptdoctor.checkpoint.foreign import format_of
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.registry.git.attributes import NONE, Attributes, attributes_of
from ckptdoctor.registry.git.commands import Objects, answered
from ckptdoctor.registry.git.entries import Entry
from ckptdoctor.text import show

__all__ = ["Clone", "clone_of", "clone_problems"]

ATTRIBUTES_LIMIT = 1 << 20
"""Bytes of a `.gitattributes` or `.lfsconfig` that are read; a larger one is a reason to refuse."""

ATTRIBUTES, LFS_CONFIG = ".gitattributes", ".lfsconfig"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_READ = (*_WEIGHTS, ".json", ".jinja", ".model", ".tiktoken")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Clone:
    """What a clone does with the files of a tree: their attributes, and those on systems that know no case.

    `unfetched` is the setting of the tree's `.lfsconfig` that keeps git-lfs from fetching some objects, None without.
    `problems` (path, sentence) are reasons to refuse the tree whatever is in it.
    """

    attributes: Mapping[str, Attributes] = field(default_factory=dict)
    any_case: Mapping[str, Attributes] = field(default_factory=dict)
    unfetched: str | None = None
    problems: tuple[tuple[str, str], ...] = ()


def clone_of(entries: Iterable[Entry], objects: Objects, private: Path) -> Clone:
    """What a clone does with `entries`; `private` is a folder that does not exist yet. Raises `CannotExamineError`."""
    entries = tuple(entries)
    files: dict[str, bytes] = {}
    settings = b""
    problems: list[tuple[str, str]] = []
    for entry in entries:
        name = entry.path.rpartition("/")[2]
        if name.lower() not in (ATTRIBUTES, LFS_CONFIG):
            continue
        if name != name.lower():
            problems.append((entry.path, f"on systems that know no upper and lower case it counts as {name.lower()}"))
        elif entry.kind != "file":
            problems.append((entry.path, "it is no file, and releases of git differ in whether they read it"))
        elif name == ATTRIBUTES or entry.path == LFS_CONFIG:
            size, parts = objects.blob(entry.oid)
            content = b"".join(part for part in parts if size <= ATTRIBUTES_LIMIT)
            if size > ATTRIBUTES_LIMIT:
                problems.append((entry.path, f"it has {size} bytes; at most {ATTRIBUTES_LIMIT} are read"))
            elif name == ATTRIBUTES:
                files[entry.path] = content
            else:
                settings = content
    if problems:
        return Clone(problems=tuple(problems))
    paths = [entry.path for entry in entries if entry.kind == "file"]
    try:
        found = attributes_of(paths, files, private / "exact")
        any_case = attributes_of(paths, files, private / "any-case", any_case=True)
    except OSError as error:
        raise CannotExamineError(f"its attributes cannot be read ({show(error.strerror or error)})") from None
    return Clone(found, any_case, _unfetched(settings, private) if settings.strip() else None)


def _unfetched(settings: bytes, private: Path) -> str | None:
    """The setting by which git-lfs leaves pointers as they are: `lfs.fetchinclude` and `lfs.fetchexclude` are two of
    the few that it takes from the tree (config/git_fetcher.go, `safeKeys`)."""
    out = answered(["config", "--file", "-", "--no-includes", "--null", "--list"], private, {}, settings)
    rows = [row.partition("\n") for row in out.decode("utf-8", "replace").split("\0") if row]
    limits = {"lfs.fetchinclude": ("", "*"), "lfs.fetchexclude": ("",)}
    return next((key for key, _, value in rows if key in limits and value.strip() not in limits[key]), None)


def clone_problems(
    clone: Clone, entries: Iterable[Entry], root: Path, folders: Iterable[Path], objects: set[str], texts: set[str]
) -> Iterator[tuple[str, str]]:
    """Why a clone would hold something else than what lies in `root` (path, sentence), at most one a file.

    `folders` are those with drafts in them, `objects` the paths of files from git-lfs, `texts` those of pointers that
    stay as they are.
    """
    entries = tuple(entries)
    inside = {folder.relative_to(root).as_posix() for folder in folders}
    folded = {_fold(folder) for folder in inside}
    spelled: dict[str, set[str]] = {}
    for entry in entries:
        for path in (entry.path, *(str(parent) for parent in PurePosixPath(entry.path).parents)):
            spelled.setdefault(_fold(path), set()).add(path)
    for entry in entries:
        folder = str(PurePosixPath(entry.path).parent)
        if not _is_read(entry.path) or _fold(folder) not in folded:
            continue
        why = _case_problem(entry.path, spelled)
        if why is None and entry.kind == "file" and folder in inside:
            why = _file_problem(clone, entry.path, root, entry.path in objects, entry.path in texts)
        if why is not None:
            yield entry.path, why


def _is_read(path: str) -> bool:
    return path.lower().endswith(_READ) or format_of(path) is not None


def _fold(path: str) -> str:
    """`path` as file systems see it that know no case, and that take both ways to write an accent for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _case_problem(path: str, spelled: Mapping[str, set[str]]) -> str | None:
    for part in (path, *(str(parent) for parent in PurePosixPath(path).parents)):
        others = sorted(spelled[_fold(part)] - {part})
        if others:
            return (
                f"{show(part)} and {show(others[0])} are one name on macOS and Windows, so a clone there gets one of"
                " the two; names may not differ in upper and lower case alone"
            )
    return None


def _file_problem(clone: Clone, path: str, root: Path, from_lfs: bool, as_text: bool) -> str | None:
    found = clone.attributes.get(path, NONE)
    weights = path.lower().endswith(_WEIGHTS) or format_of(path) is not None
    if as_text:
        taken = "unset" if found.filter == "unset" else found.other_filter
        why = f"they say filter={taken}" if taken and taken != "unset" else "they take filter=lfs off it"
        none = "no .gitattributes says filter=lfs for it"
        return f"a clone gets the text of its git-lfs pointer and not the object: {why if taken else none}"
    if found.other_filter is not None:
        return (
            f"a clone hands it to the filter {show(found.other_filter)} (.gitattributes), a program of whoever clones,"
            " so what it would hold is not known"
        )
    if found.other_encoding is not None:
        what = "the pointer that git-lfs is to read" if from_lfs else "it"
        return f"a clone has {what} in the encoding {show(found.other_encoding)} (working-tree-encoding)"
    if from_lfs and clone.unfetched is not None:
        return f"{LFS_CONFIG} sets {clone.unfetched}, so a clone may keep the text of its git-lfs pointer"
    if weights and not from_lfs and found.line_ends is not None and _holds(root / path, b"\n"):
        return f"a clone may get it with other line ends ({found.line_ends} in .gitattributes), which damages weights"
    if not from_lfs and found.expands and _holds(root / path, b"$Id"):
        return "a clone gets the id of its content in place of $Id$ (ident in .gitattributes)"
    if _effect(clone.any_case.get(path, NONE), weights) != _effect(found, weights):
        return "patterns in .gitattributes fit its name in other upper and lower case, so clones differ between systems"
    return None


def _effect(found: Attributes, weights: bool) -> tuple[object, ...]:
    ends = found.line_ends if weights else None
    return found.in_lfs, found.other_filter, found.other_encoding, ends, found.expands


def _holds(path: Path, part: bytes) -> bool:
    """Whether the file `path` holds the bytes `part`."""
    rest = b""
    with path.open("rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK):
            if part in rest + chunk:
                return True
            rest = chunk[-len(part) + 1 :] if len(part) > 1 else b""
    return False
