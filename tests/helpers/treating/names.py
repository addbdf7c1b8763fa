"""What the tests of treatments of names share: drafts with other names in them."""

from __future__ import annotations

from treatment_cases import Draft


def renamed(draft: Draft, old: str, new: str) -> Draft:
    """`draft` with every name that begins with `old` beginning with `new` instead."""
    draft.tensors = {new + n[len(old) :] if n.startswith(old) else n: t for n, t in draft.tensors.items()}
    return draft


def config(draft: Draft) -> dict[str, object]:
    assert draft.config is not None
    return draft.config
