"""The text report, word for word."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from dataclasses import replace

import pytest
from report_samples import ERROR, HOSTILE, NOTE, SICK, WARNING, WELL, hostile, report

from ckptdoctor.findings import Confidence, Location, Severity, Skip
from ckptdoctor.report import Surface, render

SICK_TEXT = """\
drafts/sick: EAGLE-3 draft in the names of SpecForge, 1 layer

  1 error

    KEY004 projection-left-random  model.safetensors, layers.0.self_attn.q_proj.weight
      SGLang 0.5.9 builds model.midlayer.self_attn.qkv_proj.weight and finds no stored tensor for
      it: the file has layers.0.self_attn.q_proj.weight, a name that this release drops without a
      word.
      on: sglang==0.5.9
      you would see: the server starts, answers are correct, and every step accepts 1.0 token
      next: rename the layer, or serve with SGLang 0.5.12 or later
      fix available: rename 11 tensors from layers.0 to midlayer (safe)

  1 warning

    ROP002 rope-theta-differs  config.json:12, rope_theta  (likely)
      rope_theta is 10000.0 here and 500000.0 in the target.
      you would see: acceptance falls with the position
      next: compare with the training configuration

  1 note

    VOC009 map-unsorted  model.safetensors, d2t, byte 4096
      d2t is not ascending.
      next: nothing, if the trainer orders by frequency

  not judged
    2 rules need the target: pass --target PATH (GEO002 and AUX001)
    1 rule needs the tokenizer of the target (TOK004)

  1 error, 1 warning, 1 note; 3 rules not judged

  next commands
    ckptdoctor explain KEY004
    ckptdoctor scan drafts/sick --target PATH
"""

WELL_TEXT = """\
drafts/well: EAGLE-3 draft

  Nothing to report.

  no findings
"""

UNJUDGED_TEXT = """\
drafts/well: EAGLE-3 draft

  Nothing to report from what could be judged. Some rules could not be, so this is no all-clear.

  not judged
    1 rule needs the target: pass --target PATH (GEO002)

  no findings; 1 rule not judged
"""

MANY_TAIL = """

drafts/well: EAGLE-3 draft

  Nothing to report.

  no findings

could not examine gone: no such path

2 checkpoints: 1 error, 1 warning, 1 note; 3 rules not judged; 1 path not examined
"""

NARROW_TEXT = """\
drafts/sick: EAGLE-3 draft in the names of SpecForge, 1
  layer

  1 error

    KEY004 projection-left-random  model.safetensors,
      layers.0.self_attn.q_proj.weight
      SGLang 0.5.9 builds
      model.midlayer.self_attn.qkv_proj.weight and finds no
      stored tensor for it: the file has
      layers.0.self_attn.q_proj.weight, a name that this
      release drops without a word.
      on: sglang==0.5.9
      you would see: the server starts, answers are correct,
        and every step accepts 1.0 token
      next: rename the layer, or serve with SGLang 0.5.12 or
        later
      fix available: rename 11 tensors from layers.0 to
        midlayer (safe)

  1 error

  next commands
    ckptdoctor explain KEY004
    ckptdoctor scan drafts/sick --target PATH
