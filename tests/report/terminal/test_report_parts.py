"""The parts of the report package: wrapping, the surface, the words, the table of formats."""

from __future__ import annotations

import io
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import ERROR, NOTE, SICK, WELL, report

from ckptdoctor.errors import UsageError
from ckptdoctor.findings import Confidence, Location, Report, ServingRange, Severity, Skip
from ckptdoctor.report import REPORTERS, Surface, capped, render, surface_for
from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line, physical
from ckptdoctor.report.wording import beside_serving, failure, place, unjudged


def lines_of(item: Line, width: int) -> list[str]:
    return ["".join(s.text for s in parts) for parts in physical(item, width)]


class TestWrapping:
    def test_hanging_indent(self) -> None:
        item = line("one two three four", indent=2, hang=2)
        assert lines_of(item, 10) == ["  one two", "    three", "    four"]

    def test_segments_keep_their_styles_over_a_break(self) -> None:
        item = line(Segment("ab cd", "x"), "ef gh", hang=1)
        assert list(physical(item, 5)) == [
            (Segment("ab", "x"),),
            (Segment(" "), Segment("cd", "x"), Segment("ef")),
            (Segment(" "), Segment("gh")),
        ]

    def test_a_word_that_just_fits(self) -> None:
        assert lines_of(line("abc def"), 3) == ["abc", "def"]

    def test_a_long_name_breaks_after_a_dot(self) -> None:
        assert lines_of(line("model.layers.weight"), 15) == ["model.layers.", "weight"]

    def test_a_long_name_without_dots_breaks_anywhere(self) -> None:
        assert lines_of(line("x" * 7), 3) == ["xxx", "xxx", "x"]

    def test_wide_characters_take_two_columns(self) -> None:
        assert lines_of(line("模型模型"), 5) == ["模型", "模型"]

    def test_combining_marks_take_none(self) -> None:
        assert lines_of(line("e\u0301" * 4), 4) == ["e\u0301" * 4]

    def test_spaces_inside_a_name_stay(self) -> None:
        assert lines_of(line("a   b"), 40) == ["a   b"]

    def test_line_ends_of_a_rule_text_are_spaces(self) -> None:
        assert lines_of(line("one\n  two\tthree\n"), 40) == ["one two three "]

    def test_no_wrap(self) -> None:
        assert lines_of(line("one two three", indent=2, wrap=False), 5) == ["  one two three"]

    def test_an_empty_line(self) -> None:
        assert lines_of(BLANK, 10) == [""]
        assert line("", Segment("", "x")) == BLANK

    def test_an_indent_wider_than_the_line_still_ends(self) -> None:
        assert lines_of(line("ab", indent=9), 4) == [" " * 9 + "a", " " * 9 + "b"]

    @given(st.text(max_size=80), st.integers(1, 30), st.integers(0, 6), st.integers(0, 6))
    def test_no_character_is_lost(self, text: str, width: int, indent: int, hang: int) -> None:
        item = line(text, indent=indent, hang=hang)
        shown = "".join(s.text for s in item.segments)
        assert "".join(lines_of(item, width)).replace(" ", "") == shown.replace(" ", "")

    @given(st.text(st.characters(max_codepoint=126, min_codepoint=32), max_size=80), st.integers(20, 40))
    def test_no_line_is_too_long(self, text: str, width: int) -> None:
        assert max(map(len, lines_of(line(text, indent=2, hang=4), width))) <= width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestSurface:
    @pytest.mark.parametrize(
        ("color", "env", "colour"),
        [
            ("auto", {"TERM": "xterm"}, True),
            ("auto", {}, True),
            ("auto", {"TERM": "dumb"}, False),
            ("auto", {"NO_COLOR": "1"}, False),
            ("auto", {"NO_COLOR": "0"}, False),
            ("auto", {"NO_COLOR": ""}, True),
            ("never", {"TERM": "xterm"}, False),
            ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ],
    )
    def test_colour_on_a_terminal(self, color: str, env: dict[str, str], colour: bool) -> None:
        assert surface_for(Terminal(), color, env).colour is colour

    @pytest.mark.parametrize(("color", "colour"), [("auto", False), ("never", False), ("always", True)])
    def test_colour_in_a_file(self, color: str, colour: bool) -> None:
        assert surface_for(io.StringIO(), color, {"TERM": "xterm"}) == Surface(100, colour)

    def test_the_environment_of_the_process_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "yes")
        assert not surface_for(Terminal()).colour

    @pytest.mark.parametrize(("columns", "width"), [(20, 60), (60, 60), (80, 80), (110, 110), (250, 110)])
    def test_width(self, monkeypatch: pytest.MonkeyPatch, columns: int, width: int) -> None:
        monkeypatch.setattr("shutil.get_terminal_size", lambda _: os.terminal_size((columns, 24)))
        assert surface_for(Terminal()).width == width
        assert surface_for(io.StringIO()).width == 100

    def test_a_closed_stdout(self) -> None:
        assert surface_for(None) == Surface()


