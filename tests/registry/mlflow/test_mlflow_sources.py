"""What a version is registered from is looked at, whatever MLflow calls it and however it changes."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from gate_drafts import SICK, draft
from mlflow_parts import (
    bert,
    logged,
    mlflow_module,
    refusal,
    register,
    turn_sick,
    versions,
)

mlflow = mlflow_module()
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_logged_models_and_runs_that_lead_to_them(client: Any, tmp_path: Path) -> None:
    run = logged(client, draft(tmp_path / "healthy"), "eagle")
    model = client.create_logged_model(run.info.experiment_id, name="eagle", source_run_id=run.info.run_id)
    client.log_model_artifacts(model.model_id, str(draft(tmp_path / "sick", SICK)))
    assert "VOC001" in refusal(client.create_model_version, "drafts", f"models:/{model.model_id}")
    # A loader of the run takes both, and the logged model over the run's own files.
    assert "VOC001" in refusal(client.create_model_version, "drafts", f"runs:/{run.info.run_id}/eagle")
    assert versions(client) == []


def test_models_of_other_kinds_pass_untouched(client: Any, tmp_path: Path) -> None:
    other = tmp_path / "other"
    bert(other / "model")
    (other / "MLmodel").write_text("flavors: {}\n", encoding="utf-8")
    (other / "model.pkl").write_bytes(b"\x80\x04N.")
    (other / "data").mkdir()
    (other / "data" / "model.pth").write_bytes(b"\x80\x04N.")
    before = sorted(p for p in tmp_path.rglob("*"))
    version = register(client, other)
    client.set_registered_model_alias("drafts", "champion", 1)
    assert version.tags == client.get_model_version("drafts", "1").tags == {}
    assert sorted(p for p in tmp_path.rglob("*") if "mlflow.db" not in p.name) == [
        p for p in before if "mlflow.db" not in p.name
    ]
    # A draft among them is one.
    draft(other / "artifacts" / "draft", SICK)
    assert "VOC001" in refusal(register, client, other)
    assert "VOC001" in refusal(client.set_registered_model_alias, "drafts", "champion", 1)


def test_what_cannot_be_looked_at_is_refused(client: Any, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert f"{gone}: no such file or folder on this machine" in refusal(register, client, gone)
    linked = draft(tmp_path / "linked")
    outside = draft(tmp_path / "outside")
    (linked / "model.safetensors").unlink()
    (linked / "model.safetensors").symlink_to(outside / "model.safetensors")
    assert refusal(register, client, linked)
    (tmp_path / "shell").mkdir()
    (tmp_path / "shell" / "model").symlink_to(outside)
    assert "model is a link that leads out of the checkpoint" in refusal(register, client, tmp_path / "shell")
    huge = draft(tmp_path / "huge")
    with (huge / "config.json").open("r+b") as stream:
        stream.truncate(100 * 1024 * 1024)
    assert "CFG008" in refusal(register, client, huge)
    header = draft(tmp_path / "header")
    with (header / "model.safetensors").open("r+b") as stream:
        stream.write((2**40).to_bytes(8, "little"))
    assert refusal(register, client, header)
    os.mkfifo(tmp_path / "model.safetensors")
    assert "no such file or folder" in refusal(register, client, tmp_path / "model.safetensors")
    for source in ("runs:/nowhere/draft", "models:/drafts/7", "models:/m-1", "ftp://127.0.0.1:1/draft"):
        assert f"{source}: cannot be read" in refusal(client.create_model_version, "drafts", source)
    assert "names no version" in refusal(client.create_model_version, "drafts", "models:/drafts@champion")
    assert versions(client) == []


def test_both_readings_of_a_path_are_looked_at(client: Any, tmp_path: Path) -> None:
    draft(tmp_path / "a b")
    draft(tmp_path / "a%20b", SICK)
    assert "VOC001" in refusal(register, client, tmp_path / "a%20b")


def test_a_single_file_is_looked_at(client: Any, tmp_path: Path) -> None:
    sick = draft(tmp_path / "sick", SICK)
    assert "CFG001" in refusal(register, client, sick / "model.safetensors")
    assert register(client, sick / "config.json").tags == {}


def test_renamed_files_are_still_judged(client: Any, tmp_path: Path) -> None:
    sick = draft(tmp_path / "sick", SICK)
    (sick / "model.safetensors").rename(sick / "EAGLE.SAFETENSORS.safetensors")
    assert "VOC001" in refusal(register, client, sick)
    (sick / "config.json").rename(sick / "config.json.bak")
    assert "CFG001" in refusal(register, client, sick)


def test_files_that_change_between_the_judgement_and_the_registration(client: Any, uri: str, tmp_path: Path) -> None:
    from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore

    from ckptdoctor.registry.mlflow.options import options_of
    from ckptdoctor.registry.mlflow.store import _gated

    healthy = draft(tmp_path / "healthy")
    bert(tmp_path / "bert")

    class SlowStore(SqlAlchemyStore):  # a store in which somebody writes to the files at the worst moment
        meanwhile: Any

        def create_model_version(self, *args: Any, **more: Any) -> Any:
            made = super().create_model_version(*args, **more)
            self.meanwhile()
            return made

        def get_model_version_download_uri(self, *args: Any) -> Any:
            if os.environ.pop("INTERRUPT", None):
                os.kill(os.getpid(), signal.SIGINT)
            return super().get_model_version_download_uri(*args)

    store = _gated(SlowStore(uri), options_of(uri, uri)[1])
    store.meanwhile = lambda: turn_sick(healthy)
    told = refusal(store.create_model_version, "drafts", str(healthy))
    assert told == (
        f"ckptdoctor: no version of drafts is registered from {healthy}: its files changed while they were judged and"
        " registered. Register it again when nothing writes to them any more."
    )
    store.meanwhile = lambda: draft(tmp_path / "bert" / "more", SICK)
    assert "its files changed" in refusal(store.create_model_version, "drafts", str(tmp_path / "bert"))

    register(client, draft(tmp_path / "again"))
    store.meanwhile = lambda: os.environ.update(INTERRUPT="1")
    with pytest.raises(KeyboardInterrupt):
        store.create_model_version("drafts", "models:/drafts/3")
    assert versions(client) == ["3"]


def test_a_writer_that_never_rests_gets_nothing_else_in(client: Any, tmp_path: Path) -> None:
    place = draft(tmp_path / "place")
    contents = [(place / "model.safetensors").read_bytes()]
    contents.append((draft(tmp_path / "sick", SICK) / "model.safetensors").read_bytes())
    right = register(client, draft(tmp_path / "still")).tags["ckptdoctor.digest"]
    stop = threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            (tmp_path / "next").write_bytes(contents[turn % 2])
            (tmp_path / "next").replace(place / "model.safetensors")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(8):
            try:
                register(client, place)
            except mlflow.exceptions.MlflowException as error:
                assert "is registered from" in str(error)  # noqa: PT017
    finally:
        stop.set()
        writer.join()
    assert {v.tags["ckptdoctor.digest"] for v in client.search_model_versions("")} == {right}


@pytest.mark.parametrize("hidden", [".cache", ".git", "model/.cache/huggingface"])
def test_folders_that_a_work_tree_would_hide_are_judged(client: Any, tmp_path: Path, hidden: str) -> None:
    version = tmp_path / "version"
    draft(version / "model")
    draft(version / hidden / "x", SICK)
    assert "VOC001" in refusal(register, client, version)
    assert versions(client) == []
