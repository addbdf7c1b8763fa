"""From the draft as it would be to the files of the copy, piece by piece. Nothing is written here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.checkpoint.container import read_header
from ckptdoctor.publish.header import Slot, container_pieces
from ckptdoctor.publish.json_style import json_bytes
from ckptdoctor.publish.pieces import Literal, OutputFile, Piece, Range, Zeros, whole
from ckptdoctor.publish.tree import Entry, Tree
from ckptdoctor.repair.edits import AddTensor, CopyTensor
from ckptdoctor.repair.pickled import pieces_of
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.state import State, tensor_bytes

__all__ = ["Assembly", "assemble"]

INDEX_NAME = "model.safetensors.index.json"


@dataclass(frozen=True)
class Assembly:
    """The copy as files. `tensors` maps each of its weight files to the tensors in it, with places in the new file."""

    files: tuple[OutputFile, ...]
    tensors: Mapping[str, tuple[TensorInfo, ...]]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def fresh(self) -> int:
        """Bytes that are not copied from the source."""
        return sum(p.length for f in self.files for p in f.pieces if not isinstance(p, Range))


def assemble(source: Checkpoint, state: State, tree: Tree) -> Assembly:
    """The files of the copy of `source` (its folder listed in `tree`) as `state` wants them.

    Raises `CannotExamineError` when a JSON file cannot be written again without changing what engines read.
    """
    files: list[OutputFile] = []
    tensors: dict[str, tuple[TensorInfo, ...]] = {}
    gone = state.omitted | set(state.converted)
    index = _index_to_write(source, state)
    for entry in tree.entries:
        if entry.name in gone or entry.name == RECEIPT_NAME:
            continue
        if entry.name in source.files and source.kind == "safetensors":
            file, infos = _weights(source, state, entry)
            files.append(file)
            tensors[entry.name] = infos
        elif entry.name in state.json:
            files.append(_json(entry, state.json[entry.name]))
        elif entry.name != index:
            files.append(whole(entry.name, entry.path, entry.status.st_size))
    for old, new in state.converted.items():
        file, infos = _converted(state, old, new, tree)
        files.append(file)
        tensors[new] = infos
    files += [_new_json(name, value) for name, value in state.json.items() if tree.entry(name) is None]
    if index is not None:
        files.append(_index(source, index, tensors, tree))
    return Assembly(tuple(sorted(files, key=lambda f: f.name)), tensors)


def _index_to_write(source: Checkpoint, state: State) -> str | None:
    """The index that has to be written: one that was asked for, or the one whose tensors are no longer as it says."""
    if state.index is not None:
        return state.index
    if source.index_file is None or source.index_file in state.omitted:
        return None
    same = {n: i.file for n, i in source.tensors.items()} == {n: i.file for n, i in state.checkpoint.tensors.items()}
    changed = state.new or state.second_copies
    return None if same and not changed else source.index_file


def _weights(source: Checkpoint, state: State, entry: Entry) -> tuple[OutputFile, tuple[TensorInfo, ...]]:
    with entry.open() as stream:
        header = read_header(stream, entry.name, entry.status.st_size)
    stored = sorted(header.tensors, key=lambda info: (info.start or 0, info.end or 0))
    by_source = {
        info.stored_as: info
        for name, info in state.checkpoint.tensors.items()
        if not isinstance(state.new.get(name), (AddTensor, CopyTensor)) or name in source.tensors
    }
    slots: list[Slot] = []
    for old in stored:
        info = by_source.get(old.name)
        if info is None or (entry.name, old.name) in state.second_copies:
            continue
        new = info.name in state.new and info.file == entry.name
        slots.append(_slot(state, info) if new else _kept(replace(old, name=info.name), entry))
    here = {slot.name for slot in slots}
    for name in state.new:
        info = state.checkpoint.tensors[name]
        if info.file == entry.name and name not in here:
            slots.append(_slot(state, info))
    metadata = dict(state.metadata[entry.name]) if entry.name in state.metadata else dict(header.metadata)
    same = [slot.name for slot in slots] == [info.name for info in stored] and not here & set(state.new)
    if same and entry.name not in state.metadata:
        return whole(entry.name, entry.path, entry.status.st_size), tuple(stored)
    file = OutputFile(entry.name, container_pieces(slots, metadata), like=entry.path, source=entry.name)
    return file, _infos(file.pieces, entry.name)


def _infos(pieces: tuple[Piece, ...], name: str) -> tuple[TensorInfo, ...]:
    """The tensors of a new file with their places, as its header gives them."""
    head = pieces[0]
    assert isinstance(head, Literal)
    base = len(head.data)
    entries = json.loads(head.data[8:])
    entries.pop("__metadata__", None)
    return tuple(
        TensorInfo(n, e["dtype"], tuple(e["shape"]), name, base + e["data_offsets"][0], base + e["data_offsets"][1])
        for n, e in entries.items()
    )


def _kept(info: TensorInfo, entry: Entry) -> Slot:
    start, end = info.start or 0, info.end or 0
    return Slot(info.name, info.dtype, info.shape, (Range(entry.path, start, end),) if end > start else ())


def _slot(state: State, info: TensorInfo) -> Slot:
    edit = state.new[info.name]
    pieces: tuple[Piece, ...]
    if isinstance(edit, CopyTensor):
        pieces = tuple(_rows(edit))
    elif edit.data is None:
        pieces = (Zeros(tensor_bytes(info)),)
    else:
        pieces = (Literal(edit.data),)
    return Slot(info.name, info.dtype, info.shape, pieces)


def _rows(edit: CopyTensor) -> Iterator[Range]:
    """The rows of the target's matrix, neighbours as one range."""
    start, end = edit.source.start or 0, edit.source.end or 0
    if edit.rows is None:
        yield Range(edit.path, start, end)
        return
    width = (end - start) // max(edit.source.shape[0], 1)
    open_range: Range | None = None
    for row in edit.rows:
        at = start + row * width
        if open_range is not None and open_range.end == at:
            open_range = Range(edit.path, open_range.start, at + width)
            continue
        if open_range is not None:
            yield open_range
        open_range = Range(edit.path, at, at + width)
    if open_range is not None:
        yield open_range


