"""Loads rule files: those that ship with ckptdoctor, and those a person adds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptdoctor.resources import read_yaml
from ckptdoctor.rulebook.errors import RuleFileError
from ckptdoctor.rulebook.rulebook import RuleBook
from ckptdoctor.rulebook.rules import Rule, rule_from_mapping
from ckptdoctor.rulebook.yamlfiles import BadYamlError, read_checked
from ckptdoctor.text import show

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

    from ckptdoctor.rulebook.checking import Arguments

__all__ = ["load_rules"]

_SUFFIXES = (".yaml", ".yml")


def load_rules(
    own: Path,
    user: Sequence[Path] = (),
    *,
    names: Mapping[str, type],
    treatments: Mapping[str, Arguments] | None = None,
    families: Collection[str] | None = None,
) -> RuleBook:
    """The rules of `own` (the folder with `checks/` and `schema/`) and of the files and folders in `user`.

    The rules that ship are taken as they are, because tests check them; those of a person are checked
    against the schema, against the facts (`names`: the type of each root name) and against `treatments`
    unless that is None. With `families`, every rule of `own` must belong to one of them.

    Raises `RuleFileError` with everything that is wrong in all files.
    """
    problems: list[str] = []
    rules: list[Rule] = []
    for path in sorted((own / "checks").glob("*.yaml")):
        rules.extend(rule_from_mapping(fields, path) for fields in read_yaml(path) or ())
    if families is not None:
        problems += [
            f"{rule.where}: rule {rule.id} belongs to no family" for rule in rules if rule.family not in families
        ]
    if user:
        # What follows is needed for the files of a person alone, and a plain scan should not pay for it.
        from ckptdoctor.rulebook.checking import rule_problems
        from ckptdoctor.rulebook.schema import rule_validator

        validator = rule_validator(own)
        for path in _user_files(user, problems):
            for rule in _user_rules(path, validator, problems):
                problems += rule_problems(rule, names, treatments)
                rules.append(rule)
    problems += _taken(rules)
    if problems:
        raise RuleFileError(problems)
    return RuleBook(rules)


def _user_files(user: Sequence[Path], problems: list[str]) -> Iterator[Path]:
    for path in user:
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
            if not files:
                problems.append(f"{show(path)} holds no rule file (*.yaml or *.yml)")
            yield from files
        elif path.exists():
            yield path
        else:
            problems.append(f"there is no file or folder {show(path)} with rules")


def _user_rules(path: Path, validator: Draft202012Validator, problems: list[str]) -> Iterator[Rule]:
    """The usable rules of one file of a person; what is wrong with the others goes to `problems`."""
    try:
        content, lines = read_checked(path)
    except BadYamlError as error:
        problems.append(f"{show(path.name)}: {error}")
        return
    if content is None:
        problems.append(f"{show(path.name)} holds no rules")
        return
    from ckptdoctor.rulebook.schema import schema_problems

    broken = set()
    for index, sentence in schema_problems(content, validator):
        broken.add(index)
        problems.append(f"{_place(path, content, lines, index)}: {sentence}")
    if None in broken:
        return
    for index, (fields, line) in enumerate(zip(content, lines, strict=True)):
        if index not in broken:
            yield rule_from_mapping(fields, path, line, user=True)


def _place(path: Path, content: Any, lines: Sequence[int], index: int | None) -> str:
    place = show(path.name)
    if index is None:
        return place
    place += f", line {lines[index]}"
    identifier = content[index].get("id") if isinstance(content[index], dict) else None
    return place if identifier is None else f"{place}: rule {show(identifier, 40)}"


def _taken(rules: Sequence[Rule]) -> Iterator[str]:
    """A sentence for each id and name that an earlier rule already has."""
    owners: dict[str, Rule] = {}
    for rule in rules:
        for kind, word in (("id", rule.id), ("name", rule.name)):
            owner = owners.setdefault(word, rule)
            if owner is not rule:
                yield f"{show(rule.where)}: the {kind} {word} is already that of rule {owner.id} in {show(owner.where)}"
