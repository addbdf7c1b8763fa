"""Tokens of single bytes and digits are counted."""

# lines of templates stay as they are
from __future__ import annotations

from pathlib import Path

from measuring.templates import Model, place

from ckptdoctor.facts.tokenizer.single_pieces import read_single_pieces
from ckptdoctor.facts.tokenizer.token_texts import byte_alphabet, read_token_texts
from ckptdoctor.unknown import Unknown


def test_byte_tokens_and_digits_are_counted(tmp_path: Path) -> None:
    vocabulary = {letter: 300 + byte for letter, byte in byte_alphabet().items()} | {"the": 700, "Ġ1": 701}
    model = Model({900: "</s>"}, "</s>", "{{ message.content + eos_token }}", 900, 900, [900], {900})
    inside = [300 + byte for byte in range(256) if byte not in (0x39, 0x80, 0xFF)]
    tokens = place(tmp_path / "draft", model, vocabulary=vocabulary, more=inside)
    assert not isinstance(tokens.bytes, Unknown)
    assert not isinstance(tokens.digits, Unknown)
    # 0xFF is in no text, so its token is not counted.
    assert (tokens.bytes.total, tokens.bytes.inside, tokens.bytes.missing_ids) == (243, 241, (300 + 0x39, 300 + 0x80))
    assert (tokens.digits.total, tokens.digits.inside, tokens.digits.missing_ids) == (10, 9, (300 + 0x39,))
    # The quick look agrees with the whole reading of the vocabulary.
    pieces, texts = read_single_pieces(tmp_path / "draft" / "target"), read_token_texts(tmp_path / "draft" / "target")
    assert not isinstance(pieces, Unknown)
    assert not isinstance(texts, Unknown)
    assert set(pieces.bytes.values()) == set(texts.byte_ids)


def test_byte_fallback_tokens_are_counted(tmp_path: Path) -> None:
    vocabulary = (
        {f"<0x{byte:02X}>": 3 + byte for byte in range(256)} | {str(d): 400 + d for d in range(10)} | {"▁a": 500}
    )
    model = Model({900: "</s>"}, "</s>", "{{ message.content + eos_token }}", 900, 900, [900], {900})
    tokens = place(tmp_path / "draft", model, vocabulary=vocabulary, more=range(400, 410))
    assert not isinstance(tokens.bytes, Unknown)
    assert not isinstance(tokens.digits, Unknown)
    assert tokens.bytes.total == 243
    assert tokens.bytes.inside == 61  # the draft has ids 0 to 63 of them
    assert (tokens.digits.total, tokens.digits.inside) == (10, 10)


def test_a_tokenizer_without_single_bytes_or_digits_is_unknown(tmp_path: Path) -> None:
    model = Model({900: "</s>"}, "</s>", "{{ message.content + eos_token }}", 900, 900, [900], {900})
    tokens = place(tmp_path / "draft", model, vocabulary={"the": 5, "1": 6})
    assert isinstance(tokens.digits, Unknown)
    assert isinstance(tokens.bytes, Unknown) or tokens.bytes.total == 1
