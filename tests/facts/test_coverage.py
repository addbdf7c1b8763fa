"""Coverage against plain recounts over the same rows, in exact arithmetic."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from builder import Recipe, build
from hypothesis import given
from hypothesis import strategies as st
from recipe_cases import RECIPES
from token_files import TEXTS, byte_level, write_ids, write_texts

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import describe, read_target
from ckptdoctor.facts.coverage import Coverage, coverage_of
from ckptdoctor.facts.tokenizer.scripts import script_of
from ckptdoctor.facts.tokenizer.token_texts import TokenTexts, read_token_texts
from ckptdoctor.facts.vocabulary.vocab import VocabMap
from ckptdoctor.scanning import counts_for, scan, scan_paths
from ckptdoctor.tokencounts.token_counts import TokenCounts
from ckptdoctor.unknown import Unknown

NO_TEXTS = Unknown("a tokenizer.json beside the target or the draft")


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy draft of 128 of 512 tokens, with its target."""
    folder = tmp_path_factory.mktemp("coverage") / "draft"
    build(RECIPES["speculators-eagle3"], folder)
    return folder


def vocabulary(folder: Path) -> VocabMap:
    """The vocabulary of the draft in `folder`, beside its target."""
    target = folder / "target"
    return describe(open_checkpoint(str(folder)), read_target(str(target)) if target.is_dir() else None).vocab


def table(counts: dict[int, int]) -> TokenCounts:
    values = np.zeros(max(counts) + 1, dtype=np.int64)
    for token, count in counts.items():
        values[token] = count
    return TokenCounts(values, "counts.json", "json")


def known(found: Coverage | Unknown) -> Coverage:
    assert isinstance(found, Coverage), found
    return found


def allowed_by(vocab: VocabMap) -> frozenset[int]:
    allowed = vocab.proposable
    assert isinstance(allowed, frozenset)
    return allowed


@given(counts=st.dictionaries(st.integers(0, 511), st.integers(1, 2**40), min_size=1, max_size=80))
def test_coverage_is_the_plain_recount(counts: dict[int, int], draft: Path) -> None:
    vocab = vocabulary(draft)
    allowed = allowed_by(vocab)
    found = known(coverage_of(table(counts), vocab, NO_TEXTS))
    total, inside = sum(counts.values()), sum(n for i, n in counts.items() if i in allowed)
    assert (found.total, found.covered, found.size) == (total, inside, 128)
    assert found.share == float(Fraction(inside, total))
    ranked = sorted(counts.values(), reverse=True)
    assert found.best_share == sum(ranked[:128]) / total
    for size, share in found.curve:
        assert share == sum(ranked[:size]) / total
    sizes = [size for size, _ in found.curve]
    assert sizes == sorted(set(sizes))
    assert {128, 512} <= set(sizes)
    assert found.curve[-1] == (512, 1.0)
    outside = sorted(((n, -i) for i, n in counts.items() if i not in allowed), reverse=True)[:50]
    assert [(one.count, -one.id) for one in found.costliest] == outside
    assert all(one.share == one.count / total and one.text == "" for one in found.costliest)
    assert (found.scripts, found.specials, found.bytes, found.digits) == ((), NO_TEXTS, NO_TEXTS, NO_TEXTS)
    assert (found.percent == 100) == (inside == total)


