"""Real tokenizers and corpora for the tests of token counts, and the plain recounts that they are held to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.tokencounts.token_counts import TokenCounts, read_token_counts

__all__ = [
    "CONVERSATIONS",
    "TEXTS",
    "as_counter",
    "byte_level",
    "counted",
    "ids_of",
    "refusal",
    "unigram",
    "write_ids",
    "write_texts",
]

TEXTS = [
    "The quick brown fox jumps over the lazy dog, 1234 times a day.",
    "def main():\n    return 42  # the answer\n",
    "Привет, мир! Как у тебя дела сегодня?",
    "今日は良い天気ですね。你好，世界。",
    "안녕하세요 세계",
    "नमस्ते दुनिया",
    "مرحبا بالعالم",
    "emoji 😀😃 and <|im_end|> in a text",
    "",
    "   \n\n",
] * 7

CONVERSATIONS = [
    [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": "It is 4."}],
    [{"role": "user", "content": "Привет"}, {"role": "assistant", "content": "Привет! Чем помочь?"}],
] * 9


def byte_level(folder: Path) -> Tokenizer:
    """A byte-level BPE tokenizer, as tokenizer.json in `folder`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_tokens(["<tool_call>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def unigram(folder: Path) -> Tokenizer:
    """A Unigram tokenizer with byte fallback (`<0xNN>`), as tokenizer.json in `folder`."""
    known = Tokenizer(models.Unigram())
    known.pre_tokenizer = pre_tokenizers.Metaspace()
    known.train_from_iterator(
        TEXTS[:2],
        trainers.UnigramTrainer(vocab_size=60, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False),
    )
    pieces = json.loads(known.to_str())["model"]["vocab"]
    scores = [("<unk>", 0.0), *((f"<0x{byte:02X}>", -20.0) for byte in range(256)), *((p, s) for p, s in pieces[1:])]
    tokenizer = Tokenizer(models.Unigram(scores, 0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def ids_of(rows: int = 200, vocabulary: int = 400, seed: int = 3) -> list[list[int]]:
    """Rows of token ids, some of them empty, in which small ids are frequent."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 40, rows)
    return [[int(i) for i in generator.geometric(0.02, n).clip(1, vocabulary) - 1] for n in lengths]


def as_counter(rows: Iterable[Iterable[int]]) -> Counter[int]:
    """The plain recount."""
    return Counter(token for row in rows for token in row)


def write_ids(folder: Path, rows: list[list[int]], column: str = "input_ids") -> dict[str, Path]:
    """`rows` in every form of file that holds ids: by ending, with the two forms of Arrow."""
    table = pa.table({"loss_mask": pa.array([[0] * len(row) for row in rows], pa.list_(pa.int64())),
                      column: pa.array(rows, pa.list_(pa.int32()))})  # fmt: skip
    return {**write_table(folder, table), "jsonl": _lines(folder, [{"loss_mask": [], column: row} for row in rows])}


def write_texts(folder: Path, rows: list[object], column: str = "text") -> dict[str, Path]:
    """The same for text or messages."""
    return {**write_table(folder, pa.table({column: rows})), "jsonl": _lines(folder, [{column: row} for row in rows])}


def write_table(folder: Path, table: pa.Table) -> dict[str, Path]:
    """`table` as Parquet in several row groups, as an Arrow stream in several batches, and as two Feather files."""
    places = {name: folder / f"rows.{name}" for name in ("parquet", "arrow", "feather")}
    places["zstd"] = folder / "packed.feather"
    parquet.write_table(table, places["parquet"], row_group_size=70)
    with pa.OSFile(str(places["arrow"]), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=30)
    feather.write_feather(table, str(places["feather"]), chunksize=50)
    feather.write_feather(table, str(places["zstd"]), compression="zstd")
    return places


def _lines(folder: Path, rows: list[dict[str, object]]) -> Path:
    place = folder / "rows.jsonl"
    place.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")
    return place


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
