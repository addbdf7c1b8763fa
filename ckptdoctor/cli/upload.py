"""`ckptdoctor upload`: examine a folder, and send it to the Hub if it may pass."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from ckptdoctor.cli.errors import say
from ckptdoctor.cli.output import color_option, emit, format_option, target_option
from ckptdoctor.text import show

__all__ = ["upload"]

_REFUSED = 1


@click.command()
@click.argument("path", metavar="PATH")
@click.argument("repo", metavar="ORG/NAME")
@click.option(
    "--policy",
    "policy_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The project file to judge by; one in PATH is never followed. [default: the rules alone]",
)
@target_option
@click.option(
    "--engine",
    "engines",
    metavar="NAME[==RELEASE]",
    multiple=True,
    help="Judge for this engine release (sglang==0.5.9, vllm, installed); may be repeated, or A,B.",
)
@click.option("--private", is_flag=True, help="Make the repository private, where it is a new one.")
@click.option("--revision", metavar="BRANCH", help="The branch to commit to. [default: main]")
@click.option("--message", metavar="TEXT", help="The message of the commit.")
@click.option("--create-pr", is_flag=True, help="Open a pull request instead of committing.")
@click.option("--dry-run", is_flag=True, help="Judge alone; nothing is asked of the Hub.")
@format_option("text", "json", "sarif", "junit", "github", "markdown")
@color_option
@click.pass_context
def upload(
    ctx: click.Context,
    path: str,
    repo: str,
    policy_file: Path | None,
    target: str | None,
    engines: tuple[str, ...],
    private: bool,
    revision: str | None,
    message: str | None,
    create_pr: bool,
    dry_run: bool,
    fmt: str,
    color: str,
) -> None:
    """Examine drafts, and upload those that may pass.

    The folder PATH goes to the repository ORG/NAME of the Hugging Face Hub; all drafts in it are judged. A private copy
    is examined and sent, so that what arrives is what was examined. With errors nothing is asked of the Hub: the report
    is printed, and the exit code is 1. With warnings it is sent, and the report says them.
    """
    from ckptdoctor.checkpoint.hub_errors import need_hub
    from ckptdoctor.registry.gate import gate_policy
    from ckptdoctor.registry.hub.judging import judged_folder
    from ckptdoctor.registry.hub.upload import Upload, send
    from ckptdoctor.report import capped, render, surface_for

    if not dry_run:
        need_hub()
    _check_name(repo)
    policy = gate_policy(policy_file)
    named = tuple(word for value in engines for part in value.split(",") if (word := part.strip()))
    policy = replace(policy, target=target or policy.target, engines=named or policy.engines)
    with judged_folder(path, policy) as (folder, verdict):
        emit(render(capped(verdict.report), fmt, surface_for(sys.stdout, color)))
        if verdict.refused:
            say(f"{show(path)} {_was(verdict.sentence)}; nothing was uploaded")
            ctx.exit(_REFUSED)
        if dry_run:
            say(f"{show(path)} {verdict.sentence}; nothing was uploaded (--dry-run)")
            return
        sent = send(folder, Upload(repo, revision, private or None, message, create_pr))
    say(f"{show(path)} {verdict.sentence}; uploaded: {show(sent.pull_request or sent.commit, 400)}")


def _was(sentence: str) -> str:
    return f"was {sentence}" if sentence.startswith("refused") else sentence


def _check_name(repo: str) -> None:
    owner, slash, name = repo.partition("/")
    if not slash or not owner or not name or "/" in name or ":" in repo:
        raise click.UsageError(f"{show(repo)}: repositories of the Hub are named ORG/NAME")
