"""The class behind `guarded`: an `HfApi` whose commits are judged. Imported only where huggingface_hub is there."""

from __future__ import annotations

import inspect
from functools import lru_cache
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.utils import filter_repo_objects

from ckptdoctor.checkpoint.hub_errors import hub_problems
from ckptdoctor.errors import UsageError
from ckptdoctor.policy import Policy
from ckptdoctor.registry.hub.judging import judged_commit
from ckptdoctor.registry.hub.tree import Where
from ckptdoctor.registry.snapshot import snapshot
from ckptdoctor.text import show

__all__ = ["guarded_class"]


@lru_cache(maxsize=16)
def guarded_class(kind: type[Any]) -> type[Any]:
    """A subclass of `kind` (HfApi, or what somebody made of it) whose commits are judged."""
    return type(f"Guarded{kind.__name__}", (_Guard, kind), {"__doc__": kind.__doc__})


class _Guard(HfApi):  # type: ignore[misc]
    """Judges, and lets the API that it was made of do the rest: what that one does inside is not judged twice."""

    def __init__(self, inner: Any, policy: Policy) -> None:
        self.__dict__.update({k: v for k, v in vars(inner).items() if not k.startswith("_thread")})
        self._thread_pool = None
        self._inner, self._policy = inner, policy

    def create_commit(self, repo_id: str, operations: Any, *args: Any, **kwargs: Any) -> Any:
        """As that of `HfApi`; raises `RefusedUploadError` with nothing sent."""
        if kwargs.pop("run_as_future", False):
            return self.run_as_future(self.create_commit, repo_id, operations, *args, **kwargs)
        asked = inspect.signature(self._inner.create_commit).bind(repo_id, operations, *args, **kwargs).arguments
        given = list(operations)
        kind, token, revision = asked.get("repo_type"), asked.get("token"), asked.get("revision")
        base = asked.get("parent_commit") or revision
        where = Where(self._inner, repo_id, base, kind, token)
        with judged_commit(given, self._policy, where) as (sent, commit):
            if commit is not None:  # else somebody's commit in between would join files that were not judged together
                kwargs["parent_commit"] = commit
            done = self._inner.create_commit(repo_id, list(sent), *args, **kwargs)
        for op in given:
            if isinstance(op, CommitOperationAdd):
                op._is_committed = True
        return done

    def upload_folder(self, **kwargs: Any) -> Any:
        """As that of `HfApi`; raises `RefusedUploadError` with nothing sent."""
        if kwargs.pop("run_as_future", False):
            return self.run_as_future(self.upload_folder, **kwargs)
        prefix = (kwargs.get("path_in_repo") or "").strip("/")
        return self._upload(self._inner.upload_folder, "" if prefix in ("", ".") else f"{prefix}/", kwargs)

    def upload_large_folder(self, repo_id: str, folder_path: Any, **kwargs: Any) -> Any:
        """As that of `HfApi`; raises `RefusedUploadError` with nothing sent."""
        send = getattr(self._inner, "upload_large_folder", None)
        if send is None:
            raise UsageError("this release of huggingface_hub has no upload_large_folder; use upload_folder")
        return self._upload(send, "", {"repo_id": repo_id, "folder_path": folder_path, **kwargs})

    def preupload_lfs_files(self, *_: Any, **__: Any) -> Any:
        """Refused: it sends files before the commit that they belong to can be judged."""
        raise UsageError(
            "preupload_lfs_files sends files before the commit that they belong to can be judged; give the operations"
            " to create_commit, which sends them too"
        )

    def _upload(self, send: Any, prefix: str, asked: dict[str, Any]) -> Any:
        repo, token = asked["repo_id"], asked.get("token")
        revision = asked.get("parent_commit") or asked.get("revision")
        with snapshot(Path(asked["folder_path"]).expanduser()) as copy:
            names = sorted(p.relative_to(copy).as_posix() for p in copy.rglob("*") if p.is_file())
            kept = filter_repo_objects(
                names, allow_patterns=asked.get("allow_patterns"), ignore_patterns=asked.get("ignore_patterns")
            )
            chosen = [name for name in kept if not {".git", ".cache"} & set(name.split("/"))]
            operations = [CommitOperationAdd(prefix + name, str(copy / name)) for name in chosen]
            operations += self._deletions(asked, prefix, {prefix + name for name in chosen})
            where = Where(self._inner, repo, revision, asked.get("repo_type"), token)
            with judged_commit(operations, self._policy, where, copy) as (_, commit):
                more = {"parent_commit": commit} if commit is not None and "parent_commit" in _parameters(send) else {}
                return send(**{**asked, **more, "folder_path": str(copy)})

    def _deletions(self, asked: dict[str, Any], prefix: str, added: set[str]) -> list[Any]:
        """What `delete_patterns` would delete: files below the folder that is uploaded, by their path in it."""
        patterns = asked.get("delete_patterns")
        if not patterns:
            return []
        repo, kind, token = asked["repo_id"], asked.get("repo_type"), asked.get("token")
        with hub_problems(f"hf://{show(repo)}", repo, asked.get("revision")):
            if not self._inner.repo_exists(repo, repo_type=kind, token=token):
                return []
            there = self._inner.list_repo_files(repo, revision=asked.get("revision"), repo_type=kind, token=token)
        inside = [path.removeprefix(prefix) for path in there if path.startswith(prefix) and path != ".gitattributes"]
        gone = filter_repo_objects(inside, allow_patterns=patterns)
        return [CommitOperationDelete(prefix + name) for name in gone if prefix + name not in added]


def _parameters(function: Any) -> Any:
    return inspect.signature(function).parameters