class TestWording:
    @pytest.mark.parametrize(
        ("location", "text"),
        [
            (Location(), ""),
            (Location(file="config.json"), "config.json"),
            (Location(file="config.json", line=3), "config.json:3"),
            (Location(line=3), "line 3"),
            (Location(file="config.json", line=3, config_key="a.b"), "config.json:3, a.b"),
            (Location(tensor="fc.weight"), "fc.weight"),
            (Location(file="m.safetensors", tensor="fc.weight", offset=8), "m.safetensors, fc.weight, byte 8"),
            (Location(file="a\x1bb", tensor="c\u202ed"), "a\\x1bb, c\\u202ed"),
        ],
    )
    def test_place(self, location: Location, text: str) -> None:
        assert place(location) == text

    @pytest.mark.parametrize(
        ("needs", "sentence"),
        [
            ("the target (--target)", "1 rule needs the target: pass --target PATH"),
            ("the launch line (--launch)", "1 rule needs the launch line: pass --launch LINE"),
            ("the target (--target PATH)", "1 rule needs the target: pass --target PATH"),
            ("a target (--target DIR)", "1 rule needs a target: pass --target DIR"),
            ("every byte (--deep)", "1 rule needs every byte: pass --deep"),
            ("target", "1 rule needs target"),
            ("(--target)", "1 rule needs (--target)"),
            ("a\x1bb", "1 rule needs a\\x1bb"),
        ],
    )
    def test_need(self, needs: str, sentence: str) -> None:
        assert [group.sentence for group in unjudged([Skip("GEO001", needs)])] == [sentence]

    @pytest.mark.parametrize(
        ("path", "reason", "text"),
        [
            ("a", "no such path", "no such path"),
            ("a", "a: no such path", "no such path"),
            ("a", "ab: no such path", "ab: no such path"),
            ("a\x1b", "a\\x1b: no such path", "no such path"),
        ],
    )
    def test_failure(self, path: str, reason: str, text: str) -> None:
        assert failure(path, reason) == text

    def test_groups(self) -> None:
        skips = [Skip("A001", "x"), Skip("B001", "y"), Skip("B002", "y"), Skip("B001", "y")]
        assert [(g.needs, g.rules) for g in unjudged(skips)] == [("y", ("B001", "B002")), ("x", ("A001",))]


class TestCapped:
    @pytest.mark.parametrize("severity", Severity)
    @pytest.mark.parametrize("confidence", Confidence)
    def test_levels(self, severity: Severity, confidence: Confidence) -> None:
        finding = replace(ERROR, severity=severity, confidence=confidence)
        (examination,) = capped(report(replace(WELL, findings=(finding,)))).examinations
        assert examination.findings[0].severity.rank == min(severity.rank, confidence.rank)

    def test_twice_is_once(self) -> None:
        once = capped(report(replace(WELL, findings=(replace(ERROR, confidence=Confidence.LIKELY),))))
        assert capped(once) == once


class TestTable:
    def test_formats(self) -> None:
        assert list(REPORTERS) == ["text", "json", "sarif", "junit", "github", "markdown", "html"]

    @pytest.mark.parametrize("fmt", REPORTERS)
    def test_every_reporter_ends_its_last_line(self, fmt: str) -> None:
        assert render(report(WELL), fmt).endswith("\n")

    def test_an_unknown_format(self) -> None:
        with pytest.raises(UsageError, match=r"no report format 'xml'; there are text, json"):
            render(Report(()), "xml")


def test_served_as_trained_does_not_stand_alone_beside_an_error() -> None:
    row = ServingRange("vllm", "vLLM", "0.22.0", "0.33.0", True, "served", "")
    sick = replace(SICK, serving=(row,))
    said = "the errors above come on top of it"
    assert beside_serving(sick).endswith(f"{said}.")
    assert said in " ".join(render(report(sick)).split())
    assert said in render(report(sick), "markdown")
    assert beside_serving(replace(sick, findings=(NOTE,))) == ""
    assert beside_serving(replace(sick, serving=(replace(row, outcome="broken"),))) == ""
