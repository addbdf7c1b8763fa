"""Launch lines as people paste them, read whole or refused in a sentence."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from measuring.launches import AS_VLLM, QUOTED, read

from ckptdoctor.errors import UsageError
from ckptdoctor.launch.line import Launch, parse_launch
from ckptdoctor.limits import LAUNCH_LINE

SGLANG = "python3 -m sglang.launch_server --model-path target"
VLLM = "vllm serve target"


def refusal(text: str) -> str | None:
    """What is said of a line that cannot be read; None for one that can."""
    try:
        parse_launch(text)
    except UsageError as error:
        return str(error)
    return None


def test_a_whole_sglang_line() -> None:
    line = f"""{SGLANG} --speculative-algorithm EAGLE3 \\
        --speculative-draft-model-path "/data/my drafts/one" \\
        --speculative-num-steps 3 --speculative-eagle-topk 4 --speculative-num-draft-tokens 16 \\
        --enable-two-batch-overlap --disable-cuda-graph --pp-size 2 --port 30000"""
    assert read(line) == Launch(
        text="", engine="sglang", method="eagle3", draft_path="/data/my drafts/one", steps=3, topk=4,
        draft_tokens=16, cuda_graphs=False, two_batch_overlap=True, pipeline_size=2, runner=None,
    )  # fmt: skip


def test_a_whole_vllm_line() -> None:
    line = f"VLLM_USE_V2_MODEL_RUNNER=1 {VLLM} --speculative-config {QUOTED} --enforce-eager -pp 4 -tp 8"
    assert read(line) == replace(AS_VLLM, cuda_graphs=False, pipeline_size=4, tensor_parallel=8, runner="v2")


@pytest.mark.parametrize("text", ["", "   ", "\n", "server --port 1"])
def test_a_line_that_says_nothing(text: str) -> None:
    assert read(text) == Launch(text="")


@pytest.mark.parametrize(
    ("line", "fact", "value"),
    [
        (f"{VLLM} --enforce-eager -pp 2", "pipeline_size", 2),
        (f"{VLLM} --enforce-eager -sc {QUOTED}", "method", "eagle3"),
        (f"{VLLM} --seed -1 --pipeline-parallel-size 2", "pipeline_size", 2),
        (f"{SGLANG} --unknown --disable-cuda-graph", "cuda_graphs", False),
        (f"{SGLANG} --unknown value stray --pp-size 3", "pipeline_size", 3),
        (f"{SGLANG} -- --pp-size 3", "pipeline_size", 3),
        (f"{SGLANG} - --pp-size 3", "pipeline_size", 3),
        (f"{SGLANG} --json '{{\"pp-size\": 9}}' --pp-size 3", "pipeline_size", 3),
    ],
)
def test_unknown_words_change_nothing(line: str, fact: str, value: object) -> None:
    assert getattr(read(line), fact) == value


def test_windows_line_ends() -> None:
    line = f"{SGLANG} \\\r\n  --speculative-algorithm EAGLE3 \\\r\n  --disable-cuda-graph\r\n"
    assert read(line) == Launch(text="", engine="sglang", method="eagle3", cuda_graphs=False)


@pytest.mark.parametrize("line", ["vllm serve 'x", 'vllm serve "x', "vllm serve x \\", f"{SGLANG} --x 'a\"b"])
def test_unbalanced_quotes_are_said_in_a_sentence(line: str) -> None:
    with pytest.raises(UsageError, match=r"^the launch line cannot be read: [A-Z]\w") as caught:
        parse_launch(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "config",
    ["{", "{'method': 'eagle3'}", '{"method": eagle3}', "eagle3", '{"method": "eagle3",}', "[" * 20_000, "1" * 5000],
)
def test_broken_json_is_said_in_a_sentence(config: str) -> None:
    with pytest.raises(UsageError, match=r"^--speculative-config is no JSON: ") as caught:
        parse_launch(f"{VLLM} --speculative-config {shlex.quote(config)}")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("config", ["[]", '["eagle3"]', "3", '"eagle3"', "null", "true"])
def test_json_that_is_no_object_is_said_in_a_sentence(config: str) -> None:
    with pytest.raises(UsageError, match=r"^--speculative-config is no JSON object: "):
        parse_launch(f"{VLLM} --speculative-config {shlex.quote(config)}")


def test_control_characters_of_the_line_are_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        parse_launch(f"{VLLM} --speculative-config '\x1b[2J\u202e'")
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)


def test_the_length_of_a_line_is_bounded() -> None:
    assert read(f"{SGLANG} ".ljust(LAUNCH_LINE, "x")).engine == "sglang"
    with pytest.raises(UsageError, match="longer than any command"):
        parse_launch("x" * (LAUNCH_LINE + 1))


@given(st.text())
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    said = refusal(text)
    assert said is None or said.startswith(("the launch line cannot be read: ", "--speculative-config is no JSON"))


WORDS = st.sampled_from(
    ["--speculative-algorithm", "EAGLE3", "--speculative-config", "-sc", "{}", "[]", "-", "--", "=", "-=", "--=x",
     "A=1", "vllm", "sglang", "-pp", "2", "--pp-size=2", "-e", "--enforce-eager", "--speculative-config.", "é", "''"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=12))
def test_any_order_of_words_is_read_or_refused_in_a_sentence(words: list[str]) -> None:
    said = refusal(" ".join(words))
    assert said is None or said.startswith("--speculative-config is no JSON")


@given(
    method=st.sampled_from(["eagle", "eagle3", "dflash", "dspark", "mtp"]),
    path=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30),
    tokens=st.integers(0, 10**8),
    equals=st.booleans(),
)
@example(method="eagle", path="$A", tokens=0, equals=True)
@example(method="eagle", path="$A", tokens=0, equals=False)
@example(method="eagle3", path="$DRAFT", tokens=3, equals=True)
@example(method="eagle3", path="a'b$A\"`c`", tokens=3, equals=True)
def test_what_is_quoted_for_a_shell_comes_back(method: str, path: str, tokens: int, equals: bool) -> None:
    between = "=" if equals else " "
    config = shlex.quote(json.dumps({"method": method, "model": path, "num_speculative_tokens": tokens}))
    expected = Launch(text="", engine="vllm", method=method, draft_path=path, draft_tokens=tokens)
    assert read(f"{VLLM} --speculative-config{between}{config}") == expected
    line = f"{SGLANG} --speculative-algorithm{between}{method.upper()} --speculative-num-draft-tokens{between}{tokens}"
    if not path.startswith("-"):
        found = read(f"{line} --speculative-draft-model-path{between}{shlex.quote(path)}")
        expected = Launch(text="", engine="sglang", method=method, draft_path=path, draft_tokens=tokens)
        assert found == expected
