"""`ckptdoctor plan`: what one engine release really does with a draft, parameter by parameter."""

from __future__ import annotations

import sys

import click

from ckptdoctor.cli.output import color_option, emit, format_option, launch_option, provenance_options, target_option

__all__ = ["plan"]


@click.command()
@click.argument("path")
@click.option("--engine", required=True, metavar="NAME[==RELEASE]", help="sglang, vllm==0.33.0, … or installed.")
@target_option
@launch_option
@provenance_options
@format_option("text", "json")
@color_option
@click.pass_context
def plan(
    ctx: click.Context,
    path: str,
    engine: str,
    target: str | None,
    launch: str | None,
    trained_with: str | None,
    captured_with: str | None,
    fmt: str,
    color: str,
) -> None:
    """Say what an engine release does with a draft.

    Shows every parameter, every stored tensor and the wiring for the draft at PATH. Exits with 1 when the
    outcome is broken or refused.
    """
    from ckptdoctor.planning import plan_for
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.plan.as_json import plan_data, plans_text
    from ckptdoctor.report.plan.as_text import plan_lines
    from ckptdoctor.report.terminal.render import render_lines

    result, title = plan_for(
        path, engine, target=target, launch=launch, trained_with=trained_with, captured_with=captured_with
    )
    if fmt == "json":
        emit(plans_text([plan_data(result)]))
    else:
        surface = surface_for(sys.stdout, color)
        emit(render_lines(plan_lines(result, title, surface.width), surface))
    ctx.exit(1 if result.outcome.is_useless else 0)
