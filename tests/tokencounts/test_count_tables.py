"""Tables of counts from every form of file, and files that hold none, in one sentence."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from recipe_cases import need_torch
from token_files import (
    counted,
    ids_of,
    refusal,
    write_ids,
)

from ckptdoctor.tokencounts.token_counts import read_token_counts

COUNTS = {0: 5, 3: 1, 400: 12, 128_255: 7, 9: 0}


@pytest.mark.parametrize(
    "content",
    [
        {str(token): count for token, count in COUNTS.items()},
        [[token, count] for token, count in COUNTS.items()],
        [[str(token), float(count)] for token, count in COUNTS.items()],
        [COUNTS.get(token, 0) for token in range(128_256)],
    ],
    ids=["object", "pairs", "pairs of texts and floats", "list"],
)
def test_json(content: object, tmp_path: Path) -> None:
    place = tmp_path / "counts.json"
    place.write_text(json.dumps(content), encoding="utf-8")
    found = read_token_counts(str(place))
    assert (found.kind, found.source) == ("json", str(place))
    assert counted(found) == +Counter(COUNTS)


@pytest.mark.parametrize("dtype", ["<i8", ">i4", "<u2", "<u8", "<f4", "<f8"])
def test_npy(dtype: str, tmp_path: Path) -> None:
    values = np.array([4, 0, 7, 65_535], dtype=dtype)
    np.save(tmp_path / "counts.npy", values)
    found = read_token_counts(str(tmp_path / "counts.npy"))
    assert (found.kind, counted(found)) == ("npy", Counter({0: 4, 2: 7, 3: 65_535}))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (dict(COUNTS), "speculators"),
        (Counter(COUNTS), "specforge"),
        ({str(k): v for k, v in COUNTS.items()}, "speculators"),
    ],
    ids=["a dict", "a Counter", "keys of text"],
)
def test_pytorch_files(content: object, kind: str, tmp_path: Path) -> None:
    need_torch()
    import torch

    place = tmp_path / "token_freq.pt"
    torch.save(content, place)
    found = read_token_counts(str(place))
    assert (found.kind, counted(found)) == (kind, +Counter(COUNTS))
    # The folder that a trainer keeps it in stands for it, whatever else lies there.
    write_ids(tmp_path, ids_of())
    assert counted(read_token_counts(str(tmp_path))) == +Counter(COUNTS)


@pytest.mark.torch
def test_a_pytorch_file_of_one_count_for_each_token(tmp_path: Path) -> None:
    need_torch()
    import torch

    torch.save(torch.tensor([5, 5, 0, 2]), tmp_path / "counts.pt")
    assert counted(read_token_counts(str(tmp_path / "counts.pt"))) == Counter({0: 5, 1: 5, 3: 2})


@pytest.mark.torch
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("map", "holds a finished map (d2t and t2d), and no counts; name the file that it was made from"),
        ("list", "holds a list, as token maps (--speculative-token-map) do, and no counts by id"),
        ("ids", "no number in it comes twice: this is a list of token ids, and no counts"),
        ("state", "holds tensors (fc.weight), and no counts"),
        ("mask", "holds bool values, and no counts"),
        ("matrix", "holds a tensor that is no list of counts, one for each token"),
        ("text", "holds str, and no counts"),
        ("wide", "holds a tensor that is no list of counts, one for each token"),
    ],
)
def test_pytorch_files_of_something_else(content: str, said: str, tmp_path: Path) -> None:
    need_torch()
    import torch

    values = {
        "map": {"d2t": torch.zeros(4, dtype=torch.int64), "t2d": torch.ones(8, dtype=torch.bool)},
        "list": [5, 3, 2],
        "ids": torch.tensor([9, 4, 77]),
        "state": {"fc.weight": torch.zeros(2, 2)},
        "mask": torch.ones(4, dtype=torch.bool),
        "matrix": torch.zeros(2, 2),
        "text": "counts",
        "wide": torch.zeros(1).expand(2**30),
    }
    torch.save(values[content], tmp_path / "x.pt")
    assert refusal(tmp_path / "x.pt") == said


class Opens:
    """A pickle of this runs code when it is read unsafely."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("opened"),))


