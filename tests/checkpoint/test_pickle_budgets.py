"""PyTorch files that would take any time or memory: each ends with a sentence, and nothing of ours is ended by them."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from budget_runs import Run, run_bounded
from checkpoint_files import folder, sound

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.checkpoint.rows import read_rows
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.values.reading import Reader
from ckptdoctor.limits import PICKLE_MEMORY, PICKLE_SECONDS
from ckptdoctor.unknown import Unknown

pytestmark = pytest.mark.torch
CONFIG = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 64}
TIME = f"it takes more than {PICKLE_SECONDS} seconds to read, which no checkpoint does"
MEMORY = f"it takes more than {PICKLE_MEMORY} bytes of memory, which no checkpoint does"


def archive(root: Path, data: bytes, name: str = "pytorch_model.bin") -> Path:
    """A PyTorch file with `data` as its pickle, and one storage of 64 bytes."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.json").write_text(json.dumps(CONFIG))
    with zipfile.ZipFile(root / name, "w") as made:
        made.writestr("m/data.pkl", data)
        made.writestr("m/byteorder", "little")
        made.writestr("m/data/0", bytes(64))
        made.writestr("m/version", "3\n")
    return root


def doubled_tuples(depth: int) -> bytes:
    """A dictionary whose key is twice the same tuple, and so on: its text has 2^depth parts."""
    made = b"\x80\x02}(K\x01q\x00"
    for _ in range(depth):
        made += b"h\x00\x86q\x00"  # with what the memo has: a pair of the last pair
    return made + b"K\x01u."


def doubled_lists(depth: int) -> bytes:
    made = b"\x80\x02]q\x00"
    for number in range(1, depth):
        made += b"0]q" + bytes([number]) + b"(h" + bytes([number - 1]) + b"h" + bytes([number - 1]) + b"e"
    return made + b"."


MANY_BYTES = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05" + struct.pack("<q", 3 * 10**9)[:5] + b"\x85R."
HOSTILE = {
    "three gigabytes": (MANY_BYTES, 3),
    "half a gigabyte, again and again": (
        b"\x80\x02](" + (b"cbuiltins\nbytearray\n\x8a\x04" + struct.pack("<i", 10**8) + b"\x85R") * 30 + b"e.",
        3,
    ),
    "a key without end": (doubled_tuples(60), 3),
    "lists without end": (b"\x80\x02" + b"]" * 60_000 + b"a" * 59_999 + b".", 1),
    "lists of lists": (doubled_lists(60), 1),
    "a number without end": (
        b"\x80\x02\x8b" + struct.pack("<i", 200_000) + b"\x7f" * 200_000 + b".",
        1,
    ),
}


def ended(run: Run) -> None:
    assert run.code in (1, 3), run
    assert "Traceback" not in run.err
    assert run.memory < 2 << 30
    assert len(run.out) + len(run.err) < 20_000


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_pickle_ends_with_a_sentence(kind: str, tmp_path: Path, torch: ModuleType) -> None:  # noqa: ARG001
    data, code = HOSTILE[kind]
    run = run_bounded("scan", archive(tmp_path / "draft", data), memory=0)
    ended(run)
    assert run.code in (code, 1) if b"bytearray" in data else run.code == code, run
    if run.code == 3:
        assert any(words in " ".join((run.out + run.err).split()) for words in (TIME, MEMORY)), run


def test_the_files_after_a_hostile_one_are_read(tmp_path: Path, torch: ModuleType) -> None:
    bad = archive(tmp_path / "bad", doubled_tuples(60))
    good = tmp_path / "good"
    good.mkdir()
    torch.save({"a": torch.arange(3)}, good / "model.pt")
    for _ in range(2):
        with pytest.raises(CannotExamineError, match="which no checkpoint does"):
            open_checkpoint(str(bad))
        assert list(open_checkpoint(str(good)).tensors) == ["a"]


