"""`fix`: from a path to a repaired copy that was written, verified and published, or to nothing at all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.checkpoint import Checkpoint, open_checkpoint
from ckptdoctor.errors import UsageError
from ckptdoctor.examining import Survey, survey
from ckptdoctor.facts import Target, read_target
from ckptdoctor.facts.asked import Asked
from ckptdoctor.findings import Finding, Severity
from ckptdoctor.launch.files import read_launch
from ckptdoctor.planning import chosen_engines
from ckptdoctor.publish.comparing import compare, compare_size
from ckptdoctor.publish.copying import CannotReadError, SourceGuard
from ckptdoctor.publish.digests import VerificationError
from ckptdoctor.publish.pieces import Literal, OutputFile, Range
from ckptdoctor.publish.publishing import Staging, check_out
from ckptdoctor.publish.tree import Tree, read_tree
from ckptdoctor.publish.writing import Written, write_files
from ckptdoctor.repair.assemble import Assembly, assemble
from ckptdoctor.repair.changes import Change, changes
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.case import Proposal
from ckptdoctor.repair.plan.planner import Options, RepairPlan, plan_repair
from ckptdoctor.repair.plan.treatments_known import treatment_names
from ckptdoctor.repair.receipt import receipt_bytes
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.rulebook import Rule, RuleBook
from ckptdoctor.serving.layers.provenance import provenance_of
from ckptdoctor.text import listing, show

__all__ = ["DIGEST_LIMIT", "Outcome", "Progress", "fix"]

DIGEST_LIMIT = 512 * 1024 * 1024
"""Bytes of a file up to which both sides get a SHA-256 without being asked for."""

_NO_LIMIT = 1 << 62

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes done, and the bytes in all."""


@dataclass(frozen=True)
class Outcome:
    """What `fix` did, or would do.

    `out` is the copy; None when nothing was written. `size` are the bytes of the copy, `fresh` those of them that are
    not bytes of the source. `written` says how the bytes went; None when nothing was written. `changes` are those of
    each step of the plan, for a person to read; the source may be gone when the outcome is told. `reversible`: the copy
    and its receipt hold all that `--undo` needs. `caveats` stand before everything else: a release was asked for that
    nobody has read.
    """

    path: str
    out: Path | None
    plan: RepairPlan
    tree: Tree
    assembly: Assembly | None
    written: Written | None
    dry_run: bool
    changes: tuple[tuple[Change, ...], ...] = ()
    reversible: bool = False
    caveats: tuple[str, ...] = ()

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """The findings that a scan of the copy gives (of the source, when nothing can be repaired)."""
        return self.plan.after.judgement.findings


def fix(
    path: str | Path,
    out: str | Path | None,
    *,
    target: str | Path | None = None,
    engines: Sequence[str] = (),
    launch: str | None = None,
    trained_with: str | None = None,
    captured_with: str | None = None,
    rules: Sequence[Path] = (),
    deep: bool = False,
    unsafe: bool = False,
    select: Sequence[str] = (),
    dry_run: bool = False,
    digests: bool = False,
    progress: Progress = lambda _what, _done, _all: None,
) -> Outcome:
    """Write a repaired copy of the checkpoint at `path` to the new folder `out`. The source is only read.

    `unsafe` allows repairs that rest on an assumption about the training; `select` limits the repairs to rules (ids,
    names, families) and treatments. With `dry_run` nothing is written and `out` may be None. `digests` asks for the
    SHA-256 of large files too. The other arguments are those of `scan`.

    Raises `UsageError` for a bad `out` or an unknown word, `CannotExamineError` when there is nothing to examine, and
    another `CkptdoctorError` when the copy could not be written, the source changed, or the copy did not verify: there
    is no `out` then.
    """
    book = rulebook(tuple(rules))
    wanted = _wanted(book, select)
    opened, tree = _open(str(path))
    if not dry_run or out is not None:
        if out is None:
            raise UsageError("name the new folder that the copy goes to: --out NEW")
        place = check_out(opened.root, str(out))
    options = Options(
        unsafe=unsafe,
        select=tuple(select),
        engines=tuple(chosen_engines(engines)),
        provenance=provenance_of(trained_with, captured_with),
        asked=Asked(launch=read_launch(launch) if launch is not None else None, deep=deep),
    )
    with _reading(path):
        known_target = read_target(str(target)) if target is not None else None
        plan = plan_repair(opened, known_target, book, options, wanted)
    SourceGuard({entry.path: entry.status for entry in tree.entries}).check()
    caveats = tuple(remark for _, _, remark in options.engines if remark is not None)
    if not plan.steps:
        return Outcome(str(path), None, plan, tree, None, None, dry_run, caveats=caveats)
    _must_help(plan)
    with _reading(path):
        assembly = assemble(opened, plan.state, tree)
        told = tuple(tuple(changes(plan.bases[n], step.edits)) for n, step in enumerate(plan.steps))
    if dry_run:
        return Outcome(str(path), None, plan, tree, assembly, None, True, told, caveats=caveats)
    job = _Job(opened, tree, plan, assembly, known_target, book, options, _NO_LIMIT if digests else DIGEST_LIMIT)
    written, reversible = job.run(place, progress)
    return Outcome(str(path), place, plan, tree, assembly, written, False, told, reversible, caveats)


