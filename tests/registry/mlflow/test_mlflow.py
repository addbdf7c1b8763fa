"""The gate of an MLflow registry, as MLflow's own client meets it: a real registry in SQLite, real artifact folders."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate_drafts import HEALTHY, SICK, WARNED, draft
from mlflow_parts import ROOT, database, environment, installed_plugin, mlflow_module

mlflow = mlflow_module()
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.filterwarnings("ignore")

TAGS = [
    "ckptdoctor.digest", "ckptdoctor.report", "ckptdoctor.serving", "ckptdoctor.summary", "ckptdoctor.verdict",
    "ckptdoctor.version",
]  # fmt: skip


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


def client_of(tracking: str, registry: str) -> Any:
    return mlflow.MlflowClient(tracking, registry)


def logged(client: Any, folder: Path, name: str = "draft") -> Any:
    """A run with the files of `folder` as artifacts."""
    run = client.create_run(client.get_experiment_by_name("drafts").experiment_id)
    client.log_artifacts(run.info.run_id, str(folder), name)
    return run


def register(client: Any, folder: Path, **more: Any) -> Any:
    return client.create_model_version("drafts", str(folder), **more)


def refusal(call: Any, *args: Any, **more: Any) -> str:
    with pytest.raises(mlflow.exceptions.MlflowException) as refused:
        call(*args, **more)
    return str(refused.value)


def versions(client: Any) -> list[str]:
    return sorted(str(v.version) for v in client.search_model_versions(""))


def turn_sick(folder: Path) -> None:
    """Replace the weights by those of a sick draft."""
    shutil.copyfile(
        draft(folder.parent / f"{folder.name}-sick", SICK) / "model.safetensors", folder / "model.safetensors"
    )


def test_users_change_a_uri_and_nothing_else(uri: str, plugin: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "mlflow.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    draft(tmp_path / "drafts" / "eagle3-llama")
    script = """
import mlflow, sys
for folder in sys.argv[1:]:
    try:
        print(mlflow.register_model(folder, "drafts").tags["ckptdoctor.verdict"])
    except mlflow.exceptions.MlflowException as error:
        print(type(error).__name__, error.error_code, *str(error).splitlines()[0:1])
