"""Sentences that a person reads: they stand in YAML files under `rules/`, by name or by group and name."""

from __future__ import annotations

from typing import Any

from ckptdoctor.resources import shipped
from ckptdoctor.text import numbers

__all__ = ["Sentences", "numbers"]


class Sentences:
    """The sentences of `rules/PLACE.yaml`. The file is read when the first of them is wanted."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __getitem__(self, key: str) -> Any:
        """What stands under `key`: a sentence with its blanks, a group of them, or data that belong to it."""
        return shipped(self.place)[key]

    def say(self, /, *keys: str, **values: object) -> str:
        """The sentence at `keys`, its `{blanks}` filled with `values`, which have been made safe to show.

        Raises `KeyError` for a sentence that there is not and a blank that no value fills.
        """
        text = shipped(self.place)
        for key in keys:
            text = text[key]
        return str(text).format_map(values)
