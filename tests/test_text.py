"""`show` never lets through what could act on a terminal or hide; `listing` and `plural` read well."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.text import LIMIT, listing, plural, show

ANY = st.text(st.characters(), max_size=300)
LONGEST_ESCAPE = len("\\U0010ffff")


@given(ANY, st.integers(0, 200))
def test_what_is_shown_is_harmless(text: str, limit: int) -> None:
    shown = show(text, limit)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    shown.encode()
    assert len(shown) <= limit * LONGEST_ESCAPE + len("… (+300 characters)")
    assert len(shown.splitlines()) <= 1


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=LIMIT))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert show(text) == text


@given(st.characters())
def test_each_character_is_itself_or_its_escape(char: str) -> None:
    shown = show(char)
    if shown != char:
        assert shown.startswith("\\")
        assert chr(int(shown[2:], 16)) == char


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("model.layers.0.weight", "model.layers.0.weight"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\r\nb\tc\0", "a\\x0d\\x0ab\\x09c\\x00"),
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("zero\u200bwidth\ufeff\u00ad", "zero\\u200bwidth\\ufeff\\xad"),
        ("line\u2028break\x85", "line\\u2028break\\x85"),
        ("\ud800\udcff", "\\ud800\\udcff"),
        ("\ue000\U000e0041\U0010ffff", "\\ue000\\U000e0041\\U0010ffff"),
        ("модель-模型-😀", "модель-模型-😀"),
        ("[bold]x[/bold] & <b>", "[bold]x[/bold] & <b>"),
        ("back\\slash", "back\\slash"),
    ],
)
def test_examples(text: str, shown: str) -> None:
    assert show(text) == shown


def test_long_text_is_cut_and_says_so() -> None:
    assert show("x" * LIMIT) == "x" * LIMIT
    assert show("x" * (LIMIT + 7)) == "x" * LIMIT + "… (+7 characters)"
    assert show("\x1b" * 3, 2) == "\\x1b\\x1b… (+1 characters)"


def test_other_values_are_shown_as_text() -> None:
    assert show(12) == "12"
    assert show(Path(os.fsdecode(b"/tmp/\xff\n"))) == "/tmp/\\udcff\\x0a"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "none"),
        (1, "0"),
        (2, "0 and 1"),
        (4, "0, 1, 2 and 3"),
        (5, "0, 1, 2, 3 and 1 more"),
        (9, "0, 1, 2, 3 and 5 more"),
    ],
)
def test_listing(count: int, text: str) -> None:
    assert listing(range(count)) == text
    assert listing(iter(range(count))) == text


def test_listing_escapes_and_cuts_each_item() -> None:
    assert listing(["\n", "x" * 100], 3) == "\\x0a and " + "x" * 80 + "… (+20 characters)"


@given(st.lists(ANY), st.integers(1, 6))
def test_a_listing_is_harmless_and_bounded(items: list[str], limit: int) -> None:
    text = listing(items, limit)
    text.encode()
    assert len(text.splitlines()) <= 1
    assert len(text) <= limit * (80 * LONGEST_ESCAPE + 30) + 30


def test_plural() -> None:
    assert plural(1, "tensor") == "1 tensor"
    assert plural(0, "tensor") == "0 tensors"
    assert plural(2, "entry", "entries") == "2 entries"
    assert plural(1, "entry", "entries") == "1 entry"
