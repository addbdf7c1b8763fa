"""The page of reported faults: what each was, by which rule it is found, and what a person is told to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from generator.markdown import code, page, prose, table

__all__ = ["cases_page"]

CASES = Path(__file__).resolve().parents[2] / "tests" / "cases"
_SHOWN = {
    "yes": "that show in the files, the target's config or the launch line",
    "partly": "that show there in part",
    "no": "that do not",
}


def cases_page() -> str:
    """A table of all cases in `tests/cases/`; a test scans the drafts in them and holds the reports against it."""
    cases = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in CASES.glob("*.yaml")]
    cases.sort(key=lambda case: int(case["case"][1:]))
    counts = ", ".join(f"{sum(c['shows'] == k for c in cases)} {words}" for k, words in _SHOWN.items())
    return page(
        "# Faults that people have reported",
        f"{len(cases)} faults of drafts from public reports ({counts}), by which rule a scan finds each, and what "
        "it tells a person to do. Small drafts that show them are in `tests/cases/`.",
        table(("case", "what it was", "reports", "found by", "answered with"), (_row(case) for case in cases)),
    )


def _row(case: Mapping[str, Any]) -> tuple[str, ...]:
    found = dict.fromkeys(name for draft in case["drafts"] for name in draft["found_by"])
    answers = dict.fromkeys(_answer(draft) for draft in case["drafts"])
    if len(answers) > 1:
        answers.pop(_NOTHING, None)
    return (
        case["case"],
        prose(case["kind"]),
        ", ".join(_link(report) for report in case["reports"]),
        ", ".join(_rules(found)) or ("nothing to find" if case["drafts"] else "no sign in the files"),
        "; ".join(answers) or prose(" ".join(case["nothing"].split())),
    )


_NOTHING = "nothing: it is right as it is"


def _rules(found: Iterable[str]) -> Iterator[str]:
    for name in found:
        word, _, engine = name.partition(":")
        yield f"the Serving block ({engine})" if word == "serving" else f"[{name}](rules/{name}.md)"


def _answer(draft: Mapping[str, Any]) -> str:
    answer = draft["answer"]
    if "treatment" in answer:
        how = "" if answer["safety"] == "safe" else ", with `--unsafe`"
        return f"the repair [{answer['treatment']}](treatments.md#{answer['treatment']}){how}"
    if "release" in answer:
        return "another release or engine"
    if "advice" in answer:
        engines = draft["recipe"].get("engines", ())
        return f"advice for {', '.join(code(e) for e in engines)}" if engines else "advice, no edit"
    return _NOTHING


def _link(report: str) -> str:
    found = re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", report)
    return f"[{report}](https://github.com/{found[1]}/issues/{found[2]})" if found else prose(report)
