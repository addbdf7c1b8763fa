"""`ckptdoctor explain` and `ckptdoctor rules`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ckptdoctor.cli.explain import page
from ckptdoctor.cli.main import main, run
from ckptdoctor.findings import Severity
from ckptdoctor.report import Surface
from ckptdoctor.report.terminal.render import render_lines
from ckptdoctor.rulebook.rules import EffectSource, FixPlan, Rule

RULE = Rule(
    id="KEY004",
    name="projection-left-random",
    severity=Severity.ERROR,
    message="{it} has no stored\ntensor.",
    effect="every step accepts 1.0 token",
    advice="rename the layer",
    for_each="plan.uninitialised",
    when="draft.algorithm == 'eagle3'",
    claim="it.initial == 'ones'",
    scope="serving",
    effect_source=(
        EffectSource("executed", ("sglang==0.5.23",), "no message"),
        EffectSource("reported", ("sgl-project/sglang#1",)),
    ),
    fix=FixPlan("rename-layer", "rename {n} tensors", "safe"),
    seen_in=("sgl-project/sglang#1", "vllm-project/vllm#2"),
    bad=("layer-named-zero",),
    good=("eagle3-llama-small", "eagle3-two-layers"),
    why="An engine that drops a name without a word leaves the parameter as it was built.",
)

PAGE = """\
KEY004 projection-left-random  (error)

  checks
    about: tensor names
    judged once for each engine release
    for each: plan.uninitialised
    applies when: draft.algorithm == 'eagle3'
    must hold: it.initial == 'ones'

  says
    {it} has no stored tensor.

  you would see
    every step accepts 1.0 token

  known from
    executed: sglang==0.5.23 (no message)
    reported: sgl-project/sglang#1

  next
    rename the layer

  why
    An engine that drops a name without a word leaves the parameter as it was built.

  seen in
    sgl-project/sglang#1
    vllm-project/vllm#2

  fix
    rename-layer: rename {n} tensors (safe)

  examples
    fires on: layer-named-zero
    quiet on: eagle3-llama-small, eagle3-two-layers
"""


def text_of(rule: Rule) -> str:
    return render_lines(page(rule), Surface())


def test_page() -> None:
    assert text_of(RULE) == PAGE


def test_a_page_with_empty_sections() -> None:
    rule = replace(RULE, claim=None, for_each=None, scope="checkpoint", fix=None, seen_in=(), bad=(), good=(), why="")
    text = text_of(rule)
    assert "    fires when: draft.algorithm == 'eagle3'\n" in text
    for title in ("why", "seen in", "fix", "examples"):
        assert f"  {title}\n    none\n" in text


def test_a_rule_of_the_persons_own() -> None:
    rule = replace(RULE, id="OUR001", user=True, source=Path("rules/our.yaml"), line=7)
    assert "    from: our.yaml, line 7\n" in text_of(rule)
    assert "about:" not in text_of(rule)


@pytest.fixture
def some_rule(real_scan: Any) -> Any:
    rules = list(real_scan.rulebook().rules)
    if not rules:
        pytest.skip("there are no rules yet")
    return rules[0]


def test_every_real_page(runner: CliRunner, real_scan: Any) -> None:
    for rule in real_scan.rulebook().rules:
        result = runner.invoke(main, ["explain", rule.id])
        assert result.exit_code == 0
        assert result.stdout.startswith(f"{rule.id} {rule.name}  ({rule.severity.value})\n")


def test_explain_takes_a_name(runner: CliRunner, some_rule: Any) -> None:
    by_id = runner.invoke(main, ["explain", some_rule.id]).stdout
    assert runner.invoke(main, ["explain", some_rule.name]).stdout == by_id
    assert "\x1b[" in runner.invoke(main, ["explain", some_rule.id, "--color", "always"]).stdout


def test_explain_of_an_unknown_rule(capsys: pytest.CaptureFixture[str], some_rule: Any) -> None:
    assert run(["explain", some_rule.name + "x"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ckptdoctor: there is no rule {some_rule.name}x")
    assert "did you mean" in err


def test_list(runner: CliRunner, some_rule: Any) -> None:
    result = runner.invoke(main, ["rules"])
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split() == [some_rule.id, some_rule.severity.value, some_rule.name]


def test_list_as_json(runner: CliRunner, real_scan: Any) -> None:
    data = json.loads(runner.invoke(main, ["rules", "--format", "json"]).stdout)
    rules = real_scan.rulebook().rules
    assert data == {
        "schema_version": 1,
        "rules": [{"id": r.id, "severity": r.severity.value, "name": r.name} for r in rules],
    }


def test_the_columns_of_the_list() -> None:
    from ckptdoctor.cli.rules import _lines

    found = [RULE, replace(RULE, id="OURS0001", severity=Severity.NOTE, name="other")]
    assert render_lines(_lines(found), Surface()) == (
        "KEY004    error    projection-left-random\nOURS0001  note     other\n"
    )
    assert render_lines(_lines([]), Surface()) == ""
