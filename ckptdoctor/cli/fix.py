"""`ckptdoctor fix`: a repaired copy, or what it would be; and the way back."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ckptdoctor.cli.output import (
    color_option,
    emit,
    format_option,
    launch_option,
    provenance_options,
    rules_option,
    target_option,
)
from ckptdoctor.cli.progress import bar, reading

__all__ = ["fix"]

_FOUND = 1


@click.command()
@click.argument("path")
@click.option("--out", metavar="NEW", help="The new folder that the copy goes to. It must not exist, or be empty.")
@target_option
@click.option(
    "--engine",
    "engines",
    metavar="NAME[==RELEASE]",
    multiple=True,
    help="An engine release that the copy is to be good for.",
)
@launch_option
@provenance_options
@click.option("--deep", is_flag=True, help="Read values of weights too, where they decide what a map means.")
@click.option("--unsafe", is_flag=True, help="Also make repairs that rest on an assumption about the training.")
@click.option(
    "--select", metavar="RULE|TREATMENT", multiple=True, help="Make only these repairs; may be repeated, or A,B."
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and write nothing.")
@click.option("--undo", is_flag=True, help="PATH is a repaired copy: rebuild the original from it and its receipt.")
@click.option(
    "--digests", is_flag=True, help="SHA-256 of large files too in the receipt; this takes longer than copying."
)
@rules_option
@format_option("text", "json")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    default="error",
    show_default=True,
    help="Exit with 1 when something of this severity or worse remains.",
)
@color_option
@click.pass_context
def fix(
    ctx: click.Context,
    path: str,
    out: str | None,
    target: str | None,
    engines: tuple[str, ...],
    launch: str | None,
    trained_with: str | None,
    captured_with: str | None,
    deep: bool,
    unsafe: bool,
    select: tuple[str, ...],
    dry_run: bool,
    undo: bool,
    digests: bool,
    rule_dirs: tuple[Path, ...],
    fmt: str,
    fail_on: str,
    color: str,
) -> None:
    """Write a repaired copy of a draft.

    PATH is the folder of the draft, which is only read. The copy appears whole, verified and with a receipt, or not at
    all. Repairs that rest on an assumption about the training need --unsafe.
    """
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.fix.as_json import fix_text
    from ckptdoctor.report.fix.as_text import fix_lines
    from ckptdoctor.report.terminal.render import render_lines

    surface = surface_for(sys.stdout, color)
    if undo:
        _undo(
            path,
            out,
            fmt,
            color,
            _given(target, engines, launch, trained_with, captured_with, deep, unsafe, select, dry_run),
        )
        return
    if out is None and not dry_run:
        raise click.UsageError(
            "--out NEW is missing: the folder that the copy goes to (or --dry-run to see the plan)", ctx
        )
    from ckptdoctor.repair.fixing import fix as repair

    with bar() as progress, reading(progress):
        outcome = repair(
            path,
            out,
            target=target,
            engines=_words(engines),
            launch=launch,
            trained_with=trained_with,
            captured_with=captured_with,
            rules=rule_dirs,
            deep=deep,
            unsafe=unsafe,
            select=_words(select),
            dry_run=dry_run,
            digests=digests,
            progress=progress,
        )
    text = fix_text(outcome, out) if fmt == "json" else render_lines(fix_lines(outcome, out, target), surface)
    _tell(text, outcome.out)
    from ckptdoctor.findings import Severity

    if fail_on != "never":
        level = Severity(fail_on).rank
        ctx.exit(_FOUND if any(f.severity.rank >= level for f in outcome.remaining) else 0)


def _undo(path: str, out: str | None, fmt: str, color: str, others: tuple[str, ...]) -> None:
    from ckptdoctor.errors import UsageError
    from ckptdoctor.repair.undo import undo
    from ckptdoctor.report import surface_for
    from ckptdoctor.report.fix.as_json import undo_text
    from ckptdoctor.report.fix.as_text import undo_lines
    from ckptdoctor.report.terminal.render import render_lines

    if others:
        raise UsageError(f"--undo goes by the receipt alone and takes no {others[0]}")
    if out is None:
        raise UsageError("--out OLD is missing: the new folder that the original goes to")
    with bar() as progress:
        restored = undo(path, out, progress=progress)
    lines = undo_text(restored) if fmt == "json" else render_lines(undo_lines(restored), surface_for(sys.stdout, color))
    _tell(lines, restored.out)


def _tell(text: str, out: str | Path | None) -> None:
    """Emit the report. Where that fails, what was published at `out` is there all the same, and that has to be said."""
    from ckptdoctor.errors import CannotExamineError
    from ckptdoctor.text import show

    try:
        emit(text)
    except CannotExamineError as error:
        if out is None:
            raise
        raise CannotExamineError(f"{error}; what was to be written is at {show(out)}, whole and verified") from None


def _given(
    target: str | None,
    engines: tuple[str, ...],
    launch: str | None,
    trained_with: str | None,
    captured_with: str | None,
    deep: bool,
    unsafe: bool,
    select: tuple[str, ...],
    dry_run: bool,
) -> tuple[str, ...]:
    options = {
        "--target": target, "--engine": engines, "--launch": launch, "--trained-with": trained_with,
        "--captured-with": captured_with, "--deep": deep, "--unsafe": unsafe, "--select": select, "--dry-run": dry_run,
    }  # fmt: skip
    return tuple(name for name, value in options.items() if value)


def _words(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())
