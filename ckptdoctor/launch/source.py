"""Where a launch line stands, and the line again with some of its options changed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ckptdoctor.launch.engines import EngineLine, Option
from ckptdoctor.launch.options import Given, Options

__all__ = ["LaunchSource"]

_Edit = tuple[int, int, str]
_LINE_ENDS = re.compile(r"\\?\r?\n")


@dataclass(frozen=True)
class LaunchSource:
    """The text of a launch line and its options.

    `start` and `end` are where the engine's command stands in `text`. `form` is `line`, or how a file held it:
    `entries` (keys and values) or `object` (the speculative config alone).
    """

    text: str = ""
    start: int = 0
    end: int = 0
    options: Options = field(default_factory=Options)
    engine: EngineLine | None = None
    form: str = "line"

    def given(self, field_name: str) -> Given | str | None:
        """The option that gives a field, or the name of the member of the object that does."""
        if self.engine is None:
            return None
        for name, option in self.engine.members.items():
            if option.field == field_name and name in self.options.object:
                return name
        names = {name for name, option in self.engine.options.items() if option.field == field_name}
        return self.options.last(names)

    def written(self, field_name: str) -> str | None:
        """The name under which a field is given, as it stands in the line; else the name under which it can be."""
        found = self.given(field_name)
        if isinstance(found, Given):
            return found.written
        if isinstance(found, str):
            return found
        option = self._option(field_name)
        return None if option is None else option.name if option.member else f"--{option.name}"

    def corrected(self, changes: Mapping[str, Any]) -> str | None:
        """The line with fields given other values (None: not given at all), on one line; None where it cannot be."""
        if self.engine is None or not changes:
            return None
        members: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for name, value in changes.items():
            found = self.given(name)
            option = self._option(name)
            if isinstance(found, str):
                members[found] = value
            elif isinstance(found, Given):
                options[name] = value
            elif option is not None and value is not None:
                (members if option.member else options)[option.name if option.member else name] = value
        if self.form == "object":
            return json.dumps(self._object(members), ensure_ascii=False)
        if self.form == "entries":
            return self._entries(members, options)
        edits = [edit for name, value in options.items() for edit in self._option_edits(name, value)]
        edits += self._object_edits(members) if members else []
        return self._applied(edits)

    def without(self, given: Given) -> str | None:
        """The line without one option."""
        return self._applied([self._removal(given)])

    def without_nothing(self) -> str:
        """The line as it is, on one line."""
        return self._applied([])

    def moved(self, given: Sequence[Given], changes: Mapping[str, Any]) -> str | None:
        """The line without these options, with the members that say the same."""
        if self.engine is None or self.form != "line":
            return None
        members: dict[str, Any] = {}
        for name, value in changes.items():
            option = self._option(name)
            if option is not None and option.member:
                members[option.name] = value
        return self._applied([*map(self._removal, given), *self._object_edits(members)])

    def renamed(self, given: Given, name: str) -> str | None:
        """The line with another name for one option."""
        at = given.word.start
        return self._applied([(at, at + len(given.written), name)]) if self._stands(given.written, at) else None

    def _stands(self, text: str, at: int) -> bool:
        return self.text.startswith(text, at)

    def _option(self, field_name: str) -> Option | None:
        """The first member, else option, that gives a field."""
        if self.engine is None:
            return None
        rows = (*self.engine.members.values(), *self.engine.options.values())
        return next((option for option in rows if option.field == field_name), None)

    def _object(self, members: Mapping[str, Any]) -> dict[str, Any]:
        changed = {**self.options.object, **members}
        return {key: value for key, value in changed.items() if value is not None or key not in members}

    def _entries(self, members: Mapping[str, Any], options: Mapping[str, Any]) -> str:
        said = []
        for name, value in options.items():
            shown = (self.written(name) or name).lstrip("-")
            said.append(f"{shown}: {_yaml(value)}" if value is not None else f"no {shown}")
        if members and self.engine is not None and self.engine.object_option is not None:
            key = self.engine.object_option.replace("-", "_")
            said.append(f"{key}: {json.dumps(self._object(members), ensure_ascii=False)}")
        return ", ".join(said)

    def _option_edits(self, name: str, value: Any) -> list[_Edit]:
        found = self.given(name)
        option = self._option(name)
        if isinstance(found, Given):
            if value is None:
                return [self._removal(found)]
            return [self._replacement(found, str(value))]
        if option is None or value is None:
            return []
        flag = "-" if len(option.name) == 1 else "--"
        text = f" {flag}{option.name}" + ("" if value is True else f" {shlex.quote(str(value))}")
        return [(self.end, self.end, text)]

    def _object_edits(self, members: Mapping[str, Any]) -> list[_Edit]:
        if self.engine is None or self.engine.object_option is None:
            return []
        whole = self.options.last(self.engine.object_names)
        single = {g.member: g for g in self.options.given if g.name in self.engine.object_names and g.member}
        edits: list[_Edit] = []
        rest: dict[str, Any] = {}
        for name, value in members.items():
            if name in single:
                found = single[name]
                edits.append(self._removal(found) if value is None else self._replacement(found, _dotted(value)))
            else:
                rest[name] = value
        if not rest:
            return edits
        if whole is not None or not single:
            held = {k: v for k, v in self._object(rest).items() if k not in single}
            text = json.dumps(held, ensure_ascii=False)
            if whole is not None:
                return [*edits, self._replacement(whole, text)]
            return [*edits, (self.end, self.end, f" --{self.engine.object_option} {shlex.quote(text)}")]
        prefix = next(iter(single.values())).written.partition(".")[0]
        added = "".join(f" {prefix}.{n} {shlex.quote(_dotted(v))}" for n, v in rest.items() if v is not None)
        return [*edits, (self.end, self.end, added)]

    def _removal(self, given: Given) -> _Edit:
        start = given.word.start
        while start > self.start and self.text[start - 1] in " \t":
            start -= 1
        return start, (given.holder or given.word).end, ""

    def _replacement(self, given: Given, value: str) -> _Edit:
        quoted = shlex.quote(value)
        if given.holder is None:
            return given.word.end, given.word.end, f" {quoted}"
        if given.holder is not given.word:
            return given.holder.start, given.holder.end, quoted
        return given.word.start, given.word.end, f"{given.written}={quoted}"

    def _applied(self, edits: list[_Edit]) -> str:
        text = self.text[self.start : self.end]
        for start, end, new in sorted(edits, reverse=True):
            low, high = max(start - self.start, 0), max(end - self.start, 0)
            text = text[:low] + new + text[high:]
        return " ".join(part for piece in _LINE_ENDS.split(text) if (part := piece.strip()))


def _dotted(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _yaml(value: Any) -> str:
    return (
        value if isinstance(value, str) and re.fullmatch(r"[\w./+-]+", value) else json.dumps(value, ensure_ascii=False)
    )
