"""Token counts from every form of file, against a plain recount; and files that are none, in one sentence."""

from __future__ import annotations

import contextlib
import json
import pickle
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from recipe_cases import need_torch
from token_files import (
    CONVERSATIONS,
    TEXTS,
    as_counter,
    byte_level,
    ids_of,
    unigram,
    write_ids,
    write_table,
    write_texts,
)

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.tokencounts import arrow_files, tokenizing
from ckptdoctor.tokencounts.arrow_sizes import unpacked_size
from ckptdoctor.tokencounts.token_counts import TokenCounts, read_token_counts

COUNTS = {0: 5, 3: 1, 400: 12, 128_255: 7, 9: 0}
FORMS = ("parquet", "arrow", "feather", "zstd", "jsonl")


def counted(found: TokenCounts) -> Counter[int]:
    """The counts above zero by id."""
    assert found.counts.dtype == np.int64
    assert found.total == int(found.counts.sum())
    return Counter({i: int(n) for i, n in enumerate(found.counts) if n})


def refusal(path: Path | str, tokenizer: Path | None = None) -> str:
    """The sentence with which `path` is refused."""
    with pytest.raises(CannotExamineError) as caught:
        read_token_counts(str(path), tokenizer)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("--token-counts ") or "--token-counts" in text
    return text.replace(f"{path}: ", "").removeprefix("--token-counts ")


# Tables of counts.


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


# Rows of ids.


@pytest.mark.parametrize("column", ["input_ids", "token_ids", "ids"])
def test_rows_of_ids(column: str, tmp_path: Path) -> None:
    rows = ids_of()
    want = as_counter(rows)
    places = write_ids(tmp_path, rows, column)
    for form in FORMS:
        found = read_token_counts(str(places[form]))
        assert (form, found.kind, counted(found)) == (form, "ids", want)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.uint16()),
        pa.large_list(pa.int64()),
        pa.list_(pa.list_(pa.int32())),
        pa.list_(pa.int8(), 2),
        pa.int64(),
    ],
    ids=str,
)
def test_columns_of_other_types(kind: pa.DataType, tmp_path: Path) -> None:
    rows: list[object] = [[1, 2], None, [2, 3]]
    if kind == pa.list_(pa.list_(pa.int32())):
        rows = [[[1], [2]], [], [[2, 3]]]
    elif kind == pa.list_(pa.int8(), 2):
        rows = [[1, 2], [2, 3]]  # pyarrow before 26 does not read an absent one back from Parquet
    elif kind == pa.int64():
        rows = [1, 2, 2, 3]
    table = pa.table({"ids": pa.array(rows, kind)})
    for place in write_table(tmp_path, table).values():
        assert counted(read_token_counts(str(place))) == Counter({1: 1, 2: 2, 3: 1})


