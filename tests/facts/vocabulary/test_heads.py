"""Rows of the draft's head against the target's: what they decide, and that they accuse nobody without proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder import build
from head_drafts import Floats, Heads, Ints, compared
from recipe_cases import RECIPES

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.checkpoint.rows import read_rows
from ckptdoctor.facts.vocabulary.heads import HeadComparison
from ckptdoctor.repair.fixing import fix
from ckptdoctor.scanning import scan
from ckptdoctor.unknown import Unknown

NOISES = [0.0, 0.5, 1.0, 2.0]
SIZES: list[dict[str, Any]] = [
    {"vocab": 512, "size": 128, "width": 64},
    {"vocab": 4000, "size": 1000, "width": 128},
    {"vocab": 128256, "size": 32000, "width": 32},
]


def known(found: object) -> HeadComparison:
    assert isinstance(found, HeadComparison), found
    return found


def silent(found: HeadComparison) -> None:
    """Nothing is said against the draft."""
    assert (found.shift, found.id_shift, found.wrong_from, found.elsewhere, found.follows_mask) == (
        None, None, None, 0, False,
    )  # fmt: skip


def random_rows(rows: Floats) -> Floats:
    return np.asarray(np.random.default_rng(99).standard_normal(rows.shape) * 0.02)


def dropped(rows: Floats) -> Floats:
    """One row from the middle is lost, and the last place is filled up."""
    half = len(rows) // 2
    return np.concatenate([rows[:half], rows[half + 1 :], rows[:1]])


def lost(rows: Floats) -> Floats:
    changed = rows.copy()
    changed[len(rows) * 6 // 10 :] = random_rows(rows)[len(rows) * 6 // 10 :]
    return changed


def zeroed(rows: Floats) -> Floats:
    changed = rows.copy()
    changed[len(rows) // 4 : len(rows) // 2] = 0
    return changed


def other_run(targets: Ints) -> Ints:
    rest = np.random.default_rng(8).permutation(np.arange(16, int(targets.max()) + 1))[: len(targets) - 16]
    return np.sort(np.concatenate([np.arange(16), rest]))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: str(s["vocab"]))
@pytest.mark.parametrize(
    ("reading", "stored"), [(1, lambda t, i: t - i), (0, lambda t, _: t), (2, lambda t, i: t - 2 * i)]
)
def test_the_reading_that_was_meant_is_the_best(
    reading: int, stored: Any, sizes: dict[str, Any], noise: float, tmp_path: Path
) -> None:
    found = known(Heads(**sizes, noise=noise, stored=stored).compare(tmp_path / "draft"))
    assert found.best == reading
    cosine = found.cosine(reading)
    assert cosine is not None
    assert cosine == pytest.approx(1 / np.sqrt(1 + noise**2), abs=0.05)
    assert abs(found.chance) < 0.02
    assert all(abs(value) < 0.1 for k, value in found.by_reading if k != reading)
    silent(found)


@pytest.mark.parametrize("noise", [0.5, 4.0])
def test_the_order_of_frequency_is_no_matter(noise: float, tmp_path: Path) -> None:
    found = known(Heads(frequency=True, noise=noise).compare(tmp_path / "draft"))
    assert found.best == 1
    silent(found)


@pytest.mark.parametrize("groups", [0, 40])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: str(s["vocab"]))
@pytest.mark.parametrize("seed", range(4))
def test_a_head_of_random_start_is_never_accused(seed: int, sizes: dict[str, Any], groups: int, tmp_path: Path) -> None:
    found = known(Heads(**sizes, seed=seed, groups=groups, rows=random_rows).compare(tmp_path / "draft"))
    assert isinstance(found.best, Unknown)
    assert found.at_chance
    silent(found)


def test_a_head_of_random_start_in_groups_of_its_own_is_not_accused(tmp_path: Path) -> None:
    def grouped(rows: Floats) -> Floats:
        random = np.random.default_rng(5)
        return np.asarray(
            random_rows(rows) + 0.06 * random.standard_normal((30, rows.shape[1]))[np.arange(len(rows)) % 30]
        )

    found = known(Heads(groups=40, rows=grouped).compare(tmp_path / "draft"))
    assert isinstance(found.best, Unknown)
    silent(found)


def test_tokens_that_were_never_trained_do_not_accuse(tmp_path: Path) -> None:
    """Rows of reserved tokens are nearly the same in the target, and in the draft."""

    def same(rows: Floats) -> Floats:
        changed = random_rows(rows)
        changed[500:] = changed[500] + 0.0001 * changed[500:]
        return changed

    silent(known(Heads(rows=same).compare(tmp_path / "draft")))


def test_rows_that_were_trained_for_long_are_less_alike_and_no_lost_block(tmp_path: Path) -> None:
    def trained(rows: Floats) -> Floats:
        strength = np.where(np.arange(len(rows)) < len(rows) // 3, 4.0, 0.3)[:, None]
        return rows + strength * random_rows(rows)

    found = known(Heads(frequency=True, rows=trained).compare(tmp_path / "draft"))
    assert found.best == 1
    silent(found)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: str(s["vocab"]))
@pytest.mark.parametrize("by", [1, -3])
def test_a_shifted_head_is_seen(by: int, sizes: dict[str, Any], noise: float, tmp_path: Path) -> None:
    found = known(Heads(**sizes, noise=noise, rows=lambda r: np.roll(r, by, axis=0)).compare(tmp_path / "draft"))
    assert found.at_chance
    assert (found.shift, found.id_shift, found.wrong_from) == (-by, None, None)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: str(s["vocab"]))
def test_a_head_that_lost_a_row_is_shifted_from_there(sizes: dict[str, Any], noise: float, tmp_path: Path) -> None:
    found = known(Heads(**sizes, noise=noise, rows=dropped).compare(tmp_path / "draft"))
    assert found.best == 1
    assert (found.shift, found.wrong_from, found.wrong_to) == (1, sizes["size"] // 2, sizes["size"])


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: str(s["vocab"]))
def test_a_lost_block_is_seen(sizes: dict[str, Any], noise: float, tmp_path: Path) -> None:
    size = sizes["size"]
    found = known(Heads(**sizes, noise=noise, rows=lost).compare(tmp_path / "draft"))
    assert (found.best, found.shift, found.id_shift) == (1, None, None)
    assert (found.wrong_from, found.wrong_to) == (size * 6 // 10, size)
    found = known(Heads(**sizes, noise=noise, rows=zeroed).compare(tmp_path / "zeros"))
    assert (found.best, found.wrong_from, found.wrong_to) == (1, size // 4, size // 2)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: str(s["vocab"]))
def test_ids_of_a_tokenizer_with_other_tokens_before_them(sizes: dict[str, Any], noise: float, tmp_path: Path) -> None:
    found = known(Heads(**sizes, noise=noise, of=lambda t: np.minimum(t + 3, t.max())).compare(tmp_path / "draft"))
    assert (found.shift, found.id_shift, found.wrong_from) == (None, 3, None)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_map_that_was_sorted_afterwards_is_seen(noise: float, tmp_path: Path) -> None:
    found = known(Heads(noise=noise, frequency=True, stored=lambda t, i: np.sort(t) - i).compare(tmp_path / "draft"))
    assert found.at_chance
    assert isinstance(found.best, Unknown)
    assert found.elsewhere > 100


def test_a_map_of_another_run_is_seen(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"vocab": 40000, "size": 8000, "width": 256}
    found = known(Heads(**sizes, of=other_run).compare(tmp_path / "draft"))
    assert found.at_chance
    assert found.elsewhere >= 8
    assert (found.shift, found.id_shift) == (None, None)


def test_t2d_may_be_the_one_that_the_head_follows(tmp_path: Path) -> None:
    def marks(targets: Ints) -> Ints:
        return other_run(targets)

    found = known(Heads(of=marks, mask=marks).compare(tmp_path / "draft"))
    assert found.follows_mask
    assert found.mask is not None
    assert found.mask > 0.8
    assert found.elsewhere == 0


def test_a_t2d_that_says_the_same_is_not_told(tmp_path: Path) -> None:
    found = known(Heads(mask=lambda targets: targets).compare(tmp_path / "draft"))
    assert found.mask is None
    assert not found.follows_mask


def test_embeddings_are_compared(tmp_path: Path) -> None:
    same = known(Heads(embedding=lambda table: table).compare(tmp_path / "same"))
    assert (same.embedding, same.embedding_fits) == (1.0, True)
    other = known(Heads(embedding=random_rows).compare(tmp_path / "other"))
    assert other.embedding_fits is False
    none = known(Heads().compare(tmp_path / "none"))
    assert (none.embedding, none.embedding_fits) == (None, None)


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_dtypes(dtype: str, tmp_path: Path) -> None:
    assert known(Heads(dtype=dtype).compare(tmp_path / "draft")).best == 1


def test_numbers_that_are_none_do_not_disturb(tmp_path: Path) -> None:
    def damaged(rows: Floats) -> Floats:
        changed = rows.copy()
        changed[::10] = np.nan
        changed[5::10] = np.inf
        return changed

    found = known(Heads(rows=damaged).compare(tmp_path / "draft"))
    assert found.best == 1
    silent(found)


def test_a_head_of_zeros_and_a_head_of_one_number_say_nothing(tmp_path: Path) -> None:
    for name, number in (("zeros", 0.0), ("ones", 1.0)):
        found = known(Heads(rows=lambda r, n=number: np.full_like(r, n)).compare(tmp_path / name))  # type: ignore[misc]
        assert isinstance(found.best, Unknown)
        silent(found)


def test_what_cannot_be_compared_is_unknown(tmp_path: Path) -> None:
    folder = Heads().write(tmp_path / "draft")
    weights = folder / "target" / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[: len(data) // 3])
    assert isinstance(compared(folder), Unknown)
    weights.unlink()
    assert isinstance(compared(folder), Unknown)
    narrow = Heads(width=64).write(tmp_path / "narrow")
    weights.write_bytes((narrow / "target" / "model.safetensors").read_bytes())
    wide = compared(folder)
    assert isinstance(wide, Unknown)
    assert "128 columns here, 64 there" in wide.needs
    assert isinstance(Heads(width=8).compare(tmp_path / "tiny"), Unknown)


def test_rows_are_read_in_any_order(tmp_path: Path) -> None:
    folder = Heads(dtype="F32", noise=0).write(tmp_path / "draft")
    checkpoint = open_checkpoint(str(folder / "target"))
    info = checkpoint.tensors["lm_head.weight"]
    every = read_rows(checkpoint, info, np.arange(100, dtype=np.int64))
    some = read_rows(checkpoint, info, np.array([7, 3, 4, 7, 99], dtype=np.int64))
    assert not isinstance(every, Unknown)
    assert not isinstance(some, Unknown)
    assert np.array_equal(some, every[[7, 3, 4, 7, 99]])
    for wrong in ([-1], [4000]):
        assert isinstance(read_rows(checkpoint, info, np.array(wrong, dtype=np.int64)), Unknown)
    assert isinstance(read_rows(checkpoint, info, np.zeros(10**6, dtype=np.int64)), Unknown)


def test_without_deep_nothing_is_read_and_nothing_said(tmp_path: Path) -> None:
    folder = Heads(rows=lambda r: np.roll(r, 1, axis=0)).write(tmp_path / "draft")
    plain = scan(folder, target=folder / "target", select=["VOC042"])
    assert (plain.findings, plain.skipped) == ((), ())
    assert [f.rule for f in scan(folder, target=folder / "target", select=["VOC042"], deep=True).findings] == ["VOC042"]
    assert [s.needs for s in scan(folder, select=["VOC042"], deep=True).skipped] == ["the target (--target PATH)"]


@pytest.mark.parametrize("name", ["d2t-open-decided", "d2t-two-readings-decided"])
def test_a_reading_that_the_heads_decide_is_repaired(name: str, tmp_path: Path) -> None:
    folder, out = tmp_path / "draft", tmp_path / "copy"
    build(RECIPES[name], folder)
    target = folder / "target"
    # It rests on likeness, so it is unsafe; and without the values of the weights nothing is decided.
    for more in ({"deep": True}, {"unsafe": True}):
        outcome = fix(folder, None, target=target, dry_run=True, **more)  # type: ignore[arg-type]
        assert outcome.plan.steps == ()
    outcome = fix(folder, out, target=target, deep=True, unsafe=True)
    assert [(s.treatment, s.safety) for s in outcome.plan.steps] == [("map-to-offsets", "unsafe")]
    before = open_checkpoint(str(folder)).integers("d2t")
    after = open_checkpoint(str(out)).integers("d2t")
    assert not isinstance(before, Unknown)
    assert not isinstance(after, Unknown)
    assert np.array_equal(after, before - np.arange(len(before)))
    assert not {"VOC005", "VOC040"} & {f.rule for f in scan(out, target=target, deep=True).findings}


def test_the_receipt_says_on_what_it_rests(tmp_path: Path) -> None:
    folder, out = tmp_path / "draft", tmp_path / "copy"
    build(RECIPES["d2t-open-decided"], folder)
    fix(folder, out, target=folder / "target", deep=True, unsafe=True)
    assert "began as rows of the target" in json.dumps(json.loads((out / "ckptdoctor-receipt.json").read_text()))
