"""PyTorch files: read through torch without running anything, and refused with a reason."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from checkpoint_files import LFS, folder, index, sound

from ckptdoctor.checkpoint import Checkpoint, Fault, open_checkpoint, pickles
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.unknown import Unknown

ROOT = Path(__file__).parents[2]


class Payload:
    """A pickle of this object runs a command when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def the_fault(root: Path) -> Fault:
    checkpoint = open_checkpoint(str(root))
    (fault,) = checkpoint.faults
    assert not checkpoint.names_sound
    assert checkpoint.tensors == {}
    assert "weights_only" not in fault.detail
    assert "trust" not in fault.detail
    return fault


def values(checkpoint: Checkpoint, name: str) -> list[int]:
    found = checkpoint.integers(name)
    assert not isinstance(found, Unknown)
    return [int(value) for value in found]


@pytest.mark.torch
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "draft.pt", "model.pth", os.fsdecode(b"m\xff.bin")])
def test_both_forms_of_a_torch_file(tmp_path: Path, torch: ModuleType, zipped: bool, name: str) -> None:
    state = {"w": torch.zeros(2, 3, dtype=torch.bfloat16), "d2t": torch.arange(4)}
    with (tmp_path / name).open("wb") as stream:
        torch.save(state, stream, _use_new_zipfile_serialization=zipped)
    checkpoint = open_checkpoint(str(tmp_path))
    assert (checkpoint.kind, checkpoint.faults, checkpoint.files) == ("pickle", (), (name,))
    assert [(t.name, t.dtype, t.shape, t.start) for t in checkpoint.tensors.values()] == [
        ("w", "BF16", (2, 3), None),
        ("d2t", "I64", (4,), None),
    ]
    assert values(checkpoint, "d2t") == [0, 1, 2, 3]
    assert values(checkpoint, "w") == [0] * 6


@pytest.mark.torch
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("forced", [None, "1"])
def test_a_payload_does_not_run(
    tmp_path: Path, torch: ModuleType, zipped: bool, forced: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if forced:
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", forced)
    marker = tmp_path / "marker"
    root = tmp_path / "draft"
    root.mkdir()
    torch.save({"a": Payload(marker)}, root / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    fault = the_fault(root)
    assert (fault.kind, fault.file, fault.found) == ("pickle_objects", "pytorch_model.bin", f"{os.name}.system")
    assert not marker.exists()
    # The payload is live: an unsafe load would run it.
    torch.load(root / "pytorch_model.bin", weights_only=False)
    assert marker.exists()


@pytest.mark.torch
def test_a_plain_pickle_with_a_payload_does_not_run(tmp_path: Path, torch: ModuleType) -> None:  # noqa: ARG001
    marker = tmp_path / "marker"
    root = folder(tmp_path / "draft", model__pt=pickle.dumps({"a": Payload(marker)}))
    assert the_fault(root).kind in ("pickle_objects", "pickle_damaged")
    assert not marker.exists()


@pytest.mark.torch
def test_objects_are_named(tmp_path: Path, torch: ModuleType) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    fault = the_fault(tmp_path)
    assert (fault.kind, fault.found) == ("pickle_objects", "torch.nn.modules.linear.Linear")
    assert fault.detail == "it holds torch.nn.modules.linear.Linear"


@pytest.mark.torch
def test_nested_states(tmp_path: Path, torch: ModuleType) -> None:
    state = {"epoch": 3, "model": {"a": torch.zeros(1), "b": torch.zeros(2)}, "step": torch.zeros(1)}
    torch.save(state, tmp_path / "model.pt")
    checkpoint = open_checkpoint(str(tmp_path))
    assert checkpoint.nested_in == "model"
    assert checkpoint.state_keys == ("epoch", "step")
    assert list(checkpoint.tensors) == ["a", "b"]
    assert checkpoint.faults == ()


@pytest.mark.torch
@pytest.mark.parametrize("content", [[], {}, {"a": 1}, {"a": {"b": "c"}}, "text", 3])
def test_no_tensors(tmp_path: Path, torch: ModuleType, content: Any) -> None:
    torch.save(content, tmp_path / "model.pt")
    fault = the_fault(tmp_path)
    assert (fault.kind, fault.detail) == ("pickle_without_tensors", type(content).__name__)


@pytest.mark.torch
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_truncated_files(tmp_path: Path, torch: ModuleType, zipped: bool, part: float) -> None:
    place = tmp_path / "model.pt"
    torch.save({f"t{i}": torch.zeros(100) for i in range(9)}, place, _use_new_zipfile_serialization=zipped)
    os.truncate(place, int(place.stat().st_size * part))
    assert the_fault(tmp_path).kind == "pickle_damaged"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"", "empty_file", ""),
        (LFS, "lfs_pointer", "git-lfs"),
        (b"hello", "pickle_damaged", "neither like a zip archive nor like a pickle"),
        (b"PK\x03\x04nope", "pickle_damaged", "the archive is damaged"),
        (b"\x80\x02nope", "pickle_damaged", ""),
        (pickle.dumps({"a": [1]}, 4), "pickle_damaged", ""),
    ],
)
def test_what_is_no_torch_file(
    tmp_path: Path,
    torch: ModuleType,  # noqa: ARG001
    content: bytes,
    kind: str,
    words: str,
) -> None:
    fault = the_fault(folder(tmp_path, model__pt=content))
    assert fault.kind == kind
    assert words in fault.detail