@pytest.mark.parametrize(
    ("rows", "kind", "said"),
    [
        ([[1, -2]], pa.int64(), "-2 is no token id: ids are from 0 to 16777215"),
        ([[1, 2**24]], pa.int64(), "16777216 is no token id: ids are from 0 to 16777215"),
        ([[2**63]], pa.uint64(), "9223372036854775808 is no token id: ids are from 0 to 16777215"),
        ([[1, None]], pa.int64(), "ids has empty places among its token ids"),
        ([[1.0]], pa.float32(), "ids holds float, not token ids"),
        ([["a"]], pa.string(), "ids holds string, not token ids"),
        ([[]], pa.int64(), "counts no token at all"),
    ],
)
def test_columns_of_what_are_no_ids(rows: list[object], kind: pa.DataType, said: str, tmp_path: Path) -> None:
    table = pa.table({"ids": pa.array(rows, pa.list_(kind))})
    for place in write_table(tmp_path, table).values():
        assert refusal(place) == said


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"x": 1}', "line 1: none of input_ids, token_ids, ids, text, content, messages and conversations is"),
        ("5", "line 1: 5 is neither an object nor a list of ids nor a text"),
        ('\n{"ids": 5}', "line 2: 5 stands where a list of token ids is expected"),
        ('{"ids": [1, 2.5]}', "line 1: 2.5 is no token id"),
        ('{"ids": [true]}', "line 1: True is no token id"),
        ('{"ids": [1, NaN]}', "line 1: nan is no token id"),
        ('{"ids": [99999999999999999999]}', "line 1: 99999999999999999999 is no token id"),
        ('{"ids": [1]}\n{"id": [1]}', "line 2: it has no ids, unlike the lines before it"),
        ('{"ids": [-1]}', "-1 is no token id: ids are from 0 to 16777215"),
        ('{"ids": [1]', "line 1: no JSON"),
        ("[" * 100_000, "line 1: no JSON (it is nested too deep)"),
        ("", "counts no token at all"),
        ("[]", "counts no token at all"),
    ],
)  # fmt: skip
def test_lines_that_hold_no_ids(lines: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(lines, encoding="utf-8")
    assert refusal(tmp_path / "rows.jsonl").startswith(said)


def test_lines_that_are_lists_or_batches_of_one(tmp_path: Path) -> None:
    place = tmp_path / "rows.jsonl"
    place.write_text('[1, 2]\n[]\n[2]\n{"input_ids": [[7, 7]]}\n{"input_ids": null}\n', encoding="utf-8")
    assert counted(read_token_counts(str(place))) == Counter({1: 1, 2: 2, 7: 2})


def test_a_line_of_many_megabytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckptdoctor.tokencounts.corpus._LINE_LIMIT", 100)
    (tmp_path / "rows.jsonl").write_text("[1]\n[" + "1, " * 40 + "1]\n", encoding="utf-8")
    assert refusal(tmp_path / "rows.jsonl") == "line 2: more than 100 bytes in one line"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=st.lists(st.lists(st.integers(0, 700), max_size=30), min_size=1, max_size=12))
def test_every_form_agrees_with_a_plain_recount(rows: list[list[int]], tmp_path: Path) -> None:
    want = as_counter(rows)
    for place in write_ids(tmp_path, rows).values():
        if want:
            assert counted(read_token_counts(str(place))) == want
        else:
            assert refusal(place) == "counts no token at all"


# Text.


@pytest.fixture(params=[byte_level, unigram], ids=["byte-level", "unigram"])
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[object, Path]:
    folder = tmp_path / "target"
    folder.mkdir()
    return request.param(folder), folder / "tokenizer.json"


@pytest.mark.parametrize("column", ["text", "content"])
def test_text(column: str, tokenizer: tuple[object, Path], tmp_path: Path) -> None:
    made, place = tokenizer
    want = as_counter(made.encode(text, add_special_tokens=False).ids for text in TEXTS)  # type: ignore[attr-defined]
    for form, file in write_texts(tmp_path, TEXTS, column).items():  # type: ignore[arg-type]
        found = read_token_counts(str(file), place)
        assert (form, found.kind, counted(found)) == (form, "text", want)


@pytest.mark.parametrize(("column", "names"), [("messages", ("role", "content")), ("conversations", ("from", "value"))])
def test_messages(column: str, names: tuple[str, str], tokenizer: tuple[object, Path], tmp_path: Path) -> None:
    made, place = tokenizer
    rows = [[dict(zip(names, message.values(), strict=True)) for message in talk] for talk in CONVERSATIONS]
    contents = [message["content"] for talk in CONVERSATIONS for message in talk]
    want = as_counter(made.encode(text, add_special_tokens=False).ids for text in contents)  # type: ignore[attr-defined]
    for form, file in write_texts(tmp_path, rows, column).items():  # type: ignore[arg-type]
        assert (form, counted(read_token_counts(str(file), place))) == (form, want)


def test_messages_with_parts_and_calls(tokenizer: tuple[object, Path], tmp_path: Path) -> None:
    made, place = tokenizer
    parts = [{"type": "image", "image": "x"}, {"type": "text", "text": "a picture"}]
    rows = [[{"role": "user", "content": parts}, {"role": "assistant", "content": None}, {"role": "tool"}]]
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"messages": rows[0]}), encoding="utf-8")
    want = Counter(made.encode("a picture", add_special_tokens=False).ids)  # type: ignore[attr-defined]
    assert counted(read_token_counts(str(file), place)) == want


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": 5}', "line 1: 5 stands where text is expected"),
        ('{"messages": [{"who": "a", "says": "b"}]}', "line 1: a message in it has neither content nor value, but who"),
        ('{"text": [[[[["a"]]]]]}', "line 1: ['a'] stands where text is expected"),
        ('{"text": ""}', "counts no token at all"),
    ],
)  # fmt: skip
def test_what_is_no_text(line: str, said: str, tmp_path: Path) -> None:
    byte_level(tmp_path)
    (tmp_path / "rows.jsonl").write_text(line, encoding="utf-8")
    assert refusal(tmp_path / "rows.jsonl", tmp_path / "tokenizer.json").startswith(said)


