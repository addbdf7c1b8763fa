"""A quantised draft as the classes of an engine see it: modules, not the tensors that they are stored in.

The tables of parameters are those of plain drafts. Where a release builds the draft with the scheme of its own
config, a packed module counts as the one parameter that it stands for, and its scales and zeros as part of it. Where
it does not, the tensors are looked up as they are, and scales are names that nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts import Facts
from ckptdoctor.facts.quantisation.store import Module, gather, unpacked
from ckptdoctor.serving.contract.contracts import Reader
from ckptdoctor.serving.plan import Refusal

__all__ = ["as_built", "scheme_refusals"]


def as_built(tensors: Sequence[TensorInfo], entry: Mapping[str, Any], facts: Facts, reader: Reader) -> list[TensorInfo]:
    """`tensors` with one plain weight for every module that this release builds with the draft's own scheme."""
    seen = list(tensors)
    known = facts.quantisation
    if known is None or known.scheme is None or not known.packed_in_file or facts.files.nested_in is not None:
        return seen
    own = _own(entry, reader)
    if not own.get("applied"):
        return seen
    named = {tensor.name: tensor for tensor in seen}
    modules = [
        m for m in gather(named).values() if m.is_packed and m.name.rpartition(".")[2] not in own.get("plain", ())
    ]
    matrices = unpacked(named)
    weights = {name: module for module in modules for name in _names(module)}
    found: dict[str, TensorInfo] = {}
    for tensor in seen:
        module = weights.get(tensor.name)
        if module is None:
            found.setdefault(tensor.name, tensor)
        else:
            name = f"{module.name}.weight"
            found.setdefault(name, replace(matrices.get(name, tensor), name=name, dtype="BF16"))
    return list(found.values())


def _names(module: Module) -> Iterable[str]:
    """All tensors of a module, but for experts in one tensor, which no table has."""
    return () if module.weight in ("", "blocks", None) else (info.name for info in module.tensors.values())


def scheme_refusals(entry: Mapping[str, Any], facts: Facts, reader: Reader) -> list[Refusal]:
    """The loud errors of a release that builds the draft with the target's scheme, or cannot compare a packed head."""
    known = facts.quantisation
    if known is None:
        return []
    if known.scheme is None and facts.target is not None and facts.target.is_quantised:
        own = _own(entry, reader)
        if own.get("of_target"):
            way = known.target_way or "the scheme of the target"
            return [Refusal("load", f"the draft is built with the target's scheme ({way}), and its weights are plain")]
    if known.scheme is not None and known.head is not None and _own(entry, reader).get("compares_head"):
        return [Refusal("start", f"{known.head.name} is packed, and the start asks for lm_head.weight")]
    return []


def _own(entry: Mapping[str, Any], reader: Reader) -> Mapping[str, Any]:
    rows = entry["behaviours"].get("own_scheme") or reader.contract.raw.get("own_scheme")
    value: Mapping[str, Any] = reader.value(rows, {})
    return value
