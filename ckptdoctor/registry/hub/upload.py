"""Uploads to the Hub: judged first, and sent exactly as judged.

`upload` sends a folder; `guarded` gives an `HfApi` that judges whatever it is asked to commit; `guard` and
`guarded_argument` put the judgement around code that uploads by other means.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ckptdoctor.checkpoint.hub_errors import hub_problems, need_hub, transport_errors
from ckptdoctor.checkpoint.remote import RemoteError
from ckptdoctor.errors import UsageError
from ckptdoctor.policy import Policy
from ckptdoctor.registry.gate import gate_policy
from ckptdoctor.registry.hub.judging import RefusedUploadError, judged_folder
from ckptdoctor.text import show
from ckptdoctor.version import __version__

__all__ = ["Sent", "Upload", "guard", "guarded", "guarded_argument", "send"]

F = TypeVar("F", bound=Callable[..., Any])

_NEVER_SENT = frozenset({".git", ".cache"})


@dataclass(frozen=True)
class Upload:
    """Where a folder goes: `repo` is `org/name`; `revision` a branch; `private` holds for a repository that is new."""

    repo: str
    revision: str | None = None
    private: bool | None = None
    message: str | None = None
    create_pr: bool = False


@dataclass(frozen=True)
class Sent:
    """What the Hub made of it: the address of the commit, and of the pull request if one was asked for."""

    commit: str
    pull_request: str | None


def send(folder: Path, upload: Upload) -> Sent:
    """Send all files of `folder`, which nobody changes any more, to the Hub in one commit. Nothing is judged here.

    The repository is created where there is none. Raises `RemoteError`.
    """
    hub = need_hub()
    told = f"hf://{show(upload.repo)}"
    additions = [
        hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=str(folder / name)) for name in _to_send(folder)
    ]
    if not additions:
        raise UsageError(f"{told}: there is nothing to upload")
    client = hub.HfApi(library_name="ckptdoctor", library_version=__version__)
    with hub_problems(told, upload.repo, upload.revision), _client_words(told):
        client.create_repo(upload.repo, private=upload.private, exist_ok=True)
        done = client.create_commit(
            upload.repo,
            additions,
            commit_message=upload.message or "Upload a draft that ckptdoctor has examined",
            revision=upload.revision,
            create_pr=upload.create_pr,
        )
    return Sent(str(done.commit_url), done.pr_url)


@contextmanager
def guard(path: str | Path, policy: Policy | str | Path | None = None) -> Iterator[Path]:
    """`with guard(folder) as copy:` judges `folder` first; the body uploads `copy`, which is what was judged.

    Raises `RefusedUploadError` before the body runs. `policy` is a policy, the path of a project file, or None: then it
    is judged by the rules alone, and never by a project file in `folder`.
    """
    with judged_folder(path, _policy(policy)) as (copy, verdict):
        if verdict.refused:
            raise RefusedUploadError(verdict)
        yield copy


def guarded_argument(name: str, policy: Policy | str | Path | None = None) -> Callable[[F], F]:
    """A decorator for functions that upload the folder in their argument `name`: they get the judged copy in its place.

    A refused folder raises `RefusedUploadError`, and the function is not called.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        if name not in signature.parameters:
            raise UsageError(f"{show(getattr(function, '__qualname__', function))} has no argument {show(name)}")

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            with guard(bound.arguments[name], policy) as copy:
                bound.arguments[name] = type(bound.arguments[name])(copy)
                return function(*bound.args, **bound.kwargs)

        return wrapped  # type: ignore[return-value]

    return decorate


def guarded(api: Any = None, policy: Policy | str | Path | None = None) -> Any:
    """An `HfApi` like `api` (default: a new one) that judges every draft in what it is asked to commit.

    `upload_file`, `upload_folder`, `upload_large_folder`, `create_commit` and what is built on them (deleting files,
    `CommitScheduler`) raise `RefusedUploadError` where a draft would not pass, with nothing sent; else they send the
    copies that were judged. A commit that changes a part of a draft is judged together with the rest of it, which is
    read from the Hub by its headers. All other methods are those of `api`.
    """
    hub = need_hub()
    from ckptdoctor.registry.hub.api import guarded_class

    inner = api if api is not None else hub.HfApi()
    kind: Any = type(inner)
    return guarded_class(kind)(inner, _policy(policy))


def _policy(policy: Policy | str | Path | None) -> Policy:
    return policy if isinstance(policy, Policy) else gate_policy(Path(policy) if policy is not None else None)


def _to_send(folder: Path) -> Iterator[str]:
    """The files of `folder` by path, without the records of git and of the Hub's client."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NEVER_SENT)
        for name in sorted(names):
            if name not in _NEVER_SENT:
                yield (Path(place) / name).relative_to(folder).as_posix()


@contextmanager
def _client_words(told: str) -> Iterator[None]:
    """The client complains of some answers (a model card with bad metadata, a refused object) by ValueError, and wraps
    what stops the upload of a file in RuntimeError."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        yield
    except HFValidationError:
        raise
    except (ValueError, RuntimeError) as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) else None
        known: tuple[Any, ...] = (HfHubHTTPError, *transport_errors())
        if cause is not None and isinstance(cause, known):
            raise cause from None
        raise RemoteError(f"{told}: {show(error, 400)}{f' ({show(cause, 400)})' if cause else ''}") from None
