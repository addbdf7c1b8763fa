"""The summary of an audit as text, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterator

from ckptdoctor.audit.summary import Sick, Summary
from ckptdoctor.findings import Severity
from ckptdoctor.report.terminal.render import render_lines
from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.report.wording import PATH_LIMIT, failure
from ckptdoctor.text import listing, plural, show

__all__ = ["OUTCOMES", "headline", "render_text"]

_GROUP, _ITEM, _BODY = 2, 4, 6
_NAMED = 10
"""Drafts without a target and models that the text names; the other formats have more."""

OUTCOMES = {
    "unreadable": "could not be read",
    "timed_out": "took too long",
    "crashed": "ended the process that scanned it",
    "failed": "met an error of ckptdoctor's own",
}
"""Why nothing is known of a draft, in words."""


def render_text(summary: Summary, surface: Surface) -> str:
    """The summary as lines of text."""
    return render_lines(_lines(summary), surface)


def headline(summary: Summary) -> str:
    """`1000 drafts: 3 with errors, 10 with warnings, 987 without; 2 models; 1 not examined`."""
    counts = summary.counts
    without = counts["scanned"] - counts["error"] - counts["warning"]
    found = [f"{counts[s]} with {s}s" for s in ("error", "warning") if counts[s]]
    found.append(f"{without} without" if found else "no errors, no warnings")
    parts = [f"{plural(counts['drafts'], 'draft')}: {', '.join(found)}" if counts["drafts"] else "no drafts"]
    parts += [f"{counts['unserved']} not served as trained"] if counts["unserved"] else []
    parts += [f"{counts['serving_unknown']} not known to be served"] if counts["serving_unknown"] else []
    parts += [plural(counts["models"], "ordinary model")] if counts["models"] else []
    parts += [f"{summary.failed} not examined"] if summary.failed else []
    return "; ".join(parts)


def _lines(summary: Summary) -> Iterator[Line]:
    for caveat in summary.caveats:
        yield line(Segment(caveat, "warning"), hang=2)
        yield BLANK
    yield line(Segment(headline(summary), "path"), hang=2)
    yield from _sick(summary)
    yield from _rules(summary)
    yield from _unserved(summary)
    yield from _not_examined(summary)
    yield from _targets(summary)
    yield from _policy(summary)
    yield BLANK
    kept = f"; {plural(summary.kept, 'result')} kept from before" if summary.kept else ""
    yield line(Segment(f"{summary.seconds:.1f} seconds{kept}", "quiet"))


def _sick(summary: Summary) -> Iterator[Line]:
    if not summary.sick:
        return
    yield BLANK
    yield line("the worst first", indent=_GROUP)
    for sick in summary.sick:
        yield BLANK
        yield line(Segment(show(sick.key, PATH_LIMIT), "path"), f": {tally(sick)}", indent=_ITEM, hang=2)
        for severity, rule, message in sick.first:
            yield line(Segment(rule, severity), f" {message}", indent=_BODY, hang=2)
        rest = sum(sick.counts) - len(sick.first)
        if rest > 0:
            yield line(Segment(f"and {rest} more", "quiet"), indent=_BODY)
    rest = summary.counts["error"] + summary.counts["warning"] - len(summary.sick)
    if rest > 0:
        yield BLANK
        yield line(Segment(f"and {plural(rest, 'more draft', 'more drafts')}", "quiet"), indent=_ITEM)


def tally(sick: Sick) -> str:
    """`2 errors, 1 note`."""
    return ", ".join(plural(n, s.value) for n, s in zip(sick.counts, Severity, strict=True) if n)


def _rules(summary: Summary) -> Iterator[Line]:
    if not summary.rules:
        return
    yield BLANK
    yield line("by rule", indent=_GROUP)
    for rule, count in summary.rules.items():
        names = [show(key, PATH_LIMIT) for key in count.examples]
        where = listing(names, len(names)) if count.drafts <= len(names) else f"{', '.join(names)}, …"
        yield line(
            Segment(rule, count.severity.value),
            f" {count.name}: {plural(count.drafts, 'draft')} ",
            Segment(f"({where})", "quiet"),
            indent=_ITEM,
            hang=2,
        )


def _unserved(summary: Summary) -> Iterator[Line]:
    if not summary.unserved:
        return
    yield BLANK
    yield line("served as trained by no release that was asked about", indent=_GROUP)
    for key in summary.unserved[:_NAMED]:
        yield line(Segment(show(key, PATH_LIMIT), "path"), indent=_ITEM, hang=2)
    yield from _more(summary.counts["unserved"] - min(len(summary.unserved), _NAMED))


def _not_examined(summary: Summary) -> Iterator[Line]:
    if not summary.not_examined:
        return
    yield BLANK
    yield line("not examined", indent=_GROUP)
    for key, outcome, reason in summary.not_examined:
        told = failure(key, reason)
        yield line(
            Segment(show(key, PATH_LIMIT), "path"),
            Segment(f" {OUTCOMES[outcome]}", "error"),
            f": {show(told, 600)}" if told else "",
            indent=_ITEM,
            hang=2,
        )
    yield from _more(summary.failed - len(summary.not_examined))
    yield line("--retry scans these again, and no others.", indent=_ITEM)


def _targets(summary: Summary) -> Iterator[Line]:
    if summary.targets:
        yield BLANK
        yield line("targets", indent=_GROUP)
        for path, count in list(summary.targets.items())[:_NAMED]:
            yield line(show(path, PATH_LIMIT), f": {plural(count, 'draft')}", indent=_ITEM, hang=2)
        yield from _more(len(summary.targets) - _NAMED)
    if summary.without_target:
        yield BLANK
        yield line("without a target (rules that need one were not judged)", indent=_GROUP)
        for key, why in summary.without_target[:_NAMED]:
            yield line(Segment(show(key, PATH_LIMIT), "path"), f": {show(why, 600)}", indent=_ITEM, hang=2)
        yield from _more(summary.counts["without_target"] - _NAMED)


def _policy(summary: Summary) -> Iterator[Line]:
    if summary.policy is None and not summary.remarks:
        return
    yield BLANK
    if summary.policy is not None:
        yield line("judged by ", Segment(show(summary.policy, PATH_LIMIT), "path"), hang=2)
    for remark in summary.remarks:
        yield line(show(remark, 400), hang=2)


def _more(count: int) -> Iterator[Line]:
    if count > 0:
        yield line(Segment(f"and {count} more", "quiet"), indent=_ITEM)
