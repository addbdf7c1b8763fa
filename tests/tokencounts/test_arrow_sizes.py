"""The unpacked size of the messages of an Arrow file."""

from __future__ import annotations

import contextlib

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.tokencounts.arrow_sizes import unpacked_size


def test_the_unpacked_size_of_messages() -> None:
    table = pa.table({"ids": [[1, 2, 3]] * 5000, "text": pa.array(["a", "b"] * 2500).dictionary_encode()})
    sizes = {}
    for compression in (None, "lz4", "zstd"):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(table)
        reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(sink.getvalue()))
        sizes[compression] = [unpacked_size(m.metadata, m.body) for m in reader if m.type != "schema"]
    assert len(sizes[None]) == 2
    for one, other in zip(sizes["lz4"], sizes["zstd"], strict=True):
        assert one == other
    # Without compression the buffers are padded to eight bytes each.
    assert all(0 <= whole - packed < 64 for whole, packed in zip(sizes[None], sizes["zstd"], strict=True))


@given(st.binary(max_size=80), st.binary(max_size=40))
def test_sizes_of_nonsense_are_an_error_or_a_number(head: bytes, body: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert unpacked_size(head, body) >= 0
