"""The data under rules/acceptance: every rule exists, every command parses, every band can be reached."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest
import yaml

from ckptdoctor.acceptance.commands import filled
from ckptdoctor.acceptance.counting import Counting
from ckptdoctor.acceptance.judging import Speeds, judge
from ckptdoctor.acceptance.knowledge import Band, bands, engines, line_kinds, rate_kinds, rate_kinds_of, signs
from ckptdoctor.acceptance.readings import Reading
from ckptdoctor.cli.acceptance import acceptance
from ckptdoctor.cli.main import main
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.resources import rules_dir

ALL = [*bands(), *signs()]
VALUES = {
    "draft": "a b/draft", "target": "target", "engine": "sglang==0.5.9", "launch": "sglang serve --x y", "tokens": "4",
    "number": "1.83 --draft-tokens 4", "length": "1.83",
}  # fmt: skip


def ids(band: Band) -> str:
    return band.id


@pytest.mark.parametrize("band", ALL, ids=ids)
def test_rules_of_causes_exist(band: Band) -> None:
    known = {rule.id for rule in rulebook().rules}
    assert [rule for cause in band.causes for rule in cause.rules if rule not in known] == []


@pytest.mark.parametrize("band", ALL, ids=ids)
def test_causes_are_sentences_with_public_reports(band: Band) -> None:
    for cause in band.causes:
        assert re.fullmatch(r"[A-Z][^!]*[.]", cause.says, re.IGNORECASE), cause.says
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in cause.seen_in)
    assert "!" not in band.says


@pytest.mark.parametrize(
    "band", [band for band in ALL if band.level in ("error", "warning") and band.id != "impossible-high"], ids=ids
)
def test_what_is_wrong_has_causes_that_were_seen(band: Band) -> None:
    assert any(cause.seen_in for cause in band.causes)


def given_commands() -> Iterator[tuple[str, str]]:
    for band in ALL:
        for text in band.next:
            for values in (VALUES, {}):
                command = filled(text, values)
                if command.startswith("ckptdoctor"):
                    yield band.id, command


@pytest.mark.parametrize(("band", "command"), sorted(set(given_commands())))
def test_commands_parse(band: str, command: str) -> None:  # noqa: ARG001  # names the test
    assert "{" not in command
    _, name, *words = shlex.split(
        command.replace("LENGTH", "2.0").replace(" N", " 4").replace(" X", " 1").replace(" Y", " 1")
    )
    found = acceptance if name == "acceptance" else main.commands.get(name)
    if found is None:
        pytest.skip(f"{name} is not there")
    with click.Context(found) as ctx:
        found.parse_args(ctx, words)


def test_unknown_values_become_words_and_foreign_ones_are_quoted() -> None:
    text = "ckptdoctor scan {draft} --target {target} --engine {engine} --launch {launch}"
    assert filled(text, {}) == "ckptdoctor scan DRAFT --target TARGET"
    assert filled(text, {"draft": "$(rm -rf x)"}).startswith("ckptdoctor scan '$(rm -rf x)' ")
    assert filled(text, {"draft": "a\x1b[31m\n"}).startswith("ckptdoctor scan DRAFT ")
    assert filled("ckptdoctor plan {draft} --engine {engine}", {}) == "ckptdoctor plan DRAFT --engine ENGINE"


@pytest.mark.parametrize(
    ("length", "band"),
    [(1.0, "nothing"), (1.02, "nothing"), (1.03, "hardly"), (1.3, "hardly"), (1.5, "little"), (1.95, "fair"),
     (2.9, "good"), (5.0, "everything"), (5.2, "impossible-high"), (0.45, "impossible-low")],
)  # fmt: skip
def test_every_band_has_its_numbers(length: float, band: str) -> None:
    judged = judge(Reading(length, Counting(engine="vllm", tokens=4), ""))
    assert judged.band is not None
    assert judged.band.id == band


@pytest.mark.parametrize(
    ("length", "positions", "published", "speeds", "sign"),
    [
        (1.66, (0.6, 0.06, 0.0), None, None, "cliff"),
        (2.37, (0.6, 0.385, 0.215, 0.108, 0.062, 0.0, 0.0), None, None, "cut"),
        (2.0, (0.7, 0.25, 0.05), None, None, "falling"),
        (1.6, (), 2.9, None, "far-below-published"),
        (2.5, (), 2.9, None, "below-published"),
        (2.9, (), 2.9, None, "as-published"),
        (2.5, (), None, Speeds(90, 100), "too-dear"),
    ],
)
def test_every_sign_has_its_figures(
    length: float, positions: tuple[float, ...], published: float | None, speeds: Speeds | None, sign: str
) -> None:
    counting = Counting(engine="vllm", tokens=len(positions) or 3)
    judged = judge(Reading(length, counting, ""), positions=positions, published=published, speeds=speeds)
    assert sign in [found.id for found in judged.signs]


@pytest.mark.parametrize(
    "positions",
    [
        # vllm-project/vllm#26498, vllm-project/vllm#50170 (the head that is right), ggml-org/llama.cpp#24536
        (0.74, 0.54, 0.41, 0.30, 0.22, 0.16, 0.12, 0.08, 0.05, 0.02),
        (0.751, 0.567, 0.453),
        (0.805, 0.632, 0.483),
        (0.7617, 0.6158, 0.5125, 0.4243, 0.3640, 0.3094, 0.2722, 0.2365),
    ],
)
def test_drafts_that_fade_as_usual_have_no_sign(positions: tuple[float, ...]) -> None:
    judged = judge(Reading(1 + sum(positions), Counting(engine="vllm", tokens=len(positions)), ""), positions=positions)
    assert judged.signs == ()


def test_a_wrong_head_is_a_band_and_no_sign_of_its_places() -> None:
    # vllm-project/vllm#50170: the engine's default layers in the place of the trained ones.
    judged = judge(Reading(1.036, Counting(engine="vllm", tokens=3), ""), positions=(0.036, 0.0006, 0.0))
    assert judged.band is not None
    assert (judged.band.id, judged.signs) == ("hardly", ())
    assert "AUX009" in judged.band.causes[0].rules


def test_every_engine_has_a_rate_and_every_kind_a_source() -> None:
    assert all(rate_kinds_of(engine, None) for engine in engines())
    raw = yaml.safe_load((rules_dir() / "acceptance" / "logs.yaml").read_text(encoding="utf-8"))
    assert all(row["source"] for part in ("rates", "lines") for row in raw[part])
    assert {kind.formula for kind in rate_kinds().values()} == {"verified", "proposed", "matches"}
    assert {kind.kind for kind in line_kinds()} == {"interval", "running", "counter", "block"}


@pytest.mark.parametrize(
    ("engine", "release", "kinds"),
    [("sglang", "0.5.10", ["verified"]), ("sglang", "0.5.11", ["proposed"]), ("sglang", None, ["verified", "proposed"]),
     ("vllm", "0.33.0", ["proposed"]), ("vllm", "0.7.3", ["matches"]),
     ("sglang", "no release", ["verified", "proposed"])],
)  # fmt: skip
def test_a_release_means_one_rate(engine: str, release: str | None, kinds: list[str]) -> None:
    assert [kind.id for kind in rate_kinds_of(engine, release)] == kinds
