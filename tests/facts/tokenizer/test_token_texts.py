"""The texts of tokens, against what the tokenizers library decodes; scripts; tokenizer files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_files import byte_level, unigram
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from ckptdoctor.facts.tokenizer import token_texts
from ckptdoctor.facts.tokenizer.token_texts import TokenTexts, byte_alphabet, read_token_texts
from ckptdoctor.unknown import Unknown


def read(folder: Path) -> TokenTexts:
    """The texts of the tokenizer in `folder`."""
    found = read_token_texts(folder)
    assert not isinstance(found, Unknown)
    return found


def written(folder: Path, model: Any, **more: Any) -> Path:
    """A tokenizer.json with this model, and other parts before it."""
    content = {"version": "1.0", "added_tokens": [], "pre_tokenizer": None, "decoder": None, **more, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_a_byte_level_tokenizer(tmp_path: Path) -> None:
    made = byte_level(tmp_path)
    texts = read(tmp_path)
    assert len(texts.pieces) == made.get_vocab_size()
    for token, piece in enumerate(texts.pieces):
        if "<0x" not in piece:
            assert piece == made.decode([token], skip_special_tokens=False)
        else:
            assert "\ufffd" in made.decode([token])
    assert texts.special_ids == {made.token_to_id("<|endoftext|>"), made.token_to_id("<|im_end|>")}
    assert texts.pieces[-1] == "<tool_call>"
    assert len(texts.byte_ids) == 256
    assert {made.id_to_token(token) for token in texts.byte_ids} == set(pre_tokenizers.ByteLevel.alphabet())


def test_the_alphabet_of_bytes_is_that_of_the_library() -> None:
    assert set(byte_alphabet()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_alphabet().values()) == list(range(256))
    # Letters of GPT-2 for a space and a line break.
    assert (byte_alphabet()["Ġ"], byte_alphabet()["Ċ"]) == (0x20, 0x0A)


def test_a_unigram_tokenizer_with_byte_fallback(tmp_path: Path) -> None:
    made = unigram(tmp_path)
    texts = read(tmp_path)
    assert len(texts.pieces) == made.get_vocab_size()
    assert texts.byte_ids == {made.token_to_id(f"<0x{byte:02X}>") for byte in range(256)}
    assert texts.special_ids == {made.token_to_id("</s>")}
    for token, piece in enumerate(texts.pieces):
        assert piece == (made.id_to_token(token) or "").replace("▁", " ")


def test_wordpiece_and_its_prefix(tmp_path: Path) -> None:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(
        ["unbelievable things happen"], trainers.WordPieceTrainer(special_tokens=["[UNK]"], show_progress=False)
    )
    made.save(str(tmp_path / "tokenizer.json"))
    texts = read(tmp_path)
    assert "##" not in "".join(texts.pieces)
    assert texts.pieces[made.token_to_id("unbelievable")] == "unbelievable"
    assert texts.byte_ids == frozenset()


def test_bpe_with_byte_fallback_and_added_bytes(tmp_path: Path) -> None:
    added = [
        {"id": 3, "content": "<0x0A>", "special": True},
        {"id": 4, "content": "<eos>", "special": True},
        {"id": 5, "content": "▁", "special": False},
        {"id": -1, "content": "no id", "special": True},
        {"id": 6, "content": 7, "special": True},
        "no entry",
    ]
    texts = read(written(tmp_path, {"type": "BPE", "vocab": {"▁the": 0, "<0x09>": 2}}, added_tokens=added))
    assert texts.pieces == (" the", "", "<0x09>", "<0x0A>", "<eos>", "▁")
    assert (texts.byte_ids, texts.special_ids) == ({2, 3}, {4})


def test_texts_with_escapes_spaces_and_brackets(tmp_path: Path) -> None:
    vocab = {'a"b\\': 0, "é\n\u2028": 1, "[{}]": 2, "x" * 3000: 3}
    for indent, ascii_only in ((None, True), (2, False)):
        content = {
            "added_tokens": [],
            "model": {"merges": [["[", '"']], "type": "BPE", "vocab": vocab},
            "decoder": None,
        }
        text = json.dumps(content, indent=indent, ensure_ascii=ascii_only)
        (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
        assert read(tmp_path).pieces == tuple(vocab)


@given(
    vocab=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers(0, 40), max_size=12
    )
)
def test_both_ways_of_reading_a_vocabulary_agree(vocab: dict[str, int]) -> None:
    data = json.dumps(vocab).encode()
    plain = token_texts._plain_vocabulary(data, 0)
    other = token_texts._any_vocabulary(vocab)
    assert plain == other or (plain is None and not vocab)
    rows = json.dumps([[piece, -1.5] for piece in vocab]).encode()
    plain = token_texts._plain_vocabulary(rows, 0)
    assert plain == dict(enumerate(vocab)) or (plain is None and not vocab)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "7", "{", '{"model"', '{"model":', '{"model": 7}', '{"model": {"type": "BPE"}}', '{"a":"\\',
        '{"model": {"vocab": 5}}', '{"model":{"vocab":{"a":', '{"model":' + "[" * 100_000, "\ufeff\ufeff{}",
        '{"model":{"vocab":' + '{"a":' * 70,
    ],
)  # fmt: skip
def test_files_that_are_no_tokenizer_are_unknown(text: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    assert read_token_texts(tmp_path) == Unknown("a tokenizer.json that can be read")


def test_a_folder_without_one_is_unknown(tmp_path: Path) -> None:
    assert read_token_texts(tmp_path) == Unknown("a tokenizer.json beside the target or the draft")
    (tmp_path / "tokenizer.json").symlink_to("/dev/zero")
    assert isinstance(read_token_texts(tmp_path), Unknown)


def test_hostile_ids_do_not_make_long_lists(tmp_path: Path) -> None:
    vocab = {"a": 2**21, "b": 999_999_999, "c": 1, "d": 99999999999, "e": -4, "f": 1.5, "g": True}
    assert read(written(tmp_path, {"vocab": vocab})).pieces == ("", "c")


@given(st.binary(max_size=200))
def test_the_walk_over_a_text_ends_for_any_bytes(data: bytes) -> None:
    for start in (b"", b"{", b'{"model":', b'{"model":{"vocab":{"a":1', b'{"model":{"vocab":[["a",'):
        for _, at in token_texts._members(start + data, 0):
            token_texts._model(start + data, at)
