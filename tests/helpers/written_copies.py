"""What the tests of writing and comparing copies share."""

from __future__ import annotations

from pathlib import Path

from ckptdoctor.publish.pieces import Literal, OutputFile, Range, Stream, Zeros, whole

MB = 1 << 20


def repaired(source: Path) -> list[OutputFile]:
    """A copy as a repair makes it: new header, renamed weights, unchanged files, a new one in a sub-folder."""
    weights = source / "model.safetensors"
    size = weights.stat().st_size
    return [
        OutputFile(
            "model.safetensors",
            (Literal(b"header"), Range(weights, 100, MB), Zeros(MB + 3), Range(weights, MB + 1, size)),
            like=weights,
            source="model.safetensors",
        ),
        whole("config.json", source / "config.json", 2),
        whole("empty.txt", source / "empty.txt", 0),
        OutputFile("sub/er/new.json", (Literal(b"[1]"), Literal(b""), Zeros(0))),
        OutputFile("sub/stream.bin", (Stream(6, lambda: iter([b"abc", memoryview(b"def")]), weights),)),
    ]


def contents(source: Path) -> dict[str, bytes]:
    data = (source / "model.safetensors").read_bytes()
    return {
        "model.safetensors": b"header" + data[100:MB] + bytes(MB + 3) + data[MB + 1 :],
        "config.json": b"{}",
        "empty.txt": b"",
        "sub/er/new.json": b"[1]",
        "sub/stream.bin": b"abcdef",
    }
