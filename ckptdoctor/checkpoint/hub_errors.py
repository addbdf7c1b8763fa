"""What the client of the Hub raises, as sentences: what it means and what to do."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ckptdoctor.checkpoint.remote import RemoteError
from ckptdoctor.text import show

__all__ = ["TransientError", "answer_problem", "hub_problems", "need_hub", "transport_errors"]

_INSTALL = "install it with: pip install 'ckptdoctor[hub]'"
_LOGIN = "log in with `hf auth login`, or set HF_TOKEN"
_SAID = 300
"""Characters of a server's own words that are passed on."""


class TransientError(RemoteError):
    """A failure that another try may not meet: the connection, or a server that is busy."""


def need_hub() -> Any:
    """The package huggingface_hub. Raises `RemoteError` where it is not installed."""
    try:
        package = importlib.import_module("huggingface_hub")
        _ = package.HfApi  # the rest of it is imported with this
    except ImportError:
        raise RemoteError(f"the Hub needs the package huggingface_hub; {_INSTALL}") from None
    except ValueError as error:
        raise RemoteError(f"huggingface_hub cannot be used: {show(error, _SAID)}; look at HF_ENDPOINT") from None
    return package


def transport_errors() -> tuple[type[Exception], ...]:
    """What the client's own HTTP library raises (httpx, or what follows it), and what sockets raise."""
    from huggingface_hub.utils import get_session

    found: list[type[Exception]] = [OSError]
    for kind in type(get_session()).__mro__:
        library = importlib.import_module(kind.__module__.partition(".")[0])
        names = ("HTTPError", "StreamError", "InvalidURL")
        found += [getattr(library, name) for name in names if hasattr(library, name)]
    return tuple(dict.fromkeys(found))


@contextmanager
def hub_problems(told: str, repo: str, revision: str | None = None) -> Iterator[None]:
    """Turn what the client raises inside into `RemoteError`. `told` begins the sentences; `repo` is `org/name`."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled

    try:
        yield
    except OfflineModeIsEnabled:
        raise RemoteError(f"{told}: HF_HUB_OFFLINE is set, so the Hub is not asked; unset it") from None
    except LocalTokenNotFoundError:
        raise RemoteError(f"{told}: this needs a token; {_LOGIN}") from None
    except HFValidationError as error:
        raise RemoteError(f"{told}: no name that the Hub knows ({show(error, _SAID)})") from None
    except HfHubHTTPError as error:
        response = error.response
        said = getattr(error, "server_message", None) or ""
        raise answer_problem(told, repo, revision, response.status_code, response.headers, said) from None
    except transport_errors() as error:
        raise TransientError(f"{told}: the Hub could not be reached ({_cause(error)})") from None


def answer_problem(
    told: str, repo: str, revision: str | None, status: int, headers: Mapping[str, str], said: str = ""
) -> RemoteError:
    """What an answer of this status means."""
    code = headers.get("X-Error-Code", "")
    said = show(said or headers.get("X-Error-Message", ""), _SAID)
    if code == "GatedRepo":
        where = f"{_endpoint()}/{repo}"
        return RemoteError(f"{told}: access is given on request; ask for it on {show(where)}, then {_LOGIN}")
    if code == "RevisionNotFound":
        return RemoteError(f"{told}: {show(repo)} has no branch, tag or commit {show(revision or 'main')}")
    if code == "EntryNotFound":
        return RemoteError(f"{told}: the file is not there any more{_quoted(said)}")
    if code == "RepoNotFound" or status == 404:
        return RemoteError(f"{told}: there is no such repository, or it is private; look at its name, then {_LOGIN}")
    if status == 401:
        return RemoteError(f"{told}: the Hub does not know you; {_LOGIN}{_quoted(said)}")
    if status == 403:
        return RemoteError(f"{told}: your token may not do that; use one that may{_quoted(said)}")
    if status == 429:
        wait = headers.get("Retry-After", "")
        later = f"in {wait} seconds" if wait.isdecimal() and len(wait) < 7 else "later"
        return RemoteError(f"{told}: the Hub has answered too many requests of yours; try again {later}")
    if status in (409, 412):
        return RemoteError(f"{told}: the repository changed meanwhile; try again{_quoted(said)}")
    if status in (408, 500, 502, 503, 504):
        return TransientError(f"{told}: the Hub is not able to answer now (status {status}){_quoted(said)}")
    return RemoteError(f"{told}: the Hub answered with status {status}{_quoted(said)}")


def _quoted(said: str) -> str:
    return f" (it says: {said})" if said else ""


def _endpoint() -> str:
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def _cause(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return show(error.strerror or os.strerror(error.errno), _SAID)
    return show(str(error) or type(error).__name__, _SAID)
