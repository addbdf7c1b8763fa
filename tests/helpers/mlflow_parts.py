"""What the tests of the MLflow gate share: the plugin as MLflow finds it, a registry in SQLite, and real servers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gate_drafts import SICK, draft

ROOT = Path(__file__).resolve().parents[2]

__all__ = [
    "QUIET",
    "ROOT",
    "Server",
    "bert",
    "client_of",
    "database",
    "environment",
    "installed_plugin",
    "logged",
    "mlflow_module",
    "refusal",
    "register",
    "turn_sick",
    "versions",
]

QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "GIT_PYTHON_REFRESH": "quiet"}


def mlflow_module() -> Any:
    """The package mlflow, or a skip."""
    os.environ.update(QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("mlflow")


def installed_plugin(folder: Path) -> Path:
    """A folder for the path of Python that holds what pip writes of our entry points; no build is needed."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    info = folder / "ckptdoctor-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ckptdoctor\nVersion: 0.1.0\n", encoding="utf-8")
    lines = [
        line for group, names in groups.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in names.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


class Server:
    """A tracking server on loopback, with its own database and artifacts."""

    def __init__(self, home: Path, base: Path, plugin: Path, gate: str = "") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        home.mkdir()
        self.home, self.log = home, home / "server.log"
        store = f"sqlite:///{database(base, home / 'mlflow.db')}"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)),
                    *("--workers", "1", "--backend-store-uri", store),
                    *("--registry-store-uri", gate + store, "--artifacts-destination", str(home / "artifacts")),
                ],
                cwd=home,
                env=environment(plugin, {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Until it answers."""
        for _ in range(600):
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/health") as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        pytest.fail(f"the server did not start:\n{self.log.read_text(encoding='utf-8', errors='replace')[-4000:]}")

    def stop(self) -> None:
        """End the server and its workers, which are a session of their own."""
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@cache
def _migrated(folder: Path) -> Path:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    place = folder / "migrated.db"
    SqlAlchemyStore(f"sqlite:///{place}", str(folder / "artifacts"))
    return place


def database(base: Path, place: Path) -> Path:
    """A new database of MLflow at `place`. The tables are made once in `base`: that takes longer than all tests."""
    shutil.copyfile(_migrated(base), place)
    return place


def environment(plugin: Path, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of another Python that finds the plugin as if it was installed."""
    return {**os.environ, **QUIET, "PYTHONPATH": f"{ROOT}{os.pathsep}{plugin}", **more}


def client_of(tracking: str, registry: str) -> Any:
    return mlflow_module().MlflowClient(tracking, registry)


def logged(client: Any, folder: Path, name: str = "draft") -> Any:
    """A run with the files of `folder` as artifacts."""
    run = client.create_run(client.get_experiment_by_name("drafts").experiment_id)
    client.log_artifacts(run.info.run_id, str(folder), name)
    return run


def register(client: Any, folder: Path, **more: Any) -> Any:
    return client.create_model_version("drafts", str(folder), **more)


def refusal(call: Any, *args: Any, **more: Any) -> str:
    with pytest.raises(mlflow_module().exceptions.MlflowException) as refused:
        call(*args, **more)
    return str(refused.value)


def versions(client: Any) -> list[str]:
    return sorted(str(v.version) for v in client.search_model_versions(""))


def turn_sick(folder: Path) -> None:
    """Replace the weights by those of a sick draft."""
    shutil.copyfile(
        draft(folder.parent / f"{folder.name}-sick", SICK) / "model.safetensors", folder / "model.safetensors"
    )


def bert(folder: Path) -> None:
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    config = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    import numpy as np

    save_file({"embeddings.word_embeddings.weight": np.zeros((16, 8), "float32")}, folder / "model.safetensors")
