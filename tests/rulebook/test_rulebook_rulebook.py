"""Rules are found and chosen by id, name and family."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckptdoctor.errors import UsageError
from ckptdoctor.rulebook import RuleBook


def book() -> RuleBook:
    from toyfacts import rule

    return RuleBook(
        [rule(id="VOC001", name="map-zero"), rule(id="VOC002", name="map-twice"), rule(id="GEO001", name="fc-width")]
    )


@pytest.mark.parametrize("word", ["VOC001", "voc001", "map-zero"])
def test_a_rule_is_found_by_id_or_name(word: str) -> None:
    assert book().get(word).id == "VOC001"


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("VOC01", "there is no rule VOC01; did you mean VOC001?"),
        ("map-zeros", "there is no rule map-zeros; did you mean map-zero?"),
        ("geo002", "there is no rule geo002; did you mean GEO001?"),
        ("%%%", "there is no rule %%%"),
        ("\x1b", "there is no rule \\x1b"),
    ],
)
def test_an_unknown_rule_is_a_usage_error_with_the_nearest(word: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        book().get(word)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("select", "ignore", "expected"),
    [
        ([], [], ["GEO001", "VOC001", "VOC002"]),
        (["VOC"], [], ["VOC001", "VOC002"]),
        (["voc"], ["map-zero"], ["VOC002"]),
        (["GEO001", "map-twice"], [], ["GEO001", "VOC002"]),
        ([], ["VOC", "GEO"], []),
        (["VOC"], ["VOC"], []),
    ],
)
def test_rules_are_chosen_by_id_name_and_family(select: list[str], ignore: list[str], expected: list[str]) -> None:
    assert [rule.id for rule in book().select(select, ignore)] == expected


def test_every_unknown_entry_is_named(tmp_path: Path) -> None:  # noqa: ARG001
    with pytest.raises(UsageError) as caught:
        book().select(["VOX", "map-zro"])
    assert str(caught.value) == (
        "there is no rule and no family VOX; did you mean VOC?; "
        "there is no rule and no family map-zro; did you mean map-zero?"
    )
    with pytest.raises(UsageError, match="no family VO"):
        book().select([], ["VO"])
