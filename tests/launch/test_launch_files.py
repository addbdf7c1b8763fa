"""`--launch` with a file: scripts, options as YAML and JSON, manifests; and what is said of one that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.errors import UsageError
from ckptdoctor.launch.files import read_launch
from ckptdoctor.launch.line import Launch
from ckptdoctor.limits import LAUNCH_FILE

SCRIPT = """#!/usr/bin/env bash
# python -m sglang.launch_server --speculative-algorithm EAGLE
set -euo pipefail
export SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1
DRAFT=/data/drafts/one
STEPS="3"
pip install sglang==0.5.9   # the engine
python3 -m sglang.launch_server \\
    --model-path "$TARGET" \\
    --speculative-algorithm EAGLE3 \\
    --speculative-draft-model-path "${DRAFT}" \\
    --speculative-num-steps $STEPS --speculative-eagle-topk ${TOPK:-4} \\
    --speculative-num-draft-tokens $TOKENS > server.log 2>&1 &
wait
"""


def of_file(folder: Path, name: str, text: str) -> Launch:
    place = folder / name
    place.write_text(text, encoding="utf-8")
    return read_launch(str(place))


def refusal(value: str) -> str | None:
    """What is said of a file that cannot be read; None for one that can."""
    try:
        read_launch(value)
    except UsageError as error:
        return str(error)
    return None


def test_the_command_of_a_script(tmp_path: Path) -> None:
    found = of_file(tmp_path, "serve.sh", SCRIPT)
    assert (found.engine, found.method, found.draft_path) == ("sglang", "eagle3", "/data/drafts/one")
    assert (found.steps, found.topk, found.draft_tokens) == (3, 4, None)
    assert found.longer_context
    assert found.open_fields == {"target_path", "draft_tokens"}
    line = found.source.corrected({"method_word": "EAGLE", "draft_tokens": 8})
    assert line == (
        'python3 -m sglang.launch_server --model-path "$TARGET" --speculative-algorithm EAGLE '
        '--speculative-draft-model-path "${DRAFT}" --speculative-num-steps $STEPS --speculative-eagle-topk ${TOPK:-4} '
        "--speculative-num-draft-tokens 8"
    )


def test_a_here_document_that_the_command_reads(tmp_path: Path) -> None:
    found = of_file(
        tmp_path, "run.sh",
        "cat > extra.yaml <<'EOF'\nspeculative_config:\n  decoding_type: Eagle\n  max_draft_len: 3\n"
        "  speculative_model_dir: /draft\n  eagle3_layers_to_capture: [23, 29, 35]\nEOF\n"
        "trtllm-serve /target --tp_size 8 --extra_llm_api_options extra.yaml\n",
    )  # fmt: skip
    assert (found.engine, found.method, found.draft_path, found.draft_tokens) == ("tensorrt-llm", "eagle3", "/draft", 3)
    assert (found.tensor_parallel, found.layers_to_capture) == (8, (23, 29, 35))


def test_a_command_within_a_command(tmp_path: Path) -> None:
    found = of_file(
        tmp_path, "run.sh",
        "docker run --gpus all -e A=1 lmsysorg/sglang:v0.5.9-cu126 bash -lc 'cd /x && python -m sglang.launch_server "
        "--model t --speculative-algorithm EAGLE3 --speculative-draft-model-path d'\n",
    )  # fmt: skip
    assert (found.engine, found.release, found.method, found.draft_path) == ("sglang", "0.5.9", "eagle3", "d")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("sglang.yaml", "model-path: t\nspeculative-algorithm: EAGLE3\nspeculative-draft-model-path: d\ntp-size: 4\n",
         ("sglang", "eagle3", "d", None)),
        ("args.json", '{"model_path": "t", "speculative_algorithm": "EAGLE", "speculative_draft_model_path": "d", '
         '"speculative_num_draft_tokens": 8, "trust_remote_code": true}', ("sglang", "eagle", "d", 8)),
        ("vllm.yaml", "model: t\nspeculative-config:\n  method: eagle3\n  model: d\n  num_speculative_tokens: 3\n",
         ("vllm", "eagle3", "d", 3)),
        ("vllm.yml", "model: t\nspeculative_config: '{\"method\": \"eagle3\", \"model\": \"d\", "
         "\"num_speculative_tokens\": 3}'\n", ("vllm", "eagle3", "d", 3)),
        ("speculative.json", '{"method": "dflash", "model": "d", "num_speculative_tokens": 15}',
         ("vllm", "dflash", "d", 15)),
        ("extra.yaml", "enable_attention_dp: false\nspeculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 3\n"
         "  speculative_model: d\n", ("tensorrt-llm", "eagle3", "d", 3)),
        ("args.json", '["vllm", "serve", "t", "--speculative-config", "{\\"method\\": \\"mtp\\", '
         '\\"num_speculative_tokens\\": 1}"]', ("vllm", "mtp", None, 1)),
        ("pod.yaml", "kind: Pod\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai:v0.22.0\n"
         "    command: [vllm, serve]\n    args:\n    - t\n    - --speculative-config\n    - '{\"method\":\"eagle3\","
         "\"model\":\"d\",\"num_speculative_tokens\":3}'\n", ("vllm", "eagle3", "d", 3)),
        ("compose.yaml", "services:\n  db:\n    image: postgres\n    command: postgres -c x=1\n  s:\n"
         "    image: lmsysorg/sglang:v0.5.9\n    command: >-\n      python3 -m sglang.launch_server --model-path t\n"
         "      --speculative-algorithm EAGLE3 --speculative-draft-model-path d\n", ("sglang", "eagle3", "d", None)),
        ("job.yaml", "spec:\n  command: [/bin/sh, -c]\n  args: ['vllm serve t --speculative-config.method eagle3 "
         "--speculative-config.model d']\n", ("vllm", "eagle3", "d", None)),
    ],
)  # fmt: skip
def test_files_of_options_and_manifests(
    tmp_path: Path, name: str, text: str, expected: tuple[str, str, str | None, int | None]
) -> None:
    found = of_file(tmp_path, name, text)
    assert (found.engine, found.method, found.draft_path, found.draft_tokens) == expected


def test_a_config_file_that_the_command_names(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("speculative-algorithm: EAGLE\nspeculative-num-steps: 3\n", encoding="utf-8")
    found = of_file(tmp_path, "s.sh", "sglang serve --model-path t --config c.yaml --speculative-num-steps 5\n")
    assert (found.method, found.steps) == ("eagle", 5)


def test_the_corrected_line_of_a_file_is_its_entries(tmp_path: Path) -> None:
    found = of_file(
        tmp_path, "s.yaml", "model-path: t\nspeculative-algorithm: EAGLE\nspeculative-draft-model-path: d\n"
    )
    assert found.source.corrected({"method_word": "EAGLE3", "topk": None}) == "speculative-algorithm: EAGLE3"
    found = of_file(tmp_path, "v.json", '{"method": "eagle", "model": "d", "num_speculative_tokens": 2}')
    assert json.loads(found.source.corrected({"method_word": "eagle3"}) or "")["method"] == "eagle3"


def test_a_line_stays_a_line() -> None:
    assert read_launch("vllm serve t").engine == "vllm"
    assert read_launch("").engine is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "a: [", "this YAML cannot be read"),
        ("a.json", '{"a": ', "this JSON cannot be read"),
        ("a.yaml", "kind: Pod\n", "neither options of a known engine nor its command are in it"),
        ("a.json", "[1, 2]", "neither options of a known engine nor its command are in it"),
        ("a.sh", "echo hello\n", "no command of a known engine is in it"),
        ("a.sh", "vllm serve 'x\n", "No closing quotation"),
    ],
)
def test_what_is_said_of_a_file_without_a_launch_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        of_file(tmp_path, name, text)
    assert "\n" not in str(caught.value)


def test_what_is_said_of_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_launch(str(tmp_path / "absent.sh"))
    with pytest.raises(UsageError, match="a folder holds no launch line"):
        read_launch(str(tmp_path))
    (tmp_path / "big.sh").write_bytes(b"#" * (LAUNCH_FILE + 1))
    with pytest.raises(UsageError, match="at most"):
        read_launch(str(tmp_path / "big.sh"))
    (tmp_path / "bytes.sh").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="this is no text"):
        read_launch(str(tmp_path / "bytes.sh"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8)
    | st.sampled_from(["EAGLE3", "vllm serve x", "--speculative-config", '{"method": 3}', "eagle3"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["speculative_config", "speculative-algorithm", "method", "command", "args", "env", "image",
                         "decoding_type", "eagle3_layers_to_capture", "num_speculative_tokens"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(VALUES)
def test_any_data_is_read_or_refused_in_a_sentence(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    place = tmp_path_factory.mktemp("any") / "a.json"
    place.write_text(json.dumps(value), encoding="utf-8")
    assert "\n" not in (refusal(str(place)) or "")


@given(st.text(st.sampled_from(list("ab$ {}'\"\\\n<>;|&=-#")), max_size=60))
def test_any_script_is_read_or_refused_in_a_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    place = tmp_path_factory.mktemp("any") / "a.sh"
    place.write_text("vllm serve t " + text, encoding="utf-8")
    assert "\n" not in (refusal(str(place)) or "")
