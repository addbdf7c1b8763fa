"""Where the files of a model version really lie, and how they are read: on this disk, or through MLflow's clients."""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from ckptdoctor.errors import CannotExamineError, CkptdoctorError
from ckptdoctor.text import show

__all__ = ["REPORT_FOLDER", "Place", "places", "resolved"]

REPORT_FOLDER = "ckptdoctor-report"
"""The folder that the gate's own reports are put into, beside what they are about."""

LISTING_LIMIT = 20_000
"""Files of a remote version that are listed; a gate refuses a larger one rather than judge it in part."""

_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".index.json")
_REPORTS = ("report.json", "report.md")
_HOPS = 16
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Place:
    """One folder (or single file) of a version's files. `folder` is its path where it lies on this disk."""

    uri: str
    tracking_uri: str | None
    folder: Path | None

    def may_hold_drafts(self) -> bool:
        """Whether there may be a draft in it, from names alone: nothing is opened or moved.

        Pickles count where there is a config.json (which may describe a draft whose weights are not there): without
        one no engine takes them for a draft, and registries are full of other models that are pickles. Raises
        `CkptdoctorError` when it cannot be listed.
        """
        names = {posixpath.basename(name) for name in self._names()}
        weights = [name for name in names if name.lower().endswith(_WEIGHTS)]
        loud = any(name.lower().endswith(".gguf") or ".safetensors" in name.lower() for name in weights)
        single = self.folder is not None and self.folder.is_file()  # a config by itself is no folder to load
        return loud or ("config.json" in names and not single)

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """A private copy of the files, removed at the end. Raises `CkptdoctorError` when they cannot be had."""
        from ckptdoctor.registry.snapshot import snapshot

        near = Path(tempfile.gettempdir())  # not beside the source: artifacts are listed by others while we look
        if self.folder is not None and self.folder.is_dir():
            with snapshot(self.folder, near) as copied:
                yield copied
            return
        with tempfile.TemporaryDirectory(prefix="ckptdoctor-", dir=near, ignore_cleanup_errors=True) as name:
            if self.folder is not None and self.folder.is_file():
                with _told(self.uri):
                    shutil.copyfile(self.folder, Path(name) / self.folder.name)
            elif self.folder is None:
                self._download(Path(name))
            yield Path(name)

    def digest(self) -> str:
        """What identifies the files as they are now: SHA-256 over names, sizes and all contents.

        Raises `CkptdoctorError` when they cannot be had.
        """
        if self.folder is not None and self.folder.is_dir():
            return digest(self.folder)
        with self.copy() as copied:
            return digest(copied)

    def _names(self) -> Iterator[str]:
        if self.folder is None:
            yield from self._remote_names()
        elif self.folder.is_dir():
            for place, folders, files in os.walk(self.folder, onerror=_refuse):
                yield from files
                # A link to a folder is not walked into here, but whoever loads the model would follow it: looked at.
                yield from (".safetensors" for name in folders if Path(place, name).is_symlink())
        elif self.folder.is_file():
            yield self.folder.name
        else:
            raise CannotExamineError(f"{show(self.uri)}: no such file or folder on this machine")

    def _remote_names(self) -> Iterator[str]:
        waiting: list[str | None] = [None]
        seen = 0
        with _told(self.uri):
            repository = self._repository(self.uri)
            while waiting:
                folder = waiting.pop()
                for item in repository.list_artifacts(folder):
                    if item.path in (".", folder):
                        continue
                    seen += 1
                    if seen > LISTING_LIMIT:
                        raise CannotExamineError(f"{show(self.uri)}: holds more than {LISTING_LIMIT} files")
                    if item.is_dir:
                        waiting.append(item.path)
                    else:
                        yield str(item.path)
        if not seen:
            yield posixpath.basename(urllib.parse.urlsplit(self.uri).path.rstrip("/"))  # perhaps a single file

    def _download(self, dest: Path) -> None:
        with _told(self.uri):
            repository = self._repository(self.uri)
            if repository.list_artifacts():
                repository.download_artifacts("", str(dest))
            else:
                root, _, name = self.uri.rstrip("/").rpartition("/")
                self._repository(root).download_artifacts(name, str(dest))

    def _repository(self, uri: str) -> Any:
        return get_artifact_repository(uri, tracking_uri=self.tracking_uri)


def digest(folder: Path) -> str:
    """SHA-256 over the names, sizes and contents of all files in `folder`, without reports of the gate itself.

    Raises `CkptdoctorError` when something in it cannot be read, is no file, or leads out of it.
    """
    from ckptdoctor.publish.tree import read_tree

    whole = hashlib.sha256()
    for entry in read_tree(folder).entries:
        if _own_report(entry.name):
            continue
        content = hashlib.sha256()
        with entry.open() as stream:
            while part := stream.read(_CHUNK):
                content.update(part)
        name = os.fsencode(entry.name)
        whole.update(b"%d %s %d %s\n" % (len(name), name, entry.status.st_size, content.hexdigest().encode("ascii")))
    return whole.hexdigest()


