"""A new draft vocabulary for a person: what was chosen, what was forced, what it covers, what was written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.vocab.words import count, percent
from ckptdoctor.report.wording import PATH_LIMIT
from ckptdoctor.summary import byte_count
from ckptdoctor.text import listing, show

if TYPE_CHECKING:
    from ckptdoctor.vocab.writing import Built

__all__ = ["built_lines"]


def built_lines(built: Built, out: str | None) -> Iterator[Line]:
    """What `vocab build` made; `out` is the folder as it was named, None for a dry run without one."""
    source, kind, total = built.counts
    yield line(
        *((Segment(show(out, PATH_LIMIT), "path"), ": ") if out is not None else ()),
        f"{count(built.size)} of {count(built.vocabulary)} target ids ({percent(built.size / built.vocabulary)}), ",
        "ascending" if built.order == "ascending" else "the most frequent first",
        hang=2,
    )
    yield BLANK
    yield line(
        f"They cover {percent(built.share)} of {show(source)} ({kind}, {count(total)} positions); the "
        f"{count(built.size)} most frequent ids alone would cover {percent(built.best / built.total)}.",
        indent=2,
        hang=2,
    )
    yield BLANK
    yield line(Segment("always in", "label"), indent=2)
    for group in built.groups:
        if group.needs is not None:
            lacking = Segment(f"not known: needs {show(group.needs)}", "warning")
            yield line(f"{show(group.name)}: ", lacking, indent=4, hang=2)
        else:
            many = count(len(group.ids)) if group.ids else "none"
            yield line(f"{show(group.name)}: {many}", _few(group.ids), indent=4, hang=2)
    if built.added:
        are = "is" if len(built.added) == 1 else "are"
        told = f"{count(len(built.added))} of them {are} not among the most frequent"
        yield line(told, _few(built.added), indent=4, hang=2)
    yield BLANK
    yield line(Segment("written" if built.out is not None else "would be written", "label"), indent=2)
    for name, size in built.files:
        yield line(f"{name}  {byte_count(size)}", Segment(_holds(built, name), "quiet"), indent=4, hang=2)
    if built.head.left_out is not None:
        yield line(Segment(f"no head: {built.head.left_out}", "warning"), indent=4, hang=2)
    if built.out is not None and out is not None:
        command = shlex.join(["ckptdoctor", "vocab", "show", out, "--target", built.target, "--token-counts", source])
        yield BLANK
        yield line("next commands", indent=2)
        yield line(Segment(show(command, PATH_LIMIT), "command"), indent=4, wrap=False)


def _few(ids: tuple[int, ...]) -> Segment:
    return Segment(f"  ({listing(ids, 6)})" if ids else "", "quiet")


def _holds(built: Built, name: str) -> str:
    if name != "model.safetensors":
        return {"vocab.json": "  what was chosen, and why"}.get(name, "")
    head = built.head
    rows = "" if head.left_out else f", lm_head.weight {head.dtype} [{head.rows}×{head.width}] from {show(head.source)}"
    return f"  d2t I64 [{built.size}], t2d BOOL [{built.vocabulary}]{rows}"
