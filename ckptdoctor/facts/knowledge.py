"""What the data under `rules/` knows of drafts: fields, names, algorithms and writers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ckptdoctor.facts.kind import UNKNOWN_KIND, Kind
from ckptdoctor.resources import read_yaml, rules_dir

__all__ = ["Algorithm", "Knowledge", "Parameter", "Sign", "Writer", "knowledge"]


@dataclass(frozen=True)
class Sign:
    """One sign that speaks for (or, with a negative weight, against) an algorithm or a writer."""

    weight: int
    conditions: Mapping[str, Any]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a draft: its name (with `{i}`-like blanks), shape in symbols, and when it must be there.

    `layers` is `first`, `later` or `all` for parameters of a layer. `judged` names the examiner that
    looks at this parameter by itself (`fc`, `head`, `map`), so that the general ones leave it alone.
    Members of a `group` are fused by engines or useless alone; of those with the same `one_of` one
    must be there.
    """

    name: str
    shape: tuple[str, ...] = ()
    optional: bool = False
    group: str | None = None
    layers: str = "all"
    judged: str | None = None
    if_declared: str | None = None
    one_of: str | None = None
    unless: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Algorithm:
    """A kind of draft: how it is recognised and which parameters it has. `experts`: its layers may have experts."""

    id: str
    name: str
    needs: int
    signs: tuple[Sign, ...]
    tabled: bool
    block: bool
    captures: int | None
    variants: tuple[tuple[str, re.Pattern[str]], ...]
    parameters: tuple[Parameter, ...]
    layer: tuple[Parameter, ...]
    attention_input: Mapping[str, str]
    kind: Kind
    experts: bool = False


@dataclass(frozen=True)
class Writer:
    """A trainer or converter: how its drafts are recognised, and what it means by what it writes."""

    id: str
    name: str
    url: str
    signs: tuple[Sign, ...]
    conventions: Mapping[str, Any]


@dataclass(frozen=True)
class Knowledge:
    """All of it, by id. `words` are the files of rules/facts by name."""

    fields: Mapping[str, Any]
    naming: Mapping[str, Any]
    algorithms: Mapping[str, Algorithm]
    attention: Mapping[str, tuple[Parameter, ...]]
    feed_forward: tuple[Parameter, ...]
    experts: tuple[Parameter, ...]
    architectures: Mapping[str, Mapping[str, str]]
    writers: Mapping[str, Writer]
    tokens: Mapping[str, Any]
    words: Mapping[str, Mapping[str, Any]]

    def kind_of(self, algorithm: str | None) -> Kind:
        """What holds for drafts of this algorithm."""
        found = self.algorithms.get(algorithm or "")
        return UNKNOWN_KIND if found is None else found.kind


@lru_cache(maxsize=4)
def knowledge(root: Path | None = None) -> Knowledge:
    """The knowledge under `root` (default: the rules that ship with the package)."""
    base = root or rules_dir()
    algorithms: dict[str, Any] = {p.stem: read_yaml(p) for p in sorted((base / "algorithms").glob("*.yaml"))}
    decoder = algorithms.pop("decoder")
    architectures = algorithms.pop("architectures")
    writers = [read_yaml(p) for p in sorted((base / "writers").glob("*.yaml"))]
    words = {p.stem: read_yaml(p) for p in sorted((base / "facts").glob("*.yaml"))}
    return Knowledge(
        fields=words["fields"],
        naming=words["naming"],
        tokens=words["tokens"],
        words=words,
        algorithms={name: _algorithm(raw, algorithms) for name, raw in algorithms.items()},
        attention={kind: _parameters(rows) for kind, rows in decoder["attention"].items()},
        feed_forward=_parameters(decoder["feed_forward"]),
        experts=_parameters(decoder["experts"]),
        architectures=architectures,
        writers={w["id"]: Writer(w["id"], w["name"], w["url"], _signs(w["signs"]), w["conventions"]) for w in writers},
    )


def _signs(rows: list[dict[str, Any]]) -> tuple[Sign, ...]:
    return tuple(Sign(row["weight"], {k: v for k, v in row.items() if k != "weight"}) for row in rows)


def _parameters(rows: list[dict[str, Any]]) -> tuple[Parameter, ...]:
    def shape(text: object) -> tuple[str, ...]:
        return tuple(part.strip() for part in str(text).split(" x ")) if text else ()

    return tuple(Parameter(**{**row, "shape": shape(row.get("shape"))}) for row in rows)


def _merged(base: Sequence[dict[str, Any]], own: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a base table and those of one that extends it; of two rows with one name the extending one wins."""
    names = {row["name"] for row in own}
    return [*(row for row in base if row["name"] not in names), *own]


def _algorithm(raw: dict[str, Any], all_of_them: Mapping[str, Any]) -> Algorithm:
    base = all_of_them[raw["extends"]] if "extends" in raw else {}
    merged = {**base, **raw}
    return Algorithm(
        id=raw["id"],
        name=raw["name"],
        needs=raw["needs"],
        signs=_signs(raw["signs"]),
        tabled=bool(merged.get("tabled")),
        block=bool(merged.get("block")),
        experts=bool(merged.get("experts")),
        captures=merged.get("captures"),
        variants=tuple((v["id"], re.compile(v["tensor"])) for v in merged.get("variants", ())),
        parameters=_parameters(_merged(base.get("parameters", ()), raw.get("parameters", ()))),
        layer=_parameters(_merged(base.get("layer", ()), raw.get("layer", ()))),
        attention_input=merged.get("attention_input", {}),
        kind=Kind.from_mapping({**base.get("kind", {}), **raw.get("kind", {})}),
    )
