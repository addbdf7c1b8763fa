"""`ckptdoctor probe`: run a draft on recorded hidden states, and find out how it wants to be fed."""

from __future__ import annotations

import sys

import click

from ckptdoctor.cli.output import color_option, emit, format_option, target_option

__all__ = ["probe"]

_EXIT = {"works": 0, "weak": 0, "measured": 0, "otherwise": 1, "chance": 1, "too_few": 3}


@click.command()
@click.argument("path")
@click.option(
    "--samples", "samples", multiple=True, required=True, metavar="FILES",
    help="Recorded hidden states (files or folders), or texts for the target; may be repeated.",
)  # fmt: skip
@target_option
@click.option(
    "--steps", type=click.IntRange(1, 16), default=5, show_default=True, help="Tokens that each chain guesses."
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=2000, show_default=True, metavar="N",
    help="Use at most so many tokens that the target wrote.",
)  # fmt: skip
@click.option(
    "--generate", type=click.IntRange(0, 4096), default=64, show_default=True, metavar="N",
    help="Tokens that the target writes on after each text; 0 takes texts as they are.",
)  # fmt: skip
@click.option("--no-search", is_flag=True, help="Only run the wiring that the files state.")
@click.option(
    "--fail-under", type=click.FloatRange(1.0), metavar="L",
    help="Exit with 1 where the accepted length, wired as the files state, is below L.",
)  # fmt: skip
@format_option("text", "json")
@color_option
@click.pass_context
def probe(
    ctx: click.Context,
    path: str,
    samples: tuple[str, ...],
    target: str | None,
    steps: int,
    limit: int,
    generate: int,
    no_search: bool,
    fail_under: float | None,
    fmt: str,
    color: str,
) -> None:
    """Run an EAGLE-3 draft and measure what it guesses.

    Samples are SpecForge's feature files, speculators' hidden states, what the recorder saved, or texts that a local
    target (--target) continues. The same samples are tried under every wiring that fits the weights, and the one that
    the draft works under is named. Exits with 1 when that is not the one that the files state, or when the draft is no
    better than chance. Needs the extra torch.
    """
    from ckptdoctor.cli.progress import counting
    from ckptdoctor.probe import run_probe
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.probe.as_json import probe_text
    from ckptdoctor.report.probe.as_text import probe_lines
    from ckptdoctor.report.terminal.render import render_lines

    with counting() as tell:
        result = run_probe(
            path,
            samples,
            target=target,
            steps=steps,
            limit=limit,
            generate=generate,
            searching=not no_search,
            tell=tell,
        )
    if fmt == "json":
        emit(probe_text(result))
    else:
        emit(render_lines(probe_lines(result), surface_for(sys.stdout, color)))
    code = _EXIT[result.verdict]
    ctx.exit(max(code, 1) if fail_under is not None and result.length.value < fail_under else code)
