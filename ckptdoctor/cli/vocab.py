"""`ckptdoctor vocab`: a draft vocabulary on a page and as a picture, and a new one from token counts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click

from ckptdoctor.cli.output import color_option, emit, format_option, target_option

__all__ = ["vocab"]

_COUNTS = "How often each token occurs: counts (.pt, .json, .npy), or a text (.jsonl, .parquet, .arrow)."


@click.group()
def vocab() -> None:
    """Look at the vocabulary of a draft, or build one.

    A draft proposes from few of the target's tokens; d2t and t2d say which.
    """


@vocab.command()
@click.argument("path")
@target_option
@click.option("--token-counts", metavar="FILE", help=_COUNTS)
@click.option("--svg", metavar="FILE", help="Write a picture of the map, and of the coverage, to this file.")
@format_option("text", "json")
@color_option
def show(path: str, target: str | None, token_counts: str | None, svg: str | None, fmt: str, color: str) -> None:
    """Say what the map of a draft is.

    PATH is a draft, or a token map of FR-Spec (--speculative-token-map). With --token-counts: how much of real text it
    can propose. With the target's weights: whether the rows of both heads agree.
    """
    from ckptdoctor.cli.reading import reads_of
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.terminal.render import render_lines
    from ckptdoctor.report.vocab.as_json import page_text
    from ckptdoctor.report.vocab.as_text import page_lines
    from ckptdoctor.vocab.page import page_of
    from ckptdoctor.vocab.pictures import check_picture, write_picture

    place = None
    if svg is not None:
        place = check_picture(svg, path, reads_of([path], target=target, token_counts=token_counts))
    with _busy("counting tokens" if token_counts else "reading"):
        page = page_of(path, target=target, token_counts=token_counts)
    if place is not None:
        from ckptdoctor.report.vocab.picture import picture

        write_picture(place, picture(page))
    surface = surface_for(sys.stdout, color)
    emit(page_text(page, svg) if fmt == "json" else render_lines(page_lines(page, svg), surface))


@vocab.command()
@click.option("--token-counts", metavar="FILE", required=True, help=_COUNTS)
@click.option("--size", metavar="N", type=click.IntRange(min=1), required=True, help="Ids of the draft vocabulary.")
@click.option("--target", metavar="PATH", required=True, help="The model that the draft will guess for: its folder.")
@click.option("--out", metavar="NEW", help="The new folder for the map. It must not exist, or be empty.")
@click.option(
    "--force-ids",
    metavar="IDS",
    multiple=True,
    help="Ids that must be in it: 5,7,100-109 or @FILE; may be repeated.",
)
@click.option(
    "--order",
    type=click.Choice(["ascending", "frequency"]),
    default="ascending",
    show_default=True,
    help="Order of the map; trainers read ascending ones.",
)
@click.option(
    "--also",
    type=click.Choice(["specforge", "speculators"]),
    multiple=True,
    help="Write the map in the form that this trainer takes, too.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be chosen, and write nothing.")
@format_option("text", "json")
@color_option
def build(
    token_counts: str,
    size: int,
    target: str,
    out: str | None,
    force_ids: tuple[str, ...],
    order: str,
    also: tuple[str, ...],
    dry_run: bool,
    fmt: str,
    color: str,
) -> None:
    """Build a draft vocabulary for a training.

    Takes the N most frequent tokens, and in any case all special tokens that a chat writes, all end tokens, byte tokens
    and digits. Writes d2t, t2d and, from the target's weights, the rows of its head in the same order.
    """
    from ckptdoctor.jsontext import dumps
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.terminal.render import render_lines
    from ckptdoctor.report.vocab.build_report import built_lines
    from ckptdoctor.vocab.forced import read_ids
    from ckptdoctor.vocab.writing import build as build_vocab
    from ckptdoctor.vocab.writing import built_data

    if out is None and not dry_run:
        raise click.UsageError("--out NEW is missing: the new folder for the map (or --dry-run to see what is chosen)")
    ids = read_ids(force_ids)
    place = None if dry_run else out
    with _busy("counting tokens"):
        built = build_vocab(token_counts, size, target, place, force_ids=ids, order=order, also=also)
    surface = surface_for(sys.stdout, color)
    emit(dumps(built_data(built)) if fmt == "json" else render_lines(built_lines(built, out), surface))


@contextmanager
def _busy(what: str) -> Iterator[None]:
    """A moving bar with the time on a terminal's stderr, nothing elsewhere. A short job is over before it appears."""
    stderr: TextIO | None = sys.stderr  # None: closed by whoever started us
    if stderr is None or not stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bars.add_task(what, total=None)
        yield
