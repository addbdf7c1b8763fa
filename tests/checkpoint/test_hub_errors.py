"""What goes wrong on the way to the Hub becomes a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gate_drafts import draft
from hub_server import Hub
from registries.hub_drafts import refusal, told

from ckptdoctor.scanning import scan, scan_paths

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


def test_a_failing_path_does_not_stop_the_others(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/draft", draft(tmp_path / "draft"))
    paths = ["hf://org/nope", "hf://org/draft"]
    report = scan_paths(paths, target=None, rules=(), select=(), ignore=())
    assert [e.path for e in report.examinations] == ["hf://org/draft@main"]
    assert [path for path, _ in report.failed] == ["hf://org/nope"]


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
