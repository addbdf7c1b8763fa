"""Parquet, Arrow and Feather files through pyarrow (an extra), a few rows at a time.

`datasets` saves Arrow streams, Feather files are the other Arrow form. pyarrow before 14.0.1 could run code from such
a file (CVE-2023-47248); the extra asks for 15.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import listing, show
from ckptdoctor.tokencounts.arrow_sizes import unpacked_size
from ckptdoctor.tokencounts.rows import FIELDS, IDS, texts_of
from ckptdoctor.tokencounts.tally import Tally
from ckptdoctor.tokencounts.tokenizing import TextCounter

__all__ = ["read_arrow"]

_ROWS = 64
_MARK = b"ARROW1"
# A file whose values take this many times its bytes is no text: token ids take one or two bytes even when packed.
_BOMB = 1_000
_BOMB_FROM = 256 * 1024 * 1024


def read_arrow(place: Path, tally: Tally, tokenizer: Path | None) -> str:
    """Add the tokens of the file `place` to `tally`; gives `ids` or `text`. Raises `CannotExamineError`, `OSError`."""
    try:
        import pyarrow
    except ImportError:
        raise tally.refuse("reading it needs pyarrow: pip install 'ckptdoctor[data]'") from None
    try:
        return _read(place, tally, tokenizer)
    except (CannotExamineError, MemoryError, FileNotFoundError, PermissionError) as error:
        if isinstance(error, MemoryError):
            raise tally.refuse("its values do not fit into memory") from None
        raise
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise tally.refuse(f"cannot be read ({show((str(error).splitlines() or [''])[0])})") from None


def _read(place: Path, tally: Tally, tokenizer: Path | None) -> str:
    parts = _parquet(place, tally) if place.suffix.lower() == ".parquet" else _ipc(place, tally)
    texts: TextCounter | None = None
    field = next(parts)
    if field not in IDS:
        texts = TextCounter(tally, tokenizer)
    for column in parts:
        if texts is None:
            _count(column, field, tally)
        else:
            for value in column.to_pylist():
                for text in texts_of(value, lambda problem: tally.refuse(f"{field}: {problem}")):
                    texts.add(text)
    if texts is not None:
        texts.finish()
    return "text" if texts is not None else "ids"


def _parquet(place: Path, tally: Tally) -> Iterator[Any]:
    """The field that is read, then its column in parts of `_ROWS` rows."""
    from pyarrow import parquet

    size = place.stat().st_size
    with parquet.ParquetFile(place, memory_map=True) as file:
        field = _field_of(file.schema_arrow, tally)
        yield field
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            chunks = [group.column(i) for i in range(group.num_columns)]
            mine = [c for c in chunks if c.path_in_schema.partition(".")[0] == field]
            _refuse_bomb(sum(max(c.total_uncompressed_size, c.num_values) for c in mine), size, tally)
        for batch in file.iter_batches(_ROWS, columns=[field], use_threads=False):
            yield batch.column(0)


def _ipc(place: Path, tally: Tally) -> Iterator[Any]:
    """The same for both forms of Arrow files, in the batches that were written.

    A file is a stream between two marks and before a footer; read as a stream, the footer cannot lead elsewhere.
    """
    import pyarrow as pa

    size = place.stat().st_size
    with pa.memory_map(str(place)) as source:
        begin = 0
        if source.read(len(_MARK)) == _MARK:
            begin = 8
            source.seek(max(size - len(_MARK), 0))
            if source.read(len(_MARK)) != _MARK:
                raise tally.refuse("is not whole: the mark at its end is missing")
        source.seek(begin)
        for message in pa.ipc.MessageReader.open_stream(source):
            if message.type != "schema":
                _refuse_bomb(unpacked_size(message.metadata, message.body), size, tally)
        source.seek(begin)
        reader = pa.ipc.open_stream(source)
        field = _field_of(reader.schema, tally)
        yield field
        index = reader.schema.get_field_index(field)
        for batch in reader:
            column = batch.column(index)
            column.validate(full=True)  # offsets of a damaged file would lead out of memory
            for start in range(0, batch.num_rows, _ROWS):
                yield column.slice(start, _ROWS)


def _refuse_bomb(unpacked: int, size: int, tally: Tally) -> None:
    if unpacked > _BOMB_FROM and unpacked > _BOMB * size:
        raise tally.refuse(f"would unpack to {unpacked} bytes from a file of {size}, which is no text")


def _field_of(schema: Any, tally: Tally) -> str:
    found = next((name for name in FIELDS if name in schema.names), None)
    if found is None:
        raise tally.refuse(f"none of {listing(FIELDS, 10)} is among its columns ({listing(schema.names)})")
    return found


def _count(column: Any, field: str, tally: Tally) -> None:
    """Count a column of token ids: integers, or lists of them."""
    import pyarrow as pa

    while isinstance(column, pa.ExtensionArray):
        column = column.storage
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    while (
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    ):
        column = column.flatten()
    if not pa.types.is_integer(column.type):
        raise tally.refuse(f"{field} holds {show(column.type)}, not token ids")
    if column.null_count:
        raise tally.refuse(f"{field} has empty places among its token ids")
    tally.add_ids(column.to_numpy(zero_copy_only=False))
