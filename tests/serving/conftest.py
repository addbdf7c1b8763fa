"""Small drafts made for one test."""

from __future__ import annotations

import json
import math
import shutil
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from measuring.plans import CONFIG, Make, Shapes
from story_drafts import DEPTH, TRAINERS, draft, facts_of, target

from ckptdoctor.facts import Facts


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """A draft of zeros with these tensors and this config (a value of `...` takes a key out)."""

    def make(shapes: Shapes, **config: Any) -> Path:
        folder = tmp_path / "draft"
        folder.mkdir(exist_ok=True)
        values = {key: value for key, value in {**CONFIG, **config}.items() if value is not ...}
        (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
        header: dict[str, Any] = {}
        end = 0
        for name, shape in shapes.items():
            size = math.prod(shape) * (8 if name == "d2t" else 2)
            header[name] = {
                "dtype": "I64" if name == "d2t" else "BF16",
                "shape": list(shape),
                "data_offsets": [end, end + size],
            }
            end += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
        return folder

    return make


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """An EAGLE-3 draft with ids, of a target of 61 layers that every engine counts in one way."""
    folder = tmp_path_factory.mktemp("training")
    of = target(folder / "target", "LlamaForCausalLM", DEPTH, "llama")
    return facts_of(draft(folder / "draft", [3, 7, 11]), of)


Edit = Callable[..., Path]


@pytest.fixture
def edited(tmp_path: Path) -> Edit:
    """A copy of a trainer's draft with another config, other names, or tensors of zeros added."""

    def edit(
        name: str,
        *,
        config: Mapping[str, Any] | None = None,
        rename: Mapping[str, str] | None = None,
        drop: tuple[str, ...] = (),
        add: Mapping[str, tuple[int, ...]] | None = None,
    ) -> Path:
        folder = tmp_path / name
        shutil.copytree(TRAINERS / name, folder)
        place = folder / "config.json"
        changed = {**json.loads(place.read_text(encoding="utf-8")), **(config or {})}
        place.write_text(json.dumps({k: v for k, v in changed.items() if v != "absent"}), encoding="utf-8")
        weights = folder / "model.safetensors"
        content = weights.read_bytes()
        start = 8 + struct.unpack("<Q", content[:8])[0]
        tensors: list[tuple[str, str, tuple[int, ...], bytes]] = []
        for key, entry in json.loads(content[8:start]).items():
            if key == "__metadata__" or key in drop:
                continue
            for old, new in (rename or {}).items():
                key = new + key.removeprefix(old) if key.startswith(old) else key  # noqa: PLW2901
            begin, end = entry["data_offsets"]
            tensors.append((key, entry["dtype"], entry["shape"], content[start + begin : start + end]))
        tensors += [(key, "BF16", shape, bytes(2 * math.prod(shape))) for key, shape in (add or {}).items()]
        header, offset = {}, 0
        for key, dtype, shape, data in tensors:
            header[key] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
            offset += len(data)
        head = json.dumps(header).encode()
        head += b" " * (-len(head) % 8)
        weights.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(t[3] for t in tensors))
        return folder

    return edit
