"""A shape says what stands in an object of a document, and where it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

import ckptdoctor
from ckptdoctor.findings import Severity
from ckptdoctor.shapes import Count, Document, Shape, encode, item, itself
from ckptdoctor.unknown import Unknown


@dataclass
class Inner:
    low: float


@dataclass
class Thing:
    size: int
    inner: Inner
    pair: tuple[str, int] = ("a", 1)
    names: tuple[str, ...] = ()
    level: Severity = Severity.NOTE
    maybe: Any = None


class Pair(Shape):
    word: str = item(at=0)
    number: int = item(at=1)


class Nothing(Shape):
    none_of_it: str = item(at="maybe")

    @classmethod
    def fits(cls, value: Any) -> bool:
        return value.maybe == "no"


class Sized(Shape):
    from_: Count = item("Where it starts.", at="size")


class Told(Document):
    least: float = item(at="inner.low")
    pair: Pair
    twice: int = item(at=lambda thing: 2 * thing.size)
    names: list[str]
    level: Severity
    same: Sized = item(at=itself)
    way: Nothing | Sized | None = item(at=lambda thing: thing if thing.names else None)
    kind: Literal["thing"]
    maybe: int | None
    left_out: str = item(at="maybe", omitted=True)
    path: str


def told(**values: Any) -> dict[str, Any]:
    return encode(Told, Thing(3, Inner(0.5), **values), path="given")


def test_keys_stand_in_the_order_of_the_class_and_hold_what_was_read() -> None:
    assert list(told().items()) == [
        ("schema_version", 1),
        ("tool", {"name": "ckptdoctor", "version": ckptdoctor.__version__}),
        ("least", 0.5),
        ("pair", {"word": "a", "number": 1}),
        ("twice", 6),
        ("names", []),
        ("level", "note"),
        ("same", {"from": 3}),
        ("way", None),
        ("kind", "thing"),
        ("maybe", None),
        ("path", "given"),
    ]


def test_the_first_shape_that_fits_is_taken() -> None:
    assert told(names=("x",))["way"] == {"from": 3}
    assert told(names=("x",), maybe="no")["way"] == {"none_of_it": "no"}


def test_what_is_not_known_is_null() -> None:
    assert told(maybe=Unknown("the target"))["maybe"] is None


def test_a_mapping_was_told_before() -> None:
    assert encode(Told, {"other": (1, float("nan"))}) == {"other": [1, "NaN"]}


def test_a_value_that_is_not_there_is_no_silent_null() -> None:
    with pytest.raises(AttributeError):
        encode(Told, Inner(1.0), path="given")
