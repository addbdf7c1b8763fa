"""Thousands of findings of one rule: every format for people and services is short, and says how many it leaves out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from builder.draft import Tensor
from extremes.edge_drafts import draft_of, written
from report_samples import ERROR, NOTE, SICK, report

from ckptdoctor.findings import Ignored, Location, Report
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.report import render
from ckptdoctor.scanning import examination

MANY = 3000
IN_WORDS = {"text", "markdown", "html", "github"}


def many(count: int = MANY) -> Report:
    findings = [replace(ERROR, location=Location("model.safetensors", f"layers.{n}.weight")) for n in range(count)]
    known = [Ignored(replace(finding, rule="KEY005"), "known") for finding in findings]
    return report(replace(SICK, findings=(*findings, NOTE), ignored=tuple(known)))


@pytest.mark.parametrize("form", ["text", "markdown", "html", "github", "sarif", "junit"])
def test_what_is_left_out_is_counted(form: str) -> None:
    told = " ".join(render(many(), form).replace("\\", "").split())
    left_out = f"{MANY - (20 if form in IN_WORDS else 100):,}"
    assert f"and {left_out} more findings of KEY004 (--format json has them)" in told
    assert len(told) < 500_000
    assert len(render(many(2 * MANY), form)) - len(render(many(), form)) < 100


def test_counts_are_those_of_all_findings() -> None:
    made = many()
    assert f"{MANY} errors" in render(made, "text")
    assert f"KEY005 projection-left-random ({MANY} times): known" in render(made, "text")
    assert f"**{MANY} errors, 1 note; 3 rules not judged**" in render(made, "markdown").replace("\\", "")
    suite = ET.fromstring(render(made, "junit"))
    assert suite.get("failures") == "100"


def test_json_has_all_of_them_up_to_its_limit() -> None:
    [made] = json.loads(render(many(), "json"))["checkpoints"]
    assert len(made["findings"]) == MANY + 1
    assert len(made["ignored"]) == MANY
    whole = json.loads(render(many(10_002), "json"))
    assert len(whole["checkpoints"][0]["findings"]) == 10_001
    assert whole["summary"]["error"] == 10_002


def test_few_findings_are_all_told() -> None:
    for form in ("text", "markdown", "html", "github", "sarif", "junit"):
        assert " more finding" not in render(many(20), form)
    assert "and 1 more finding of KEY004 (--format json has them)" in " ".join(render(many(21), "text").split())


def test_empty_tensors_of_very_many_layers_and_very_many_ids(tmp_path: Path) -> None:
    draft = draft_of("specforge-eagle3")
    assert draft.config is not None
    for number in range(600):
        draft.tensors[f"layers.{number}.self_attn.q_proj.weight"] = Tensor("F32", (0,), b"")
    draft.config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": list(range(100_000))}
    made = report(examination(str(written(draft, tmp_path)), None, rulebook(), ("sglang", "vllm")))
    for form in ("text", "markdown", "html", "github", "sarif", "junit"):
        assert len(render(made, form)) < 1_000_000, form
        assert "70000" not in render(made, form), form
