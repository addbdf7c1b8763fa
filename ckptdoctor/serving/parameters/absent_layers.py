"""Layers that an engine builds by num_hidden_layers and of which the file holds nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.serving.parameters.building import Built
from ckptdoctor.unknown import Unknown

__all__ = ["absent_layers"]

_NUMBER = re.compile(r"\.layers\.(\d+)\.")


def absent_layers(facts: Facts, depth: Any, built: Sequence[Built]) -> tuple[int, ...]:
    """The numbers of the layers that are `built` beyond those that are stored.

    `()` where another name could be such a layer, and in an engine that builds one layer whatever `depth` is.
    """
    stored, names = facts.draft.depth_stored, facts.draft.names
    if isinstance(stored, Unknown) or isinstance(names, Unknown) or type(depth) is not int:
        return ()
    if names.layer_stems or not stored or depth <= stored:
        return ()
    found = {int(m.group(1)) for b in built if (m := _NUMBER.search(f".{b.name}"))}
    return tuple(sorted(number for number in found if stored <= number < depth))
