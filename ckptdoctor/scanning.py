"""The scan: a survey with what a repair would make of it, as the report that people and programs read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.claims import of_plans, of_ranges
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.examining import Survey, examine
from ckptdoctor.facts import Facts, Target, read_target
from ckptdoctor.facts.asked import NOTHING_ASKED, Asked
from ckptdoctor.findings import About, Examination, Fault, Finding, Picture, Report
from ckptdoctor.launch.files import read_launch
from ckptdoctor.next_commands import next_commands
from ckptdoctor.planning import Chosen, chosen_engines
from ckptdoctor.policy import NO_POLICY, Baseline, Policy, applied, check_rules
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.report.plan.as_json import plan_data
from ckptdoctor.rulebook import Rule, RuleBook
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance, provenance_of
from ckptdoctor.summary import draft_summary, target_summary, title
from ckptdoctor.tokencounts.token_counts import TokenCounts, read_token_counts
from ckptdoctor.unknown import Unknown

__all__ = ["about", "counts_for", "examination", "scan", "scan_paths", "what_is_asked"]


def scan(
    path: str | Path,
    *,
    target: str | Path | None = None,
    engines: Sequence[str] = (),
    launch: str | None = None,
    token_counts: str | Path | None = None,
    deep: bool = False,
    against: str | Path | None = None,
    rules: Sequence[Path] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    trained_with: str | None = None,
    captured_with: str | None = None,
) -> Examination:
    """Examine one checkpoint.

    `target` is the target's folder or config; `engines` are releases to judge it for (`sglang==0.5.9`,
    `vllm`, `installed`); `launch` is the command that starts the server; `token_counts` is a file of token counts,
    token ids or text; with `deep` values of weights are read too; `against` is another copy of the draft to compare
    them with, and implies `deep`; `rules` are folders of further rules; `select` and `ignore` take rule ids, names or
    families; `trained_with` and `captured_with` say what gave the ids of the captured layers and the states of the
    training (`specforge`, `sglang==0.5.14`). Raises `CannotExamineError` when there is nothing to examine or the counts
    cannot be read, and `UsageError` for an unknown rule or engine.
    """
    chosen = rulebook(tuple(rules)).select(select, ignore)
    known_target = read_target(str(target)) if target is not None else None
    asked = what_is_asked([str(path)], known_target, launch, token_counts, deep, against)
    said = provenance_of(trained_with, captured_with)
    return examination(str(path), known_target, chosen, engines, asked, provenance=said)


def examination(
    path: str,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    engines: Sequence[str] = (),
    asked: Asked = NOTHING_ASKED,
    illustrated: bool = False,
    provenance: Provenance = NOTHING_SAID,
) -> Examination:
    """Examine the checkpoint at `path` with these rules, for these engine releases. Raises `CannotExamineError`.

    `illustrated` asks for pictures, too, and for the whole plans of the newest releases where no engine is named.
    """
    chosen = chosen_engines(engines)
    found = examine(path, target, rules, chosen, asked, illustrated, provenance)
    facts, commit = found.facts, found.checkpoint.commit
    if commit is not None and "@" not in path:
        path = f"{path}@main"
    findings = (*_with_repairs(found, target, rules, chosen, asked, provenance), *found.unserved)
    judgement = replace(found.judgement, findings=tuple(sorted(findings, key=lambda f: (-f.severity.rank, f.rule))))
    return Examination(
        path=path,
        title=title(facts) if commit is None else f"{title(facts)}, commit {commit[:12]}",
        draft=draft_summary(facts),
        target=target_summary(facts.target),
        findings=judgement.findings,
        skipped=judgement.skipped,
        plans=of_plans([plan_data(plan) for plan in found.plans], judgement.findings),
        serving=of_ranges(found.serving, judgement.findings),
        next_commands=next_commands(
            path,
            target,
            judgement,
            {rule.id for rule in rulebook()},
            engines,
            facts.files.whole_folder,
            asked.deep,
            provenance,
            None if asked.launch is None else asked.launch.text,
        ),
        pictures=_pictures(path, facts, asked) if illustrated else (),
        caveats=tuple(remark for _, _, remark in chosen if remark is not None),
        newest=of_plans([plan_data(plan) for plan in found.newest], judgement.findings),
        faults=tuple(dict.fromkeys((*judgement.faults, *_beside_rules(found, judgement.findings)))),
    )


def _beside_rules(found: Survey, findings: Iterable[Finding]) -> Iterator[Fault]:
    """The faults of ckptdoctor in plans and treatments."""
    for plan in (*found.plans, *found.newest):
        if plan.fault:
            yield Fault("plan", plan.label, plan.fault)
    for row in found.serving:
        if row.fault:
            yield Fault("plan", f"{row.engine} {row.releases}", row.fault)
    for finding in findings:
        if finding.fix is not None and finding.fix.fault is not None:
            yield Fault("repair", f"{finding.fix.treatment} for {finding.rule}", finding.fix.fault)


def _with_repairs(
    found: Survey,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    engines: Sequence[Chosen],
    asked: Asked,
    provenance: Provenance,
) -> tuple[Finding, ...]:
    """The findings with what a repair would really do, or why it would not."""
    if not any(finding.fix for finding in found.judgement.findings):
        return found.judgement.findings
    # Imported here: most drafts have nothing that could be repaired.
    from ckptdoctor.repair.plan.outlook import with_repairs

    return with_repairs(found, target, rules, engines, asked, provenance)


def _pictures(path: str, facts: Facts, asked: Asked) -> tuple[Picture, ...]:
    """The picture of the draft vocabulary, where there is a map or a coverage to see."""
    if facts.vocab.map is None and isinstance(facts.coverage, Unknown):
        return ()
    # Imported here: a report without pictures must not pay for them.
    from ckptdoctor.report.vocab.picture import picture
    from ckptdoctor.vocab.page import page_from

    drawn = picture(page_from(path, title(facts), facts, asked.counts))
    covered = "" if isinstance(facts.coverage, Unknown) else ", and how much of real text it covers"
    return (Picture(f"Where the draft vocabulary lies in the target's{covered}", drawn),)


def what_is_asked(
    paths: Sequence[str],
    target: Target | None,
    launch: str | None,
    token_counts: str | Path | None,
    deep: bool,
    against: str | Path | None,
) -> Asked:
    """What a person gave beside draft and target, read. Raises `CannotExamineError` and `UsageError`."""
    return Asked(
        launch=read_launch(launch) if launch is not None else None,
        counts=counts_for(str(token_counts), target, paths) if token_counts is not None else None,
        deep=deep or against is not None,
        against=open_checkpoint(str(against)) if against is not None else None,
    )


def counts_for(path: str, target: Target | None, drafts: Sequence[str] = ()) -> TokenCounts:
    """The token counts in `path`; text is read with the tokenizer.json of the target, else of the only draft.

    Raises `CannotExamineError`.
    """
    folders = [target.root] if target is not None and target.root is not None else []
    folders += [Path(draft) for draft in drafts] if len(drafts) == 1 else []
    places = [folder / "tokenizer.json" for folder in folders]
    return read_token_counts(path, next((place for place in places if place.is_file()), None))


def scan_paths(
    paths: Sequence[str],
    *,
    target: str | None,
    rules: Sequence[Path],
    select: Sequence[str],
    ignore: Sequence[str],
    engines: Sequence[str] = (),
    launch: str | None = None,
    token_counts: str | None = None,
    deep: bool = False,
    against: str | None = None,
    policy: Policy = NO_POLICY,
    baseline: Baseline | None = None,
    illustrated: bool = False,
    trained_with: str | None = None,
    captured_with: str | None = None,
) -> Report:
    """Examine several paths with the same target and rules; a path that cannot be examined does not stop the others.

    What `policy` asks for holds where the other arguments leave it open; its exceptions and the findings of `baseline`
    are set aside. `illustrated` asks for pictures and for the whole plans of the newest releases, too.

    Raises `CannotExamineError` when the target, the token counts or the other copy cannot be read, `UsageError` for bad
    or unknown rules and engines.
    """
    book = rulebook((*policy.rules, *rules))
    check_rules(policy, book)
    chosen = book.select(select, ignore)
    place = target if target is not None else policy.target
    known_target = read_target(place) if place is not None else None
    asked = what_is_asked(paths, known_target, launch or policy.launch, token_counts, deep or policy.deep, against)
    named = tuple(engines) or policy.engines
    provenance = provenance_of(trained_with or policy.trained_with, captured_with or policy.captured_with)
    chosen_engines(named)
    done: list[Examination] = []
    failed: list[tuple[str, str]] = []
    remarks: dict[str, None] = {}
    for path in paths:
        try:
            found = examination(path, known_target, chosen, named, asked, illustrated, provenance)
        except CannotExamineError as error:
            failed.append((path, str(error)))
            continue
        judged, said = applied(policy, found, date.today(), baseline)
        done.append(judged)
        remarks |= dict.fromkeys(said)
    source = None if policy.source is None else str(policy.source)
    return Report(tuple(done), tuple(failed), source, tuple(remarks), policy.fail_on, about(done, chosen))


def about(examinations: Iterable[Examination], rules: Iterable[Rule]) -> dict[str, About]:
    """What reports tell of the rules that fired."""
    fired = {f.rule for e in examinations for f in (*e.findings, *(item.finding for item in e.ignored))}
    return {rule.id: About(rule.severity, rule.why, rule.seen_in) for rule in rules if rule.id in fired}
