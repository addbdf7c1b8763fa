"""Which release is meant, and the one sentence that is said of a release that nobody has read."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from ckptdoctor.errors import UsageError
from ckptdoctor.serving.contract.contracts import Contract, Release, contracts, parse_release
from ckptdoctor.text import listing, show

__all__ = ["choose", "remark_on"]

_BUILD = re.compile(r"(cu|cpu|rocm|hip|xpu|tpu|npu|musa|hpu|precompiled)[0-9.]*")
"""Local parts of a release number that say for which hardware it was built, and not that it holds other code."""


def choose(requirement: str) -> tuple[Contract, str]:
    """`sglang` or `sglang==0.5.9` → the contract and the release; without a release the newest one that was read.

    Raises `UsageError` for an unknown engine, a release before the first one, and one that is likely a slip of the pen.
    """
    engine, _, wanted = requirement.partition("==")
    known = contracts()
    contract = known.get(engine.strip().lower())
    if contract is None:
        raise UsageError(f"unknown engine '{show(engine)}'; known are {listing(sorted(known), 12)}")
    release = _without_build(wanted.strip(), contract) or contract.newest
    order = parse_release(release, contract.scheme)
    known_as = next((r for r in contract.releases if parse_release(r, contract.scheme) == order), None)
    if known_as is not None:
        return contract, known_as
    if (meant := _meant(release, contract)) is not None:
        raise UsageError(f"there is no {contract.name} {show(release)}; did you mean {meant}?")
    if order < parse_release(contract.releases[0], contract.scheme):
        raise UsageError(
            f"{contract.name} {show(release)} is older than the first known release, {contract.releases[0]}"
        )
    return contract, release


def remark_on(release: Release) -> str | None:
    """What has to be said first of a release that nobody has read; None for one that was."""
    contract, version = release.contract, show(release.version)
    if release.is_read:
        return None
    before = [r for r in contract.releases if release.has_reached(r)]
    judged = f"it is judged as {contract.name} {before[-1]}, so nothing said of it is certain" if before else ""
    if not release.has_reached(contract.newest):
        return f"{contract.name} {version} was not read: {judged}."
    local = contract.scheme == "pep440" and Version(release.version).local is not None
    if local and Version(release.version).public in contract.releases:
        return f"{contract.name} {version} is a build with changes of its own, which were not read: {judged}."
    return f"{contract.name} {version} is newer than what was read, which ends at {contract.newest}: {judged}."


def _without_build(release: str, contract: Contract) -> str:
    """The release without a local part that only says for which hardware it was built."""
    public, plus, local = release.partition("+")
    return public if plus and (contract.scheme != "pep440" or _BUILD.fullmatch(local)) else release


def _meant(release: str, contract: Contract) -> str | None:
    """The known release that was likely meant: its leading `0.` or a dot was left out (`5.12`, `0512`, `0.512`)."""
    if contract.scheme != "pep440":
        return None
    try:
        found = Version(release)
    except InvalidVersion:
        return None
    if not parse_release(release, contract.scheme) > parse_release(contract.newest, contract.scheme):
        return None
    for known in contract.releases:
        if found == Version(known.partition(".")[2]):
            return known
    digits = re.sub(r"\D", "", release)
    # Without its dots a release is no longer one number: only a single candidate counts.
    alike = [known for known in contract.releases if digits in (re.sub(r"\D", "", known), known.replace(".", "")[1:])]
    return alike[0] if len(alike) == 1 and len(digits) > 2 else None
