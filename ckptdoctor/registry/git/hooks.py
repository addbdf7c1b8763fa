"""The pre-push hook of a clone: put there in front of what was there before, and taken away again."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.registry.git.commands import Repository
from ckptdoctor.registry.git.policy import POLICY, install_policy
from ckptdoctor.text import show

__all__ = ["BEFORE", "HOOK", "Installed", "install", "uninstall"]

HOOK = "pre-push"
BEFORE = f"{HOOK}.before-ckptdoctor"
_MARK = "# The gate of ckptdoctor"

# One text for every repository: a folder of hooks may be shared (core.hooksPath), and each repository has its own
# Python and policy. What is not installed in a repository is passed by.
_SCRIPT = f"""#!/bin/sh
{_MARK}, written by `ckptdoctor gate install`; `ckptdoctor gate uninstall` takes it away.
# It judges the commits of a push before anything is sent. When they pass it runs the hook that was here before
# (git-lfs's own, for example, which uploads the objects), with the same arguments and the same standard input.
common=$(git rev-parse --git-common-dir) || exit 1
refs=$(cat && printf x) || exit 1
refs=${{refs%x}}
if [ -d "$common/ckptdoctor" ]; then
    if [ ! -r "$common/ckptdoctor/judge" ]; then
        echo >&2 "ckptdoctor: the gate of this repository is damaged, so nothing was pushed."
        echo >&2 "  Run \\`ckptdoctor gate install\\` here again."
        exit 1
    fi
    printf '%s' "$refs" | /bin/sh "$common/ckptdoctor/judge" "$@" || exit 1
fi
before=$(dirname -- "$0")/{BEFORE}
[ -x "$before" ] || exit 0
printf '%s' "$refs" | "$before" "$@"
"""

_JUDGE = """#!/bin/sh
# Called by the hook of ckptdoctor, with the remote's name and its URL.
python={python}
if [ ! -x "$python" ]; then
    echo >&2 "ckptdoctor: the gate cannot run, so nothing was pushed: $python is not there any more."
    echo >&2 "  Install ckptdoctor again and run \\`ckptdoctor gate install\\` here."
    echo >&2 "  \\`git push --no-verify\\` skips all hooks."
    exit 1
fi
exec "$python" {start} gate run --hook pre-push -- "$@"
"""

# Not `python -m`: that would look for modules in the work tree first, and a commit could bring some.
_START = """import os
import sys

not_from = (os.getcwd(), os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = [place for place in sys.path if place and os.path.abspath(place) not in not_from]
sys.path.append({package!r})

from ckptdoctor.cli.main import run

sys.exit(run())
"""


@dataclass(frozen=True)
class Installed:
    """What was done: the hook, the policy that counts (None: the usual one), and what a person should know."""

    hook: Path
    policy: Path | None
    remarks: tuple[str, ...] = ()


def install(repository: Repository, policy: Path | None) -> Installed:
    """Put the hook into `repository`, or make it new. A hook that is there already runs after it.

    With `policy` that file is copied into the git folder; without, a copy made earlier stays. Raises `UsageError` for a
    policy that cannot be read, `CannotExamineError` when something cannot be written.
    """
    home, remarks = repository.home, []
    if "\n" in str(repository.hooks) + str(repository.common):
        raise CannotExamineError("a path with a line end in it is none that a hook can be put into")
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        if policy is not None:
            install_policy(policy, home)
        start = home / "start.py"
        start.write_text(_START.format(package=str(Path(__file__).resolve().parents[3])), encoding="utf-8")
        words = {"python": shlex.quote(sys.executable), "start": '"${0%/*}/start.py"'}
        (home / "judge").write_text(_JUDGE.format(**words), encoding="utf-8")
        repository.hooks.mkdir(parents=True, exist_ok=True)
        remarks += _put_first(repository.hooks)
    except (OSError, UnicodeEncodeError) as error:
        raise CannotExamineError(f"the hook cannot be installed ({_reason(error)})") from None
    own = home / POLICY
    remarks += _remarks(repository)
    return Installed(repository.hooks / HOOK, own if own.exists() else None, tuple(remarks))


def uninstall(repository: Repository) -> Installed:
    """Take the hook away and put back what was there before. Raises `CannotExamineError` when that cannot be done."""
    hook, before, remarks = repository.hooks / HOOK, repository.hooks / BEFORE, []
    try:
        if not _ours(hook):
            if not repository.home.is_dir():
                raise CannotExamineError(f"{show(hook)}: there is no gate of ckptdoctor here")
            remarks.append(f"{show(hook)} is not the gate's any more; it stays as it is.")
            if before.exists():
                remarks.append(f"The hook that the gate kept is still at {show(before)}.")
        elif _shared(repository):
            remarks.append(
                f"{show(hook)} stays, since other repositories may use it; it passes this one by from now on."
            )
        elif before.exists() or before.is_symlink():
            before.replace(hook)
        else:
            hook.unlink()
        shutil.rmtree(repository.home, ignore_errors=False)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CannotExamineError(f"the hook cannot be taken away ({_reason(error)})") from None
    return Installed(hook, None, tuple(remarks))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{show(error.filename)}: {show(error.strerror)}" if error.filename else show(error.strerror)
    return show(error)


def _put_first(hooks: Path) -> list[str]:
    """The hook in place, and the one that was there under another name; what is to be said of it."""
    hook, before, remarks = hooks / HOOK, hooks / BEFORE, []
    if not _ours(hook) and (hook.exists() or hook.is_symlink()):
        if before.exists() or before.is_symlink():
            number = next(n for n in range(1, 1000) if not (hooks / f"{BEFORE}.{n}").exists())
            before.rename(hooks / f"{BEFORE}.{number}")
            remarks.append(
                f"{show(hook)} was written by somebody else since, and runs after the gate from now on;"
                f" the hook from before that is kept as {BEFORE}.{number} and does not run."
            )
        hook.rename(before)
    part = hooks / f".{HOOK}.{os.getpid()}.part"
    try:
        part.write_text(_SCRIPT, encoding="utf-8")
        part.chmod(0o755)
        part.replace(hook)
    finally:
        part.unlink(missing_ok=True)
    return remarks


def _ours(hook: Path) -> bool:
    try:
        return _MARK.encode() in hook.read_bytes()[:400]
    except OSError:
        return False


def _shared(repository: Repository) -> bool:
    """Whether the folder of hooks belongs to more than this repository."""
    real = repository.hooks.resolve()
    places = [repository.common, *([repository.top.resolve()] if repository.top is not None else [])]
    return not any(real.is_relative_to(place) for place in places)


def _remarks(repository: Repository) -> list[str]:
    remarks = []
    if _shared(repository):
        remarks.append(
            f"{show(repository.hooks)} is a folder of hooks that other repositories may share; in those the hook does"
            " nothing of its own until the gate is installed there too."
        )
    if (repository.common / "lfs").is_dir() and not _runs_lfs(repository.hooks / BEFORE):
        remarks.append(
            "This clone uses git-lfs, but git-lfs's pre-push hook, which uploads the objects, is not among those that"
            " run after the gate. If it should: ckptdoctor gate uninstall, git lfs install --local, and install the"
            " gate again."
        )
    return remarks


def _runs_lfs(hook: Path) -> bool:
    try:
        # pre-commit and other managers keep hooks under names of their own, and call them.
        return any(b"lfs" in path.read_bytes()[:65536] for path in hook.parent.glob(f"{HOOK}*") if not _ours(path))
    except OSError:
        return False
