"""A server on loopback that speaks those endpoints of the Hub that the real client uses, and keeps what it is sent.

Repositories are commits of whole trees in memory. Files of more than `SMALL` bytes are large ones: uploaded through
git-lfs's batch endpoint, and downloaded by a redirect to another address, as from the Hub's CDN.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

__all__ = ["TOKEN", "Content", "Hub", "Repository", "connected", "hub_running"]

TOKEN = "hf_loopback"
SMALL = 1024
_CHUNK = 1 << 16


class Content:
    """The bytes of a file: in memory, or a file on the disk (a sparse one stays sparse)."""

    def __init__(self, source: bytes | Path) -> None:
        self._source = source
        self.size = len(source) if isinstance(source, bytes) else source.stat().st_size

    def part(self, start: int, end: int) -> bytes:
        if isinstance(self._source, bytes):
            return self._source[start:end]
        with self._source.open("rb") as stream:
            stream.seek(start)
            return stream.read(end - start)

    @property
    def whole(self) -> bytes:
        return self.part(0, self.size)

    @property
    def sha256(self) -> str:
        # Of a large sparse file, the name stands for the content.
        return hashlib.sha256(self.whole if self.size < 1 << 26 else str(self._source).encode()).hexdigest()


@dataclass
class Repository:
    """A repository: its commits (id → tree), and where its branches are."""

    commits: dict[str, dict[str, Content]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    private: bool = False
    messages: list[str] = field(default_factory=list)

    def commit(self, tree: dict[str, Content], branch: str = "main", message: str = "a commit") -> str:
        name = hashlib.sha1(f"{len(self.commits)} {branch}".encode()).hexdigest()
        self.commits[name], self.branches[branch] = dict(tree), name
        self.messages.append(message)
        return name

    def find(self, revision: str) -> str | None:
        return self.branches.get(revision) or (revision if revision in self.commits else None)

    def tree(self, branch: str = "main") -> dict[str, bytes]:
        return {path: content.whole for path, content in self.commits[self.branches[branch]].items()}


@dataclass
class Hub:
    """The server as tests see it. `moved` counts the bytes of its answers' bodies, `asked` is every request.

    `meddle` may answer in place of the server: it is given the request's handler, and says whether it did.
    """

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    tokens_at_cdn: list[str] = field(default_factory=list)
    moved: int = 0
    meddle: Callable[[_Handler], bool] = lambda _: False

    def add(self, name: str, source: Path | dict[str, bytes], branch: str = "main") -> str:
        """A new commit of the folder `source` (or of these files) in the repository `name`."""
        files: dict[str, bytes | Path] = (
            {p.relative_to(source).as_posix(): p for p in sorted(source.rglob("*")) if p.is_file()}
            if isinstance(source, Path)
            else dict(source)
        )
        repository = self.repositories.setdefault(name, Repository())
        return repository.commit({path: Content(data) for path, data in files.items()}, branch)

    @property
    def stored(self) -> int:
        """How many things somebody stored: repositories, commits, objects."""
        return sum(len(r.commits) + 1 for r in self.repositories.values()) + len(self.objects)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: Hub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that stops reading is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    @property
    def hub(self) -> Hub:
        return self.server.hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815  # the names that http.server looks for

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self.route, self.query = unquote(parts.path), parse_qs(parts.query)
        self.hub.asked.append(f"{self.command} {self.route}")
        if self.hub.meddle(self):
            return
        for method, pattern, answer in _ROUTES:
            match = re.fullmatch(pattern, self.route if "%" not in pattern else parts.path)
            if match and self.command in method:
                answer(self, **{k: unquote(v) for k, v in match.groupdict().items()})
                return
        self.body()
        self.error(404, "")

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = bytearray()
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return bytes(data)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.write(data)

    def write(self, data: bytes) -> None:
        self.hub.moved += len(data)
        self.wfile.write(data)

    def json(self, value: Any, status: int = 200, **headers: str) -> None:
        self.send(status, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def error(self, status: int, code: str, said: str = "", **headers: str) -> None:
        known = {"X_Error_Code": code} if code else {}
        self.json({"error": said or code}, status, **known, X_Error_Message=said or code, **headers)

    @property
    def known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _repository(self, repo: str) -> Repository | None:
        found = self.hub.repositories.get(repo)
        if found is None or (found.private and not self.known):
            self.error(404 if self.known else 401, "RepoNotFound", "Repository not found")
            return None
        return found

    def whoami(self) -> None:
        if self.known:
            self.json({"type": "user", "name": "me", "orgs": []})
        else:
            self.error(401, "", "Invalid credentials in Authorization header")

    def create(self) -> None:
        asked = json.loads(self.body())
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        if not self.known:
            self.error(401, "", "Invalid credentials in Authorization header")
        elif name.startswith("closed/"):
            self.error(403, "", "You don't have the rights to create a model under this namespace")
        elif name in self.hub.repositories:
            self.json({"error": "You already created this model repo", "url": f"{self.hub.url}/{name}"}, 409)
        else:
            private = asked.get("visibility") == "private" or asked.get("private") is True
            new = self.hub.repositories[name] = Repository(private=private)
            new.commit({}, message="initial commit")
            self.json({"url": f"{self.hub.url}/{name}"})

    def info(self, repo: str, revision: str = "main") -> None:
        found = self._repository(repo)
        if found is None:
            return
        commit = found.find(revision)
        if commit is None:
            self.error(404, "RevisionNotFound", "Invalid rev id")
            return
        blobs = "blobs" in self.query
        siblings = [_sibling(path, content, blobs) for path, content in found.commits[commit].items()]
        self.json({"id": repo, "modelId": repo, "sha": commit, "private": found.private, "siblings": siblings})

    def preupload(self, repo: str, revision: str) -> None:
        asked = json.loads(self.body())
        found = self._repository(repo)
        if found is None:
            return
        if found.find(revision) is None:
            self.error(404, "RevisionNotFound", "Invalid rev id")
            return
        modes = [
            {"path": f["path"], "uploadMode": "lfs" if f["size"] > SMALL else "regular", "shouldIgnore": False}
            for f in asked["files"]
        ]
        self.json({"files": modes})

    def batch(self, repo: str) -> None:
        asked = json.loads(self.body())
        if self._repository(repo) is None:
            return
        objects = []
        for wanted in asked["objects"]:
            actions = {"upload": {"href": f"{self.hub.url}/lfs/{wanted['oid']}", "header": {}}}
            objects.append({"oid": wanted["oid"], "size": wanted["size"], "actions": actions})
        self.json({"transfer": "basic", "objects": objects})

    def put(self, oid: str) -> None:
        data = self.body()
        if hashlib.sha256(data).hexdigest() == oid:
            self.hub.objects[oid] = data
            self.send(200, b"")
        else:
            self.error(400, "", "these bytes have another sha256")

    def commit(self, repo: str, revision: str) -> None:
        lines = [json.loads(line) for line in self.body().splitlines()]
        found = self._repository(repo)
        if found is None:
            return
        head = found.find(revision)
        if not self.known or head is None:
            self.error(403 if not self.known else 404, "" if not self.known else "RevisionNotFound")
            return
        header = lines[0]["value"]
        if header.get("parentCommit", head) != head:
            self.error(412, "", "A commit has happened since. Please refresh and try again.")
            return
        tree = dict(found.commits[head])
        for line in lines[1:]:
            path = line["value"]["path"]
            if line["key"] == "file":
                tree[path] = Content(base64.b64decode(line["value"]["content"]))
            elif line["key"] == "lfsFile":
                tree[path] = Content(self._object(line["value"]["oid"]))
            elif line["key"] == "deletedFile":
                del tree[path]
            else:
                tree = {p: c for p, c in tree.items() if not p.startswith(path.rstrip("/") + "/")}
        asks = "create_pr" in self.query
        commit = found.commit(tree, "refs/pr/1" if asks else revision, header["summary"])
        place = f"{self.hub.url}/{repo}"
        answer = {"success": True, "commitOid": commit, "commitUrl": f"{place}/commit/{commit}", "hookOutput": ""}
        self.json({**answer, **({"pullRequestUrl": f"{place}/discussions/1"} if asks else {})})

    def _object(self, oid: str) -> bytes:
        if oid in self.hub.objects:
            return self.hub.objects[oid]
        every = (c for r in self.hub.repositories.values() for tree in r.commits.values() for c in tree.values())
        return next(content.whole for content in every if content.sha256 == oid)

    def paths_info(self, repo: str, revision: str) -> None:
        data = self.body().decode()
        wanted = json.loads(data)["paths"] if data.startswith("{") else parse_qs(data).get("paths", [])
        found = self._repository(repo)
        commit = found.find(revision) if found is not None else None
        if found is not None and commit is not None:
            tree = found.commits[commit]
            self.json([_entry(path, tree[path]) for path in wanted if path in tree])

    def tree(self, repo: str, revision: str) -> None:
        found = self._repository(repo)
        commit = found.find(revision) if found is not None else None
        if found is not None and commit is not None:
            self.json([_entry(path, content) for path, content in found.commits[commit].items()])

    def resolve(self, repo: str, revision: str, path: str) -> None:
        found = self._repository(repo)
        if found is None:
            return
        commit = found.find(revision)
        content = found.commits[commit].get(path) if commit is not None else None
        if commit is None or content is None:
            self.error(404, "RevisionNotFound" if commit is None else "EntryNotFound", "not found")
        elif content.size > SMALL:
            place = f"http://localhost:{self.server.server_port}/cdn/{repo}/{commit}/{path}"
            self.send(302, b"", Location=place, X_Repo_Commit=commit, X_Linked_Size=str(content.size))
        else:
            self.part(path, content, X_Repo_Commit=commit)

    def cdn(self, repo: str, commit: str, path: str) -> None:
        if "Authorization" in self.headers:
            self.hub.tokens_at_cdn.append(path)
        self.part(path, self.hub.repositories[repo].commits[commit][path])

    def part(self, path: str, content: Content, **headers: str) -> None:
        """The file, or the range of it that was asked for."""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, end = (int(match[1]), min(int(match[2]) + 1, content.size)) if match else (0, content.size)
        self.hub.ranges.append((path, self.headers.get("Range", "")))
        if match and start >= content.size:
            self.send(416, b"", Content_Range=f"bytes */{content.size}")
            return
        self.send_response(206 if match else 200)
        if match:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{content.size}")
        for name, value in {**headers, "ETag": f'"{content.sha256}"'}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        while self.command != "HEAD" and start < end:
            self.write(content.part(start, min(start + _CHUNK, end)))
            start += _CHUNK


def _sibling(path: str, content: Content, blobs: bool) -> dict[str, Any]:
    lfs = {"lfs": {"size": content.size, "sha256": content.sha256, "pointerSize": 134}} if content.size > SMALL else {}
    return {"rfilename": path, **({"size": content.size, "blobId": content.sha256[:40], **lfs} if blobs else {})}


def _entry(path: str, content: Content) -> dict[str, Any]:
    lfs = {"lfs": {"oid": content.sha256, "size": content.size, "pointerSize": 134}} if content.size > SMALL else {}
    return {"type": "file", "path": path, "size": content.size, "oid": content.sha256[:40], **lfs}


_REPO = r"(?P<repo>[^/]+/[^/]+)"
_ROUTES: tuple[tuple[tuple[str, ...], str, Callable[..., None]], ...] = (
    (("GET",), "/api/whoami-v2", _Handler.whoami),
    (("POST",), "/api/repos/create", _Handler.create),
    (("GET",), f"/api/models/{_REPO}", _Handler.info),
    (("GET",), f"/api/models/{_REPO}/revision/(?P<revision>.+)", _Handler.info),
    (("POST",), f"/api/models/{_REPO}/preupload/(?P<revision>.+)", _Handler.preupload),
    (("POST",), f"/api/models/{_REPO}/commit/(?P<revision>.+)", _Handler.commit),
    (("POST",), f"/api/models/{_REPO}/paths-info/(?P<revision>.+)", _Handler.paths_info),
    (("GET",), f"/api/models/{_REPO}/tree/(?P<revision>.+)", _Handler.tree),
    (("POST",), rf"/{_REPO}\.git/info/lfs/objects/batch", _Handler.batch),
    (("PUT",), "/lfs/(?P<oid>[0-9a-f]{64})", _Handler.put),
    (("GET", "HEAD"), f"/cdn/{_REPO}/(?P<commit>[0-9a-f]{{40}})/(?P<path>.+)", _Handler.cdn),
    (("GET", "HEAD"), f"/{_REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", _Handler.resolve),
)


@contextmanager
def hub_running() -> Iterator[Hub]:
    """The server, running in a thread of this process until the end."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.hub = Hub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The server, with the client in this process set to it as HF_ENDPOINT, HF_TOKEN and HF_HUB_DISABLE_XET would."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    pytest.importorskip("huggingface_hub.utils").disable_progress_bars()
    with hub_running() as hub:
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        try:
            yield hub
        finally:
            huggingface_hub.close_session()
