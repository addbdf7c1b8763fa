"""`ckptdoctor engines`: the engines and releases that contracts exist for, and how well they are proven."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from ckptdoctor.cli.output import color_option, emit

__all__ = ["engines"]


@click.command()
@color_option
def engines(color: str) -> None:
    """List the engines that plans can be made for.

    For each: the known releases, the draft classes, and how many entries of its contract were executed.
    """
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.terminal.render import render_lines
    from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
    from ckptdoctor.serving.contract.contracts import contracts, evidence

    def lines() -> Iterator[Line]:
        for number, contract in enumerate(contracts().values()):
            if number:
                yield BLANK
            executed, read = evidence(contract)
            yield line(Segment(contract.engine, "path"), f"  {contract.name}")
            span = contract.newest if len(contract.releases) == 1 else f"{contract.releases[0]} to {contract.newest}"
            yield line(f"releases  {span} ({len(contract.releases)} known)", indent=2)
            names = sorted({str(c["name"]) for c in contract.raw["classes"].values()})
            yield line(f"classes   {', '.join(names)}", indent=2, hang=10)
            yield line(f"evidence  {executed} entries executed, {read} read in the source", indent=2)

    emit(render_lines(lines(), surface_for(sys.stdout, color)))
