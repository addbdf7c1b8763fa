"""`ckptdoctor gate`: judge drafts where they are pushed or committed, and keep a bad one outside."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptdoctor.cli.errors import say
from ckptdoctor.cli.output import color_option, emit, format_option
from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.text import show

if TYPE_CHECKING:
    from ckptdoctor.findings import Report
    from ckptdoctor.policy import Policy
    from ckptdoctor.registry import Verdict
    from ckptdoctor.registry.git.commands import Repository
    from ckptdoctor.registry.git.layout import LfsObjects
    from ckptdoctor.registry.git.pushes import Judged, Update

__all__ = ["gate"]

_REFUSED = 1
_PATH_LIMIT = 1024

_policy_option = click.option(
    "--policy",
    "policy_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The project file to judge by. What is judged is never asked for one. [default: the one that was installed]",
)


@click.group()
def gate() -> None:
    """Judge drafts where they are pushed or committed.

    A draft with an error stays outside, and so does what cannot be examined. A warning passes with a note.
    """


@gate.command(short_help="Judge every push of this clone.")
@click.option(
    "--policy",
    "policy_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The project file to judge by; it is copied into the git folder, with the rules and the baseline it names.",
)
def install(policy_file: Path | None) -> None:
    """Put the gate in front of the pushes of this clone.

    It becomes the pre-push hook. A hook that is there already, such as that of git-lfs, runs after it and only when the
    push passes. Installing again changes nothing but what is new; without --policy an installed policy stays.
    """
    from ckptdoctor.policy.project import PROJECT_FILES
    from ckptdoctor.registry.git.commands import find_repository
    from ckptdoctor.registry.git.hooks import install as put

    repository = find_repository()
    done = put(repository, policy_file)
    say(f"{show(done.hook, _PATH_LIMIT)} now judges every push")
    say(f"by the policy in {show(done.policy, _PATH_LIMIT)}" if done.policy else "by the usual policy of gates")
    own = PROJECT_FILES[0]
    if done.policy is None and repository.top is not None and (repository.top / own).exists():
        say(f"{own} of the work tree is not followed, since a push could change it; install it with --policy {own}")
    for remark in done.remarks:
        say(remark)


@gate.command(short_help="Judge no pushes of this clone any more.")
def uninstall() -> None:
    """Take the gate away from this clone, and put back the hook that was there before."""
    from ckptdoctor.registry.git.commands import find_repository
    from ckptdoctor.registry.git.hooks import uninstall as take

    done = take(find_repository())
    for remark in done.remarks:
        say(remark)
    say("pushes of this clone are no longer judged")


@gate.command(short_help="Judge a push; for the hook that install writes.")
@click.option("--hook", type=click.Choice(["pre-push"]), required=True, help="The hook that calls.")
@_policy_option
@click.argument("remote", required=False)
@click.argument("url", required=False)
@click.pass_context
def run(ctx: click.Context, hook: str, policy_file: Path | None, remote: str | None, url: str | None) -> None:  # noqa: ARG001
    """Judge a push; the hook that `install` wrote calls this, with the refs on standard input."""
    from ckptdoctor.registry.git.pushes import pre_push_updates

    with _fails_closed("nothing was pushed. `git push --no-verify` skips all hooks"):
        repository = _repository()
        missing = f"is not in this clone; the remote may have it: git lfs fetch {show(remote or 'origin')}"
        lfs = _own_objects(repository, missing)
        refused = _judge(repository, pre_push_updates(_stdin()), _policy(repository, policy_file), lfs)
    if refused:
        say("nothing was pushed")
        ctx.exit(_REFUSED)


@gate.command("check-refs", short_help="Judge a push on the server, in a pre-receive hook.")
@_policy_option
@click.option(
    "--lfs-storage",
    "stores",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the server keeps the objects of git-lfs; may be repeated. [default: lfs/objects in the repository]",
)
@click.option(
    "--allow-missing-lfs",
    is_flag=True,
    help="Let objects of git-lfs pass that are not there. Nothing can be said of their drafts, and nothing is.",
)
@click.pass_context
def check_refs(ctx: click.Context, policy_file: Path | None, stores: tuple[Path, ...], allow_missing_lfs: bool) -> None:
    """Judge a push on the server that receives it: for a pre-receive hook, with `OLD NEW REF` lines on standard input.

    A clone's own hook can be skipped; this one cannot.
    """
    from ckptdoctor.registry.git.layout import LfsObjects
    from ckptdoctor.registry.git.pushes import receive_updates

    with _fails_closed("nothing was stored"):
        repository = _repository()
        lfs = _own_objects(repository, "is not in the storage of this server, so nothing can be said of the draft")
        lfs = LfsObjects((*stores, *lfs.stores), lfs.missing, allow_missing_lfs)
        refused = _judge(repository, receive_updates(_stdin()), _policy(repository, policy_file), lfs)
    if refused:
        say("nothing was stored")
        ctx.exit(_REFUSED)


@gate.command(short_help="Judge folders, or the next commit.")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--staged",
    is_flag=True,
    help="What the next commit would hold, whatever is in the work tree; in a pre-push stage of pre-commit, the commit"
    " that is pushed.",
)
@_policy_option
@format_option("text", "json", "sarif", "junit", "github", "markdown")
@color_option
@click.pass_context
def check(
    ctx: click.Context, paths: tuple[str, ...], staged: bool, policy_file: Path | None, fmt: str, color: str
) -> None:
    """Judge all drafts in the folders PATH as a gate does; with --staged those of the next commit."""
    from ckptdoctor.report import render, surface_for

    if bool(paths) == staged:
        raise click.UsageError("name the folders to judge, or --staged")
    verdicts = [_staged(policy_file)] if staged else _folders(paths, policy_file)
    emit(render(_together([verdict.report for verdict in verdicts]), fmt, surface_for(sys.stdout, color)))
    for verdict in verdicts:
        for reason in verdict.reasons:
            say(reason)
    if any(verdict.refused for verdict in verdicts):
        ctx.exit(_REFUSED)


def _folders(paths: Iterable[str], policy_file: Path | None) -> list[Verdict]:
    from ckptdoctor.checkpoint.folder import locate
    from ckptdoctor.registry import gate_policy, judge_tree

    policy = gate_policy(policy_file)
    folders = dict.fromkeys(locate(path)[0] for path in paths)  # of a file, the folder it is in
    return [judge_tree(folder, policy, str(folder)) for folder in folders]


def _staged(policy_file: Path | None) -> Verdict:
    """The verdict of the index; of the commit that is pushed where pre-commit says that this is a push."""
    from ckptdoctor.registry.git.pushes import Update, judge_index, judge_updates

    repository = _repository()
    policy = _policy(repository, policy_file)
    lfs = _own_objects(repository, "is not in this clone: git lfs fetch")
    pushed = os.environ.get("PRE_COMMIT_TO_REF") or os.environ.get("PRE_COMMIT_LOCAL_BRANCH")
    if not pushed:
        return judge_index(repository, policy, lfs)
    for judged in judge_updates(
        repository, [Update(os.environ.get("PRE_COMMIT_REMOTE_BRANCH", pushed), pushed)], policy, lfs
    ):
        if judged.verdict is not None:
            return judged.verdict
    raise CannotExamineError("there is nothing to judge")


def _repository() -> Repository:
    from ckptdoctor.registry.git.commands import find_repository

    return find_repository()


def _policy(repository: Repository, policy_file: Path | None) -> Policy:
    from ckptdoctor.registry import gate_policy
    from ckptdoctor.registry.git.policy import POLICY

    installed = repository.home / POLICY
    return gate_policy(policy_file, installed if installed.exists() else None)


def _own_objects(repository: Repository, missing: str) -> LfsObjects:
    from ckptdoctor.registry.git.layout import LfsObjects
    from ckptdoctor.registry.git.lfs import own_stores

    return LfsObjects(own_stores(repository), missing)


def _judge(repository: Repository, updates: Iterable[Update], policy: Policy, lfs: LfsObjects) -> bool:
    """Judge and tell; whether something is refused. The verdicts come last, where a person looks."""
    from ckptdoctor.registry.git.pushes import judge_updates

    refs: list[Judged] = []
    for judged in judge_updates(repository, updates, policy, lfs):
        refs.append(judged)
        if judged.verdict is not None and judged.first:
            _tell(judged.verdict)
    for judged in refs:
        say(judged.sentence)
    return any(judged.verdict is not None and judged.verdict.refused for judged in refs)


def _tell(verdict: Verdict) -> None:
    """The report on stderr, where it says more than the verdict."""
    from ckptdoctor.report import render, surface_for

    if verdict.outcome in ("refused", "warned"):
        text = render(verdict.report, "text", surface_for(sys.stderr))
        with suppress(OSError, ValueError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        return
    for remark in verdict.report.remarks:
        say(remark)


def _together(reports: list[Report]) -> Report:
    from dataclasses import replace

    whole = reports[0]
    for report in reports[1:]:
        whole = replace(
            whole,
            examinations=whole.examinations + report.examinations,
            failed=whole.failed + report.failed,
            remarks=tuple(dict.fromkeys(whole.remarks + report.remarks)),
            rules={**whole.rules, **report.rules},
        )
    return whole


def _stdin() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("the refs are read from standard input, as git gives them to a hook")
    return sys.stdin.buffer.read()


@contextmanager
def _fails_closed(then: str) -> Iterator[None]:
    """What goes wrong in a gate refuses too; the person is told `then` in any case."""
    try:
        yield
    except BaseException:
        say(f"the push could not be judged, so it is refused: {then}")
        raise
