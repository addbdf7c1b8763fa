"""The operations of a commit to the Hub as the folders that they would make, so that these can be judged before.

What is added is copied first, and the copies are what is sent. What stays of the repository is read where it is: lists,
configs and headers, by ranges.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ckptdoctor.checkpoint.foreign import format_of
from ckptdoctor.checkpoint.hub import HubRepository, hub_repository
from ckptdoctor.checkpoint.remote import RemoteFile, RemoteFolder, attach
from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.text import show

__all__ = ["CommitTree", "Where", "commit_tree"]

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".index.json")
_HARMLESS = (".md", ".gitattributes", ".gitignore", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".pdf")


@dataclass(frozen=True)
class Where:
    """Where a commit goes: the `client`, the repository, its kind (None: a model), the branch or commit it is on."""

    client: Any
    repo: str
    revision: str | None = None
    kind: str | None = None
    token: Any = None


@dataclass(frozen=True)
class CommitTree:
    """What a commit would make, in the private folder `root`. `operations` are those to send, with the copies in them;
    `base` is the commit that they were joined with, None where nothing of the repository matters. `_held` keeps what of
    it is read where it is."""

    root: Path
    operations: tuple[Any, ...]
    base: str | None
    _held: tuple[RemoteFolder, ...] = ()


def commit_tree(place: Path, operations: Sequence[Any], where: Where, private: Path | None = None) -> CommitTree:
    """Lay out `operations` in the private folder `place`, on the repository as it is. Additions from the folder
    `private`, which nobody changes, are not copied once more.

    Raises `UsageError` for operations that say two things about one path, `CannotExamineError` when something cannot be
    read or copied, `RemoteError` when the Hub does not answer.
    """
    root = place.resolve() / "tree"
    root.mkdir()
    sent = tuple(_copied(op, root, private) for op in operations)
    touched = {str(PurePosixPath(op.path_in_repo).parent) for op in sent if not _is_harmless(op)}
    if where.kind not in (None, "model"):
        return CommitTree(root, sent, None)
    there = _repository(where) if touched else None
    left = _left(there, sent, where)
    held: list[RemoteFolder] = []
    for folder in sorted(touched):
        rest = {PurePosixPath(p).name: f for p, f in left.items() if str(PurePosixPath(p).parent) == folder}
        read = [name for name in rest if not name.lower().endswith(_HARMLESS)]
        if read and any(name.endswith(_WEIGHTS) or format_of(name) for name in (*read, *_names(root / folder))):
            (root / folder).mkdir(parents=True, exist_ok=True)
            inner = frozenset(_inner_folders(left, folder)) - rest.keys()
            held.append(attach(f"hf://{show(where.repo)}", rest, inner, root / folder))
    return CommitTree(root, sent, there.commit if there is not None and held else None, tuple(held))


def _repository(where: Where) -> HubRepository | None:
    """The repository as it is, None while there is none."""
    if not where.client.repo_exists(where.repo, token=where.token):
        return None
    return hub_repository(where.repo, where.revision, where.client, where.token)


def _copied(op: Any, root: Path, private: Path | None) -> Any:
    """The operation `op`; an addition gets a copy of its content, in the tree."""
    from huggingface_hub import CommitOperationAdd

    if not isinstance(op, CommitOperationAdd):
        return op
    path = root / op.path_in_repo
    if not path.resolve().is_relative_to(root.resolve()) or path == root:
        raise UsageError(f"{show(op.path_in_repo)}: no path in a repository")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if private is not None and isinstance(op.path_or_fileobj, str):
            path.hardlink_to(op.path_or_fileobj)
        else:
            with op.as_file() as source, path.open("xb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    except FileExistsError:
        raise UsageError(f"{show(op.path_in_repo)}: the commit adds it twice, or as a file and as a folder") from None
    except OSError as error:
        why = show(error.strerror or error)
        raise CannotExamineError(f"{show(op.path_in_repo)}: cannot be copied ({why})") from None
    return CommitOperationAdd(path_in_repo=op.path_in_repo, path_or_fileobj=str(path))


def _left(there: HubRepository | None, operations: Iterable[Any], where: Where) -> dict[str, RemoteFile]:
    """The files of the repository that the commit leaves or copies, by their path after it."""
    from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete

    files: dict[str, RemoteFile] = dict(there.files) if there is not None else {}
    left = dict(files)
    for op in operations:
        if isinstance(op, CommitOperationDelete):
            gone = op.path_in_repo.rstrip("/")
            left = {p: f for p, f in left.items() if p != gone and not (op.is_folder and p.startswith(f"{gone}/"))}
    added = {op.path_in_repo for op in operations if isinstance(op, CommitOperationAdd)}
    for op in operations:
        if isinstance(op, CommitOperationCopy):
            source = files
            other = getattr(op, "src_repo_id", None)
            if other or op.src_revision:
                if getattr(op, "src_repo_type", None) not in (None, "model"):
                    raise CannotExamineError(f"{show(op.path_in_repo)}: is copied from a repository of another kind")
                source = dict(hub_repository(other or where.repo, op.src_revision, where.client, where.token).files)
            if op.src_path_in_repo not in source:
                raise CannotExamineError(f"{show(op.src_path_in_repo)}: is to be copied, and is not there")
            if op.path_in_repo in added:
                raise UsageError(f"{show(op.path_in_repo)}: the commit says two things about it")
            left[op.path_in_repo] = source[op.src_path_in_repo]
    return {path: file for path, file in left.items() if path not in added}


def _inner_folders(paths: Iterable[str], folder: str) -> Iterator[str]:
    """The names of the folders in `folder`."""
    for path in map(PurePosixPath, paths):
        if path.is_relative_to(folder) and len(path.relative_to(folder).parts) > 1:
            yield path.relative_to(folder).parts[0]


def _is_harmless(op: Any) -> bool:
    """Whether the path is of a file that no engine and no rule reads: model cards, pictures."""
    return str(op.path_in_repo).lower().endswith(_HARMLESS)


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208  # names alone
