"""`ckptdoctor compat`: one draft across all known engine releases."""

from __future__ import annotations

import sys

import click

from ckptdoctor.cli.output import color_option, emit, format_option, launch_option, provenance_options, target_option

__all__ = ["compat"]


@click.command()
@click.argument("path")
@target_option
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME[==RELEASE]",
    help="An engine, or a release of it.",
)
@launch_option
@provenance_options
@format_option("text", "json")
@color_option
@click.pass_context
def compat(
    ctx: click.Context,
    path: str,
    target: str | None,
    engines: tuple[str, ...],
    launch: str | None,
    trained_with: str | None,
    captured_with: str | None,
    fmt: str,
    color: str,
) -> None:
    """Say how every known release serves a draft.

    All engines are asked about the draft at PATH, or those of --engine. Releases with the same answer are
    folded into ranges. With --engine, exits with 1 when the newest release of a named engine breaks or
    refuses the draft.
    """
    from ckptdoctor.planning import compat_for
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.plan.as_json import plan_data, plans_text
    from ckptdoctor.report.plan.as_text import compat_lines
    from ckptdoctor.report.terminal.render import render_lines

    ranges, title = compat_for(
        path, engines, target=target, launch=launch, trained_with=trained_with, captured_with=captured_with
    )
    if fmt == "json":
        data = [{**plan_data(r.plan), "first": r.first, "last": r.last} for r in ranges]
        emit(plans_text(data))
    else:
        emit(render_lines(compat_lines(ranges, title), surface_for(sys.stdout, color)))
    bad = any(r.plan.outcome.is_useless for r in ranges if r.is_newest)
    ctx.exit(1 if engines and bad else 0)
