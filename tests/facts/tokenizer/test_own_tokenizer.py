"""Tokenizers of a draft and its target: which differences make them another family, and which relatives have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.facts.tokenizer.own_tokenizer import differs, holds_tokenizer
from ckptdoctor.unknown import Unknown

LLAMA3 = {128000: "<|begin_of_text|>", 128001: "<|end_of_text|>", 128009: "<|eot_id|>"} | {
    i: f"<|reserved_special_token_{i}|>" for i in range(128011, 128256)
}
QWEN = {151643: "<|endoftext|>", 151644: "<|im_start|>", 151645: "<|im_end|>"}
LLAMA2 = {0: "<unk>", 1: "<s>", 2: "</s>"}


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (LLAMA3, LLAMA3),
        (LLAMA3, LLAMA3 | {128011: "<|python_tag|>", 128012: "<|finetune_right_pad_id|>"}),
        (LLAMA3, LLAMA3 | {128000: "<｜begin▁of▁sentence｜>", 128001: "<｜end▁of▁sentence｜>", 128013: "<think>"}),
        (QWEN, QWEN | {151657: "<tool_call>", 151668: "</think>"}),
        (LLAMA2 | {32000: "[PAD]"}, LLAMA2),
        (LLAMA2 | {32000: "<|im_start|>"}, LLAMA2 | {32000: "<pad>"}),
        ({1: "<s>"}, {5: "<bos>"}),
    ],
)
def test_relatives_are_of_one_family(own: dict[int, str], other: dict[int, str]) -> None:
    assert differs(own, other) is None
    assert differs(other, own) is None


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (LLAMA3, QWEN),
        (LLAMA2, QWEN),
        ({0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>"}, LLAMA2 | {3: "<|x|>"}),
        (QWEN, {i + 8: text for i, text in QWEN.items()}),
    ],
)
def test_other_families_are_told(own: dict[int, str], other: dict[int, str]) -> None:
    for one, two in ((own, other), (other, own)):
        found = differs(one, two)
        assert found is not None
        assert not isinstance(found, Unknown)
        assert found.pairs


def test_nothing_is_said_without_both() -> None:
    assert isinstance(differs({}, QWEN), Unknown)
    assert isinstance(differs(QWEN, {}), Unknown)


@given(st.dictionaries(st.integers(0, 20), st.text(max_size=3), min_size=1, max_size=9))
def test_a_tokenizer_is_of_its_own_family(texts: dict[int, str]) -> None:
    assert differs(texts, texts) is None


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json", "qwen.tiktoken"])
def test_files_of_a_tokenizer_are_known(name: str) -> None:
    assert holds_tokenizer(("config.json", name))
    assert not holds_tokenizer(("config.json", "model.safetensors"))