"""


def test_one_sick_draft() -> None:
    assert render(report(SICK)) == SICK_TEXT


def test_one_well_draft() -> None:
    assert render(report(WELL)) == WELL_TEXT


def test_nothing_found_is_no_all_clear_while_rules_were_skipped() -> None:
    skipped = (Skip("GEO002", "the target (--target)"),)
    assert render(report(replace(WELL, skipped=skipped))) == UNJUDGED_TEXT


def test_several_paths_end_with_a_total() -> None:
    text = render(report(SICK, WELL, failed=(("gone", "no such path"),)))
    assert text == SICK_TEXT.rstrip("\n") + MANY_TAIL


def test_a_failed_path_alone() -> None:
    assert render(report(failed=(("gone", "no such path"),))) == "could not examine gone: no such path\n"


def test_two_failed_paths() -> None:
    text = render(report(failed=(("a", "no such path"), ("b", "not readable"))))
    assert text == (
        "could not examine a: no such path\n"
        "could not examine b: not readable\n"
        "\n"
        "0 checkpoints: no findings; 2 paths not examined\n"
    )


def test_nothing_at_all() -> None:
    assert render(report()) == ""


def test_narrow_terminal() -> None:
    text = render(report(replace(SICK, findings=(ERROR,), skipped=())), "text", Surface(width=60))
    assert text == NARROW_TEXT
    assert max(map(len, text.splitlines())) <= 60


def test_groups_in_the_order_of_severity_and_findings_in_their_own() -> None:
    first, second = replace(ERROR, rule="KEY001"), replace(ERROR, rule="ART002")
    text = render(report(replace(SICK, findings=(NOTE, WARNING, first, second))))
    order = [text.index(word) for word in ("2 errors", "KEY001", "ART002", "1 warning", "1 note")]
    assert order == sorted(order)


def test_without_location_effect_advice_and_title() -> None:
    finding = replace(WARNING, location=Location(), effect="", advice="", confidence=Confidence.CERTAIN)
    text = render(report(replace(WELL, title="", findings=(finding,))))
    assert text == (
        "drafts/well\n"
        "\n"
        "  1 warning\n"
        "\n"
        "    ROP002 rope-theta-differs\n"
        "      rope_theta is 10000.0 here and 500000.0 in the target.\n"
        "\n"
        "  1 warning\n"
    )


def test_a_fix_is_named_only_where_there_is_one() -> None:
    text = render(report(replace(WELL, findings=(replace(NOTE, fix=ERROR.fix),))))
    assert "fix available: rename 11 tensors" in text
    assert "fix available" not in render(report(replace(WELL, findings=(NOTE,))))
    assert "you would see" not in text


@pytest.mark.parametrize(("confidence", "severity"), [(Confidence.LIKELY, "warning"), (Confidence.POSSIBLE, "note")])
def test_what_is_not_certain_is_no_error(confidence: Confidence, severity: str) -> None:
    text = render(report(replace(WELL, findings=(replace(ERROR, confidence=confidence),))))
    assert f"  1 {severity}\n" in text
    assert f"({confidence.value})" in text
    assert "1 error" not in text


def test_many_engines_and_rules_are_cut_and_say_so() -> None:
    engines = tuple(f"sglang==0.5.{n}" for n in range(9))
    skipped = tuple(Skip(f"GEO00{n}", "the target (--target)") for n in range(7))
    text = render(report(replace(WELL, findings=(replace(ERROR, engines=engines),), skipped=skipped)))
    assert "sglang==0.5.5 and 3 more" in re.sub(r"\n *", " ", text)
    assert "7 rules need the target: pass --target PATH (GEO000, GEO001, GEO002, GEO003 and 3 more)" in text


def test_no_exclamation_marks() -> None:
    assert "!" not in render(report(SICK, WELL, failed=(("gone", "no such path"),)))


@pytest.mark.parametrize("width", [60, 100, 110])
def test_a_long_unbroken_name_keeps_the_layout(width: int) -> None:
    name = "model." + "x" * 150
    finding = replace(ERROR, message=name * 3, location=Location(file=name, tensor=name), effect="y" * 300)
    text = render(report(replace(WELL, path="/" + "p" * 300, findings=(finding,))), "text", Surface(width))
    assert max(map(len, text.splitlines())) <= width
    assert text.replace("\n", "").replace(" ", "").count("x" * 150) == 5


def test_a_command_stays_on_one_line_to_be_copied() -> None:
    command = "ckptdoctor scan " + "very-long/" * 30
    text = render(report(replace(WELL, next_commands=(command,))))
    assert f"    {command}\n" in text


def test_a_long_path_is_whole() -> None:
    path = "/" + "/".join(f"part{n}" for n in range(100))
    text = render(report(replace(WELL, path=path)))
    assert path in re.sub(r"\n *", "", text)


@pytest.mark.parametrize("colour", [False, True])
def test_hostile_names_are_harmless(colour: bool) -> None:
    text = render(hostile(), "text", Surface(colour=colour))
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text) if colour else text
    bad = {c for c in bare if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert not bad
    assert "[red]d[/red]" in bare
    assert "\\x1b[31mb\\u202ec" in bare


def test_colours_change_nothing_but_colours() -> None:
    everything = report(SICK, WELL, failed=((HOSTILE, "no such path"),))
    coloured = render(everything, "text", Surface(colour=True))
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert bare == render(everything)
    assert "\x1b[1m\x1b[31mKEY004" in coloured.replace("\x1b[1;31m", "\x1b[1m\x1b[31m")


def test_colours_ignore_the_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether to colour is the surface's decision alone: rich must not decide again."""
    wanted = render(report(SICK), "text", Surface(colour=True))
    for name, value in {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "20", "JUPYTER_COLUMNS": "20"}.items():
        monkeypatch.setenv(name, value)
    assert render(report(SICK), "text", Surface(colour=True)) == wanted


def test_every_severity_has_a_style() -> None:
    from ckptdoctor.report.terminal.render import STYLES

    assert {s.value for s in Severity} <= STYLES.keys()


def test_plain_text_does_not_import_rich() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/helpers')\n"
        "from report_samples import SICK, report\n"
        "from ckptdoctor.report import render\n"
        "render(report(SICK)); render(report(SICK), 'json')\n"
        "print([m for m in ('rich', 'jsonschema', 'numpy', 'yaml') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
