"""The catalogues of sentences: what they say, and that every sentence in them can be filled."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

import pytest

from ckptdoctor.resources import shipped
from ckptdoctor.sentences import Sentences, numbers

CATALOGUES = ["acceptance/words", "probe/readings", "recorder/words", "repair/words/plan", "serving/words"]


def texts(value: Any, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, f"{at}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from texts(inner, f"{at}.{number}")


@pytest.mark.parametrize("place", CATALOGUES)
def test_every_sentence_can_be_filled(place: str) -> None:
    found = list(texts(shipped(place), place))
    assert found
    for at, text in found:
        assert "!" not in text, at
        for _, name, spec, conversion in string.Formatter().parse(text):
            assert name is None or (name.isidentifier() and not spec and not conversion), at


def test_a_sentence_by_its_group_and_name() -> None:
    assert Sentences("recorder/words").say("problem", "width_odd", width=10, state=4) == (
        "the draft got states of width 10, which is no multiple of the target's 4"
    )
    assert Sentences("acceptance/words").say("head_open", length="2.50") == "accepted length 2.50"
    assert Sentences("probe/readings").say("notes", "no_answers").startswith("a guess is right here when")
    assert Sentences("recorder/words")["whose"]["own"] == "its own"


def test_a_sentence_or_a_value_that_is_not_there() -> None:
    words = Sentences("acceptance/words")
    with pytest.raises(KeyError, match="no_such"):
        words.say("no_such")
    with pytest.raises(KeyError, match="length"):
        words.say("head_open")


def test_numbers() -> None:
    assert numbers((2, 30, 58)) == "[2, 30, 58]"
    assert numbers([]) == "[]"
