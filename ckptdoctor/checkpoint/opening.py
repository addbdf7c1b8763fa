"""From a path to a `Checkpoint`: which files, what their headers say, and what is wrong with them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

from ckptdoctor.checkpoint.by_address import open_remote
from ckptdoctor.checkpoint.container import Header, TensorInfo, read_header
from ckptdoctor.checkpoint.faults import Fault, first_of_each
from ckptdoctor.checkpoint.folder import Folder, locate
from ckptdoctor.checkpoint.foreign import ForeignFile, foreign_files
from ckptdoctor.checkpoint.opened import Checkpoint
from ckptdoctor.checkpoint.pickled.tensor import PickledTensor
from ckptdoctor.checkpoint.pickles import PickledTensors, read_pickle, torch_problem
from ckptdoctor.checkpoint.remote import at_hub
from ckptdoctor.checkpoint.weights import Weights, closed_weights, find_weights, read_json_file
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import Known, Unknown

__all__ = ["TENSOR_LIMIT", "open_checkpoint"]


_LOOKED_INTO = 500


_SHOWN = 4
"""Entries of a folder without weights that are looked into, and how many of those with weights are named."""


TENSOR_LIMIT = 1_000_000
"""Tensors of all files of a checkpoint at most."""


def open_checkpoint(path: str, *, remote: bool = False) -> Checkpoint:
    """Open the checkpoint at `path`: a folder, one weight file, or an index; with `remote` also `hf://org/name`.

    Damage is in `faults`. Raises `CannotExamineError` when there is nothing to examine: no such
    path, no weights, no permission, or pickles without torch; `RemoteError` when the Hub does not answer.
    """
    there = open_remote(path) if remote and at_hub(path) else None
    root, only = locate(path) if there is None else (there.root, None)
    folder = Folder(root)
    weights = find_weights(folder, only)
    foreign = foreign_files(folder, only)
    if weights is None and not foreign:
        raise CannotExamineError(f"{show(path)}: nothing that looks like a checkpoint {_elsewhere(folder)}")
    if weights is None:
        weights = Weights("other", (), None, {}, (), ())
        checkpoint = _open_nothing(path, folder, foreign)
    elif weights.kind == "pickle":
        checkpoint = _open_pickles(path, folder, weights)
    else:
        checkpoint = _open_safetensors(path, folder, weights)
    checkpoint.whole_folder = only is None
    checkpoint.foreign = foreign
    if only is None and closed_weights(folder):
        checkpoint.names_sound = False
    config = read_json_file(folder, "config.json")
    checkpoint.config = config
    found = [*folder.faults, *weights.faults, *checkpoint.faults, *(config.faults if config else ())]
    checkpoint.faults = first_of_each(found)
    return checkpoint


def _open_nothing(path: str, folder: Folder, foreign: tuple[ForeignFile, ...]) -> Checkpoint:
    """A checkpoint of which no tensor can be read: all its weights are of other formats."""
    faults = tuple(fault for file in foreign if file.gguf is not None for fault in file.gguf.faults)
    return Checkpoint(
        path=path, root=folder.root, whole_folder=True, kind="other", files=(), size=sum(file.size for file in foreign),
        tensors={}, faults=faults, config=None, names_sound=False, _folder=folder,
    )  # fmt: skip


def _elsewhere(folder: Folder) -> str:
    """What to say of a folder without weights: where in it there are some, if there are."""
    inner = list(islice((n for n in folder.names[:_LOOKED_INTO] if _holds_weights(folder.root / n)), _SHOWN))
    if not inner:
        return "(no .safetensors, .bin or .pt file)"
    return f"at its top; there are weights in {listing(inner, _SHOWN)}: name the one that is meant"


def _holds_weights(place: Path) -> bool:
    """Whether this is a folder, and no link to one, with weights at its top."""
    try:
        return not place.is_symlink() and place.is_dir() and find_weights(Folder(place)) is not None
    except (OSError, CannotExamineError):
        return False


def _open_safetensors(path: str, folder: Folder, weights: Weights) -> Checkpoint:
    faults: list[Fault] = []
    tensors: dict[str, TensorInfo] = {}
    again: dict[str, list[TensorInfo]] = {}
    sound = True
    unread: set[str] = set()
    metadata: dict[str, str] = {}
    for name in weights.files:
        with folder.open(name) as stream:
            header: Header = read_header(stream, name, folder.size(name))
        faults += header.faults
        sound = sound and header.sound
        unread |= set() if header.sound else {name}
        metadata.update(header.metadata)
        _join(tensors, header.tensors, again, faults)
        if len(tensors) > TENSOR_LIMIT or sum(map(len, again.values())) > TENSOR_LIMIT:
            faults.append(Fault("too_many_tensors", name, offset=8, expected=TENSOR_LIMIT, found=len(tensors)))
            sound = False
            break
    faults += _index_faults(weights, tensors, again, unread)
    return Checkpoint(
        path=path, root=folder.root, whole_folder=True, kind="safetensors", files=weights.files,
        size=sum(folder.size(n) for n in weights.files), tensors=tensors, faults=tuple(faults), config=None,
        names_sound=sound and _complete(weights) and not _contested(tensors, again), metadata=metadata,
        beside=weights.beside, beside_names=_beside(folder, weights), _folder=folder,
        index_file=weights.index.file if weights.index else None,
        second_copies=tuple(info for copies in again.values() for info in copies),
    )  # fmt: skip


def _open_pickles(path: str, folder: Folder, weights: Weights) -> Checkpoint:
    faults: list[Fault] = []
    tensors: dict[str, TensorInfo] = {}
    again: dict[str, list[TensorInfo]] = {}
    values: dict[str, PickledTensor] = {}
    rivals: list[str] = []
    nested: str | None = None
    others: tuple[str, ...] = ()
    sound = True
    unread: set[str] = set()
    for name in weights.files:
        pickled = _read_pickle(folder, name)
        faults += pickled.faults
        unread |= {name} if pickled.faults else set()
        sound = sound and not pickled.faults
        nested, others = nested or pickled.nested_in, others or pickled.others
        for key, tensor in (pickled.values or {}).items():
            values.setdefault(key, tensor)
        rivals += pickled.rivals
        _join(tensors, pickled.tensors, again, faults)
    faults += _index_faults(weights, tensors, again, unread)
    return Checkpoint(
        path=path, root=folder.root, whole_folder=True, kind="pickle", files=weights.files,
        size=sum(folder.size(n) for n in weights.files), tensors=tensors, faults=tuple(faults), config=None,
        names_sound=sound and _complete(weights) and not _contested(tensors, again), nested_in=nested,
        state_keys=others, _folder=folder, _values=values,
        index_file=weights.index.file if weights.index else None,
        second_copies=tuple(info for copies in again.values() for info in copies),
        rivals=tuple(dict.fromkeys(rivals)),
    )  # fmt: skip


def _join(
    tensors: dict[str, TensorInfo],
    more: tuple[TensorInfo, ...],
    again: dict[str, list[TensorInfo]],
    faults: list[Fault],
) -> None:
    """Add the tensors of one more file; a name that is there already keeps its first file, `again` has the others."""
    twice: dict[bool, list[tuple[TensorInfo, TensorInfo]]] = {}
    for info in more:
        first = tensors.setdefault(info.name, info)
        if first.file != info.file:
            again.setdefault(info.name, []).append(info)
            twice.setdefault(first.shape == info.shape, []).append((first, info))
    for alike, pairs in twice.items():
        first, second = pairs[0]
        fault = Fault("tensor_in_two_files", second.file, tensor=first.name, other=first.file, count=len(pairs))
        if not alike:
            found = replace(
                fault, kind="tensor_of_two_shapes", expected=str(list(first.shape)), found=str(list(second.shape))
            )
            faults.append(found)
        else:
            faults.append(fault)


def _contested(tensors: dict[str, TensorInfo], again: dict[str, list[TensorInfo]]) -> bool:
    """Whether two files hold a tensor in two shapes: then neither says what the checkpoint's sizes are."""
    return any(info.shape != tensors[name].shape for name, copies in again.items() for info in copies)


