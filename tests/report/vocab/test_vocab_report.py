"""The page of a vocabulary, word for word, from pages made by hand around maps that the real code reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from report_samples import HOSTILE
from vocab_pages import MASKED, make_coverage, make_heads, make_page

from ckptdoctor.facts.coverage import Costly, Part
from ckptdoctor.facts.tokenizer.tokens import Token
from ckptdoctor.facts.vocabulary.token_map import TokenMap
from ckptdoctor.report import Surface
from ckptdoctor.report.terminal.render import render_lines
from ckptdoctor.report.vocab.as_json import page_text
from ckptdoctor.report.vocab.as_text import page_lines
from ckptdoctor.report.vocab.coverage_report import curve_points
from ckptdoctor.report.vocab.words import percent
from ckptdoctor.unknown import Unknown
from ckptdoctor.vocab.page import Page, Span, spans

SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[3] / "rules" / "schema" / "vocab.schema.json").read_text(encoding="utf-8"))
)
IDS = np.array([0, 2, 3, 5, 8, 13, 21, 30])
D2T = IDS - np.arange(8)

TEXT = """\
draft: EAGLE-3 draft

  map
    sizes      8 draft ids, 32 target ids (25.0 %)
    d2t        right: offsets, which is what engines read
    reading    offsets (target id = i + d2t[i]); t2d marks exactly its targets, which proves it
    stored     d2t I64 [8] in model.safetensors
               t2d BOOL [32] in model.safetensors, 8 true
    order      ascending
    begins     0 → 0, 1 → 2, 2 → 3, 3 → 5, 4 → 8, 5 → 13, …
    lengths    entries of d2t 8

  where the draft's tokens lie among the target's ids
      0–1  ██████████··········  1       50.0 %
      2–3  ████████████████████  2      100.0 %
      4–5  ██████████··········  1       50.0 %
      6–7  ····················  0        0.0 %
      8–9  ██████████··········  1       50.0 %
    10–11  ····················  0        0.0 %
    12–13  ██████████··········  1       50.0 %
    14–15  ····················  0        0.0 %
    16–17  ····················  0        0.0 %
    18–19  ····················  0        0.0 %
    20–21  ██████████··········  1       50.0 %
    22–23  ····················  0        0.0 %
    24–25  ····················  0        0.0 %
    26–27  ····················  0        0.0 %
    28–29  ····················  0        0.0 %
    30–31  ██████████··········  1       50.0 %

  special tokens
    in         2 <s>
    not in     7 <|im_end|> and id 9

  rows of the draft's head against the target's (mean cosine of 128 rows)
       0.011  absolute ids
       0.972  offsets  the best
      -0.004  offset twice
       0.002  rows paired at random

  coverage of counts.json (json, 1,000 positions)
    75.0 % can be proposed; the best 128 ids would reach 90.0 %
      Latin                77.8 % of 900
      special tokens       50.0 % of 100
    1 of 2 special tokens are outside: 3

    tokens outside that cost most
      7        20 %        200  ' the'
      3         5 %         50  '<|im_end|>'

    what the best map of each size would cover
       64 ids       81.0 %
      128 ids       90.0 %  as large as this map
      256 ids       97.0 %
      512 ids      100.0 %

    accepted length, as estimated
       2.176  with this map
       2.612  with the best 128 ids
       2.952  with all ids
      assumed: 3 draft tokens in a chain, each accepted with a chance of 0.8 when it can be
        proposed, and tokens outside spread evenly over the text

  picture: map.svg