def test_parts_add_up_and_agree_with_a_recount_of_the_text(draft: Path, tmp_path: Path) -> None:
    made = byte_level(tmp_path)
    texts = read_token_texts(tmp_path)
    assert isinstance(texts, TokenTexts)
    ids = [token for text in TEXTS for token in made.encode(text, add_special_tokens=False).ids]
    vocab = vocabulary(draft)
    allowed = allowed_by(vocab)
    found = known(coverage_of(table(Counter(ids)), vocab, texts))
    specials, single, digits = found.specials, found.bytes, found.digits
    assert not isinstance(specials, Unknown)
    assert not isinstance(single, Unknown)
    assert not isinstance(digits, Unknown)
    parts = (*found.scripts, specials, digits)
    assert sum(part.count for part in parts) == found.total == len(ids)
    assert sum(part.covered for part in parts) == found.covered
    assert [part.count for part in found.scripts] == sorted((p.count for p in found.scripts), reverse=True)
    names = {part.name for part in found.scripts}
    assert {"Latin", "Cyrillic", "Hangul", "Devanagari", "Arabic", "parts of characters", "punctuation"} <= names
    special = {made.token_to_id("<|endoftext|>"), made.token_to_id("<|im_end|>")}
    for part in found.scripts:
        mine = [i for i in ids if i not in special and script_of(texts.pieces[i]) == part.name]
        assert (part.count, part.covered) == (len(mine), sum(i in allowed for i in mine)), part.name
    assert (specials.count, specials.tokens, specials.missing) == (7, 2, len(special - allowed))
    assert (single.tokens, single.missing) == (256, len(texts.byte_ids - allowed))
    assert single.count == sum(i in texts.byte_ids for i in ids)
    assert set(single.missing_ids) <= texts.byte_ids - allowed
    assert len(single.missing_ids) == min(50, single.missing)
    costs = [ids.count(i) for i in single.missing_ids]
    assert costs == sorted(costs, reverse=True)
    assert found.costliest[0].text == texts.pieces[found.costliest[0].id] != ""
    assert {part.name for part in found.weakest} <= names
    assert len(found.weakest) <= 5
    assert str(digits).startswith("digits ")
    # An id that no piece is known of, and a part that the text has nothing of.
    more = known(coverage_of(table({511: 3}), vocab, texts))
    assert [(part.name, part.count, part.share) for part in more.scripts] == [("unknown", 3, 0.0)]
    assert not isinstance(more.digits, Unknown)
    assert more.digits.share is None
    assert "not in the text" in str(more.digits)


def test_the_estimate_is_the_sum_that_its_words_say(draft: Path) -> None:
    vocab = vocabulary(draft)
    inside, outside = min(allowed_by(vocab)), min(set(range(512)) - allowed_by(vocab))
    found = known(coverage_of(table({inside: 9, outside: 1}), vocab, NO_TEXTS))
    assert (found.assumed_acceptance, found.assumed_draft_tokens) == (0.8, 3)
    assert found.accepted_with_all == pytest.approx(1 + 0.8 + 0.64 + 0.512)
    assert found.accepted_with_map == pytest.approx(1 + 0.72 + 0.72**2 + 0.72**3)
    assert found.accepted_with_best == found.accepted_with_all
    assert found.accepted_lost == 0.34
    other = known(coverage_of(table({inside: 9, outside: 1}), vocab, NO_TEXTS, acceptance=0.5, draft_tokens=1))
    assert (other.accepted_with_all, other.accepted_with_map) == (1.5, 1.45)


def test_a_draft_that_proposes_from_all_tokens(tmp_path: Path) -> None:
    build(RECIPES["specforge-eagle3-fullvocab"], tmp_path / "draft")
    found = known(coverage_of(table({0: 4, 511: 9}), vocabulary(tmp_path / "draft"), NO_TEXTS))
    assert (found.share, found.best_share, found.size, found.costliest) == (1.0, 1.0, 512, ())
    assert found.percent == 100.0


@pytest.mark.parametrize(
    ("recipe", "counts", "needs"),
    [
        ("d2t-absolute", {1: 1}, "a right d2t"),
        ("specforge-eagle3", {512: 1}, "token counts for the target's 512 tokens (these count token 512)"),
    ],
)
def test_coverage_is_unknown_where_it_would_mean_nothing(
    recipe: str, counts: dict[int, int], needs: str, tmp_path: Path
) -> None:
    build(RECIPES[recipe], tmp_path / "draft")
    assert coverage_of(table(counts), vocabulary(tmp_path / "draft"), NO_TEXTS) == Unknown(needs)


def test_zeros_beyond_the_vocabulary_are_no_reason_to_refuse(draft: Path) -> None:
    counts = TokenCounts(np.concatenate([np.ones(512, dtype=np.int64), np.zeros(300, dtype=np.int64)]), "x", "npy")
    assert known(coverage_of(counts, vocabulary(draft), NO_TEXTS)).share == 0.25


