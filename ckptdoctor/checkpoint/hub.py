"""Repositories of the Hugging Face Hub, read where they are: one list of files, then ranges of those asked for.

A revision is resolved to its commit first, and everything after that is asked of this commit. Addresses, tokens and the
HTTP session are those of huggingface_hub, which follows HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ckptdoctor.checkpoint.hub_errors import TransientError, answer_problem, hub_problems, need_hub
from ckptdoctor.checkpoint.remote import RemoteError, RemoteFile, RemoteFolder, attach
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import plural, show
from ckptdoctor.version import __version__

__all__ = ["HubFile", "HubRepository", "hub_folder", "hub_name", "hub_repository"]

FILE_LIMIT = 20_000
"""Files of a repository that are listed at most."""

_TIMEOUT = 30.0
_WAITS = (0.2, 1.0)
"""Seconds between the tries."""

_PATH = re.compile(r"hf://(?P<repo>[^/@]+(?:/[^/@]+)?)(?:@(?P<revision>.+))?/?")
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_CHUNK = 64 * 1024

T = TypeVar("T")


def hub_name(path: str) -> tuple[str, str | None]:
    """The repository and the revision that `path` names: `hf://org/name[@revision]`. Raises `CannotExamineError`."""
    match = _PATH.fullmatch(path)
    if match is None or match["repo"].startswith(("datasets/", "spaces/", "buckets/", "kernels/")):
        raise CannotExamineError(
            f"{show(path)}: models on the Hub are named hf://org/name or hf://org/name@revision; of a repository, only "
            "the files at its top are examined"
        )
    return match["repo"], match["revision"]


def hub_folder(path: str) -> RemoteFolder:
    """The files at the top of the repository that `path` names. Raises `RemoteError`, `CannotExamineError`."""
    repo, revision = hub_name(path)
    repository = hub_repository(repo, revision)
    names = {name: file for name, file in repository.files.items() if "/" not in name}
    folders = frozenset(name.partition("/")[0] for name in repository.files if "/" in name)
    return attach(repository.told, names, folders, commit=repository.commit)


@dataclass(frozen=True)
class HubRepository:
    """A repository at one commit, with all its files by path. `told` is what a person calls it."""

    repo: str
    revision: str
    commit: str
    told: str
    files: Mapping[str, RemoteFile]


def hub_repository(repo: str, revision: str | None = None, api: Any = None, token: Any = None) -> HubRepository:
    """The repository `repo` at `revision` (default: its main branch). Raises `RemoteError`."""
    hub = need_hub()
    client = api if api is not None else hub.HfApi(library_name="ckptdoctor", library_version=__version__)
    told = f"hf://{show(repo)}@{show(revision or 'main')}"

    def ask() -> Any:
        with hub_problems(told, repo, revision):
            return client.model_info(repo, revision=revision, files_metadata=True, timeout=_TIMEOUT, token=token)

    try:
        info = _tried(ask)
    except (ValueError, KeyError, TypeError, AttributeError):  # what the client raises for an answer in another form
        raise RemoteError(f"{told}: the answer is not one of the Hub; look at HF_ENDPOINT") from None
    commit, siblings = info.sha, info.siblings or []
    if not isinstance(commit, str) or not re.fullmatch("[0-9a-f]{40,64}", commit):
        raise RemoteError(f"{told}: the Hub does not say which commit that is")
    if len(siblings) > FILE_LIMIT:
        raise RemoteError(f"{told}: holds more than {FILE_LIMIT} files")
    source = _Source(client, token, repo, revision, commit, told)
    files: dict[str, RemoteFile] = {}
    for sibling in siblings:
        size = sibling.lfs.size if sibling.lfs is not None else sibling.size
        if type(size) is not int or size < 0:
            raise RemoteError(f"{told}: the Hub does not say how large {show(sibling.rfilename)} is")
        files[sibling.rfilename] = HubFile(source, sibling.rfilename, size)
    return HubRepository(repo, revision or "main", commit, told, files)


@dataclass(frozen=True)
class _Source:
    client: Any
    token: Any
    repo: str
    revision: str | None
    commit: str
    told: str


@dataclass
class HubFile:
    """One file of a repository at a commit."""

    source: _Source
    path: str
    size: int
    _tag: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        """What a person calls it."""
        return f"{self.source.told}/{show(self.path)}"

    @property
    def advice(self) -> str:
        """The command that downloads the repository."""
        at = f" --revision {show(self.source.revision)}" if self.source.revision else ""
        return f"download it first (hf download {show(self.source.repo)}{at} --local-dir FOLDER)"

    def fetch(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`. Raises `RemoteError`."""
        return _tried(lambda: self._fetch(start, end))

    def _fetch(self, start: int, end: int) -> bytes:
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session

        source = self.source
        token = source.token if source.token is not None else source.client.token
        url = hf_hub_url(source.repo, self.path, revision=source.commit, endpoint=source.client.endpoint)
        headers = build_hf_headers(token=token, headers=source.client.headers)
        # Compressed answers would count other bytes than those of the file.
        headers |= {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
        with hub_problems(self.told, source.repo, source.revision):
            session = get_session()
            with session.stream("GET", url, headers=headers, timeout=_TIMEOUT, follow_redirects=True) as response:
                self._check(response, start, end)
                data = bytearray()
                for chunk in response.iter_raw(_CHUNK):
                    data += chunk
                    if len(data) >= end - start:  # whatever else is sent stays unread
                        break
        if len(data) < end - start:
            raise TransientError(
                f"{self.told}: the answer ends after {plural(len(data), 'byte')} of {end - start}; try again"
            )
        return bytes(data[: end - start])

    def _check(self, response: Any, start: int, end: int) -> None:
        """Whether `response` brings the bytes from `start` on, of the very file that was listed."""
        status, headers = response.status_code, response.headers
        if status not in (200, 206, 416):
            raise answer_problem(self.told, self.source.repo, self.source.revision, status, headers)
        if headers.get("Content-Encoding", "identity") != "identity":
            raise RemoteError(f"{self.told}: the server compresses what it sends; {self.advice}")
        commits = {r.headers["X-Repo-Commit"] for r in (*response.history, response) if "X-Repo-Commit" in r.headers}
        match = _RANGE.fullmatch(headers.get("Content-Range", "")) if status == 206 else None
        total = match[3] if match is not None else headers.get("Content-Length") if status == 200 else None
        tag = headers.get("ETag")
        if (
            status == 416
            or commits - {self.source.commit}
            or (total not in (None, "*") and total != str(self.size))
            or (tag is not None and self._tag and self._tag != [tag])
        ):
            raise RemoteError(f"{self.told}: the file is not the one that was listed; it changed meanwhile, try again")
        if tag is not None:
            self._tag[:] = [tag]
        if (status == 200 and start > 0) or (
            status == 206 and (match is None or int(match[1]) != start or int(match[2]) > end - 1)
        ):
            raise RemoteError(f"{self.told}: the server does not send parts of files; {self.advice}")


def _tried(ask: Callable[[], T]) -> T:
    """The answer to `ask`, which is asked again where that may help."""
    for wait in _WAITS:
        try:
            return ask()
        except TransientError:
            time.sleep(wait)
    return ask()