@pytest.mark.torch
def test_an_archive_that_unpacks_to_much_more_is_not_unpacked(tmp_path: Path, torch: ModuleType) -> None:  # noqa: ARG001
    with zipfile.ZipFile(tmp_path / "model.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x/data.pkl", "w") as stream:
            for _ in range(pickles.PICKLE_INFLATED // 2**20 + 1):
                stream.write(bytes(2**20))
        archive.writestr("x/version", "3")
    assert (tmp_path / "model.pt").stat().st_size < 2**20
    fault = the_fault(tmp_path)
    assert fault.kind == "pickle_damaged"
    assert "no checkpoint" in fault.detail


@pytest.mark.torch
def test_a_directory_of_an_archive_is_bounded(
    tmp_path: Path, torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save({f"t{i}": torch.zeros(1) for i in range(9)}, tmp_path / "model.pt")
    monkeypatch.setattr(pickles, "PICKLE_DIRECTORY", 200)
    assert "directory of the archive is too large" in the_fault(tmp_path).detail


@pytest.mark.torch
def test_an_old_file_that_is_too_large_is_not_read(tmp_path: Path, torch: ModuleType) -> None:  # noqa: ARG001
    folder(tmp_path, model__pt=b"\x80\x02")
    os.truncate(tmp_path / "model.pt", pickles.PICKLE_WHOLE + 1)
    with pytest.raises(CannotExamineError, match="has to be read whole"):
        open_checkpoint(str(tmp_path))


@pytest.mark.torch
@pytest.mark.parametrize("part", ["", "pytorch_model.bin.index.json"])
def test_sharded_pickles(tmp_path: Path, torch: ModuleType, part: str) -> None:
    torch.save({"a": torch.zeros(1), "both": torch.tensor([1])}, tmp_path / "pytorch_model-00001-of-00002.bin")
    torch.save({"b": torch.zeros(1), "both": torch.tensor([2])}, tmp_path / "pytorch_model-00002-of-00002.bin")
    weight_map = {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}
    (tmp_path / "pytorch_model.bin.index.json").write_text(index(**weight_map, both=weight_map["b"]))
    checkpoint = open_checkpoint(str(tmp_path / part))
    assert checkpoint.kind == "pickle"
    assert [f.kind for f in checkpoint.faults] == ["tensor_in_two_files"]
    assert sorted(checkpoint.tensors) == ["a", "b", "both"]
    # The two files hold different values, and nothing here says which of them an engine keeps.
    assert checkpoint.tensors["both"].file == weight_map["a"]
    assert checkpoint.integers("both") == Unknown("which of the files that hold both counts")


@pytest.mark.torch
def test_a_pickle_beside_the_safetensors(tmp_path: Path, torch: ModuleType) -> None:
    root = folder(tmp_path, model__safetensors=sound("a"))
    torch.save({"x": torch.zeros(1)}, root / "pytorch_model.bin")
    checkpoint = open_checkpoint(str(root))
    assert (checkpoint.kind, checkpoint.beside) == ("safetensors", ("pytorch_model.bin",))
    assert checkpoint.beside_names == ("x",)
    assert checkpoint.faults == ()
    (root / "pytorch_model.bin").write_bytes(b"damaged")
    assert isinstance(open_checkpoint(str(root)).beside_names, Unknown)


@pytest.mark.torch
@pytest.mark.parametrize("odd", ["sparse", "meta", "expanded", "float8", "complex", "uint16"])
def test_values_of_odd_tensors(tmp_path: Path, torch: ModuleType, odd: str) -> None:
    tensor = {
        "sparse": lambda: torch.eye(3).to_sparse(),
        "meta": lambda: torch.zeros(3, device="meta"),
        "expanded": lambda: torch.zeros(1).expand(2**40),
        "float8": lambda: torch.zeros(3).to(torch.float8_e4m3fn),
        "complex": lambda: torch.zeros(3, dtype=torch.complex64),
        "uint16": lambda: torch.ones(3, dtype=torch.uint16),
    }[odd]()
    torch.save({"d2t": tensor}, tmp_path / "model.pt")
    checkpoint = open_checkpoint(str(tmp_path))
    assert checkpoint.tensors["d2t"].shape == tuple(tensor.shape)
    if odd == "uint16":
        assert values(checkpoint, "d2t") == [1, 1, 1]
    else:
        assert isinstance(checkpoint.integers("d2t"), Unknown)


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, *_):
        if name == "torch" or name.startswith("torch."):
            raise {error}
sys.meta_path.insert(0, Block())
from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import CannotExamineError
try:
    print(open_checkpoint(sys.argv[1]).beside_names)
except CannotExamineError as error:
    print(error)
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize(
    ("error", "reason"),
    [("ImportError('no')", "torch is not installed"), ("OSError('libcudart.so')", "cannot be imported: libcudart.so")],
)
def test_without_torch(tmp_path: Path, error: str, reason: str) -> None:
    def run(root: Path) -> str:
        command = [sys.executable, "-c", BLOCKED.replace("{error}", error), str(root)]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout

    said = run(folder(tmp_path / "one", pytorch_model__bin=b"PK\x03\x04"))
    assert said.count("\n") == 1
    assert "reading pytorch_model.bin needs torch 2.6 or newer: pip install 'ckptdoctor[torch]'" in said
    assert reason in said
    beside = folder(tmp_path / "two", model__safetensors=sound("a"), pytorch_model__bin=b"PK\x03\x04")
    assert "the torch extra, to read pytorch_model.bin" in run(beside)


@pytest.mark.parametrize(
    ("version", "usable"),
    [("2.6.0", True), ("2.13.1+cpu", True), ("3.0", True), ("2.5.1", False), ("1.13.0a0", False), ("nightly", False)],
)
def test_the_release_of_torch(monkeypatch: pytest.MonkeyPatch, version: str, usable: bool) -> None:
    fake = ModuleType("torch")
    fake.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", fake)
    assert (pickles.torch_problem() is None) == usable
