"""The pages of `docs/` are up to date, complete, and show what the commands in them really print."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from jsonschema import Draft202012Validator

from ckptdoctor.examining import RULE_NAMES
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.rulebook import Rule
from ckptdoctor.scanning import scan

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TRAINERS = ROOT / "fixtures" / "trainers"
RULES = rulebook().rules


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = load("docs_build", DOCS / "build.py")
GENERATOR = sys.modules["generator"]

WRITTEN = [*sorted(DOCS.glob("*.md")), ROOT / "README.md"]
COMMANDS = [(path, shown) for path in WRITTEN for shown in GENERATOR.shown(path.read_text(encoding="utf-8"))]


def ids(rule: Rule) -> str:
    return rule.id


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {title: body.strip() for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def test_generated_pages_are_up_to_date() -> None:
    assert BUILD.stale() == [], "run python docs/build.py"


def test_check_names_stale_missing_and_left_over_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    wanted = {rules / "AAA001.md": "one", rules / "AAA002.md": "two", tmp_path / "facts.md": "three"}
    monkeypatch.setattr(BUILD, "pages", lambda _: iter(wanted.items()))
    (rules / "AAA001.md").write_text("one", encoding="utf-8")
    (rules / "AAA002.md").write_text("old", encoding="utf-8")
    (rules / "AAA003.md").write_text("gone", encoding="utf-8")
    assert BUILD.stale(tmp_path) == ["rules/AAA002.md", "facts.md", "rules/AAA003.md"]


@pytest.mark.parametrize("found", [[], ["rules/AAA001.md"]])
def test_check_exits_1_with_the_list(
    found: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(BUILD, "stale", lambda: found)
    assert BUILD.main(["--check"]) == (1 if found else 0)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [f"docs/{name}" for name in found]


def test_the_command_runs_by_itself() -> None:
    done = subprocess.run([sys.executable, DOCS / "build.py", "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--check" in done.stdout


@pytest.mark.parametrize("rule", RULES, ids=ids)
def test_every_rule_has_a_page_with_all_sections(rule: Rule) -> None:
    text = (DOCS / "rules" / f"{rule.id}.md").read_text(encoding="utf-8")
    assert f"\n# {rule.id} {rule.name} ({rule.severity.value})\n" in text
    found = sections(text)
    assert list(found) == list(GENERATOR.SECTIONS)
    assert [title for title, body in found.items() if not body] == []


@pytest.mark.parametrize("rule", RULES, ids=ids)
def test_every_rule_says_why_in_a_few_sentences(rule: Rule) -> None:
    assert len(rule.why) > 60
    assert 1 <= len(re.split(r"(?<=[.])\s+(?=[^a-z])", rule.why)) <= 5
    assert "!" not in rule.why


@pytest.mark.parametrize("rule", RULES, ids=ids)
def test_no_placeholder_of_a_page_is_left_as_an_expression(rule: Rule) -> None:
    text = (DOCS / "rules" / f"{rule.id}.md").read_text(encoding="utf-8")
    found = sections(text)
    told = "".join(found[title] for title in ("What is wrong", "What you would see", "What to do"))
    words = re.findall(r"⟨([^⟩]*)⟩", told)
    assert told.count("⟨") == told.count("⟩") == len(words)
    assert [word for word in words if not re.fullmatch(r"[a-z][\w .'-]*", word)] == []


@pytest.mark.parametrize("rule", RULES, ids=ids)
def test_the_example_of_a_rule_is_a_finding_of_it(rule: Rule) -> None:
    text = sections((DOCS / "rules" / f"{rule.id}.md").read_text(encoding="utf-8"))["Example"]
    block = re.search(r"```text\n(.*?)\n```", text, re.DOTALL)
    assert block, "no recipe of the rule's bad examples could be built"
    head, *message = block[1].splitlines()
    assert head.startswith(f"{rule.id} {rule.name}")
    assert message


def test_reports_are_links() -> None:
    text = (DOCS / "rules" / "GEO014.md").read_text(encoding="utf-8")
    assert "[vllm-project/vllm#38111](https://github.com/vllm-project/vllm/issues/38111)" in text


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: str(path.relative_to(DOCS)))
def test_links_inside_the_repository_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"(?<!\\)\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [link for link in links if not (path.parent / link.split("#")[0]).exists()] == []


def test_every_fact_is_listed() -> None:
    text = (DOCS / "facts.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == list(RULE_NAMES)
    for fact in ("draft.fc.in_features", "vocab.proposable", "target.hidden_size", "it.found_as", "draft.aux.ids"):
        assert f"| `{fact}` |" in text


@pytest.mark.parametrize(
    ("path", "shown"), COMMANDS, ids=[f"{path.name}:{shown.command[:60]}" for path, shown in COMMANDS]
)
def test_commands_print_what_the_pages_show(path: Path, shown: object) -> None:  # noqa: ARG001  # names the test
    if not shown.can_run:  # type: ignore[attr-defined]
        pytest.skip("what the command needs is not here")
    output, code = shown.run()  # type: ignore[attr-defined]
    assert output == shown.output  # type: ignore[attr-defined]
    assert shown.exit in (None, code)  # type: ignore[attr-defined]


def test_the_readme_shows_what_the_probe_page_shows() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```text\n(fixtures/pair/mislabelled: .*?)\n```", readme, re.DOTALL)
    assert block
    outputs = [shown.output for path, shown in COMMANDS if path.name == "probe.md"]
    printed = next(output for output in outputs if output.startswith("fixtures/pair/mislabelled"))
    assert [line for line in block[1].splitlines() if line not in printed.splitlines()] == []


def test_there_are_commands_to_run() -> None:
    assert {path.name for path, _ in COMMANDS} >= {"json.md", "own-rules.md"}


def test_the_example_of_the_json_page_agrees_with_the_schema() -> None:
    schema = json.loads((ROOT / "rules" / "schema" / "report.schema.json").read_text(encoding="utf-8"))
    first = next(shown for path, shown in COMMANDS if path.name == "json.md")
    Draft202012Validator(schema).validate(json.loads(first.output))


def test_the_json_page_names_every_field() -> None:
    text = (DOCS / "json.md").read_text(encoding="utf-8")
    schema = json.loads((ROOT / "rules" / "schema" / "report.schema.json").read_text(encoding="utf-8"))
    first = next(shown for path, shown in COMMANDS if path.name == "json.md")
    fields = set(schema["properties"])
    for part in ("checkpoint", "finding"):
        fields |= set(schema["$defs"][part]["properties"])
    fields |= set(json.loads(first.output)["checkpoints"][0]["draft"])
    told = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert sorted(field for field in fields if f"`{field}`" not in told) == []


def test_the_page_of_own_rules_shows_the_file_as_it_is() -> None:
    text = (DOCS / "own-rules.md").read_text(encoding="utf-8")
    assert f"```yaml\n{(DOCS / 'examples' / 'house.yaml').read_text(encoding='utf-8')}```" in text


def test_the_page_of_own_rules_names_every_field() -> None:
    schema = json.loads((ROOT / "rules" / "schema" / "rule.schema.json").read_text(encoding="utf-8"))
    text = (DOCS / "own-rules.md").read_text(encoding="utf-8")
    # `fix` names a treatment, and there are none yet; `since` is for ours.
    wanted = set(schema["$defs"]["rule"]["properties"]) - {"fix", "since"}
    assert sorted(field for field in wanted if f"| `{field}` |" not in text) == []


def test_the_rules_of_the_example_load_and_fire() -> None:
    draft = TRAINERS / "sf_eagle3_llama_sglang"
    examination = scan(draft, target=draft / "target", rules=[DOCS / "examples"], select=["HOUSE"])
    assert {(f.rule, f.severity.value) for f in examination.findings} == {
        ("HOUSE001", "warning"),
        ("HOUSE002", "note"),
        ("HOUSE003", "note"),
    }
    assert examination.skipped == ()


def test_the_rules_of_the_example_stay_silent_where_they_should() -> None:
    draft = TRAINERS / "spec_dflash_qwen3"
    examination = scan(draft, rules=[DOCS / "examples"], select=["HOUSE001", "HOUSE003"])
    assert examination.findings == ()
