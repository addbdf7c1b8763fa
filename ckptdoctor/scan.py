"""The examination from a path to a report: open, describe, judge. The command line and the Python API call this."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import FACT_NAMES, Facts, Target, describe, read_target
from ckptdoctor.findings import Examination, Report
from ckptdoctor.resources import rules_dir
from ckptdoctor.rulebook import Rule, RuleBook, judge, load_rules
from ckptdoctor.summary import draft_summary, next_commands, target_summary, title

__all__ = ["examine", "examine_paths", "rulebook", "scan"]


@lru_cache(maxsize=8)
def rulebook(user: tuple[Path, ...] = ()) -> RuleBook:
    """The shipped rules and those of the folders `user`. Raises `UsageError` for a bad user rule."""
    return load_rules(rules_dir(), user, names=FACT_NAMES)


def scan(
    path: str | Path,
    *,
    target: str | Path | None = None,
    rules: Sequence[Path] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Examination:
    """Examine one checkpoint.

    `target` is the target's folder or config; `rules` are folders of further rules; `select` and
    `ignore` take rule ids, names or families. Raises `CannotExamineError` when there is nothing to
    examine and `UsageError` for an unknown rule.
    """
    chosen = rulebook(tuple(rules)).select(select, ignore)
    return examine(str(path), read_target(str(target)) if target is not None else None, chosen)


def examine(path: str, target: Target | None, rules: Sequence[Rule] | RuleBook) -> Examination:
    """Examine the checkpoint at `path` with these rules. Raises `CannotExamineError`."""
    checkpoint = open_checkpoint(path)
    facts: Facts = describe(checkpoint, target)
    judgement = judge(rules, facts.roots(), facts.uncertain)
    return Examination(
        path=path,
        title=title(facts),
        draft=draft_summary(facts),
        target=target_summary(facts.target),
        findings=judgement.findings,
        skipped=judgement.skipped,
        next_commands=next_commands(path, target, judgement),
    )


def examine_paths(
    paths: Sequence[str], *, target: str | None, rules: Sequence[Path], select: Sequence[str], ignore: Sequence[str]
) -> Report:
    """Examine several paths with the same target and rules; a path that cannot be examined does not stop the others.

    Raises `CannotExamineError` when the target cannot be read, `UsageError` for bad or unknown rules.
    """
    chosen = rulebook(tuple(rules)).select(select, ignore)
    known_target = read_target(target) if target is not None else None
    done: list[Examination] = []
    failed: list[tuple[str, str]] = []
    for path in paths:
        try:
            done.append(examine(path, known_target, chosen))
        except CannotExamineError as error:
            failed.append((path, str(error)))
    return Report(tuple(done), tuple(failed))