def _own_report(name: str) -> bool:
    """Whether it is a report of an earlier judgement. Nothing else may hide in that folder."""
    parts = name.split("/")
    return len(parts) == 3 and parts[0] == REPORT_FOLDER and parts[2] in _REPORTS


def places(source: str, store: Any, tracking_uri: str | None) -> tuple[Place, ...]:
    """The places that the version source `source` stands for. `store` is the registry that answers `models:/` URIs.

    A `runs:/` URI may stand for two: the artifacts of the run, and a model that was logged under that name; loaders
    take both. Raises `CkptdoctorError` for a source that leads nowhere.
    """
    with _told(source):
        uris = tuple(_absolute(source, store, tracking_uri, _HOPS))
        return tuple(place for uri in uris for place in (_place(uri, tracking_uri), *_literal(uri, tracking_uri)))


def _absolute(source: str, store: Any, tracking_uri: str | None, hops: int) -> Iterator[str]:
    if not hops:
        raise CannotExamineError(f"{show(source)}: leads from one model to the next without an end")
    scheme = urllib.parse.urlsplit(source).scheme
    if scheme == "models":
        yield from _absolute(_of_model(source, store, tracking_uri), store, tracking_uri, hops - 1)
    elif scheme == "runs":
        for uri in _of_run(source, tracking_uri):
            yield from _absolute(uri, store, tracking_uri, hops - 1)
    else:
        yield source


def _of_model(source: str, store: Any, tracking_uri: str | None) -> str:
    from mlflow import MlflowClient
    from mlflow.store.artifact.utils.models import _parse_model_uri

    asked = _parse_model_uri(source)
    if asked.model_id is not None:
        return str(MlflowClient(tracking_uri).get_logged_model(asked.model_id).artifact_location)
    if asked.version is None:
        raise CannotExamineError(f"{show(source)}: names no version; a version's source has to be a fixed one")
    return str(store.get_model_version_download_uri(asked.name, asked.version))


def _of_run(source: str, tracking_uri: str | None) -> Iterator[str]:
    from mlflow import MlflowClient
    from mlflow.store.artifact.runs_artifact_repo import RunsArtifactRepository

    client = MlflowClient(tracking_uri)
    run_id, path = RunsArtifactRepository.parse_runs_uri(source)
    run = client.get_run(run_id)
    models = _logged_models(client, run, path.split("/")[0]) if path else []
    root = run.info.artifact_uri
    own = _place(root, tracking_uri)
    if not models or own.folder is None or (own.folder / (path or "")).exists():
        yield posixpath.join(root, path or "")
    for model in models:
        yield posixpath.join(model.artifact_location, *(path or "").split("/")[1:])


def _logged_models(client: Any, run: Any, name: str) -> list[Any]:
    token: str | None = None
    found: list[Any] = []
    quoted = name.replace("'", "''")
    while True:
        page = client.search_logged_models(
            experiment_ids=[run.info.experiment_id], filter_string=f"name = '{quoted}'", page_token=token
        )
        found += [model for model in page if model.source_run_id == run.info.run_id]
        token = page.token
        if not token:
            return found


def _place(uri: str, tracking_uri: str | None) -> Place:
    from mlflow.utils.file_utils import local_file_uri_to_path

    uri = resolved(uri)
    if urllib.parse.urlsplit(uri).scheme in ("", "file"):
        return Place(uri, tracking_uri, Path(local_file_uri_to_path(uri)).absolute())
    return Place(uri, tracking_uri, None)


def _literal(uri: str, tracking_uri: str | None) -> Iterator[Place]:
    """The folder whose name is `uri` as it stands. MLflow takes `%20` in a path for a space, and where a path is there
    also by its own letters, a download takes that one: both are looked at."""
    if "%" in uri and not urllib.parse.urlsplit(uri).scheme and Path(uri).exists():
        yield Place(uri, tracking_uri, Path(uri).absolute())


def resolved(uri: str) -> str:
    """`uri`, or in a tracking server that serves artifacts itself, where it really keeps what it serves as `uri`.

    Raises `CkptdoctorError` for a path that climbs out of it.
    """
    handlers: Any = sys.modules.get("mlflow.server.handlers")
    if handlers is None or not handlers._is_servable_proxied_run_artifact_root(uri):
        return uri
    from mlflow.utils.uri import validate_path_is_safe

    with _told(uri):
        path = validate_path_is_safe(handlers._get_proxied_run_artifact_destination_path(uri))
        scoped = getattr(handlers, "_get_workspace_scoped_repo_path_if_enabled", None)  # since MLflow 3.10
        root = os.environ["_MLFLOW_SERVER_ARTIFACT_DESTINATION"]
        return posixpath.join(root, scoped(path) if scoped is not None else path)


@contextmanager
def _told(uri: str) -> Iterator[None]:
    """Whatever an artifact store's client raises is one sentence here: a gate refuses what it cannot look at."""
    try:
        yield
    except CkptdoctorError:
        raise
    except Exception as error:  # each store has a client, and exceptions, of its own
        raise CannotExamineError(f"{show(uri)}: cannot be read ({show(error, 300)})") from error


def _refuse(error: OSError) -> None:
    raise CannotExamineError(f"{show(error.filename)}: cannot be read ({show(error.strerror)})")
