"""Recorded samples: each form as its writer writes it, what becomes of its tensors, what is said of damaged files."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
safetensors: Any = pytest.importorskip("safetensors.torch")

from sample_cases import (  # noqa: E402
    CAPTURED,
    LAYERS,
    VOCABULARY,
    WIDTH,
    features,
    hidden_states,
    normed,
    recorded,
    save_recorded,
    target_folder,
)

from ckptdoctor.errors import CannotExamineError, UsageError  # noqa: E402
from ckptdoctor.probe.samples import containers as sample_containers  # noqa: E402
from ckptdoctor.probe.samples.files import read_samples  # noqa: E402


def _save_many(folder: Path, lengths: list[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, length in enumerate(lengths):
        torch.save(features(length, number), folder / f"data_{number}.ckpt")


def test_specforge_features_give_their_states_side_by_side(tmp_path: Path) -> None:
    raw = features(20)
    torch.save(raw, tmp_path / "data_0.ckpt")
    samples = read_samples([str(tmp_path)])
    (item,) = samples.items
    assert (samples.form, samples.boundaries, samples.width) == ("specforge", (None,) * CAPTURED, WIDTH)
    assert item.name == str(tmp_path / "data_0.ckpt")
    assert torch.equal(item.tokens, raw["input_ids"])
    assert torch.equal(item.counted, raw["loss_mask"].bool())
    assert item.states.dtype == torch.float32
    # Captured state k is columns k·T … (k + 1)·T of what the trainer gives fc.
    assert torch.equal(item.states.flatten(1), raw["aux_hidden_state"][0].float())
    assert item.answers is None
    assert samples.embedding is None
    assert samples.remarks == ()


def test_specforge_takes_rows_by_number_and_subfolders_in_order(tmp_path: Path) -> None:
    _save_many(tmp_path / "rows_0-5000", [12] * 11)
    names = [Path(item.name).name for item in read_samples([str(tmp_path)]).items]
    assert names == [f"data_{i}.ckpt" for i in range(11)]


def test_features_of_a_server_lack_the_batch_dimension_and_have_more_keys(tmp_path: Path) -> None:
    raw = features(20)
    bare = {**raw, "hidden_state": raw["hidden_state"][0], "aux_hidden_state": raw["aux_hidden_state"][0]}
    bare |= {"input_ids": raw["input_ids"].int(), "loss_mask": raw["loss_mask"].float(), "rid": "r1", "prompt_len": 3}
    torch.save(raw, tmp_path / "a.ckpt")
    torch.save(bare, tmp_path / "b.ckpt")
    one, other = read_samples([str(tmp_path)]).items
    assert torch.equal(one.states, other.states)
    assert torch.equal(one.tokens, other.tokens)
    assert torch.equal(one.counted, other.counted)


def test_gzipped_features_are_the_same(tmp_path: Path) -> None:
    torch.save(features(20), tmp_path / "a.ckpt")
    with (tmp_path / "a.ckpt").open("rb") as plain, gzip.open(tmp_path / "b.ckpt.gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    one, other = read_samples([str(tmp_path)]).items
    assert torch.equal(one.states, other.states)


def test_gzip_that_unpacks_to_too_much_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(features(20), tmp_path / "a.ckpt")
    (tmp_path / "b.ckpt.gz").write_bytes(gzip.compress(bytes(4 << 20)))
    monkeypatch.setattr(sample_containers, "UNPACKED_LIMIT", 1 << 20)
    samples = read_samples([str(tmp_path)])
    assert len(samples.items) == 1
    assert "b.ckpt.gz: unpacks to more than 1048576 bytes" in samples.remarks[0]


def test_a_form_is_told_by_its_content(tmp_path: Path) -> None:
    torch.save(features(20), tmp_path / "features.bin")
    safetensors.save_file(hidden_states(20), tmp_path / "hs_0.ckpt")
    assert read_samples([str(tmp_path / "features.bin")]).form == "specforge"
    assert read_samples([str(tmp_path / "hs_0.ckpt")]).form == "speculators"


def test_speculators_states_have_the_last_layer_last(tmp_path: Path) -> None:
    raw = hidden_states(20)
    safetensors.save_file(raw, tmp_path / "hs_0.safetensors")
    (tmp_path / "hs_0.safetensors.lock").write_bytes(b"")
    samples = read_samples([str(tmp_path)])
    (item,) = samples.items
    assert (samples.form, samples.boundaries) == ("speculators", (None,) * (CAPTURED + 1))
    assert torch.equal(item.states, raw["hidden_states"].float())
    assert item.counted.tolist() == [False] + [True] * 19
    assert samples.remarks == (
        "1 file without a loss mask: every token but the first counts as one of the target's (there is no dataset"
        " beside them)",
    )


def _dataset(folder: Path, rows: list[dict[str, Any]], shards: int = 2) -> None:
    """As `datasets` saves one: Arrow streams and a state that gives their order."""
    pa = pytest.importorskip("pyarrow")
    names = [f"data-{i:05d}-of-{shards:05d}.arrow" for i in range(shards)]
    step = -(-len(rows) // shards)
    for number, name in enumerate(names):
        table = pa.Table.from_pylist(rows[number * step : (number + 1) * step])
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1)
    state = {"_data_files": [{"filename": name} for name in names]}
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    (folder / "dataset_info.json").write_text("{}", encoding="utf-8")


def test_speculators_loss_mask_stands_in_the_dataset(tmp_path: Path) -> None:
    states = tmp_path / "hidden_states"
    states.mkdir()
    rows = []
    for number in range(5):
        raw = hidden_states(10 + number, number)
        ids = raw["token_ids"].tolist()
        mask = [int(i >= 4) for i in range(len(ids))]
        rows.append({"input_ids": ids, "loss_mask": mask, "seq_len": len(ids)})
        safetensors.save_file(raw, states / f"hs_{number}.safetensors")
    rows[3]["input_ids"] = [1, 2, 3, 4]
    rows[3]["loss_mask"] = [0, 1, 1, 1]
    _dataset(tmp_path, rows)
    for path in (tmp_path, states):
        samples = read_samples([str(path)])
        counted = [item.counted.tolist() for item in samples.items]
        assert counted[4] == [False] * 4 + [True] * 10
        assert counted[3] == [False] + [True] * 12
        assert len(samples.remarks) == 1
        assert "1 file without a loss mask" in samples.remarks[0]
        assert "row 3 of the dataset" in samples.remarks[0]


@pytest.mark.parametrize("damage", ["cut", "no mask"])
def test_a_dataset_that_cannot_be_read_is_said(tmp_path: Path, damage: str) -> None:
    raw = hidden_states(10)
    safetensors.save_file(raw, tmp_path / "hs_0.safetensors")
    row: dict[str, Any] = {"input_ids": raw["token_ids"].tolist()}
    _dataset(tmp_path, [row if damage == "no mask" else {**row, "loss_mask": [1] * 10}], 1)
    if damage == "cut":
        place = next(tmp_path.glob("*.arrow"))
        place.write_bytes(place.read_bytes()[:200])
    (remark,) = read_samples([str(tmp_path)]).remarks
    assert "1 file without a loss mask" in remark
    assert "cannot be read" in remark


def test_speculators_earlier_form(tmp_path: Path) -> None:
    layers = [torch.randn(12, WIDTH).bfloat16() for _ in range(4)]
    mask = torch.tensor([0] * 5 + [1] * 7)
    raw = {"input_ids": torch.arange(12), "hidden_states": layers, "loss_mask": mask}
    torch.save(raw, tmp_path / "data_0.pt")
    torch.save({"freq": torch.ones(3)}, tmp_path / "token_freq.pt")
    samples = read_samples([str(tmp_path)])
    (item,) = samples.items
    assert samples.form == "speculators"
    assert torch.equal(item.states, torch.stack(layers, 1).float())
    assert item.counted.tolist() == mask.bool().tolist()
    assert samples.remarks == ()


def test_recorded_texts_start_where_positions_do_not_go_up_by_one(tmp_path: Path) -> None:
    positions = [0, 1, 2, 3, 4, 0, 1, 2, 3, 9, 20, 21, 22]
    raw = recorded(positions)
    save_recorded(tmp_path / "r.safetensors", raw, boundaries="1,2,3", phase="extend")
    samples = read_samples([str(tmp_path)])
    assert (samples.form, samples.boundaries) == ("recorded", (1, 2, 3))
    # The text of one state at position 9 is too short for a guess.
    assert [len(item.tokens) for item in samples.items] == [5, 4, 3]
    for item, first in zip(samples.items, (0, 5, 10), strict=True):
        n = len(item.tokens)
        assert torch.equal(item.states, raw["hidden_states"][first : first + n].float())
        # The token that stood beside the state of position i is token i + 1 of the text.
        assert torch.equal(item.tokens[1:], raw["next_token_ids"][first : first + n - 1])
        assert item.counted.tolist() == [False] + [True] * (n - 1)
    assert any("left out 1 text: " in remark and "text 3: no token" in remark for remark in samples.remarks)
    assert any("the first token of each recorded text is not known" in remark for remark in samples.remarks)
    assert any("do not say which tokens the target wrote" in remark for remark in samples.remarks)


@pytest.mark.parametrize(("metadata", "columns"), [({"boundaries": "1,2,3"}, 3), ({"states": "3"}, 3), ({}, 1)])
def test_recorded_states_side_by_side(tmp_path: Path, metadata: dict[str, str], columns: int) -> None:
    raw = recorded([0, 1, 2, 3])
    joined = {**raw, "hidden_states": raw["hidden_states"].flatten(1)}
    save_recorded(tmp_path / "r.safetensors", joined, **metadata)
    samples = read_samples([str(tmp_path)])
    assert samples.columns == columns
    assert torch.equal(samples.items[0].states.flatten(1), joined["hidden_states"].float())


def test_the_target_says_how_wide_recorded_states_are(tmp_path: Path) -> None:
    raw = recorded([0, 1, 2, 3])
    save_recorded(tmp_path / "r.safetensors", {**raw, "hidden_states": raw["hidden_states"].flatten(1)})
    target_folder(tmp_path / "target")
    samples = read_samples([str(tmp_path / "r.safetensors")], target=str(tmp_path / "target"))
    assert samples.columns == CAPTURED
    assert any("its last states are not recorded" in remark for remark in samples.remarks)


@pytest.mark.parametrize("shards", [False, True])
def test_answers_of_specforge_come_from_the_head(tmp_path: Path, shards: bool) -> None:
    weights = target_folder(tmp_path / "target", shards=shards)
    raw = features(20)
    final = normed(raw["hidden_state"].float(), weights["model.norm.weight"])
    raw["hidden_state"] = final.bfloat16()
    torch.save(raw, tmp_path / "data_0.ckpt")
    samples = read_samples([str(tmp_path / "data_0.ckpt")], target=str(tmp_path / "target"))
    (item,) = samples.items
    best = (raw["hidden_state"][0].float() @ weights["lm_head.weight"].T).argmax(-1)
    next_counts = torch.cat([item.counted[1:], torch.tensor([False])])
    assert torch.equal(item.answers[next_counts], best[next_counts])
    assert item.answers[~next_counts].unique().tolist() == [-1]
    assert torch.equal(samples.embedding, weights["model.embed_tokens.weight"])
    assert samples.remarks == ()


@pytest.mark.parametrize("tied", [False, True])
def test_answers_of_speculators_go_over_the_norm_first(tmp_path: Path, tied: bool) -> None:
    weights = target_folder(tmp_path / "target", tied=tied)
    raw = hidden_states(20)
    safetensors.save_file(raw, tmp_path / "hs_0.safetensors")
    samples = read_samples([str(tmp_path / "hs_0.safetensors")], target=str(tmp_path / "target"))
    (item,) = samples.items
    head = weights["model.embed_tokens.weight" if tied else "lm_head.weight"]
    best = (normed(raw["hidden_states"][:, -1].float(), weights["model.norm.weight"]) @ head.T).argmax(-1)
    assert torch.equal(item.answers[:-1], best[:-1])
    assert samples.boundaries == (None,) * CAPTURED + (LAYERS,)


def test_gemmas_norm_adds_one(tmp_path: Path) -> None:
    weights = target_folder(tmp_path / "target", model_type="gemma2")
    raw = hidden_states(20)
    safetensors.save_file(raw, tmp_path / "hs_0.safetensors")
    samples = read_samples([str(tmp_path / "hs_0.safetensors")], target=str(tmp_path / "target"))
    norm = normed(raw["hidden_states"][:, -1].float(), weights["model.norm.weight"] + 1)
    best = (norm @ weights["lm_head.weight"].T).argmax(-1)
    assert torch.equal(samples.items[0].answers[:-1], best[:-1])


def test_a_target_that_is_only_a_config_gives_no_answers(tmp_path: Path) -> None:
    target_folder(tmp_path / "target")
    (tmp_path / "target" / "model.safetensors").unlink()
    torch.save(features(20), tmp_path / "data_0.ckpt")
    samples = read_samples([str(tmp_path / "data_0.ckpt")], target=str(tmp_path / "target"))
    assert samples.items[0].answers is None
    assert samples.embedding is None
    assert "has no safetensors weights that can be read" in samples.remarks[0]


def test_the_limit_is_shared_out_and_later_files_stay_closed(tmp_path: Path) -> None:
    _save_many(tmp_path, [300] * 6)
    told: list[tuple[str, int, int]] = []
    samples = read_samples([str(tmp_path)], limit=300, tell=lambda *args: told.append(args))
    assert samples.counted == 300
    assert [int(item.counted.sum()) for item in samples.items] == [128, 128, 44]
    # Each is cut after its last token that is wanted; the prompt before it stays whole.
    assert [len(item.tokens) for item in samples.items] == [228, 228, 144]
    assert told[-1] == ("reading samples", 300, 300)
    assert samples.remarks == (
        "cut 3 of 3 texts: the limit is shared out",
        "read 3 of 6 files, which was enough for the limit",
    )


def test_without_a_limit_everything_is_read(tmp_path: Path) -> None:
    _save_many(tmp_path, [30, 40])
    assert read_samples([str(tmp_path)]).counted == 20 + 27


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_below_one_is_wrong(tmp_path: Path, limit: int) -> None:
    with pytest.raises(UsageError, match="give a number of 1 or more"):
        read_samples([str(tmp_path)], limit=limit)


def test_samples_of_one_run_are_alike(tmp_path: Path) -> None:
    torch.save(features(20), tmp_path / "a.ckpt")
    torch.save(features(20, captured=2), tmp_path / "b.ckpt")
    torch.save(features(20, width=32), tmp_path / "c.ckpt")
    safetensors.save_file(hidden_states(20), tmp_path / "hs_0.safetensors")
    save_recorded(tmp_path / "r.safetensors", recorded([0, 1, 2]), boundaries="1,2,3")
    save_recorded(tmp_path / "s.safetensors", recorded([0, 1, 2]), boundaries="0,2,3")
    (tmp_path / "prompts.txt").write_text("hello", encoding="utf-8")

    def refused(*names: str, target: str | None = None) -> str:
        with pytest.raises(CannotExamineError) as error:
            read_samples([str(tmp_path / name) for name in names], target=target)
        return str(error.value)

    assert "3 states at each token and" in refused("a.ckpt", "b.ckpt")
    assert "states 16 wide and" in refused("a.ckpt", "c.ckpt")
    assert "of the form of specforge and" in refused("a.ckpt", "hs_0.safetensors")
    assert "(boundaries 1, 2, 3) and" in refused("r.safetensors", "s.safetensors")
    assert "prompts.txt holds text and" in refused("a.ckpt", "prompts.txt")
    target_folder(tmp_path / "target")
    assert "were recorded from another target" in refused("c.ckpt", target=str(tmp_path / "target"))


def test_text_beside_states_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    torch.save(features(20), tmp_path / "a.ckpt")
    (tmp_path / "notes.txt").write_text("made on Monday", encoding="utf-8")
    (remark,) = read_samples([str(tmp_path)]).remarks
    assert remark.startswith("passed over 1 file of text beside the recorded states")


def test_tokens_outside_of_the_targets_vocabulary(tmp_path: Path) -> None:
    target_folder(tmp_path / "target")
    torch.save({**features(20), "input_ids": torch.full((20,), VOCABULARY)}, tmp_path / "a.ckpt")
    with pytest.raises(CannotExamineError, match="holds token 50; the target has 50 tokens"):
        read_samples([str(tmp_path / "a.ckpt")], target=str(tmp_path / "target"))


def test_links_stay_inside_the_folder(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    _save_many(inside / "real", [20])
    torch.save(features(30), outside / "other.ckpt")
    (inside / "a.ckpt").symlink_to(outside / "other.ckpt")
    (inside / "b.ckpt").symlink_to(inside / "real" / "data_0.ckpt")
    (inside / "c.ckpt").symlink_to(inside / "nowhere")
    (inside / "further").symlink_to(outside, target_is_directory=True)
    samples = read_samples([str(inside)])
    assert [len(item.tokens) for item in samples.items] == [20]
    assert "a.ckpt: the link leads out of the folder" in samples.remarks[0]
    assert "c.ckpt: the link leads nowhere" in samples.remarks[0]


def test_a_path_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(CannotExamineError, match="no such file or folder"):
        read_samples([str(tmp_path / "nowhere")])
    with pytest.raises(CannotExamineError, match=r"no file in it ends in \.ckpt, .* or \.json"):
        read_samples([str(tmp_path)])
    with pytest.raises(CannotExamineError, match="no such file or folder"):
        read_samples(["\0"])


def test_long_texts_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckptdoctor.probe.samples.recorded_text.LONGEST", 64)
    _save_many(tmp_path, [100])
    samples = read_samples([str(tmp_path)])
    assert len(samples.items[0].tokens) == 64
    assert samples.remarks == ("cut 1 of 1 text: at most 64 tokens of a text are taken",)


def test_states_after_the_final_norm_do_not_go_over_it_again(tmp_path: Path) -> None:
    weights = target_folder(tmp_path / "target")
    before = [torch.randn(12, WIDTH) for _ in range(4)]
    after = [*before[:-1], normed(before[-1], weights["model.norm.weight"])]
    for number, layers in enumerate((before, after)):
        raw = {"input_ids": torch.arange(12), "hidden_states": layers, "loss_mask": torch.ones(12)}
        torch.save(raw, tmp_path / f"data_{number}.pt")
    paths = [str(tmp_path / f"data_{number}.pt") for number in range(2)]
    one, other = read_samples(paths, target=str(tmp_path / "target")).items
    assert torch.equal(one.answers, other.answers)
    assert len(one.answers.unique()) > 3


def test_recorded_states_of_the_last_boundary_have_answers(tmp_path: Path) -> None:
    weights = target_folder(tmp_path / "target")
    raw = recorded([0, 1, 2, 3, 4])
    save_recorded(tmp_path / "r.safetensors", raw, boundaries=f"[0, 2, {LAYERS}]")
    samples = read_samples([str(tmp_path / "r.safetensors")], target=str(tmp_path / "target"))
    final = normed(raw["hidden_states"][:, -1].float(), weights["model.norm.weight"])
    assert torch.equal(samples.items[0].answers[:-1], (final @ weights["lm_head.weight"].T).argmax(-1)[:-1])


def test_what_the_recorder_writes_is_read(tmp_path: Path) -> None:
    sampling = pytest.importorskip("ckptdoctor.recorder.sampling")
    raw = recorded([0, 1, 2, 3, 0, 1, 2])
    file = sampling.SampleFile(tmp_path / "samples.safetensors", 7)
    file.describe("vllm", "0.33.0", (1, 2, 3), "extend")
    file.add(raw["next_token_ids"], raw["position_ids"], raw["hidden_states"].flatten(1), WIDTH)
    samples = read_samples([str(tmp_path)])
    assert samples.boundaries == (1, 2, 3)
    assert [len(item.tokens) for item in samples.items] == [4, 3]
    assert torch.equal(samples.items[1].states, raw["hidden_states"][4:].float())
