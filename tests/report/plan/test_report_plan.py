"""The text of a plan, word for word, from a plan made by hand that has everything a plan can have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_samples import HOSTILE

from ckptdoctor.report import Surface
from ckptdoctor.report.plan.as_text import compat_lines, plan_lines
from ckptdoctor.report.terminal.render import render_lines
from ckptdoctor.serving import LoadPlan, Parameter, Refusal, Stored
from ckptdoctor.serving.compat import Range
from ckptdoctor.serving.words import Reason

OPEN = Reason("aside", "trained_unknown", {"because": "no writer is known"})
KEYS = tuple(f"e.{n}" for n in range(5))
PLAN = LoadPlan(
    engine="sglang",
    version="0.5.9",
    model_class="Draft",
    parameters=(
        Parameter("a.weight", (8, 4), "random", ("b.weight",)),
        Parameter("fused.weight", (8,), "empty", ("q.weight",), ("k", "v")),
        Parameter("embed.weight", (16, 4), "random", shared=True),
        Parameter("head.weight", (16, 4), "random", ("lm.weight",), shared=True),
        Parameter("norm.weight", (4,), "ones"),
        Parameter("mask", (), "zeros", used=False),
        Parameter("lost.weight", None, "empty"),
        Parameter("experts", (5, 4), "random", KEYS),
    ),
    stored=(
        Stored("b.weight", "used", "a.weight"),
        Stored("q.weight", "used", "fused.weight"),
        Stored("lm.weight", "dropped", "head.weight", "the target's takes its place"),
        *(Stored(key, "used", "experts") for key in KEYS),
        Stored("d2t", "used"),
        Stored("t2d", "used", why="engines need no t2d"),
        Stored("odd", "dropped_with_warning", why="no such parameter"),
        Stored("wide", "rejected", "a.weight", "wrong shape"),
    ),
    captured={"extend": (2, 4, 5), "verify": (2, 4, 5), "verify_graph": (1, 3)},
    trained=(2, 4, 5),
    wiring={"fc": "skipped", "residual": "before_norm", "map": "d2t", "ids": (1, 3), "ids_from": "x.ids"},
    errors=tuple(Refusal("load", f"reason {n}") for n in range(1, 6)),
    outcome="refused",
    better=("SGLang 0.5.12 and later serves it as trained",),
    fitting=(1, 3, 4),
    opens=(OPEN,),
    remarks=("a remark",),
    loading_executed=False,
)
TEXT = """\
sglang 0.5.9: refused with an error
  a title
  because reason 1
  because reason 2
  because reason 3
  and 2 more reasons
  better: SGLang 0.5.12 and later serves it as trained
  better: with the ids [1, 3, 4] this release captures what the draft was trained on

  parameters of Draft
    a.weight      8×4     ← b.weight
    fused.weight  8       ← q.weight; k and v left uninitialised
    embed.weight  16×4    the target's
    head.weight   16×4    the target's (instead of lm.weight)
    norm.weight   4       left at ones
    mask          scalar  left at zeros, never read
    lost.weight   ?       left uninitialised
    experts       5×4     ← e.0, e.1, e.2 and 2 more

  stored tensors that go unused
    lm.weight  dropped: the target's takes its place
    t2d  not needed: engines need no t2d
    odd  dropped with warning: no such parameter
    wide  rejected: wrong shape

  wiring
    target → boundaries [2, 4, 5] in extend  from x.ids [1, 3]
    target → boundaries [2, 4, 5] in verify  from x.ids [1, 3]
    target → boundaries [1, 3] in verify graph  from x.ids [1, 3]
       trained on [2, 4, 5]
    → fc skipped
    → draft layers (residual taken before the norm) → norm → head
    → draft id + d2t → target id

  not proven
    the layers that the draft was trained on: no writer is known

  remarks
    a remark

  part of this was read in the source and not executed
