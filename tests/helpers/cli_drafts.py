"""The real drafts of `fixtures/trainers`, and changed copies of them."""

from __future__ import annotations

import importlib.util
import json
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema

ROOT = Path(__file__).parents[2]
TRAINERS = ROOT / "fixtures" / "trainers"
HAS_TORCH = importlib.util.find_spec("torch") is not None
NAMES = tuple(
    sorted(p.name for p in TRAINERS.iterdir() if p.is_dir() and (HAS_TORCH or (p / "model.safetensors").exists()))
)
"""The drafts that can be read here: a pickled one needs torch."""

SCHEMA = json.loads((ROOT / "rules" / "schema" / "report.schema.json").read_text(encoding="utf-8"))
REPORT = jsonschema.Draft202012Validator(SCHEMA)
PLAN = jsonschema.Draft202012Validator({"$defs": SCHEMA["$defs"], "$ref": "#/$defs/plan"})

HOSTILE_NAMES = (
    "layers.0.\x1b[31mred\x1b[0m.weight",
    "bidi\u202edne\u2066.weight",
    "line\r\nbreak\x07.weight",
    "\x9b2Jclear.weight",
    "[red]markup[/red].weight",
)
"""Names that could colour, reorder, break or erase what a terminal shows."""
SAFE_NAMES = (
    r"layers.0.\x1b[31mred\x1b[0m.weight",
    r"bidi\u202edne\u2066.weight",
    r"line\x0d\x0abreak\x07.weight",
    r"\x9b2Jclear.weight",
    "[red]markup[/red].weight",
)


def draft(name: str) -> str:
    return str(TRAINERS / name)


def target(name: str) -> str:
    return str(TRAINERS / name / "target")


def header(file: Path) -> dict[str, Any]:
    """The header of a safetensors file, read without ckptdoctor."""
    data = file.read_bytes()
    found: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return found


def stored_names(folder: str) -> set[str]:
    return {n for file in Path(folder).glob("*.safetensors") for n in header(file) if n != "__metadata__"}


def copy(name: str, to: Path, config: Mapping[str, Any] | None = None, extra: Sequence[str] = ()) -> str:
    """A copy of a draft with other values in its config, and with further tensors of one BF16 zero."""
    shutil.copytree(TRAINERS / name, to)
    if config is not None:
        file = to / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **config}), encoding="utf-8")
    if extra:
        file = to / "model.safetensors"
        data, entries = file.read_bytes(), header(file)
        body = data[8 + int.from_bytes(data[:8], "little") :]
        for tensor in extra:
            entries[tensor] = {"dtype": "BF16", "shape": [1], "data_offsets": [len(body), len(body) + 2]}
            body += b"\0\0"
        write(file, entries, body)
    return str(to)


def write(file: Path, entries: Mapping[str, Any], body: bytes) -> None:
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + body)


def plain_model(to: Path) -> str:
    """A whole small language model of two layers, which is no draft."""
    to.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 16,
        "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 32,
    }  # fmt: skip
    (to / "config.json").write_text(json.dumps(config), encoding="utf-8")
    shapes = {"model.embed_tokens.weight": [32, 8], "model.norm.weight": [8], "lm_head.weight": [32, 8]}
    for n in range(2):
        layer = f"model.layers.{n}."
        shapes |= {f"{layer}self_attn.{p}_proj.weight": [8, 8] for p in "qkvo"}
        shapes |= {f"{layer}mlp.{p}_proj.weight": [16, 8] for p in ("gate", "up")}
        shapes |= {f"{layer}mlp.down_proj.weight": [8, 16]}
        shapes |= {f"{layer}{p}_layernorm.weight": [8] for p in ("input", "post_attention")}
    entries, end = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    write(to / "model.safetensors", entries, bytes(end))
    return str(to)


def unsafe(text: str) -> set[str]:
    """The characters of `text` that a terminal may act on, line ends aside."""
    return {c for c in text if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
