"""Nothing that is read is written over, whatever the path that leads there, and what may be written is written."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from recipe_cases import RECIPES, Built

from ckptdoctor.cli.main import run
from ckptdoctor.earlier import BASELINE, PICTURE, REPORT, is_earlier
from ckptdoctor.outputs import is_loaders_name

SERVE = """#!/bin/sh
python -m sglang.launch_server --config options.yaml --speculative-algorithm EAGLE --speculative-token-map hot.json
"""
POLICY = 'baseline = "known.json"\nrules = ["own"]\n'
RULE = """- id: OWN001
  name: own-rule
  severity: note
  when: draft.algorithm == 'eagle3'
  assert: draft.fc is not None
  message: There is no fc.
  effect: nothing
  advice: none
  examples: {bad: [], good: []}
"""


@pytest.fixture
def here(tmp_path: Path, built: Built, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a draft `d`, its target `t`, another copy `old` and all else that a scan may read."""
    draft = built.path(RECIPES["d2t-absolute"])
    shutil.copytree(draft, tmp_path / "d", ignore=shutil.ignore_patterns("target"))
    shutil.copytree(draft / "target", tmp_path / "t")
    shutil.copytree(tmp_path / "d", tmp_path / "old")
    (tmp_path / "t" / "tokenizer.json").write_text("{}", encoding="utf-8")
    (tmp_path / "d" / "README.md").write_text("### A draft\n\n**see** `ckptdoctor explain VOC001`\n", encoding="utf-8")
    files = {
        "serve.sh": SERVE, "options.yaml": "tp: 2\n", "hot.json": "[1, 2]", "counts.json": '{"1": 2}',
        "strict.toml": POLICY, "known.json": '{"schema_version": 1, "findings": []}', "shared.json": "{}",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own.yaml").write_text(RULE, encoding="utf-8")
    (tmp_path / ".git").mkdir()
    (tmp_path / "d" / "shared_config.json").symlink_to("../shared.json")
    (tmp_path / "alias").symlink_to("d")
    (tmp_path / "link.json").symlink_to("d/config.json")
    os.link(tmp_path / "d" / "config.json", tmp_path / "twin.json")
    os.link(tmp_path / "serve.sh", tmp_path / "twin.sh")
    weights = {"weight_map": {"fc.weight": "model.safetensors"}}
    (tmp_path / "d" / "model.safetensors.index.json").write_text(json.dumps(weights), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file below `folder` with its bytes, every link with where it leads."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


READ = "which is read and never written over; name another file"
DRAFT = f"is a file of the draft in {{}}, {READ}"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("scan d/model.safetensors -o d/config.json", DRAFT.format("d")),
        ("scan d/model.safetensors -o d/model.safetensors", f"is a file of the draft, {READ}"),
        ("scan d/model.safetensors -o d/README.md", DRAFT.format("d")),
        ("scan d/model.safetensors.index.json -o d/model.safetensors", DRAFT.format("d")),
        ("scan d/model.safetensors.index.json --report json=d/config.json", DRAFT.format("d")),
        ("scan d/model.safetensors.index.json --write-baseline d/config.json", DRAFT.format("d")),
        ("scan d/config.json -o d/config.json", f"is a file of the draft, {READ}"),
        ("scan d -o d/config.json", DRAFT.format("d")),
        ("scan d -o d/README.md", DRAFT.format("d")),
        ("scan d -o old/../d/config.json", DRAFT.format("d")),
        ("scan d -o alias/config.json", DRAFT.format("d")),
        ("scan alias -o d/config.json", DRAFT.format("alias")),
        ("scan alias/model.safetensors -o d/config.json", DRAFT.format("alias")),
        ("scan d -o link.json", DRAFT.format("d")),
        ("scan d/model.safetensors -o link.json", DRAFT.format("d")),
        ("scan d -o twin.json", DRAFT.format("d")),
        ("scan d/model.safetensors -o twin.json", DRAFT.format("d")),
        ("scan d -o shared.json", DRAFT.format("d")),
        ("scan d --target t/config.json -o t/tokenizer.json", f"is a file of the target in t, {READ}"),
        ("scan d --target t/config.json -o t/config.json", f"is a file of the target, {READ}"),
        ("scan d --target t --report sarif=t/config.json", f"is a file of the target in t, {READ}"),
        ("scan d --against old -o old/config.json", f"is a file of the copy to compare with in old, {READ}"),
        ("scan d --against old/model.safetensors -o old/config.json", "is a file of the copy to compare with in old"),
        ("scan d --launch serve.sh -o serve.sh", f"is a file of the launch line, {READ}"),
        ("scan d --launch serve.sh -o twin.sh", f"is a file of the launch line, {READ}"),
        ("scan d --launch serve.sh -o options.yaml", f"is a file of the launch line, {READ}"),
        ("scan d --launch serve.sh -o hot.json", f"is a file of the launch line, {READ}"),
        ("scan d --token-counts counts.json --write-baseline counts.json", f"is a file of the token counts, {READ}"),
        ("scan d --token-counts count*.json -o counts.json", f"is a file of the token counts, {READ}"),
        ("scan d --policy strict.toml -o strict.toml", f"is the project file, {READ}"),
        ("scan d --policy strict.toml -o known.json", f"is the baseline, {READ}"),
        ("scan d --policy strict.toml -o own/own.yaml", "is a file of the rules in"),
        ("scan d --baseline known.json -o known.json", f"is the baseline, {READ}"),
        ("scan d --rules own -o own/own.yaml", f"is a file of the rules in own, {READ}"),
        ("scan d -o d/generation_config.json", "is in the folder of the draft, d, and loaders look for files of such"),
        ("scan d/model.safetensors -o d/pytorch_model.bin", "is in the folder of the draft, d, and loaders look for"),
        (
            "scan d --target t/config.json -o t/special_tokens_map.json",
            "is in the folder of the target, t, and loaders",
        ),
        ("scan d -o r.txt --report json=./own/../r.txt", "two reports are to be written to the same file"),
        ("vocab show d/model.safetensors --svg d/config.json", "exists and is no SVG picture; name another file"),
        ("vocab show d/model.safetensors --svg d/added_tokens.json", "is in the folder of the draft, d, and loaders"),
        ("vocab show d --target t --svg t/added_tokens.json", "is in the folder of the target, t, and"),
        ("audit old --out d", "holds config.json, and nothing is written beside a model; name another folder"),
    ],
)
def test_what_is_read_is_never_written_over(
    here: Path, command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(here)
    assert run(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert contents(here) == before


def test_a_path_inside_the_folder_itself(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(here)
    monkeypatch.chdir(here / "d")
    for command in ("scan model.safetensors -o config.json", "scan . -o ./../alias/config.json"):
        assert run(command.split()) == 2
        assert "is a file of the draft in ., which is read" in capsys.readouterr().err
    assert contents(here) == before


def test_a_project_file_that_is_found_is_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "ckptdoctor.toml").write_text("fail-on = 'never'", encoding="utf-8")
    assert run(["scan", "d", "-o", "ckptdoctor.toml"]) == 2
    assert "ckptdoctor.toml: is the project file, which is read" in capsys.readouterr().err
    assert (here / "ckptdoctor.toml").read_text(encoding="utf-8") == "fail-on = 'never'"


def test_blobs_of_a_download_cache_are_the_draft(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = here / "models--me--draft"
    (cache / "blobs").mkdir(parents=True)
    snapshot = cache / "snapshots" / "aaa"
    snapshot.mkdir(parents=True)
    for file in (here / "old").iterdir():
        shutil.copy(file, cache / "blobs" / f"of-{file.name}")
        (snapshot / file.name).symlink_to(f"../../blobs/of-{file.name}")
    before = contents(here)
    for path in (snapshot, cache, snapshot / "model.safetensors"):
        assert run(["scan", str(path), "-o", str(cache / "blobs" / "of-config.json")]) == 2
        assert "is a file of the draft in" in capsys.readouterr().err
    assert contents(here) == before


def test_a_results_file_of_others_is_not_taken_for_an_audit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "evals").mkdir()
    mine = here / "evals" / "results.jsonl"
    mine.write_text('{"task": "gsm8k"}\n', encoding="utf-8")
    for more in ([], ["--fresh"]):
        assert run(["audit", "d", "--out", "evals", *more]) == 2
        assert "the results.jsonl in it is of no audit; name another folder" in capsys.readouterr().err
    assert mine.read_text(encoding="utf-8") == '{"task": "gsm8k"}\n'


def test_what_may_be_written_is_written_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(here)
    known = (here / "known.json").read_bytes()
    for _ in range(2):
        # Beside the draft; a baseline that is in use is written anew on purpose.
        assert run(["scan", "d", "-o", "report.json", "--format", "json", "--baseline", "known.json",
                    "--policy", "strict.toml", "--write-baseline", "known.json"]) == 1  # fmt: skip
        monkeypatch.chdir(here / "d")
        # In the draft's own folder: under names of reports, and again and again.
        assert run(["scan", "model.safetensors", "-o", "report.txt", "--report", "markdown=r.md",
                    "--write-baseline", "known.json"]) == 1  # fmt: skip
        monkeypatch.chdir(here)
    after = contents(here)
    assert {name for name in after if after[name] != before.get(name)} == {
        "known.json", "report.json", "d/report.txt", "d/r.md", "d/known.json",
    }  # fmt: skip
    assert after["known.json"] != known


@pytest.mark.parametrize("paths", [["d"], ["clean"], ["gone"], ["gone", "d", "clean"]])
def test_every_form_of_a_report_is_known_again(here: Path, built: Built, paths: list[str]) -> None:
    shutil.copytree(built.path(RECIPES["specforge-eagle3"]), here / "clean")
    forms = ("text", "json", "sarif", "junit", "github", "markdown", "html")
    (here / "out").mkdir()
    reports = [f"--report={form}={here}/out/{form}" for form in forms]
    run(["scan", *paths, *reports, "-o", str(here / "out" / "o"), "--write-baseline", str(here / "out" / "b")])
    assert {form for form in forms if not is_earlier(here / "out" / form, REPORT)} == set()
    assert is_earlier(here / "out" / "b", BASELINE)
    assert [is_earlier(here / "out" / "b", form) for form in (REPORT, PICTURE)] == [False, False]
    assert not any(is_earlier(here / "out" / form, BASELINE) for form in forms)
    named = ["d/config.json", "d/README.md", "t/config.json", "serve.sh", "options.yaml", "strict.toml", "hot.json"]
    assert [name for name in (*named, "d/model.safetensors") if is_earlier(here / name, REPORT)] == []


def test_names_that_loaders_look_for() -> None:
    taken = """config.json Config.JSON generation_config.json tokenizer.json tokenizer_config.json vocab.txt merges.txt
    special_tokens_map.json added_tokens.json model.safetensors model.safetensors.index.json pytorch_model.bin
    hf_quant_config.json chat_template.jinja chat_template.json params.json README.md LICENSE modeling_draft.py d2t.npy
    preprocessor_config.json adapter_config.json vocab_mapping.pt recipe.yaml ckptdoctor-receipt.json ckptdoctor.toml
    tekken.json tokenizer.model draft.gguf trainer_state.json kv_cache_scales.json modules.json"""
    free = """report.json report.txt r.md out.sarif out.xml page.html map.svg known.json r scan.json token-report.json
    baseline.json findings.txt"""
    assert [name for name in taken.split() if not is_loaders_name(name)] == []
    assert [name for name in free.split() if is_loaders_name(name)] == []
