"""The folders of a tree that a gate judges: those with weights in them, and those whose config alone says draft."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ckptdoctor.checkpoint.folder import Folder
from ckptdoctor.checkpoint.foreign import foreign_files, format_of
from ckptdoctor.checkpoint.remote import remote_at
from ckptdoctor.checkpoint.weights import find_weights, is_weight_file, read_json_file
from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.signs import Evidence, weigh
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.limits import GATE_FOLDERS
from ckptdoctor.text import show

__all__ = ["NOT_SENT", "drafts_in", "drafts_without_weights"]

NOT_SENT = frozenset({".git", ".cache"})
"""Folders in a work tree that are no part of what is sent: the records of git and of the Hub's client."""

_INDEX = ".index.json"


def drafts_in(root: Path, skipped: frozenset[str] = NOT_SENT) -> tuple[Path, ...]:
    """The folders of checkpoints in the tree `root`: those with weights in them (a GGUF file too), sorted.

    Folders called as one of `skipped` are left out. A link to a folder is not followed: what it leads to is looked at
    where it is. Raises `CkptdoctorError` for one that leads out of the tree or into what is left out, and for a tree of
    more folders than a gate looks into.
    """
    return tuple(sorted(folder for folder, names in _folders(root, skipped) if _holds_weights(folder, names)))


def drafts_without_weights(root: Path, skipped: frozenset[str] = NOT_SENT) -> Iterator[tuple[Path, str]]:
    """The folders of `root` whose config.json describes a draft, with the kind's name, and that hold no weights of any
    format: whoever loads one finds nothing. Raises as `drafts_in`."""
    for folder, names in _folders(root, skipped):
        if "config.json" in names and not any(is_weight_file(n) or format_of(n) or _INDEX in n for n in names):
            kind = _kind_by_config(folder)
            if kind is not None:
                yield folder, kind


def _holds_weights(folder: Path, names: list[str]) -> bool:
    # By names first: a folder of many thousand other files is no checkpoint, and its files are not looked at.
    if not any(is_weight_file(name) or name.endswith(_INDEX) or format_of(name) == "gguf" for name in names):
        return False
    opened = Folder(folder)
    return find_weights(opened) is not None or any(file.format == "gguf" for file in foreign_files(opened))


def _folders(root: Path, skipped: frozenset[str]) -> Iterator[tuple[Path, list[str]]]:
    """Every folder of the tree, with the names of all its entries that are no folders, those at the Hub among them."""
    top = root.resolve()
    for seen, (place, folders, names) in enumerate(os.walk(root, onerror=_refuse)):
        if seen >= GATE_FOLDERS:
            raise CkptdoctorError(f"it has more than {GATE_FOLDERS} folders")
        folders[:] = sorted(name for name in folders if name not in skipped)
        for name in folders:
            _refuse_link(top, Path(place, name), skipped)
        there = remote_at(Path(place))
        yield Path(place), names if there is None else [*names, *there.names]


def _refuse_link(top: Path, folder: Path, skipped: frozenset[str]) -> None:
    if not folder.is_symlink():
        return
    real = folder.resolve()
    inside = real.relative_to(top).parts if real.is_relative_to(top) else None
    if inside is None or skipped & set(inside):
        raise CkptdoctorError(f"{show(folder.name)} is a link that leads out of the checkpoint; put the folder there")


def _refuse(error: OSError) -> None:
    raise CkptdoctorError(f"{show(error.filename)}: cannot be read ({show(error.strerror)})")


def _kind_by_config(folder: Path) -> str | None:
    """The name of the kind of draft that the config describes by itself; None for an ordinary model, and where it could
    as well be one's."""
    known = knowledge()
    document = read_json_file(Folder(folder), "config.json")
    if document is None or not document.readable:
        return None
    evidence = Evidence((), Config(document, known), frozenset(), frozenset(), (), (), "safetensors")
    # Without tensors the signs of a config are all there is: what they add up to need not reach what a draft needs.
    found = weigh({a.id: (1, a.signs) for a in known.algorithms.values()}, evidence)
    kind = known.kind_of(found.winner or "unknown")
    return known.algorithms[found.winner].name if found.winner and kind.is_draft and not kind.may_hold_target else None
