"""`State`: the draft as it would be after edits, without a byte being written.

It holds a `Checkpoint` that looks like the copy (names, shapes, config, values of small tensors), so that facts can be
measured and rules judged on it, and what the writer needs to make it true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ckptdoctor.checkpoint import Checkpoint, JsonDocument, TensorInfo
from ckptdoctor.checkpoint.container import DTYPE_BITS
from ckptdoctor.facts.config import with_value
from ckptdoctor.repair.edits import (
    AddTensor,
    CastTensor,
    ConvertPickle,
    CopyTensor,
    DropTensor,
    Edit,
    OmitFile,
    RemoveConfig,
    RenameTensor,
    ReplaceTensor,
    RewriteIndex,
    RewriteJson,
    SetConfig,
    SetMetadata,
)

__all__ = ["BrokenEditError", "State", "tensor_bytes"]

_OF_INDEX = ("index_wrong_shard", "index_lacks_tensor", "index_malformed", "index_bad_path", "index_missing_shard",
             "shards_without_index")  # fmt: skip
_OF_JSON = ("json_duplicate_key", "json_byte_order_mark")


class BrokenEditError(ValueError):
    """An edit that does not fit the draft: a fault of a treatment."""


Stored = ReplaceTensor | CastTensor | AddTensor | CopyTensor


@dataclass(frozen=True)
class State:
    """A draft with edits made.

    `checkpoint` is what a reader of the copy would open. `new` gives, by the name in the copy, the tensors whose bytes
    are not those of the source. `json` are the JSON files with other content, `omitted` the files that are left
    out, `index` the name of the index that is written anew (None: none), `metadata` the texts of a header by file,
    `converted` the PyTorch files and the safetensors files in their place. `second_copies` are (file, name) of tensors
    that stand in two files and are left out of this one.
    """

    checkpoint: Checkpoint
    new: Mapping[str, Stored] = field(default_factory=dict)
    json: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    omitted: frozenset[str] = frozenset()
    index: str | None = None
    metadata: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    converted: Mapping[str, str] = field(default_factory=dict)
    second_copies: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> State:
        """The draft as it is."""
        return cls(checkpoint)

    def after(self, edits: Iterable[Edit]) -> State:
        """The draft with `edits` made, all at once. Raises `BrokenEditError` for one that does not fit."""
        edits = tuple(dict.fromkeys(edits))  # two proposals may ask for the same edit
        state = self._with_tensors(edits)
        for edit in edits:
            state = state._with_other(edit)
        return state

    def _with_tensors(self, edits: Sequence[Edit]) -> State:
        tensors = dict(self.checkpoint.tensors)
        new = dict(self.new)
        arrays: dict[str, Any] = {}
        renames: dict[str, str] = {}
        dropped: set[str] = set()
        for edit in edits:
            match edit:
                case RenameTensor(name, to):
                    _known(tensors, name)
                    renames[name] = to
                case DropTensor(name, None):
                    _known(tensors, name)
                    dropped.add(name)
                case ReplaceTensor(name, dtype, shape, _):
                    info = _known(tensors, name)
                    tensors[name] = replace(info, dtype=dtype, shape=shape, start=None, end=None)
                case CastTensor(name, dtype, _):
                    info = _known(tensors, name)
                    tensors[name] = replace(info, dtype=dtype, start=None, end=None)
                case AddTensor(name, dtype, shape, _):
                    if name in tensors:
                        raise BrokenEditError(f"{name} is there already")
                    tensors[name] = TensorInfo(name, dtype, shape, self._home())
                case CopyTensor(name, _, source, rows):
                    shape = source.shape if rows is None else (len(rows), *source.shape[1:])
                    old = tensors.get(name)
                    tensors[name] = TensorInfo(name, source.dtype, shape, old.file if old else self._home())
            if isinstance(edit, (ReplaceTensor, CastTensor, AddTensor)):
                arrays[edit.name] = _array(edit, tensors[edit.name])
            if isinstance(edit, (ReplaceTensor, CastTensor, AddTensor, CopyTensor)):
                new[edit.name] = edit
        named: dict[str, TensorInfo] = {}
        for name, info in tensors.items():
            if name in dropped:
                new.pop(name, None)
                continue
            to = renames.get(name, name)
            if to in named:
                raise BrokenEditError(f"two tensors would be called {to}")
            named[to] = info if to == name else replace(info, name=to, alias_of=info.stored_as)
        moved = {renames.get(name, name): value for name, value in new.items()}
        held = {renames.get(name, name): value for name, value in {**self.checkpoint.arrays, **arrays}.items()}
        return replace(self, checkpoint=self.checkpoint.with_arrays(held, tensors=named), new=moved)

    def _home(self) -> str:
        """The file that a new tensor goes to."""
        return next((info.file for info in self.checkpoint.tensors.values()), "model.safetensors")

    def _with_other(self, edit: Edit) -> State:
        match edit:
            case DropTensor(name, str(file)):
                state = self._without_faults(lambda f: f.kind == "tensor_in_two_files" and f.file == file)
                left = tuple(i for i in state.checkpoint.second_copies if (i.file, i.name) != (file, name))
                checkpoint = replace(state.checkpoint, second_copies=left)
                return replace(state, checkpoint=checkpoint, second_copies=self.second_copies | {(file, name)})
            case SetConfig(key, value, file):
                return self._with_json(file, with_value(self.value(file), key.split("."), value))
            case RemoveConfig(key, file):
                return self._with_json(file, _cut(self.value(file), key.split(".")))
            case RewriteJson(file):
                state = self._with_json(file, self.value(file))
                return state._without_faults(lambda f: f.file == file and f.kind in _OF_JSON)
            case RewriteIndex(file):
                return replace(self._without_faults(lambda f: f.kind in _OF_INDEX), index=file)
            case SetMetadata(file, metadata):
                state = self._without_faults(lambda f: f.file == file and f.kind == "metadata_not_text")
                sound = not any(f.file.endswith(".safetensors") for f in state.checkpoint.faults)
                checkpoint = replace(state.checkpoint, names_sound=sound)
                return replace(state, checkpoint=checkpoint, metadata={**self.metadata, file: metadata})
            case OmitFile(name):
                state = self._without_faults(lambda f: f.file == name)
                checkpoint = replace(state.checkpoint, omitted=state.checkpoint.omitted | {name})
                return replace(state, checkpoint=checkpoint, omitted=self.omitted | {name})
            case ConvertPickle(file, to):
                return self._converted(file, to)
        return self

    def _converted(self, file: str, to: str) -> State:
        checkpoint = self.checkpoint
        tensors = {n: replace(i, file=to) if i.file == file else i for n, i in checkpoint.tensors.items()}
        files = tuple(to if name == file else name for name in checkpoint.files)
        changed = replace(
            checkpoint, tensors=tensors, files=files, kind="safetensors", nested_in=None, state_keys=(),
            omitted=checkpoint.omitted | {file},
        )  # fmt: skip
        return replace(self, checkpoint=changed, converted={**self.converted, file: to})

    def value(self, file: str) -> dict[str, Any]:
        """The content of the JSON `file` as it would be; empty when there is none."""
        if file in self.json:
            return dict(self.json[file])
        document = self.checkpoint.config if file == "config.json" else self.checkpoint.json(file)
        return dict(document.object) if document is not None else {}

    def _with_json(self, file: str, value: dict[str, Any]) -> State:
        is_config = file == "config.json"
        old = self.checkpoint.config if is_config else self.checkpoint.json(file)
        document = JsonDocument(file, value, True, (), old.places if old is not None else {})
        # Facts are read from the side files too: what is judged is the whole copy.
        seen: dict[str, Any] = {"config": document}
        if not is_config:
            seen = {"documents": {**self.checkpoint.documents, file: document}}
        return replace(self, checkpoint=replace(self.checkpoint, **seen), json={**self.json, file: value})

    def _without_faults(self, gone: Any) -> State:
        left = tuple(fault for fault in self.checkpoint.faults if not gone(fault))
        return replace(self, checkpoint=replace(self.checkpoint, faults=left))


def tensor_bytes(info: TensorInfo) -> int:
    """The bytes that a tensor takes in a safetensors file."""
    return info.elements * DTYPE_BITS[info.dtype] // 8


def _known(tensors: Mapping[str, TensorInfo], name: str) -> TensorInfo:
    if name not in tensors:
        raise BrokenEditError(f"there is no tensor {name}")
    return tensors[name]


def _array(edit: ReplaceTensor | CastTensor | AddTensor, info: TensorInfo) -> Any:
    import numpy as np

    from ckptdoctor.checkpoint.opened import NUMPY_CODES

    code = NUMPY_CODES.get(info.dtype, "u1")
    if edit.data is None:
        return np.zeros(info.shape, dtype=code)
    return np.frombuffer(edit.data, dtype=code).reshape(info.shape)


def _cut(value: Any, path: Sequence[str]) -> dict[str, Any]:
    inner = dict(value) if isinstance(value, dict) else {}
    if path[0] in inner:
        if len(path) == 1:
            del inner[path[0]]
        else:
            inner[path[0]] = _cut(inner[path[0]], path[1:])
    return inner
