"""Stored names against built parameters: the walk of an engine's `load_weights`, one key at a time."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.serving.parameters.building import Built
from ckptdoctor.serving.plan import Refusal, Stored
from ckptdoctor.text import show

__all__ = ["Behaviour", "Loaded", "load"]

_EXPERT = re.compile(r"(?P<before>.*\.experts\.)(?P<index>[0-9]{1,6})\.(?P<part>\w+)\.weight$")
_LAYER = re.compile(r"layers\.([0-9]{1,9})\.")


@dataclass(frozen=True)
class Behaviour:
    """How this class of this release walks over the stored names (values of the contract's timelines).

    `keys`: how a stored key becomes a parameter's name. `aliases`: substrings that are replaced first
    (`^` in front: only at the start of the name).
    `fuse`: substrings that name a part of a fused parameter → that parameter. `map_keys`: `contains`
    or `exact` for d2t and t2d. `map_to`: the parameter that d2t is copied into, or None when the loader
    keeps it by itself. `skips`: substrings (`^` as above) that are passed over, with the reason.
    `unknown_part`: what becomes of a part of a fused parameter that does not exist, None for the same
    as any unknown key. `loud`: substrings (`^`) of names that must name a parameter, whatever
    `unknown_key` says. `layers`: keys of a layer of this number or above are passed over in silence.
    `wrong_size`: what happens to a projection whose stored size differs. `buffers`: substrings of tensors
    that are flattened into a buffer if it is built, and passed over with a warning if it is not.
    `experts`: what becomes of a part of a single expert (`gate_proj`): the parameter in which all are stacked.
    `native_names`: whole names as patterns → this class's; a key must match one, or start with `model.` or
    `lm_head.`.
    """

    keys: str
    aliases: Mapping[str, str]
    fuse: Mapping[str, str]
    map_keys: str
    map_to: str | None
    unknown_key: str
    unknown_bias: str
    skips: Sequence[tuple[str, str]]
    claims: Sequence[str] = ()
    unknown_part: str | None = None
    loud: Sequence[str] = ()
    layers: int | None = None
    wrong_size: str = "refuse"
    buffers: Mapping[str, str] = field(default_factory=dict)
    native_names: Mapping[str, str] = field(default_factory=dict)
    experts: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Loaded:
    """What the walk gave: the keys per parameter, the parts that came, each key's fate, and the first loud error."""

    keys: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    parts: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    stored: list[Stored] = field(default_factory=list)
    landed: dict[tuple[str, str | None], str] = field(default_factory=dict)
    map_key: str | None = None
    refusals: list[Refusal] = field(default_factory=list)


def load(tensors: Iterable[TensorInfo], built: Sequence[Built], behaviour: Behaviour) -> Loaded:
    """Walk over `tensors` in stored order. A real loader stops at the first error; the walk goes on, so that
    the plan can tell all of it, and the first refusal is the one that people see."""
    parameters = {b.name: b for b in built}
    result = Loaded()
    for tensor in tensors:
        result.stored.append(_place(tensor, parameters, behaviour, result))
    for item in built:
        if item.whole:
            _drop_incomplete(item, result)
        if item.required:
            result.refusals += _missing(item, result)
    return result


def _drop_incomplete(item: Built, result: Loaded) -> None:
    """A fused parameter that the loader writes only when all its parts have come: else nothing lands."""
    if item.name in result.keys and set(item.parts) - result.parts[item.name]:
        del result.keys[item.name], result.parts[item.name]
        for at, stored in enumerate(result.stored):
            if stored.parameter == item.name and stored.fate == "used":
                result.stored[at] = Stored(stored.name, "dropped", why=f"the other part of {item.name} is missing")


def _matches(name: str, text: str) -> bool:
    return name.startswith(text[1:]) if text.startswith("^") else text in name


def _missing(item: Built, result: Loaded) -> list[Refusal]:
    """The loud error of a loader that insists on this parameter, when it, or a part of it, did not come."""
    if item.name not in result.keys:
        rejected = any(s.fate == "rejected" and s.parameter == item.name for s in result.stored)
        return [] if rejected else [Refusal("load", f"no tensor is stored for {item.name}", "name")]
    parts = [part for part in item.parts if part not in result.parts[item.name]]
    return [Refusal("load", f"no {part} is stored for {item.name}", "name") for part in parts[:1]]


def _renamed(name: str, aliases: Mapping[str, str]) -> str:
    for legacy, new in aliases.items():
        if not legacy.startswith("^"):
            name = name.replace(legacy, new)
        elif name.startswith(legacy[1:]):
            name = new + name[len(legacy) - 1 :]
    return name


def _place(tensor: TensorInfo, parameters: Mapping[str, Built], how: Behaviour, result: Loaded) -> Stored:
    name = tensor.name
    for text, reason in how.skips:
        if _matches(name, text):
            return Stored(name, "dropped", why=reason)
    number = _LAYER.search(name)
    if how.layers is not None and number is not None and int(number[1]) >= how.layers:
        return Stored(name, "dropped", why=f"{how.layers} layers are built")
    name = _renamed(name, how.aliases)
    if _is_map(name, "t2d", how):
        return Stored(tensor.name, "used", why="engines need no t2d")
    if _is_map(name, "d2t", how):
        if how.map_to is None:
            result.map_key = tensor.name
            return Stored(tensor.name, "used", "d2t")
        return _into(tensor, [name.replace("d2t", how.map_to)], None, parameters, how, result)
    for text in how.claims:
        if text in name:
            return Stored(tensor.name, "used", text)
    for text, buffer in how.buffers.items():
        if text in name:
            return _copied(tensor, parameters.get(buffer), result)
    if how.native_names and not name.startswith(("model.", "lm_head.")):
        found = next((m.expand(new) for old, new in how.native_names.items() if (m := re.fullmatch(old, name))), None)
        if found is None:
            return Stored(tensor.name, "dropped_with_warning", why="no name of this class")
        name = found
    loud = any(_matches(name, text) for text in how.loud)
    part = None
    expert = _EXPERT.match(name) if how.experts else None
    if expert is not None and (stacked := how.experts.get(expert["part"])) is not None:
        names = _candidates(expert["before"] + stacked, how.keys)
        return _into(tensor, names, f"{expert['index']}.{expert['part']}", parameters, how, result)
    unfused = any(c in parameters for c in _candidates(name, how.keys))
    for piece, fused in how.fuse.items():
        if piece in name and not loud and not unfused:
            part = piece.strip(".")
            name = name.replace(piece, fused)
            break
    return _into(tensor, _candidates(name, how.keys), part, parameters, how, result)


def _copied(tensor: TensorInfo, buffer: Built | None, result: Loaded) -> Stored:
    """A tensor that is copied into a buffer, whatever its shape."""
    if buffer is None:
        return Stored(tensor.name, "dropped_with_warning", why="the buffer for it is not built")
    if buffer.shape is not None and prod(tensor.shape) != prod(buffer.shape):
        reason = f"{show(tensor.name)} is {list(tensor.shape)}; {buffer.name} takes {list(buffer.shape)}"
        result.refusals.append(Refusal("load", reason))
        return Stored(tensor.name, "rejected", buffer.name, "wrong shape")
    result.keys[buffer.name].append(tensor.name)
    return Stored(tensor.name, "used", buffer.name)


def _is_map(name: str, word: str, how: Behaviour) -> bool:
    if how.map_keys == "none":
        return False
    return word in name if how.map_keys == "contains" else name == word or name.endswith(f".{word}")


def _candidates(name: str, keys: str) -> list[str]:
    """The parameter names that are tried for a key, in order."""
    if keys == "as_is":
        return [name]
    if keys == "as_is_then_model":
        return [name, f"model.{name}"]
    if keys == "with_or_without_model":
        return [name, name.removeprefix("model.") if name.startswith("model.") else f"model.{name}"]
    if keys == "model_prefix_unless_head":
        return [name if "lm_head" in name else f"model.{name}"]
    if keys == "model_prefix":
        return [f"model.{name}"]
    if keys == "model_prefix_unless_head_start":
        return [name if name.startswith("lm_head.") else f"model.{name}"]
    if keys == "model_prefix_for_body":
        return [f"model.{name}" if name.startswith(("layers.", "embed_tokens.", "norm.")) else name]
    raise ValueError(f"no such way of naming keys: {keys}")


def _into(
    tensor: TensorInfo,
    candidates: list[str],
    part: str | None,
    parameters: Mapping[str, Built],
    how: Behaviour,
    result: Loaded,
) -> Stored:
    found = next((parameters[c] for c in candidates if c in parameters), None)
    if found is None or (part is not None and part[0].isdigit() and part not in found.parts):  # no such expert
        return _unknown(tensor, candidates, part, parameters, how, result)
    expected = found.parts.get(part) if part is not None and found.parts else found.shape
    cut = _fits(tuple(tensor.shape), expected, found.split, how.wrong_size)
    if cut is None:
        assert expected is not None
        reason = f"{show(tensor.name)} is {list(tensor.shape)}; {found.name} takes {list(expected)}"
        result.refusals.append(Refusal("load", reason))
        return Stored(tensor.name, "rejected", found.name, "wrong shape")
    _land(tensor.name, found.name, part, result)
    if part is None:  # stored fused
        result.parts[found.name].update(found.parts)
    if found.role == "map":
        result.map_key = tensor.name
    if found.role == "mask":
        return Stored(tensor.name, "used", found.name, "engines need no t2d")
    if not found.used:
        return Stored(tensor.name, "dropped", found.name, "loaded into a parameter that is never read")
    return Stored(tensor.name, "used", found.name, cut, resized=bool(cut))


def _land(key: str, parameter: str, part: str | None, result: Loaded) -> None:
    """Write down where a key landed. One that lands where another did takes its place, and the other is lost."""
    places = (
        [] if parameter not in result.keys else [p for p in result.landed if p[0] == parameter and part in (None, p[1])]
    )
    for before in [result.landed.pop(place) for place in places]:
        result.keys[parameter].remove(before)
        at = next(i for i, s in enumerate(result.stored) if s.name == before)
        result.stored[at] = Stored(before, "dropped", why=f"{show(key)} takes its place in {parameter}")
    result.landed[parameter, part] = key
    result.keys[parameter].append(key)
    if part is not None:
        result.parts[parameter].add(part)


def _fits(stored: tuple[int, ...], expected: tuple[int, ...] | None, split: int | None, wrong_size: str) -> str | None:
    """What is done to a tensor so that it fits: nothing (an empty text), or in words. None when it is refused."""
    if expected is None or stored == expected:
        return ""
    if wrong_size == "refuse" or split is None or len(stored) != len(expected) or split >= len(expected):
        return None
    if any(a != b for at, (a, b) in enumerate(zip(stored, expected, strict=True)) if at != split):
        return None
    if stored[split] > expected[split]:
        return f"cut from {list(stored)} to {list(expected)} in silence"
    if wrong_size == "cut_or_pad" and split == 1:
        return f"filled with zeros from {list(stored)} to {list(expected)} in silence"
    return None


def _unknown(
    tensor: TensorInfo,
    candidates: list[str],
    part: str | None,
    parameters: Mapping[str, Built],
    how: Behaviour,
    result: Loaded,
) -> Stored:
    bias = tensor.name.endswith(".bias") and any(
        p.startswith(c.removesuffix("bias")) for c in candidates for p in parameters
    )
    fate = how.unknown_bias if bias else how.unknown_key
    if part is not None and not bias and how.unknown_part is not None:
        fate = how.unknown_part
    if any(_matches(tensor.name, text) for text in how.loud):
        fate = "refuse"
    if fate == "refuse":
        result.refusals.append(Refusal("load", f"{show(tensor.name)} names no parameter of this class", "name"))
        return Stored(tensor.name, "rejected", why="no such parameter")
    return Stored(
        tensor.name, "dropped_with_warning" if fate == "drop_with_warning" else "dropped", why="no such parameter"
    )
