"""The picture of a vocabulary: XML without foreign markup, dots where the map says, the curve through its points."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from vocab_pages import COUNTS, MASKED, make_coverage, make_page

from ckptdoctor.report.vocab.picture import DOTS, picture
from ckptdoctor.report.vocab.svg import Drawing, Scale, escaped, number
from ckptdoctor.unknown import Unknown

SVG = "{http://www.w3.org/2000/svg}"
LEFT, RIGHT, TOP, BOTTOM = 92, 640, 96, 476
HOSTILE = "</text><script>alert('1')</script>&amp;\x1b[31m\u202e\x00\ufffe]]>\"'"


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # our own picture


def dots(root: ElementTree.Element, name: str) -> list[tuple[float, float]]:
    path = root.find(f".//{SVG}path[@id='{name}']")
    assert path is not None
    return [(float(x), float(y)) for x, y in re.findall(r"M(\S+) (\S+?)h0", path.attrib["d"])]


def expected(targets: npt.NDArray[np.int64], size: int) -> list[tuple[float, float]]:
    """Where the dots belong, worked out without the code that draws them."""
    count = len(targets)
    return [
        (
            pytest.approx(LEFT + (RIGHT - LEFT) * i / (count - 1), abs=0.006),
            pytest.approx(BOTTOM - (BOTTOM - TOP) * t / (size - 1), abs=0.006),
        )
        for i, t in enumerate(targets.tolist())
        if 0 <= t < size
    ]


@pytest.mark.parametrize("order", ["ascending", "shuffled"])
def test_each_entry_is_a_dot_in_its_place(order: str) -> None:
    ids = np.sort(np.random.default_rng(1).choice(512, 128, replace=False)).astype(np.int64)
    if order == "shuffled":
        ids = np.random.default_rng(2).permutation(ids)
    page = make_page(ids - np.arange(128), 512, MASKED)
    root = parsed(picture(page))
    index = np.arange(128, dtype=np.int64)
    assert dots(root, "reading-1") == expected(ids, 512)
    assert dots(root, "reading-0") == expected(ids - index, 512)
    assert dots(root, "reading-2") == expected(ids + index, 512)
    classes = {p.attrib["id"]: p.attrib["class"] for p in root.iter(f"{SVG}path") if p.attrib["id"].startswith("read")}
    assert classes == {"reading-0": "other", "reading-2": "other", "reading-1": "right"}
    # The right reading is drawn over the others.
    assert list(classes)[-1] == "reading-1"


def test_a_map_of_ids_has_its_own_reading_drawn_as_right() -> None:
    ids = np.arange(0, 512, 4, dtype=np.int64) + 3
    root = parsed(picture(make_page(ids, 512, MASKED)))
    right = [p.attrib["id"] for p in root.iter(f"{SVG}path") if p.attrib.get("class") == "right"]
    assert right == ["reading-0", "key-0"]
    assert dots(root, "reading-0") == expected(ids, 512)


def test_a_large_map_is_thinned_and_says_so() -> None:
    ids = np.arange(0, 151_936, 4, dtype=np.int64)[:32_000]
    text = picture(make_page(ids - np.arange(32_000), 151_936))
    root = parsed(text)
    found = dots(root, "reading-1")
    assert len(found) == len(set(found)) <= DOTS
    assert len(text.encode()) < 250_000
    told = root.findtext(f"{SVG}desc")
    assert told is not None
    assert "each 8th of 32,000 entries, 0 outside the vocabulary" in told


def test_entries_outside_are_counted_and_not_drawn() -> None:
    d2t = np.array([0, 0, 900, 0, -50], dtype=np.int64)
    root = parsed(picture(make_page(d2t, 16)))
    assert len(dots(root, "reading-1")) == 3
    told = root.findtext(f"{SVG}desc")
    assert told is not None
    assert "offsets (target id = i + d2t[i]): 5 entries, 2 outside the vocabulary." in told


def test_the_strip_is_as_dark_as_its_range_is_full() -> None:
    ids = np.arange(128, dtype=np.int64)
    root = parsed(picture(make_page(np.zeros(128, dtype=np.int64), 256, mask=ids)))
    bars = [r.attrib for r in root.iter(f"{SVG}rect") if r.attrib.get("class") == "bar"]
    # 96 rows over 256 ids: the lower half is full, its last row in part.
    assert {b.get("fill-opacity", "1") for b in bars} == {"1"}
    assert len(bars) == 48
    assert max(float(b["y"]) for b in bars) > 470
    assert min(float(b["y"]) for b in bars) == pytest.approx((TOP + BOTTOM) / 2, abs=1)


def test_the_curve_goes_through_its_points() -> None:
    ids = np.arange(128, dtype=np.int64)
    coverage = make_coverage()
    root = parsed(picture(make_page(ids * 0, 512, mask=ids, coverage=coverage)))
    best = root.find(f".//{SVG}path[@id='best']")
    assert best is not None
    found = [tuple(map(float, p.split())) for p in best.attrib["d"][1:].split("L")]
    points = [(64, 0.81), (128, 0.9), (256, 0.97), (512, 1.0)]
    across = [LEFT + (RIGHT - LEFT) * n / 3 for n in range(4)]  # sizes double from point to point
    up = [870 - 280 * (100 * share - 70) / 30 for _, share in points]
    assert found == [(pytest.approx(x, abs=0.01), pytest.approx(y, abs=0.01)) for x, y in zip(across, up, strict=True)]
    now = root.find(f".//{SVG}circle[@id='now']")
    assert now is not None
    assert (float(now.attrib["cx"]), float(now.attrib["cy"])) == (
        pytest.approx(across[1], abs=0.01),
        pytest.approx(870 - 280 * (75 - 70) / 30, abs=0.01),
    )
    words = {t.text for t in root.iter(f"{SVG}text")}
    assert {"128 ids: 75.0 %", "128 ids: 90.0 %", "1,000 positions"} <= words
    assert {"ids in the draft vocabulary (logarithmic)", "share of positions (%)", "draft id", "target id"} <= words


def test_no_curve_without_counts() -> None:
    root = parsed(picture(make_page(np.zeros(8, dtype=np.int64), 16)))
    assert root.find(f".//{SVG}path[@id='best']") is None


def test_nothing_to_draw_is_still_a_picture() -> None:
    page = make_page(None, None)
    assert "nothing to draw" in picture(page)
    parsed(picture(page))


def test_foreign_text_is_only_letters() -> None:
    ids = np.arange(8, dtype=np.int64)
    page = make_page(ids * 0, 16, mask=ids, path=HOSTILE, title=HOSTILE, coverage=make_coverage(), source=HOSTILE)
    text = picture(page)
    root = parsed(text)
    assert not set(text) & {"\x1b", "\x00", "\u202e", "\ufffe"}
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "title", "desc", "style", "rect", "text", "line", "path", "circle"}
    assert {name for element in root.iter() for name in element.attrib} <= {
        "viewBox", "width", "height", "role", "aria-labelledby", "id", "class", "x", "y", "x1", "y1", "x2", "y2", "d",
        "cx", "cy", "r", "text-anchor", "transform", "stroke-width", "fill-opacity",
    }  # fmt: skip
    assert "alert('1')" in "".join(root.itertext())
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_it_stands_alone_and_is_told_to_a_reader() -> None:
    text = picture(make_page(np.zeros(8, dtype=np.int64), 16))
    root = parsed(text)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "title desc"
    assert root[0].tag == f"{SVG}title"
    assert root[1].tag == f"{SVG}desc"
    assert "prefers-color-scheme:dark" in text
    sizes = [int(n) for n in re.findall(r"font-size:(\d+)px", text)]
    assert min(sizes) >= 14
    assert not re.search(r"url\(|@import|href|<script|on\w+=", text)


def test_everything_is_inside_of_the_picture() -> None:
    ids = np.arange(128, dtype=np.int64)
    root = parsed(picture(make_page(ids * 0, 512, mask=ids, coverage=make_coverage())))
    width, height = (float(v) for v in root.attrib["viewBox"].split()[2:])
    for element in root.iter():
        for name, limit in (("x", width), ("x1", width), ("x2", width), ("y", height), ("y1", height), ("y2", height)):
            assert 0 <= float(element.attrib.get(name, 0)) <= limit


def test_scales_and_their_ticks() -> None:
    assert Scale(0, 100, 0, 50)(50) == 25
    assert Scale(5, 5, 0, 50)(5) == 25
    assert Scale(10, 1000, 0, 50, log=True)(100) == pytest.approx(25)
    assert Scale(0, 511, 0, 1).ticks() == [0, 100, 200, 300, 400, 500]
    assert Scale(0, 151_935, 0, 1).ticks() == [0, 50_000, 100_000, 150_000]
    assert Scale(70, 100, 0, 1).ticks() == [70, 75, 80, 85, 90, 95, 100]
    assert Scale(1000, 150_000, 0, 1, log=True).ticks() == [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5]
    assert Scale(300, 400, 0, 1, log=True).ticks() == [300]
    assert Scale(3, 3, 0, 1).ticks() == [3]


def test_numbers_and_texts() -> None:
    assert [number(v) for v in (1.0, 1.25, -0.001, float("nan"), float("inf"))] == ["1", "1.25", "-0", "0", "0"]
    assert escaped("<a b='c'>&\x07") == r"&lt;a b=&#x27;c&#x27;&gt;&amp;\x07"
    drawing = Drawing(10, 10)
    drawing.text(1, 2, "<b>", "name", "end", -90)
    (part,) = drawing.parts
    assert part == '<text x="1" y="2" text-anchor="end" class="name" transform="rotate(-90 1 2)">&lt;b&gt;</text>'


def test_counts_are_named(tmp_path: Path) -> None:
    ids = np.arange(8, dtype=np.int64)
    file = tmp_path / "picture.svg"
    file.write_text(picture(make_page(ids * 0, 16, mask=ids, coverage=make_coverage(), source="my counts.json")))
    words = {t.text for t in ElementTree.parse(file).iter(f"{SVG}text")}
    assert "Share of my counts.json that a draft vocabulary can propose" in words
    assert not isinstance(COUNTS, Unknown)
