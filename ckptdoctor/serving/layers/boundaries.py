"""Config ids, boundaries and what a target class can really capture: the arithmetic behind `capture`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckptdoctor.serving.contract.contracts import Reader
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.serving.plan import Refusal
from ckptdoctor.unknown import Unknown

__all__ = ["default_boundaries", "reach", "spread", "to_boundaries"]


def to_boundaries(variant: str, ids: Sequence[int], depth: int) -> tuple[int, ...]:
    """Config ids → boundaries, by the named variants of `ids_to_boundaries`."""
    shifted = tuple(i + 1 for i in ids)
    if variant in ("plus_one", "plus_one_and_default_too"):
        return shifted
    if variant == "plus_one_if_first_is_1":
        return shifted if ids and ids[0] == 1 else tuple(ids)
    if variant == "same_if_max_is_depth_else_plus_one":
        return tuple(ids) if ids and max(ids) == depth else shifted
    if variant == "same":
        return tuple(ids)
    raise ValueError(f"no such way from ids to boundaries: {variant}")


def default_boundaries(reader: Reader, row: Mapping[str, Any], depth: int) -> tuple[int, ...]:
    """What the target class captures when no ids are given."""
    formula = reader.value(row["default_boundaries"], ["2", "n//2", "n-3"])
    return _arranged([_number(part, depth) for part in formula], row)


def spread(settings: Settings, depth: int) -> tuple[int, ...]:
    """Evenly spread layers of a block drafter that names none: from layer 1 to n-3, as many as it has layers."""
    count = settings.get("num_hidden_layers")
    if type(count) is not int or count < 1:
        return ()
    if count == 1:
        return (depth // 2 + 1,)
    last = depth - 3
    return tuple(round(1 + i * (last - 1) / (count - 1)) + 1 for i in range(min(count, depth)))


def reach(
    reader: Reader, row: Mapping[str, Any], wanted: Sequence[int], depth: int
) -> tuple[tuple[int, ...], list[Refusal], list[str]]:
    """The wanted boundaries that the forward captures, in its order, and what becomes of the rest."""
    low, high = (_number(part, depth) for part in reader.value(row["reachable"], ["1", "n-1"]))
    refusals: list[Refusal] = []
    remarks: list[str] = []
    reached = [b for b in wanted if low <= b <= high]
    for boundary in sorted(set(wanted) - set(reached)):
        side = "above" if boundary > high else "negative" if boundary < 0 and "negative" in row else "below"
        fate = str(reader.value(row.get(side), "feature_missing"))
        where = f"boundary {boundary} of {depth}"
        if fate == "refuse_at_first_forward":
            refusals.append(Refusal("first_forward", f"{where} cannot be captured in this target class"))
        elif fate == "refuse_at_start":
            refusals.append(Refusal("start", f"{where} does not exist in this target class"))
        elif fate == "wraps" and boundary >= -depth:
            # Counted from the end, as Python does: layer -1 is the last, whose input is boundary n-1.
            reached.append(depth + boundary)
            remarks.append(f"{where} wraps to boundary {depth + boundary}")
        elif fate == "wraps":
            refusals.append(Refusal("start", f"{where} does not exist in this target class"))
        elif fate == "lowest":
            reached = [low if b == boundary else b for b in wanted if b == boundary or b in reached]
            remarks.append(f"boundary {low} is captured in place of {boundary}")
        else:
            remarks.append(f"{where} is never captured")
    return _arranged(reached, row), refusals, remarks


def _arranged(boundaries: Sequence[int], row: Mapping[str, Any]) -> tuple[int, ...]:
    """Ascending and once each, but for classes that take the list as it stands."""
    return tuple(boundaries) if row.get("order") == "as_listed" else tuple(sorted(set(boundaries)))


def _number(part: Any, depth: int) -> int:
    value = evaluate(str(part), {"n": depth}, Settings({}))
    if isinstance(value, Unknown):
        raise ValueError(f"no boundary: {part}")
    return int(value)
