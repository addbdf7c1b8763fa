"""Files on the Hub are read in parts, and hostile ones are not fetched."""

from __future__ import annotations

import contextlib
import gc
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from gate_drafts import SICK, draft
from hub_server import Hub
from registries.hub_drafts import MEGABYTE, large_draft, refusal, told

from ckptdoctor.checkpoint.remote import HEAD_LIMIT
from ckptdoctor.errors import CannotExamineError, CkptdoctorError
from ckptdoctor.scanning import scan


def test_a_server_that_sends_whole_files_is_not_read_to_their_end(hub: Hub, tmp_path: Path) -> None:
    large_draft(tmp_path / "large")
    hub.add("org/large", tmp_path / "large")

    def whole(request: Any) -> bool:
        del request.headers["Range"]
        return False

    hub.meddle = whole
    assert "the server does not send parts of files; download it first (hf download org/large" in refusal(
        "hf://org/large"
    )
    assert hub.moved < 30 * MEGABYTE  # what fits between the two ends of a connection


def other_bytes(request: Any) -> bool:
    """The CDN has another file of the same size from the second request on."""
    if not request.route.startswith("/cdn/") or not request.hub.ranges:
        return False
    request.hub.ranges.append(("", ""))
    size = request.hub.repositories["org/large"].commits[request.route.split("/")[4]]["model.safetensors"].size
    start, end = (int(n) for n in request.headers["Range"].removeprefix("bytes=").split("-"))
    request.send(206, b"\0" * (end + 1 - start), Content_Range=f"bytes {start}-{end}/{size}", ETag='"another"')
    return True


def other_size(request: Any) -> bool:
    if request.route.startswith("/cdn/"):
        request.send(206, b"\0" * 65536, Content_Range="bytes 0-65535/65536")
    return request.route.startswith("/cdn/")


def gone(request: Any) -> bool:
    if request.route.startswith("/cdn/"):
        request.send(416, b"")
    return request.route.startswith("/cdn/")


def other_commit(request: Any) -> bool:
    if "/resolve/" in request.route:
        request.send(206, b"\0" * 65536, X_Repo_Commit="0" * 40)
    return "/resolve/" in request.route


@pytest.mark.parametrize("meddle", [other_bytes, other_size, gone, other_commit])
def test_a_file_that_changes_between_requests_is_not_judged(hub: Hub, meddle: Any, tmp_path: Path) -> None:
    large_draft(tmp_path / "large")
    hub.add("org/large", tmp_path / "large")
    hub.meddle = meddle
    assert "the file is not the one that was listed; it changed meanwhile, try again" in refusal("hf://org/large")


def test_compressed_answers_are_refused(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/draft", draft(tmp_path / "draft"))

    def compressed(request: Any) -> bool:
        if request.route.startswith("/cdn/"):
            request.send(200, b"", Content_Encoding="gzip")
        return request.route.startswith("/cdn/")

    hub.meddle = compressed
    assert "the server compresses what it sends" in refusal("hf://org/draft")


def test_a_hostile_header_is_found_without_being_fetched(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "draft")
    for length, rule in ((2**40, "ART005"), (2**64 - 1, "ART005"), (99_000_000, "ART004")):
        with (model / "model.safetensors").open("r+b") as stream:
            stream.write(length.to_bytes(8, "little"))
        hub.add("org/draft", model)
        found = scan("hf://org/draft")
        assert told(found) == told(scan(model))
        assert rule in {f.rule for f in found.findings}
    assert hub.moved < MEGABYTE


def test_a_long_header_of_a_whole_file_is_not_called_damaged(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "draft")
    with (model / "model.safetensors").open("r+b") as stream:
        stream.write((90_000_000).to_bytes(8, "little"))
        stream.truncate(200_000_000)
    hub.add("org/draft", model)
    assert "more than 32 MB of it would have to be read over the network; download it first" in refusal(
        "hf://org/draft"
    )
    assert hub.moved < MEGABYTE


def test_a_config_of_100_mb_is_found_without_being_fetched(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "draft")
    with (model / "config.json").open("r+b") as stream:
        stream.truncate(100 * 1024 * 1024)
    hub.add("org/draft", model)
    assert told(scan("hf://org/draft")) == told(scan(model))
    assert hub.moved < MEGABYTE


def test_pickles_and_gguf_files_are_not_called_damaged(hub: Hub) -> None:
    hub.add("org/pickle", {"pytorch_model.bin": b"\x80\x02", "config.json": b"{}"})
    said = refusal("hf://org/pickle")
    assert said == (
        "hf://org/pickle@main/pytorch_model.bin: PyTorch files are not read over the network; download it first"
        " (hf download org/pickle --local-dir FOLDER)"
    )
    hub.add("org/gguf", {"draft.gguf": b"GGUF" + bytes(5000)})
    assert "damaged" not in str(told(scan("hf://org/gguf")))


def test_special_tokens_are_read_from_the_top_of_a_large_tokenizer(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "draft")
    added = [
        {"id": 3, "content": "<|eot_id|>", "special": True},
        {"id": 4, "content": "<|end_of_text|>", "special": True},
    ]
    vocabulary = {f"piece{i}": i for i in range(5, 20_000)}
    data = json.dumps({"version": "1.0", "added_tokens": added, "model": {"type": "BPE", "vocab": vocabulary}}).encode()
    assert len(data) > HEAD_LIMIT
    (model / "tokenizer.json").write_bytes(data)
    hub.add("org/draft", model)
    there, here = scan("hf://org/draft"), scan(model)
    assert told(there) == told(here)
    skipped = {s.rule: s.needs for s in there.skipped}
    assert skipped["TOK003"] == (
        f"hf://org/draft@main/tokenizer.json on this machine ({len(data)} bytes are not read over the network)"
    )
    assert hub.moved < MEGABYTE


def test_values_of_weights_and_repairs_need_the_files_here(hub: Hub, tmp_path: Path) -> None:
    from ckptdoctor import fix

    model = draft(tmp_path / "draft", SICK)
    hub.add("org/draft", model)
    assert "values of weights (--deep, --against) are not read over the network" in refusal("hf://org/draft", deep=True)
    assert "hf://org/draft: values of weights" in refusal(str(model), target="hf://org/draft", deep=True)
    assert "download it first (hf download org/draft)" in refusal(str(model), against="hf://org/draft")
    with pytest.raises(CkptdoctorError, match="download it first"):
        fix("hf://org/draft", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert scan("hf://org/draft").next_commands == (
        "ckptdoctor explain VOC001",
        "hf download org/draft --revision main --local-dir FOLDER",
        "ckptdoctor fix FOLDER --out NEW",
        "ckptdoctor scan hf://org/draft@main --target PATH-OF-THE-TARGET",
    )


def test_hostile_lists_of_files_name_nothing_outside(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "draft")
    files = {p.name: p.read_bytes() for p in model.iterdir()}
    hub.add("org/draft", {**files, "../../etc/passwd": b"x", "/etc/shadow": b"y", "..": b"z", "a\x1b[31m\u202e": b""})
    assert told(scan("hf://org/draft")) == told(scan(model))
    assert not any("etc" in line for line in hub.asked)


def test_nothing_is_left_on_the_disk(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    (tmp_path / "private").mkdir()
    hub.add("org/draft", draft(tmp_path / "draft"))
    for path in ("hf://org/draft", "hf://org/nope"):
        with contextlib.suppress(CannotExamineError):
            scan(path)
    gc.collect()
    assert list((tmp_path / "private").iterdir()) == []
