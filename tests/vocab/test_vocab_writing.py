"""`ckptdoctor.vocab.build`: the right bytes, and the refusals."""

from __future__ import annotations

import io
import json
import os
import stat
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from vocab_targets import (
    BYTES,
    DIGITS,
    ENDS,
    FORCED,
    RESERVED,
    TOOL_CALL,
    TURN_START,
    VOCABULARY,
    WIDTH,
    head_rows,
    make_target,
    plainly,
    read_tensors,
    write_counts,
    write_tensors,
    zipf_counts,
)

from ckptdoctor import scan
from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.vocab import build
from ckptdoctor.vocab.building import offsets_and_mask


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return make_target(tmp_path / "target")


@pytest.mark.parametrize("order", ["ascending", "frequency"])
def test_what_is_written_is_right(target: Path, counts: Path, tmp_path: Path, order: str) -> None:
    values = zipf_counts()
    built = build(counts, 100, target, tmp_path / "new", force_ids=[RESERVED], order=order)
    ids = built.ids.tolist()
    assert sorted(ids) == plainly(values.tolist(), 100, {*FORCED, RESERVED})
    stored = read_tensors(tmp_path / "new" / "model.safetensors")
    assert {n: (d, s) for n, (d, s, _) in stored.items()} == {
        "d2t": ("I64", [100]),
        "t2d": ("BOOL", [VOCABULARY]),
        "lm_head.weight": ("BF16", [100, WIDTH]),
    }
    d2t = np.frombuffer(stored["d2t"][2], dtype="<i8")
    assert (d2t + np.arange(100)).tolist() == ids
    assert np.flatnonzero(np.frombuffer(stored["t2d"][2], dtype=np.bool_)).tolist() == sorted(ids)
    assert stored["lm_head.weight"][2] == head_rows()[ids].tobytes()
    # Recounted position by position.
    text = Counter({i: int(n) for i, n in enumerate(values.tolist())})
    assert built.total == sum(text.values())
    assert built.covered == sum(text[i] for i in ids)
    assert built.best == sum(n for _, n in text.most_common(100))
    assert built.share == built.covered / built.total


