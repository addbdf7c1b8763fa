"""`ckptdoctor vocab show`: real files, exit codes, both formats, and what is told instead."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cli_calls import Capture, bare, show, shown, stored_targets
from cli_drafts import HAS_TORCH, NAMES, ROOT, TRAINERS, draft, target, unsafe, write

from ckptdoctor.cli.main import run

FIXTURES = ROOT / "fixtures" / "vocab"
TARGET, COUNTS = str(FIXTURES / "target"), str(FIXTURES / "token-counts.json")
SPECFORGE = "sf_eagle3_llama_sglang"
HOSTILE = "\x1b[31mred\u202e</text><script>\x9b2J\r\n"


@pytest.mark.parametrize("name", NAMES)
def test_each_trainers_draft_has_a_page(capsys: Capture, name: str, tmp_path: Path) -> None:
    svg = tmp_path / "map.svg"
    out = show(capsys, draft(name), "--target", target(name), "--svg", str(svg))
    assert max(map(len, out.splitlines())) <= 100
    assert "wrong" not in out
    ElementTree.parse(svg)
    found = shown(capsys, draft(name), "--target", target(name))
    assert found["map"] is None or found["map"]["verdict"] in ("right", "identity")


def test_the_page_says_what_the_map_is(capsys: Capture) -> None:
    ids = stored_targets(draft(SPECFORGE))
    found = shown(capsys, draft(SPECFORGE), "--target", TARGET)
    assert (found["draft_vocab_size"], found["vocab_size"]) == (len(ids), 512)
    assert found["map"]["first_targets"] == ids[:8]
    assert found["map"]["confirmed"] == 1
    for span in found["spans"]:
        assert span["held"] == sum(span["first"] <= i <= span["last"] for i in ids)
    assert {t["id"] for t in found["specials"]["outside"]} == {2, 3, 4} - set(ids)
    text = show(capsys, draft(SPECFORGE), "--target", TARGET)
    assert "128 draft ids, 512 target ids (25.0 %)" in text
    assert f"begins     0 → {ids[0]}, 1 → {ids[1]}" in text


def test_coverage_is_that_of_a_plain_recount(capsys: Capture) -> None:
    counts = Counter({int(i): n for i, n in json.loads(Path(COUNTS).read_text()).items()})
    ids = set(stored_targets(draft(SPECFORGE)))
    coverage = shown(capsys, draft(SPECFORGE), "--target", TARGET, "--token-counts", COUNTS)["coverage"]
    total = sum(counts.values())
    assert coverage["total"] == total
    assert coverage["covered"] == sum(n for i, n in counts.items() if i in ids)
    assert coverage["share"] == pytest.approx(sum(n for i, n in counts.items() if i in ids) / total, abs=1e-12)
    for point in coverage["curve"]:
        best = sum(n for _, n in counts.most_common(point["size"]))
        assert point["share"] == pytest.approx(best / total, abs=1e-12)
    worst = next(i for i, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if i not in ids)
    assert coverage["costliest"][0]["id"] == worst
    text = show(capsys, draft(SPECFORGE), "--target", TARGET, "--token-counts", COUNTS)
    assert f"{100 * coverage['share']:.1f} % can be proposed" in text
    assert "Cyrillic" in text


def test_the_picture_has_the_curve_and_the_map(capsys: Capture, tmp_path: Path) -> None:
    svg = tmp_path / "picture.svg"
    args = (draft(SPECFORGE), "--target", TARGET, "--token-counts", COUNTS, "--svg", str(svg))
    assert bare(show(capsys, *args)).endswith(bare(f"picture: {svg}"))
    root = ElementTree.parse(svg).getroot()
    ids = {e.attrib["id"] for e in root.iter() if "id" in e.attrib}
    assert {"reading-0", "reading-1", "reading-2", "best", "now"} <= ids
    first = svg.read_bytes()
    show(capsys, *args)
    assert svg.read_bytes() == first, "a picture may be written again, and is the same"
    assert [p.name for p in tmp_path.iterdir()] == ["picture.svg"]


def test_where_a_picture_may_not_go(capsys: Capture, tmp_path: Path) -> None:
    path = shutil.copytree(TRAINERS / SPECFORGE, tmp_path / "draft")
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    cases = {
        str(path / "map.svg"): "is inside the draft, which is never written to",
        str(path / "model.safetensors"): "is inside the draft, which is never written to",
        str(notes): "exists and is no SVG picture; name another file",
        str(tmp_path): "exists and is no SVG picture; name another file",
        str(tmp_path / "no" / "map.svg"): "the folder for it does not exist",
    }
    for place, sentence in cases.items():
        assert run(["vocab", "show", str(path), "--svg", place]) == 2
        out, err = capsys.readouterr()
        assert (out, err) == ("", f"ckptdoctor: --svg {place}: {sentence}\n")
    assert notes.read_text() == "mine"
    assert sorted(p.name for p in path.iterdir()) == ["PROVENANCE.txt", "config.json", "model.safetensors", "target"]


TORCH_ALONE = pytest.mark.skipif(not HAS_TORCH, reason="needs torch")


@pytest.mark.parametrize("form", ["json", "npy", pytest.param("pt", marks=TORCH_ALONE)])
def test_a_token_map_has_a_page(capsys: Capture, tmp_path: Path, form: str) -> None:
    ids = [101, 4, 3, 47, 102, 5, 300]
    file = tmp_path / f"hot.{form}"
    if form == "json":
        file.write_text(json.dumps(ids))
    elif form == "npy":
        np.save(file, np.array(ids))
    else:
        import torch

        torch.save(ids, file)
    counts = {int(i): n for i, n in json.loads(Path(COUNTS).read_text()).items()}
    svg = tmp_path / "map.svg"
    found = shown(capsys, str(file), "--target", TARGET, "--token-counts", COUNTS, "--svg", str(svg))
    assert found["token_map"]["first"] == ids
    assert found["token_map"]["meaning"] == "ids"
    assert found["coverage"]["covered"] == sum(counts[i] for i in ids)
    assert sum(span["held"] for span in found["spans"]) == len(ids)
    assert {t["id"] for t in found["specials"]["outside"]} == {2}
    assert "token map" in show(capsys, str(file))
    root = ElementTree.parse(svg).getroot()
    assert [e.attrib["id"] for e in root.iter() if e.attrib.get("id", "").startswith("reading")] == ["reading-1"]


@TORCH_ALONE
def test_a_pickle_of_weights_is_a_draft(capsys: Capture, tmp_path: Path) -> None:
    import torch

    file = tmp_path / "pytorch_model.bin"
    torch.save({"d2t": torch.tensor([0, 3, 3]), "lm_head.weight": torch.zeros(3, 4)}, file)
    (tmp_path / "config.json").write_text('{"vocab_size": 16}')
    found = shown(capsys, str(file))
    assert found["token_map"] is None
    assert found["map"]["first_targets"] == [0, 4, 5]


def test_hostile_texts_are_escaped(capsys: Capture, tmp_path: Path) -> None:
    folder = shutil.copytree(FIXTURES / "target", tmp_path / "target")
    data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    data["model"]["vocab"][100][0] = HOSTILE
    data["added_tokens"][4]["content"] = HOSTILE
    (folder / "tokenizer.json").write_text(json.dumps(data))
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["added_tokens_decoder"]["4"]["content"] = HOSTILE
    settings["chat_template"] = HOSTILE
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    counts = tmp_path / f"counts {HOSTILE[:7]}.json"
    shutil.copy(COUNTS, counts)
    svg = tmp_path / "map.svg"
    args = ("--target", str(folder), "--token-counts", str(counts), "--svg", str(svg))
    out = show(capsys, draft(SPECFORGE), *args)
    assert unsafe(out) == set()
    assert r"\x1b[31mred\u202e</text><script>\x9b2J\x0d\x0a" in out
    picture = svg.read_text(encoding="utf-8")
    assert unsafe(picture) == set()
    assert "script" not in {e.tag.rsplit("}", 1)[-1] for e in ElementTree.parse(svg).iter()}
    found = shown(capsys, draft(SPECFORGE), *args)
    assert next(t["text"] for t in found["coverage"]["costliest"] if t["id"] == 100) == HOSTILE
    code = run(["vocab", "build", *args[:4], "--size", "64", "--out", str(tmp_path / "new")])
    told, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert unsafe(told) == set()


def test_one_sentence_instead_of_a_page(capsys: Capture, tmp_path: Path) -> None:
    assert run(["vocab", "show", str(tmp_path / "gone")]) == 3
    assert capsys.readouterr() == ("", f"ckptdoctor: {tmp_path / 'gone'}: no such file or folder\n")
    assert run(["vocab", "show", str(tmp_path)]) == 3
    assert "nothing that looks like a checkpoint" in capsys.readouterr().err
    odd = tmp_path / "odd.json"
    odd.write_text("[1, ")
    assert run(["vocab", "show", str(odd)]) == 3
    assert capsys.readouterr().err == f"ckptdoctor: {odd}: this JSON cannot be read\n"


def test_the_group_lists_its_commands(capsys: Capture) -> None:
    assert run(["vocab", "--help"]) == 0
    out = capsys.readouterr().out
    assert "show" in out
    assert "build" in out


def test_a_damaged_map_still_has_a_page(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "draft"
    folder.mkdir()
    values = np.array([0, 5, 900, -3], dtype="<i8").tobytes()
    write(folder / "model.safetensors", {"d2t": {"dtype": "I64", "shape": [4], "data_offsets": [0, 32]}}, values)
    (folder / "config.json").write_text('{"vocab_size": 16}')
    svg = tmp_path / "map.svg"
    out = show(capsys, str(folder), "--svg", str(svg))
    assert "damaged: some entries are wrong as offsets" in out
    ElementTree.parse(svg)


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from ckptdoctor.cli.main import run; run(['vocab', 'show', '--help']);"
        "heavy = {'numpy', 'rich', 'torch', 'pyarrow', 'tokenizers', 'yaml'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
