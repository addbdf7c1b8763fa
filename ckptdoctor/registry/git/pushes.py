"""Pushes: what the refs of a push lead to is judged, each commit once, before anything is stored on the other side."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.findings import Examination, Report
from ckptdoctor.policy import Policy
from ckptdoctor.registry.gate import Verdict, judge_tree
from ckptdoctor.registry.git.commands import Repository, open_objects
from ckptdoctor.registry.git.entries import Entry, index_entries, tree_entries
from ckptdoctor.registry.git.layout import LfsObjects, lay_out
from ckptdoctor.registry.git.private import private_folder
from ckptdoctor.text import show

__all__ = ["Judged", "Update", "judge_index", "judge_updates", "pre_push_updates", "receive_updates"]

_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHOWN = 10


@dataclass(frozen=True)
class Update:
    """One ref of a push: its name on the other side, and the object that it is to lead to (None: it is deleted)."""

    ref: str
    new: str | None


@dataclass(frozen=True)
class Judged:
    """An update and the verdict of what it leads to; None for a deletion. `first`: no earlier ref had the same tree."""

    update: Update
    verdict: Verdict | None
    first: bool = True

    @property
    def sentence(self) -> str:
        """The verdict of this ref in one line."""
        if self.update.new is None or self.verdict is None:
            return f"{show(self.update.ref)}: is deleted, nothing to judge"
        return f"{show(self.update.ref)} ({self.update.new[:_SHOWN]}): {self.verdict.sentence}"


def pre_push_updates(lines: bytes) -> tuple[Update, ...]:
    """What git tells a pre-push hook: `LOCAL-REF ID REMOTE-REF ID` a line. Raises `CannotExamineError` for others."""
    # The first may be any expression that a person typed, with blanks in it; the other three never have one.
    found = [line.rsplit(" ", 3) for line in _lines(lines)]
    return tuple(_update(words, words[-2:-1], words[-3:-2]) for words in found)


def receive_updates(lines: bytes) -> tuple[Update, ...]:
    """What git tells a pre-receive hook: `OLD-ID NEW-ID REF` a line. Raises `CannotExamineError` for others."""
    found = [line.split(" ", 2) for line in _lines(lines)]
    return tuple(_update(words, words[2:], words[1:2]) for words in found)


def _lines(lines: bytes) -> list[str]:
    # By the line end alone: other separators may stand in names.
    return [line for line in os.fsdecode(lines).split("\n") if line]


def _update(words: list[str], ref: list[str], new: list[str]) -> Update:
    if not ref or not new or not _OID.fullmatch(new[0]):
        raise CannotExamineError(f"{show(' '.join(words))}: is no line about a ref as git writes them for hooks")
    return Update(ref[0], new[0] if new[0].strip("0") else None)


def judge_updates(
    repository: Repository, updates: Iterable[Update], policy: Policy, lfs: LfsObjects
) -> Iterator[Judged]:
    """Judge what each of `updates` leads to: the commit itself, not those before it, which nobody loads.

    Raises `UsageError` for a policy that cannot be used, `CannotExamineError` when nothing can be judged.
    """
    known: dict[str, Verdict] = {}
    for update in updates:
        if update.new is None:
            yield Judged(update, None)
            continue
        tree = repository.tree_of(update.new)
        if tree is None:
            why = "it leads to no commit in this repository, and nothing else can be judged"
            yield Judged(update, _refused(((show(update.ref), why),)))
            continue
        first = tree not in known
        if first:
            known[tree] = _judge(repository, tree_entries(repository, tree), policy, lfs)
        yield Judged(update, known[tree], first)


def judge_index(repository: Repository, policy: Policy, lfs: LfsObjects) -> Verdict:
    """Judge what a commit made now would hold. Raises as `judge_updates`."""
    return _judge(repository, index_entries(repository), policy, lfs)


def _judge(repository: Repository, entries: Iterable[Entry], policy: Policy, lfs: LfsObjects) -> Verdict:
    # Paths as they are from the current folder, which policies and baselines go by; a hook runs at the top.
    shown = os.path.relpath(repository.top) if repository.top is not None else "."
    with private_folder(_home(repository, lfs)) as root:
        try:
            with open_objects() as objects:
                layout = lay_out(entries, objects, root, lfs)
        except CannotExamineError as error:
            return _refused(((repository.name, str(error)),))
        if layout.problems:
            return _refused(tuple(layout.problems), layout.remarks)
        verdict = judge_tree(root, policy, shown)
    report = verdict.report
    examinations = tuple(_for_people(e, root, shown, repository) for e in report.examinations)
    report = replace(
        report,
        examinations=examinations,
        failed=tuple((_name(path, shown, repository), why) for path, why in report.failed),
        remarks=(*report.remarks, *layout.remarks),
    )
    return replace(verdict, report=report)


def _home(repository: Repository, lfs: LfsObjects) -> Path:
    """Where the private folder goes: beside the objects of git-lfs where they are on another file system."""
    if lfs.stores:
        store = lfs.stores[0]
        try:
            if store.stat().st_dev != repository.common.stat().st_dev and os.access(store.parent, os.W_OK | os.X_OK):
                return store.parent / "ckptdoctor"
        except OSError:
            pass
    return repository.home


def _refused(problems: tuple[tuple[str, str], ...], remarks: Iterable[str] = ()) -> Verdict:
    path, why = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Verdict("refused", Report((), problems, remarks=tuple(remarks)), (f"{show(path)}: {why}{more}",))


def _for_people(examination: Examination, root: Path, shown: str, repository: Repository) -> Examination:
    """With the names that a person knows: the private folder is gone when they read them."""
    commands = [c.replace(str(root), shown) for c in examination.next_commands]
    if repository.top is None:  # there are no files to run them on
        commands = [c for c in examination.next_commands if str(root) not in c]
    return replace(examination, path=_name(examination.path, shown, repository), next_commands=tuple(commands))


def _name(path: str, shown: str, repository: Repository) -> str:
    inside = os.path.relpath(path, shown)
    return repository.name if inside == "." else f"{repository.name}/{inside}"