def test_text_is_counted_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = byte_level(tmp_path)
    want = as_counter(made.encode(text, add_special_tokens=False).ids for text in TEXTS)
    file = write_texts(tmp_path, TEXTS)["jsonl"]  # type: ignore[arg-type]
    monkeypatch.setattr(tokenizing, "_TEXTS_AT_ONCE", 3)
    monkeypatch.setattr(tokenizing, "_CHARACTERS_AT_ONCE", 100)
    assert counted(read_token_counts(str(file), tmp_path / "tokenizer.json")) == want
    monkeypatch.setattr(tokenizing, "_TEXT_LIMIT", 50)
    assert "one text has 62 characters; at most 50" in refusal(file, tmp_path / "tokenizer.json")


def test_half_a_surrogate_pair_is_no_reason_to_stop(tmp_path: Path) -> None:
    made = byte_level(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"text": "a\\ud800b"}', encoding="utf-8")
    want = Counter(made.encode("a?b", add_special_tokens=False).ids)
    assert counted(read_token_counts(str(tmp_path / "rows.jsonl"), tmp_path / "tokenizer.json")) == want


def test_text_needs_a_tokenizer(tmp_path: Path) -> None:
    for file in write_texts(tmp_path, TEXTS).values():  # type: ignore[arg-type]
        assert refusal(file) == "holds text, which needs the target's tokenizer.json (--target PATH)"
        (tmp_path / "tokenizer.json").write_text('{"model": 7}', encoding="utf-8")
        assert "is no tokenizer" in refusal(file, tmp_path / "tokenizer.json")


def test_settings_of_a_training_run_are_not_applied(tmp_path: Path) -> None:
    made = byte_level(tmp_path)
    want = as_counter(made.encode(text, add_special_tokens=False).ids for text in TEXTS)
    made.enable_truncation(3)
    made.enable_padding(length=50)
    made.save(str(tmp_path / "tokenizer.json"))
    file = write_texts(tmp_path, TEXTS)["parquet"]  # type: ignore[arg-type]
    assert counted(read_token_counts(str(file), tmp_path / "tokenizer.json")) == want


# What is absent, and what a path stands for.


@pytest.mark.parametrize(("package", "extra"), [("pyarrow", "data"), ("tokenizers", "text")])
def test_an_extra_that_is_not_installed_is_named(
    package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    byte_level(tmp_path)
    form = "parquet" if package == "pyarrow" else "jsonl"
    file = write_texts(tmp_path, TEXTS)[form]  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, package, None)
    said = refusal(file, tmp_path / "tokenizer.json")
    assert f"needs {package}: pip install 'ckptdoctor[{extra}]'" in said


@pytest.mark.torch
def test_torch_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token_freq.pt").write_bytes(b"PK\x03\x04")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "pip install 'ckptdoctor[torch]'" in refusal(tmp_path / "token_freq.pt")


def test_a_folder_of_shards_and_a_pattern(tmp_path: Path) -> None:
    first, second = ids_of(seed=1), ids_of(seed=2)
    for number, rows in enumerate((first, second)):
        part = tmp_path / f"part{number}"
        part.mkdir()
        write_ids(part, rows)["arrow"].rename(tmp_path / f"data-0000{number}-of-00002.arrow")
    write_ids(tmp_path / "part0", first)["arrow"].rename(tmp_path / "cache-0123.arrow")
    (tmp_path / "dataset_info.json").write_text("{}", encoding="utf-8")
    want = as_counter([*first, *second])
    assert counted(read_token_counts(str(tmp_path))) == want
    assert counted(read_token_counts(f"{tmp_path}/data-*.arrow")) == want
    assert counted(read_token_counts(f"{tmp_path}/data-00000-*.arrow")) == as_counter(first)
    (tmp_path / "more.jsonl").write_text("[1]", encoding="utf-8")
    assert "holds files in .arrow and .jsonl; name those of one kind" in refusal(tmp_path)
    (tmp_path / "counts.json").write_text("[1]", encoding="utf-8")
    assert "its files are of several kinds (ids and json)" in refusal(f"{tmp_path}/[cm]o*.json*")