def _open(path: str) -> tuple[Checkpoint, Tree]:
    opened = open_checkpoint(path)
    if not opened.whole_folder:
        raise UsageError(f"{show(path)} is a single file; name its folder: fix copies a whole checkpoint")
    # Listed first and read afterwards: what changes in between is noticed by the guard.
    tree = read_tree(opened.root)
    return open_checkpoint(path), tree


@contextmanager
def _reading(path: str | Path) -> Iterator[None]:
    """What the system says while the source is read becomes a sentence: a file may go away at any moment."""
    try:
        yield
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else path
        raise CannotReadError(f"{show(name)}: cannot be read ({show(error.strerror or error)})") from None


def _wanted(book: RuleBook, select: Sequence[str]) -> Callable[[Proposal], bool]:
    treatments = {word for word in select if word in treatment_names()}
    rest = [word for word in select if word not in treatments]
    ids = {rule.id for rule in book.select(rest)} if rest else set()
    if not select:
        return lambda _: True
    return lambda proposal: proposal.treatment in treatments or any(rule in ids for rule in proposal.rules)


def _must_help(plan: RepairPlan) -> None:
    if plan.appeared:
        names = listing([f"{f.rule} {f.name}" for f in plan.appeared], 6)
        raise VerificationError(
            f"the repaired draft would have an error that this one has not ({names}); nothing is written"
        )
    if plan.ineffective:
        names = listing([f"{p.treatment} ({listing(p.rules)})" for p in plan.ineffective], 6)
        raise VerificationError(f"a repair would not take away what it is for: {names}; nothing is written")


@dataclass(frozen=True)
class _Job:
    """One copy to be made."""

    source: Checkpoint
    tree: Tree
    plan: RepairPlan
    assembly: Assembly
    target: Target | None
    rules: Sequence[Rule] | RuleBook
    options: Options
    digest_limit: int

    def run(self, out: Path, progress: Progress) -> tuple[Written, bool]:
        """Write, compare, judge again, sign and publish. Says how, and whether it can be undone."""
        files = self.assembly.files
        guard = SourceGuard(self._remembered())
        sources = [entry.path for entry in self.tree.entries]
        todo = self.assembly.size + compare_size(files, self.digest_limit, guard, sources)
        done = 0

        def step(what: str) -> Callable[[int], None]:
            def advance(count: int) -> None:
                nonlocal done
                done += count
                progress(what, done, todo)

            return advance

        with Staging(out) as staging:
            folders = self.tree.folders
            written = write_files(files, staging.root, step("copying"), guard, folders=folders, place=out)
            compared = compare(
                files, staging.root, step("comparing"), self.digest_limit, written.shared, guard, sources
            )
            self._judge_again(staging.root)
            receipt, reversible = receipt_bytes(
                self.source, self.plan, self.tree, self.assembly, compared, staging.root
            )
            receipts = [OutputFile(RECEIPT_NAME, (Literal(receipt),))]
            write_files(receipts, staging.root, lambda _: None, place=out)
            guard.check()
            staging.publish(self.tree.root)
        return written, reversible

    def _remembered(self) -> Mapping[Path, os.stat_result]:
        seen = {entry.path: entry.status for entry in self.tree.entries}
        for file in self.assembly.files:
            for piece in file.pieces:
                if isinstance(piece, Range) and piece.path not in seen:  # the target's weights
                    with _reading(piece.path):
                        seen[piece.path] = piece.path.stat()
        return seen

    def _judge_again(self, staged: Path) -> None:
        """Open and scan what lies on the disk: it must be what was planned, and as healthy as was promised."""
        copy = open_checkpoint(str(staged))
        planned = self.plan.state.checkpoint.tensors
        if {n: (i.dtype, i.shape) for n, i in copy.tensors.items()} != {
            n: (i.dtype, i.shape) for n, i in planned.items()
        }:
            raise VerificationError(
                "the tensors of the written copy are not those that were planned; it was not published"
            )
        options = self.options
        found = survey(copy, self.target, self.rules, options.engines, options.asked, self.plan.provenance)
        more = _serious(found) - _serious(self.plan.after)
        if more:
            names = listing(sorted(more), 6)
            raise VerificationError(
                f"a scan of the written copy finds what was not expected ({names}); it was not published"
            )


def _serious(found: Survey) -> Counter[str]:
    """Errors and warnings by rule."""
    return Counter(f.rule for f in found.judgement.findings if f.severity is not Severity.NOTE)