def _complete(weights: Weights) -> bool:
    """Whether all files that should be there are: else a missing tensor is the missing file's."""
    return not any(f.kind in ("index_missing_shard", "index_bad_path", "shard_missing") for f in weights.faults)


def _index_faults(
    weights: Weights, tensors: dict[str, TensorInfo], again: dict[str, list[TensorInfo]], unread: set[str]
) -> list[Fault]:
    """Tensors that the index puts into a shard which lacks them, or does not name at all. Of the shards `unread`, which
    are damaged themselves, nothing is said."""
    if weights.index is None or not weights.index_map:
        return []
    index, faults = weights.index, []
    present = frozenset(weights.files) - unread
    for name, file in weights.index_map.items():
        info = tensors.get(name)
        if file not in present or (info and info.file == file) or any(a.file == file for a in again.get(name, ())):
            continue
        line = index.line("weight_map", name)
        elsewhere = info.file if info else None
        faults.append(Fault("index_wrong_shard", index.file, line=line, tensor=name, expected=file, found=elsewhere))
    unnamed = [t for t in tensors.values() if t.name not in weights.index_map]
    faults += [Fault("index_lacks_tensor", index.file, tensor=t.name, other=t.file) for t in unnamed]
    return faults


def _beside(folder: Folder, weights: Weights) -> Known[tuple[str, ...]] | None:
    """The tensor names in the pickles beside the safetensors; unknown when torch cannot read them."""
    if not weights.beside:
        return None
    if any(folder.remote_file(name) is not None for name in weights.beside):
        return Unknown(f"{show(weights.beside[0])} on this machine (PyTorch files are not read over the network)")
    if torch_problem():
        return Unknown(f"the torch extra, to read {show(weights.beside[0])}")
    names: list[str] = []
    for name in weights.beside:
        try:
            pickled = _read_pickle(folder, name)
        except CannotExamineError:
            pickled = None
        if pickled is None or pickled.faults:
            return Unknown(f"a readable {show(name)}")
        names += [info.name for info in pickled.tensors]
    return tuple(names)


def _read_pickle(folder: Folder, name: str) -> PickledTensors:
    place = folder.path(name)
    if place is None:
        raise CannotExamineError(f"{folder.shown(name)}: {folder.closed(name) or 'cannot be opened'}")
    remote = folder.remote_file(name)
    if remote is not None:
        raise CannotExamineError(f"{remote.told}: PyTorch files are not read over the network; {remote.advice}")
    try:
        return read_pickle(place, name)
    except OSError as error:
        raise CannotExamineError(f"{show(place)}: cannot be read ({show(error.strerror or error)})") from None
