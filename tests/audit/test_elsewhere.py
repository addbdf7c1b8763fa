"""Trees that fsspec reaches: the same result as on this machine, by reading headers and small tensors alone."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from audit_trees import HEALTHY, SICK, audited, draft, rows_of
from builder import build
from recipe_cases import RECIPES

from ckptdoctor.audit.elsewhere import fsspec_folder, fsspec_places
from ckptdoctor.audit.roots import roots_of
from ckptdoctor.errors import CkptdoctorError

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("elsewhere") / "drafts"
    draft(root / "a" / "healthy")
    draft(root / "b" / "sick", SICK)
    build(RECIPES[HEALTHY], root / "c")
    shutil.move(root / "c" / "target", root / "llama")
    shutil.rmtree(root / "c")
    return root


def plain(lines: list[bytes], root: str) -> dict[str, object]:
    return {
        key: (row["outcome"], json.loads(json.dumps(row["report"]).replace(root, "ROOT")), bool(row["target"]))
        for key, row in rows_of(lines).items()
    }


def test_a_zip_and_a_file_address_give_what_the_folder_gives(tree: Path, tmp_path: Path) -> None:
    _, here = audited(tree)
    archive = tmp_path / "drafts.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(tree.rglob("*")):
            packed.write(path, path.relative_to(tree.parent))
    expected = plain(here, str(tree))
    assert [row[0] for row in expected.values()] == ["scanned", "scanned"]
    summary, there = audited(f"file://{tree}")
    assert plain(there, f"file://{tree}") == expected
    assert summary.targets == {f"file://{tree}/llama": 2}
    _, packed_rows = audited(f"zip://drafts::file://{archive}")
    rows = rows_of(packed_rows)
    assert rows["sick"]["path"] == f"zip://drafts/b/sick::file://{archive}"
    for row in rows.values():
        inner = str(row["path"]).partition("::")[0]
        text = json.dumps(row["report"]).replace(f"zip://drafts/llama::file://{archive}", "ROOT/llama")
        row["report"] = json.loads(text.replace(str(row["path"]), inner.replace("zip://drafts", "ROOT")))
    assert {key: row["report"] for key, row in rows.items()} == {key: row[1] for key, row in expected.items()}  # type: ignore[index]


def test_weights_are_not_read() -> None:
    files = fsspec.filesystem("memory")
    header = json.dumps({"fc.weight": {"dtype": "F32", "shape": [1024, 1024], "data_offsets": [0, 4 << 20]}}).encode()
    files.pipe("/far/one/model.safetensors", len(header).to_bytes(8, "little") + header + bytes(4 << 20))
    files.pipe("/far/one/config.json", b"{}")
    (place,) = fsspec_places("memory://far", "far")
    assert (place.key, place.path) == ("far/one", "memory://far/one")
    folder = fsspec_folder(place)
    with folder.open("model.safetensors") as stream:
        assert stream.read(8) == len(header).to_bytes(8, "little")
        assert stream.read(len(header)) == header
    files.pipe("/far/one/config.json", b'{"a": 1}')
    (changed,) = fsspec_places("memory://far", "far")
    assert changed.mark != place.mark


@pytest.mark.parametrize("address", ["memory://nowhere", "nosuchprotocol://x", "file:///no/such/folder"])
def test_an_address_that_leads_nowhere_is_told(address: str) -> None:
    with pytest.raises(CkptdoctorError, match=r"no such folder|Protocol not known"):
        list(fsspec_places(address, "x"))


def test_roots_are_taken_once(tmp_path: Path) -> None:
    for name in ("a/models", "b/models", "a/models/inner"):
        (tmp_path / name).mkdir(parents=True)
    a, b = str(tmp_path / "a" / "models"), str(tmp_path / "b" / "models")
    assert [(r.address, r.label) for r in roots_of([a, f"{a}/", f"{a}/inner"])] == [(a, "models")]
    assert [r.label for r in roots_of([a, b])] == [a, b]
    assert [(r.kind, r.label) for r in roots_of(["hf://org", "s3://bucket/x"])] == [
        ("hub", "org"), ("fsspec", "s3://bucket/x"),
    ]  # fmt: skip
    with pytest.raises(CkptdoctorError, match="no such folder"):
        roots_of([str(tmp_path / "c")])
