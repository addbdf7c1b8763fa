"""`Checkpoint`: an opened checkpoint, as files and tensors. Knows nothing of speculation.

Opening reads headers and small JSON files. Values of small tensors are read on demand by
`Checkpoint.integers`; weights are never read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptdoctor.checkpoint.container import DTYPE_BITS, Header, TensorInfo, read_header
from ckptdoctor.checkpoint.faults import Fault, first_of_each
from ckptdoctor.checkpoint.folder import Folder, locate
from ckptdoctor.checkpoint.jsonreader import JsonDocument, read_json
from ckptdoctor.checkpoint.pickles import PickledTensors, read_pickle, torch_problem
from ckptdoctor.checkpoint.weights import Weights, find_weights, read_json_file
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Checkpoint", "open_checkpoint"]

VALUE_LIMIT = 64 * 1024 * 1024
"""Bytes of one tensor whose values are read at most: a map of eight million entries."""

TOKENIZER_LIMIT = 128 * 1024 * 1024
"""Bytes of a tokenizer.json that is opened; only its first part is parsed."""

_INTEGERS = {
    "BOOL": "u1", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8",
    "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2",
}  # fmt: skip


@dataclass
class Checkpoint:
    """An opened checkpoint.

    `path` is what the person named; `root` the folder. `tensors` maps stored names to what the
    headers say, in stored order. `whole_folder` is False when a single file was named. `names_sound`
    is False when a header is damaged, so that names and shapes prove nothing. `nested_in` is the key
    of a trainer's state that the tensors sit in, if any. `beside_names` are the names in a pickle that
    lies beside the safetensors: None if there is none, unknown without torch.
    """

    path: str
    root: Path
    whole_folder: bool
    kind: str
    files: tuple[str, ...]
    size: int
    tensors: dict[str, TensorInfo]
    faults: tuple[Fault, ...]
    config: JsonDocument | None
    names_sound: bool = True
    nested_in: str | None = None
    state_keys: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    beside_names: Known[tuple[str, ...]] | None = None
    _folder: Folder | None = None
    _values: dict[str, Any] = field(default_factory=dict)

    def json(self, name: str) -> JsonDocument | None:
        """Another JSON file beside the weights (`generation_config.json`…), or None when it is not there."""
        return read_json_file(self._folder, name) if self._folder else None

    def json_head(self, name: str, only: frozenset[str]) -> JsonDocument | None:
        """The top-level keys `only` of a large JSON file, read no further than needed."""
        if self._folder is None or self._folder.path(name) is None or self._folder.size(name) > TOKENIZER_LIMIT:
            return None
        with self._folder.open(name) as stream:
            return read_json(stream.read(TOKENIZER_LIMIT), name, only=only)

    def names_in_folder(self) -> tuple[str, ...]:
        """The names of all files and folders beside the weights."""
        return self._folder.names if self._folder else ()

    def integers(self, name: str) -> Known[npt.NDArray[np.int64]]:
        """The values of the one-dimensional tensor `name`, as int64 (bool as 0 and 1; whole floats as integers).

        Unknown when the bytes cannot be read, are too many, or are no whole numbers.
        """
        import numpy as np

        info = self.tensors[name]
        unreadable: Unknown = Unknown(f"readable values of {show(name)}")
        if name in self._values:
            tensor = self._values[name]
            array = np.asarray(tensor.detach().float().numpy() if info.dtype == "BF16" else tensor.detach().numpy())
        else:
            code = _INTEGERS.get(info.dtype)
            if code is None or info.start is None or info.end is None or self._folder is None:
                return unreadable
            needed = info.elements * DTYPE_BITS[info.dtype] // 8
            if info.end - info.start != needed or needed > VALUE_LIMIT:
                return unreadable
            with self._folder.open(info.file) as stream:
                stream.seek(info.start)
                raw = stream.read(needed)
            if len(raw) != needed:
                return unreadable
            array = np.frombuffer(raw, dtype=code)
            if info.dtype == "BF16":
                array = (array.astype(np.uint32) << 16).view(np.float32)
        array = array.reshape(-1)
        if array.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                if not bool(np.all(np.isfinite(array) & (array == np.floor(array)) & (np.abs(array) < 2**53))):
                    return Unknown(f"whole numbers in {show(name)}")
        if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
            return Unknown(f"values of {show(name)} that fit 64 bits")
        return array.astype(np.int64)


def open_checkpoint(path: str) -> Checkpoint:
    """Open the checkpoint at `path`: a folder, one weight file, or an index.

    Damage is in `faults`. Raises `CannotExamineError` when there is nothing to examine: no such
    path, no weights, no permission, or pickles without torch.
    """
    root, only = locate(path)
    folder = Folder(root)
    weights = find_weights(folder, only)
    if weights is None:
        raise CannotExamineError(
            f"{show(path)}: nothing that looks like a checkpoint (no .safetensors, .bin or .pt file)"
        )
    if weights.kind == "pickle":
        checkpoint = _open_pickles(path, folder, weights)
    else:
        checkpoint = _open_safetensors(path, folder, weights)
    checkpoint.whole_folder = only is None
    config = read_json_file(folder, "config.json")
    checkpoint.config = config
    found = [*folder.faults, *weights.faults, *checkpoint.faults, *(config.faults if config else ())]
    checkpoint.faults = first_of_each(found)
    return checkpoint


def _open_safetensors(path: str, folder: Folder, weights: Weights) -> Checkpoint:
    faults: list[Fault] = []
    tensors: dict[str, TensorInfo] = {}
    sound = True
    metadata: dict[str, str] = {}
    for name in weights.files:
        with folder.open(name) as stream:
            header: Header = read_header(stream, name, folder.size(name))
        faults += header.faults
        sound = sound and header.sound
        metadata.update(header.metadata)
        _join(tensors, header.tensors, faults)
    faults += _index_faults(weights, tensors)
    return Checkpoint(
        path=path, root=folder.root, whole_folder=True, kind="safetensors", files=weights.files,
        size=sum(folder.size(n) for n in weights.files), tensors=tensors, faults=tuple(faults), config=None,
        names_sound=sound and _complete(weights), metadata=metadata, beside=weights.beside,
        beside_names=_beside(folder, weights), _folder=folder,
    )  # fmt: skip


def _open_pickles(path: str, folder: Folder, weights: Weights) -> Checkpoint:
    faults: list[Fault] = []
    tensors: dict[str, TensorInfo] = {}
    values: dict[str, Any] = {}
    nested: str | None = None
    others: tuple[str, ...] = ()
    sound = True
    for name in weights.files:
        place = folder.path(name)
        if place is None:
            raise CannotExamineError(f"{show(folder.root / name)}: cannot be opened")
        try:
            pickled: PickledTensors = read_pickle(place, name)
        except OSError as error:
            raise CannotExamineError(f"{show(place)}: cannot be read ({show(error.strerror or error)})") from None
        faults += pickled.faults
        sound = sound and not pickled.faults
        nested, others = nested or pickled.nested_in, others or pickled.others
        values.update(pickled.values or {})
        _join(tensors, pickled.tensors, faults)
    faults += _index_faults(weights, tensors)
    return Checkpoint(
        path=path, root=folder.root, whole_folder=True, kind="pickle", files=weights.files,
        size=sum(folder.size(n) for n in weights.files), tensors=tensors, faults=tuple(faults), config=None,
        names_sound=sound and _complete(weights), nested_in=nested, state_keys=others, _folder=folder, _values=values,
    )  # fmt: skip


def _join(tensors: dict[str, TensorInfo], more: tuple[TensorInfo, ...], faults: list[Fault]) -> None:
    for info in more:
        first = tensors.get(info.name)
        if first is None:
            tensors[info.name] = info
        elif first.file != info.file:
            faults.append(Fault("tensor_in_two_files", info.file, tensor=info.name, other=first.file))


def _complete(weights: Weights) -> bool:
    """Whether all files that should be there are: else a missing tensor is the missing file's."""
    return not any(f.kind in ("index_missing_shard", "index_bad_path", "shard_missing") for f in weights.faults)