"""


def text(plan: LoadPlan, title: str = "a title", width: int = 100) -> str:
    return render_lines(plan_lines(plan, title, width), Surface(width))


def test_a_plan_with_everything() -> None:
    assert text(PLAN) == TEXT


def test_an_empty_plan() -> None:
    assert text(LoadPlan("vllm", "1", None, outcome="served")) == "vllm 1: served as trained\n  a title\n"


def test_what_is_not_known_says_what_and_how_to_find_out() -> None:
    why = Reason("open", "registry_not_read", {"name": "Odd"})
    plan = LoadPlan("vllm", "1", None, outcome="unknown", opens=(why, OPEN))
    assert (
        text(plan)
        == f"""\
vllm 1: not known
  a title
  because whether this release has a class for Odd: its list of classes was not read; a start tells

  not proven
    {OPEN.text}
"""
    )


def test_a_release_that_nobody_has_read_is_told_first() -> None:
    remark = "vLLM 9.9 is newer than what was read."
    plan = LoadPlan("vllm", "9.9", None, outcome="unknown", release_remark=remark, remarks=(remark,))
    assert text(plan) == f"{remark}\n\nvllm 9.9: not known\n  a title\n"
    found = Range("vllm", "vLLM", "9.9", "9.9", True, plan)
    assert render_lines(compat_lines([found, found], "a title"), Surface()).startswith(f"{remark}\n\na title\n")


@pytest.mark.parametrize(("count", "shown"), [(3, 3), (4, 3), (5, 3)])
def test_how_many_reasons_are_shown(count: int, shown: int) -> None:
    plan = replace(PLAN, errors=PLAN.errors[:count])
    lines = text(plan).splitlines()
    assert sum(line.startswith("  because ") for line in lines) == shown
    more = {3: [], 4: ["  and 1 more reason"], 5: ["  and 2 more reasons"]}[count]
    assert [line for line in lines if line.startswith("  and ")] == more


def test_many_unused_tensors_are_counted() -> None:
    stored = tuple(Stored(f"odd.{n}", "dropped", why="no such parameter") for n in range(43))
    lines = text(replace(PLAN, stored=stored)).splitlines()
    assert "    odd.39  dropped: no such parameter" in lines
    assert "    and 3 more" in lines
    assert not any("odd.40" in line for line in lines)


def test_a_row_that_does_not_fit_becomes_two_lines() -> None:
    long = Parameter("a" * 40, (8, 4), "random", ("b" * 30, "c" * 30))
    plan = replace(PLAN, parameters=(long, Parameter("d", (4,), "ones")))
    assert f"    {'a' * 40}  8×4  ← {'b' * 30} and {'c' * 30}\n" in text(plan, width=120)
    assert (
        f"    {'a' * 40}  8×4\n        ← {'b' * 30} and\n          {'c' * 30}\n    d{' ' * 41}4    left at ones\n"
    ) in text(plan, width=70)


def test_hostile_texts_are_harmless() -> None:
    plan = replace(
        PLAN,
        engine=HOSTILE,
        version=HOSTILE,
        model_class=HOSTILE,
        parameters=(Parameter(HOSTILE, (1,), "random", (HOSTILE,), (HOSTILE,)),),
        stored=(Stored(HOSTILE, "dropped", HOSTILE, HOSTILE),),
        wiring={"map": HOSTILE, "ids": (1,), "ids_from": HOSTILE, "residual": HOSTILE, "trained_because": HOSTILE},
        errors=(Refusal("load", HOSTILE),),
        better=(HOSTILE,),
        opens=(replace(OPEN, values={"because": HOSTILE}),),
        remarks=(HOSTILE,),
    )
    both = text(plan, HOSTILE) + render_lines(
        compat_lines([Range(HOSTILE, HOSTILE, HOSTILE, HOSTILE, True, plan)], HOSTILE), Surface()
    )
    assert all(c.isprintable() or c == "\n" for c in both)


def test_compat_shows_three_reasons() -> None:
    ranges = [Range("sglang", "SGLang", "0.5.8", "0.5.9", True, PLAN)]
    assert render_lines(compat_lines(ranges, "a title"), Surface()) == (
        "a title\n\n  SGLang\n    0.5.8 and later          refused with an error\n"
        "        reason 1\n        reason 2\n        reason 3\n        and 2 more reasons\n"
    )
