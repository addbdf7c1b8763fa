"""Layouts: the ways in which engines want a draft's names, as renames of what is stored (rules/facts/naming.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.naming.canonical import Named, canonical_names
from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.choosing import Option
from ckptdoctor.repair.support.medusa_layouts import medusa_layouts
from ckptdoctor.repair.support.once import once
from ckptdoctor.unknown import Unknown

__all__ = ["layer_forms", "layouts", "named_tensors"]

_LAYER = re.compile(r"layers\.(\d+)\.")


@once
def named_tensors(facts: Facts) -> Mapping[str, Named]:
    """Every stored name with what it means."""
    return canonical_names(facts.tensors, knowledge().naming, strip_model=facts.draft.tabled)


def layer_forms(numbers: set[int]) -> Iterator[str]:
    """What the layers `numbers` may be called: `midlayer.`, `layers.{n}.`, in the order of the data."""
    for row in _data()["layers"]:
        if not row.get("only") or numbers == {0}:
            yield row["name"]


def layouts(facts: Facts) -> list[Option]:
    """The draft as it is, and then every other layout that is known, as renames of all tensors that it calls otherwise.

    A layout in which two tensors would have one name is left out. Names that no parameter of a draft has, or that
    carry a trainer's prefix, stay as they are in all of them.
    """
    if facts.medusa is not None:
        return medusa_layouts(facts)
    named = named_tensors(facts)
    known = set(_data()["prefixes"])
    movable = {n: m for n, m in named.items() if m.prefix in known and not _is_stranger(facts, n)}
    numbers = {int(found[1]) for m in movable.values() if (found := _LAYER.match(m.canonical))}
    options: dict[tuple[RenameTensor, ...], Option] = {(): Option("the names as they are", ())}
    for layer, prefix, usual in product(layer_forms(numbers), _data()["prefixes"], (False, True)):
        renames = []
        for name, meaning in movable.items():
            to = _called(meaning.canonical, layer, prefix, usual)
            if to != name:
                renames.append(RenameTensor(name, to))
        moved = {r.name: r.to for r in renames}
        if len({moved.get(name, name) for name in facts.tensors}) == len(facts.tensors):
            options.setdefault(tuple(renames), Option(_label(facts, layer, prefix, usual), tuple(renames)))
    return list(options.values())


def _called(canonical: str, layer: str, prefix: str, usual: bool) -> str:
    """The name of the parameter `canonical` in a layout; with `usual` the one that most engines have instead."""
    bare = canonical.startswith(tuple(_data()["bare"]))
    found = _LAYER.match(canonical)
    name = canonical if found is None else layer.format(n=found[1]) + canonical[found.end() :]
    if usual:
        old = next((n for n in _data()["instead"] if name.startswith(n)), "")
        name = _data()["instead"].get(old, "") + name[len(old) :]
    return name if bare else prefix + name


def _label(facts: Facts, layer: str, prefix: str, usual: bool) -> str:
    words = f"{prefix}{layer.replace('{n}', 'N')}*"
    others = [new for old, new in _data()["instead"].items() if any(old in name for name in facts.tensors)]
    return f"{words} with {others[0].rstrip('.')}" if usual and others else words


def _is_stranger(facts: Facts, name: str) -> bool:
    """Whether no parameter of this kind of draft has the name."""
    names = facts.draft.names
    if isinstance(names, Unknown):
        return True
    return any(name in group.every for group in names.strangers)


def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = knowledge().naming["layouts"]
    return data
