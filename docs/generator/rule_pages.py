"""A page for each rule, all with the same sections, and the table of all rules."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ckptdoctor.rulebook import FAMILIES, EffectSource, Rule
from generator.examples import example
from generator.markdown import code, page, prose, table
from generator.readable import readable

__all__ = ["SECTIONS", "index_page", "rule_page"]

SECTIONS = (
    "What is wrong",
    "What you would see",
    "Known from",
    "What to do",
    "Why",
    "Example",
    "Stays silent on",
    "Fix safety",
    "Reported in",
)
"""The sections of every page of a rule, in their order."""

_ISSUE = re.compile(r"^([\w.-]+/[\w.-]+)#(\d+)$")


def rule_page(rule: Rule, old: str = "") -> str:
    """The page of `rule`. `old` is the page as it stands, for an example that cannot be made here."""
    texts = {
        "What is wrong": prose(readable(rule.message)),
        "What you would see": prose(readable(rule.effect)),
        "Known from": _sources(rule),
        "What to do": prose(readable(rule.advice)),
        "Why": prose(rule.why),
        "Example": example(rule, _section(old, "Example")),
        "Stays silent on": _silent(rule),
        "Fix safety": _fix(rule),
        "Reported in": _reports(rule),
    }
    parts = [f"# {rule.id} {rule.name} ({rule.severity.value})"]
    for title in SECTIONS:
        parts += [f"## {title}", texts[title]]
    return page(*parts)


def index_page(rules: Iterable[Rule]) -> str:
    """The table of all rules, by family."""
    listed = list(rules)
    parts = [
        "# Rules",
        f"{len(listed)} rules. `ckptdoctor explain ID` prints a page in the terminal, `ckptdoctor rules` the list. "
        "An error is certain: no engine serves the draft as it was trained. A warning is likely to matter or leaves "
        "two readings, a note is worth knowing. What a finding rests on decides how sure it is; the less sure, the "
        "lower it is reported.",
    ]
    for family, about in FAMILIES.items():
        rows = [
            (f"[{rule.id}]({rule.id}.md)", rule.severity.value, rule.name, prose(_first(readable(rule.message))))
            for rule in listed
            if rule.family == family
        ]
        if rows:
            parts += [f"## {family}: {about}", table(("rule", "severity", "name", "what is wrong"), rows)]
    return page(*parts)


def _first(text: str) -> str:
    """The first sentence; a full stop in brackets or in a file name ends none."""
    depth = 0
    for position, char in enumerate(text):
        depth += (char in "[⟨(") - (char in "]⟩)")
        if char == "." and depth == 0 and text[position + 1 : position + 2] in ("", " "):
            return text[: position + 1]
    return text


def _silent(rule: Rule) -> str:
    names = ", ".join(code(name) for name in rule.good)
    return f"{names}: recipes in `fixtures/recipes/` that this rule judges and passes."


def _fix(rule: Rule) -> str:
    if rule.fix is None:
        return "No treatment: the repair is described in words above and made by hand."
    name = rule.fix.treatment
    text = f"[{code(name)}](../treatments.md#{name}) ({rule.fix.safety}): {prose(readable(rule.fix.summary))}"
    if rule.fix.assumption is not None:
        text += f"\n\nTakes for granted: {prose(readable(rule.fix.assumption))}"
    return text


def _sources(rule: Rule) -> str:
    """Where the effect is known from: a line for each source."""
    return "\n".join(f"* {_source(source)}" for source in rule.effect_source)


def _source(source: EffectSource) -> str:
    refs = ", ".join((_link if source.kind == "reported" else prose)(ref) for ref in source.refs)
    text = f"[{source.kind}](../effects.md): {refs}"
    return f"{text} ({prose(source.note)})" if source.note else text


def _reports(rule: Rule) -> str:
    if not rule.seen_in:
        return "No public report is known."
    return "\n".join(f"* {_link(report)}" for report in rule.seen_in)


def _link(report: str) -> str:
    found = _ISSUE.match(report)
    return f"[{report}](https://github.com/{found[1]}/issues/{found[2]})" if found else prose(report)


def _section(text: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n\n(.*?)(?=\n\n## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""
