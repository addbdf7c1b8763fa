"""SARIF, JUnit, GitHub annotations and Markdown: what is in them, and that no name from a file can break out."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from builder import build
from recipe_cases import RECIPES
from report_samples import ERROR, HOSTILE, NOTE, SICK, hostile, report

from ckptdoctor.findings import About, Ignored, Location, Report, Severity
from ckptdoctor.report import render
from ckptdoctor.scanning import scan_paths

FORMATS = ("sarif", "junit", "github", "markdown")


def sarif(made: Report) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(render(made, "sarif"))["runs"][0]
    return run


def cases(made: Report) -> list[ET.Element]:
    return list(ET.fromstring(render(made, "junit")).iter("testcase"))


def test_a_config_finding_points_at_its_line(tmp_path: Path) -> None:
    build(RECIPES["vocabulary-lengths-disagree"], tmp_path / "draft")
    made = scan_paths([str(tmp_path / "draft")], target=None, rules=(), select=(), ignore=())
    [result] = [r for r in sarif(made)["results"] if r["ruleId"] == "VOC013"]
    lines = (tmp_path / "draft" / "config.json").read_text(encoding="utf-8").splitlines()
    number = 1 + next(n for n, text in enumerate(lines) if "draft_vocab_size" in text)
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("/draft/config.json")
    assert place["region"] == {"startLine": number}
    assert f"draft/config.json,line={number},title=VOC013" in render(made, "github")
    [case] = [c for c in cases(made) if c.get("name", "").startswith("VOC013")]
    assert case.get("line") == str(number)


def test_sarif_tells_of_each_rule_once_and_of_what_was_not_examined() -> None:
    about = {ERROR.rule: About(Severity.WARNING, "The background.", ("org/repo#1",))}
    run = sarif(replace(report(SICK, failed=(("gone", "no such path"),)), rules=about))
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert [rules[r["ruleIndex"]]["id"] for r in run["results"]] == [r["ruleId"] for r in run["results"]]
    told = next(rule for rule in rules if rule["id"] == ERROR.rule)
    assert told["help"]["text"] == "The background.\n\nReported in org/repo#1."
    assert told["defaultConfiguration"] == {"level": "warning"}
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].endswith("gone: no such path")


def test_what_is_set_aside_is_suppressed_in_sarif_and_said_in_markdown() -> None:
    made = Report((replace(SICK, findings=(), ignored=(Ignored(ERROR, "Known.", "2027-03-01"),)),))
    [result] = sarif(made)["results"]
    assert result["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "Known. (until 2027-03-01)"}
    ]
    assert "Known. (until 2027-03-01)" in render(made, "markdown")


@pytest.mark.parametrize(("fail_on", "failures"), [("error", 1), ("warning", 2), ("note", 3), ("never", 0)])
def test_junit_fails_what_counts(fail_on: str, failures: int) -> None:
    made = replace(report(SICK), fail_on=fail_on)
    root = ET.fromstring(render(made, "junit"))
    assert root.get("failures") == str(failures)
    assert len([c for c in cases(made) if c.find("failure") is not None]) == failures
    assert int(root.get("tests", "0")) == len(cases(made))


def test_junit_of_a_path_that_could_not_be_examined_is_an_error() -> None:
    root = ET.fromstring(render(Report((), (("gone", "no such path"),)), "junit"))
    assert root.get("errors") == "1"


def test_a_clean_checkpoint_passes_in_every_form() -> None:
    made = Report((replace(SICK, findings=(), skipped=()),))
    assert sarif(made)["results"] == []
    assert [c.get("name") for c in cases(made)] == ["nothing found"]
    assert "::error" not in render(made, "github")
    assert "Nothing to report." in render(made, "markdown")


def test_nothing_from_a_file_begins_a_command_or_markup() -> None:
    made = hostile()
    commands = [line for line in render(made, "github").splitlines() if line.startswith("::")]
    assert all(re.match(r"::(error|warning|notice) (file|title)=", line) for line in commands)
    assert all("\r" not in line and "\x1b" not in line for line in commands)
    ET.fromstring(render(made, "junit"))
    text = render(made, "markdown")
    assert "<script" not in text
    assert not re.search(r"(?<!\\)\]\(", text)
    sarif(made)


def test_annotations_escape_what_separates_properties() -> None:
    finding = replace(NOTE, location=Location(file="a,b:c%.json", line=2), message="50 %: next")
    made = Report((replace(SICK, path="d", findings=(finding,)),))
    first = render(made, "github").splitlines()[0]
    assert first.startswith("::notice file=d/a%2Cb%3Ac%25.json,line=2,title=")
    assert "::50 %25: next%0AYou would see: " in first


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_form_survives_every_string(fmt: str) -> None:
    assert render(hostile(), fmt)
    assert HOSTILE not in render(hostile(), fmt)


def test_junit_names_each_case_once_and_skips_what_is_set_aside() -> None:
    twice = (ERROR, replace(ERROR, message="again"), replace(ERROR, location=Location(tensor="b")))
    made = Report((replace(SICK, findings=twice, skipped=(), ignored=(Ignored(NOTE, "Known.", "2027-03-01"),)),))
    names = [(c.get("name"), c.find("skipped") is not None) for c in cases(made)]
    about = "KEY004 projection-left-random (layers.0.self_attn.q_proj.weight)"
    assert names == [
        (about, False), (f"{about} (2)", False), ("KEY004 projection-left-random (b)", False),
        ("VOC009 map-unsorted (d2t)", True),
    ]  # fmt: skip
    root = ET.fromstring(render(made, "junit"))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", "3", "1")
    [skipped] = root.iter("skipped")
    assert skipped.get("message") == "set aside: Known. (until 2027-03-01)"


def test_annotations_begin_with_the_worst_of_all_checkpoints() -> None:
    made = Report((replace(SICK, path="a", findings=(NOTE,)), replace(SICK, path="b", findings=(ERROR,))))
    lines = render(made, "github").splitlines()
    assert [line.partition(" ")[0] for line in lines[:2]] == ["::error", "::notice"]


def test_annotations_point_beside_a_file_that_was_named(tmp_path: Path) -> None:
    build(RECIPES["vocabulary-lengths-disagree"], tmp_path / "draft")
    weights = tmp_path / "draft" / "model.safetensors"
    made = scan_paths([str(weights)], target=None, rules=(), select=("VOC013",), ignore=())
    assert f"file={tmp_path}/draft/config.json,line=" in render(made, "github")


def test_a_command_of_the_old_form_is_broken_too() -> None:
    """The runner looks for `##[` anywhere in a line that is no command of the new form."""
    made = Report((), (("##[add-mask]x", "##[error]y\n::stop-commands::z"),))
    *commands, last = render(made, "github").splitlines()
    assert all(line.startswith("::") for line in commands)
    assert "##[" not in last
    assert "::" not in last


def html_of(markdown: str) -> str:
    engine = pytest.importorskip("markdown_it").MarkdownIt("commonmark", {"html": True}).enable("table")
    rendered: str = engine.render(markdown)
    return rendered


@pytest.mark.parametrize(
    "words",
    [
        "<script>alert(1)</script>", "[x](http://a.b)", "![x](http://a.b/c.png)", "a | b || c", "`code` *b* _i_ ~~s~~",
        "# head", "- item", "1) one", "> quote", "a\\", "&lt;b&gt; &amp;", "<!-- x", "]]> --> </details>", "a\n# b",
    ],
)  # fmt: skip
def test_markdown_shows_every_name_as_it_is(words: str) -> None:
    finding = replace(ERROR, name=words, message=words, effect=words, advice=words, location=Location(tensor=words))
    made = Report((replace(SICK, path=words, title=words, findings=(finding,), ignored=(Ignored(NOTE, words),)),))
    page = html_of(render(made, "markdown"))
    tags = set(re.findall(r"</?([a-z][a-z0-9]*)", page))
    assert tags <= {"h3", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul", "li"}
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    shown = " ".join(words.split())
    assert text.count(shown) >= 7, text


def test_markdown_calls_nobody_and_links_nothing() -> None:
    finding = replace(ERROR, message="@org/team see #12, https://a.b and www.c.d")
    text = render(Report((replace(SICK, findings=(finding,)),)), "markdown")
    assert "@\N{WORD JOINER}org" in text
    assert "#\N{WORD JOINER}12" in text
    assert r"https\://a.b" in text
    assert r"www\.c.d" in text
