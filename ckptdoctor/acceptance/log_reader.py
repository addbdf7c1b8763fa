"""The log of an engine or a benchmark to figures: read line by line, however long it is."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from ckptdoctor.acceptance.counting import Counting, fills_blocks
from ckptdoctor.acceptance.gathering import Block, Counters
from ckptdoctor.acceptance.knowledge import LineKind, Setting, line_kinds, settings
from ckptdoctor.acceptance.line_figures import fields_of, figures_of
from ckptdoctor.acceptance.tally import Tally, Total
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import listing, show

__all__ = ["LINE_LIMIT", "LogFigures", "Other", "read_log"]

LINE_LIMIT = 64 * 1024
"""Characters of a line at most; what is behind them is passed over."""

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")


@dataclass(frozen=True)
class Other:
    """Another kind of lines with figures in the same log, which was not taken."""

    what: str
    length: float
    lines: int


@dataclass(frozen=True)
class LogFigures:
    """What a log says.

    `what` names the kind of lines that was taken, `engine` whose they are. `counting` is what the log says of draft
    tokens, `release`, `draft` and `target` what it says of the server. `warm_up` is the number of lines before
    the server was ready, `starts` how often it was started before with figures in the log, `cut` the number of lines
    that were too long to be read to their end.
    """

    name: str
    what: str
    engine: str | None
    total: Total
    counting: Counting
    release: str | None = None
    method: str | None = None
    draft: str | None = None
    target: str | None = None
    warm_up: int = 0
    starts: int = 0
    cut: int = 0
    others: tuple[Other, ...] = ()


class _Run:
    """One start of the server."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self.blocks: dict[str, Block] = {}
        self.counters: dict[str, Counters] = {}
        self.settings: dict[str, str] = {}
        self.engine: str | None = None
        self.ready = False
        self.warm_up = 0

    @property
    def lines(self) -> int:
        return sum(t.lines for t in self.tallies.values()) + len(self.blocks) + len(self.counters)

    def take(self, kind: LineKind, fields: dict[str, str]) -> None:
        """Count the fields of one line."""
        name = fields.pop("name", "")
        if kind.kind == "counter":
            if "value" in fields:
                self.counters.setdefault(kind.id, Counters()).add(fields)
            return
        in_block = kind.kind == "block"
        figures = self.blocks.setdefault(kind.id, Block()).add(fields) if in_block else figures_of(fields)
        if figures is not None:
            if kind.id not in self.tallies:
                self.tallies[kind.id] = Tally(kind)
            self.tallies[kind.id].add(figures, name)

    def set_up(self, setting: Setting, line: str) -> None:
        """Keep what a line says of the server."""
        for name, pattern in setting.fields.items():
            match = pattern.search(line)
            if match is not None:
                self.settings[name] = match[1]
                self.engine = setting.engine

    def begin(self) -> None:
        """The server is ready: what was printed before was warm-up."""
        if not self.ready:
            self.ready = True
            self.warm_up = self.lines
            self.tallies, self.blocks, self.counters = {}, {}, {}

    def close(self) -> None:
        """Count what still waits for more lines."""
        for kind in line_kinds():
            gathered = self.blocks.get(kind.id) or self.counters.get(kind.id)
            figures = gathered.figures() if gathered is not None else None
            if figures is not None:
                self.tallies.setdefault(kind.id, Tally(kind)).add(figures)

    def counting(self) -> Counting:
        """What this start says of draft tokens."""
        tokens, steps, topk = (
            int(self.settings[n]) if n in self.settings else None for n in ("tokens", "steps", "topk")
        )
        source = None if tokens is None and steps is None else "the log"
        if fills_blocks(self.engine, self.settings.get("method")):
            return Counting(engine=self.engine, tokens=tokens, block=True, source=source)
        return Counting(engine=self.engine, tokens=tokens, steps=steps, topk=topk, source=source)


