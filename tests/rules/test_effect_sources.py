"""Every rule that ships says where its effect is known from, and the source is one that can be looked up."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ckptdoctor.examining import RULE_NAMES
from ckptdoctor.resources import rules_dir
from ckptdoctor.rulebook import EffectSource, Rule, load_rules
from ckptdoctor.rulebook.rules import rule_from_mapping
from ckptdoctor.serving.contract.contracts import contracts
from tests.conformance import environments

ROOT = Path(__file__).parents[2]
RULES = list(load_rules(rules_dir(), names=RULE_NAMES))
ROWS = {
    name: (float(first), float(length))
    for name, first, length in re.findall(
        r"^\| ([^|]+?) \| ([\d.]+) \| ([\d.]+) \|$", (ROOT / "docs" / "effects.md").read_text(encoding="utf-8"), re.M
    )
}
"""The rows of docs/effects.md: the share of first guesses that are right, and the accepted length."""

EXECUTED = {f"{engine}=={release}" for engine, release in environments.RELEASES} | {
    "==".join(path.stem.split("-", 1)) for path in (ROOT / "tests" / "conformance" / "recorded").glob("*-*.json")
}
CASES = {
    report
    for path in (ROOT / "tests" / "cases").glob("B*.yaml")
    for report in yaml.safe_load(path.read_text(encoding="utf-8"))["reports"]
}
TOOLS = {
    "angelslim", "eagle", "llama.cpp", "medusa", "speculators", "tensorrt-llm", "text-generation-inference", "torch",
    "transformers",
}  # fmt: skip
"""What is read beside the engines whose releases a contract lists."""

RELEASES = {name: contracts()[name].releases for name in ("sglang", "vllm")}

SIZE = re.compile(
    r"nothing is accepted|hardly any|much less|less is accepted|lower|next to nothing|zero acceptance"
    r"|accepted length of|accepts? (less|1\.0|little)|guesses? at random|acceptance (falls|collapses)",
    re.IGNORECASE,
)
"""What a text says of how much is accepted. A loader that was run tells that something loads, never this."""


def sources(kind: str) -> Iterator[tuple[Rule, str]]:
    """Each rule with each of its references of `kind`."""
    for rule in RULES:
        for source in rule.effect_source:
            if source.kind == kind:
                yield from ((rule, ref) for ref in source.refs)


def is_looked_up(ref: str) -> bool:
    """Whether what was read is a file here, or a file of a tool that is known, in a release that is known."""
    if ref.startswith("rules/"):
        return (ROOT / ref).is_file()
    name, _, file = ref.partition(" ")
    tool, _, release = name.partition("==")
    return bool(file) and (release in RELEASES[tool] if tool in RELEASES else tool in TOOLS)


def test_every_rule_says_where_its_effect_is_known_from() -> None:
    assert [rule.id for rule in RULES if not rule.effect_source] == []


def test_what_was_executed_names_a_release_that_is_run_here() -> None:
    assert [(rule.id, ref) for rule, ref in sources("executed") if ref not in EXECUTED] == []


def test_what_was_measured_is_a_row_of_the_table() -> None:
    assert [(rule.id, ref) for rule, ref in sources("measured") if ref not in ROWS] == []


def test_what_was_measured_gives_the_figures_of_its_rows() -> None:
    right = f"{ROWS['the right draft'][1]:.2f}"
    wrong = []
    for rule in RULES:
        for source in rule.effect_source:
            if source.kind == "measured":
                low, high = (f"{edge(ROWS[ref][1] for ref in source.refs):.2f}" for edge in (min, max))
                figures = low if low == high else f"{low} to {high}"
                if not source.note.startswith(f"{figures} of {right} tokens"):
                    wrong.append((rule.id, source.note))
    assert wrong == []


def test_what_was_reported_is_a_report_of_the_rule_or_of_a_case() -> None:
    assert [(rule.id, ref) for rule, ref in sources("reported") if ref not in {*rule.seen_in, *CASES}] == []


def test_what_was_read_names_a_file_here_or_a_tool_and_its_file() -> None:
    assert [(rule.id, ref) for rule, ref in sources("read") if not is_looked_up(ref)] == []


def test_what_is_derived_says_how() -> None:
    assert [(rule.id, ref) for rule, ref in sources("derived") if len(ref.split()) < 5 or ref.endswith(".")] == []


def test_how_much_is_accepted_was_measured_reported_or_follows() -> None:
    told = [rule for rule in RULES if SIZE.search(rule.effect)]
    assert len(told) > 40
    proof = {"measured", "reported", "derived"}
    assert [rule.id for rule in told if not {source.kind for source in rule.effect_source} & proof] == []


def test_an_accepted_length_of_one_was_reported_so() -> None:
    told = [rule for rule in RULES if re.search(r"(?<![\d.])1\.0+(?!\d)", rule.effect)]
    noted = {rule.id for rule in told if any(s.kind == "reported" and "1.00" in s.note for s in rule.effect_source)}
    assert [rule.id for rule in told if rule.id not in noted] == []


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("{kind: executed, ref: sglang==5.12}", "executed"),
        ("{kind: measured, ref: a fault that nobody made, note: 1.00 of 5.52 tokens}", "measured"),
        ("{kind: reported, ref: nobody/nothing#1}", "reported"),
        ("{kind: read, ref: vllm==9.9 models/llama.py}", "read"),
        ("{kind: derived, ref: it follows}", "derived"),
    ],
)
def test_each_check_finds_what_is_no_source(source: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {
        "executed": test_what_was_executed_names_a_release_that_is_run_here,
        "measured": test_what_was_measured_is_a_row_of_the_table,
        "reported": test_what_was_reported_is_a_report_of_the_rule_or_of_a_case,
        "read": test_what_was_read_names_a_file_here_or_a_tool_and_its_file,
        "derived": test_what_is_derived_says_how,
    }
    row = yaml.safe_load((rules_dir() / "checks" / "aux_places.yaml").read_text(encoding="utf-8"))[0]
    rule = rule_from_mapping({**row, "effect_source": [yaml.safe_load(source)]})
    monkeypatch.setattr(sys.modules[__name__], "RULES", [rule])
    for kind, check in checks.items():
        if kind == missing:
            with pytest.raises(AssertionError):
                check()
        else:
            check()


def test_a_source_reads_as_one_line() -> None:
    assert EffectSource("executed", ("sglang==0.5.23", "vllm==0.33.0"), "stops").words == (
        "executed: sglang==0.5.23, vllm==0.33.0 (stops)"
    )
    assert EffectSource("derived", ("zeros add nothing",)).words == "derived: zeros add nothing"


@pytest.fixture(scope="module")
def own() -> Iterator[Any]:
    """The program that wrote the table, on one thread: several would wait for each other in a run of many tests."""
    torch: Any = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import effect_sizes  # type: ignore[import-not-found]

    yield effect_sizes
    torch.set_num_threads(before)


@pytest.mark.torch
def test_the_table_has_a_row_for_each_fault_and_no_other(own: Any) -> None:
    assert set(ROWS) == {own.RIGHT, *own.FAULTS}


@pytest.mark.torch
def test_the_figures_of_the_table_come_out_again(own: Any) -> None:
    """A few rows, of which none is drawn; the whole table is written by the command that the page names."""
    bench = own.opened()
    names = ("input_layernorm at ones", "rope base 10000 for 500")
    found = {own.RIGHT: own.measured(bench)} | {name: own.measured(bench, own.FAULTS[name][1]) for name in names}
    for name, figures in found.items():
        first, length = ROWS[name]
        assert figures.first == pytest.approx(first, abs=0.01), name
        assert figures.length == pytest.approx(length, abs=0.05), name
