"""The HTML page: what is in it, that it loads nothing, and how a real browser shows it."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import Browser, running
from recipe_cases import RECIPES, Built
from report_samples import ERROR, HOSTILE, NOTE, SICK, WARNING, WELL, hostile, report

from ckptdoctor.findings import About, Fix, Ignored, Report, Severity
from ckptdoctor.report import render
from ckptdoctor.scanning import scan_paths

pytest.importorskip("jinja2")

MARKUP = "</pre><script>alert(1)</script><img src=http://example.com/x.png onerror=alert(1)>{{ 7*7 }}&amp;\"'"


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def examined(*paths: Path, target: Path | None = None, engines: tuple[str, ...] = (), **more: str) -> Report:
    return scan_paths(
        [str(path) for path in paths], target=None if target is None else str(target), rules=(), select=(), ignore=(),
        engines=engines, illustrated=True, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def sick(built: Built) -> Path:
    return built.path(RECIPES["d2t-absolute"])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running(tmp_path_factory.mktemp("browser")) as found:
        yield found


def test_a_page_tells_what_the_text_report_tells() -> None:
    about = {ERROR.rule: About(Severity.ERROR, "The background of it.", ("org/repo#1", "https://example.org/x", "y"))}
    fixed = replace(WARNING, fix=Fix("t", "set theta", "unsafe", assumption="it was trained so", refused=None))
    refused = replace(NOTE, fix=Fix("t", "s", "safe", refused="two readings fit"))
    sick = replace(SICK, findings=(refused, ERROR, fixed), ignored=(Ignored(NOTE, "Known here.", "2027-03-01"),))
    made = replace(
        report(sick, WELL, failed=(("gone", "no such path"),)), rules=about, policy="p.toml", remarks=("R.",)
    )
    text = " ".join(Tags(render(made, "html")).text.split())
    for words in (
        "Do not serve this as it is.", "1 error, 1 warning, 1 note; 3 rules not judged", ERROR.message, ERROR.effect,
        ERROR.advice, "rename 11 tensors from layers.0 to midlayer (safe)", "set theta (unsafe)", "it was trained so",
        "two readings fit", "sglang==0.5.9", "The background of it.", "org/repo#1", "(likely)", "config.json:12",
        "Known here. (until 2027-03-01)", "2 rules need the target: pass --target PATH", "ckptdoctor explain KEY004",
        "Nothing to report.", "Could not be examined: no such path", "p.toml", "R.",
    ):  # fmt: skip
        assert words in text, words
    assert text.index("KEY004") < text.index("ROP002") < text.index("VOC009")


def test_links_lead_to_public_reports_and_into_the_page_alone() -> None:
    seen = ("org/repo#1", "https://example.org/x", "javascript:alert(1)", "http://a.b", 'https://x.y/"><b>')
    made = replace(report(SICK, WELL), rules={ERROR.rule: About(Severity.ERROR, "Why.", seen)})
    links = [attrs["href"] for tag, attrs in Tags(render(made, "html")).found if tag == "a"]
    assert links == [
        "#c1", "#c2", "https://github.com/org/repo/issues/1", "https://example.org/x", 'https://x.y/"><b>',
    ]  # fmt: skip


def test_one_checkpoint_has_no_contents_list() -> None:
    assert "<nav" not in render(report(SICK), "html")
    assert render(report(SICK, WELL), "html").count("<nav") == 1


@pytest.mark.parametrize("words", [HOSTILE, MARKUP])
def test_nothing_from_a_file_is_markup(words: str) -> None:
    made = hostile()
    [examination] = made.examinations
    [finding] = examination.findings
    finding = replace(
        finding, name=words, message=words, effect=words, advice=words, engines=(words,), seen_in=(words,)
    )
    examination = replace(
        examination, path=words, title=words, findings=(finding,), next_commands=(words,),
        ignored=(Ignored(finding, words, words),), draft={"algorithm": words, "aux_layer_ids": [words]},
    )  # fmt: skip
    page = render(Report((examination,), ((words, words),), words, (words,)), "html")
    tags = Tags(page)
    names = {tag for tag, _ in tags.found}
    assert not names & {"script", "img", "iframe", "object", "base", "form", "svg"}
    assert {key for _, attrs in tags.found for key in attrs if key.startswith("on")} == set()
    assert "49" not in tags.text
    assert not set("\x1b\x07\u202e\x9b\ufeff") & set(page)


def test_the_policy_of_the_page_allows_nothing_from_outside() -> None:
    tags = Tags(render(report(SICK), "html")).found
    [policy] = [a["content"] for t, a in tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.split("; ")[:3] == ["default-src 'none'", "style-src 'unsafe-inline'", "img-src data:"]
    assert not re.search(r"url\(|@import|src=\"(?!data:)", render(report(SICK), "html"))


def test_the_same_report_gives_the_same_page(sick: Path) -> None:
    assert render(examined(sick), "html") == render(examined(sick), "html")


def test_the_load_plan_of_each_engine_is_there(sick: Path) -> None:
    text = Tags(render(examined(sick, target=sick / "target", engines=("sglang==0.5.9", "vllm")), "html")).text
    assert "sglang 0.5.9" in text
    for name in ("model.midlayer.self_attn.qkv_proj.weight", "draft_id_to_target_id", "captured boundaries"):
        assert name in text
    # Without a named engine: the newest release of each that a scan speaks of.
    told = Tags(render(examined(sick, target=sick / "target"), "html")).text
    assert "Load plans" in told
    assert "draft_id_to_target_id" in told
    assert "model.midlayer.self_attn.qkv_proj.weight" in told or "model.layers.0.self_attn.qkv_proj.weight" in told


def test_pictures_of_the_map_and_of_the_coverage(sick: Path, tmp_path: Path, built: Built) -> None:
    def drawn(made: Report) -> list[str]:
        images = [a["src"] or "" for t, a in Tags(render(made, "html")).found if t == "img"]
        return [base64.b64decode(src.removeprefix("data:image/svg+xml;base64,")).decode() for src in images]

    [picture] = drawn(examined(sick))
    assert "Readings of d2t" in picture
    assert "that a draft vocabulary can propose" not in picture
    counts = tmp_path / "counts.json"
    counts.write_text("{" + ", ".join(f'"{n}": {n + 1}' for n in range(512)) + "}", encoding="utf-8")
    healthy = built.path(RECIPES["specforge-eagle3"])
    [picture] = drawn(examined(healthy, target=healthy / "target", token_counts=str(counts)))
    assert "that a draft vocabulary can propose" in picture
    plain = scan_paths([str(sick)], target=None, rules=(), select=(), ignore=())
    assert drawn(plain) == []


def test_a_scan_without_the_page_imports_no_jinja2(sick: Path) -> None:
    code = (
        "import sys; from ckptdoctor.cli.main import run; run(['scan', sys.argv[1], '--format', 'sarif']);"
        " sys.exit('jinja2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(sick)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_jinja2_the_scan_says_what_to_install(sick: Path) -> None:
    code = (
        "import sys; sys.modules['jinja2'] = None; import importlib.util as u; find = u.find_spec;"
        " u.find_spec = lambda name, *more: None if name == 'jinja2' else find(name, *more);"
        " from ckptdoctor.cli.main import run; sys.exit(run(['scan', sys.argv[1], '--format', 'html']))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(sick)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ckptdoctor: the format html needs jinja2: pip install 'ckptdoctor[html]'\n"


def page_of(made: Report, folder: Path) -> Path:
    place = folder / "report.html"
    place.write_text(render(made, "html"), encoding="utf-8")
    return place


def test_a_browser_shows_the_findings_asks_for_nothing_and_has_nothing_to_say(
    browser: Browser, sick: Path, tmp_path: Path
) -> None:
    place = page_of(examined(sick, target=sick / "target", engines=("sglang==0.5.9", "vllm")), tmp_path)
    browser.open(place)
    shown = browser.value("document.body.innerText")
    assert "VOC001 d2t-absolute" in shown
    assert "d2t holds target ids where engines read offsets." in shown
    assert "Subtract the row number from each entry of d2t, in place. (safe)" in shown
    assert browser.value("[...document.images].every(i => i.complete && i.naturalWidth > 300)") is True
    assert browser.value("document.images.length") == 1
    assert [url[:22] for url in browser.requests if not url.startswith("data:")] == [place.as_uri()[:22]]
    assert [url for url in browser.requests if not url.startswith(("data:", "file:"))] == []
    assert browser.said == []


def test_the_page_follows_light_dark_print_and_a_narrow_screen(browser: Browser, sick: Path, tmp_path: Path) -> None:
    place = page_of(examined(sick, target=sick / "target", engines=("sglang==0.5.9", "vllm")), tmp_path)
    ground = "getComputedStyle(document.body).backgroundColor"
    inside = "[...document.querySelectorAll('details > :not(summary)')].filter(e => e.checkVisibility()).length"
    browser.open(place)
    assert browser.value(ground) == "rgb(255, 255, 255)"
    assert browser.value(inside) == 0
    browser.open(place, scheme="dark")
    assert browser.value(ground) == "rgb(13, 17, 23)"
    browser.open(place, scheme="dark", media="print")
    assert browser.value(ground) == "rgb(255, 255, 255)"
    folded = browser.value("document.querySelectorAll('details > :not(summary)').length")
    heights = "[...document.querySelectorAll('details > :not(summary)')].filter(e => e.offsetHeight > 0).length"
    assert browser.value(heights) == folded > 4
    browser.call("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True)
    try:
        browser.open(place)
        browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.value("document.documentElement.scrollWidth") == 360
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_a_browser_runs_nothing_that_is_in_a_hostile_report(browser: Browser, tmp_path: Path) -> None:
    finding = replace(ERROR, name=MARKUP, message=MARKUP, advice=MARKUP, fix=Fix(MARKUP, MARKUP, "safe"))
    made = Report((replace(SICK, path=MARKUP, title=MARKUP, findings=(finding,), next_commands=(MARKUP,)),))
    place = page_of(made, tmp_path)
    browser.open(place)
    assert "<script>alert(1)</script>" in browser.value("document.body.innerText")
    assert [url for url in browser.requests if not url.startswith(("data:", "file:"))] == []
    assert browser.said == []


def test_the_browser_of_these_tests_sees_what_a_bad_page_does(browser: Browser, tmp_path: Path) -> None:
    place = tmp_path / "bad.html"
    place.write_text('<img src="http://example.com/x.png"><script>console.log("hi"); throw 1</script>', "utf-8")
    browser.open(place)
    assert "http://example.com/x.png" in browser.requests
    assert any("hi" in line for line in browser.said)
    assert any("Uncaught" in line for line in browser.said)
