"""Loss masks of speculators' hidden states: rows of the dataset that lies beside them (`datasets` saves Arrow streams).

Row N of the dataset belongs to `hs_N.safetensors`; it has `input_ids` and `loss_mask`. pyarrow is an extra.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ckptdoctor.text import plural, show
from ckptdoctor.tokencounts.arrow_sizes import unpacked_size

__all__ = ["Datasets"]

_STATE_LIMIT = 1 << 20
_SHARDS = 10_000
# A file whose values take this many times its bytes is no table of token ids.
_BOMB, _BOMB_FROM = 1_000, 256 * 1024 * 1024


@dataclass
class Datasets:
    """Looks loss masks up in `folders`, and beside the files themselves; counts what it did not find."""

    folders: Sequence[Path] = ()
    missed: int = 0
    reason: str = ""
    _rows: dict[Path, dict[int, tuple[Any, Any]] | str] = field(default_factory=dict)

    def mask(self, place: Path, number: int | None, tokens: Tensor) -> Tensor | None:
        """bool [n]: the loss mask of row `number`, whose ids are `tokens`; None where no dataset has it."""
        reason = "the name of the file has no number" if number is None else "there is no dataset beside them"
        for folder in dict.fromkeys((place.parent, place.parent.parent, *self.folders)):
            if number is None or not _is_dataset(folder):
                continue
            rows = self._read(folder)
            if isinstance(rows, str):
                reason = rows
            elif number not in rows:
                reason = f"the dataset {show(folder)} has no row {number}"
            else:
                ids, mask = rows[number]
                if ids == tokens.tolist() and isinstance(mask, list) and len(mask) == len(tokens):
                    return torch.tensor([bool(value) for value in mask])
                reason = f"row {number} of the dataset {show(folder)} is another text"
        self.missed, self.reason = self.missed + 1, self.reason or reason
        return None

    def remarks(self) -> list[str]:
        """What a person should know about masks that were not found."""
        if not self.missed:
            return []
        return [
            f"{plural(self.missed, 'file')} without a loss mask: every token but the first counts as one of the"
            f" target's ({self.reason})"
        ]

    def _read(self, folder: Path) -> dict[int, tuple[Any, Any]] | str:
        if folder not in self._rows:
            self._rows[folder] = _read_dataset(folder)
        return self._rows[folder]


def _is_dataset(folder: Path) -> bool:
    return any(folder.glob("*.arrow"))


def _read_dataset(folder: Path) -> dict[int, tuple[Any, Any]] | str:
    """The ids and masks of all rows, which are small beside the states; or why they cannot be read."""
    try:
        import pyarrow
    except ImportError:
        return "reading the dataset beside them needs pyarrow: pip install 'ckptdoctor[data]'"
    try:
        return dict(enumerate(_rows(folder)))
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError) as error:
        return f"the dataset {show(folder)} cannot be read: {show((str(error).splitlines() or [''])[0], 100)}"


def _rows(folder: Path) -> Iterator[tuple[Any, Any]]:
    import pyarrow as pa

    for shard in _shards(folder):
        size = shard.stat().st_size
        with pa.memory_map(str(shard)) as source:
            for message in pa.ipc.MessageReader.open_stream(source):
                unpacked = 0 if message.type == "schema" else unpacked_size(message.metadata, message.body)
                if unpacked > _BOMB_FROM and unpacked > _BOMB * size:
                    raise ValueError(f"{shard.name} would unpack to {unpacked} bytes")
            source.seek(0)
            reader = pa.ipc.open_stream(source)
            places = [reader.schema.get_field_index(field) for field in ("input_ids", "loss_mask")]
            if -1 in places:
                raise ValueError("input_ids and loss_mask are not among its columns")
            for batch in reader:
                columns = [batch.column(place) for place in places]
                for column in columns:
                    column.validate(full=True)  # offsets of a damaged file would lead out of memory
                for row in range(batch.num_rows):
                    yield columns[0][row].as_py(), columns[1][row].as_py()


def _shards(folder: Path) -> list[Path]:
    """The Arrow files in the order that `state.json` gives, or by name."""
    state = folder / "state.json"
    found = sorted(p for p in folder.glob("*.arrow") if p.is_file() and not p.is_symlink())[:_SHARDS]
    if state.is_file() and state.stat().st_size <= _STATE_LIMIT:
        try:
            files = json.loads(state.read_bytes()).get("_data_files")
            order = {file["filename"]: rank for rank, file in enumerate(files)}
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            return found
        return sorted((p for p in found if p.name in order), key=lambda p: order[p.name]) or found
    return found
