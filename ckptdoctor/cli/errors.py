"""What ends a run early: one sentence on stderr, the right exit code, and for an error of ours a log file."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence

import click

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.text import show

__all__ = ["INTERNAL_ERROR", "INTERRUPTED", "handle", "say"]

INTERNAL_ERROR = 4
INTERRUPTED = 130

_LINE_LIMIT = 4096


def say(text: str) -> None:
    """One message on stderr. What it quotes may come from a file, so every line is made harmless."""
    # With stderr closed or full there is nobody left to tell; the exit code still speaks.
    with contextlib.suppress(OSError, ValueError):
        for number, line in enumerate(text.splitlines() or [""]):
            click.echo(("ckptdoctor: " if number == 0 else "  ") + show(line.strip(), _LINE_LIMIT), err=True)


def handle(error: BaseException, args: Sequence[str]) -> int:
    """Tell `error` to the person and give the exit code."""
    if isinstance(error, click.Abort) and isinstance(error.__cause__, EOFError):
        # click takes every EOFError for Ctrl-D at a prompt, and there are no prompts here.
        error = error.__cause__
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        say("interrupted")
        return INTERRUPTED
    if isinstance(error, CkptdoctorError):
        say(str(error))
        return error.exit_code
    if isinstance(error, click.ClickException):
        return _usage(error)
    return _unexpected(error, args)


def _usage(error: click.ClickException) -> int:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if isinstance(context, click.Context):
        message = f"{message}\nTry `{context.command_path} --help`."
    say(message)
    return error.exit_code


def _unexpected(error: BaseException, args: Sequence[str]) -> int:
    kind = type(error).__name__
    try:
        path = _write_log(error, args)
    except OSError as failure:
        say(f"an error of ckptdoctor's own ({kind}: {error}); no log could be written: {failure}")
    else:
        say(f"an error of ckptdoctor's own ({kind}); a log ready to paste into a report is at {path}")
    return INTERNAL_ERROR


def _write_log(error: BaseException, args: Sequence[str]) -> str:
    # mkstemp makes the file readable for its owner alone: the command line and the traceback hold paths.
    descriptor, path = tempfile.mkstemp(prefix="ckptdoctor-error-", suffix=".log")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(_log_text(error, args))
    return path


def _log_text(error: BaseException, args: Sequence[str]) -> str:
    trace = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(
        [
            f"ckptdoctor {_version()}",
            f"python     {show(sys.version, _LINE_LIMIT)}",
            f"platform   {platform.platform()}",
            f"command    {show(shlex.join(['ckptdoctor', *args]), _LINE_LIMIT)}",
            "",
            "```",
            *(show(line, _LINE_LIMIT) for line in trace),
            "```",
            "",
        ]
    )


def _version() -> str:
    from ckptdoctor.version import __version__

    return __version__
