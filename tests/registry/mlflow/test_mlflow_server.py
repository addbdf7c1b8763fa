"""The gate in a real MLflow server: no client can go round it, and clients need not know of it."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate_drafts import SICK, WARNED, draft
from mlflow_parts import Server, installed_plugin, mlflow_module

mlflow = mlflow_module()
for package in ("sqlalchemy", "flask", "uvicorn"):
    pytest.importorskip(package)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """A server with the gate, and one without."""
    base = tmp_path_factory.mktemp("servers")
    plugin = installed_plugin(base / "plugin")
    sys.path.insert(0, str(plugin))
    pair = (
        Server(base / "gated", tmp_path_factory.getbasetemp(), plugin, "ckptdoctor+"),
        Server(base / "open", tmp_path_factory.getbasetemp(), plugin),
    )
    try:
        for server in pair:
            server.wait()
            mlflow.MlflowClient(server.url, server.url).create_registered_model("drafts")
        yield pair
    finally:
        for server in pair:
            server.stop()
        sys.path.remove(str(plugin))


@pytest.fixture
def gated(servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", servers[0].url)
    return servers[0]


def uploaded(client: Any, folder: Path) -> tuple[str, str]:
    """The id of a new run that has the files of `folder` as its artifact `draft`, and the URI of that artifact."""
    run = client.create_run("0").info
    client.log_artifacts(run.run_id, str(folder), "draft")
    return run.run_id, f"{run.artifact_uri}/draft"


def versions(client: Any) -> list[str]:
    return sorted(str(v.version) for v in client.search_model_versions(""))


def test_a_client_that_knows_nothing_of_it_is_refused_with_the_report(gated: Server, tmp_path: Path) -> None:
    client = mlflow.MlflowClient(gated.url, gated.url)
    run_id, artifacts = uploaded(client, draft(tmp_path / "sick", SICK))
    before = versions(client)
    for source in (artifacts, f"runs:/{run_id}/draft"):
        with pytest.raises(mlflow.exceptions.RestException) as refused:
            client.create_model_version("drafts", source, run_id)
        assert refused.value.error_code == "INVALID_PARAMETER_VALUE"
        assert f"no version of drafts is registered from {source}. Refused: 1 error found." in str(refused.value)
        assert "VOC001 d2t-absolute  model.safetensors, d2t" in str(refused.value)
    body = json.dumps({"name": "drafts", "source": artifacts, "run_id": run_id}).encode("utf-8")
    request = urllib.request.Request(
        f"{gated.url}/api/2.0/mlflow/model-versions/create", body, {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.urlopen(request)
    assert answer.value.code == 400
    assert "VOC001" in json.loads(answer.value.read())["message"]
    assert versions(client) == before


def test_what_passes_is_tagged_and_promoted_only_as_long_as_its_files_are_right(gated: Server, tmp_path: Path) -> None:
    client = mlflow.MlflowClient(gated.url, gated.url)
    run_id, artifacts = uploaded(client, draft(tmp_path / "warned", WARNED))
    version = client.create_model_version("drafts", artifacts, run_id)
    assert version.tags["ckptdoctor.verdict"] == "warned"
    folder = f"ckptdoctor-report/drafts-v{version.version}"
    assert version.tags["ckptdoctor.report"] == f"runs:/{run_id}/{folder}/report.md"
    assert [f.path for f in client.list_artifacts(run_id, folder)] == [f"{folder}/report.json", f"{folder}/report.md"]
    client.set_registered_model_alias("drafts", "champion", version.version)
    client.log_artifact(run_id, str(draft(tmp_path / "sick", SICK) / "model.safetensors"), "draft")
    for call in (
        lambda: client.set_registered_model_alias("drafts", "best", version.version),
        lambda: client.transition_model_version_stage("drafts", version.version, "Production"),
        lambda: client.copy_model_version(f"models:/drafts/{version.version}", "released"),
    ):
        with pytest.raises(mlflow.exceptions.MlflowException, match="VOC001"):
            call()
    for forge in (
        lambda: client.set_model_version_tag("drafts", version.version, "ckptdoctor.verdict", "passed"),
        lambda: client.delete_model_version_tag("drafts", version.version, "ckptdoctor.verdict"),
    ):
        with pytest.raises(mlflow.exceptions.RestException, match="set by the gate of ckptdoctor alone"):
            forge()
    assert client.get_model_version("drafts", version.version).tags["ckptdoctor.verdict"] == "refused"
    assert client.get_model_version_by_alias("drafts", "champion").version == version.version


def test_gates_on_both_sides_agree(gated: Server, tmp_path: Path) -> None:
    client = mlflow.MlflowClient(gated.url, f"ckptdoctor+{gated.url}")
    run_id, artifacts = uploaded(client, draft(tmp_path / "healthy"))
    version = client.create_model_version("drafts", artifacts, run_id)
    assert version.tags["ckptdoctor.verdict"] == "passed"
    client.set_registered_model_alias("drafts", "steady", version.version)
    assert client.get_model_version_by_alias("drafts", "steady").tags == version.tags


def test_a_gate_in_the_client_alone_judges_what_the_server_keeps(
    servers: tuple[Server, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = servers[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    client = mlflow.MlflowClient(server.url, f"ckptdoctor+{server.url}")
    run_id, artifacts = uploaded(client, draft(tmp_path / "sick", SICK))
    with pytest.raises(mlflow.exceptions.MlflowException, match="VOC001"):
        client.create_model_version("drafts", artifacts, run_id)
    assert versions(client) == []
    run_id, artifacts = uploaded(client, draft(tmp_path / "healthy"))
    version = client.create_model_version("drafts", artifacts, run_id)
    assert version.tags["ckptdoctor.verdict"] == "passed"
    assert client.list_artifacts(run_id, "ckptdoctor-report/drafts-v1")
    client.log_artifact(run_id, str(tmp_path / "sick" / "model.safetensors"), "draft")
    with pytest.raises(mlflow.exceptions.MlflowException, match="VOC001"):
        client.set_registered_model_alias("drafts", "champion", 1)
    run_id, artifacts = uploaded(client, tmp_path / "sick")
    with pytest.raises(mlflow.exceptions.MlflowException, match="VOC001"):
        client.create_model_version("drafts", f"{artifacts}/model.safetensors", run_id)
