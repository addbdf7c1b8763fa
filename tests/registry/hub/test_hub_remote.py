"""Scans of drafts on the Hub: the findings of a local scan, for a few kilobytes, and a sentence for what goes wrong."""

from __future__ import annotations

import contextlib
import gc
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gate_drafts import HEALTHY, SICK, WARNED, draft
from hub_server import Hub, connected

from ckptdoctor.checkpoint.remote import HEAD_LIMIT
from ckptdoctor.errors import CannotExamineError, CkptdoctorError
from ckptdoctor.findings import Examination
from ckptdoctor.registry import judge_tree
from ckptdoctor.registry.gate import gate_policy
from ckptdoctor.scanning import scan, scan_paths

MEGABYTE = 1_000_000


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with connected(monkeypatch) as server:
        yield server


def told(examination: Examination) -> list[tuple[Any, ...]]:
    return [(f.rule, f.severity, f.confidence, f.message, f.location) for f in examination.findings]


def refusal(path: str, **more: Any) -> str:
    with pytest.raises(CannotExamineError) as caught:
        scan(path, **more)
    return str(caught.value)


def written(path: Path, tensors: dict[str, tuple[str, list[int], bytes | int]]) -> int:
    """A sparse safetensors file; of a tensor given by its size, the bytes are a hole. Its size is returned."""
    entries, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        size = data if isinstance(data, int) else len(data)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        for name, (_, _, data) in tensors.items():
            if isinstance(data, bytes):
                stream.seek(8 + len(header) + entries[name]["data_offsets"][0])
                stream.write(data)
        stream.truncate(8 + len(header) + at)
    return 8 + len(header) + at


def large_draft(folder: Path) -> int:
    """An EAGLE-3 draft of Llama 3.1 8B with its embedding in float32: over 2 GB, of which two maps are no holes."""
    h, v, d, m = 4096, 128256, 32000, 14336
    matrices = {
        "midlayer.self_attn.q_proj": (h, 2 * h), "midlayer.self_attn.k_proj": (1024, 2 * h),
        "midlayer.self_attn.v_proj": (1024, 2 * h), "midlayer.self_attn.o_proj": (h, h), "fc": (h, 3 * h),
        "midlayer.mlp.gate_proj": (m, h), "midlayer.mlp.up_proj": (m, h), "midlayer.mlp.down_proj": (h, m),
        "lm_head": (d, h),
    }  # fmt: skip
    norms = ("midlayer.hidden_norm", "midlayer.input_layernorm", "midlayer.post_attention_layernorm", "norm")
    targets = np.arange(d, dtype=np.int64) * 4
    mask = np.zeros(v, dtype=np.bool_)
    mask[targets] = True
    tensors: dict[str, tuple[str, list[int], bytes | int]] = {
        "embed_tokens.weight": ("F32", [v, h], v * h * 4),
        **{f"{name}.weight": ("BF16", [a, b], a * b * 2) for name, (a, b) in matrices.items()},
        **{f"{name}.weight": ("BF16", [h], h * 2) for name in norms},
        "d2t": ("I64", [d], (targets - np.arange(d)).tobytes()),
        "t2d": ("BOOL", [v], mask.tobytes()),
    }
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": h, "vocab_size": v,
        "draft_vocab_size": d, "intermediate_size": m, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 1, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "torch_dtype": "bfloat16", "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 15, 28]},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return written(folder / "model.safetensors", tensors)


def test_a_draft_of_2_gb_moves_less_than_1_mb_and_its_maps(hub: Hub, tmp_path: Path) -> None:
    size = large_draft(tmp_path / "large")
    (tmp_path / "large" / "tokenizer.json").write_bytes(b"{" + b" " * 20_000_000 + b"}")
    hub.add("org/large", tmp_path / "large")
    found = scan("hf://org/large")
    maps = 32000 * 8 + 128256
    assert size > 2_000_000_000
    assert hub.moved < MEGABYTE + maps
    assert told(found) == told(scan(tmp_path / "large"))
    assert [f.rule for f in found.findings if f.severity.value == "error"] == []
    weights = [asked for path, asked in hub.ranges if path == "model.safetensors"]
    assert weights[0] == "bytes=0-65535"
    assert len(weights) == 3  # the header, and each map


