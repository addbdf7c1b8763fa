"""Which files of a folder are its weights, and what the index says about them.

Engines open `*.safetensors` of the folder itself and prefer it to `*.bin`; the EAGLE reference
takes `pytorch_model.bin` first. An index names shards; without one, all that loaders open counts, whatever it is called
(`weight_files` in rules/facts/formats.yaml).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.checkpoint.folder import Folder, is_plain_name
from ckptdoctor.checkpoint.foreign import format_of, ir_binaries
from ckptdoctor.checkpoint.jsonreader import CONFIG_LIMIT, JsonDocument, read_json
from ckptdoctor.checkpoint.remote import HEAD_LIMIT
from ckptdoctor.checkpoint.strange import LFS_CAUSE, LFS_MAGIC
from ckptdoctor.resources import shipped

__all__ = ["TOKENIZER_LIMIT", "Weights", "closed_weights", "find_weights", "is_weight_file", "read_json_file"]

TOKENIZER_LIMIT = 128 * 1024 * 1024
"""Bytes of a tokenizer.json that is opened; only its first part is parsed."""

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<total>[0-9]{5})(?P<end>\.safetensors|\.bin)", re.DOTALL)
# What accelerate's save_state writes for the second, third… model that a trainer prepared.
_NUMBERED = re.compile(r"(?P<stem>model|pytorch_model)_[0-9]{1,3}(?P<end>\.safetensors|\.bin)")
_PICKLES = (".bin", ".pt", ".pth")


@dataclass(frozen=True)
class Weights:
    """The weight files of a checkpoint.

    `kind` is `safetensors` or `pickle`; `files` are their names; `index` is the index as read (or
    None), `index_map` its tensor → file; `beside` are pickles that lie beside safetensors.
    """

    kind: str
    files: tuple[str, ...]
    index: JsonDocument | None
    index_map: dict[str, str]
    beside: tuple[str, ...]
    faults: tuple[Fault, ...]


def read_json_file(
    folder: Folder, name: str, limit: int = CONFIG_LIMIT, only: Collection[str] | None = None, room: int = 1
) -> JsonDocument | None:
    """The JSON file `name` of `folder` (with `only`: no further than to those keys of it).

    None when there is no such file, or it is not on this machine and those keys are not near its top. One of more
    than `limit` bytes is a fault and is not read. `room` is that of `read_json`.
    """
    if folder.path(name) is None:
        return None

    def failed(kind: str, **more: Any) -> JsonDocument:
        return JsonDocument(name, None, False, (Fault(kind, name, **more),))

    size = folder.size(name)
    if size > limit:
        return failed("json_too_large", expected=limit, found=size, detail=f"{size} bytes; at most {limit} are read")
    cut = only is not None and folder.remote_file(name) is not None and size > HEAD_LIMIT
    with folder.open(name) as stream:
        data = stream.read(HEAD_LIMIT if cut else limit)
    if not data:
        return failed("empty_file", offset=0)
    if data.startswith(LFS_MAGIC):
        return failed("lfs_pointer", offset=0, found=size, detail=LFS_CAUSE)
    # Of a large file, only the keys near the top are looked for by place.
    document = read_json(data, name, only=only, depth=4 if only is None else 2, room=room)
    if not document.readable:
        return None if cut else document
    # Engines read configs with Python's json, which takes half a surrogate pair for a character.
    faults = tuple(fault for fault in document.faults if fault.kind != "json_encoding")
    if not isinstance(document.value, dict):
        what = "the outermost value is no object"
        faults += (Fault("json_not_object", name, offset=0, line=1, detail=what),)
    return replace(document, faults=faults)


def find_weights(folder: Folder, only: str | None = None) -> Weights | None:
    """The weights of `folder`, or of the one file `only`. None when there are none at all."""
    if only is not None and format_of(only) is not None:
        return None
    if only is not None and not only.endswith(".json"):
        return Weights(_kind(only), (only,), None, {}, (), ())
    if only is not None and not only.endswith(".index.json"):
        return None
    # Links that lead out are faults of the folder from here on, even where nothing is opened later.
    names = [name for name in folder.names if folder.path(name) is not None]
    safetensors = [n for n in names if _named("safetensors", "opened", n)]
    compiled = ir_binaries(folder.names)
    pickles = [n for n in names if _is_pickle(n) and n not in compiled]
    kinds = [_kind(only.removesuffix(".index.json"))] if only else ["safetensors", "pickle"]
    if "safetensors" in kinds:
        index_name = only or _index_of(names, ".safetensors")
        if index_name or safetensors:
            beside = () if only else tuple(n for n in pickles if n.startswith("pytorch_model"))
            return _with_index(folder, "safetensors", index_name, safetensors, beside)
    if "pickle" in kinds:
        index_name = only or _index_of(names, ".bin")
        if index_name or pickles:
            return _with_index(folder, "pickle", index_name, _preferred(pickles), ())
    if closed_weights(folder):
        return Weights("safetensors", (), None, {}, (), ())
    return None


def closed_weights(folder: Folder) -> list[str]:
    """Weight files of the folder that may not be opened: broken links, links that lead out, pipes."""
    return [f.file for f in folder.faults if is_weight_file(f.file)]


def is_weight_file(name: str) -> bool:
    """Whether a loader that finds a file of this name in a folder without an index opens it as weights."""
    return _named("safetensors", "opened", name) or _is_pickle(name)


def _is_pickle(name: str) -> bool:
    return _named("pickles", "opened", name) and not _named("pickles", "left", name)


def _named(kind: str, what: str, name: str) -> bool:
    """Whether `name` fits the pattern `what` of weight files of the kind `kind`."""
    return bool(re.search(shipped("facts/formats")["weight_files"][kind][what], name))


def _kind(name: str) -> str:
    return "pickle" if name.endswith(_PICKLES) else "safetensors"


def _index_of(names: list[str], ending: str) -> str | None:
    found = [n for n in names if n.endswith(f"{ending}.index.json")]
    usual = [n for n in found if n in ("model.safetensors.index.json", "pytorch_model.bin.index.json")]
    return next(iter(usual or found), None)


def _preferred(pickles: list[str]) -> list[str]:
    """Of several pickles: the model's own files if they are there, else all."""
    usual = [n for n in pickles if n.startswith("pytorch_model")]
    return usual or pickles


