"""Names of Medusa heads in every layout."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.facts.medusa.head_names import layout_of, written


@given(st.sampled_from(["original", "vllm", "tensorrt"]), st.integers(1, 4), st.integers(1, 3))
def test_every_layout_can_be_written_as_every_other(layout: str, heads: int, layers: int) -> None:
    names = [f"{h}.{k}.linear.{part}" for h in range(heads) for k in range(layers) for part in ("weight", "bias")]
    names += [f"{h}.{layers}.weight" for h in range(heads)]
    first = layout_of(names)
    assert first is not None
    there = [written(name, layout, "", layers) for name in first[1]]
    read = layout_of(there)
    assert read is not None
    assert read[0] == layout
    assert [written(name, "original", "", layers) for name in read[1]] == [name.name for name in first[1]] == names