def test_a_scan_says_the_map_is_right(target: Path, counts: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    build(counts, 100, target, out)
    (out / "config.json").write_text(json.dumps({"vocab_size": VOCABULARY, "draft_vocab_size": 100}))
    found = scan(out, target=target, token_counts=counts)
    assert found.draft["d2t"] == "right"
    assert found.draft["d2t_readings"] == [1]
    grave = {finding.rule for finding in found.findings if finding.severity.value != "note"}
    assert not {rule for rule in grave if rule.startswith(("VOC", "TOK", "ART"))}
    # Every token that a chat writes can be proposed, so nothing is said of them.
    assert not {finding.rule for finding in found.findings if finding.rule.startswith("TOK")}


def test_the_safetensors_package_reads_it(target: Path, counts: Path, tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    build(counts, 60, target, tmp_path / "new", order="frequency")
    from safetensors import safe_open

    with safe_open(tmp_path / "new" / "model.safetensors", "np") as file:
        assert set(file.keys()) == {"d2t", "t2d", "lm_head.weight"}
        assert file.get_slice("lm_head.weight").get_shape() == [60, WIDTH]
        assert file.get_tensor("t2d").sum() == 60
    assert numpy


def test_the_json_says_what_was_chosen_and_why(target: Path, counts: Path, tmp_path: Path) -> None:
    built = build(str(counts), 100, str(target), tmp_path / "new", force_ids=[7, RESERVED])
    told = json.loads((tmp_path / "new" / "vocab.json").read_text())
    groups = {g["group"]: g["ids"] for g in told["forced"]}
    assert {i for name, ids in groups.items() if name.startswith("ends") for i in ids} == set(ENDS)
    assert groups["tool calls"] == [TOOL_CALL]
    assert TURN_START in groups["written by the chat template"]
    assert groups["digits"] == list(DIGITS)
    assert groups["byte tokens"] == list(BYTES)
    assert groups["named by --force-ids"] == [RESERVED]  # 7 is a digit, and named once
    free = set(plainly(zipf_counts().tolist(), 100, set()))
    assert told["forced_beyond_counts"] == sorted({*FORCED, RESERVED} - free) == list(built.added)
    assert (told["draft_vocab_size"], told["vocab_size"], told["order"]) == (100, VOCABULARY, "ascending")
    assert told["token_counts"] == {"file": str(counts), "kind": "json", "total": built.total}
    assert told["head"] == {"rows": 100, "width": WIDTH, "dtype": "BF16", "from": "lm_head.weight"}
    assert told["head_left_out"] is None


def test_the_same_input_gives_the_same_bytes(target: Path, counts: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        build(counts, 77, target, tmp_path / name, also=["speculators"])
    for file in ("model.safetensors", "vocab.json", "d2t.npy", "t2d.npy"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_forms_of_trainers(target: Path, counts: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    built = build(counts, 77, target, tmp_path / "new", also=["specforge", "speculators"])
    offsets, mask = offsets_and_mask(built.ids, VOCABULARY)
    loaded = torch.load(tmp_path / "new" / "vocab_mapping.pt", weights_only=True)
    assert loaded.keys() == {"d2t", "t2d"}
    assert (loaded["d2t"].dtype, loaded["t2d"].dtype) == (torch.int64, torch.bool)
    assert np.array_equal(loaded["d2t"].numpy(), offsets)
    assert np.array_equal(loaded["t2d"].numpy(), mask)
    assert np.array_equal(np.load(tmp_path / "new" / "d2t.npy", allow_pickle=False), offsets)
    assert np.array_equal(np.load(tmp_path / "new" / "t2d.npy", allow_pickle=False), mask)
    # What is beside the map does not keep it from being opened.
    assert scan(tmp_path / "new", target=target).draft["d2t"] == "right"


def test_the_form_of_specforge_needs_torch(
    target: Path, counts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckptdoctor.checkpoint.pickles.torch_problem", lambda: "torch is not installed")
    with pytest.raises(CannotExamineError, match=r"torch is not installed \(pip install 'ckptdoctor\[torch\]'\)"):
        build(counts, 77, target, tmp_path / "new", also=["specforge"])
    assert not (tmp_path / "new").exists()


def test_a_tied_head_is_the_embedding(tmp_path: Path, counts: Path) -> None:
    target = make_target(tmp_path / "target", weights=False, config={"tie_word_embeddings": True})
    write_tensors(target / "model.safetensors", {"model.embed_tokens.weight": ("BF16", head_rows(1))})
    built = build(counts, 50, target, tmp_path / "new")
    assert built.head.source == "model.embed_tokens.weight"
    stored = read_tensors(tmp_path / "new" / "model.safetensors")
    assert stored["lm_head.weight"][2] == head_rows(1)[built.ids].tobytes()


def test_a_quantised_head_is_left_out(tmp_path: Path, counts: Path) -> None:
    target = make_target(tmp_path / "target", weights=False, config={"quantization_config": {"quant_method": "fp8"}})
    packed = np.zeros((VOCABULARY, WIDTH), dtype=np.uint8)
    write_tensors(target / "model.safetensors", {"lm_head.weight": ("F8_E4M3", packed)})
    built = build(counts, 50, target, tmp_path / "new")
    assert built.head.left_out == "the target is quantised and stores no head in BF16, F16 or F32"
    assert read_tensors(tmp_path / "new" / "model.safetensors").keys() == {"d2t", "t2d"}
    assert json.loads((tmp_path / "new" / "vocab.json").read_text())["head"] is None


def test_a_head_with_too_few_rows_is_left_out(tmp_path: Path, counts: Path) -> None:
    target = make_target(tmp_path / "target", weights=False)
    write_tensors(target / "model.safetensors", {"lm_head.weight": ("BF16", head_rows()[:300])})
    built = build(counts, 50, target, tmp_path / "new")
    assert built.head.left_out == "lm_head.weight of the target has 300 rows, too few for the map"


def test_a_config_alone_gives_the_map_alone(tmp_path: Path, counts: Path) -> None:
    target = make_target(tmp_path / "target", weights=False, tokenizer=False)
    built = build(counts, 50, target, tmp_path / "new")
    assert built.head.left_out == "the target's weights are not at hand (its config alone, or no safetensors)"
    needs = {group.name: group.needs for group in built.groups}
    assert needs["digits"] == needs["byte tokens"] == "a tokenizer.json beside the target or the draft"
    assert set(ENDS) <= set(built.ids.tolist())


def test_the_size_of_the_vocabulary_may_come_from_the_head(tmp_path: Path, counts: Path) -> None:
    target = make_target(tmp_path / "target", config={"vocab_size": None})
    assert build(counts, 50, target, None).vocabulary == VOCABULARY
    bare = make_target(tmp_path / "bare", weights=False, config={"vocab_size": None})
    with pytest.raises(CannotExamineError, match="its config gives no vocab_size"):
        build(counts, 50, bare, None)


def test_refusals_write_nothing(target: Path, counts: Path, tmp_path: Path) -> None:
    beyond = write_counts(tmp_path / "beyond.json", np.ones(VOCABULARY + 1, dtype=np.int64))
    out = tmp_path / "new"
    cases = [
        (counts, VOCABULARY + 1, {}, UsageError, "--size 401: the target's vocabulary has 400 ids"),
        (counts, 29, {}, UsageError, r"--size 29: 30 ids must be in it \(.*10 digits.*16 byte tokens"),
        (counts, 50, {"force_ids": [VOCABULARY]}, UsageError, "id 400 cannot be forced"),
        (counts, 50, {"also": ["me"]}, UsageError, "no form for 'me'"),
        (beyond, 50, {}, CannotExamineError, "counts of another vocabulary: id 400 occurs"),
        (tmp_path / "no.json", 50, {}, CannotExamineError, "no such file"),
    ]
    for file, size, more, error, sentence in cases:
        with pytest.raises(error, match=sentence):
            build(file, size, target, out, **more)  # type: ignore[arg-type]
        assert not out.exists()
    with pytest.raises(UsageError, match="is inside the source"):
        build(counts, 50, target, target / "new")
    with pytest.raises(UsageError, match="exists and is not empty"):
        build(counts, 50, target, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["beyond.json", "counts.json", "target"]


def test_all_ids_and_only_the_forced_ones(target: Path, counts: Path, tmp_path: Path) -> None:
    whole = build(counts, VOCABULARY, target, tmp_path / "whole")
    assert whole.ids.tolist() == list(range(VOCABULARY))
    assert whole.covered == whole.total
    assert set(build(counts, len(FORCED), target, None).ids.tolist()) == FORCED


def test_a_failed_write_leaves_nothing(
    target: Path, counts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ckptdoctor.vocab.writing as writing

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "write_files", fail)
    with pytest.raises(KeyboardInterrupt):
        build(counts, 50, target, tmp_path / "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["counts.json", "target"]


def test_the_new_folder_has_ordinary_permissions(target: Path, counts: Path, tmp_path: Path) -> None:
    before = {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in target.iterdir()}
    umask = os.umask(0o022)
    try:
        build(counts, 50, target, tmp_path / "new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o755
    assert {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "new").iterdir()} == {0o644}
    assert {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in target.iterdir()} == before


def test_numpy_alone_is_needed_for_a_plain_map(target: Path, counts: Path) -> None:
    built = build(counts, 50, target, None, also=["speculators"])
    files = dict(built.files)
    assert files["d2t.npy"] == len(_saved(built.ids))
    assert built.out is None


def _saved(values: object) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)  # type: ignore[arg-type]
    return buffer.getvalue()