def _with_index(
    folder: Folder, kind: str, index_name: str | None, files: list[str], beside: tuple[str, ...]
) -> Weights:
    index = read_json_file(folder, index_name) if index_name else None
    if index is None or index_name is None:
        return Weights(kind, tuple(files), None, {}, beside, tuple(_series_faults(files)))
    faults = list(index.faults)
    mapping: Any = index.object.get("weight_map")
    if not isinstance(mapping, dict) or not mapping or not all(isinstance(v, str) for v in mapping.values()):
        if index.readable:
            why = "weight_map is missing or empty, or does not map names to files"
            faults.append(Fault("index_malformed", index_name, offset=0, detail=why))
        return Weights(kind, tuple(files), index, {}, beside, tuple(faults))
    named: dict[str, str] = {}
    uses = Counter(mapping.values())
    for tensor, file in mapping.items():
        named.setdefault(file, tensor)
    present: list[str] = []
    for file, tensor in named.items():
        line = index.line("weight_map", tensor)
        if not is_plain_name(file):
            faults.append(Fault("index_bad_path", index_name, line=line, tensor=tensor, found=file))
        elif folder.path(file) is None:
            missing = Fault("index_missing_shard", index_name, line=line, other=file, tensor=tensor)
            faults.append(replace(missing, count=uses[file]))
        else:
            present.append(file)
    stray = [n for n in files if n not in named and not _named("safetensors", "beside_index", n)]
    faults += [Fault("file_not_in_index", n, other=index_name) for n in stray]
    safe = {t: f for t, f in mapping.items() if is_plain_name(f)}
    return Weights(kind, tuple(sorted(present)), index, safe, beside, tuple(faults))


def _series_faults(files: list[str]) -> list[Fault]:
    """Shards named `…-00002-of-00003…` without an index: members of such a series that are missing, and files that
    belong to another export or another model."""
    series: dict[tuple[str, int, str], set[int]] = {}
    for name in files:
        match = _SHARD.fullmatch(name)
        if match:
            key = (match["stem"], int(match["total"]), match["end"])
            series.setdefault(key, set()).add(int(match["number"]))
    faults: list[Fault] = []
    for (stem, total, end), numbers in series.items():
        # Some writers count from 0. `total` comes from a name and may be anything, so nothing is built of its size.
        members = range(0, total) if 0 in numbers else range(1, total + 1)
        lost = total - sum(n in members for n in numbers)
        whole = _whole_beside(stem, total, end, files, series)
        first = next((n for n in members if n not in numbers), None)
        if whole is not None:
            member = _shard_name(stem, min(numbers), total, end)
            faults.append(Fault("series_beside_whole", member, other=whole, expected=total, found=len(numbers)))
        elif lost > 0 and first is not None:
            absent = _shard_name(stem, first, total, end)
            faults.append(Fault("shard_missing", absent, expected=total, found=total - lost, count=lost))
    numbered = [(n, f"{m['stem']}{m['end']}") for n in files if (m := _NUMBERED.fullmatch(n))]
    faults += [Fault("second_model", name, other=base) for name, base in numbered if base in files]
    if len(files) > 1 and not any(f.kind in ("second_model", "series_beside_whole") for f in faults):
        faults.append(Fault("shards_without_index", files[0], found=len(files)))
    return faults


def _shard_name(stem: str, number: int, total: int, end: str) -> str:
    return f"{stem}-{number:05d}-of-{total:05d}{end}"


def _whole_beside(
    stem: str, total: int, end: str, files: list[str], series: Mapping[tuple[str, int, str], set[int]]
) -> str | None:
    """The file that holds all that this series of shards is a part of: `model.safetensors`, or the first shard of a
    complete series of another length."""
    if f"{stem}{end}" in files:
        return f"{stem}{end}"
    for (other, length, ending), numbers in series.items():
        if (other, ending) == (stem, end) and length != total and length < 10_000 and len(numbers) >= length:
            mine = series[stem, total, end]
            if len(mine) < total or length < total:
                return _shard_name(stem, min(numbers), length, end)
    return None
