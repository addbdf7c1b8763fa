"""`ckptdoctor rules`: the list of rules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ckptdoctor.cli.output import color_option, emit, format_option, rules_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ckptdoctor.report.terminal.segments import Line
    from ckptdoctor.rulebook.rules import Rule

__all__ = ["rules"]


@click.command()
@format_option("text", "json")
@rules_option
@color_option
def rules(fmt: str, rule_dirs: tuple[Path, ...], color: str) -> None:
    """List the rules: id, severity and name."""
    from ckptdoctor.jsontext import dumps
    from ckptdoctor.repair.known_rules import rulebook
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.terminal.render import render_lines

    found = list(rulebook(rule_dirs).rules)
    if fmt == "json":
        listed = [{"id": r.id, "severity": r.severity.value, "name": r.name} for r in found]
        emit(dumps({"schema_version": 1, "rules": listed}))
    else:
        emit(render_lines(_lines(found), surface_for(sys.stdout, color)))


def _lines(found: Sequence[Rule]) -> Iterator[Line]:
    from ckptdoctor.report.terminal.segments import Segment, line

    wide = max((len(rule.id) for rule in found), default=0)
    for rule in found:
        severity = rule.severity.value
        yield line(f"{rule.id:<{wide}}  ", Segment(f"{severity:<7}", severity), f"  {rule.name}", hang=wide + 11)