@pytest.mark.parametrize(
    ("recipe", "kind"), [("d2t-int32", "another dtype"), ("model-optimizer-eagle3", "frequency order, no t2d")]
)
def test_the_form_of_a_right_map_changes_nothing(recipe: str, kind: str, tmp_path: Path) -> None:
    build(RECIPES[recipe], tmp_path / "draft")
    vocab = vocabulary(tmp_path / "draft")
    found = known(coverage_of(table(dict.fromkeys(range(512), 3)), vocab, NO_TEXTS))
    assert (found.covered, found.total) == (384, 1536), kind


# The whole way: scan --token-counts.


def rows_of(tokens: Iterable[int]) -> list[list[int]]:
    return [list(tokens)]


def test_a_scan_with_ids_with_text_and_with_counts(draft: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "config.json").write_bytes((draft / "target" / "config.json").read_bytes())
    made = byte_level(target)
    ids = [made.encode(text, add_special_tokens=False).ids for text in TEXTS]
    counts = Counter(token for row in ids for token in row)
    (tmp_path / "counts.json").write_text(json.dumps(counts), encoding="utf-8")
    (tmp_path / "ids").mkdir()
    places = [
        write_texts(tmp_path, TEXTS)["jsonl"],
        write_ids(tmp_path / "ids", ids)["parquet"],
        tmp_path / "counts.json",
    ]  # type: ignore[arg-type]
    found = [scan(draft, target=target, token_counts=place).draft["coverage"] for place in places]
    assert [one.pop("kind") for one in found] == ["text", "ids", "json"]
    assert [one.pop("source") for one in found] == [str(place) for place in places]
    assert found[0] == found[1] == found[2]
    allowed = allowed_by(vocabulary(draft))
    assert found[0]["positions"] == sum(counts.values())
    assert found[0]["share"] == sum(n for i, n in counts.items() if i in allowed) / sum(counts.values())
    assert {"Latin", "special tokens", "single bytes", "digits"} <= {part["name"] for part in found[0]["parts"]}
    json.dumps(found[0])


def test_a_scan_that_was_given_no_counts_asks_nothing_of_them(draft: Path) -> None:
    examination = scan(draft, target=draft / "target", select=["VOC030", "VOC031", "VOC032"])
    assert (examination.findings, examination.skipped) == ((), ())
    assert examination.draft["coverage"] is None


def test_the_message_holds_the_figures(draft: Path, tmp_path: Path) -> None:
    place = tmp_path / "counts.json"
    place.write_text('{"0": 60000, "1": 38000, "17": 2000}', encoding="utf-8")
    findings = {f.rule: f for f in scan(draft, token_counts=place).findings}
    said = "98.0 % of the 100000 positions that were counted; the best map of 128 tokens would reach 100.0 %"
    assert said in findings["VOC031"].message
    assert "17 (2.00 %)" in findings["VOC032"].message
    assert findings["VOC031"].evidence["accepted_with_all"] == pytest.approx(2.952)
    assert findings["VOC032"].evidence["tokens"] == [{"id": 17, "text": "", "count": 2000, "share": 0.02}]


def test_text_is_read_with_the_tokenizer_of_the_only_draft(draft: Path, tmp_path: Path) -> None:
    file = write_texts(tmp_path, TEXTS)["jsonl"]  # type: ignore[arg-type]
    with pytest.raises(CannotExamineError, match="needs the target's tokenizer"):
        counts_for(str(file), None, [str(draft)])
    made = byte_level(tmp_path)
    want = sum(len(made.encode(text, add_special_tokens=False).ids) for text in TEXTS)
    assert counts_for(str(file), None, [str(tmp_path)]).total == want
    with pytest.raises(CannotExamineError, match="needs the target's tokenizer"):
        counts_for(str(file), None, [str(tmp_path), str(draft)])


def test_counts_that_cannot_be_read_stop_the_whole_scan(draft: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotExamineError, match="no such file or folder"):
        scan_paths([str(draft)], target=None, rules=(), select=(), ignore=(), token_counts=str(tmp_path / "none.json"))


@pytest.mark.parametrize("recipe", [r for r in RECIPES.values() if r.token_counts is not None], ids=lambda r: r.id)
def test_the_recipes_with_counts_have_a_target_to_count_for(recipe: Recipe) -> None:
    assert recipe.target is not None