""" + "\n".join([examples[0]] * 3 + examples[1:])
    sick = draft(tmp_path / "sick", SICK)
    done = subprocess.run(
        [sys.executable, "-c", script, str(draft(tmp_path / "healthy")), str(sick)],
        env=environment(plugin, {"MLFLOW_TRACKING_URI": uri, "MLFLOW_REGISTRY_URI": f"ckptdoctor+{uri}"}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "passed",
        f"RefusedError INVALID_PARAMETER_VALUE ckptdoctor: no version of drafts is registered from {sick}."
        " Refused: 1 error found.",
        "passed ()",
    ], done.stderr


def test_a_sick_draft_is_refused_with_the_report_and_nothing_is_stored(client: Any, tmp_path: Path) -> None:
    sick = draft(tmp_path / "sick", SICK)
    before = sorted(p.name for p in tmp_path.rglob("*"))
    told = refusal(register, client, sick)
    assert told.startswith(f"ckptdoctor: no version of drafts is registered from {sick}. Refused: 1 error found.\n\n")
    assert "VOC001 d2t-absolute  model.safetensors, d2t" in told
    assert versions(client) == []
    assert sorted(p.name for p in tmp_path.rglob("*")) == before
    assert [m.name for m in client.search_registered_models()] == ["drafts"]


def test_a_healthy_draft_is_tagged_and_the_report_lies_beside_it(client: Any, tmp_path: Path) -> None:
    version = register(client, draft(tmp_path / "healthy"), tags={"team": "speech"})
    assert sorted(version.tags) == [*TAGS, "team"]
    assert version.tags["ckptdoctor.verdict"] == "passed"
    assert version.tags["ckptdoctor.summary"] == "passes"
    assert version.tags["ckptdoctor.serving"].startswith("SGLang 0.5.23: ")
    assert "; vLLM 0.33.0: not known (" in version.tags["ckptdoctor.serving"]
    where = tmp_path / "ckptdoctor-report" / "drafts-v1"
    assert version.tags["ckptdoctor.report"] == f"{where}/report.md"
    report = json.loads((where / "report.json").read_text(encoding="utf-8"))
    assert [c["path"] for c in report["checkpoints"]] == ["drafts"]
    assert (where / "report.md").read_text(encoding="utf-8").startswith("### drafts\n")


def test_a_warning_passes_with_a_note_and_the_report_is_an_artifact_of_the_run(
    client: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("mlflow.ckptdoctor").addHandler(caplog.handler)
    run = logged(client, draft(tmp_path / "warned", WARNED)).info
    version = client.create_model_version("drafts", f"runs:/{run.run_id}/draft", run.run_id)
    where = f"runs:/{run.run_id}/ckptdoctor-report/drafts-v1/report.md"
    said = "passes, with 1 warning to look at (VOC018 t2d-length)"
    assert version.tags["ckptdoctor.verdict"] == "warned"
    assert version.tags["ckptdoctor.summary"] == said
    assert version.tags["ckptdoctor.report"] == where
    ours = {(r.levelname, r.getMessage()) for r in caplog.records if r.name == "mlflow.ckptdoctor"}
    assert ours == {("WARNING", f"drafts version 1: {said}. Report: {where}")}
    listed = client.list_artifacts(run.run_id, "ckptdoctor-report/drafts-v1")
    assert [f.path.rpartition("/")[2] for f in listed] == ["report.json", "report.md"]


def test_the_whole_run_as_source_stays_the_same_with_the_report_in_it(client: Any, tmp_path: Path) -> None:
    run = logged(client, draft(tmp_path / "healthy")).info
    first = client.create_model_version("drafts", run.artifact_uri, run.run_id)
    assert (Path(run.artifact_uri) / "ckptdoctor-report" / "drafts-v1" / "report.md").is_file()
    client.set_registered_model_alias("drafts", "champion", 1)
    again = client.get_model_version("drafts", "1")
    assert again.tags["ckptdoctor.digest"] == first.tags["ckptdoctor.digest"]
    assert again.tags["ckptdoctor.verdict"] == "passed"
    # The folder of reports is no place to hide in.
    draft(Path(run.artifact_uri) / "ckptdoctor-report" / "drafts-v1" / "more", SICK)
    assert "VOC001" in refusal(client.set_registered_model_alias, "drafts", "champion", 1)


def test_promotion_judges_the_files_as_they_are_now(client: Any, tmp_path: Path) -> None:
    healthy = draft(tmp_path / "healthy")
    digest = register(client, healthy).tags["ckptdoctor.digest"]
    client.set_registered_model_alias("drafts", "champion", 1)
    client.transition_model_version_stage("drafts", 1, "Staging")
    turn_sick(healthy)
    told = refusal(client.set_registered_model_alias, "drafts", "best", 1)
    assert told.startswith("ckptdoctor: version 1 of drafts does not get the alias best. Refused: 1 error found.")
    assert "The files are not those that were judged before." in told
    told = refusal(client.transition_model_version_stage, "drafts", 1, "Production")
    assert told.startswith("ckptdoctor: version 1 of drafts is not moved to Production. Refused: 1 error found.")
    version = client.get_model_version("drafts", "1")
    assert (version.aliases, version.current_stage) == (["champion"], "Staging")
    assert version.tags["ckptdoctor.verdict"] == "refused"
    assert version.tags["ckptdoctor.digest"] == digest
    assert "VOC001" in (tmp_path / "ckptdoctor-report" / "drafts-v1" / "report.md").read_text(encoding="utf-8")
    # It can always be taken out of service.
    client.transition_model_version_stage("drafts", 1, "Archived")
    client.delete_registered_model_alias("drafts", "champion")


def test_files_that_changed_for_the_better_pass_and_the_tags_are_renewed(client: Any, tmp_path: Path) -> None:
    place = draft(tmp_path / "place", WARNED)
    digest = register(client, place).tags["ckptdoctor.digest"]
    shutil.rmtree(place)
    draft(place, HEALTHY)
    client.set_registered_model_alias("drafts", "champion", 1)
    tags = client.get_model_version("drafts", "1").tags
    assert tags["ckptdoctor.verdict"] == "passed"
    assert tags["ckptdoctor.digest"] != digest
    assert "not those that were judged before" in (tmp_path / "ckptdoctor-report/drafts-v1/report.md").read_text()


def test_a_copy_of_a_version_is_judged(client: Any, tmp_path: Path) -> None:
    healthy = draft(tmp_path / "healthy")
    register(client, healthy)
    copied = client.copy_model_version("models:/drafts/1", "released")
    assert (
        copied.tags["ckptdoctor.report"]
        == "not stored: its run is not known, and nothing can be written beside its files"
    )
    turn_sick(healthy)
    told = refusal(client.copy_model_version, "models:/drafts/1", "released")
    assert told.startswith("ckptdoctor: no version of released is registered from models:/drafts/1. Refused: 1 error")
    assert [(v.name, str(v.version)) for v in client.search_model_versions("name = 'released'")] == [("released", "1")]


def test_logged_models_and_runs_that_lead_to_them(client: Any, tmp_path: Path) -> None:
    run = logged(client, draft(tmp_path / "healthy"), "eagle")
    model = client.create_logged_model(run.info.experiment_id, name="eagle", source_run_id=run.info.run_id)
    client.log_model_artifacts(model.model_id, str(draft(tmp_path / "sick", SICK)))
    assert "VOC001" in refusal(client.create_model_version, "drafts", f"models:/{model.model_id}")
    # A loader of the run takes both, and the logged model over the run's own files.
    assert "VOC001" in refusal(client.create_model_version, "drafts", f"runs:/{run.info.run_id}/eagle")
    assert versions(client) == []


def bert(folder: Path) -> None:
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    config = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    import numpy as np

    save_file({"embeddings.word_embeddings.weight": np.zeros((16, 8), "float32")}, folder / "model.safetensors")


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


def test_the_tags_of_the_gate_are_its_own(client: Any, tmp_path: Path) -> None:
    forged = {"ckptdoctor.verdict": "passed", "ckptdoctor.report": "all is well"}
    version = register(client, draft(tmp_path / "warned", WARNED), tags=forged)
    assert version.tags["ckptdoctor.verdict"] == "warned"
    for call in (
        lambda: client.set_model_version_tag("drafts", "1", "ckptdoctor.verdict", "passed"),
        lambda: client.delete_model_version_tag("drafts", "1", "ckptdoctor.verdict"),
    ):
        assert refusal(call) == "ckptdoctor.verdict is set by the gate of ckptdoctor alone."
    bert(tmp_path / "bert")
    assert register(client, tmp_path / "bert", tags=forged).tags == {}


def test_prompts_have_no_files_and_pass_but_nothing_passes_as_a_prompt(client: Any, tmp_path: Path) -> None:
    client.register_prompt("greeting", "Hello {{name}}")
    client.set_prompt_alias("greeting", "champion", 1)
    posing = {"mlflow.prompt.is_prompt": "true"}
    store = client._get_registry_client().store  # the client keeps such calls back; others need not
    tags = [mlflow.entities.model_registry.ModelVersionTag(*item) for item in posing.items()]
    sick = str(draft(tmp_path / "sick", SICK))
    assert "VOC001" in refusal(store.create_model_version, "drafts", sick, tags=tags)
    draft(tmp_path / "prompt-template", SICK)
    assert "VOC001" in refusal(store.create_model_version, "drafts", "prompt-template", tags=tags)


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


def test_check_version_judges_and_changes_nothing(client: Any, uri: str, tmp_path: Path) -> None:
    from ckptdoctor.registry.mlflow.store import check_version

    healthy = draft(tmp_path / "healthy")
    register(client, healthy)
    assert check_version("drafts", 1, f"ckptdoctor+{uri}", uri).outcome == "passed"
    turn_sick(healthy)
    for registry in (uri, f"ckptdoctor+{uri}"):
        verdict = check_version("drafts", "1", registry, uri)
        assert verdict.refused
        assert verdict.report.remarks == ("The files are not those that were judged before.",)
    assert client.get_model_version("drafts", "1").tags["ckptdoctor.verdict"] == "passed"
    with pytest.raises(mlflow.exceptions.MlflowException, match="not found"):
        check_version("drafts", 9, uri, uri)
