"""Which engine a line starts, and with which model runner."""

from __future__ import annotations

import pytest
from measuring.launches import QUOTED, read

VLLM = "vllm serve target"


@pytest.mark.parametrize(
    ("line", "runner"),
    [
        (f"VLLM_USE_V2_MODEL_RUNNER=1 {VLLM}", "v2"),
        (f"VLLM_USE_V2_MODEL_RUNNER=0 {VLLM}", "v1"),
        (f"VLLM_USE_V2_MODEL_RUNNER=yes {VLLM}", None),
        (f"CUDA_VISIBLE_DEVICES=0,1 VLLM_USE_V2_MODEL_RUNNER='1' {VLLM}", "v2"),
        (f"env A=1 VLLM_USE_V2_MODEL_RUNNER=1 {VLLM}", "v2"),
        (f"export VLLM_USE_V2_MODEL_RUNNER=1; {VLLM}", "v2"),
        (f"export VLLM_USE_V2_MODEL_RUNNER=1 && {VLLM}", "v2"),
        ("docker run -e A=1 -e VLLM_USE_V2_MODEL_RUNNER=1 -e B=2 vllm/vllm-openai:v0.22.0 --model x", "v2"),
        ("docker run --env=VLLM_USE_V2_MODEL_RUNNER=0 vllm/vllm-openai:v0.22.0 --model x", "v1"),
        (f"{VLLM} VLLM_USE_V2_MODEL_RUNNER=1", None),
        (f"{VLLM} --model VLLM_USE_V2_MODEL_RUNNER=1", None),
    ],
)
def test_the_model_runner_is_said_by_the_environment(line: str, runner: str | None) -> None:
    found = read(line)
    assert (found.engine, found.runner) == ("vllm", runner)


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("python -m sglang.launch_server", "sglang"),
        ("python3 -u -m sglang.launch_server --model x", "sglang"),
        ("sglang serve --model-path x", "sglang"),
        ("/opt/venv/bin/sglang serve", "sglang"),
        ("docker run --gpus all --rm -p 1:1 lmsysorg/sglang:v0.5.9 python3 -m sglang.launch_server", "sglang"),
        ("python -m vllm.entrypoints.openai.api_server --model x", "vllm"),
        ("vllm serve x", "vllm"),
        ("/opt/venv/bin/vllm serve x", "vllm"),
        ("docker run --runtime nvidia --rm vllm/vllm-openai:latest --model x --enforce-eager", "vllm"),
        ("docker run -it registry.example/mirror/vllm-openai@sha256:00 --model x", "vllm"),
        # Names of models are no engines.
        ("vllm serve lmsys/sglang-EAGLE3-LLaMA3", "vllm"),
        ("vllm serve /models/sglang/llama", "vllm"),
        ("/opt/sglang-tests/bin/vllm serve x", "vllm"),
        ("python -m sglang.launch_server --model-path /models/vllm/llama", "sglang"),
        # Without a program the flags tell.
        ("--speculative-algorithm EAGLE3", "sglang"),
        ("--speculative-draft-model-path x", "sglang"),
        (f"--speculative-config {QUOTED}", "vllm"),
        ("--speculative-config.method eagle3", "vllm"),
        ("run_vllm.sh x", "vllm"),
        ("python serve.py", None),
        ("", None),
    ],
)
def test_the_engine(line: str, engine: str | None) -> None:
    assert read(line).engine == engine
