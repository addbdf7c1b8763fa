"""The plugin as MLflow finds it, a registry in SQLite, and a client of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow_parts import client_of, database, installed_plugin


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = installed_plugin(tmp_path_factory.mktemp("plugin"))
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def uri(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{database(tmp_path_factory.getbasetemp(), tmp_path / 'mlflow.db')}"


@pytest.fixture
def client(uri: str, plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    del plugin
    monkeypatch.chdir(tmp_path)
    client = client_of(uri, f"ckptdoctor+{uri}")
    client.create_experiment("drafts", artifact_location=str(tmp_path / "artifacts"))
    client.create_registered_model("drafts")
    return client
