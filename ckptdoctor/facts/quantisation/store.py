"""Stored tensors as modules: which hold plain values, which packed ones, and what of a packed module is absent or
odd."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.knowledge import knowledge

__all__ = ["Module", "gather", "head_of", "representatives", "unpacked"]

_BITSANDBYTES = "absmax"


@dataclass
class Module:
    """A module with the tensors that are stored for it, by the last part of their names.

    `weight` is the suffix of the tensor with the values, None where none is stored. For experts in one tensor the
    module is the projection (`experts.gate_up_proj`), and the suffixes are what follows its name.
    """

    name: str
    tensors: dict[str, TensorInfo] = field(default_factory=dict)

    @property
    def weight(self) -> str | None:
        """The suffix of the tensor with the values."""
        return next((s for s in (*_words()["weights"], "blocks", "") if s in self.tensors), None)

    @property
    def scales(self) -> tuple[str, ...]:
        """The suffixes of the scales of the weight."""
        wanted = _words()["scales"]
        return tuple(s for s in self.tensors if s in wanted or s.lstrip("_") in wanted or s == "absmax")

    @property
    def form(self) -> str:
        """How the values are stored: `plain`, `float8`, `int8`, `four bits` (two in a byte), `packed` (in whole
        numbers), `bitsandbytes`, or `none` where there is no weight."""
        suffix = self.weight
        if suffix is None:
            return "none"
        info = self.tensors[suffix]
        if _BITSANDBYTES in self.tensors:
            return "bitsandbytes"
        if suffix in ("weight_packed", "qweight", "W_q"):
            return "packed" if info.dtype in ("I32", "I64", "U32") else "four bits" if info.dtype == "U8" else "packed"
        if info.dtype in _words()["float8"]:
            return "float8"
        if info.dtype in ("U8", "I8") and len(info.shape) >= 2:
            if suffix == "blocks" or (info.dtype == "U8" and self.scales):
                return "four bits"
            return "int8" if self.scales else "plain"
        if info.dtype.startswith("F4"):
            return "four bits"
        return "plain"

    @property
    def is_packed(self) -> bool:
        """Whether the values are quantised: in a form that cannot be read without its scales."""
        form = self.form
        return form not in ("plain", "none") and (form != "float8" or bool(self.scales))

    @property
    def is_plain(self) -> bool:
        """Whether the values are stored as ordinary floats."""
        return self.form == "plain" and self.tensors[self.weight or ""].dtype in _words()["plain"]

    @property
    def logical_shape(self) -> tuple[int, int] | None:
        """The shape of the matrix that the packed values stand for; None where the tensors do not tell."""
        suffix = self.weight
        shape = self.tensors[suffix].shape if suffix is not None else ()
        if len(shape) != 2:
            return None
        rows, columns = shape
        if self.form == "four bits":
            return rows, 2 * columns
        if suffix == "qweight":
            return self._from_qweight(rows, columns)
        if suffix == "weight_packed":
            bits = self.packed_bits
            return (rows, columns * 32 // bits) if bits else None
        return rows, columns

    @property
    def packed_bits(self) -> int | None:
        """Bits of one value where the zeros or the scales tell them; None where they do not."""
        zeros, scales = self.tensors.get("qzeros"), self.tensors.get("scales")
        if zeros is not None and scales is not None and len(zeros.shape) == 2 == len(scales.shape) and scales.shape[1]:
            bits, rest = divmod(32 * zeros.shape[1], scales.shape[1])
            return bits if not rest and bits in (2, 3, 4, 8) else None
        return None

    def _from_qweight(self, rows: int, columns: int) -> tuple[int, int] | None:
        """GPTQ packs along the input ([K·bits/32, N]), AWQ along the output ([K, N·bits/32])."""
        scales, bits = self.tensors.get("scales"), self.packed_bits
        if scales is None or len(scales.shape) != 2:
            return None
        outputs = scales.shape[1]
        if columns == outputs:
            return (outputs, rows * 32 // bits) if bits else None
        return outputs, rows


@lru_cache(maxsize=1)
def _words() -> Mapping[str, Any]:
    words = knowledge().words["quantisation"]
    lists = ("weights", "scales", "zeros", "extra", "activations", "float8", "plain", "experts")
    return {**words, **{name: frozenset(words[name]) if name != "weights" else tuple(words[name]) for name in lists}}


@lru_cache(maxsize=1)
def _bitsandbytes() -> re.Pattern[str]:
    return re.compile(_words()["bitsandbytes"])


@lru_cache(maxsize=1)
def _in_one() -> re.Pattern[str]:
    """Experts in one tensor: experts.gate_up_proj, with _blocks, _scales, _scale_inv, _bias behind it."""
    projections = "|".join(sorted(_words()["experts"], key=len, reverse=True))
    return re.compile(rf"^(.*\bexperts\.(?:{projections}))(?:_([a-z0-9_]+))?$")


def gather(tensors: Mapping[str, TensorInfo]) -> dict[str, Module]:
    """The modules of `tensors` that have a weight or something of a quantised one, by name."""
    words = _words()
    kinds = {*words["weights"], *words["scales"], *words["zeros"], *words["extra"], *words["activations"]}
    found: dict[str, Module] = {}
    for name, info in tensors.items():
        module, _, last = name.rpartition(".")
        if last not in kinds:
            in_one = _in_one().match(name) if "experts." in name else None
            if in_one is not None and not name.endswith("_bias"):
                module, last = in_one.group(1), in_one.group(2) or ""
            else:
                continue
        if ".weight." in name and _bitsandbytes().search(name):
            module, last = name.rsplit(".weight.", 1)
        elif not module:
            continue
        found.setdefault(module, Module(module)).tensors[last] = info
    return found


def unpacked(tensors: Mapping[str, TensorInfo]) -> Mapping[str, TensorInfo]:
    """`tensors` with the matrices that packed values stand for, under `.weight`, so that shapes can be compared.

    The same mapping where nothing is packed. Only for recognition: the bytes are not those of such a tensor.
    """
    if not any(t.dtype in ("U8", "I32", "I64", "U32") and len(t.shape) == 2 for t in tensors.values()):
        return tensors
    changed: dict[str, TensorInfo] = {}
    for module in gather(tensors).values():
        if not module.is_packed or module.form in ("float8", "int8"):
            continue
        shape = module.logical_shape or _by_four_bits(module)
        if shape is not None and module.weight is not None:
            info = module.tensors[module.weight]
            changed[f"{module.name}.weight"] = replace(info, name=f"{module.name}.weight", shape=shape)
    return {**tensors, **changed} if changed else tensors


def head_of(canonical: Mapping[str, TensorInfo]) -> TensorInfo | None:
    """The draft's own head, by canonical names: plain, or packed with a row for each token. The shape of one that is
    packed along its input is the one that it stands for."""
    plain = canonical.get("lm_head.weight") or canonical.get("lm_head.weight_packed")
    packed = canonical.get("lm_head.qweight")
    if plain is not None or packed is None:
        return plain
    module = gather({name: info for name, info in canonical.items() if name.startswith("lm_head.")})["lm_head"]
    shape = module.logical_shape or _by_four_bits(module)
    return packed if shape is None else replace(packed, shape=shape)


def _by_four_bits(module: Module) -> tuple[int, int] | None:
    """The shape if each value has four bits, which most have; for where nothing tells."""
    info = module.tensors.get("weight_packed") or module.tensors.get("qweight")
    if info is None or len(info.shape) != 2:
        return None
    rows, columns = info.shape
    scales = module.tensors.get("scales")
    if "weight_packed" in module.tensors:
        return rows, 8 * columns
    return (columns, 8 * rows) if scales is None or scales.shape[-1:] == (columns,) else None


def representatives(modules: Iterable[Module], most: int) -> Sequence[Module]:
    """At most `most` modules, one for all experts of a layer that are numbered alike."""
    seen: dict[str, Module] = {}
    for module in modules:
        seen.setdefault(re.sub(r"\bexperts\.\d+\.", "experts.0.", module.name), module)
        if len(seen) >= most:
            break
    return list(seen.values())