def _index_faults(weights: Weights, tensors: dict[str, TensorInfo]) -> list[Fault]:
    """Tensors that the index puts into a shard which lacks them, or does not name at all."""
    if weights.index is None or not weights.index_map:
        return []
    index, faults = weights.index, []
    for name, file in weights.index_map.items():
        if file not in weights.files:
            continue
        info = tensors.get(name)
        if info is None or info.file != file:
            line = index.line("weight_map", name)
            elsewhere = info.file if info else None
            faults.append(
                Fault("index_wrong_shard", index.file, line=line, tensor=name, expected=file, found=elsewhere)
            )
    unnamed = [t for t in tensors.values() if t.name not in weights.index_map]
    faults += [Fault("index_lacks_tensor", index.file, tensor=t.name, other=t.file) for t in unnamed]
    return faults


def _beside(folder: Folder, weights: Weights) -> Known[tuple[str, ...]] | None:
    """The tensor names in the pickles beside the safetensors; unknown when torch cannot read them."""
    if not weights.beside:
        return None
    problem = torch_problem()
    if problem:
        return Unknown(f"the torch extra, to read {show(weights.beside[0])}")
    names: list[str] = []
    for name in weights.beside:
        place = folder.path(name)
        pickled = read_pickle(place, name) if place else PickledTensors(faults=(Fault("broken_link", name),))
        if pickled.faults:
            return Unknown(f"a readable {show(name)}")
        names += [info.name for info in pickled.tensors]
    return tuple(names)
