"""How the Hub of the tests answers: those endpoints that the real client uses.

Large files are uploaded through git-lfs's batch endpoint, and downloaded by a redirect to another address, as from the
Hub's CDN.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from registries.hub_contents import SMALL, TOKEN, Content, Hub, Repository, entry, sibling

__all__ = ["Handler", "Server"]

_CHUNK = 1 << 16


class Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: Hub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that stops reading is no error here."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

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
        siblings = [sibling(path, content, blobs) for path, content in found.commits[commit].items()]
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
            self.json([entry(path, tree[path]) for path in wanted if path in tree])

    def tree(self, repo: str, revision: str) -> None:
        found = self._repository(repo)
        commit = found.find(revision) if found is not None else None
        if found is not None and commit is not None:
            self.json([entry(path, content) for path, content in found.commits[commit].items()])

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


_REPO = r"(?P<repo>[^/]+/[^/]+)"
_ROUTES: tuple[tuple[tuple[str, ...], str, Callable[..., None]], ...] = (
    (("GET",), "/api/whoami-v2", Handler.whoami),
    (("POST",), "/api/repos/create", Handler.create),
    (("GET",), f"/api/models/{_REPO}", Handler.info),
    (("GET",), f"/api/models/{_REPO}/revision/(?P<revision>.+)", Handler.info),
    (("POST",), f"/api/models/{_REPO}/preupload/(?P<revision>.+)", Handler.preupload),
    (("POST",), f"/api/models/{_REPO}/commit/(?P<revision>.+)", Handler.commit),
    (("POST",), f"/api/models/{_REPO}/paths-info/(?P<revision>.+)", Handler.paths_info),
    (("GET",), f"/api/models/{_REPO}/tree/(?P<revision>.+)", Handler.tree),
    (("POST",), rf"/{_REPO}\.git/info/lfs/objects/batch", Handler.batch),
    (("PUT",), "/lfs/(?P<oid>[0-9a-f]{64})", Handler.put),
    (("GET", "HEAD"), f"/cdn/{_REPO}/(?P<commit>[0-9a-f]{{40}})/(?P<path>.+)", Handler.cdn),
    (("GET", "HEAD"), f"/{_REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", Handler.resolve),
)