"""


def full_page(**changes: object) -> Page:
    page = make_page(
        D2T,
        32,
        IDS,
        coverage=make_coverage(),
        heads=make_heads(),
        inside=(Token(2, "<s>", "ends a text or a turn"),),
        outside=(Token(7, "<|im_end|>", "ends a text or a turn"), Token(9, "", "ends a text or a turn")),
    )
    return replace(page, **changes)  # type: ignore[arg-type]


def text(page: Page, svg: str | None = None) -> str:
    return render_lines(page_lines(page, svg), Surface())


def test_a_page_with_everything() -> None:
    assert text(full_page(), "map.svg") == TEXT


@pytest.mark.parametrize(
    ("d2t", "size", "mask", "words", "reading"),
    [
        (IDS, 32, IDS, "wrong: it holds target ids where engines read offsets", "absolute ids (target id = d2t[i])"),
        (D2T - np.arange(8), 32, IDS, "wrong: the draft id was subtracted twice", "offset twice (target id = 2i + d2t"),
        ([0] * 8, 8, None, "right: all zeros, since draft ids", "offsets (target id = i + d2t[i]), the only one"),
        ([0] * 8, 32, np.arange(32), "all zeros: it was never loaded (t2d is all true)", None),
        ([0] * 8, 32, np.arange(8), "all zeros: the draft proposes from the first target ids", None),
        ([0] * 8, 32, None, "all zeros: made so or never loaded; only a t2d would decide", None),
    ],
)  # fmt: skip
def test_the_state_of_a_map(d2t: object, size: int, mask: object, words: str, reading: str | None) -> None:
    told = text(make_page(d2t, size, mask))
    assert f"    d2t        {words}" in told
    assert ("    reading    " in told) is (reading is not None)
    assert f"    reading    {reading or ''}" in told or reading is None


def test_a_frequency_ordered_map() -> None:
    ids = np.array([30, 2, 21, 0, 13, 3, 8, 5])
    told = text(make_page(ids - np.arange(8), 32, MASKED))
    assert "    order      not sorted: as by falling frequency\n" in told
    assert "    begins     0 → 30, 1 → 2, 2 → 21" in told


def test_several_readings_are_both_named() -> None:
    told = text(make_page(np.arange(0, 16, 2), 64))
    assert "offsets (target id = i + d2t[i])" in told
    assert "fit; a t2d, or the target's weights, would decide" in told


def test_no_map_at_all() -> None:
    told = text(make_page(None, None))
    assert "d2t        none is stored" in told
    assert "where the draft's tokens lie" not in told


def test_what_is_not_known_is_said() -> None:
    told = text(make_page(D2T, 32, IDS, outside=Unknown("a tokenizer beside the target or the draft")))
    assert told.endswith(
        "  not shown\n"
        "    the special tokens: needs a tokenizer beside the target or the draft\n"
        "    the two heads: needs the target (--target PATH)\n"
        "    the coverage: needs token counts (--token-counts FILE)\n"
    )


def test_heads_that_do_not_fit() -> None:
    lost = make_heads(
        best=Unknown("x"), at_chance=True, mask=0.9, follows_mask=True, wrong_from=5, wrong_to=9, shift=2, id_shift=-1,
        elsewhere=12, embedding=0.5,
    )  # fmt: skip
    told = text(full_page(heads=lost))
    for words in (
        "       0.900  in the order of t2d's marks  the best\n",
        "       0.500  the two embeddings at the same ids\n",
        "    The rows stand in the order of t2d's marks, and not in that of d2t.\n",
        "    Rows 5 to 8 do not fit, while the others do.\n",
        "    They fit after a shift by 2 rows.\n",
        "    They fit target ids shifted by -1.\n",
        "    12 sampled rows belong to other tokens than d2t says.\n",
    ):
        assert words in told
    open_ = text(full_page(heads=make_heads(best=Unknown("x"))))
    assert "No reading stands out" in open_
    assert "accuses nobody" in open_


def token_map(**changes: object) -> TokenMap:
    found = TokenMap(
        "map.pt", "torch", "list", (8,), 8, "ids", tuple(IDS.tolist()), "ascending", None, None, 32, IDS
    )  # fmt: skip
    return replace(found, **changes)  # type: ignore[arg-type]


def test_a_token_map() -> None:
    page = full_page(token_map=token_map(), heads=Unknown("a draft"))
    told = text(page)
    assert told.startswith(
        "draft: EAGLE-3 draft\n\n  token map\n"
        "    sizes      8 entries, 32 target ids (25.0 %)\n"
        "    holds      a list of target ids: entry i is what draft id i stands for\n"
        "    stored     torch, list [8]\n"
        "    order      ascending\n"
        "    begins     0 → 0, 1 → 2, 2 → 3, 3 → 5, 4 → 8, 5 → 13, …\n"
    )
    assert "the two heads" not in told
    SCHEMA.validate(json.loads(page_text(page)))


def test_a_bad_token_map() -> None:
    from ckptdoctor.facts.vocabulary.id_list import Violation

    bad = token_map(form="json", repeated=Violation(1, 3, 2, 1), out_of_range=Violation(2, 4, 600))
    page = full_page(token_map=bad)
    told = text(page)
    assert "    stored     json, list [8]; SGLang reads PyTorch files alone\n" in told
    assert "    wrong      1 entry repeats an id, first entry 3 (2)\n" in told
    assert "    wrong      2 entries are outside the vocabulary, first entry 4 (600)\n" in told
    SCHEMA.validate(json.loads(page_text(page)))
    offsets = text(full_page(token_map=token_map(meaning="offsets"), ids=None, spans=()))
    assert "wrong: it holds offsets (a d2t) where the engine reads target ids" in offsets


@pytest.mark.parametrize("width", [60, 80, 100])
def test_hostile_texts_are_harmless(width: int) -> None:
    coverage = make_coverage(costliest=(Costly(7, HOSTILE, 200, 0.2),), scripts=(Part(HOSTILE, 9, 3, (1,), 2, 1),))
    page = make_page(
        D2T, 32, IDS, path=HOSTILE, title=HOSTILE, source=HOSTILE, coverage=coverage,
        inside=(Token(2, HOSTILE, HOSTILE),), outside=(Token(3, HOSTILE, HOSTILE),),
        heads=Unknown(HOSTILE),
    )  # fmt: skip
    page = replace(page, token_map=None)
    told = render_lines(page_lines(page, HOSTILE), Surface(width))
    assert all(c.isprintable() or c == "\n" for c in told)
    assert page_text(page, HOSTILE).isascii()
    listed = replace(page, token_map=token_map(dtype=HOSTILE, meaning=HOSTILE, order=HOSTILE))
    told = render_lines(page_lines(listed), Surface(width))
    assert all(c.isprintable() or c == "\n" for c in told)


def test_the_json_holds_the_same() -> None:
    data = json.loads(page_text(full_page(), "map.svg"))
    SCHEMA.validate(data)
    assert data["map"]["first_targets"] == IDS.tolist()
    assert (data["map"]["verdict"], data["map"]["reading"], data["map"]["readings"]) == ("right", 1, [1])
    assert data["specials"]["outside"][0] == {"id": 7, "text": "<|im_end|>", "role": "ends a text or a turn"}
    assert data["coverage"]["share"] == 0.75
    assert data["coverage"]["costliest"][0] == {"id": 7, "text": " the", "count": 200, "share": 0.2}
    assert data["heads"]["best"] == 1
    assert sum(span["held"] for span in data["spans"]) == 8
    assert data["needs"] == {}


@pytest.mark.parametrize(
    "page", [make_page(None, None), make_page(D2T, 32), make_page([0] * 8, 32), make_page([900] * 3, 16)]
)
def test_the_json_of_what_is_not_known(page: Page) -> None:
    SCHEMA.validate(json.loads(page_text(page)))


def test_spans_hold_each_id_once() -> None:
    found = list(spans(np.array([0, 0, 99, 100, 101, -5, 900]), 250))
    assert found[0] == Span(0, 19, 1)
    assert found[-1] == Span(240, 249, 0)
    assert sum(span.held for span in found) == 4
    assert [span.last - span.first + 1 for span in found] == [20] * 12 + [10]
    for size in (1, 7, 20, 21, 512, 32_000, 128_256, 262_144):
        every = list(spans(np.arange(size), size))
        assert len(every) <= 20
        assert all(span.held == span.last - span.first + 1 for span in every)
        assert every[-1].last == size - 1
    assert list(spans(np.arange(3), 0)) == []


def test_shares_never_claim_too_much() -> None:
    assert [percent(s) for s in (0, 0.0001, 0.5, 0.9994, 0.9999, 1)] == [
        "0.0 %", "under 0.1 %", "50.0 %", "99.9 %", "over 99.9 %", "100.0 %",
    ]  # fmt: skip


def test_the_curve_keeps_its_ends() -> None:
    curve = tuple((n, n / 40) for n in range(1, 41))
    found = curve_points(curve)
    assert len(found) == 9
    assert (found[0], found[-1]) == (curve[0], curve[-1])
    assert curve_points(curve[:9]) == list(curve[:9])
