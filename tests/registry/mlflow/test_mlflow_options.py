"""The options of the gate in the address of a registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gate_drafts import SICK, WARNED, draft
from mlflow_parts import client_of, mlflow_module, refusal, register

mlflow = mlflow_module()
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_policy_is_the_owners_and_never_that_of_the_files(
    client: Any, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick = draft(tmp_path / "sick", SICK)
    lenient, strict = tmp_path / "a policy.toml", tmp_path / "strict.toml"
    lenient.write_text("fail-on = 'never'", encoding="utf-8")
    strict.write_text("fail-on = 'warning'", encoding="utf-8")
    (sick / "ckptdoctor.toml").write_text("fail-on = 'never'", encoding="utf-8")
    assert "ckptdoctor.toml in drafts is not followed" in refusal(register, client, sick)
    named = client_of(uri, f"ckptdoctor+{uri}?ckptdoctor-policy={str(lenient).replace(' ', '%20')}")
    assert register(named, sick).tags["ckptdoctor.verdict"] == "warned"
    monkeypatch.setenv("CKPTDOCTOR_POLICY", str(strict))
    by_environment = client_of(uri, f"ckptdoctor:{uri}")
    warned = draft(tmp_path / "warned", WARNED)
    assert "VOC018" in refusal(register, by_environment, warned)
    strict.write_text("fail-on = 1", encoding="utf-8")  # read each time: nothing passes while it cannot be read
    assert "strict.toml: is no project file of ckptdoctor" in refusal(register, by_environment, warned)
    monkeypatch.setenv("CKPTDOCTOR_POLICY", str(tmp_path / "gone.toml"))
    told = refusal(client_of(uri, f"ckptdoctor+{uri}?timeout=5").search_registered_models)
    assert told == f"ckptdoctor: {tmp_path / 'gone.toml'}: no such file"


def test_the_gate_can_be_limited_to_some_registered_models(client: Any, uri: str, tmp_path: Path) -> None:
    del client
    some = client_of(uri, f"ckptdoctor+{uri}?timeout=5&ckptdoctor-models=*-eagle,draft*")
    some.create_registered_model("resnet")
    sick = draft(tmp_path / "sick", SICK)
    assert some.create_model_version("resnet", str(sick)).tags == {}
    assert "VOC001" in refusal(register, some, sick)
    some.create_registered_model("DRAFTS of ours")
    assert "VOC001" in refusal(some.create_model_version, "DRAFTS of ours", str(sick))
    assert refusal(some.rename_registered_model, "resnet", "draft-x") == (
        "ckptdoctor: resnet is not renamed to draft-x: models of that name are judged, and its versions were not."
        " Copy the versions to it instead; each copy is judged."
    )
    assert "VOC001" in refusal(some.copy_model_version, "models:/resnet/1", "draft-x")
    some.rename_registered_model("resnet", "resnet-old")


@pytest.mark.parametrize("scheme", ["databricks-uc", "s3"])
def test_registries_that_it_does_not_know_are_not_left_ungated(scheme: str, uri: str, plugin: Path) -> None:
    del plugin
    told = refusal(client_of(uri, f"ckptdoctor:{scheme}://x").search_registered_models)
    assert told == (
        f"ckptdoctor cannot stand before a registry of the kind {scheme}: it knows databases, folders and MLflow"
        " servers."
    )


def test_a_slip_in_the_uri_does_not_lose_the_policy(uri: str, plugin: Path) -> None:
    del plugin
    told = refusal(client_of(uri, f"CKPTDOCTOR+{uri}?ckptdoctor-polcy=x.toml").search_registered_models)
    assert told == (
        "ckptdoctor: ckptdoctor-polcy in the URI of the registry is unknown; there are ckptdoctor-policy and"
        " ckptdoctor-models."
    )


def test_a_registry_in_a_folder(client: Any, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del client
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    filed = client_of(uri, f"ckptdoctor+file://{tmp_path}/registry")
    filed.create_registered_model("drafts")
    assert "VOC001" in refusal(register, filed, draft(tmp_path / "sick", SICK))
    assert register(filed, draft(tmp_path / "healthy")).tags["ckptdoctor.verdict"] == "passed"
