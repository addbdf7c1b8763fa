"""Modules that are stored plain are named in the list of those that the scheme leaves alone, in every config that has
one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ckptdoctor.facts.quantisation.quantisation import Quantisation
from ckptdoctor.facts.quantisation.scheme import Scheme
from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import writable

__all__ = ["propose"]

MOST_NAMES = 2_000


def propose(case: Case, refuse: str | None = None) -> Proposed:
    """All plain modules that the scheme is for added to the list, in the words of the scheme: the list is one value, so
    that whoever finds some of them gets the same edit. `refuse` names a refusal, None for none.

    Refused where a module is stored quantised, where the scheme has no such list, or where something else stands there.
    """
    if refuse is not None:
        raise RefusedError(refuse)
    facts = case.facts.quantisation
    schemes = () if facts is None else tuple(s for s in facts.schemes if s.weights and s.rules.append)
    if facts is None or not schemes:
        raise RefusedError("no_list")
    if not facts.packed_in_file:
        raise RefusedError("idle")
    edits = tuple(_edit(case, scheme, facts) for scheme in schemes)
    return Proposed(edits, subject="modules that stay plain")


def _edit(case: Case, scheme: Scheme, facts: Quantisation) -> SetConfig:
    key, value = _list(case, scheme)
    wanted = list(dict.fromkeys(_entries(scheme, facts)))
    if len(wanted) > MOST_NAMES:
        raise RefusedError("many", count=len(wanted))
    if isinstance(value, dict):
        new: Any = {} if scheme.rules.form == "negative" else {"bits": 16, "data_type": "float"}
        return SetConfig(key, {**value, **{name: new for name in wanted if name not in value}}, scheme.file)
    return SetConfig(key, [*value, *(name for name in wanted if name not in value)], scheme.file)


def _entries(scheme: Scheme, facts: Quantisation) -> Iterable[str]:
    for found in facts.uncovered:
        if found.whole and scheme.rules.whole is not None:
            for block in found.blocks:
                yield scheme.rules.whole.replace("{name}", block).replace("{pattern}", re.escape(block))
        else:
            yield from _named(scheme, found.entries)
    for split in facts.splits:
        if split.by == "list" and split.plain:
            yield from _named(scheme, split.entries)


def _named(scheme: Scheme, names: Iterable[str]) -> Iterable[str]:
    """GPTQ's patterns are held against the fused names, so those are added."""
    if scheme.rules.form != "negative":
        yield from names
        return
    for name in names:
        stem, _, last = name.rpartition(".")
        fused = {"q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj", "gate_proj": "gate_up_proj",
                 "up_proj": "gate_up_proj"}.get(last)  # fmt: skip
        for part in (last, fused):
            if part is not None:
                yield f"-:^{re.escape(f'{stem}.{part}'.lstrip('.'))}$"


def _list(case: Case, scheme: Scheme) -> tuple[str, Any]:
    """Where the list stands, or is to stand, and what it holds."""
    document = writable(case, scheme.file)
    mapping = scheme.rules.form in ("negative", "bits16")
    key = scheme.list_key
    if key is None:
        append = "exclude_modules" if not scheme.place and scheme.method == "modelopt" else scheme.rules.append
        inner = "quantization." if isinstance(document.object.get("quantization"), dict) and not scheme.place else ""
        key = f"{scheme.place}.{append}" if scheme.place else f"{inner}{append}"
    value: Any = document.object
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        value = {} if mapping else []
    allowed = isinstance(value, dict) if mapping else isinstance(value, list) and all(isinstance(v, str) for v in value)
    if not allowed:
        raise RefusedError("blocked", at=key)
    return key, value
