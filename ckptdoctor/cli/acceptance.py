"""`ckptdoctor acceptance`: what an accepted length means, whether speculation pays, and what to check next."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import click

from ckptdoctor.cli.output import color_option, emit, format_option, launch_option
from ckptdoctor.text import show

__all__ = ["acceptance"]


Callback = Callable[[click.Context, click.Parameter, "str | None"], "float | None"]


def _number(low: float, high: float, *, percent: bool = False, hint: str = "") -> Callback:
    """A callback that reads a finite number from `low` to `high`; with `percent`, `20%` stands for 0.2."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        text = value.strip()
        share = percent and text.endswith("%")
        try:
            number = float(text[:-1] if share else text) / (100 if share else 1)
        except ValueError:
            raise click.BadParameter(f"{show(text, 40)!r} is no number", ctx, param) from None
        if not math.isfinite(number) or not low <= number <= high:
            raise click.BadParameter(f"{show(text, 40)} is not between {low:g} and {high:g}{hint}", ctx, param)
        return number

    return read


_RATE_HINT = "; write 20 percent as 0.2 or 20%, and an accepted length without --rate"
_SPEED = _number(1e-6, 1e12)


@click.command()
@click.argument("length", required=False, callback=_number(0, 1e6))
@click.option(
    "--rate",
    metavar="RATE",
    callback=_number(0, 1, percent=True, hint=_RATE_HINT),
    help="An accept rate in its place: 0.2 or 20%.",
)
@click.option("--log", metavar="FILE", help="Read the log of the engine or benchmark in its place; - for stdin.")
@click.option(
    "--draft-tokens",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Draft tokens a step, as the engine counts them.",
)
@click.option("--engine", metavar="NAME[==RELEASE]", help="Whose number it is: sglang==0.5.9, vllm, …")
@launch_option
@click.option(
    "--published", callback=_number(1, 1024), metavar="LENGTH", help="The length that the draft should reach."
)
@click.option("--tokens-per-second", "with_draft", callback=_SPEED, metavar="X", help="Speed with speculation.")
@click.option("--baseline", callback=_SPEED, metavar="Y", help="Speed without speculation, under the same load.")
@click.option("--fail-under", callback=_number(1, 1024), metavar="LENGTH", help="Exit with 1 for a length below this.")
@format_option("text", "json")
@color_option
@click.pass_context
def acceptance(
    ctx: click.Context,
    length: float | None,
    rate: float | None,
    log: str | None,
    draft_tokens: int | None,
    engine: str | None,
    launch: str | None,
    published: float | None,
    with_draft: float | None,
    baseline: float | None,
    fail_under: float | None,
    fmt: str,
    color: str,
) -> None:
    """Say what an accepted length means.

    LENGTH is the mean number of tokens that a step yields (accept len, mean acceptance length); --rate or --log give it
    in another form. Says what usually causes such a number and which check to run next; with --tokens-per-second and
    --baseline, whether speculation pays. Exits with 1 only for --fail-under.
    """
    from ckptdoctor.acceptance import Question, acceptance_for
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.acceptance.as_json import answer_text
    from ckptdoctor.report.acceptance.as_text import acceptance_lines
    from ckptdoctor.report.terminal.render import render_lines

    answer = acceptance_for(
        Question(
            length=length,
            rate=rate,
            log=log,
            draft_tokens=draft_tokens,
            engine=engine,
            launch=launch,
            published=published,
            with_draft=with_draft,
            baseline=baseline,
            fail_under=fail_under,
        )
    )
    if fmt == "json":
        emit(answer_text(answer))
    else:
        surface = surface_for(sys.stdout, color)
        emit(render_lines(acceptance_lines(answer, surface.width), surface))
    ctx.exit(1 if answer.passed is False else 0)
