"""Which files hold samples: those that were named, and those in the folders that were named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.checkpoint.folder import leads_out
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.probe.samples.containers import container_of
from ckptdoctor.probe.samples.recorded_text import UnreadableError
from ckptdoctor.resources import shipped
from ckptdoctor.text import listing, plural, show

__all__ = ["LeftOut", "SampleFile", "SampleFiles", "gather"]

_ENTRIES = 1_000_000


@dataclass(frozen=True)
class SampleFile:
    """A file to read: its real path, what a person calls it (safe to print), and the container it is in."""

    place: Path
    name: str
    container: str


class LeftOut:
    """Files and texts that were left out, each with its reason; the first few are named."""

    def __init__(self, what: str, several: str | None = None) -> None:
        self._what, self._several, self._reasons = what, several, list[tuple[str, str]]()

    def add(self, name: str, reason: object) -> None:
        """Note that `name` (safe to print) was left out."""
        self._reasons.append((name, str(reason)))

    def __len__(self) -> int:
        return len(self._reasons)

    @property
    def first(self) -> str:
        """The first of them with its reason."""
        return ": ".join(self._reasons[0])

    def remarks(self) -> list[str]:
        """One sentence that names the first three."""
        if not self._reasons:
            return []
        told = "; ".join(f"{name}: {reason}" for name, reason in self._reasons[:3])
        more = f"; and {len(self._reasons) - 3} more" if len(self._reasons) > 3 else ""
        return [f"left out {plural(len(self._reasons), self._what, self._several)}: {told}{more}"]


@dataclass(frozen=True)
class SampleFiles:
    """What was found: files with states or files with text, never both. `folders` are all folders that were looked
    into.
    """

    files: tuple[SampleFile, ...]
    texts: bool
    folders: tuple[Path, ...]
    left_out: LeftOut
    remarks: tuple[str, ...] = ()


def gather(paths: Sequence[str]) -> SampleFiles:
    """The files at `paths`, folders walked in order of their names. Links that lead out of a folder are not followed.

    In a folder, files of text beside files of states are passed over. Raises `CannotExamineError` for a path that is
    not there, for named files of both kinds, and where nothing is found.
    """
    left_out = LeftOut("file")
    named: list[SampleFile] = []
    walked: list[SampleFile] = []
    folders: list[Path] = []
    seen: set[Path] = set()
    for path in paths:
        try:
            place = Path(path)
            if not path or not place.exists():
                raise CannotExamineError(f"{show(path) or 'the empty path'}: no such file or folder")
            real = place.resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise CannotExamineError(f"{show(path)}: cannot be opened ({show(error, 80)})") from None
        into, found = (walked, _walk(place, real, folders, left_out)) if real.is_dir() else (named, [(real, path)])
        for file, shown in found:
            if file in seen:
                continue
            seen.add(file)
            try:
                into.append(SampleFile(file, show(shown), container_of(file)))
            except UnreadableError as reason:
                left_out.add(show(shown), reason)
    files = [*named, *walked]
    kinds = {file.container == "text" for file in files}
    remarks: list[str] = []
    if kinds == {True, False}:
        if any(file.container == "text" for file in named):
            names = [next(f.name for f in files if (f.container == "text") is kind) for kind in (True, False)]
            raise CannotExamineError(
                f"{names[0]} holds text and {names[1]} recorded states; the samples of one run are of one form"
            )
        texts = [file for file in files if file.container == "text"]
        remarks.append(f"passed over {plural(len(texts), 'file')} of text beside the recorded states ({texts[0].name})")
        files = [file for file in files if file.container != "text"]
    if not files:
        endings = listing([e for kind in shipped("probe/samples")["endings"].values() for e in kind], 10)
        why = left_out.first if len(left_out) else f"no file in it ends in {endings.replace(' and ', ' or ')}"
        raise CannotExamineError(f"{listing(paths)}: no samples; {why}")
    return SampleFiles(tuple(files), files[0].container == "text", tuple(folders), left_out, tuple(remarks))


def _walk(place: Path, real: Path, folders: list[Path], left_out: LeftOut) -> list[tuple[Path, str]]:
    """The files in `place` that end like samples: real path, and path as a person wrote it."""
    words = shipped("probe/samples")
    endings = tuple(words["endings"]["states"] + words["endings"]["texts"])
    found: list[tuple[Path, str]] = []
    entries = 0
    for folder, inner, names in os.walk(real):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        folders.append(Path(folder))
        entries += len(names) + len(inner)
        if entries > _ENTRIES:
            raise CannotExamineError(f"{show(place)}: more than {_ENTRIES} files; name some of them")
        for name in sorted(names, key=_by_number):
            if name.startswith(".") or not name.endswith(endings) or name in words["beside"]:
                continue
            there = Path(folder, name)
            shown = str(place / there.relative_to(real))
            if there.is_symlink():
                try:
                    target = there.resolve(strict=True)
                except (OSError, RuntimeError):
                    left_out.add(show(shown), "the link leads nowhere")
                    continue
                if leads_out(real, target):
                    left_out.add(show(shown), "the link leads out of the folder")
                    continue
                there = target
            found.append((there, shown))
    return found


def _by_number(name: str) -> tuple[str, int, str]:
    """Sorts `hs_2` before `hs_10`."""
    stem = name.partition(".")[0]
    head = stem.rstrip("0123456789")
    digits = stem[len(head) :]
    return head, int(digits) if 0 < len(digits) < 19 and digits.isascii() else -1, name
