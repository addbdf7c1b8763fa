"""The launch line with some options changed: the rest stays as the person wrote it."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.launch.line import parse_launch

SGLANG = "python -m sglang.launch_server --model-path t"
TOPK = "--speculative-eagle-topk"
OBJECT = '\'{"method": "eagle", "model": "a b"}\''


@pytest.mark.parametrize(
    ("line", "changes", "expected"),
    [
        (f"{SGLANG} --speculative-algorithm EAGLE --tp 4", {"method_word": "EAGLE3"},
         f"{SGLANG} --speculative-algorithm EAGLE3 --tp 4"),
        (f"A=1 {SGLANG} --speculative-algo=EAGLE", {"method_word": "EAGLE3"},
         f"A=1 {SGLANG} --speculative-algo=EAGLE3"),
        (f"{SGLANG} --speculative-algorithm 'EAGLE' --x", {"draft_path": "my draft"},
         f"{SGLANG} --speculative-algorithm 'EAGLE' --x --speculative-draft-model-path 'my draft'"),
        (f"{SGLANG} --speculative-token-map f.pt --tp 4 &", {"token_map": None}, f"{SGLANG} --tp 4"),
        (f"{SGLANG} \\\n  {TOPK} 4 \\\n  --tp 4", {"topk": 1}, f"{SGLANG} {TOPK} 1 --tp 4"),
        (f"{SGLANG} --speculative-num-steps", {"steps": 3}, f"{SGLANG} --speculative-num-steps 3"),
        (f"vllm serve t --speculative-config {OBJECT} -tp 2", {"method_word": "eagle3"},
         'vllm serve t --speculative-config \'{"method": "eagle3", "model": "a b"}\' -tp 2'),
        (f"vllm serve t -sc={OBJECT}", {"draft_path": None, "draft_tokens": 3},
         'vllm serve t -sc=\'{"method": "eagle", "num_speculative_tokens": 3}\''),
        ("vllm serve t -sc.method eagle --speculative-config.model d", {"method_word": "eagle3", "draft_tokens": 2},
         "vllm serve t -sc.method eagle3 --speculative-config.model d -sc.num_speculative_tokens 2"),
        ("vllm serve t", {"method_word": "mtp", "draft_tokens": 1},
         'vllm serve t --speculative-config \'{"method": "mtp", "num_speculative_tokens": 1}\''),
    ],
)  # fmt: skip
def test_a_corrected_line(line: str, changes: dict[str, Any], expected: str) -> None:
    assert parse_launch(line).source.corrected(changes) == expected


def test_a_line_without_an_engine_has_no_corrected_one() -> None:
    assert parse_launch("python serve.py").source.corrected({"method_word": "x"}) is None


@given(
    path=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20),
    tokens=st.integers(1, 99),
)
def test_what_is_corrected_is_read_back(path: str, tokens: int) -> None:
    config = shlex.quote(json.dumps({"method": "eagle", "model": "d", "num_speculative_tokens": 1}))
    for line in (f"vllm serve t --speculative-config {config}", f"{SGLANG} --speculative-algorithm EAGLE"):
        text = parse_launch(line).source.corrected({"draft_path": path, "draft_tokens": tokens})
        assert text is not None
        found = parse_launch(text)
        if not path.startswith("-") or found.engine == "vllm":
            assert (found.draft_path, found.draft_tokens) == (path, tokens)