@pytest.mark.parametrize("recipe", [SICK, HEALTHY, WARNED, "specforge-eagle3"])
def test_a_scan_there_finds_what_a_scan_here_finds(hub: Hub, recipe: str, tmp_path: Path) -> None:
    hub.add("org/draft", draft(tmp_path / "draft", recipe))
    here, there = scan(tmp_path / "draft"), scan("hf://org/draft")
    assert told(there) == told(here)
    assert [(s.rule, s.needs) for s in there.skipped] == [(s.rule, s.needs) for s in here.skipped]
    commit = hub.repositories["org/draft"].branches["main"]
    assert (there.path, there.title) == ("hf://org/draft@main", f"{here.title}, commit {commit[:12]}")


def test_a_target_is_read_there_too(hub: Hub, tmp_path: Path) -> None:
    from builder import build
    from recipe_cases import RECIPES

    build(RECIPES["specforge-eagle3"], tmp_path / "draft")
    hub.add("org/target", tmp_path / "draft" / "target")
    there = scan(tmp_path / "draft", target="hf://org/target")
    here = scan(tmp_path / "draft", target=tmp_path / "draft" / "target")
    assert told(there) == told(here)
    assert there.target == {**(here.target or {}), "path": "hf://org/target"}


def test_everything_is_asked_of_one_commit(hub: Hub, tmp_path: Path) -> None:
    first = hub.add("org/draft", draft(tmp_path / "healthy"))
    sick = draft(tmp_path / "sick", SICK)

    def pushed_in_between(request: Any) -> bool:
        if "/resolve/" in request.route and len(hub.repositories["org/draft"].commits) == 1:
            hub.add("org/draft", sick)
        return False

    hub.meddle = pushed_in_between
    assert told(scan("hf://org/draft")) == told(scan(tmp_path / "healthy"))
    assert {line.split("/")[4] for line in hub.asked if "/resolve/" in line} == {first}
    assert told(scan("hf://org/draft")) == told(scan(sick))
    assert told(scan(f"hf://org/draft@{first}")) == told(scan(tmp_path / "healthy"))


