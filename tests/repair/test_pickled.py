"""PyTorch files as safetensors: the same bytes under the same names, in parts, and what is not converted."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from treatment_cases import answer, draft_of, plan, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.publish.pieces import Range, Stream
from ckptdoctor.repair import pickled
from ckptdoctor.repair.edits import ConvertPickle, DropTensor, OmitFile, RewriteIndex
from ckptdoctor.repair.fixing import fix
from ckptdoctor.repair.plan.case import Case, Proposal, RefusedError
from ckptdoctor.repair.plan.treatments_known import code_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

INDEX = "model.safetensors.index.json"


def tensors_of(dialect: str = "eagle-eagle3") -> dict[str, Any]:
    """The tensors of a healthy draft as torch tensors."""
    kinds = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "I64": torch.int64, "BOOL": torch.bool}
    made = draft_of(dialect).tensors
    return {n: torch.frombuffer(bytearray(t.data), dtype=kinds[t.dtype]).reshape(t.shape) for n, t in made.items()}


def saved(folder: Path, files: dict[str, Any], config: dict[str, Any] | None = None) -> Path:
    """A draft whose weights are these PyTorch files."""
    draft = draft_of("eagle-eagle3")
    draft.config = {**(draft.config or {}), **(config or {})}
    write(draft, folder)
    (folder / "model.safetensors").unlink()
    for name, content in files.items():
        torch.save(content, folder / name)
    return folder


def stored_bytes(tensor: Any) -> bytes:
    """What safetensors stores for a tensor, by torch alone."""
    data: bytes = tensor.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return data


def taken(folder: Path, name: str) -> list[bytes]:
    """The parts of a tensor as the writer takes them."""
    checkpoint = open_checkpoint(str(folder))
    parts: list[bytes] = []
    for piece in pickled.pieces_of(checkpoint, checkpoint.tensors[name]):
        if isinstance(piece, Range):
            parts.append(piece.path.read_bytes()[piece.start : piece.end])
            continue
        assert isinstance(piece, Stream)
        assert piece.source == (folder / "pytorch_model.bin").resolve()
        chunks = [bytes(chunk) for chunk in piece.chunks()]
        assert sum(map(len, chunks)) == piece.length
        assert all(0 < len(chunk) <= max(pickled.CHUNK, 8) for chunk in chunks)
        parts += chunks
    return parts


def refused(folder: Path) -> str:
    checkpoint = open_checkpoint(str(folder))
    with pytest.raises(RefusedError) as error:
        code_of("convert-pickle")(Case(checkpoint, describe(checkpoint, None), reads=True))
    return error.value.key


# --- bytes --------------------------------------------------------------------------------------------------------

BASE = torch.arange(6 * 40, dtype=torch.float32).reshape(6, 40)
SHAPES = {
    "contiguous": BASE,
    "transposed": BASE.t(),
    "columns": BASE[:, 3:7],
    "rows": BASE[2:4],
    "every second": BASE[::2, ::3],
    "expanded": BASE[:1].expand(5, 40),
    "permuted": BASE.reshape(2, 3, 40).permute(2, 0, 1),
    "scalar": torch.tensor(1.5),
    "empty": torch.zeros(0, 4),
    "one": torch.ones(1, 1, 1),
    "bfloat16": BASE.to(torch.bfloat16).t(),
    "float8": BASE.to(torch.float8_e4m3fn),
    "float64": BASE.double().t(),
    "bool": BASE > 7,
    "int64": BASE.long().t(),
    "uint8": BASE.to(torch.uint8).t(),
    "complex64": torch.complex(BASE, -BASE),
    "conjugate": torch.complex(BASE, -BASE).conj().resolve_conj(),
    "complex transposed": torch.complex(BASE, -BASE).t(),
}


@pytest.mark.parametrize("chunk", [16, 40, 64, 4 << 20])
@pytest.mark.parametrize("kind", SHAPES)
def test_the_bytes_are_those_of_the_tensor(
    kind: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickled, "CHUNK", chunk)
    folder = saved(tmp_path, {"pytorch_model.bin": {"x": SHAPES[kind], "y": torch.ones(1)}})
    assert b"".join(taken(folder, "x")) == stored_bytes(SHAPES[kind])


def test_a_view_is_written_without_the_rest_of_its_storage(tmp_path: Path) -> None:
    large = torch.arange(1_000_000, dtype=torch.int32)
    folder = saved(tmp_path, {"pytorch_model.bin": {"view": large[10:20], "y": torch.ones(1)}})
    assert taken(folder, "view") == [stored_bytes(large[10:20])]


def test_a_file_of_the_old_form_is_read_too(tmp_path: Path) -> None:
    folder = saved(tmp_path, {})
    torch.save({"x": BASE.t()}, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert b"".join(taken(folder, "x")) == stored_bytes(BASE.t())


@pytest.mark.parametrize("kind", ["contiguous", "rows", "bfloat16", "float8", "complex64", "bool", "one"])
def test_a_mapped_tensor_is_copied_from_its_place_in_the_file(kind: str, tmp_path: Path) -> None:
    tensor = SHAPES[kind].contiguous() if kind == "bfloat16" else SHAPES[kind]
    folder = saved(tmp_path, {"pytorch_model.bin": {"x": tensor, "y": torch.ones(1)}})
    checkpoint = open_checkpoint(str(folder))
    (piece,) = pickled.pieces_of(checkpoint, checkpoint.tensors["x"])
    assert isinstance(piece, Range)
    assert piece.path == (folder / "pytorch_model.bin").resolve()
    assert piece.path.read_bytes()[piece.start : piece.end] == stored_bytes(tensor)


@pytest.mark.parametrize("kind", ["transposed", "columns", "expanded"])
def test_a_tensor_that_is_not_in_one_piece_is_read(kind: str, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(saved(tmp_path, {"pytorch_model.bin": {"x": SHAPES[kind]}})))
    (piece,) = pickled.pieces_of(checkpoint, checkpoint.tensors["x"])
    assert isinstance(piece, Stream)


def test_a_file_in_the_other_byte_order_is_read_and_not_copied(tmp_path: Path) -> None:
    folder = saved(tmp_path, {"pytorch_model.bin": {"x": torch.zeros(4096), "y": BASE}})
    path, turned = folder / "pytorch_model.bin", folder / "turned.bin"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(turned, "w") as new:
        for entry in old.infolist():
            data = b"big" if entry.filename.endswith("/byteorder") else old.read(entry)
            new.writestr(entry.filename, data)
    turned.replace(path)
    checkpoint = open_checkpoint(str(folder))
    (piece,) = pickled.pieces_of(checkpoint, checkpoint.tensors["x"])
    assert isinstance(piece, Stream)
    (piece,) = pickled.pieces_of(checkpoint, checkpoint.tensors["y"])
    assert isinstance(piece, Stream)
    assert b"".join(piece.chunks()) == BASE.numpy().byteswap().tobytes()


# --- convert-pickle -----------------------------------------------------------------------------------------------


def test_one_file_becomes_model_safetensors(tmp_path: Path) -> None:
    folder = saved(tmp_path, {"pytorch_model.bin": tensors_of()})
    told = answer(folder, "ART035")
    assert isinstance(told, Proposal)
    assert (told.safety, told.edits) == ("safe", (ConvertPickle("pytorch_model.bin", "model.safetensors"),))
    assert plan(folder).steps == ()


def test_a_training_state_gives_its_draft_alone(tmp_path: Path) -> None:
    state = {"draft_state_dict": tensors_of(), "global_step": 7, "optimizer": {"state": {0: {"exp_avg": BASE}}}}
    told = answer(saved(tmp_path, {"training_state.pt": state}), "ART033")
    assert isinstance(told, Proposal)
    assert (told.safety, told.edits) == ("safe", (ConvertPickle("training_state.pt", "model.safetensors"),))
    assert told.summary.endswith("global_step and optimizer stay behind.")


def in_two(folder: Path, index: bool) -> Path:
    every = tensors_of()
    names = sorted(every)
    files = {f"pytorch_model-0000{n + 1}-of-00002.bin": {k: every[k] for k in names[n::2]} for n in range(2)}
    saved(folder, files)
    if index:
        weight_map = {name: file for file, held in files.items() for name in held}
        text = json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map})
        (folder / "pytorch_model.bin.index.json").write_text(text)
    return folder


@pytest.mark.parametrize("index", [True, False])
def test_several_files_keep_their_numbers_and_get_an_index(index: bool, tmp_path: Path) -> None:
    told = answer(in_two(tmp_path, index), "ART035")
    assert isinstance(told, Proposal)
    files = [
        ConvertPickle(f"pytorch_model-0000{n}-of-00002.bin", f"model-0000{n}-of-00002.safetensors") for n in (1, 2)
    ]
    assert told.edits == (*files, *([OmitFile("pytorch_model.bin.index.json")] if index else []), RewriteIndex(INDEX))


@pytest.mark.parametrize("parts", [1, 2])
def test_the_copy_holds_the_same_tensors_for_an_independent_reader(parts: int, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    folder, out = tmp_path / "draft", tmp_path / "copy"
    wanted = tensors_of()
    if parts == 1:
        saved(folder, {"pytorch_model.bin": {**wanted, "fc.weight": wanted["fc.weight"].t().contiguous().t()}})
    else:
        in_two(folder, True)
    fix(folder, out, target=folder / "target", select=("convert-pickle",))
    names = sorted(p.name for p in out.glob("*.safetensors"))
    assert len(names) == parts
    assert not list(out.glob("*.bin*"))
    read = {k: (n, v) for n in names for k, v in safetensors.load_file(out / n).items()}
    assert set(read) == set(wanted)
    assert all(v.dtype == wanted[k].dtype and torch.equal(v, wanted[k]) for k, (_, v) in read.items())
    if parts == 2:
        weight_map = json.loads((out / INDEX).read_text())["weight_map"]
        assert weight_map == {k: n for k, (n, _) in read.items()}


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"x": torch.ones(2, dtype=torch.complex128)}, "dtype"),
        ({"x": torch.eye(3).to_sparse()}, "no_bytes"),
        ({"x": torch.ones(3, device="meta")}, "no_bytes"),
        ({"model": {"a": BASE, "b": BASE}, "ema": {"a": BASE, "b": BASE}}, "rivals"),
        ({"model": {"a": BASE, "b": BASE}, "head": BASE}, "rivals"),
        ({"a": BASE, "b": BASE, "momentum": {"a": BASE}}, "rivals"),
    ],
)
def test_what_safetensors_cannot_hold_or_is_not_sure_is_not_converted(content: Any, key: str, tmp_path: Path) -> None:
    assert refused(saved(tmp_path, {"pytorch_model.bin": content})) == key


def test_files_that_are_not_sure_to_be_one_draft_are_not_converted(tmp_path: Path) -> None:
    assert refused(saved(tmp_path / "a", {"part1.pt": {"x": BASE}, "part2.pt": {"y": BASE}})) == "names"
    twice = {"pytorch_model-00001-of-00002.bin": {"x": BASE}, "pytorch_model-00002-of-00002.bin": {"x": BASE}}
    assert refused(saved(tmp_path / "b", twice)) == "twice"
    assert refused(saved(tmp_path / "c", {"pytorch_model-00001-of-00002.bin": {"x": BASE}})) == "missing"
    folder = saved(tmp_path / "d", {"pytorch_model.bin": {"x": BASE}})
    (folder / "pytorch_model.bin").write_bytes((folder / "pytorch_model.bin").read_bytes()[:-30])
    assert refused(folder) == "damaged"
    folder = in_two(tmp_path / "e", True)
    (folder / INDEX).mkdir()
    assert refused(folder) == "taken"
    folder = saved(tmp_path / "f", {"pytorch_model.bin": {"x": BASE}})
    (folder / "model.safetensors").mkdir()
    assert refused(folder) == "taken"
    assert refused(write(draft_of(), tmp_path / "g")) == "none"


# --- shared storage -----------------------------------------------------------------------------------------------


def whole_model(**names: Any) -> dict[str, Any]:
    layer = {f"model.layers.0.self_attn.{p}_proj.weight": torch.ones(64, 64) for p in "qkvo"}
    return {**layer, "model.norm.weight": torch.ones(64), **names}


EMBEDDING = torch.arange(512 * 64, dtype=torch.float32).reshape(512, 64)
PLAIN = {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True}


def conversion(folder: Path) -> tuple[Any, ...]:
    checkpoint = open_checkpoint(str(folder))
    edits: tuple[Any, ...] = code_of("convert-pickle")(Case(checkpoint, describe(checkpoint, None), reads=True)).edits
    return edits


def test_the_tied_head_of_a_whole_model_is_stored_once(tmp_path: Path) -> None:
    tied = whole_model(**{"model.embed_tokens.weight": EMBEDDING, "lm_head.weight": EMBEDDING})
    folder = saved(tmp_path, {"pytorch_model.bin": tied}, PLAIN)
    assert DropTensor("lm_head.weight") in conversion(folder)


@pytest.mark.parametrize("case", ["not tied", "another matrix", "a part of it", "a draft"])
def test_two_matrices_stay_two(case: str, tmp_path: Path) -> None:
    head = {"another matrix": EMBEDDING + 1, "a part of it": EMBEDDING[:128]}.get(case, EMBEDDING)
    content = whole_model(**{"model.embed_tokens.weight": EMBEDDING, "lm_head.weight": head})
    config = PLAIN | {"tie_word_embeddings": case != "not tied"}
    if case == "a draft":
        shared = tensors_of()["lm_head.weight"]
        content = {**tensors_of(), "embed_tokens.weight": shared, "lm_head.weight": shared}
        config = {"tie_word_embeddings": True}
    assert not [
        e for e in conversion(saved(tmp_path, {"pytorch_model.bin": content}, config)) if isinstance(e, DropTensor)
    ]


def test_names_that_share_a_storage_are_each_written_whole(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    shared = torch.arange(100, dtype=torch.float32)
    folder, out = tmp_path / "draft", tmp_path / "copy"
    content = {**tensors_of(), "one": shared[:60].reshape(6, 10), "two": shared[40:]}
    fix(saved(folder, {"pytorch_model.bin": content}), out, target=folder / "target", select=("convert-pickle",))
    read = safetensors.load_file(out / "model.safetensors")
    assert torch.equal(read["one"], content["one"])
    assert torch.equal(read["two"], content["two"])
