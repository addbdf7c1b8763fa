"""`ckptdoctor probe`: verdicts and exit codes, both formats, and one sentence for what cannot be run."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ckptdoctor.cli.main import run
from ckptdoctor.resources import rules_dir

pytestmark = pytest.mark.torch

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]
PAIR = ROOT / "fixtures" / "pair"
TRAINERS = ROOT / "fixtures" / "trainers"
FEATURES = str(PAIR / "samples" / "specforge")
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((rules_dir() / "schema" / "probe.schema.json").read_text(encoding="utf-8"))
)
FEW = ("--limit", "200", "--steps", "3")


@pytest.fixture(autouse=True)
def _torch(request: pytest.FixtureRequest) -> None:
    if "without_torch" not in request.node.name and importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")


def text(capsys: Capture, *args: str, code: int = 0) -> str:
    """What the command prints, on one line."""
    assert run(["probe", *args]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return " ".join(out.split())


def data(capsys: Capture, *args: str, code: int = 0) -> dict[str, Any]:
    """The document, held to the schema."""
    assert run(["probe", *args, "--format", "json"]) == code
    out, err = capsys.readouterr()
    assert (err, out.isascii()) == ("", True)
    found = json.loads(out)
    SCHEMA.validate(found)
    return dict(found)


def refused(capsys: Capture, *args: str, code: int = 3) -> str:
    """The sentence on stderr."""
    assert run(["probe", *args]) == code
    out, err = capsys.readouterr()
    assert (out, "Traceback" in err) == ("", False)
    return err


def changed(tmp_path: Path, **fields: Any) -> str:
    """The draft of the pair with these fields in its config."""
    draft = tmp_path / "draft"
    shutil.copytree(PAIR / "draft", draft)
    config = json.loads((draft / "config.json").read_text(encoding="utf-8"))
    (draft / "config.json").write_text(json.dumps({**config, **fields}), encoding="utf-8")
    return str(draft)


def test_a_draft_that_works(capsys: Capture) -> None:
    found = text(capsys, str(PAIR / "draft"), "--samples", FEATURES, "--target", str(PAIR / "target"), *FEW)
    assert "the draft works as its files state" in found
    assert "samples: SpecForge feature files" in found
    assert "expected accepted length 3." in found
    assert "vLLM 0.25.0 and later: feeds and computes it so" in found
    assert "states 72×3×64 joined for fc 72×192 after fc 72×64" in found


def test_a_draft_whose_files_say_something_else(capsys: Capture, tmp_path: Path) -> None:
    draft = changed(tmp_path, norm_before_residual=False)
    found = text(capsys, draft, "--samples", FEATURES, "--target", str(PAIR / "target"), *FEW, code=1)
    assert "the draft works, but not as its files state" in found
    assert "residual of the first layer: taken after hidden_norm, not taken before hidden_norm" in found
    assert "put into the config norm_before_residual: true" in found
    document = data(capsys, draft, "--samples", FEATURES, *FEW, code=1)
    assert document["verdict"] == "otherwise"
    assert document["found"]["changed"] == ["residual_after_norm"]
    assert document["entries"] == [{"key": "norm_before_residual", "value": True}]


def test_an_untrained_draft_is_no_better_than_chance(capsys: Capture) -> None:
    draft = str(TRAINERS / "sf_eagle3_llama_sglang")
    found = text(capsys, draft, "--samples", FEATURES, "--target", str(PAIR / "target"), *FEW, code=1)
    assert "no better than chance under any reading" in found
    assert "the training is at fault" in found
    assert "put into the config" not in found
    document = data(capsys, draft, "--samples", FEATURES, "--target", str(PAIR / "target"), *FEW, code=1)
    assert (document["verdict"], document["serving"], document["entries"]) == ("chance", [], [])


def test_one_state_as_wide_as_the_draft_skips_fc(capsys: Capture, tmp_path: Path) -> None:
    """What an engine that captured a single layer feeds: fc cannot run, and nothing is accepted."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    count = 120
    tensors = {
        "next_token_ids": torch.randint(3, 190, (count,)),
        "position_ids": torch.arange(count),
        "hidden_states": torch.randn(count, 1, 64),
    }
    metadata = {
        "ckptdoctor": "recorded",
        "engine": "sglang",
        "version": "0.5.9",
        "boundaries": "[5]",
        "phase": "extend",
    }
    save_file(tensors, tmp_path / "recorded.safetensors", metadata)
    samples = str(tmp_path / "recorded.safetensors")
    document = data(capsys, str(PAIR / "draft"), "--samples", samples, "--target", str(PAIR / "target"), code=1)
    assert document["samples"]["form"] == "recorded"
    assert document["stated"]["wiring"]["fc"] is False
    assert {shape["name"] for shape in document["shapes"]} >= {"straight in", "without fc"}
    assert document["verdict"] == "chance"


def test_too_few_tokens(capsys: Capture) -> None:
    found = text(capsys, str(PAIR / "draft"), "--samples", FEATURES, "--limit", "20", code=3)
    assert "too few samples to tell" in found
    assert "64 or more are needed" in found


def test_without_a_search_and_with_a_limit_of_ones_own(capsys: Capture, tmp_path: Path) -> None:
    draft = changed(tmp_path, norm_before_residual=False)
    document = data(capsys, draft, "--samples", FEATURES, *FEW, "--no-search")
    assert (document["found"], document["verdict"]) == (None, "measured")
    assert run(["probe", draft, "--samples", FEATURES, *FEW, "--no-search", "--fail-under", "3.5"]) == 1
    assert run(["probe", draft, "--samples", FEATURES, *FEW, "--no-search", "--fail-under", "1.2"]) == 0
    capsys.readouterr()


def test_what_cannot_be_run(capsys: Capture, tmp_path: Path) -> None:
    assert "only EAGLE-3 and P-EAGLE drafts can be run" in refused(
        capsys, str(TRAINERS / "spec_dflash_qwen3"), "--samples", FEATURES
    )
    assert "no such" in refused(capsys, str(tmp_path / "nothing"), "--samples", FEATURES).lower()
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "sample" in refused(capsys, str(PAIR / "draft"), "--samples", str(empty))
    assert run(["probe", str(PAIR / "draft")]) == 2
    assert "--samples" in capsys.readouterr().err


def test_states_of_another_width(capsys: Capture, tmp_path: Path) -> None:
    import torch

    torch.save(
        {
            "input_ids": torch.arange(80) % 50 + 5, "loss_mask": torch.ones(80, dtype=torch.long),
            "hidden_state": torch.randn(1, 80, 32), "aux_hidden_state": torch.randn(1, 80, 96),
        },
        tmp_path / "data_0.ckpt",
    )  # fmt: skip
    told = refused(capsys, str(PAIR / "draft"), "--samples", str(tmp_path))
    assert "32 wide" in told
    assert "3 states of 64" in told


def test_without_torch_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch' or name.startswith('torch.'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "ckptdoctor", "probe", str(PAIR / "draft"), "--samples", FEATURES],
        env={**os.environ, "PYTHONPATH": f"{blocked}:{ROOT}"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "pip install 'ckptdoctor[torch]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, ckptdoctor.probe, ckptdoctor.recorder.entry, ckptdoctor.cli.main; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_a_draft_without_fc(capsys: Capture, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    draft = Path(changed(tmp_path))
    tensors = load_file(draft / "model.safetensors")
    del tensors["fc.weight"]
    save_file(tensors, draft / "model.safetensors")
    assert "no fc.weight" in refused(capsys, str(draft), "--samples", FEATURES)
