"""Options of launch lines, and what each fact of them is."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields
from typing import Any

import pytest
from measuring.launches import AS_VLLM, ASIDE, QUOTED, read

from ckptdoctor.launch.line import Launch

SGLANG = "python3 -m sglang.launch_server --model-path target"
VLLM = "vllm serve target"


@pytest.mark.parametrize(
    ("option", "fact", "value"),
    [
        ("--speculative-algorithm EAGLE3", "method", "eagle3"),
        ("--speculative-algorithm=EAGLE3", "method", "eagle3"),
        ("--speculative-algorithm='EAGLE3'", "method", "eagle3"),
        ('--speculative-algorithm "EAGLE3"', "method", "eagle3"),
        ("--speculative_algorithm EAGLE3", "method", "eagle3"),
        ("--speculative-algo EAGLE3", "method", "eagle3"),
        ("--speculative-algorithm EAGLE", "method", "eagle"),
        ("--speculative-algorithm NEXTN", "method", "eagle"),
        ("--speculative-algorithm DFLASH", "method", "dflash"),
        ("--speculative-algorithm DSPARK", "method", "dspark"),
        ("--speculative-algorithm EAGLE --speculative-algorithm EAGLE3", "method", "eagle3"),
        ("--speculative-draft-model-path me/draft", "draft_path", "me/draft"),
        ("--speculative-draft-model me/draft", "draft_path", "me/draft"),
        ("--speculative-draft me/draft", "draft_path", "me/draft"),
        ("--speculative-draft-model-path='a b=c'", "draft_path", "a b=c"),
        ("--speculative-num-steps 5", "steps", 5),
        ("--speculative-num-steps five", "steps", None),
        ("--speculative-num-steps -5", "steps", None),
        ("--speculative-num-steps", "steps", None),
        ("--speculative_num_steps=5", "steps", 5),
        ("--speculative-eagle-topk 1", "topk", 1),
        ("--speculative-num-draft-tokens 6", "draft_tokens", 6),
        ("--disable-cuda-graph", "cuda_graphs", False),
        ("--disable_cuda_graph", "cuda_graphs", False),
        ("--disable-cuda-graph-padding", "cuda_graphs", True),
        ("--enable-two-batch-overlap", "two_batch_overlap", True),
        ("--pp-size 2", "pipeline_size", 2),
        ("--pipeline-parallel-size 2", "pipeline_size", 2),
        ("--pp-size 0", "pipeline_size", 1),
        ("--tp-size 8", "tensor_parallel", 8),
        ("--tp 2", "tensor_parallel", 2),
        ("--tensor-parallel-size=4", "tensor_parallel", 4),
        ("--tp-size 0", "tensor_parallel", 1),
        ("--speculative-token-map me/FR-Spec/freq_32768.pt", "token_map", "me/FR-Spec/freq_32768.pt"),
        ("--speculative-token-map", "token_map", None),
    ],
)
def test_an_option_of_sglang(option: str, fact: str, value: object) -> None:
    found = read(f"{SGLANG} {option}")
    assert getattr(found, fact) == value
    unset = Launch(text="", engine="sglang")
    others = {f.name for f in fields(Launch) if f.compare and f.name not in ASIDE} - {fact}
    assert {name: getattr(found, name) for name in others} == {name: getattr(unset, name) for name in others}


@pytest.mark.parametrize(
    "option",
    [
        f"--speculative-config {QUOTED}",
        f"--speculative-config={QUOTED}",
        f"--speculative_config {QUOTED}",
        f"-sc {QUOTED}",
        f"-sc={QUOTED}",
        f"--enforce-eager-typo -sc {QUOTED}",
        '--speculative-config "{\\"method\\": \\"eagle3\\", \\"model\\": \\"me/draft\\", '
        '\\"num_speculative_tokens\\": 3}"',
        '--speculative-config \'{"method": "EAGLE3",\\\n "model": "me/draft", "num_speculative_tokens": 3}\'',
        "--speculative-config.method eagle3 --speculative-config.model me/draft "
        "--speculative-config.num_speculative_tokens 3",
    ],
)
def test_ways_to_write_a_speculative_config(option: str) -> None:
    assert read(f"{VLLM} {option}") == AS_VLLM


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, Launch(text="", engine="vllm")),
        ({"model": "me/draft"}, Launch(text="", engine="vllm", draft_path="me/draft")),
        ({"method": 3, "model": ["x"], "num_speculative_tokens": True}, Launch(text="", engine="vllm")),
        ({"num_speculative_tokens": "4"}, Launch(text="", engine="vllm", draft_tokens=4)),
        ({"num_speculative_tokens": 4.0}, Launch(text="", engine="vllm")),
        ({"method": None, "extra": {"a": [1, "--x"]}}, Launch(text="", engine="vllm")),
    ],
)
def test_members_of_a_speculative_config(config: dict[str, Any], expected: Launch) -> None:
    assert read(f"{VLLM} --speculative-config {shlex.quote(json.dumps(config))}") == expected
