"""`ckptdoctor audit`: scan every draft of a tree or an organisation."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
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
    project_policy,
    rules_option,
    selection_options,
    target_option,
)
from ckptdoctor.cli.scan import _ids
from ckptdoctor.errors import UsageError
from ckptdoctor.text import show

if TYPE_CHECKING:
    from ckptdoctor.audit.auditing import Options
    from ckptdoctor.audit.roots import Root
    from ckptdoctor.audit.summary import Summary
    from ckptdoctor.audit.work import Setup

__all__ = ["audit"]

_FOUND = 1
_FAILED = 3


@click.command()
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True)
@target_option
@format_option("text", "jsonl", "html")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Keep the results in DIR/results.jsonl. Started again, the audit scans only what is left or has changed.",
)
@click.option("--jobs", metavar="N", type=click.IntRange(1, 1024), help="Drafts at once. [default: one for each core]")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 86400.0 * 7),
    default=300.0,
    show_default=True,
    help="A draft that takes longer is ended and reported.",
)
@click.option("--fresh", is_flag=True, help="Forget the results in DIR and scan all.")
@click.option("--retry", is_flag=True, help="Scan those again that could not be examined the last time.")
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Scan on the Ray cluster there (auto, HOST:PORT, ray://HOST:10001). It must see the same paths.",
)
@click.option(
    "--folders",
    metavar="N",
    type=click.IntRange(1),
    default=5_000_000,
    show_default=True,
    help="Refuse a tree of more folders than this.",
)
@rules_option
@engines_option
@launch_option
@click.option("--deep", is_flag=True, help="Read values of weights too. Only of files on this machine.")
@selection_options
@judging_options
@color_option
@click.pass_context
def audit(
    ctx: click.Context,
    roots: tuple[str, ...],
    target: str | None,
    fmt: str,
    out: Path | None,
    jobs: int | None,
    timeout: float,
    fresh: bool,
    retry: bool,
    ray: str | None,
    folders: int,
    rule_dirs: tuple[Path, ...],
    engines: tuple[str, ...],
    launch: str | None,
    deep: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    policy_file: Path | None,
    baseline: Path | None,
    color: str,
) -> None:
    """Scan every draft in folders or organisations, many at once.

    ROOT is a folder, hf://ORGANISATION, hf://ORG/NAME or any address that fsspec reaches (s3://BUCKET/FOLDER). The
    ordinary models that lie there are the targets of the drafts that name or fit them. Nothing is changed.
    """
    from ckptdoctor.audit.auditing import Options
    from ckptdoctor.audit.roots import roots_of
    from ckptdoctor.audit.setup import setup_for

    policy = project_policy(policy_file)
    trees = roots_of(roots)
    setup = setup_for(
        policy,
        baseline,
        rules=rule_dirs,
        select=_ids(select),
        ignore=_ids(ignore),
        engines=_ids(engines),
        launch=launch,
        deep=deep,
        target=target,
        today=date.today(),
    )
    if setup.deep and any(tree.kind != "local" for tree in trees):
        raise UsageError("--deep reads values of weights, which is done for files on this machine alone")
    if out is None and (fresh or retry):
        raise UsageError("--fresh and --retry are about the results of an earlier audit: name its --out DIR")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options = Options(jobs or cores, out, timeout, folders, fresh, retry, ray)
    summary = replace(_audited(trees, setup, options, fmt, color), fail_on=fail_on or policy.fail_on)
    code = _FAILED if summary.failed else _FOUND if summary.counted() else 0
    if summary.stuck:
        # A worker that waits for a disk for ever would keep this process from ending, too.
        sys.stdout.flush()
        os._exit(code)
    ctx.exit(code)


def _audited(trees: Sequence[Root], setup: Setup, options: Options, fmt: str, color: str) -> Summary:
    """Do the audit and write its summary. Raises `CkptdoctorError`."""
    from ckptdoctor.audit.auditing import audit as run
    from ckptdoctor.audit.progress import watching
    from ckptdoctor.audit.state import RESULTS
    from ckptdoctor.audit.summary_html import need_jinja, render_html
    from ckptdoctor.audit.summary_text import headline, render_text
    from ckptdoctor.report import surface_for

    if fmt == "html":
        need_jinja()
    try:
        with watching() as watch:
            summary = run(trees, setup, options, watch, _emit_row if fmt == "jsonl" else None)
    except KeyboardInterrupt:
        if options.out is not None:
            say(f"what is done is kept in {show(options.out, 4096)}; the same command goes on from there")
        raise
    if fmt == "jsonl":
        emit(json.dumps(summary.as_data()) + "\n")
    else:
        emit(render_html(summary) if fmt == "html" else render_text(summary, surface_for(sys.stdout, color)))
    if fmt != "text" or options.out is not None:
        kept = f"; all results are in {show(options.out / RESULTS, 4096)}" if options.out is not None else ""
        say(f"{headline(summary)}{kept}")
    return summary


def _emit_row(line: bytes) -> None:
    emit(line.decode("ascii"))