def test_shapes_that_strides_claim_have_no_values(tmp_path: Path, torch: ModuleType) -> None:
    root = folder(tmp_path / "draft", config__json=json.dumps(CONFIG).encode())
    claims = {f"layers.{i}.mlp.down_proj.weight": torch.ones(1).expand(10**6, 10**6) for i in range(100)}
    torch.save({**claims, "small": torch.ones(1).expand(4, 4)}, root / "pytorch_model.bin")
    assert (root / "pytorch_model.bin").stat().st_size < 50_000
    checkpoint = open_checkpoint(str(root))
    held = checkpoint.pickled("layers.0.mlp.down_proj.weight")
    assert held is not None
    assert held.problem is not None
    assert "its shape claims 4000000000000 bytes" in held.problem
    small = checkpoint.pickled("small")
    assert small is not None
    assert b"".join(small.pieces(3)) == np.ones(16, dtype=np.float32).tobytes()
    assert run_bounded("scan", root, "--deep", memory=0).code == 0  # the shapes are told, their values are not read


def test_many_views_of_one_storage_are_read_up_to_a_bound(tmp_path: Path, torch: ModuleType) -> None:
    base = torch.zeros(1_000_000)
    torch.save({f"t{i}": base[i:] for i in range(400)}, tmp_path / "model.pt")
    checkpoint = open_checkpoint(str(tmp_path))
    held = [checkpoint.pickled(name) for name in checkpoint.tensors]
    readable = [tensor for tensor in held if tensor is not None and tensor.problem is None]
    assert 16 <= len(readable) < 40


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_that_is_cut_after_it_was_opened_ends_nothing(tmp_path: Path, torch: ModuleType, zipped: bool) -> None:
    state = {"w": torch.ones(5000, 64), "d2t": torch.arange(4000), "t": torch.ones(64, 500).t()}
    torch.save(state, tmp_path / "model.pt", _use_new_zipfile_serialization=zipped)
    checkpoint = open_checkpoint(str(tmp_path))
    assert not isinstance(checkpoint.integers("d2t"), Unknown)
    os.truncate(tmp_path / "model.pt", 5000)
    assert isinstance(checkpoint.integers("d2t"), Unknown)
    assert isinstance(read_rows(checkpoint, checkpoint.tensors["w"], np.array([4999])), Unknown)
    for name in ("w", "t"):
        with pytest.raises(CannotExamineError, match="changed while it was examined"):
            list(Reader(checkpoint).pieces(checkpoint.tensors[name]))


def test_a_process_is_started_only_where_a_pickle_is_read(tmp_path: Path) -> None:
    code = """
import sys
from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.checkpoint.pickled import reader
open_checkpoint(sys.argv[1])
print(reader._reader is None, "torch" in sys.modules)
"""
    root = folder(tmp_path, model__safetensors=sound("a"), pytorch_model__bin=b"no pickle at all")
    run = subprocess.run([sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "False"]


def test_the_reading_process_takes_nothing_from_the_folder_of_the_person(
    tmp_path: Path, torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save({"a": torch.arange(3)}, tmp_path / "model.pt")
    for name in ("torch", "numpy", "json", "ckptdoctor", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    code = "from ckptdoctor.checkpoint import open_checkpoint; print(list(open_checkpoint('.').tensors))"
    run = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == "['a']"
    assert not (tmp_path / "ran").exists()


def test_the_process_ends_with_ours(tmp_path: Path, torch: ModuleType) -> None:
    torch.save({"a": torch.arange(3)}, tmp_path / "model.pt")
    code = (
        "import sys, warnings; warnings.simplefilter('error')\n"
        "from ckptdoctor.checkpoint import open_checkpoint\nfrom ckptdoctor.checkpoint.pickled import reader\n"
        "open_checkpoint(sys.argv[1]); print(reader._reader.process.pid)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(run.stdout), 0)


def test_a_plain_pickle_of_the_old_form_is_bounded_too(tmp_path: Path, torch: ModuleType) -> None:
    root = tmp_path / "old"
    root.mkdir()
    magic, protocol = pickle.dumps(0x1950A86A20F9469CFC6C, 2), pickle.dumps(1001, 2)
    (root / "model.pt").write_bytes(magic + protocol + pickle.dumps({"little_endian": True}, 2) + MANY_BYTES)
    ended(run_bounded("scan", root, memory=0))
    torch.save({"a": torch.ones(3)}, root / "model.pt", _use_new_zipfile_serialization=False)
    held = open_checkpoint(str(root)).pickled("a")
    assert held is not None
    assert held.data(0, 3) == np.ones(3, dtype=np.float32).tobytes()
