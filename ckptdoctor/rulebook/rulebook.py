"""The rule book: all rules that were loaded, to look up, to choose from and to check."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ckptdoctor.errors import UsageError
from ckptdoctor.rulebook.errors import RuleFileError, did_you_mean
from ckptdoctor.rulebook.rules import Rule
from ckptdoctor.text import show

if TYPE_CHECKING:
    from ckptdoctor.rulebook.checking import Arguments

__all__ = ["RuleBook"]


class RuleBook:
    """Rules in the order of their ids."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(sorted(rules, key=lambda rule: rule.id))
        self._words = {word: rule for rule in self._rules for word in (rule.id, rule.name)}

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules in order."""
        return self._rules

    @property
    def families(self) -> tuple[str, ...]:
        """The families that have a rule here, in order."""
        return tuple(dict.fromkeys(rule.family for rule in self._rules))

    def get(self, word: str) -> Rule:
        """The rule with this id (in any case) or name. Raises `UsageError` when there is none."""
        rule = self._words.get(word) or self._words.get(word.upper())
        if rule is None:
            raise UsageError(f"there is no rule {show(word)}{self._near(word, self._words)}")
        return rule

    def select(self, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> tuple[Rule, ...]:
        """The rules in `select` (all when it is empty) without those in `ignore`.

        An entry is an id, a name, or the letters of a family (`VOC`). Raises `UsageError` that names every
        entry which is none of these.
        """
        chosen, left_out = self._matching(select), self._matching(ignore)
        return tuple(rule for rule in self._rules if (not select or rule.id in chosen) and rule.id not in left_out)

    def check(self, names: Mapping[str, type], treatments: Mapping[str, Arguments] | None = None) -> None:
        """Checks every expression and every treatment of all rules. Raises `RuleFileError` with all problems."""
        # A scan never needs this: the rules that ship are checked by tests.
        from ckptdoctor.rulebook.checking import rule_problems

        problems = [problem for rule in self._rules for problem in rule_problems(rule, names, treatments)]
        if problems:
            raise RuleFileError(problems)

    def _matching(self, entries: Sequence[str]) -> set[str]:
        found: set[str] = set()
        problems = []
        for entry in entries:
            family = {rule.id for rule in self._rules if rule.family == entry.upper()}
            rule = self._words.get(entry) or self._words.get(entry.upper())
            if not family and rule is None:
                near = self._near(entry, [*self._words, *self.families])
                problems.append(f"there is no rule and no family {show(entry)}{near}")
            found |= family if rule is None else {rule.id}
        if problems:
            raise UsageError("; ".join(problems))
        return found

    @staticmethod
    def _near(word: str, options: Collection[str]) -> str:
        return did_you_mean(word, options) or did_you_mean(word.upper(), options)