def test_branches_with_a_slash_are_revisions(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/draft", draft(tmp_path / "healthy"))
    hub.add("org/draft", draft(tmp_path / "sick", SICK), branch="refs/pr/1")
    found = scan("hf://org/draft@refs/pr/1")
    assert (found.path, told(found)) == ("hf://org/draft@refs/pr/1", told(scan(tmp_path / "sick")))


def test_private_repositories_are_read_with_the_token_which_never_leaves_the_hub(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/draft", draft(tmp_path / "draft"))
    hub.repositories["org/draft"].private = True
    assert told(scan("hf://org/draft")) == told(scan(tmp_path / "draft"))
    assert any(line.startswith("GET /cdn/") for line in hub.asked)
    assert hub.tokens_at_cdn == []
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert "there is no such repository, or it is private" in refusal("hf://org/draft")


ANSWERS = [
    (404, "RepoNotFound", {}, "there is no such repository, or it is private; look at its name, then log in"),
    (403, "GatedRepo", {}, "access is given on request; ask for it on http://127.0.0.1:"),
    (404, "RevisionNotFound", {}, "org/draft has no branch, tag or commit main"),
    (401, "", {}, "the Hub does not know you; log in with `hf auth login`, or set HF_TOKEN"),
    (403, "", {}, "your token may not do that"),
    (429, "", {"Retry_After": "42"}, "too many requests of yours; try again in 42 seconds"),
    (418, "", {}, "the Hub answered with status 418"),
]


@pytest.mark.parametrize("place", ["/api/models/", "/resolve/"])
@pytest.mark.parametrize(("status", "code", "headers", "sentence"), ANSWERS)
def test_answers_that_say_no_become_a_sentence(
    hub: Hub, place: str, status: int, code: str, headers: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    hub.add("org/draft", draft(tmp_path / "draft"))

    def refuse(request: Any) -> bool:
        if place in request.route:
            request.error(status, code, "no", **headers)
        return place in request.route

    hub.meddle = refuse
    said = refusal("hf://org/draft")
    assert sentence in said
    assert said.startswith("hf://org/draft@main")
    assert sum(place in line for line in hub.asked) == 1


def failing(hub: Hub, times: int, how: Any) -> None:
    left = [times]

    def meddle(request: Any) -> bool:
        if "/resolve/" in request.route and request.route.endswith("config.json") and left[0]:
            left[0] -= 1
            how(request)
            return True
        return False

    hub.meddle = meddle


def cut(request: Any) -> None:
    request.send_response(206)
    request.send_header("Content-Length", "500")
    request.send_header("Content-Range", "bytes 0-499/500")
    request.end_headers()
    request.write(b"{" * 100)
    request.close_connection = True


def busy(request: Any) -> None:
    request.error(503, "", "overloaded")


@pytest.mark.parametrize("how", [cut, busy])
def test_what_fails_twice_is_asked_a_third_time_and_not_more(hub: Hub, how: Any, tmp_path: Path) -> None:
    model = draft(tmp_path / "draft")
    text = json.dumps(json.loads((model / "config.json").read_text())).encode()
    (model / "config.json").write_bytes(text[:500] if len(text) < 500 else json.dumps({"a": "b" * 491}).encode()[:500])
    assert (model / "config.json").stat().st_size == 500
    hub.add("org/draft", model)
    failing(hub, 2, how)
    assert told(scan("hf://org/draft")) == told(scan(model))
    hub.asked.clear()
    failing(hub, 99, how)
    said = refusal("hf://org/draft")
    assert said.startswith("hf://org/draft@main/config.json: ")
    assert ("the Hub could not be reached" in said) or ("not able to answer now (status 503)" in said)
    assert sum(line.endswith("config.json") for line in hub.asked) == 3


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


@pytest.mark.parametrize(
    "path", ["hf://", "hf://org/name/sub", "hf://datasets/org/name", "hf://org/name/x.safetensors"]
)
def test_only_whole_models_are_named(hub: Hub, path: str) -> None:
    assert "models on the Hub are named hf://org/name or hf://org/name@revision" in refusal(path)
    assert hub.asked == []


@pytest.mark.parametrize("path", ["hf://org/na me", "hf://-/x", "hf://org/..", "hf://org/\x1b[31m"])
def test_names_that_the_hub_cannot_have_are_refused_before_it_is_asked(hub: Hub, path: str) -> None:
    said = refusal(path)
    assert "no name that the Hub knows" in said
    assert "\x1b" not in said
    assert [line for line in hub.asked if "/models/" in line] == []


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


def test_a_failing_path_does_not_stop_the_others(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/draft", draft(tmp_path / "draft"))
    paths = ["hf://org/nope", "hf://org/draft"]
    report = scan_paths(paths, target=None, rules=(), select=(), ignore=())
    assert [e.path for e in report.examinations] == ["hf://org/draft@main"]
    assert [path for path, _ in report.failed] == ["hf://org/nope"]


def test_a_gate_can_take_its_target_from_the_hub(hub: Hub, tmp_path: Path) -> None:
    from dataclasses import replace

    from builder import build
    from recipe_cases import RECIPES

    build(RECIPES["positions-fewer-than-target"], tmp_path / "draft")
    hub.add("org/target", tmp_path / "draft" / "target")
    policy = replace(gate_policy(None), target="hf://org/target")
    verdict = judge_tree(draft(tmp_path / "model", "positions-fewer-than-target"), policy, "org/draft")
    assert verdict.outcome == "warned"
    hub.repositories.clear()
    with pytest.raises(CkptdoctorError, match="there is no such repository"):
        judge_tree(tmp_path / "model", policy, "org/draft")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"<html>", "the answer is not one of the Hub; look at HF_ENDPOINT"),
        (b"[]", "the answer is not one of the Hub; look at HF_ENDPOINT"),
        (b'{"id": "org/draft", "siblings": [{}]}', "the answer is not one of the Hub; look at HF_ENDPOINT"),
        (b'{"id": "org/draft", "sha": "main"}', "the Hub does not say which commit that is"),
        (b'{"id": "org/draft", "sha": "%b", "siblings": [{"rfilename": "a"}]}' % (b"0" * 40), "how large a is"),
    ],
)
def test_an_answer_in_another_form_is_no_error_of_ours(hub: Hub, answer: bytes, sentence: str) -> None:
    def other(request: Any) -> bool:
        if "/api/models/" in request.route:
            request.send(200, answer)
        return "/api/models/" in request.route

    hub.meddle = other
    assert sentence in refusal("hf://org/draft")


def test_nothing_is_left_on_the_disk(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    (tmp_path / "private").mkdir()
    hub.add("org/draft", draft(tmp_path / "draft"))
    for path in ("hf://org/draft", "hf://org/nope"):
        with contextlib.suppress(CannotExamineError):
            scan(path)
    gc.collect()
    assert list((tmp_path / "private").iterdir()) == []
