"""Lookup of canonical names in the parameter table of an algorithm."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ckptdoctor.facts.knowledge import Algorithm, Knowledge, Parameter
from ckptdoctor.facts.naming.canonical import Named

__all__ = ["LAYER", "ParameterTable", "feed_forward"]

LAYER = re.compile(r"^layers\.(\d{1,6})\.(.+)$")
_BLANK = {"{j}": r"\d+", "{i}": r"\d+", "{word}": r"\w+", "{rest}": r".+"}


class ParameterTable:
    """Lookup of canonical names in a parameter table, biases and quantisation suffixes included."""

    def __init__(self, top: Sequence[Parameter], layer: Sequence[Parameter], known: Knowledge) -> None:
        self._top, self._top_patterns = self._split(top)
        self._layer: dict[str, list[Parameter]] = defaultdict(list)
        exact, self._layer_patterns = self._split(layer)
        for parameter in layer:
            if parameter.name in exact:
                self._layer[parameter.name].append(parameter)
        self._suffixes = frozenset(known.naming["quantised_suffixes"])
        self._fused: Mapping[str, Sequence[str]] = known.naming["fused"]
        self._stand_ins = tuple(known.naming["stand_ins_for_weight"])
        self._state = re.compile(known.words["quantisation"]["bitsandbytes"])
        self._cache = re.compile(known.words["quantisation"]["cache"])

    @staticmethod
    def _split(rows: Sequence[Parameter]) -> tuple[dict[str, Parameter], list[tuple[re.Pattern[str], Parameter]]]:
        exact = {row.name: row for row in rows if "{" not in row.name}
        patterns = []
        for row in rows:
            if "{" in row.name:
                text = re.escape(row.name).replace(r"\{", "{").replace(r"\}", "}")
                for blank, pattern in _BLANK.items():
                    text = text.replace(blank, pattern)
                patterns.append((re.compile(f"^{text}$"), row))
        return exact, patterns

    def find(self, canonical: str) -> tuple[Parameter, int | None] | None:
        """The parameter that `canonical` names, and its layer; None for a stranger."""
        found = self._plain(canonical)
        if found is not None:
            return found
        module, _, last = canonical.rpartition(".")
        if ".weight." in canonical and self._state.search(canonical):
            module, last = canonical.rsplit(".weight.", 1)[0], "weight_scale"
        layer = LAYER.match(canonical)
        if layer is not None and self._cache.search(canonical):
            return Parameter(canonical, optional=True, judged="quantised"), int(layer.group(1))
        if last == "bias" or last in self._suffixes:
            owner = self._plain(f"{module}.weight")
            if owner is not None:
                return Parameter(canonical, optional=True, judged="bias" if last == "bias" else "quantised"), owner[1]
        return None

    def _plain(self, canonical: str) -> tuple[Parameter, int | None] | None:
        if canonical in self._top:
            return self._top[canonical], None
        match = LAYER.match(canonical)
        if match:
            layer, rest = int(match.group(1)), match.group(2)
            for parameter in self._layer.get(rest, ()):
                if parameter.layers == "all" or (parameter.layers == "first") == (layer == 0):
                    return parameter, layer
            for pattern, parameter in self._layer_patterns:
                if pattern.match(rest):
                    return parameter, layer
        for pattern, parameter in self._top_patterns:
            if pattern.match(canonical):
                return parameter, None
        return None

    def stand_ins(self, named: Iterable[Named]) -> frozenset[str]:
        """Plain names that are stored in a packed form (`q_proj.weight_packed`), or as a part of a fused `qkv_proj`."""
        found: set[str] = set()
        for name in named:
            module, _, last = name.canonical.rpartition(".")
            if last in self._stand_ins:
                found.add(f"{module}.weight")
            whole = next((f for f in self._fused if module.endswith(f".{f}")), None)
            if whole is not None and last in ("weight", "bias", *self._stand_ins):
                end = "bias" if last == "bias" else "weight"
                found.update(f"{module.removesuffix(whole)}{part}.{end}" for part in self._fused[whole])
        return frozenset(found)


def feed_forward(named: Iterable[Named], algorithm: Algorithm, known: Knowledge) -> tuple[Parameter, ...]:
    """The table of the feed-forward part: of experts where the algorithm may have them, and a router is stored."""
    sparse = algorithm.experts and any(n.canonical.endswith(".mlp.gate.weight") for n in named)
    return known.experts if sparse else known.feed_forward
