"""Small real facts for the tests of the rule book, which knows none of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from ckptdoctor.rulebook import RuleBook, load_rules
from ckptdoctor.rulebook.rules import Rule, rule_from_mapping
from ckptdoctor.unknown import Known, Unknown

RULES = Path(__file__).parents[2] / "rules"
NEEDS_TARGET = Unknown("the target (--target)")


@dataclass(frozen=True)
class Linear:
    in_features: int
    out_features: int


@dataclass(frozen=True)
class Layer:
    name: str
    width: Known[int] = 64
    line: int | None = None


@dataclass(frozen=True)
class Aux:
    claimed: Known[int] = 3
    ids: tuple[int, ...] | None = (2, 30, 58)


@dataclass(frozen=True)
class Target:
    hidden_size: Known[int] = 64
    layers: Known[int] = 60


@dataclass(frozen=True)
class Draft:
    algorithm: str = "eagle3"
    fc: Linear | None = Linear(192, 64)
    head: Linear | Layer | None = None
    aux: Aux = Aux()
    layers: tuple[Layer | Unknown, ...] = (Layer("a"), Layer("b", 32), Layer("c", 16))
    norms: Mapping[str, Layer] | None = None
    config: Any = None

    @property
    def depth(self) -> int:
        return len(self.layers)

    @cached_property
    def first(self) -> Layer | Unknown:
        return self.layers[0]

    def method(self) -> int:
        return 1


NAMES: Mapping[str, type] = {"draft": Draft, "target": Target}


def facts(target: Target | Unknown = NEEDS_TARGET, **draft: Any) -> Mapping[str, object]:
    return {"draft": Draft(**draft), "target": target}


def fields(**changes: Any) -> dict[str, Any]:
    """The fields of a rule that fires on everything, with these changes; None takes a field out."""
    base: dict[str, Any] = {
        "id": "TST001",
        "name": "test-rule",
        "severity": "error",
        "when": "True",
        "message": "It is wrong.",
        "effect": "Nothing is accepted.",
        "advice": "Train it again.",
        "examples": {"bad": ["broken"], "good": ["fine"]},
    }
    base.update(changes)
    return {key: value for key, value in base.items() if value is not None}


def rule(**changes: Any) -> Rule:
    return rule_from_mapping(fields(**changes), Path("toy.yaml"))


def write(path: Path, *rules: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(list(rules), sort_keys=False), encoding="utf-8")
    return path


def own_folder(folder: Path, *rules: dict[str, Any]) -> Path:
    """A folder laid out like the rules that ship, holding these rules and the real schema."""
    write(folder / "checks" / "own.yaml", *rules)
    (folder / "schema").mkdir()
    schema = (RULES / "schema" / "rule.schema.json").read_bytes()
    (folder / "schema" / "rule.schema.json").write_bytes(schema)
    return folder


def load_user(tmp_path: Path, *rules: dict[str, Any]) -> RuleBook:
    """The book of one shipped rule and these rules of a person."""
    own = own_folder(tmp_path / "own", fields(id="ART001", name="shipped-rule"))
    return load_rules(own, [write(tmp_path / "mine.yaml", *rules)], names=NAMES)
