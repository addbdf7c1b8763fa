"""What the data under rules/launch know of each engine's launch line: its options, methods and programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ckptdoctor.resources import read_yaml, rules_dir

__all__ = ["EngineLine", "Method", "Option", "engine_lines", "holds"]


@dataclass(frozen=True)
class Option:
    """An option or member that gives a field of `Launch`; `value` is what a flag without a value means."""

    name: str
    field: str
    kind: str = "word"
    value: Any = True
    member: bool = False


@dataclass(frozen=True)
class Method:
    """A word for an algorithm: the method it runs, and the drafts (rules/algorithms) that this is made for."""

    word: str
    method: str
    drafts: tuple[str, ...]
    raw: Mapping[str, Any]

    @property
    def counts(self) -> str | None:
        """What the numbers of the line mean with it: `tree`, `chain`, `block`, `block_and_anchor` or `heads`."""
        return self.raw.get("counts")


@dataclass(frozen=True)
class EngineLine:
    """The launch line of one engine; `raw` is the file."""

    engine: str
    name: str
    raw: Mapping[str, Any]

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """Options by each of their names, without dashes."""
        return _named(self.raw["options"], member=False)

    @cached_property
    def members(self) -> Mapping[str, Option]:
        """Members of the object option, by each of their names."""
        return _named(self.raw.get("members", {}), member=True)

    @property
    def object_option(self) -> str | None:
        """The option that holds an object, where there is one."""
        return self.raw["object"]["option"] if "object" in self.raw else None

    @cached_property
    def object_names(self) -> frozenset[str]:
        """All names of the option that holds an object."""
        held = self.raw.get("object")
        return frozenset((held["option"], *held["aliases"])) if held else frozenset()

    @cached_property
    def known_members(self) -> frozenset[str]:
        """Every member that the object may have."""
        return frozenset((*self.members, *self.raw.get("more_members", ())))

    @cached_property
    def bare(self) -> frozenset[str]:
        """Options that take no value."""
        flags = {name for name, option in self.options.items() if option.kind == "flag"}
        return frozenset((*flags, *self.raw.get("bare", ())))

    @cached_property
    def known(self) -> frozenset[str]:
        """Every option that is known, without dashes."""
        names = (*self.options, *self.object_names, *self.raw.get("bare", ()), *self.raw.get("valued", ()),
                 *self.raw.get("removed", ()), *self.raw.get("config_files", ()), "help", "version")  # fmt: skip
        return frozenset(names)

    def canonical(self, name: str) -> str:
        """The known option that `name` (without dashes) means, itself where none is."""
        if name in self.known:
            return self._main(name)
        dashed = name.replace("_", "-")
        for prefix in self.raw.get("prefixes", ()):
            dashed = dashed.removeprefix(prefix)
        if dashed in self.known:
            return self._main(dashed)
        if self.raw.get("abbreviations") and len(dashed) > 2:
            longer = {self._main(known) for known in self.known if known.startswith(dashed)}
            if len(longer) == 1:
                return longer.pop()
        return dashed

    def _main(self, name: str) -> str:
        return self.options[name].name if name in self.options else name

    @cached_property
    def methods(self) -> Mapping[str, Method]:
        """The words for algorithms, as they are written."""
        return {
            word: Method(word, row["method"], tuple(row["drafts"]), row) for word, row in self.raw["methods"].items()
        }

    def method(self, word: str) -> Method | None:
        """The algorithm that a word means, in whatever case it is written."""
        exact = self.methods.get(word)
        if exact is not None:
            return exact
        low = word.lower()
        pattern = self.raw.get("method_pattern")
        if pattern and low.endswith(pattern["ends"]):
            return self.methods[pattern["as"]]
        return next((method for name, method in self.methods.items() if name.lower() == low), None)

    def method_for(self, algorithm: str) -> Method | None:
        """The word to give for a draft of this algorithm."""
        fitting = [method for method in self.methods.values() if algorithm in method.drafts]
        preferred = [method for method in fitting if algorithm in method.raw.get("prefer_for", ())]
        return next(iter(preferred or fitting), None)

    def runs(self, word: str) -> bool:
        """Whether a word of a command (a path, a module, an image) is a program of this engine."""
        last = word.rstrip("/").rpartition("/")[2]
        name = re.match(r"[\w-]+(?=$|[:@])", last)
        if name is not None and name[0] in (*self.raw["programs"], *self.raw["images"]):
            return True
        if any(word == module or word.startswith(f"{module}.") for module in self.raw["modules"]):
            return True
        return any(re.search(pattern, word) for pattern in self.raw.get("scripts", ()))

    def release_of(self, word: str) -> str | None:
        """The release that the tag of a container image names: `lmsysorg/sglang:v0.5.9-cu126` → `0.5.9`."""
        last = word.rpartition("/")[2]
        image, _, tag = last.partition(":")
        match = re.match(r"v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:post|rc)\d+)?)(?=$|[-_+])", tag)
        return match[1] if image in self.raw["images"] and match and len(match[1]) < 20 else None


def holds(row: Mapping[str, Any], release: str | None) -> bool:
    """Whether a row with optional `from` and `until` applies to the release; without one, to the newest."""
    if release is None:
        return "until" not in row
    try:
        order = Version(release)
        return not ("from" in row and order < Version(row["from"])) and not (
            "until" in row and order >= Version(row["until"])
        )
    except InvalidVersion:
        return "until" not in row


def _named(rows: Mapping[str, Any], *, member: bool) -> dict[str, Option]:
    found: dict[str, Option] = {}
    for name, row in rows.items():
        option = Option(name, row["field"], row.get("kind", "word"), row.get("value", True), member)
        found |= dict.fromkeys((name, *row.get("aliases", ())), option)
    return found


@lru_cache(maxsize=2)
def engine_lines(root: Path | None = None) -> Mapping[str, EngineLine]:
    """The launch lines of all engines under `root` (default: the rules that ship with the package)."""
    folder = (root or rules_dir()) / "launch"
    found = [read_yaml(path) for path in sorted(folder.glob("*.yaml"))]
    return {raw["engine"]: EngineLine(raw["engine"], raw["name"], raw) for raw in found}