@pytest.mark.torch
def test_a_pytorch_file_is_never_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_torch()
    import torch

    monkeypatch.chdir(tmp_path)
    torch.save({1: Opens()}, tmp_path / "evil.pt")
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(Opens(), 2))
    for name in ("evil.pt", "raw.pt"):
        assert "torch cannot read it safely" in refusal(tmp_path / name)
    (tmp_path / "half.pt").write_bytes((tmp_path / "evil.pt").read_bytes()[:300])
    assert "the archive is damaged" in refusal(tmp_path / "half.pt")
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON (the file ends too early)"),
        ("[" * 5000, "is no JSON (more than 64 levels of nesting)"),
        ("7", "holds neither an object of counts by id, nor a list of counts, nor a list of [id, count]"),
        ("{}", "counts no token at all"),
        ("[0, 0]", "counts no token at all"),
        ('{"1": 2, "1": 3}', "names a token twice"),
        ('{"the": 2}', "'the' is no token id; counts are for ids, not for texts"),
        ('{"-1": 2}', "'-1' is no token id; counts are for ids, not for texts"),
        ("[[-1, 2]]", "-1 is no token id: ids are from 0 to 16777215"),
        ("[[16777216, 2]]", "16777216 is no token id: ids are from 0 to 16777215"),
        ("[[1.5, 2]]", "1.5 is no token id; counts are for ids, not for texts"),
        ("[[true, 2]]", "True is no token id; counts are for ids, not for texts"),
        ("[[1, 2, 3]]", "[1, 2, 3] is no pair of an id and a count"),
        ("[3, -4]", "the count of token 1 is -4, which is no count"),
        ("[3, 0.25]", "the count of token 1 is 0.25, which is no whole number"),
        ("[3, NaN]", "the count of token 1 is nan, which is no whole number"),
        ("[3, true]", "the count of token 1 is True, which is no whole number"),
        ("[3, null]", "the count of token 1 is None, which is no whole number"),
        ("[9007199254740993]", "the count of token 0 is 9007199254740993, which is no count"),
        (json.dumps([2**53] * 600), "its counts add up to more than any text has"),
    ],
)
def test_json_that_holds_no_counts(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "counts.json").write_text(content, encoding="utf-8")
    assert refusal(tmp_path / "counts.json") == said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([[1, 2]]), "holds int64 of shape 1×2, not one count for each token"),
        (np.array(3), "holds int64 of shape one value, not one count for each token"),
        (np.array([True, False]), "holds bool of shape 2, not one count for each token"),
        (np.array([0.5, 0.5]), "holds numbers that are not whole; shares and probabilities are no counts"),
        (np.array([1.0, np.nan]), "holds numbers that are not whole; shares and probabilities are no counts"),
        (np.array([1.0, np.inf]), "holds numbers that are not whole; shares and probabilities are no counts"),
        (np.array([4, -1]), "the count of token 1 is -1, which is no count"),
        (np.array([2**63], dtype=np.uint64), "the count of token 0 is 9223372036854775808, which is no count"),
        (np.zeros(2**24 + 1, dtype=np.uint8), "holds 16777217 counts; no vocabulary has more than 16777216 tokens"),
        (np.zeros(0, dtype=np.int64), "counts no token at all"),
        (np.full(600, 2**53), "its counts add up to more than any text has"),
    ],
)
def test_npy_that_holds_no_counts(values: np.ndarray, said: str, tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", values)
    assert refusal(tmp_path / "counts.npy") == said


def test_npy_with_objects_or_damage(tmp_path: Path) -> None:
    place = tmp_path / "counts.npy"
    np.save(place, np.array([Opens()], dtype=object), allow_pickle=True)
    assert "cannot be read" in refusal(place)
    np.save(place, np.arange(50))
    place.write_bytes(place.read_bytes()[:150])
    assert "cannot be read" in refusal(place)
    np.savez(tmp_path / "counts.npz", np.arange(5))
    (tmp_path / "counts.npz").rename(place)
    assert refusal(place) == "is no .npy file (an .npz archive has to be taken apart first)"
