"""The project file: what it may hold, where it is found, and what it does to findings."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from ckptdoctor.errors import UsageError
from ckptdoctor.findings import Confidence, Examination, Finding, Location, Report, Severity
from ckptdoctor.policy import (
    NO_POLICY,
    applied,
    check_rules,
    counts,
    find_project,
    load_policy,
    read_baseline,
    write_baseline,
)
from ckptdoctor.repair.known_rules import rulebook

TODAY = date(2026, 11, 30)
WHOLE = """
engines = ["sglang==0.5.23", "vllm"]
target = "target"
launch = "vllm serve x"
trained-with = "specforge"
captured-with = "sglang==0.5.14"
deep = true
fail-on = "warning"
rules = ["ours"]
baseline = "known.json"

[severity]
AUX008 = "error"
aux-ids-absent = "note"
VOC = "warning"

[[ignore]]
rule = "KEY004"
reason = "Both engines understand the prefix here."
expires = 2027-03-01

[[ignore]]
rule = "GEO"
reason = "An old family of drafts."
expires = "2026-11-29"
path = "old-*"
"""


def finding(rule: str, name: str, severity: Severity = Severity.WARNING, **evidence: object) -> Finding:
    place = Location(file="config.json", config_key="x", line=3)
    return Finding(rule, name, severity, Confidence.CERTAIN, "m", "e", "a", place, evidence=evidence)


def examination(path: str, *findings: Finding) -> Examination:
    return Examination(path, "t", {}, None, findings, ())


def written(folder: Path, text: str, name: str = "ckptdoctor.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_whole_file_is_read_with_paths_relative_to_it(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, WHOLE))
    assert policy.engines == ("sglang==0.5.23", "vllm")
    assert policy.target == str(tmp_path / "target")
    assert (policy.deep, policy.fail_on, policy.launch) == (True, "warning", "vllm serve x")
    assert (policy.trained_with, policy.captured_with) == ("specforge", "sglang==0.5.14")
    assert policy.rules == (tmp_path / "ours",)
    assert policy.baseline == tmp_path / "known.json"
    assert policy.severities["VOC"] is Severity.WARNING
    assert [(e.rule, e.expires, e.path) for e in policy.exemptions] == [
        ("KEY004", date(2027, 3, 1), None),
        ("GEO", date(2026, 11, 29), "old-*"),
    ]


def test_an_empty_file_asks_for_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    assert load_policy(path) == NO_POLICY.__class__(source=path)


def test_a_target_on_the_hub_stays_one(tmp_path: Path) -> None:
    assert load_policy(written(tmp_path, 'target = "hf://org/name"')).target == "hf://org/name"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("engine = 'vllm'", "engine"),
        ("fail-on = 'often'", "fail-on"),
        ("[severity]\nAUX008 = 'off'", "severity.AUX008"),
        ("[[ignore]]\nrule = 'AUX008'\nreason = 'x'", "expires"),
        ("[[ignore]]\nrule = 'AUX008'\nexpires = 2027-01-01", "reason"),
        ("[[ignore]]\nrule = 'AUX008'\nreason = 'x'\nexpires = '2027-02-30'", "2027-02-30"),
        ("engines = [", "cannot be read"),
        ("engines = 'vllm'", "engines"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        load_policy(written(tmp_path, text))


def test_an_absent_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_policy(tmp_path / "ckptdoctor.toml")


def test_the_nearest_file_up_to_the_repository_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / ".git").mkdir()
    written(tmp_path, "")
    assert find_project(inner) is None  # above the root of the repository
    outer = written(tmp_path / "a", "[tool.other]\nx = 1", "pyproject.toml")
    assert find_project(inner) is None
    outer.write_text("[tool.ckptdoctor]\nfail-on = 'note'", encoding="utf-8")
    assert find_project(inner) == outer
    assert load_policy(outer).fail_on == "note"
    own = written(inner, "")
    assert find_project(inner) == own


def test_the_most_special_severity_wins(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, "[severity]\nAUX = 'note'\naux-ids-absent = 'warning'\nAUX008 = 'error'"))
    found, _ = applied(policy, examination("d", finding("AUX008", "aux-ids-absent"), finding("AUX001", "x")), TODAY)
    assert [(f.rule, f.severity.value) for f in found.findings] == [("AUX008", "error"), ("AUX001", "note")]


def test_an_exception_holds_until_its_day_and_is_said_after_it(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, WHOLE))
    seen = examination("drafts/old-1", finding("KEY004", "model-prefix"), finding("GEO009", "x"))
    found, remarks = applied(policy, seen, TODAY)
    assert [f.rule for f in found.findings] == ["GEO009"]
    assert [(i.finding.rule, i.reason, i.expires) for i in found.ignored] == [
        ("KEY004", "Both engines understand the prefix here.", "2027-03-01")
    ]
    assert remarks == ("The exception for GEO ended on 2026-11-29; it counts again.",)
    found, remarks = applied(policy, seen, date(2026, 11, 29))
    assert (found.findings, remarks) == ((), ())
    found, remarks = applied(policy, examination("drafts/new", finding("GEO009", "x")), date(2026, 11, 29))
    assert [f.rule for f in found.findings] == ["GEO009"]


def test_a_baseline_holds_what_is_known_and_no_more(tmp_path: Path) -> None:
    old = examination(str(tmp_path / "d"), finding("AUX008", "n", rows=3), finding("AUX008", "n", rows=3))
    assert write_baseline(tmp_path / "known.json", [old]) == 2
    known = read_baseline(tmp_path / "known.json")
    again = examination(
        str(tmp_path / "d"), *old.findings, finding("AUX008", "n", rows=3), finding("AUX008", "n", rows=4)
    )
    found, _ = applied(NO_POLICY, again, TODAY, known)
    assert [f.evidence["rows"] for f in found.findings] == [3, 4]
    assert len(found.ignored) == 2
    other, _ = applied(NO_POLICY, examination(str(tmp_path / "e"), *old.findings), TODAY, known)
    assert len(other.findings) == 2


def test_a_baseline_moves_with_its_folder(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    write_baseline(first / "known.json", [examination(str(first / "d"), finding("AUX008", "n"))])
    first.rename(second)
    found, _ = applied(NO_POLICY, examination(str(second / "d"), finding("AUX008", "n")), TODAY,
                       read_baseline(second / "known.json"))  # fmt: skip
    assert found.findings == ()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 2, "findings": []}',
                                  '{"schema_version": 1, "findings": [3]}'])  # fmt: skip
def test_another_file_is_no_baseline(text: str, tmp_path: Path) -> None:
    (tmp_path / "known.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="baseline"):
        read_baseline(tmp_path / "known.json")


def test_what_counts() -> None:
    report = Report((examination("d", finding("A001", "a")),))
    assert [counts(report, level) for level in ("error", "warning", "note", "never")] == [False, True, True, False]


def test_names_of_rules_count_in_any_case(tmp_path: Path) -> None:
    text = "[severity]\naux008 = 'error'\n[[ignore]]\nrule = 'geo'\nreason = 'x'\nexpires = 2999-01-01"
    policy = load_policy(written(tmp_path, text))
    check_rules(policy, rulebook())
    found, _ = applied(policy, examination("d", finding("AUX008", "aux-ids-absent"), finding("GEO001", "x")), TODAY)
    assert [(f.rule, f.severity.value) for f in found.findings] == [("AUX008", "error")]
    assert [item.finding.rule for item in found.ignored] == ["GEO001"]


def test_rules_that_there_are_not_are_named_with_the_file(tmp_path: Path) -> None:
    text = "[severity]\nAUX999 = 'error'\n[[ignore]]\nrule = 'nothing'\nreason = 'x'\nexpires = 2999-01-01"
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as told:
        check_rules(load_policy(path), rulebook())
    assert str(told.value).startswith(f"{path}: there is no rule and no family AUX999")
    assert "; there is no rule and no family nothing" in str(told.value)


def test_commands_about_what_is_set_aside_are_not_recommended(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, "[[ignore]]\nrule = 'GEO'\nreason = 'x'\nexpires = 2999-01-01"))
    commands = ("ckptdoctor explain GEO001", "ckptdoctor fix d --out NEW", "ckptdoctor scan d --target PATH")
    seen = replace(examination("d", finding("GEO001", "x"), finding("AUX008", "y")), next_commands=commands)
    assert applied(policy, seen, TODAY)[0].next_commands == commands[2:]
    assert applied(NO_POLICY, seen, TODAY)[0].next_commands == commands
