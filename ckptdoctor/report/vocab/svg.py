"""A small writer of SVG pictures: one file without scripts, links or fonts, readable on light and on dark ground.

Every text goes through `escaped`: control characters become visible escapes and markup becomes text, so that nothing
from a file can be more than letters in the picture.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ckptdoctor.text import show

__all__ = ["Drawing", "Scale", "escaped", "number"]

_STYLE = """
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif;font-size:14px;fill:#1f2328}
.head{font-size:20px;font-weight:600}.sub{font-size:15px;fill:#59636e}.quiet{fill:#59636e}.name{font-weight:600}
.ground{fill:#fff}.frame{fill:none;stroke:#59636e}.grid{stroke:#d1d9e0}
.right{stroke:#0969da;fill:none;stroke-linecap:round}.other{stroke:#d1242f;fill:none;stroke-linecap:round;opacity:.3}
.bar{fill:#0969da}.none{fill:#eff2f5}.best{stroke:#1a7f37;fill:none;stroke-width:2.5}.mark{fill:#1a7f37}.now{fill:#0969da}
@media(prefers-color-scheme:dark){
text{fill:#f0f6fc}.sub,.quiet{fill:#9198a1}.ground{fill:#0d1117}.frame{stroke:#9198a1}.grid{stroke:#3d444d}
.right{stroke:#4493f8}.other{stroke:#f85149;opacity:.4}.bar,.now{fill:#4493f8}.none{fill:#21262d}
.best{stroke:#3fb950}.mark{fill:#3fb950}}
"""


def escaped(value: object, limit: int = 120) -> str:
    """`value` as text of an XML file: what could act on a reader is a visible escape, markup is text."""
    return html.escape(show(value, limit), quote=True)


def number(value: float) -> str:
    """A coordinate with two decimals at most: `12`, `12.5`, `0.25`."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


@dataclass(frozen=True)
class Scale:
    """From values `low` to `high` to the places `start` to `end` of the picture, linear or by the logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of `value`. A scale of one value has all in its middle."""
        low, high = self._turned(self.low), self._turned(self.high)
        part = 0.5 if high <= low else (self._turned(value) - low) / (high - low)
        return self.start + part * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values inside the scale, at most about `most`: steps of 1, 2 or 5 times a power of ten."""
        if self.log:
            return self._log_ticks(most)
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(span / most))
        step = next(power * m for m in (1, 2, 5, 10, 20) if span / (power * m) <= most)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _log_ticks(self, most: int) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for steps in ((1, 2, 5), (1,)):
            found = [s * 10.0**p for p in powers for s in steps if self.low <= s * 10.0**p <= self.high]
            if len(found) <= most + 2:
                break
        return found or [self.low]

    def _turned(self, value: float) -> float:
        return math.log(max(value, 1e-12)) if self.log else value


@dataclass
class Drawing:
    """The elements of a picture of `width` and `height`, in the order that they are drawn."""

    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: object, style: str = "", anchor: str = "start", turn: int = 0) -> None:
        """One line of text, from the point on (or up to it, or around it: `anchor`), turned by `turn` degrees."""
        turned = f' transform="rotate({turn} {number(x)} {number(y)})"' if turn else ""
        place = f'x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"{_class(style)}{turned}'
        self.parts.append(f"<text {place}>{escaped(words)}</text>")

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """A straight line."""
        ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
        self.parts.append(f"<line {ends}{_class(style)}/>")

    def box(self, x: float, y: float, width: float, height: float, style: str, opacity: float = 1.0) -> None:
        """A rectangle from its upper left corner."""
        seen = "" if opacity >= 1 else f' fill-opacity="{number(opacity)}"'
        size = f'width="{number(max(width, 0))}" height="{number(max(height, 0))}"'
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" {size}{_class(style)}{seen}/>')

    def dots(self, points: Iterable[tuple[float, float]], style: str, size: float, name: str) -> None:
        """Round dots in one element with the id `name`; those in the same place are drawn once."""
        places = dict.fromkeys(f"M{number(x)} {number(y)}h0" for x, y in points)
        shape = f' stroke-width="{number(size)}" d="{"".join(places)}"'
        self.parts.append(f'<path id="{name}"{_class(style)}{shape}/>')

    def curve(self, points: Sequence[tuple[float, float]], style: str, name: str) -> None:
        """A line through the points."""
        way = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.parts.append(f'<path id="{name}"{_class(style)} d="M{way}"/>')

    def spot(self, x: float, y: float, size: float, style: str, name: str) -> None:
        """A filled circle."""
        self.parts.append(f'<circle id="{name}" cx="{number(x)}" cy="{number(y)}" r="{number(size)}"{_class(style)}/>')

    def render(self, title: str, description: str) -> str:
        """The whole file. `title` and `description` are what a screen reader says."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" aria-labelledby="title desc">'
        )
        told = f'<title id="title">{escaped(title)}</title>\n<desc id="desc">{escaped(description, 2000)}</desc>'
        ground = f'<rect class="ground" width="{self.width}" height="{self.height}"/>'
        return "\n".join([head, told, f"<style>{_STYLE}</style>", ground, *self.parts, "</svg>", ""])


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
