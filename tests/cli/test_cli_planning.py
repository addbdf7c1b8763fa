"""`ckptdoctor.planning`: what stands between the commands and the simulation."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from cli_drafts import NAMES, copy, draft, header, plain_model, target, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.cli.main import run
from ckptdoctor.errors import UsageError
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.launch.line import parse_launch
from ckptdoctor.planning import (
    better_releases,
    chosen_engines,
    compat_for,
    installed_engine,
    plan_for,
    serving_block,
)
from ckptdoctor.serving import LoadPlan, contracts, load_plan

Capture = pytest.CaptureFixture[str]

LLAMA = "mo_eagle3_llama"


def facts_of(path: str, name: str | None = LLAMA) -> Facts:
    return describe(open_checkpoint(path), read_target(target(name)) if name is not None else None)


def planned(path: str, engine: str, trained_with: str | None = None) -> LoadPlan:
    return plan_for(path, engine, target=target(LLAMA), launch=None, trained_with=trained_with)[0]


def test_a_served_plan_needs_nothing_better() -> None:
    facts = facts_of(draft(LLAMA))
    plan = load_plan(facts, contracts()["vllm"], "0.23.0")
    assert plan.outcome == "served"
    assert better_releases(facts, plan) is plan
    assert (plan.better, plan.fitting) == ((), None)


def test_better_releases_are_named_and_are_better() -> None:
    plan = planned(draft(LLAMA), "vllm==0.22.0", "model-optimizer")
    assert plan.outcome == "degraded"
    assert plan.better == (
        "vLLM 0.10.2 to 0.21.0 serves it as trained",
        "vLLM 0.23.0 to 0.33.0 serves it as trained",
    )
    for release in ("0.10.2", "0.21.0", "0.23.0", contracts()["vllm"].newest):
        assert planned(draft(LLAMA), f"vllm=={release}").outcome == "served"


def test_a_release_that_serves_with_less_is_better_than_a_broken_one(tmp_path: Path) -> None:
    path = copy(LLAMA, tmp_path / "draft", {"norm_before_residual": True})
    plan = planned(path, "sglang==0.5.9")
    assert (plan.outcome, plan.better) == ("broken", ("SGLang 0.5.12 to 0.5.23 runs it, not quite as trained",))
    assert planned(path, "sglang==0.5.12").better == ()


def test_no_release_is_better_than_one_of_the_same_outcome() -> None:
    plan = planned(draft("spec_eagle3_llama"), "sglang==0.5.9")
    assert (plan.outcome, plan.better, plan.fitting) == ("refused", (), None)


@pytest.mark.parametrize(
    ("engine", "writer", "ids"),
    [
        ("vllm==0.22.0", "model-optimizer", [2, 4, 5]),
        ("vllm==0.22.1", "model-optimizer", [2, 4, 5]),
        ("sglang==0.5.12", "speculators", [0, 2, 3]),
    ],
)
def test_fitting_ids_fit_when_they_are_written(tmp_path: Path, engine: str, writer: str | None, ids: list[int]) -> None:
    plan = planned(draft(LLAMA), engine, writer)
    assert plan.outcome == "degraded"
    assert list(plan.fitting or ()) == ids
    key = "eagle_aux_hidden_state_layer_ids"
    fixed = planned(copy(LLAMA, tmp_path / "draft", {"eagle_config": {key: ids}, key: ids}), engine)
    told = {boundaries for boundaries in fixed.captured.values() if boundaries is not None}
    assert told == {plan.trained}


def test_fitting_ids_are_only_for_wrong_layers() -> None:
    assert planned(draft(LLAMA), "sglang==0.5.9").fitting is None


@pytest.mark.parametrize("name", NAMES)
def test_the_serving_block_is_the_short_form_of_compat(name: str) -> None:
    ranges, _ = compat_for(draft(name), ["sglang", "vllm"], target=target(name), launch=None, trained_with=None)
    block = serving_block(facts_of(draft(name), name))
    # Neighbouring ranges of which a person would be told the same are one row.
    told = [(r.engine, r.name, r.plan.outcome, next(iter(r.plan.reasons), r.plan.doubt)) for r in ranges]
    rows = [row for row, before in zip(told, [None, *told], strict=False) if row != before]
    assert [(b.engine, b.name, b.outcome, b.reason) for b in block] == rows
    ends = {(r.engine, r.first) for r in ranges}, {(r.engine, r.last) for r in ranges}
    assert {(b.engine, b.first) for b in block} <= ends[0]
    assert {(b.engine, b.last) for b in block} <= ends[1]
    assert [b.is_newest for b in block] == [b.last == contracts()[b.engine].newest for b in block]


def test_the_serving_block_heeds_the_launch_line() -> None:
    line = parse_launch("python -m sglang.launch_server --pp-size 2")
    block = serving_block(facts_of(draft(LLAMA)), line)
    assert {b.outcome for b in block if b.engine == "sglang"} == {"refused"}


def test_no_serving_block_for_a_plain_model(tmp_path: Path) -> None:
    facts = facts_of(plain_model(tmp_path / "model"), None)
    assert facts.draft.algorithm == "plain"
    assert serving_block(facts) == ()


def test_no_serving_block_for_what_is_not_recognised(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    write(tmp_path / "model.safetensors", {"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}, b"\0\0")
    facts = facts_of(str(tmp_path), None)
    assert facts.draft.algorithm == "unknown"
    assert serving_block(facts) == ()


def test_no_serving_block_when_the_names_cannot_be_trusted(tmp_path: Path) -> None:
    path = copy(LLAMA, tmp_path / "draft")
    file = Path(path) / "model.safetensors"
    assert "fc.weight" in header(file)
    file.write_bytes(file.read_bytes()[:100])
    facts = facts_of(path)
    assert not facts.files.names_sound
    assert serving_block(facts) == ()


def test_a_release_with_a_remark() -> None:
    facts = facts_of(draft(LLAMA))
    contract = contracts()["vllm"]
    plain = load_plan(facts, contract, contract.newest)
    assert plain.release_remark is None
    ((_, release, remark),) = chosen_engines(["vllm==99.0"])
    assert remark is not None
    unread = load_plan(facts, contract, release)
    assert (unread.release_remark, unread.remarks) == (remark, (remark, *plain.remarks))
    assert (unread.outcome, unread.executed) == (plain.outcome, False)


def test_chosen_engines() -> None:
    vllm, sglang = contracts()["vllm"], contracts()["sglang"]
    assert chosen_engines([]) == []
    assert chosen_engines(["vllm", "sglang==0.5.9"]) == [(vllm, vllm.newest, None), (sglang, "0.5.9", None)]
    assert chosen_engines(["vllm==0.22.0", f"vllm=={vllm.newest}", "vllm", "vllm==0.22.0"]) == [
        (vllm, "0.22.0", None),
        (vllm, vllm.newest, None),
    ]
    # As `pip freeze` prints it.
    assert chosen_engines(["vllm==0.22.0+cu128"]) == [(vllm, "0.22.0", None)]


@pytest.mark.parametrize("digits", [201, 5000])
@pytest.mark.parametrize("start", ["vllm==", "llama.cpp==b"])
def test_a_release_of_absurd_length(start: str, digits: int) -> None:
    with pytest.raises(UsageError, match="is no engine or release"):
        chosen_engines([start + "9" * digits])


PACKAGES = ("sglang", "vllm", "lmdeploy", "tensorrt-llm", "mlx-vlm", "openvino-genai")
ANY = bool({d.name.lower().replace("_", "-") for d in metadata.distributions() if d.name} & set(PACKAGES))
needs_none = pytest.mark.skipif(ANY, reason="an engine is installed in this environment")


def install(site: Path, package: str, version: str) -> None:
    """What pip leaves behind of a package, as far as its version goes."""
    folder = site / f"{package.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8")


@needs_none
@pytest.mark.parametrize("command", ["plan", "scan"])
def test_nothing_is_installed(capsys: Capture, command: str) -> None:
    assert run([command, draft(LLAMA), "--engine", "installed"]) == 2
    assert capsys.readouterr() == (
        "",
        "ckptdoctor: none of lmdeploy, mlx-vlm, openvino, sglang, tensorrt-llm and vllm is installed in this "
        "environment\n",
    )


@needs_none
@pytest.mark.parametrize(
    ("package", "version", "engine", "release"),
    [
        ("vllm", "0.22.0", "vllm", "0.22.0"),
        ("vllm", "0.22.0+cu128", "vllm", "0.22.0"),
        ("sglang", "0.5.9", "sglang", "0.5.9"),
        ("mlx-vlm", "0.6.5", "mlx-vlm", "0.6.5"),
        ("openvino-genai", "2026.1.0.0", "openvino", "undated"),
    ],
)
def test_what_is_installed_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, version: str, engine: str, release: str
) -> None:
    install(tmp_path, package, version)
    # Packages of other things: one that only shares a name, and the runtime under OpenVINO GenAI.
    install(tmp_path, "eagle", "1.0")
    install(tmp_path, "openvino", "2026.1.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_engine() == f"{engine}=={version}"
    ((contract, found, _),) = chosen_engines(["installed"])
    assert (contract.engine, found) == (engine, release)


@needs_none
def test_two_installed_engines_leave_the_choice_to_the_person(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "vllm", "0.22.0")
    install(tmp_path, "sglang", "0.5.9")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run(["plan", draft(LLAMA), "--engine", "installed"]) == 2
    assert capsys.readouterr() == (
        "",
        "ckptdoctor: sglang==0.5.9 and vllm==0.22.0 are installed in this environment; name the one that is meant\n",
    )
