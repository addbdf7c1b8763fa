"""Token maps of FR-Spec: what a file holds, told without running anything in it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipe_cases import need_torch

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.vocabulary.id_list import Violation
from ckptdoctor.facts.vocabulary.token_map import FILE_LIMIT, given_token_map, read_token_map
from ckptdoctor.launch.line import Launch, parse_launch
from ckptdoctor.unknown import Unknown

LINE = "python -m sglang.launch_server --speculative-algorithm EAGLE --speculative-token-map "


def saved(folder: Path, content: Any, name: str = "freq.pt") -> str:
    place = folder / name
    if name.endswith(".npy"):
        np.save(place, content)
    elif name.endswith(".json"):
        place.write_text(json.dumps(content), encoding="utf-8")
    else:
        need_torch()
        import torch

        torch.save(content, place)
    return str(place)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["freq.pt", "freq.npy", "freq.json"])
def test_a_list_of_ids_in_three_forms(name: str, tmp_path: Path) -> None:
    found = read_token_map(saved(tmp_path, [7, 3, 500, 0], name), 512)
    assert (found.meaning, found.shape, found.length, found.values) == ("ids", (4,), 4, (7, 3, 500, 0))
    assert (found.repeated, found.out_of_range, found.order) == (None, None, "frequency")
    assert found.ids.tolist() == [7, 3, 500, 0]
    assert found.plain == (name == "freq.pt")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("dtype", "word"), [("int64", "I64"), ("int32", "I32"), ("uint8", "U8"), ("float32", "F32"), ("bfloat16", "F32")]
)
def test_a_tensor_of_any_numbers_that_are_whole(dtype: str, word: str, tmp_path: Path) -> None:
    need_torch()
    import torch

    found = read_token_map(saved(tmp_path, torch.tensor([9, 8, 200], dtype=getattr(torch, dtype))), 512)
    assert (found.dtype, found.meaning, found.values, found.plain) == (word, "ids", (9, 8, 200), True)


@pytest.mark.parametrize(
    ("content", "meaning", "plain"),
    [
        ([0, 0, 0, 4, 4, 9], "offsets", False),
        ([40, -1, 17, -2], "offsets", False),
        ([3, 3, 9, 11], "ids", False),  # sorted, with one id twice: no d2t begins so
        ([0, 1, 1, 0, 1], "mask", False),
        ([True, False, True], "mask", False),
        ([0.25, 0.5], "fractions", False),
        ([[1, 2], [3, 4]], "ids", False),
        ({"d2t": [0, 0]}, "other", False),
        (["a", "b"], "other", False),
        ([], "other", False),
        ([1, [2, 3]], "other", False),
        ([2**63], "fractions", False),
        ([2**80], "other", False),
    ],
)
def test_what_else_people_give(content: Any, meaning: str, plain: bool, tmp_path: Path) -> None:
    place = tmp_path / "freq.json"
    place.write_text(f" {json.dumps(content)}", encoding="utf-8")
    found = read_token_map(str(place), 512)
    assert (found.meaning, found.plain) == (meaning, plain)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("content", "meaning", "plain"),
    [
        ([1, 2], "ids", True),
        ([[1, 2]], "ids", False),
        ({1: 2}, "other", False),
        ("text", "other", False),
        (7, "other", False),
        ([0.5, 1.0], "fractions", False),
        ([1.0, 2.0], "ids", True),
        ([True, False, True], "mask", True),
    ],
)
def test_what_torch_saves(content: Any, meaning: str, plain: bool, tmp_path: Path) -> None:
    found = read_token_map(saved(tmp_path, content), 512)
    assert (found.meaning, found.plain) == (meaning, plain)


def test_repeated_ids_and_those_of_no_token(tmp_path: Path) -> None:
    place = saved(tmp_path, [5, 600, 5, 7, 5, 700], "freq.json")
    found = read_token_map(place, 512)
    assert found.repeated == Violation(2, 2, 5, 0)
    assert found.out_of_range == Violation(2, 1, 600)
    unheld = read_token_map(place)
    assert isinstance(unheld.out_of_range, Unknown)
    assert read_token_map(saved(tmp_path, [5, -1, -1], "below.json")).out_of_range == Violation(2, 1, -1)


@pytest.mark.torch
def test_nothing_in_the_file_is_run(tmp_path: Path) -> None:
    need_torch()
    place, sign = tmp_path / "freq.pt", tmp_path / "ran"

    class Runs:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (sign,)

    place.write_bytes(pickle.dumps(Runs(), protocol=2))
    with pytest.raises(CannotExamineError, match=r"freq\.pt"):
        read_token_map(str(place))
    assert not sign.exists()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("freq.json", b"[1, 2"),
        ("freq.npy", b"\x93NUMPY\x01\x00\xff\xff"),
        ("freq.npy", b"\x93NUMPY"),
        ("freq.json", b"{"),
    ],
)
def test_a_damaged_file_is_one_sentence(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CannotExamineError, match=name.replace(".", r"\.")):
        read_token_map(str(tmp_path / name))


def test_an_array_of_objects_is_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "freq.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(CannotExamineError):
        read_token_map(str(tmp_path / "freq.npy"))


def test_a_file_that_is_absent_or_far_too_large_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(CannotExamineError, match="no such file"):
        read_token_map(str(tmp_path / "none.pt"))
    with (tmp_path / "large.json").open("wb") as stream:
        stream.truncate(FILE_LIMIT + 1)
    with pytest.raises(CannotExamineError, match="at most"):
        read_token_map(str(tmp_path / "large.json"))


def test_a_launch_line_names_it_from_here_or_from_the_folder_of_the_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, [3, 1], "freq.json")
    for line, where in ((f"{LINE} freq.json", tmp_path), (f"{LINE} {tmp_path / 'freq.json'}", Path("/"))):
        found = given_token_map(parse_launch(line), where, 512)
        assert found is not None
        assert not isinstance(found.file, Unknown)
        assert (found.file.values, found.used, found.shards) == ((3, 1), True, 1)
    monkeypatch.chdir(tmp_path)
    here = given_token_map(parse_launch(f"{LINE} freq.json --tp 2"), Path("/"), 512)
    assert here is not None
    assert here.shards == 2
    assert not isinstance(here.file, Unknown)


def test_one_that_is_elsewhere_is_unknown(tmp_path: Path) -> None:
    saved(tmp_path, [3, 1], "freq.json")
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "link.json").symlink_to(tmp_path / "freq.json")
    (tmp_path / "draft" / "bad.json").write_text("[", encoding="utf-8")
    for name in ("thunlp/FR-Spec/freq.pt", "../freq.json", "link.json", "bad.json", "x" * 5000, "a\0b"):
        launch = Launch(text="", method="eagle", token_map=name)
        found = given_token_map(launch, tmp_path / "draft", 512)
        assert found is not None
        assert isinstance(found.file, Unknown)
        assert "token map" in found.file.needs
    assert given_token_map(None, tmp_path, 512) is None
    assert given_token_map(Launch(text=""), tmp_path, 512) is None


@pytest.mark.parametrize("method", ["eagle3", "dflash", "standalone", None])
def test_it_is_used_with_eagle_alone(method: str | None, tmp_path: Path) -> None:
    found = given_token_map(Launch(text="", method=method, token_map="x.pt"), tmp_path, 512)
    assert found is not None
    assert not found.used


def test_the_root_of_a_checkpoint_is_a_folder() -> None:
    # given_token_map looks beside the weights, so a single file that is named must have a folder too.
    trainers = Path(__file__).resolve().parents[3] / "fixtures" / "trainers"
    one = next(trainers.rglob("model.safetensors"))
    assert open_checkpoint(str(one)).root.is_dir()
