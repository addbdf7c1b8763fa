"""The command group and the entry point. Imports click and nothing heavier, so that `--help` is quick."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ckptdoctor.cli.acceptance import acceptance
from ckptdoctor.cli.audit import audit
from ckptdoctor.cli.compat import compat
from ckptdoctor.cli.engines import engines
from ckptdoctor.cli.errors import handle
from ckptdoctor.cli.explain import explain
from ckptdoctor.cli.fix import fix
from ckptdoctor.cli.gate import gate
from ckptdoctor.cli.output import PIPE_CLOSED
from ckptdoctor.cli.plan import plan
from ckptdoctor.cli.probe import probe
from ckptdoctor.cli.rules import rules
from ckptdoctor.cli.scan import scan
from ckptdoctor.cli.upload import upload
from ckptdoctor.cli.vocab import vocab

__all__ = ["main", "run"]


class _Commands(click.Group):
    """A group that knows what a person meant by a word that is no command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` begin with, or a usage error with a suggestion."""
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            if _looks_like_path(word):
                ctx.fail(f"{word!r} is no command; did you mean: ckptdoctor scan {shlex.join(args)}")
            close = difflib.get_close_matches(word, self.list_commands(ctx), n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            ctx.fail(f"there is no command {word!r}{hint}")
        return super().resolve_command(ctx, args)


def _looks_like_path(word: str) -> bool:
    if "/" in word:  # hf:// URLs too
        return True
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from ckptdoctor.version import __version__

        click.echo(f"ckptdoctor {__version__}")
        ctx.exit()


@click.group(cls=_Commands, invoke_without_command=True)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Check the draft models of speculative decoding.

    A wrong draft rarely raises an error: the server starts, answers stay correct, and the accepted length
    falls to 1.0. Begin with `ckptdoctor scan PATH`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


for _command in (scan, fix, plan, compat, vocab, probe, acceptance, gate, upload, audit, explain, rules, engines):
    main.add_command(_command)


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit code; the entry point of the installed command."""
    words = list(sys.argv[1:] if args is None else args)
    _occupy_standard_descriptors()
    _print_anything()
    stdout = sys.stdout
    try:
        # Without standalone mode click returns what `ctx.exit` was given, or the command's own None.
        code: object = main.main(words, prog_name="ckptdoctor", standalone_mode=False)
    except SystemExit as end:
        # Where click itself meets a closed pipe (`--help | true`) it wraps stdout and exits with 1; to us,
        # that would mean findings.
        code = end.code if sys.stdout is stdout else PIPE_CLOSED
    except BaseException as error:  # noqa: BLE001  # the last place that can turn it into a sentence
        return handle(error, words)
    return code if isinstance(code, int) else 0


def _occupy_standard_descriptors() -> None:
    # A standard stream that was closed leaves its number free: a file that we write would get it, and whatever a
    # library prints would land in that file.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)


def _print_anything() -> None:
    # An ASCII terminal shows an escape for what it cannot print, rather than stopping the run.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError, ValueError):
                stream.reconfigure(errors="backslashreplace")
