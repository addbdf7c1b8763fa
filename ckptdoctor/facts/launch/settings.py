"""Lengths, types, quantisation, parallel sizes and captured layers of a launch line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ckptdoctor.facts.draft.aux_layers import AuxSource
from ckptdoctor.facts.launch.draft_side import Seen
from ckptdoctor.facts.launch.methods import runs
from ckptdoctor.launch.deviations import Deviation, LayersDeviation, LengthDeviation, StoredDeviation
from ckptdoctor.unknown import Unknown

__all__ = ["setting_deviations"]

_NARROW = {"float16": "BF16", "half": "BF16", "fp16": "BF16"}


def setting_deviations(seen: Seen) -> Iterator[Deviation]:
    """What is wrong with the settings that touch the draft."""
    if not seen.launch.speculates:
        return
    for part in (_length, _dtype, _gguf, _quantisation, _draft_parallel, _token_map, _layers):
        yield from part(seen)


def _length(seen: Seen) -> Iterator[LengthDeviation]:
    """The longest text against the draft's rotary table."""
    launch, rows = seen.launch, seen.draft.positions.rows
    if rows is None or not seen.known or seen.kind.heads is not None or seen.bundled:
        return
    if launch.draft_context_length is not None and launch.draft_context_length > rows:
        at = seen.instead("draft_context_length", rows)
        yield LengthDeviation("draft_length_beyond_positions", *at, positions=rows)
    if launch.context_length is not None and launch.context_length > rows:
        kind = "context_beyond_positions_let_in" if launch.longer_context else "context_beyond_positions"
        yield LengthDeviation(kind, *seen.instead("context_length", rows), positions=rows)


def _dtype(seen: Seen) -> Iterator[StoredDeviation]:
    stored = seen.dtype
    if seen.launch.dtype is not None and stored is not None and _NARROW.get(seen.launch.dtype.lower()) == stored:
        yield StoredDeviation("dtype_of_less_range", *seen.instead("dtype", "bfloat16"), stored=stored)


def _gguf(seen: Seen) -> Iterator[Deviation]:
    """A target in the GGUF format, whose loader is used for the draft too."""
    launch = seen.launch
    names = (launch.load_format, launch.quantization)
    is_gguf = (launch.target_path or "").lower().endswith(".gguf") or "gguf" in [name.lower() for name in names if name]
    if (
        not is_gguf
        or launch.draft_path is None
        or launch.draft_path.lower().endswith(".gguf")
        or launch.draft_load_format
    ):
        return
    can = any(option.field == "draft_load_format" for option in seen.line.options.values())
    yield Deviation("gguf_for_both", *seen.said("target_path"), {"draft_load_format": "auto"} if can else {})


def _quantisation(seen: Seen) -> Iterator[StoredDeviation]:
    """A quantisation that needs a quantised checkpoint, for a draft that is none."""
    launch, raw = seen.launch, seen.line.raw
    if seen.quantised or not seen.known or seen.dtype is None or seen.bundled:
        return
    online = {word.lower() for word in raw.get("online_quantization", ())}
    if not online:
        return
    own = launch.draft_quantization
    if own is not None:
        if own.lower() not in online:
            at = seen.instead("draft_quantization", None)
            yield StoredDeviation("quantisation_of_plain_draft", *at, stored=seen.dtype)
        return
    none = raw.get("not_quantized")
    if none and launch.quantization is not None and launch.quantization.lower() not in (*online, "gguf"):
        changes = {"draft_quantization": none}
        yield StoredDeviation("quantisation_inherited", *seen.said("quantization"), changes, stored=seen.dtype)


def _draft_parallel(seen: Seen) -> Iterator[Deviation]:
    launch = seen.launch
    size = launch.draft_tensor_parallel
    if seen.line.raw.get("draft_tensor_parallel") != "one_or_all" or size is None or seen.is_open("tensor_parallel"):
        return
    if size not in (1, launch.tensor_parallel):
        yield Deviation("draft_parallel_size", *seen.instead("draft_tensor_parallel", launch.tensor_parallel))


def _token_map(seen: Seen) -> Iterator[Deviation]:
    """A token map beside a draft whose own map decides."""
    if seen.launch.token_map is None:
        return
    if seen.kind.fuses_states:
        yield Deviation("token_map_of_no_use", *seen.instead("token_map", None))
    elif seen.launch.tensor_parallel > 1:
        yield Deviation("token_map_cut", *seen.instead("token_map", None))


def _layers(seen: Seen) -> Iterator[LayersDeviation]:
    """The captured layers, where the launch gives them and the draft's config is not read for them."""
    row = seen.line.raw.get("layers")
    method = runs(seen)
    if (
        row is None
        or seen.algorithm not in row["drafts"]
        or (method is not None and seen.algorithm not in method.drafts)
    ):
        return
    if seen.is_open("layers_to_capture"):
        return
    aux, given, depth = seen.draft.aux, seen.launch.layers_to_capture, seen.depth
    if not aux.used:
        return
    claimed = aux.claimed
    readings, option = _readings(seen, int(row["boundary"])), seen.launch.source.written("layers_to_capture")
    if given is not None and not isinstance(claimed, Unknown) and len(set(given)) != claimed and -1 not in given:
        at = option, _listed(given), _layer_change(readings)
        yield LayersDeviation("layers_of_another_count", *at, wanted=_wanted(readings), takes=claimed)
        return
    if not readings:
        return
    taken = tuple(sorted(given)) if given is not None else _default(depth)
    if taken is None or taken in readings:
        return
    kind = "layers_not_given" if given is None else "other_layers"
    at = option, _listed(taken), _layer_change(readings)
    yield LayersDeviation(kind, *at, wanted=_wanted(readings), in_config=_listed(aux.ids or ()))


def _wanted(readings: tuple[tuple[int, ...], ...]) -> str | None:
    return " or ".join(_listed(reading) for reading in readings) or None


def _layer_change(readings: tuple[tuple[int, ...], ...]) -> dict[str, Any]:
    return {"layers_to_capture": list(readings[0])} if len(readings) == 1 else {}


def _listed(numbers: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


def _default(depth: int | None) -> tuple[int, ...] | None:
    return tuple(sorted({1, depth // 2 - 1, depth - 4})) if depth is not None and depth > 5 else None


def _readings(seen: Seen, boundary: int) -> tuple[tuple[int, ...], ...]:
    """The layers in the engine's count that the ids of the draft's config can mean; empty where there are none."""
    aux, depth = seen.draft.aux, seen.depth
    source: AuxSource | None = next((s for s in aux.sources if s.key == aux.key), None)
    if aux.ids is None or source is None or not aux.ids:
        return ()
    outputs = tuple(sorted(aux.ids))
    boundaries = tuple(sorted(i - boundary for i in aux.ids))
    if source.means == "boundary" or (depth is not None and max(aux.ids) == depth):
        return (boundaries,)
    if source.means == "layer_output" or min(aux.ids) < 0:
        return (outputs,)
    # Neither the shape of the ids nor the writer that the files look like is a proof of how they are counted.
    return outputs, boundaries
