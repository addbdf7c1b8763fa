"""Writing a command's result to stdout, and the options that several commands share."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from ckptdoctor.errors import CannotExamineError

if TYPE_CHECKING:
    from ckptdoctor.policy import Policy

__all__ = [
    "PIPE_CLOSED",
    "color_option",
    "emit",
    "engines_option",
    "format_option",
    "judging_options",
    "launch_option",
    "output_option",
    "policy_option",
    "project_policy",
    "provenance_options",
    "rules_option",
    "selection_options",
    "target_option",
]

C = TypeVar("C", bound=Callable[..., Any])

PIPE_CLOSED = 141
"""What a shell reports for a program that a closed pipe ended (128 + SIGPIPE), as for `cat` and `grep`."""


def color_option(command: C) -> C:
    """`--color auto|always|never`."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colours in the text output; auto: on a terminal, unless NO_COLOR is set.",
    )(command)


def format_option(*names: str) -> Callable[[C], C]:
    """`--format`, with the first of `names` as the default."""
    return click.option(
        "--format",
        "fmt",
        type=click.Choice(names),
        default=names[0],
        show_default=True,
        help="Form of the output on stdout.",
    )


def target_option(command: C) -> C:
    """`--target PATH`."""
    return click.option(
        "--target", metavar="PATH", help="The model that the draft guesses for: its folder or config.json."
    )(command)


def launch_option(command: C) -> C:
    """`--launch LINE`."""
    return click.option(
        "--launch", metavar="LINE",
        help="The command that starts the server, in quotes, or a file with it (a script, or YAML or JSON options).",
    )(command)  # fmt: skip


def provenance_options(command: C) -> C:
    """`--trained-with TOOL` and `--captured-with ENGINE==RELEASE`."""
    command = click.option(
        "--captured-with",
        metavar="ENGINE==RELEASE",
        help="The release that ran the target of the training, where its way of counting layers decides.",
    )(command)
    return click.option(
        "--trained-with", metavar="TOOL", help="The trainer, where its way of counting layers decides."
    )(command)


def rules_option(command: C) -> C:
    """`--rules DIR`, given to the command as `rule_dirs`."""
    return click.option(
        "--rules",
        "rule_dirs",
        metavar="DIR",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="A folder with rules of your own; may be repeated.",
    )(command)


def engines_option(command: C) -> C:
    """`--engine NAME[==RELEASE]`, given to the command as `engines`."""
    return click.option(
        "--engine",
        "engines",
        metavar="NAME[==RELEASE]",
        multiple=True,
        help="Judge for this engine release (sglang==0.5.9, vllm, installed); may be repeated, or A,B.",
    )(command)


def selection_options(command: C) -> C:
    """`--select ID` and `--ignore ID`."""
    for name, words in (("--ignore", "Leave these rules out"), ("--select", "Judge these rules alone")):
        command = click.option(name, metavar="ID", multiple=True, help=f"{words}; may be repeated, or A,B.")(command)
    return command


def judging_options(command: C) -> C:
    """`--fail-on LEVEL`, `--policy FILE` (as `policy_file`) and `--baseline FILE`."""
    command = click.option(
        "--baseline",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Known findings, which do not count; only new ones do.",
    )(command)
    return click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "note", "never"]),
        help="Exit with 1 for a finding of this severity or worse. [default: the project file's word, else error]",
    )(policy_option(command))


def policy_option(command: C) -> C:
    """`--policy FILE`, given to the command as `policy_file`."""
    return click.option(
        "--policy",
        "policy_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="The project file to judge by. [default: ckptdoctor.toml here or above, up to the repository's root]",
    )(command)


def project_policy(path: Path | None) -> Policy:
    """The policy in `path`, else that of the project that the current folder belongs to. Raises `UsageError`."""
    from ckptdoctor.policy import NO_POLICY, find_project, load_policy

    if path is not None:
        return load_policy(path)
    try:
        here = Path.cwd()
    except OSError:  # the current folder was removed
        return NO_POLICY
    found = find_project(here)
    return load_policy(found) if found is not None else NO_POLICY


def output_option(command: C) -> C:
    """`--output FILE`."""
    return click.option(
        "--output",
        "-o",
        "output",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write the report to FILE and not to stdout: the whole of it, or nothing.",
    )(command)


def emit(text: str) -> None:
    """Write `text` to stdout at once: a full disk or a closed pipe is noticed here and not at exit."""
    try:
        _write_all(sys.stdout, text)
    except BrokenPipeError:
        _abandon_stdout()
        raise SystemExit(PIPE_CLOSED) from None
    except OSError as error:
        _abandon_stdout()
        raise CannotExamineError(f"the output could not be written: {error.strerror or error}") from error


def _write_all(stream: TextIO | None, text: str) -> None:
    if stream is None:  # closed by whoever started us
        return
    # Not `stream.write`: under PYTHONUNBUFFERED it loses what a partial write left over, without an error.
    stream.flush()
    data = memoryview(text.encode(stream.encoding, "backslashreplace"))
    while data:
        data = data[stream.buffer.write(data) or 0 :]
    stream.buffer.flush()


def _abandon_stdout() -> None:
    # Python flushes stdout once more at exit and would complain about the same error.
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
