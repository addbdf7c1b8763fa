"""The rule files that ship: names and expressions that exist, and texts a person can use."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from jsonschema import Draft202012Validator

from ckptdoctor.examining import RULE_NAMES
from ckptdoctor.findings import Severity
from ckptdoctor.resources import rules_dir
from ckptdoctor.rulebook import FAMILIES, Rule, load_rules

BOOK = load_rules(rules_dir(), names=RULE_NAMES, families=FAMILIES)
RULES = list(BOOK)
FILES = sorted((rules_dir() / "checks").glob("*.yaml"))
# org/repo#number, or org/repo path@revision
_REPORT = re.compile(r"^[\w.-]+/[\w.-]+(#\d+| \S+@\w+)$")


def texts(rule: Rule) -> dict[str, str]:
    """What `rule` says to a person, by field."""
    found = {"message": rule.message, "effect": rule.effect, "advice": rule.advice, "why": rule.why}
    if rule.fix is not None:
        found["fix.summary"] = rule.fix.summary
    return {field: text for field, text in found.items() if text}


def test_every_expression_and_fact_exists() -> None:
    BOOK.check(RULE_NAMES)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_files_agree_with_the_schema(path) -> None:  # type: ignore[no-untyped-def]
    schema = json.loads((rules_dir() / "schema" / "rule.schema.json").read_text(encoding="utf-8"))
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    problems = [f"{list(e.absolute_path)}: {e.message}" for e in Draft202012Validator(schema).iter_errors(rows)]
    assert problems == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_ids_ascend_within_a_file_and_are_of_one_family(path) -> None:  # type: ignore[no-untyped-def]
    ids = [row["id"] for row in yaml.safe_load(path.read_text(encoding="utf-8"))]
    assert ids == sorted(ids)
    assert len({i[:3] for i in ids}) == 1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_what_is_seen_and_what_to_do(rule: Rule) -> None:
    assert rule.message.strip()
    assert rule.effect.strip()
    assert rule.advice.strip()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_texts_are_whole_sentences_without_exclamation_marks(rule: Rule) -> None:
    for field, text in texts(rule).items():
        # `!=` inside a placeholder is no shout.
        spoken = re.sub(r"\{[^{}]*\}", "…", text)
        assert "!" not in spoken, field
        assert spoken.rstrip().endswith((".", "…")), field
        assert "  " not in " ".join(text.split()), field


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_public_reports_are_named_as_org_repo_number(rule: Rule) -> None:
    assert [report for report in rule.seen_in if not _REPORT.match(report)] == []


@pytest.mark.parametrize("rule", [r for r in RULES if r.severity is Severity.NOTE], ids=lambda rule: rule.id)
def test_a_note_does_not_claim_that_nothing_is_accepted_for_certain(rule: Rule) -> None:
    assert not rule.effect.startswith("Nothing is accepted")


def test_names_of_rules_are_unique_and_in_kebab_case() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert [n for n in names if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", n)] == []
