"""The gate of an MLflow registry, as MLflow's own client meets it: a real registry in SQLite, real artifact folders."""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gate_drafts import HEALTHY, SICK, WARNED, draft
from mlflow_parts import (
    ROOT,
    bert,
    environment,
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


TAGS = [
    "ckptdoctor.digest", "ckptdoctor.report", "ckptdoctor.serving", "ckptdoctor.summary", "ckptdoctor.verdict",
    "ckptdoctor.version",
]  # fmt: skip


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
