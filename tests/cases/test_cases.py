"""Every fault of the public reports is found and answered as it should be; the controls are left in peace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from case_files import CASES, Case, Shown
from recipe_cases import SHARED, found, need_shared, need_torch, scan_of

from ckptdoctor.findings import Examination, Finding
from ckptdoctor.repair.fixing import fix

DRAFTS = [
    pytest.param(shown, id=shown.recipe.id, marks=[pytest.mark.torch] if shown.recipe.needs_torch else [])
    for case in CASES.values()
    for shown in case.drafts
]


def _diagnosis(shown: Shown, examination: Examination) -> list[Finding]:
    return [finding for finding in examination.findings if finding.rule in shown.found_by]


def _sentences(shown: Shown, examination: Examination) -> str:
    """All that a person is told about the case: its diagnosis, and the rows of the serving block."""
    texts = [t for f in _diagnosis(shown, examination) for t in (f.message, f.effect, f.advice)]
    engines = [name.partition(":")[2] for name in shown.found_by if name.startswith("serving:")]
    texts += [f"{row.name} {row.first} to {row.last} {row.outcome}: {row.reason}" for row in examination.serving
              if row.engine in engines]  # fmt: skip
    return "\n".join(text for text in texts if text)


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.id)
def test_a_case_has_drafts_or_says_why_nothing_shows(case: Case) -> None:
    assert bool(case.drafts) != bool(case.nothing)
    if case.shows == "yes":
        assert case.drafts
    for shown in case.drafts:
        rules = {name for name in shown.found_by if not name.startswith("serving:")}
        assert rules <= set(shown.recipe.expect)
        assert bool(shown.found_by) != ("none" in shown.answer)


@pytest.mark.parametrize("shown", DRAFTS)
def test_a_scan_finds_exactly_what_it_should(shown: Shown, tmp_path: Path) -> None:
    examination = scan_of(shown.recipe, tmp_path / "draft")
    assert found(examination) == dict(shown.recipe.expect)
    told = _sentences(shown, examination)
    for name in shown.found_by:
        if name.startswith("serving:"):
            rows = [row for row in examination.serving if row.engine == name.partition(":")[2]]
            assert any(row.outcome != "served" for row in rows), name
    assert [pattern for pattern in shown.says if not re.search(pattern, told)] == [], told


@pytest.mark.parametrize("shown", DRAFTS)
def test_the_answer_is_the_right_one(shown: Shown, tmp_path: Path) -> None:
    if shown.recipe.needs_torch:
        need_torch()
    answer = shown.answer
    draft = tmp_path / "draft"
    examination = scan_of(shown.recipe, draft)
    diagnosis = _diagnosis(shown, examination)
    fixes = [f.fix for f in diagnosis if f.fix is not None and f.fix.refused is None]
    if "treatment" in answer:
        assert (answer["treatment"], answer["safety"]) in [(f.treatment, f.safety) for f in fixes]
        # As the report says it: all that is serious together, a note by its name.
        loud = any(f.severity.value != "note" for f in diagnosis if f.fix and f.fix.treatment == answer["treatment"])
        outcome = fix(
            draft, tmp_path / "fixed", target=draft / "target" if shown.recipe.target is not None else None,
            engines=shown.recipe.engines, launch=shown.recipe.launch, deep=shown.recipe.deep,
            trained_with=shown.recipe.trained_with, captured_with=shown.recipe.captured_with,
            unsafe=answer["safety"] == "unsafe", select=[] if loud else [answer["treatment"]],
        )  # fmt: skip
        assert outcome.written is not None
        left = {finding.rule for finding in outcome.remaining}
        treated = {f.rule for f in diagnosis if f.fix is not None and f.fix.treatment == answer["treatment"]}
        assert not treated & left
    elif "none" in answer:
        assert {finding.severity.value for finding in examination.findings} <= {"note"}
    else:
        assert [f.treatment for f in fixes] == []
        pattern = answer.get("advice") or answer["release"]
        assert re.search(pattern, _sentences(shown, examination)), _sentences(shown, examination)


def test_every_reported_case_has_a_file() -> None:
    text = (need_shared("cases") / "cases.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^### (B\d+)", text, flags=re.MULTILINE))
    assert set(CASES) == listed, SHARED
