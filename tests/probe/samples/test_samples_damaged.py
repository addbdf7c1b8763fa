"""Recorded samples that are damaged or do not fit: left out with the reason, and never more than a sentence."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
safetensors: Any = pytest.importorskip("safetensors.torch")

from sample_cases import WIDTH, features, hidden_states, recorded, save_recorded, target_folder  # noqa: E402

from ckptdoctor.errors import CannotExamineError  # noqa: E402
from ckptdoctor.probe.samples.files import read_samples  # noqa: E402


def _with(**changes: Any) -> dict[str, Any]:
    return {**features(20), **changes}


def _nan() -> torch.Tensor:
    states = features(20)["aux_hidden_state"]
    states[0, 7, 3] = float("nan")
    return states


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (_with(aux_hidden_state=_nan()), "hidden states hold values that are not finite"),
        (_with(loss_mask=torch.ones(19)), "loss_mask has 19 values for 20 tokens"),
        (_with(hidden_state=torch.zeros(1, 21, WIDTH)), "hidden_state is [21, 16], but there are 20 tokens"),
        (_with(aux_hidden_state=torch.zeros(1, 20, 40)), "aux_hidden_state is 40 wide, no multiple of the target's 16"),
        (_with(input_ids=torch.full((20,), -100)), "input_ids holds the id -100"),
        (_with(input_ids=torch.rand(20)), "input_ids holds float32, not token ids"),
        (_with(aux_hidden_state=torch.zeros(1, 20, 48, dtype=torch.long)), "holds int64, not hidden states"),
        (_with(aux_hidden_state=torch.zeros(1, 20, 48).to_sparse()), "not a plain tensor"),
        (features(2), "input_ids has 2 tokens; the first guess needs 3"),
        (_with(loss_mask=torch.zeros(20)), "no token of it both counts and could be guessed"),
        ({k: v for k, v in features(20).items() if k != "aux_hidden_state"}, "hidden_state alone"),
        ({k: v for k, v in features(20).items() if k != "loss_mask"}, "lacks loss_mask among its keys"),
        ({k: v for k, v in features(20).items() if k != "hidden_state"}, "name the --target"),
        ({"model": torch.zeros(3)}, "holds model; features of SpecForge are"),
        ([torch.zeros(3)], "without tensors"),
        (_with(extra=Path("x")), "it holds pathlib"),
    ],
)
def test_features_that_do_not_fit_are_left_out_with_the_reason(tmp_path: Path, content: Any, said: str) -> None:
    torch.save(content, tmp_path / "a.ckpt")
    with pytest.raises(CannotExamineError) as alone:
        read_samples([str(tmp_path)])
    assert "no sample can be read from 1 file" in str(alone.value)
    assert said in str(alone.value)
    torch.save(features(20), tmp_path / "b.ckpt")
    samples = read_samples([str(tmp_path)])
    assert len(samples.items) == 1
    assert said in samples.remarks[0]
    assert str(tmp_path / "a.ckpt") in samples.remarks[0]


@pytest.mark.parametrize("name", ["a.ckpt", "a.ckpt.gz", "a.safetensors"])
@pytest.mark.parametrize("keep", [0, 5, 60, 700, -9])
def test_files_cut_short_are_left_out(tmp_path: Path, name: str, keep: int) -> None:
    whole = tmp_path / "whole"
    if name.endswith("safetensors"):
        safetensors.save_file(hidden_states(20), whole)
    else:
        torch.save(features(20), whole)
    data = gzip.compress(whole.read_bytes()) if name.endswith("gz") else whole.read_bytes()
    place = tmp_path / name
    place.write_bytes(data[:keep])
    with pytest.raises(CannotExamineError) as error:
        read_samples([str(place)])
    assert str(place) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_states": torch.zeros(20, 64)}, "hidden_states has 2 dimensions, not 3"),
        ({"hidden_states": torch.zeros(19, 4, WIDTH)}, "hidden_states is [19, 4, 16], but there are 20 tokens"),
        ({"hidden_states": torch.full((20, 4, WIDTH), float("inf"))}, "not finite"),
        ({"token_ids": torch.zeros(0, dtype=torch.long)}, "token_ids is empty"),
    ],
)
def test_hidden_states_that_do_not_fit(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    safetensors.save_file({**hidden_states(20), **change}, tmp_path / "hs_0.safetensors")
    with pytest.raises(CannotExamineError) as error:
        read_samples([str(tmp_path)])
    assert said in str(error.value)


def test_weights_are_no_samples(tmp_path: Path) -> None:
    target_folder(tmp_path / "target")
    with pytest.raises(CannotExamineError, match=r"holds lm_head\.weight, .*; hidden states of speculators are"):
        read_samples([str(tmp_path / "target")])


@pytest.mark.parametrize(
    ("metadata", "change", "said"),
    [
        ({"boundaries": "1,2"}, {}, "names 2 boundaries for 3 states"),
        ({"boundaries": "1;2"}, {}, "not numbers with commas between them"),
        ({"boundaries": "1,2,3,4,5"}, {"hidden_states": torch.zeros(4, 48)}, "48 wide, which is no multiple of 5"),
        ({}, {"position_ids": torch.zeros(3, dtype=torch.long)}, "position_ids has 3 values for 4 tokens"),
        ({}, {"position_ids": torch.tensor([0, 1, 0, 1])}, "no token of it both counts"),
    ],
)
def test_recorded_files_that_do_not_fit(
    tmp_path: Path, metadata: dict[str, str], change: dict[str, Any], said: str
) -> None:
    save_recorded(tmp_path / "r.safetensors", {**recorded([0, 1, 2, 3]), **change}, **metadata)
    with pytest.raises(CannotExamineError) as error:
        read_samples([str(tmp_path)])
    assert said in str(error.value)


def test_nothing_of_a_pickle_is_run(tmp_path: Path) -> None:
    import pickle

    class Runs:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (Path(tmp_path / "ran").touch, ())  # type: ignore[return-value]

    place = tmp_path / "a.ckpt"
    place.write_bytes(pickle.dumps({"input_ids": Runs()}, protocol=2))
    with pytest.raises(CannotExamineError):
        read_samples([str(place)])
    assert not (tmp_path / "ran").exists()


def test_bytes_changed_anywhere_are_no_crash(tmp_path: Path) -> None:
    safetensors.save_file(hidden_states(6), tmp_path / "whole")
    torch.save(features(6), tmp_path / "pickle")
    for name in ("whole", "pickle"):
        data = (tmp_path / name).read_bytes()
        place = tmp_path / "damaged.ckpt"
        for at in range(0, min(len(data), 1500), 7):
            changed = bytearray(data)
            changed[at] ^= 0x55
            place.write_bytes(changed)
            told = _outcome(place)
            assert told is None or "\n" not in told


def _outcome(place: Path) -> str | None:
    try:
        assert read_samples([str(place)]).items
    except CannotExamineError as error:
        return str(error)
    return None
