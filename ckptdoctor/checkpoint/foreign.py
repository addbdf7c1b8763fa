"""Weights of other engines beside, or in place of, safetensors and PyTorch files: told by their names, and not read.

Of a GGUF file the header is read, so that rules can say whether llama.cpp takes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.checkpoint.folder import Folder
from ckptdoctor.checkpoint.gguf import GgufHeader, read_gguf
from ckptdoctor.checkpoint.strange import GGUF_CAUSE, START, strange_content

__all__ = ["ForeignFile", "foreign_files", "format_of", "ir_binaries"]

FOREIGN_LIMIT = 64
"""Files of other formats that are looked at in one folder."""

_FORMATS = {
    ".gguf": "gguf", ".onnx": "onnx", ".npz": "npz", ".msgpack": "flax", ".h5": "keras", ".engine": "tensorrt",
    ".plan": "tensorrt", ".tflite": "tflite", ".pte": "executorch", ".ckpt": "lightning", ".distcp": "distributed",
}  # fmt: skip


@dataclass(frozen=True)
class ForeignFile:
    """A file of another format. `format` is an id of rules/facts/formats.yaml; `gguf` is the header of a GGUF file."""

    file: str
    format: str
    size: int
    gguf: GgufHeader | None = None


def format_of(name: str) -> str | None:
    """The format that the ending of `name` stands for; None for any other name."""
    return next((kind for ending, kind in _FORMATS.items() if name.lower().endswith(ending)), None)


def ir_binaries(names: tuple[str, ...]) -> frozenset[str]:
    """The `.bin` files that are the weights of an OpenVINO model: one of the same name with `.xml` lies beside."""
    known = frozenset(names)
    return frozenset(n for n in names if n.endswith(".bin") and f"{n.removesuffix('.bin')}.xml" in known)


def foreign_files(folder: Folder, only: str | None = None) -> tuple[ForeignFile, ...]:
    """The files of other formats in `folder` (with `only`: that one), at most `FOREIGN_LIMIT`.

    What may not be opened is left out.
    """
    names = folder.names if only is None else (only,)
    kinds = {name: kind for name in names if (kind := format_of(name)) is not None}
    kinds |= {f"{name.removesuffix('.bin')}.xml": "openvino" for name in ir_binaries(names)}
    found: list[ForeignFile] = []
    for name, kind in sorted(kinds.items()):
        if len(found) == FOREIGN_LIMIT:
            break
        if folder.path(name) is not None:
            size = folder.size(name)
            # Most of a GGUF header is the vocabulary: over the network it is not read.
            there = folder.remote_file(name) is not None
            header = _gguf(folder, name, size) if kind == "gguf" and not there else None
            found.append(ForeignFile(name, kind, size, header))
    return tuple(found)


def _gguf(folder: Folder, name: str, size: int) -> GgufHeader:
    with folder.open(name) as stream:
        strange = strange_content(stream.read(START))
        if strange is not None and strange[1] != GGUF_CAUSE:
            kind, cause = strange
            fault = Fault("lfs_pointer" if kind == "lfs_pointer" else "gguf_damaged", name, 0, found=size, detail=cause)
            return GgufHeader(faults=(fault,))
        stream.seek(0)
        return read_gguf(stream, name, size)
