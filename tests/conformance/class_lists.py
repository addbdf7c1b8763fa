"""The lists of classes that a release knows, read in its sources: `rules/serving/ENGINE-classes.yaml`.

    python -m tests.conformance.class_lists                               # read all releases, write both files
    python -m tests.conformance.class_lists vllm                          # one of them
    python -m tests.conformance.class_lists --check                       # compare all releases with the files
    python -m tests.conformance.class_lists --check sglang vllm==0.33.0   # compare these

What is registered, which classes take the layers to capture, and which model_types are known. Nothing of an engine is
imported or run. A list is whole for every release under `read`: what is not in it was not in the sources. `--check`
exits with 1 when a list differs, with 2 when a release cannot be had. The head of a file is written by hand and kept.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from packaging.version import Version

from ckptdoctor.resources import rules_dir
from ckptdoctor.serving import contracts
from tests.conformance import sources
from tests.conformance.classes import class_registries, model_types
from tests.conformance.environments import SetupError

FROM_HERE = "# Written by tests/conformance/class_lists.py from here on.\n"
WIDTH = 120


@dataclass(frozen=True)
class Engine:
    """How the sources of an engine are read: its registry, and the folder in which it registers configs."""

    name: str
    registry: Callable[[Path], class_registries.Registry]
    configs: str


ENGINES = {
    "sglang": Engine("sglang", class_registries.sglang, "sglang/srt"),
    "vllm": Engine("vllm", class_registries.vllm, "vllm"),
}


@dataclass(frozen=True)
class Reading:
    """The lists of one release, by the path of their place in the file, such as `captures.eagle3`."""

    release: str
    lists: Mapping[str, frozenset[str]]
    transformers: tuple[str, ...]
    asks_for: str
    problems: tuple[str, ...] = ()


def read(engine: Engine, release: str, transformers: Sequence[str] | None = None) -> Reading:
    """Read one release; `transformers` are the releases of it to read, if not those that its metadata ask for."""
    root = sources.folder(engine.name, release)
    gc.disable()  # trees are millions of small objects, and looking for cycles among them takes most of the time
    try:
        found = engine.registry(root)
        own, unread = model_types.own(root, engine.name, engine.configs)
    finally:
        gc.enable()
    wanted, asks_for = model_types.transformers_for(sources.metadata(root))
    used = tuple(transformers or wanted)
    lists = {
        "registered": found.registered,
        **{f"captures.{word}": names for word, names in found.captures.items()},
        "forwarding": found.forwarding,
        "model_types": own.union(*(model_types.transformers_types(r) for r in used)),
    }
    return Reading(release, lists, used, asks_for, tuple(sorted(found.problems | unread)))


def rows(readings: Sequence[Reading], place: str) -> list[dict[str, Any]]:
    """One list over releases in ascending order, as rows of names that came and went together."""
    together: dict[tuple[str, str | None], list[str]] = {}
    order = [reading.release for reading in readings]
    for name in sorted(frozenset().union(*(reading.lists[place] for reading in readings))):
        start: str | None = None
        for reading in readings:
            if name in reading.lists[place]:
                start = start or reading.release
            elif start:
                together.setdefault((start, reading.release), []).append(name)
                start = None
        if start:
            together.setdefault((start, None), []).append(name)
    end = len(order)
    ranges = sorted(together, key=lambda r: (order.index(r[0]), end if r[1] is None else order.index(r[1])))
    return [
        {"from": since, **({} if until is None else {"until": until}), "names": together[since, until]}
        for since, until in ranges
    ]


def holding(found: Iterable[Mapping[str, Any]], release: str) -> frozenset[str]:
    """The names of the rows that hold in a release."""
    version = Version(release)
    return frozenset(
        name
        for row in found
        if Version(row["from"]) <= version and not ("until" in row and Version(row["until"]) <= version)
        for name in row["names"]
    )


def text(readings: Sequence[Reading]) -> str:
    """The part of a file that the script writes."""
    parts = [FROM_HERE, _wrapped("read: [", [reading.release for reading in readings], quoted=True)]
    parts.append("transformers:\n")
    before: tuple[tuple[str, ...], str] | None = None
    for reading in readings:
        now = (reading.transformers, reading.asks_for)
        if now != before:
            names = ", ".join(f'"{release}"' for release in reading.transformers)
            parts.append(f"  - {{from: \"{reading.release}\", read: [{names}], asked_for: '{reading.asks_for}'}}\n")
        before = now
    nested = ""
    for place in readings[0].lists:
        above, _, word = place.partition(".")
        if word and above != nested:
            parts.append(f"{above}:\n")
        nested = above if word else ""
        found = rows(readings, place)
        indent = "  " if word else ""
        parts.append(f"{indent}{word or above}:{'' if found else ' []'}\n")
        for row in found:
            until = f', until: "{row["until"]}"' if "until" in row else ""
            parts.append(_wrapped(f'{indent}  - {{from: "{row["from"]}"{until}, names: [', row["names"], end="]}\n"))
    return "".join(parts)


def place_of(engine: str) -> Path:
    return rules_dir() / "serving" / f"{engine}-classes.yaml"


def write(engine: Engine, readings: Sequence[Reading]) -> None:
    """Write the engine's file; its head stays as it is."""
    path = place_of(engine.name)
    head = path.read_text(encoding="utf-8").partition(FROM_HERE)[0] if path.exists() else f"engine: {engine.name}\n"
    path.write_text(head + text(readings), encoding="utf-8")