def read_log(place: str, given: Counting) -> LogFigures:
    """Read the log at `place`, `-` for standard input; `given` is what is known of draft tokens without it.

    Raises `CannotExamineError` when it cannot be read or holds no figures.
    """
    reader = _Reader()
    name = "standard input" if place == "-" else show(Path(place).name)
    with _opened(place) as stream:
        try:
            while line := stream.readline(LINE_LIMIT):
                if len(line) >= LINE_LIMIT and not line.endswith("\n"):
                    reader.cut += 1
                    _pass_over(stream)
                reader.take(line)
        except (OSError, UnicodeError) as error:
            raise CannotExamineError(f"{name}: cannot be read ({show(error)})") from None
    return reader.figures(name, given)


class _Reader:
    def __init__(self) -> None:
        self.run = _Run()
        self.before: _Run | None = None
        self.starts = self.cut = 0

    def take(self, line: str) -> None:
        if "\x1b" in line:
            line = _COLOUR.sub("", line)
        for setting in settings():
            if setting.holds in line:
                if setting.starts:
                    self._restart()
                self.run.set_up(setting, line)
                if setting.ready:
                    self.run.begin()
        for kind in line_kinds():
            if any(text in line for text in kind.holds) and (fields := fields_of(kind, line)):
                self.run.take(kind, fields)
                return

    def _restart(self) -> None:
        if self.run.lines:
            self.before, self.run = self.run, _Run()
            self.starts += 1

    def figures(self, name: str, given: Counting) -> LogFigures:
        run = self.run
        if not run.lines and self.before is not None:
            run, self.starts = self.before, self.starts - 1
        run.close()
        counting = given.or_else(run.counting())
        found: list[tuple[LineKind, Total]] = []
        for kind in line_kinds():
            tally = run.tallies.get(kind.id)
            own = counting.or_else(Counting(engine=kind.engine))
            total = tally.total(own.proposed) if tally is not None else None
            if total is not None:
                found.append((kind, total))
        if not found:
            raise CannotExamineError(_nothing(name, run))
        kind, total = found[0]
        return LogFigures(
            name, kind.what, kind.engine, total, run.counting().or_else(Counting(engine=kind.engine)),
            run.settings.get("release"), run.settings.get("method"), run.settings.get("draft"),
            run.settings.get("target"), run.warm_up, self.starts, self.cut,
            tuple(Other(other.what, t.length, t.lines) for other, t in found[1:]),
        )  # fmt: skip


def _nothing(name: str, run: _Run) -> str:
    if run.tallies:
        return (
            f"{name}: its lines count tokens and not steps, so the length takes the number of draft tokens; "
            "give it as --draft-tokens N"
        )
    if run.warm_up:
        return f"{name}: all its figures stand before the server was ready; send it requests and read the log again"
    known = listing((kind.what for kind in line_kinds()), 20)
    return (
        f"{name}: no line with an acceptance is in it. Known are {known}. SGLang prints its line every 40 steps "
        "(--decode-log-interval), vLLM every ten seconds while it works (unless --disable-log-stats)"
    )


def _pass_over(stream: TextIO) -> None:
    while (more := stream.readline(LINE_LIMIT)) and not more.endswith("\n"):
        pass


@contextmanager
def _opened(place: str) -> Iterator[TextIO]:
    """The log as text: UTF-8, or UTF-16 where it begins with that mark (a redirection in PowerShell)."""
    if place == "-":
        if sys.stdin is None:
            raise CannotExamineError("standard input is closed")
        stream = _text(sys.stdin.buffer)
        try:
            yield stream
        finally:
            stream.detach()  # else standard input is closed with it
        return
    try:
        path = Path(place)
        if path.is_dir():
            raise CannotExamineError(f"--log {show(place)}: this is a folder; give the file with the log")
        with path.open("rb") as file:
            yield _text(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CannotExamineError(f"--log {show(place)}: {show(reason)}") from None


def _text(stream: BinaryIO) -> io.TextIOWrapper:
    peek = stream.peek(2)[:2] if isinstance(stream, io.BufferedReader) else b""
    wide = peek in (b"\xff\xfe", b"\xfe\xff")
    return io.TextIOWrapper(stream, "utf-16" if wide else "utf-8-sig", "replace", newline=None)
