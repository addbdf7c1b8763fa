"""`ckptdoctor scan`: examine drafts and report what was found."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptdoctor.cli.errors import say
from ckptdoctor.cli.output import color_option, emit, format_option, launch_option, rules_option, target_option
from ckptdoctor.text import show

if TYPE_CHECKING:
    from ckptdoctor.findings import Report

__all__ = ["scan"]

_FOUND = 1
_FAILED = 3


def _ids(values: Iterable[str]) -> list[str]:
    """The ids of a repeatable option whose values may be lists with commas."""
    return [word for value in values for part in value.split(",") if (word := part.strip())]


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@target_option
@format_option("text", "json")
@rules_option
@click.option(
    "--engine",
    "engines",
    metavar="NAME[==RELEASE]",
    multiple=True,
    help="Judge for this engine release (sglang==0.5.9, vllm, installed); may be repeated, or A,B.",
)
@launch_option
@click.option(
    "--token-counts",
    metavar="FILE",
    help="Counts of tokens, token ids or text (.pt, .json, .npy, .parquet, .arrow, .jsonl, or a folder of shards):"
    " how much of it the draft can propose.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="Read values of weights too: signs that they are not what training produced, the head against the target's.",
)
@click.option(
    "--against",
    metavar="OLD",
    help="Another copy of the draft (before conversion, the last release), or the model it was made from: what is"
    " bit for bit the same, and what differs. Reads values, as --deep.",
)
@click.option("--select", metavar="ID", multiple=True, help="Judge these rules alone; may be repeated, or A,B.")
@click.option("--ignore", metavar="ID", multiple=True, help="Leave these rules out; may be repeated, or A,B.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 for a finding of this severity or worse.",
)
@color_option
@click.pass_context
def scan(
    ctx: click.Context,
    paths: tuple[str, ...],
    target: str | None,
    fmt: str,
    rule_dirs: tuple[Path, ...],
    engines: tuple[str, ...],
    launch: str | None,
    token_counts: str | None,
    deep: bool,
    against: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str,
    color: str,
) -> None:
    """Examine drafts and report what is wrong.

    PATH is the folder or a file of a draft. Nothing is changed, and without --deep no weights are read:
    only headers, configs and small tensors.
    """
    from ckptdoctor.examining import examine_paths
    from ckptdoctor.report import capped, render, surface_for
    from ckptdoctor.report.wording import PATH_LIMIT, failure

    with _reading() if deep or against is not None else nullcontext():
        examined = examine_paths(
            paths,
            target=target,
            rules=rule_dirs,
            select=_ids(select),
            ignore=_ids(ignore),
            engines=_ids(engines),
            launch=launch,
            token_counts=token_counts,
            deep=deep,
            against=against,
        )
    report = capped(examined)
    emit(render(report, fmt, surface_for(sys.stdout, color)))
    if fmt != "text":
        for path, reason in report.failed:
            say(f"could not examine {show(path, PATH_LIMIT)}: {failure(path, reason)}")
    ctx.exit(_exit_code(report, fail_on))


@contextmanager
def _reading() -> Iterator[None]:
    """A progress bar while weights are read."""
    from ckptdoctor.cli.progress import bar, reading

    with bar() as progress, reading(progress):
        yield


def _exit_code(report: Report, fail_on: str) -> int:
    """3 when a path could not be examined (the answer is not whole), else 1 for findings that count, else 0."""
    from ckptdoctor.findings import Severity

    if report.failed:
        return _FAILED
    if fail_on == "never":
        return 0
    level = Severity(fail_on).rank
    return _FOUND if any(report.count(s) for s in Severity if s.rank >= level) else 0