def test_a_shard_that_is_damaged_is_named(tmp_path: Path) -> None:
    write_ids(tmp_path, ids_of())["jsonl"].rename(tmp_path / "a.jsonl")
    for place in tmp_path.glob("[!a]*"):
        place.unlink()
    (tmp_path / "b.jsonl").write_text("nothing", encoding="utf-8")
    assert f"{tmp_path / 'b.jsonl'}: line 1: no JSON" in refusal(tmp_path)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.json") == "no such file or folder"
    assert refusal(f"{tmp_path}/*.json") == "no such file or folder"
    assert refusal("a\0b").endswith("cannot be opened")
    assert refusal("/dev/null") == "neither a file nor a folder"
    assert (
        refusal(tmp_path) == "the folder has neither a token_freq.pt nor files in .arrow, .parquet, .feather and .jsonl"
    )
    (tmp_path / "counts.csv").write_text("1,2", encoding="utf-8")
    assert "the name of a file with counts or text ends in .pt, .pth, .bin, .json" in refusal(tmp_path / "counts.csv")


# Damaged and hostile Arrow files.


@pytest.mark.parametrize("form", ["parquet", "arrow", "feather", "zstd"])
def test_arrow_files_cut_anywhere_are_refused_or_read_to_the_same_counts(form: str, tmp_path: Path) -> None:
    rows = ids_of(60)
    place = write_ids(tmp_path, rows)[form]
    data, want = place.read_bytes(), as_counter(rows)
    for length in [*range(0, len(data) - 8, max(len(data) // 60, 1))]:
        place.write_bytes(data[:length])
        try:
            found = counted(read_token_counts(str(place)))
        except CannotExamineError:
            continue
        # A stream may end between two batches; nothing in it says how many there were to be.
        assert form == "arrow"
        assert found <= want


@pytest.mark.parametrize("form", ["arrow", "zstd"])
def test_damaged_arrow_files_never_crash(form: str, tmp_path: Path) -> None:
    place = write_ids(tmp_path, ids_of(40))[form]
    data = bytearray(place.read_bytes())
    generator = np.random.default_rng(5)
    for at in generator.integers(0, len(data), 150):
        damaged = bytearray(data)
        damaged[at] ^= int(generator.integers(1, 256))
        place.write_bytes(damaged)
        with contextlib.suppress(CannotExamineError):
            read_token_counts(str(place))


@pytest.mark.parametrize("form", ["parquet", "zstd"])
def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_files, "_BOMB_FROM", 1_000_000)
    table = pa.table({"ids": pa.array([[0] * 4_000_000], pa.list_(pa.int64()))})
    places = {"parquet": tmp_path / "x.parquet", "zstd": tmp_path / "x.feather"}
    parquet.write_table(table, places["parquet"], compression="zstd")
    with pa.OSFile(str(places["zstd"]), "wb") as file:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(file, table.schema, options=options) as writer:
            writer.write_table(table)
    assert "which is no text" in refusal(places[form])


def test_the_unpacked_size_of_messages() -> None:
    table = pa.table({"ids": [[1, 2, 3]] * 5000, "text": pa.array(["a", "b"] * 2500).dictionary_encode()})
    sizes = {}
    for compression in (None, "lz4", "zstd"):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(table)
        reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(sink.getvalue()))
        sizes[compression] = [unpacked_size(m.metadata, m.body) for m in reader if m.type != "schema"]
    assert len(sizes[None]) == 2
    for one, other in zip(sizes["lz4"], sizes["zstd"], strict=True):
        assert one == other
    # Without compression the buffers are padded to eight bytes each.
    assert all(0 <= whole - packed < 64 for whole, packed in zip(sizes[None], sizes["zstd"], strict=True))


@given(st.binary(max_size=80), st.binary(max_size=40))
def test_sizes_of_nonsense_are_an_error_or_a_number(head: bytes, body: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert unpacked_size(head, body) >= 0
