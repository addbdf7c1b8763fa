"""The judgement of gates: what passes, what does not, and that the judged tree has no say in it."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest
from builder.gguf import gguf_file
from gate_drafts import HEALTHY, SICK, WARNED, draft

from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.policy import NO_POLICY, load_policy
from ckptdoctor.registry import gate_policy, judge_tree
from ckptdoctor.registry.snapshot import snapshot


@pytest.mark.parametrize(
    ("recipe", "outcome", "sentence"),
    [
        (HEALTHY, "passed", "passes"),
        (WARNED, "warned", "passes, with 1 warning to look at"),
        (SICK, "refused", "refused: 1 error found"),
    ],
)
def test_errors_stay_outside_and_warnings_pass_with_a_note(
    recipe: str, outcome: str, sentence: str, tmp_path: Path
) -> None:
    verdict = judge_tree(draft(tmp_path / "model", recipe), NO_POLICY, "org/name")
    assert (verdict.outcome, verdict.sentence) == (outcome, sentence)
    assert [e.path for e in verdict.report.examinations] == ["org/name"]
    assert verdict.refused is (outcome == "refused")


def test_every_draft_of_a_tree_is_judged(tmp_path: Path) -> None:
    draft(tmp_path / "repo" / "a")
    draft(tmp_path / "repo" / "deep" / "b", SICK)
    draft(tmp_path / "repo" / ".git" / "c", SICK)
    verdict = judge_tree(tmp_path / "repo", NO_POLICY, "org/name")
    assert [(e.path, len(e.findings)) for e in verdict.report.examinations] == [
        ("org/name/a", 0),
        ("org/name/deep/b", 2),
    ]
    assert verdict.refused


def test_a_tree_without_a_checkpoint_passes(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a model card", encoding="utf-8")
    assert judge_tree(tmp_path, NO_POLICY, "org/name").outcome == "empty"


def test_what_is_judged_does_not_set_its_own_rules(tmp_path: Path) -> None:
    model = draft(tmp_path / "model", SICK)
    (model / "ckptdoctor.toml").write_text("fail-on = 'never'", encoding="utf-8")
    verdict = judge_tree(model, gate_policy(None), "org/name")
    assert verdict.refused
    assert verdict.report.remarks == (
        "ckptdoctor.toml in org/name is not followed: what is judged does not set its own rules.",
    )
    assert not judge_tree(model, load_policy(model / "ckptdoctor.toml"), "org/name").refused  # an owner's own --policy


def test_the_policy_named_outranks_the_installed_one(tmp_path: Path) -> None:
    for name, level in (("installed.toml", "never"), ("named.toml", "note")):
        (tmp_path / name).write_text(f"fail-on = '{level}'", encoding="utf-8")
    named, installed = tmp_path / "named.toml", tmp_path / "installed.toml"
    assert gate_policy(named, installed).fail_on == "note"
    assert gate_policy(None, installed).fail_on == "never"
    with pytest.raises(UsageError, match="no such file"):
        gate_policy(tmp_path / "gone.toml", installed)


def test_exceptions_of_the_policy_hold_until_their_day(tmp_path: Path) -> None:
    model = draft(tmp_path / "model", SICK)
    (tmp_path / "p.toml").write_text(
        "[[ignore]]\nrule = 'VOC001'\nreason = 'It is rewritten at load.'\nexpires = 2027-01-01", encoding="utf-8"
    )
    policy = load_policy(tmp_path / "p.toml")
    assert judge_tree(model, policy, "m", date(2027, 1, 1)).outcome == "passed"
    late = judge_tree(model, policy, "m", date(2027, 1, 2))
    assert late.refused
    assert late.report.remarks == ("The exception for VOC001 ended on 2027-01-01; it counts again.",)


@pytest.mark.parametrize("size", [8, 64])
def test_a_huge_header_is_refused(size: int, tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    with (model / "model.safetensors").open("r+b") as stream:
        stream.write((2**size - 1 if size == 64 else 2**40).to_bytes(8, "little"))
    assert judge_tree(model, NO_POLICY, "m").refused


def test_a_huge_config_is_not_passed_as_if_it_had_been_read(tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    with (model / "config.json").open("r+b") as stream:
        stream.truncate(100 * 1024 * 1024)
    verdict = judge_tree(model, gate_policy(None), "m")
    assert verdict.refused
    assert verdict.report.examinations[0].findings[0].rule == "CFG008"


def test_a_link_out_of_the_tree_is_refused(tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    outside = draft(tmp_path / "other")
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").symlink_to(outside / "model.safetensors")
    assert judge_tree(model, NO_POLICY, "m").refused
    with pytest.raises(CannotExamineError, match=r"model\.safetensors"), snapshot(model):
        pass


def test_a_snapshot_is_a_copy_that_its_source_cannot_reach(tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    (model / "sub").mkdir()
    (model / "sub" / "link").symlink_to("../config.json")
    config = (model / "config.json").read_bytes()
    with snapshot(model) as copy:
        assert copy.stat().st_mode & 0o777 == 0o700
        with (model / "config.json").open("r+b") as stream:
            stream.write(b"#")
        assert (copy / "config.json").read_bytes() == config
        assert (copy / "sub" / "link").read_bytes() == config
        assert not (copy / "sub" / "link").is_symlink()
        assert sorted(p.name for p in copy.iterdir()) == ["config.json", "model.safetensors", "sub"]
    assert not copy.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_tree_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    model.chmod(0)
    try:
        assert judge_tree(model, NO_POLICY, "m").refused
    finally:
        model.chmod(0o700)


def test_a_gguf_file_alone_is_judged(tmp_path: Path) -> None:
    whole = gguf_file({"general.architecture": "llama"})
    (tmp_path / "model.gguf").write_bytes(whole)
    assert judge_tree(tmp_path, NO_POLICY, "m").outcome == "passed"
    (tmp_path / "model.gguf").write_bytes(whole[: len(whole) // 2])
    verdict = judge_tree(tmp_path, NO_POLICY, "m")
    assert verdict.refused, verdict.sentence


def test_a_config_of_a_draft_without_weights_is_refused(tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    (model / "model.safetensors").unlink()
    verdict = judge_tree(model, NO_POLICY, "m")
    assert verdict.sentence == (
        "refused: m could not be examined: its config.json describes a draft (EAGLE-3), and there are no weights beside"
        " it, so nobody can load it"
    )
    (model / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32}', "utf-8")
    assert judge_tree(model, NO_POLICY, "m").outcome == "empty"


def test_a_link_to_a_folder_that_is_not_judged_is_refused(tmp_path: Path) -> None:
    draft(tmp_path / "out", SICK)
    tree = tmp_path / "tree"
    draft(tree / "real")
    (tree / "again").symlink_to("real")
    assert judge_tree(tree, NO_POLICY, "m").outcome == "passed"
    (tree / "again").unlink()
    (tree / "again").symlink_to(tmp_path / "out")
    assert judge_tree(tree, NO_POLICY, "m").refused


def test_what_is_sent_whole_is_judged_whole(tmp_path: Path) -> None:
    draft(tmp_path / "tree" / ".cache" / "x", SICK)
    assert judge_tree(tmp_path / "tree", NO_POLICY, "m").outcome == "empty"
    assert judge_tree(tmp_path / "tree", NO_POLICY, "m", skipped=frozenset()).refused
