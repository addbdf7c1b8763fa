"""What can be wrong with a rule, and who is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckptdoctor.errors import UsageError
from ckptdoctor.text import show

__all__ = ["ExpressionError", "RuleEvaluationError", "RuleFileError", "did_you_mean"]

_SHOWN = 20


class ExpressionError(ValueError):
    """An expression or a text with placeholders that cannot be compiled or evaluated; the text says why."""


class RuleFileError(UsageError):
    """Rule files that cannot be used. `problems` holds one sentence for each thing that is wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            text = self.problems[0]
        else:
            lines = [f"{len(self.problems)} problems in the rule files:", *self.problems[:_SHOWN]]
            if len(self.problems) > _SHOWN:
                lines.append(f"and {len(self.problems) - _SHOWN} more")
            text = "\n  ".join(lines)
        super().__init__(text)


class RuleEvaluationError(RuntimeError):
    """A rule that ships with ckptdoctor failed on real facts: a fault of the rule, not of the person's files."""

    def __init__(self, rule: str, problem: str) -> None:
        super().__init__(f"rule {rule}: {problem}")
        self.rule = rule


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """`; did you mean x?` for the nearest of `options`, or nothing when none is near."""
    # Imported here because only a mistake needs it.
    from difflib import get_close_matches

    close = get_close_matches(word, list(options), n=1)
    return f"; did you mean {show(close[0])}?" if close else ""
