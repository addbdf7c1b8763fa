"""`ckptdoctor scan`: examine drafts and report what was found."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptdoctor.cli.errors import say
from ckptdoctor.cli.output import (
    color_option,
    emit,
    engines_option,
    format_option,
    judging_options,
    launch_option,
    output_option,
    project_policy,
    provenance_options,
    rules_option,
    selection_options,
    target_option,
)
from ckptdoctor.cli.reading import reads_of
from ckptdoctor.text import plural, show

if TYPE_CHECKING:
    from ckptdoctor.findings import Report

__all__ = ["scan"]

_FOUND = 1
_FAILED = 3
_FORMATS = ("text", "json", "sarif", "junit", "github", "markdown", "html")


def _ids(values: Iterable[str]) -> list[str]:
    """The ids of a repeatable option whose values may be lists with commas."""
    return [word for value in values for part in value.split(",") if (word := part.strip())]


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@target_option
@format_option(*_FORMATS)
@output_option
@click.option(
    "--report",
    "reports",
    metavar="FORMAT=FILE",
    multiple=True,
    help="Write the report in this format to FILE, too; may be repeated.",
)
@rules_option
@engines_option
@launch_option
@provenance_options
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
@selection_options
@judging_options
@click.option(
    "--write-baseline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write all findings of now to FILE, a baseline for later scans.",
)
@color_option
@click.pass_context
def scan(
    ctx: click.Context,
    paths: tuple[str, ...],
    target: str | None,
    fmt: str,
    output: Path | None,
    reports: tuple[str, ...],
    rule_dirs: tuple[Path, ...],
    engines: tuple[str, ...],
    launch: str | None,
    trained_with: str | None,
    captured_with: str | None,
    token_counts: str | None,
    deep: bool,
    against: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    policy_file: Path | None,
    baseline: Path | None,
    write_baseline: Path | None,
    color: str,
) -> None:
    """Examine drafts and report what is wrong.

    PATH is the folder or a file of a draft. Nothing is changed, and without --deep no weights are read:
    only headers, configs and small tensors.
    """
    from dataclasses import replace

    from ckptdoctor import policy as policies
    from ckptdoctor.outputs import BASELINE, Output, check_places
    from ckptdoctor.report import capped, render, surface_for
    from ckptdoctor.report.reporters import check_format
    from ckptdoctor.report.wording import PATH_LIMIT, failure, total
    from ckptdoctor.scanning import scan_paths
    from ckptdoctor.whole_file import write_whole

    wanted = [_form(text) for text in reports]
    places = [Output("--report", place) for _, place in wanted]
    places += [Output("--output", output)] if output is not None else []
    places += [Output("--write-baseline", write_baseline, BASELINE)] if write_baseline is not None else []
    policy = project_policy(policy_file)
    level = fail_on or policy.fail_on
    known = baseline if baseline is not None else policy.baseline
    known = known if write_baseline is None else None  # all findings are written, whatever is known
    if places:
        reads = reads_of(
            paths, target=target, against=against, launch=launch, token_counts=token_counts, rules=rule_dirs,
            policy=policy, baseline=known,
        )  # fmt: skip
        check_places(places, reads)
    for form in {fmt, *(form for form, _ in wanted)}:
        check_format(form)
    with _reading() if policy.deep or deep or against is not None else nullcontext():
        examined = scan_paths(
            paths,
            target=target,
            rules=rule_dirs,
            select=_ids(select),
            ignore=_ids(ignore),
            engines=_ids(engines),
            launch=launch,
            trained_with=trained_with,
            captured_with=captured_with,
            token_counts=token_counts,
            deep=deep,
            against=against,
            policy=policy,
            baseline=policies.read_baseline(known) if known is not None else None,
            illustrated="html" in (fmt, *(form for form, _ in wanted)),
        )
    report = replace(capped(examined), fail_on=level)
    if places:
        check_places(places, reads)  # a scan takes its time, and a link may have come to one of the places
    for form, place in wanted:
        write_whole(place, render(report, form))
    if output is None:
        emit(render(report, fmt, surface_for(sys.stdout, color)))
    else:
        write_whole(output, render(report, fmt, surface_for(None, color)))
        say(f"{total(report)}; the report is in {show(output, PATH_LIMIT)}")
    if write_baseline is not None:
        count = policies.write_baseline(write_baseline, report.examinations)
        say(f"{plural(count, 'finding')} written to {show(write_baseline, PATH_LIMIT)}")
    if fmt != "text" or output is not None:
        for path, reason in report.failed:
            say(f"could not examine {show(path, PATH_LIMIT)}: {failure(path, reason)}")
    ctx.exit(_exit_code(report, level))


def _form(text: str) -> tuple[str, Path]:
    """The format and the file of `--report`. Raises a usage error for anything else."""
    form, mark, place = text.partition("=")
    if not mark or form not in _FORMATS or not place:
        raise click.UsageError(f"--report {show(text)}: say FORMAT=FILE with one of {', '.join(_FORMATS)}")
    return form, Path(place)


@contextmanager
def _reading() -> Iterator[None]:
    """A progress bar while weights are read."""
    from ckptdoctor.cli.progress import bar, reading

    with bar() as progress, reading(progress):
        yield


def _exit_code(report: Report, fail_on: str) -> int:
    """3 when a path could not be examined (the answer is not whole), else 1 for findings that count, else 0."""
    from ckptdoctor.policy import counts

    if report.failed:
        return _FAILED
    return _FOUND if counts(report, fail_on) else 0
