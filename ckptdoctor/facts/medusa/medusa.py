"""Medusa heads: the layout, and how many heads and layers are stored and declared.

A head is a few residual layers (`x + silu(linear(x))`) and a matrix over the vocabulary of its own, or one that all
heads share with the target (FasterDecoding/Medusa, medusa_model.py; the second version of it drops the own matrices).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.facts.config import SIZE_LIMIT, Config, Field
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.facts.medusa.head_names import MedusaName, layout_of
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Known, Unknown

__all__ = ["HeadCount", "IncompleteHead", "MedusaHeads", "OddShape", "describe_medusa"]

_SHOWN = 64


@dataclass(frozen=True)
class HeadCount:
    """A number in the config against what is stored. `what` is `heads` or `layers`; `claimed` is None where the config
    does not say, and `key` is then where it belongs. `text` is what stands there in place of a number."""

    what: str
    key: str
    line: int | None
    claimed: int | None
    stored: int
    text: str | None


@dataclass(frozen=True)
class IncompleteHead:
    """A head that lacks parts which the others have, or that is absent between others (`absent`)."""

    head: int
    absent: bool
    missing: tuple[str, ...]
    number: int


@dataclass(frozen=True)
class OddShape:
    """A part whose shape does not fit the others."""

    name: str
    file: str
    shape: tuple[int, ...]
    expected: tuple[int, ...]


@dataclass(frozen=True)
class MedusaHeads:
    """What is known of Medusa heads.

    `layout` is `original`, `vllm` or `tensorrt` (rules/facts/medusa.yaml), `prefix` what stands before every name, and
    `with_target` says that the target's weights are in the same file (as Model-Optimizer saves them). `heads` and
    `layers` are stored; `own_outputs` is how many heads have a matrix over the vocabulary, `shared_output` whether
    there is one for all of them in the file, and `says_shared` whether the config says so to vLLM. `width` is the size
    of the states, `rows` those of the outputs (None without any). `biases` are the names of those of the layers. `base`
    is the target that the config names, `base_key` where.
    """

    layout: str
    prefix: str
    with_target: bool
    heads: int
    layers: int
    own_outputs: int
    shared_output: bool
    says_shared: bool
    biases: tuple[str, ...]
    width: Known[int]
    rows: int | None
    output: str | None
    counts: tuple[HeadCount, ...]
    incomplete: tuple[IncompleteHead, ...]
    odd_shapes: tuple[OddShape, ...]
    base: str | None
    base_key: str | None
    other_base: Known[str | None]


def describe_medusa(
    checkpoint: Checkpoint, config: Config, draft: Draft, target: Target | None, known: Knowledge
) -> MedusaHeads | None:
    """None where the checkpoint has nothing of the kind, or its names cannot be trusted."""
    if draft.kind.heads != "medusa" or not checkpoint.names_sound:
        return None
    read = layout_of(checkpoint.tensors)
    if read is None:
        return None
    layout, names = read
    words = known.words["medusa"]
    tensors = checkpoint.tensors
    layers_of: dict[int, set[int]] = defaultdict(set)
    for name in names:
        if name.layer is not None:
            layers_of[name.head].add(name.layer)
    layers = max(max(stored) for stored in layers_of.values()) + 1
    numbers = {n.head for n in names}
    heads = len(numbers)
    outputs = [n for n in names if n.layer is None and n.part == "weight"]
    shared = any(n in tensors for n in words["layouts"][layout]["shared"]) or (len(outputs) == 1 < heads)
    linears = [tensors[n.name] for n in names if n.layer is not None and n.part == "weight"]
    width = _usual(t.shape[-1] for t in linears if len(t.shape) == 2)
    rows = _usual(tensors[n.name].shape[0] for n in outputs if len(tensors[n.name].shape) == 2)
    others = len(tensors) - len(names) - shared
    base = next((f for f in config.all_of(words["base"]) if isinstance(f.value, str) and f.value), None)
    return MedusaHeads(
        layout=layout,
        prefix=names[0].prefix,
        with_target=others > len(names) or any(name.endswith("embed_tokens.weight") for name in tensors),
        heads=heads,
        layers=layers,
        own_outputs=len(outputs),
        shared_output=shared,
        says_shared=_says_shared(config, words),
        biases=tuple(n.name for n in names if n.layer is not None and n.part == "bias"),
        width=width if width is not None else Unknown("a layer of a Medusa head with two dimensions"),
        rows=rows,
        output=outputs[0].name if outputs else None,
        counts=_counts(config, words, layout, heads, layers),
        incomplete=_incomplete(names, numbers, layers, shared),
        odd_shapes=_odd_shapes(names, tensors, width, rows),
        base=base.value if base else None,
        base_key=base.key if base else None,
        other_base=_other_base(base, target),
    )


def _usual(sizes: Iterable[int]) -> int | None:
    """The size that most have; None without any."""
    votes: dict[int, int] = {}
    for size in sizes:
        votes[size] = votes.get(size, 0) + 1
    return max(votes, key=lambda size: votes[size]) if votes else None


def _counts(
    config: Config, words: Mapping[str, Sequence[str]], layout: str, heads: int, layers: int
) -> tuple[HeadCount, ...]:
    if not config.present:
        return ()
    nested = config.at("medusa")
    homes: Mapping[str, Mapping[str, str]] = words["homes"]  # type: ignore[assignment]
    home = homes["nested" if nested is not None and isinstance(nested.value, dict) else layout]
    own = config.at("model_type")
    of_vllm = layout == "vllm" or (own is not None and own.value == "medusa")
    places = {"heads": list(words["heads"]), "layers": list(words["layers"])}
    if of_vllm:
        places["layers"] += words["layers_of_vllm"]
        if config.at(words["heads"][0]) is None and nested is None:
            home = homes["vllm"]
    found = []
    for what, stored in (("heads", heads), ("layers", layers)):
        field = next((f for f in config.all_of(places[what]) if not isinstance(f.value, (dict, list))), None)
        if field is None:
            found.append(HeadCount(what, home[what], None, None, stored, None))
        elif type(field.value) is int and 0 <= field.value < SIZE_LIMIT:
            found.append(HeadCount(what, field.key, field.line, field.value, stored, None))
        else:
            found.append(HeadCount(what, field.key, field.line, None, stored, json.dumps(field.value)))
    return tuple(found)


def _incomplete(
    names: tuple[MedusaName, ...], numbers: set[int], layers: int, shared: bool
) -> tuple[IncompleteHead, ...]:
    """Heads that lack what most of the others have, and numbers between others that no head has."""
    parts: dict[int, set[str]] = defaultdict(set)
    for n in names:
        parts[n.head].add("output" if n.layer is None and n.part == "weight" else f"layer {n.layer} {n.part}")
    wanted = {f"layer {layer} weight" for layer in range(layers)}
    # One output for all heads is how some share it; more than one and not all is a loss.
    if sum("output" in stored for stored in parts.values()) > 1 and not shared:
        wanted.add("output")
    for layer in range(layers):
        bias = f"layer {layer} bias"
        if 2 * sum(bias in stored for stored in parts.values()) > len(parts):
            wanted.add(bias)
    count = max(numbers) + 1
    found: list[IncompleteHead] = []
    for head in range(count):
        missing = tuple(sorted(wanted - parts[head])) if head in numbers else ()
        if head not in numbers or missing:
            found.append(IncompleteHead(head, head not in numbers, missing[:_SHOWN], count))
        if len(found) == _SHOWN:
            break
    return tuple(found)


def _odd_shapes(
    names: tuple[MedusaName, ...], tensors: Mapping[str, TensorInfo], width: int | None, rows: int | None
) -> tuple[OddShape, ...]:
    found = []
    for n in names:
        if width is None or (n.layer is None and (rows is None or n.part == "bias")):
            continue
        expected = (width,) if n.part == "bias" else (width, width) if n.layer is not None else (rows or 0, width)
        info = tensors[n.name]
        if tuple(info.shape) != expected:
            found.append(OddShape(n.name, info.file, tuple(info.shape), expected))
    return tuple(found[:_SHOWN])


def _says_shared(config: Config, words: Mapping[str, str]) -> bool:
    field = config.at(words["shares_output"])
    return field is not None and field.value is True


def _other_base(base: Field | None, target: Target | None) -> Known[str | None]:
    """The name of the target where both names are known and differ in their last part; None where they agree."""
    if target is None:
        return Unknown("the target (--target PATH)")
    name = target.document.get("_name_or_path")
    if base is None or not isinstance(name, str) or not name:
        return Unknown("the names of the target in its config and in that of the heads")
    return None if _last(str(base.value)) == _last(name) else name


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].lower()
