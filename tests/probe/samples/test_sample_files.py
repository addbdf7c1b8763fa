"""Files of samples: forms, limits, links, and what is said of damaged ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
safetensors: Any = pytest.importorskip("safetensors.torch")
from sample_cases import (  # noqa: E402
    VOCABULARY,
    features,
    hidden_states,
    recorded,
    save_recorded,
    target_folder,
)

from ckptdoctor.errors import CannotExamineError, UsageError  # noqa: E402
from ckptdoctor.probe.samples.files import read_samples  # noqa: E402


def _save_many(folder: Path, lengths: list[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, length in enumerate(lengths):
        torch.save(features(length, number), folder / f"data_{number}.ckpt")


def test_a_form_is_told_by_its_content(tmp_path: Path) -> None:
    torch.save(features(20), tmp_path / "features.bin")
    safetensors.save_file(hidden_states(20), tmp_path / "hs_0.ckpt")
    assert read_samples([str(tmp_path / "features.bin")]).form == "specforge"
    assert read_samples([str(tmp_path / "hs_0.ckpt")]).form == "speculators"


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
