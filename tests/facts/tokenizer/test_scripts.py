"""The script of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.facts.tokenizer.scripts import script_of

SCRIPTS = {
    "Latin": ("the", " Straße", "ｆｕｌｌ", "ª", "ﬁ", "1st", "aЖ", "<0xZZ>"),
    "Cyrillic": ("Привет", "aЖЖ"),
    "Greek": ("λόγος", "µ"),
    "Han": ("世界", "々", "世<0xE4>"),
    "Hiragana": ("ありがとう", "食べる"),
    "Katakana": ("カタカナー", "ｶﾀ"),
    "Hangul": ("안녕", "ᄒ"),
    "Arabic": ("مرحبا",),
    "Hebrew": ("שלום",),
    "Devanagari": ("नमस्ते", "ि"),
    "Thai": ("สวัสดี",),
    "Bengali": ("বাংলা",),
    "Tamil": ("தமிழ்",),
    "Georgian": ("გამარჯობა",),
    "Armenian": ("Հայ",),
    "Ethiopic": ("አማርኛ",),
    "Old Italic": ("𐌀",),
    "digits": ("123", " 7", "٣", "１"),
    "space": (" ", "\n\t", "\u3000"),
    "punctuation": ("...", "。", "😀", "²", "1.5", "\u0301"),
    "parts of characters": ("<0xE4>", " <0xE4><0xB8>", "\ufffd"),
    "unknown": ("",),
}


@pytest.mark.parametrize(("text", "script"), [(text, name) for name, texts in SCRIPTS.items() for text in texts])
def test_scripts(text: str, script: str) -> None:
    assert script_of(text) == script


@given(st.text())
def test_every_text_has_a_script(text: str) -> None:
    assert script_of(text)
