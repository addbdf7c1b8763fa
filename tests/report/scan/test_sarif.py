"""SARIF: valid by the standard's own schema, and as code scanning of GitHub wants it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
from builder import build
from recipe_cases import RECIPES, Built
from report_samples import ERROR, HOSTILE, NOTE, SICK, WARNING, WELL, hostile, report

from ckptdoctor.findings import About, Examination, Ignored, Location, Report, Severity
from ckptdoctor.report import render
from ckptdoctor.scanning import scan_paths

SCHEMA = json.loads((Path(__file__).parent / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
SARIF = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


def run_of(made: Report) -> dict[str, Any]:
    """The only run of the SARIF file, which holds to the schema and to what code scanning demands."""
    text = render(made, "sarif")
    assert text.isascii()
    log = json.loads(text)
    SARIF.validate(log)
    [run] = log["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in run["tool"]["driver"]["rules"]:
        assert 0 < len(rule["shortDescription"]["text"]) <= 1024
        assert 0 < len(rule["fullDescription"]["text"]) <= 1024
        assert rule["help"]["text"]
        assert len(rule["properties"]["tags"]) <= 20
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] not in ("", "/")
        assert place["region"]["startLine"] >= 1
        assert len(result["partialFingerprints"]["ckptdoctor/v1"]) == 24
    found: dict[str, Any] = run
    return found


def uris(run: dict[str, Any]) -> list[str]:
    return [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]]


def examined(*paths: str, engines: tuple[str, ...] = (), target: str | None = None) -> Report:
    return scan_paths(list(paths), target=target, rules=(), select=(), ignore=(), engines=engines)


@pytest.mark.parametrize(
    "made",
    [
        report(SICK), report(WELL), Report(()), hostile(), Report((), (("gone", "no such path"), ("b\nad", HOSTILE))),
        replace(report(SICK), rules={ERROR.rule: About(Severity.ERROR, "Why\nit is.", (HOSTILE,))}, remarks=(HOSTILE,)),
        Report((replace(SICK, findings=(), ignored=(Ignored(ERROR, HOSTILE, "2027-03-01"), Ignored(NOTE, "b"))),)),
        Report((replace(SICK, path="\ud800/\x00/a b?#%", findings=(WARNING,)),)),
        Report((replace(SICK, findings=(replace(ERROR, message="x" * 50_000, name="-"),)),)),
    ],
    ids=["sick", "well", "empty", "hostile", "failed", "rules", "ignored", "odd-path", "long"],
)  # fmt: skip
def test_every_sample_holds_to_the_schema(made: Report) -> None:
    run_of(made)


@pytest.mark.parametrize(
    "name",
    ["d2t-absolute", "positions-fewer-than-target", "specforge-eagle3", "vocabulary-lengths-disagree",
     "fused-set-incomplete", "aux-id-past-depth"],
)  # fmt: skip
def test_real_scans_hold_to_the_schema(name: str, built: Built) -> None:
    folder = built.path(RECIPES[name])
    target = str(folder / "target") if (folder / "target").is_dir() else None
    run = run_of(examined(str(folder), "/no/such/draft", engines=("vllm", "sglang==0.5.9"), target=target))
    assert run["results"]
    assert run["invocations"][0]["executionSuccessful"] is False


def test_the_schema_of_this_test_refuses_what_is_no_sarif() -> None:
    log = json.loads(render(report(SICK), "sarif"))
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert not SARIF.is_valid(log)
    assert not SARIF.is_valid({"version": "2.1.0", "runs": [{}]})


def test_files_of_the_repository_have_relative_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(RECIPES["vocabulary-lengths-disagree"], tmp_path / "my drafts" / "a")
    monkeypatch.chdir(tmp_path)
    ways = ("my drafts/a", "./my drafts//a/", str(tmp_path / "my drafts" / "a"), "my drafts/a/model.safetensors")
    for way in ways:
        assert set(uris(run_of(examined(way)))) == {"my%20drafts/a/config.json"}, way
    monkeypatch.chdir(tmp_path / "my drafts" / "a")
    assert set(uris(run_of(examined(".")))) == {"config.json"}
    monkeypatch.chdir(tmp_path / "my drafts")
    outside = uris(run_of(examined(str(tmp_path / "my drafts" / "a"))))
    assert set(outside) == {"a/config.json"}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for uri in uris(run_of(examined(str(tmp_path / "my drafts" / "a")))):
        assert uri.startswith("file:///")
        assert Path(unquote(urlsplit(uri).path)).is_file()


def test_what_is_about_weights_stands_at_the_config_beside_them(built: Built) -> None:
    """Code scanning reads the whole file of a place with a line, which for weights would take minutes."""
    folder = built.path(RECIPES["d2t-absolute"])
    [result] = [r for r in run_of(examined(str(folder)))["results"] if r["ruleId"] == "VOC001"]
    [place] = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("/d2t-absolute/config.json")
    assert place["physicalLocation"]["region"] == {"startLine": 1}
    assert place["logicalLocations"] == [{"fullyQualifiedName": "d2t", "kind": "member"}]
    [own] = result["relatedLocations"]
    assert own["physicalLocation"]["artifactLocation"]["uri"].endswith("/d2t-absolute/model.safetensors")


def test_findings_on_one_line_stay_apart() -> None:
    tensors = [replace(ERROR, location=Location(file="w.safetensors", tensor=name)) for name in "abc"]
    same = [tensors[0], tensors[0]]
    run = run_of(Report((replace(SICK, findings=(*tensors, *same, WARNING)),)))
    marks = [r["partialFingerprints"].get("primaryLocationLineHash") for r in run["results"]]
    # The first on a line keeps the hash that code scanning makes of the line.
    assert marks[0] is None
    assert marks[5] is None
    assert len(set(marks[1:5])) == 4


def test_a_rule_is_told_the_same_whatever_it_found() -> None:
    def rule(*findings: object) -> dict[str, Any]:
        made: Examination = replace(SICK, findings=findings)  # type: ignore[arg-type]
        told: dict[str, Any] = run_of(Report((made,)))["tool"]["driver"]["rules"][0]
        return told

    assert rule(ERROR) == rule(replace(ERROR, message="another", effect="other"))
