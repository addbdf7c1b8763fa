"""`ckptdoctor explain`: the page of one rule."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptdoctor.cli.output import color_option, emit, rules_option

if TYPE_CHECKING:
    from ckptdoctor.report.terminal.segments import Line
    from ckptdoctor.rulebook.rules import Rule

__all__ = ["explain", "page"]


@click.command()
@click.argument("rule")
@rules_option
@color_option
def explain(rule: str, rule_dirs: tuple[Path, ...], color: str) -> None:
    """Print the page of a rule.

    RULE is an id or a name. The page says what is checked, what a person would see, and what to do.
    """
    from ckptdoctor.repair.known_rules import rulebook
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.terminal.render import render_lines

    emit(render_lines(page(rulebook(rule_dirs).get(rule)), surface_for(sys.stdout, color)))


def page(rule: Rule) -> Iterator[Line]:
    """The page as lines. A section that a rule leaves empty still stands, so that all pages look alike."""
    from ckptdoctor.report.terminal.segments import BLANK, Segment, line

    yield line(Segment(rule.id, rule.severity.value), f" {rule.name}", Segment(f"  ({rule.severity.value})", "quiet"))
    for title, texts in _sections(rule):
        yield BLANK
        yield line(Segment(title, "label"), indent=2)
        for text in texts or ["none"]:
            yield line(text, indent=4, hang=2 if len(texts) > 1 else 0)


def _sections(rule: Rule) -> list[tuple[str, list[str]]]:
    return [
        ("checks", _checks(rule)),
        ("says", [rule.message]),
        ("you would see", [rule.effect]),
        ("known from", [source.words for source in rule.effect_source]),
        ("next", [rule.advice]),
        ("why", [rule.why] if rule.why else []),
        ("seen in", list(rule.seen_in)),
        ("fix", _fix(rule)),
        ("examples", _examples(rule)),
    ]


def _fix(rule: Rule) -> list[str]:
    if rule.fix is None:
        return []
    texts = [f"{rule.fix.treatment}: {rule.fix.summary} ({rule.fix.safety})"]
    return texts if rule.fix.assumption is None else [*texts, f"takes for granted: {rule.fix.assumption}"]


def _checks(rule: Rule) -> list[str]:
    from ckptdoctor.rulebook.rules import FAMILIES

    texts = []
    if about := FAMILIES.get(rule.family):
        texts.append(f"about: {about}")
    if rule.scope == "serving":
        texts.append("judged once for each engine release")
    if rule.scope == "everywhere":
        texts.append("judged over all known releases, where no engine is named")
    if rule.for_each:
        texts.append(f"for each: {rule.for_each}")
    if rule.when:
        texts.append(f"{'applies' if rule.claim else 'fires'} when: {rule.when}")
    if rule.claim:
        texts.append(f"must hold: {rule.claim}")
    if rule.user:
        texts.append(f"from: {rule.where}")
    return texts


def _examples(rule: Rule) -> list[str]:
    kinds = (("fires on", rule.bad), ("quiet on", rule.good))
    return [f"{kind}: {', '.join(names)}" for kind, names in kinds if names]