def load(engine: str) -> dict[str, Any]:
    """The engine's file."""
    loaded: dict[str, Any] = yaml.safe_load(place_of(engine).read_text(encoding="utf-8"))
    return loaded


def rows_at(data: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """The rows of a file under `registered` or `captures.eagle3`."""
    value: Any = data
    for part in place.split("."):
        value = value.get(part, {})
    return list(value)


def recorded_transformers(data: Mapping[str, Any], release: str) -> tuple[str, ...]:
    """Which transformers were read for a release that the file knows."""
    before = [row for row in data["transformers"] if Version(row["from"]) <= Version(release)]
    return tuple(before[-1]["read"])


def differences(data: Mapping[str, Any], reading: Reading) -> list[str]:
    """What differs between a file and the sources, as lines; a newer release is compared with the newest read one."""
    said = []
    for place, names in reading.lists.items():
        stated = holding(rows_at(data, place), reading.release)
        for word, only in (("added", names - stated), ("removed", stated - names)):
            if only:
                said.append(f"  {place}: {word}: {', '.join(sorted(only))}")
    return said + [f"  not read: {problem}" for problem in reading.problems]


def check(engine: Engine, release: str) -> tuple[int, list[str]]:
    """Compare one release with the file: the exit code, and lines to print."""
    data = load(engine.name)
    known = release in data["read"]
    reading = read(engine, release, recorded_transformers(data, release) if known else None)
    found = differences(data, reading)
    name = f"{engine.name} {release}"
    if known:
        return (1, [f"{name}: the lists differ", *found]) if found else (0, [f"{name}: the lists hold"])
    newest = data["read"][-1]
    return 0, [f"{name}: {'new' if found else 'nothing new'} in its lists against {newest}", *found]


def _read_all(engine: Engine, releases: Sequence[str], jobs: int) -> list[Reading]:
    with ProcessPoolExecutor(jobs) as pool:
        # In runs: releases that follow each other share most of their files.
        found = list(pool.map(partial(_tried, engine.name), releases, chunksize=-(-len(releases) // jobs)))
    readings = []
    for release, reading in zip(releases, found, strict=True):
        if isinstance(reading, str):
            print(f"{engine.name} {release}: left out: {reading}", file=sys.stderr)
        elif reading.problems:
            print(f"{engine.name} {release}: left out, not read whole: {'; '.join(reading.problems)}", file=sys.stderr)
        else:
            readings.append(reading)
    return readings


def _tried(engine: str, release: str) -> Reading | str:
    try:
        return read(ENGINES[engine], release)
    except SetupError as error:
        return str(error)


def _wrapped(start: str, items: Sequence[str], end: str = "]\n", quoted: bool = False) -> str:
    lines, line = [], start
    indent = " " * (len(start) - len(start.lstrip()) + 4)
    for i, item in enumerate(items):
        last = i == len(items) - 1
        shown = f'"{item}"' if quoted or _odd(item) else item
        piece = shown + (end.rstrip("\n") if last else ",")
        if len(line) + len(piece) + 1 > WIDTH:
            lines.append(line.rstrip())
            line = indent
        line += piece if last else piece + " "
    return "\n".join([*lines, line.rstrip()]) + "\n"


def _odd(name: str) -> bool:
    return yaml.safe_load(name) != name


def main(arguments: Sequence[str]) -> int:
    """Run the command; the worst exit code."""
    parser = argparse.ArgumentParser(prog="class_lists", description="Lists of classes, read in sources.")
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("what", nargs="*", default=list(ENGINES), metavar="ENGINE[==RELEASE]")
    options = parser.parse_args(arguments)
    worst = 0
    for what in options.what:
        name, _, release = what.partition("==")
        engine = ENGINES[name]
        if not options.check:
            write(engine, _read_all(engine, [release] if release else contracts()[name].releases, options.jobs))
            continue
        for one in [release] if release else load(name)["read"]:
            try:
                code, lines = check(engine, one)
            except SetupError as error:
                code, lines = 2, [f"{name} {one}: {error}"]
            print("\n".join(lines), flush=True)
            worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
