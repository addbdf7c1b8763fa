"""The JSON report and its schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from report_samples import ERROR, HOSTILE, NOTE, SICK, SKIPS, WARNING, WELL, hostile, report

import ckptdoctor
from ckptdoctor.findings import Confidence, Report, Severity, Skip
from ckptdoctor.jsontext import dumps
from ckptdoctor.report import render

SCHEMA_FILE = Path(__file__).parents[3] / "rules" / "schema" / "report.schema.json"
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def parsed(value: Report) -> dict[str, Any]:
    """The JSON of a report, read back strictly and held to the schema."""
    text = render(value, "json")
    assert text.isascii()
    assert text.endswith("}\n")
    data: dict[str, Any] = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))
    VALIDATOR.validate(data)
    return data


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_a_whole_report() -> None:
    data = parsed(report(SICK, failed=(("gone", "no such path"),)))
    assert data == {
        "schema_version": 1,
        "tool": {"name": "ckptdoctor", "version": ckptdoctor.__version__},
        "checkpoints": [
            {
                "path": "drafts/sick",
                "draft": {"algorithm": "eagle3", "dialect": "specforge"},
                "target": None,
                "plans": [],
                "serving": [],
                "caveats": [],
                "faults": [],
                "ignored": [],
                "findings": [
                    {
                        "rule": "VOC009",
                        "name": "map-unsorted",
                        "severity": "note",
                        "confidence": "certain",
                        "engines": [],
                        "message": NOTE.message,
                        "effect": "nothing",
                        "advice": NOTE.advice,
                        "location": {"file": "model.safetensors", "tensor": "d2t", "offset": 4096},
                        "evidence": {},
                        "fix": None,
                        "seen_in": [],
                    },
                    {
                        "rule": "KEY004",
                        "name": "projection-left-random",
                        "severity": "error",
                        "confidence": "certain",
                        "engines": ["sglang==0.5.9"],
                        "message": ERROR.message,
                        "effect": ERROR.effect,
                        "advice": ERROR.advice,
                        "location": {"file": "model.safetensors", "tensor": "layers.0.self_attn.q_proj.weight"},
                        "evidence": {"missing": ["model.midlayer.self_attn.qkv_proj.weight"]},
                        "fix": {
                            "treatment": "rename-layer",
                            "summary": "rename 11 tensors from layers.0 to midlayer",
                            "safety": "safe",
                        },
                        "seen_in": ["sgl-project/sglang#1"],
                    },
                    {
                        "rule": "ROP002",
                        "name": "rope-theta-differs",
                        "severity": "warning",
                        "confidence": "likely",
                        "engines": [],
                        "message": WARNING.message,
                        "effect": WARNING.effect,
                        "advice": WARNING.advice,
                        "location": {"file": "config.json", "config_key": "rope_theta", "line": 12},
                        "evidence": {},
                        "fix": None,
                        "seen_in": [],
                    },
                ],
                "skipped": [{"rule": s.rule, "needs": s.needs} for s in SKIPS],
            }
        ],
        "caveats": [],
        "policy": None,
        "remarks": [],
        "failed": [{"path": "gone", "reason": "no such path"}],
        "summary": {"error": 1, "warning": 1, "note": 1, "skipped": 3},
    }


def test_an_empty_report() -> None:
    data = parsed(report())
    assert data["checkpoints"] == data["failed"] == []
    assert data["summary"] == {"error": 0, "warning": 0, "note": 0, "skipped": 0}


def test_a_rule_skipped_twice_counts_once() -> None:
    twice = (Skip("GEO002", "the target (--target)"), Skip("GEO002", "the target (--target)"))
    data = parsed(report(replace(WELL, skipped=twice), replace(WELL, skipped=twice)))
    assert data["summary"]["skipped"] == 2
    assert len(data["checkpoints"][0]["skipped"]) == 2


def test_what_is_not_certain_is_no_error() -> None:
    data = parsed(report(replace(WELL, findings=(replace(ERROR, confidence=Confidence.POSSIBLE),))))
    assert data["checkpoints"][0]["findings"][0]["severity"] == "note"
    assert data["summary"] == {"error": 0, "warning": 0, "note": 1, "skipped": 0}


def test_hostile_texts_are_ascii_and_come_back_as_they_were() -> None:
    data = parsed(hostile())
    assert "\x1b" not in render(hostile(), "json")
    assert data["checkpoints"][0]["path"] == HOSTILE
    assert data["failed"][0]["path"] == HOSTILE
    assert data["checkpoints"][0]["findings"][0]["evidence"] == {HOSTILE: [HOSTILE]}


class Kind(Enum):
    BLOCK = "block"


@dataclass
class Shape:
    rows: int
    kind: Kind


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (1.5, 1.5),
        (True, True),
        (None, None),
        ((1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        (Kind.BLOCK, "block"),
        (Severity.ERROR, "error"),
        (Shape(2, Kind.BLOCK), {"rows": 2, "kind": "block"}),
        (Path("a/b"), "a/b"),
        ({1: "one"}, {"1": "one"}),
        (np.int64(7), 7),
        (np.float32("nan"), "NaN"),
        (np.array([1, 2]), [1, 2]),
        (2**64, 2**64),
        pytest.param(1 << 20_000, hex(1 << 20_000), id="huge"),
        ({"a": [{"b": (float("nan"),)}]}, {"a": [{"b": ["NaN"]}]}),
    ],
)
def test_values_that_json_does_not_know(value: object, wanted: object) -> None:
    assert json.loads(dumps({"x": value})) == {"x": wanted}
    data = parsed(report(replace(WELL, findings=(replace(ERROR, evidence={"x": value}),))))
    assert data["checkpoints"][0]["findings"][0]["evidence"] == {"x": wanted}


PLAN: dict[str, Any] = {
    "engine": "sglang",
    "version": "0.5.9",
    "outcome": "broken",
    "loaded": {"model.fc.weight": ["fc.weight"]},
    "shared": ["model.embed_tokens.weight"],
    "uninitialised": [],
    "dropped": ["t2d"],
    "counts": {"loaded": 11},
    "captured_boundaries": [3, 31, 59],
    "captured": {"extend": [3], "verify": [3], "verify_graph": []},
    "unproven": [],
    "errors": [],
    "more": 1,
}


def test_plans_are_carried_through() -> None:
    data = parsed(report(replace(WELL, plans=(PLAN,))))
    assert data["checkpoints"][0]["plans"] == [PLAN]


def spoiled(path: list[Any], value: object) -> dict[str, Any]:
    data = parsed(report(replace(SICK, plans=(PLAN,)), failed=(("a", "b"),)))
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


CHECKPOINT = ["checkpoints", 0]
FIRST = [*CHECKPOINT, "findings", 0]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["schema_version"], 2),
        (["extra"], 1),
        (["failed"], KeyError),
        (["tool", "version"], ""),
        (["summary", "error"], -1),
        (["failed", 0, "reason"], KeyError),
        ([*CHECKPOINT, "extra"], 1),
        ([*CHECKPOINT, "draft"], {"algorithm": "eagle3"}),
        ([*CHECKPOINT, "draft"], None),
        ([*CHECKPOINT, "plans", 0, "outcome"], "fine"),
        ([*CHECKPOINT, "plans", 0, "engine"], KeyError),
        ([*CHECKPOINT, "skipped", 0, "needs"], KeyError),
        ([*FIRST, "severity"], "fatal"),
        ([*FIRST, "confidence"], "sure"),
        ([*FIRST, "engines"], KeyError),
        ([*FIRST, "location", "line"], 0),
        ([*FIRST, "location", "column"], 1),
        ([*FIRST, "fix"], {"treatment": "t", "summary": "s", "safety": "perhaps"}),
        ([*FIRST, "fix"], {"treatment": "t"}),
    ],
)
def test_the_schema_is_strict(path: list[Any], value: object) -> None:
    assert not VALIDATOR.is_valid(spoiled(path, value))


@pytest.mark.parametrize("fix", [None, {"refused": "two readings fit"}])
def test_the_schema_knows_a_refused_fix(fix: object) -> None:
    assert VALIDATOR.is_valid(spoiled([*FIRST, "fix"], fix))
