"""Engine contracts: `rules/serving/ENGINE.yaml`, timelines of named behaviours per release.

A timeline is a list of entries in ascending release order; an entry holds from its release until the
next one. Every entry names its source and whether it was executed or read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ckptdoctor.resources import read_yaml, rules_dir
from ckptdoctor.serving.reading import Contract, Entry, Evidence, Reader, Release, parse_release

__all__ = ["Contract", "Entry", "Evidence", "Reader", "Release", "contracts", "evidence", "parse_release"]


@lru_cache(maxsize=4)
def contracts(root: Path | None = None) -> Mapping[str, Contract]:
    """All contracts under `root` (default: the shipped rules), by engine."""
    base = (root or rules_dir()) / "serving"
    found: dict[str, Contract] = {}
    shared = {
        "layers": read_yaml(base / "layers.yaml")["tables"],
        "config_kinds": read_yaml(base / "config-kinds.yaml"),
        "mtp_parts": read_yaml(base / "mtp-parts.yaml"),
    }
    aside = ("layers", "words", "config-kinds", "mtp-parts")
    for path in sorted(base.glob("*.yaml")):
        if path.stem in aside or path.stem.endswith(("-targets", "-classes")):
            continue
        raw = {**read_yaml(path), **shared}
        for entry in raw["classes"].values():
            entry |= {rows: _flat(entry[rows]) for rows in ("parameters", "refuses") if rows in entry}
        beside = base / f"{path.stem}-targets.yaml"
        targets = read_yaml(beside) if beside.exists() else {}
        listed = base / f"{path.stem}-classes.yaml"
        lists = read_yaml(listed) if listed.exists() else {}
        releases = tuple(str(r) for r in raw["releases"])
        found[raw["engine"]] = Contract(raw["engine"], raw["name"], raw["scheme"], releases, raw, targets, lists)
    return found


def _flat(rows: Sequence[Any]) -> list[Any]:
    """Rows, in which a list stands for the rows of another class that belong here too."""
    return [row for item in rows for row in (_flat(item) if isinstance(item, list) else [item])]


def evidence(contract: Contract) -> tuple[int, int]:
    """How many entries of a contract were executed, and how many only read."""
    executed = read = 0
    stack: list[Any] = [contract.raw, contract.targets]
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping):
            if value.get("evidence") == "executed":
                executed += 1
            elif value.get("evidence") == "read":
                read += 1
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    return executed, read
