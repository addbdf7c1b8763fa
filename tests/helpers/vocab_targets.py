"""A target on disk, small and whole: config, weights, tokenizer, chat template, end tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

VOCABULARY, WIDTH = 400, 24
END_OF_TEXT, TURN_START, TURN_END, TOOL_CALL, RESERVED = 395, 396, 397, 398, 399
ENDS = (TURN_END, END_OF_TEXT)
DIGITS = tuple(range(10))
BYTES = tuple(range(20, 36))
NEVER = 36
"""The token of a byte that no UTF-8 text has."""
SPECIALS = {
    END_OF_TEXT: "<|endoftext|>", TURN_START: "<|im_start|>", TURN_END: "<|im_end|>", TOOL_CALL: "<tool_call>",
    RESERVED: "<|reserved|>",
}  # fmt: skip
FORCED = frozenset({END_OF_TEXT, TURN_START, TURN_END, TOOL_CALL, *DIGITS, *BYTES})
"""Whatever a chat writes or ends with, digits and bytes; not the reserved token."""


def write_tensors(file: Path, tensors: Mapping[str, tuple[str, npt.NDArray[Any]]]) -> None:
    """A safetensors file, written without ckptdoctor."""
    entries, body = {}, b""
    for name, (dtype, values) in tensors.items():
        data = values.tobytes()
        ends = [len(body), len(body) + len(data)]
        entries[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": ends}
        body += data
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + body)


def read_tensors(file: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """Dtype, shape and bytes of each tensor, read without ckptdoctor."""
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:start])
    entries.pop("__metadata__", None)
    return {
        name: (e["dtype"], e["shape"], data[start + e["data_offsets"][0] : start + e["data_offsets"][1]])
        for name, e in entries.items()
    }


def tokenizer_data() -> dict[str, Any]:
    pieces = [f"▁w{i}" for i in range(VOCABULARY)]
    for i in DIGITS:
        pieces[i] = str(i)
    for i in BYTES:
        pieces[i] = f"<0x{i:02X}>"
    pieces[NEVER] = "<0xFF>"
    added = [{"id": i, "content": text, "special": True} for i, text in SPECIALS.items()]
    return {"added_tokens": added, "model": {"type": "Unigram", "vocab": [[piece, 0.0] for piece in pieces]}}


def head_rows(seed: int = 0) -> npt.NDArray[np.uint16]:
    """Random bits for a BF16 head: bytes are compared, not numbers."""
    return np.random.default_rng(seed).integers(0, 0x3F80, (VOCABULARY, WIDTH), dtype=np.uint16)


def make_target(
    folder: Path, *, weights: bool = True, tokenizer: bool = True, config: Mapping[str, Any] | None = None
) -> Path:
    folder.mkdir(parents=True)
    fields = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "num_hidden_layers": 2,
        "vocab_size": VOCABULARY, "eos_token_id": TURN_END, **(config or {}),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps({k: v for k, v in fields.items() if v is not None}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": list(ENDS)}))
    if tokenizer:
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer_data()))
        settings = {
            "eos_token": "<|im_end|>",
            "added_tokens_decoder": {str(i): {"content": text} for i, text in SPECIALS.items()},
            "chat_template": "<|im_start|>{{ content }}<tool_call><|im_end|>",
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if weights:
        write_tensors(
            folder / "model.safetensors",
            {"model.embed_tokens.weight": ("BF16", head_rows(1)), "lm_head.weight": ("BF16", head_rows())},
        )
    return folder


def zipf_counts(seed: int = 3) -> npt.NDArray[np.int64]:
    """Counts with long ties, in which special tokens never occur."""
    counts = (50_000 / np.arange(1, VOCABULARY + 1)).astype(np.int64)
    counts = np.random.default_rng(seed).permutation(counts)
    counts[list(SPECIALS)] = 0
    return counts


def write_counts(file: Path, counts: npt.NDArray[np.int64]) -> Path:
    file.write_text(json.dumps({str(i): int(n) for i, n in enumerate(counts.tolist()) if n}))
    return file


def plainly(counts: list[int], size: int, forced: set[int]) -> list[int]:
    """The choice in plain Python: the forced ones, then the most frequent, of equals the lower id."""
    rest = sorted(set(range(len(counts))) - forced, key=lambda i: (-counts[i], i))
    return sorted([*forced, *rest[: size - len(forced)]])
