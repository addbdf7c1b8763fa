"""`Checkpoint`: an opened checkpoint, as files and tensors. Knows nothing of speculation.

Opening reads headers and small JSON files. Values of small tensors are read on demand by
`Checkpoint.integers`; weights are never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ckptdoctor.checkpoint.container import DTYPE_BITS, TensorInfo
from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.checkpoint.folder import Folder
from ckptdoctor.checkpoint.foreign import ForeignFile
from ckptdoctor.checkpoint.jsonreader import JsonDocument
from ckptdoctor.checkpoint.pickled.tensor import PickledTensor
from ckptdoctor.checkpoint.quiet import quiet
from ckptdoctor.checkpoint.weights import TOKENIZER_LIMIT, read_json_file
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show
from ckptdoctor.unknown import Known, Unknown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["NUMPY_CODES", "Checkpoint", "widened"]

VALUE_LIMIT = 8 * 1024 * 1024
"""Elements of a tensor whose values are read at most: far more than any vocabulary has."""


NUMPY_CODES = {
    "BOOL": "u1", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8",
    "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2",
}  # fmt: skip


@dataclass
class Checkpoint:
    """An opened checkpoint.

    `path` is what the person named; `root` the folder. `tensors` maps stored names to what the
    headers say, in stored order. `whole_folder` is False when a single file was named. `names_sound`
    is False when a header is damaged or two files hold a tensor in two shapes: names and shapes prove nothing then.
    `nested_in` is the key
    of a trainer's state that the tensors sit in, if any. `beside_names` are the names in a pickle that
    lies beside the safetensors: None if there is none, unknown without torch. `index_file` is the name of
    the index, if there is one. `second_copies` are the tensors whose name an earlier file has already.
    `rivals` are other dictionaries of tensors in a PyTorch file (`""`: its outermost one). `foreign` are weights of
    other engines in the folder, which are not read; with nothing else there, `kind` is `other`.
    `arrays`, `documents` and `omitted` are for a checkpoint as a repair would make it: values of tensors that get
    others, JSON files beside the weights with other content, and files that it leaves out.
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
    _values: dict[str, PickledTensor] = field(default_factory=dict)
    arrays: Mapping[str, Any] = field(default_factory=dict)
    omitted: frozenset[str] = frozenset()
    index_file: str | None = None
    second_copies: tuple[TensorInfo, ...] = ()
    rivals: tuple[str, ...] = ()
    foreign: tuple[ForeignFile, ...] = ()
    documents: Mapping[str, JsonDocument] = field(default_factory=dict)

    @property
    def commit(self) -> str | None:
        """The commit of a repository of the Hub that it was read from; None for files of this machine."""
        return None if self._folder is None or self._folder.remote is None else self._folder.remote.commit

    def json(self, name: str) -> JsonDocument | None:
        """Another JSON file beside the weights (`generation_config.json`…), or None when it is not there."""
        if name in self.omitted:
            return None
        if name in self.documents:
            return self.documents[name]
        return read_json_file(self._folder, name) if self._folder else None

    def json_head(self, name: str, only: frozenset[str]) -> JsonDocument | None:
        """The top-level keys `only` of a large JSON file, read no further than needed; None when it is not there."""
        return read_json_file(self._folder, name, TOKENIZER_LIMIT, only) if self._folder else None

    def real_path(self, name: str) -> Path | None:
        """The real path of the file `name` beside the weights; None when there is none that may be opened, or it is not
        on this machine."""
        if self._folder is None or self._folder.remote_file(name) is not None:
            return None
        return self._folder.path(name)

    @contextmanager
    def reading(self, name: str) -> Iterator[BinaryIO]:
        """The file `name` beside the weights, open for reading. Raises `CannotExamineError` when it cannot be read."""
        if self._folder is None:
            raise CannotExamineError(f"{show(name)}: this checkpoint has no folder")
        with self._folder.open(name) as stream:
            yield stream

    def with_arrays(self, arrays: Mapping[str, npt.NDArray[Any]], **changes: Any) -> Checkpoint:
        """A checkpoint like this one with `changes` to its fields; `arrays` are values of tensors that get others."""
        return replace(self, arrays=dict(arrays), **changes)

    def names_in_folder(self) -> tuple[str, ...]:
        """The names of all files and folders beside the weights."""
        return tuple(n for n in self._folder.names if n not in self.omitted) if self._folder else ()

    def pickled(self, name: str) -> PickledTensor | None:
        """Where in its PyTorch file the tensor `name` stands; None for a tensor that is in none."""
        return self._values.get(self.tensors[name].stored_as)

    @quiet
    def integers(self, name: str) -> Known[npt.NDArray[np.int64]]:
        """The values of the one-dimensional tensor `name`, as int64 (bool as 0 and 1; whole floats as integers).

        Unknown when the bytes cannot be read, are too many, or are no whole numbers, and where another file holds the
        tensor with other bytes: which of the two an engine keeps depends on the order in which it reads.
        """
        import numpy as np

        if name not in self.arrays and self._disputed(name):
            return Unknown(f"which of the files that hold {show(name)} counts")
        array = self._stored(name)
        if array is None:
            return Unknown(f"readable values of {show(name)}")
        array = array.reshape(-1)
        if array.dtype.kind == "f":
            wide = array.astype(np.float64)
            whole = np.isfinite(wide) & (wide == np.floor(wide)) & (np.abs(wide) < 2.0**53)
            if not bool(whole.all()):
                return Unknown(f"whole numbers in {show(name)}")
        if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
            return Unknown(f"values of {show(name)} that fit 64 bits")
        return array.astype(np.int64)

    def _disputed(self, name: str) -> bool:
        """Whether another file holds the tensor `name` too, and not proven to be the same byte by byte."""
        first = self.tensors[name]
        copies = [info for info in self.second_copies if info.name == first.stored_as]
        return bool(copies) and any(self._raw(info) is None or self._raw(info) != self._raw(first) for info in copies)

    def _raw(self, info: TensorInfo) -> tuple[str, tuple[int, ...], bytes] | None:
        """Dtype, shape and bytes of a small tensor of a safetensors file; None where they cannot be read."""
        if info.start is None or info.end is None or info.elements > VALUE_LIMIT or self._folder is None:
            return None
        with self._folder.open(info.file) as stream:
            stream.seek(info.start)
            return info.dtype, info.shape, stream.read(info.end - info.start)

    def _stored(self, name: str) -> npt.NDArray[Any] | None:
        """The tensor as stored (bfloat16 widened); None when its bytes are damaged, too many or no plain numbers."""
        import numpy as np

        if name in self.arrays:
            return np.asarray(self.arrays[name])
        info = self.tensors[name]
        code = NUMPY_CODES.get(info.dtype)
        if code is None or info.elements > VALUE_LIMIT:
            return None
        if info.stored_as in self._values:
            try:
                raw = b"".join(self._values[info.stored_as].pieces(VALUE_LIMIT))
            except CannotExamineError:  # a sparse or meta tensor has no plain values, or the file has changed
                return None
            return widened(np.frombuffer(raw, dtype=code), info.dtype).reshape(info.shape)
        needed = info.elements * DTYPE_BITS[info.dtype] // 8
        if info.start is None or info.end is None or info.end - info.start != needed or self._folder is None:
            return None
        with self._folder.open(info.file) as stream:
            stream.seek(info.start)
            raw = stream.read(needed)
        if len(raw) != needed:
            return None
        return widened(np.frombuffer(raw, dtype=code), info.dtype)


def widened(stored: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Values as they are stored, those of bfloat16 (which numpy does not know) as float32."""
    import numpy as np

    return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32) if dtype == "BF16" else stored
