"""Launch lines as people paste them, and what each fact of them is."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ckptdoctor.errors import UsageError
from ckptdoctor.launch.line import LINE_LIMIT, Launch, parse_launch

SGLANG = "python3 -m sglang.launch_server --model-path target"
VLLM = "vllm serve target"
SPECULATION = {"method": "eagle3", "model": "me/draft", "num_speculative_tokens": 3}
QUOTED = shlex.quote(json.dumps(SPECULATION))
AS_VLLM = Launch(text="", engine="vllm", method="eagle3", draft_path="me/draft", draft_tokens=3)
# What the tests of single options leave aside: the words behind a fact, and what nearly every line says.
ASIDE = {
    "engine_name": None, "release": None, "method_word": None, "target_path": None, "speculates": False,
    "open_fields": frozenset(),
}  # fmt: skip


def read(text: str) -> Launch:
    """The launch line without its text and without what is left aside."""
    found = parse_launch(text)
    assert found.text == text
    return replace(found, text="", **ASIDE)  # type: ignore[arg-type]


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
    assert read(f"{SGLANG} ".ljust(LINE_LIMIT, "x")).engine == "sglang"
    with pytest.raises(UsageError, match="longer than any command"):
        parse_launch("x" * (LINE_LIMIT + 1))


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
