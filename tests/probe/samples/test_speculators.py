"""States as speculators writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
safetensors: Any = pytest.importorskip("safetensors.torch")
from sample_cases import (  # noqa: E402
    CAPTURED,
    WIDTH,
    hidden_states,
)

from ckptdoctor.probe.samples.files import read_samples  # noqa: E402


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