def _converted(state: State, old: str, new: str, tree: Tree) -> tuple[OutputFile, tuple[TensorInfo, ...]]:
    entry = tree.entry(old)
    infos = [info for info in state.checkpoint.tensors.values() if info.file == new]
    slots = [
        _slot(state, info)
        if info.name in state.new
        else Slot(info.name, info.dtype, info.shape, pieces_of(state.checkpoint, info))
        for info in infos
    ]
    slots.sort(key=lambda slot: -slot.alignment)
    pieces = container_pieces(slots, {"format": "pt"})
    file = OutputFile(new, pieces, like=entry.path if entry else None, source=old)
    return file, _infos(pieces, new)


def _json(entry: Entry, value: Mapping[str, Any]) -> OutputFile:
    before = _read(entry)
    return OutputFile(entry.name, (Literal(json_bytes(value, before, entry.name)),), like=entry.path, source=entry.name)


def _read(entry: Entry) -> bytes:
    with entry.open() as stream:
        return stream.read()


def _new_json(name: str, value: Mapping[str, Any]) -> OutputFile:
    return OutputFile(name, (Literal(json_bytes(value, b"", name)),))


def _index(source: Checkpoint, name: str, tensors: Mapping[str, tuple[TensorInfo, ...]], tree: Tree) -> OutputFile:
    """The index of the files of the copy. Of an older one, what it says beside the sizes is kept."""
    entry = tree.entry(name) or (tree.entry(source.index_file) if source.index_file else None)
    before = _read(entry) if entry else b""
    document = source.json(entry.name) if entry else None
    old: Any = document.object.get("metadata") if document else None
    metadata = {str(k): v for k, v in old.items() if k != "total_parameters"} if isinstance(old, dict) else {}
    infos = [info for file in sorted(tensors) for info in tensors[file]]
    metadata["total_size"] = sum(tensor_bytes(info) for info in infos)
    if isinstance(old, dict) and "total_parameters" in old:
        metadata["total_parameters"] = sum(info.elements for info in infos)
    weight_map = {info.name: info.file for info in sorted(infos, key=lambda info: info.name)}
    data = json_bytes({"metadata": metadata, "weight_map": weight_map}, before, name, check=False)
    same = entry is not None and entry.name == name
    return OutputFile(name, (Literal(data),), like=entry.path if entry else None, source=name if same else None)
