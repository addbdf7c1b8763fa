"""The files of this folder as `Case`s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from builder import Recipe
from builder.recipes import recipe_of

__all__ = ["CASES", "Case", "Shown"]

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Shown:
    """One draft that shows a case: the findings expected, which of them are the diagnosis, and the right answer."""

    recipe: Recipe
    found_by: tuple[str, ...]
    says: tuple[str, ...]
    answer: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A fault that people have reported. `shows` is `yes`, `partly` or `no`; `nothing` says why nothing is on disk."""

    id: str
    kind: str
    reports: tuple[str, ...]
    shows: str
    drafts: tuple[Shown, ...]
    nothing: str | None


def _case(path: Path) -> Case:
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    if raw["case"] != path.stem:
        raise ValueError(f"{path.name}: is called {raw['case']} inside")
    drafts = []
    for number, row in enumerate(raw["drafts"]):
        entry = {
            "imitates": raw["kind"],
            "source": raw["reports"],
            "wrong": raw["kind"] if row["found_by"] else None,
            "expect": row["expect"],
            **row["recipe"],
        }
        recipe = recipe_of(f"{path.stem.lower()}-{number}", entry)
        drafts.append(Shown(recipe, tuple(row["found_by"]), tuple(row.get("says", ())), row["answer"]))
    return Case(raw["case"], raw["kind"], tuple(raw["reports"]), raw["shows"], tuple(drafts), raw.get("nothing"))


CASES = {path.stem: _case(path) for path in sorted(HERE.glob("*.yaml"))}
