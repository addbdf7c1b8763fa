"""Where the report of a judgement goes: tags of the version, and an artifact of its run or beside its files."""

from __future__ import annotations

import logging
import posixpath
import re
import tempfile
import zlib
from pathlib import Path
from typing import Any

from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from ckptdoctor.findings import Severity
from ckptdoctor.registry.gate import Verdict
from ckptdoctor.registry.mlflow.judging import Judged
from ckptdoctor.registry.mlflow.options import TAG
from ckptdoctor.registry.mlflow.sources import REPORT_FOLDER, resolved
from ckptdoctor.report import render
from ckptdoctor.report.wording import serving_line
from ckptdoctor.text import listing, show
from ckptdoctor.version import __version__

__all__ = ["attached", "serving", "summary", "tags_of"]

_LINE_LIMIT = 1000
_LOG = logging.getLogger("mlflow.ckptdoctor")


def tags_of(judged: Judged) -> dict[str, str]:
    """The tags that a judged version carries: the verdict, a sentence, how it is served, what the files were, and who
    judged."""
    tags = {
        f"{TAG}verdict": judged.verdict.outcome,
        f"{TAG}summary": summary(judged.verdict),
        f"{TAG}serving": serving(judged.verdict),
        f"{TAG}version": __version__,
    }
    # A refused version keeps the digest of the files that passed once: whoever puts them back can see it.
    return tags if judged.verdict.refused else {**tags, f"{TAG}digest": f"sha256:{judged.digest or 'none'}"}


def summary(verdict: Verdict) -> str:
    """The verdict in one line, with the rules that have something to say."""
    severe = {
        f"{f.rule} {f.name}": None
        for e in verdict.report.examinations
        for f in e.findings
        if f.severity in (Severity.ERROR, Severity.WARNING)
    }
    said = f"{verdict.sentence} ({listing(severe, 8)})" if severe else verdict.sentence
    return show(said, _LINE_LIMIT)


def serving(verdict: Verdict) -> str:
    """How the releases that the policy names serve it, else the newest one of each engine, in one line."""
    drafts = [(e.path, line) for e in verdict.report.examinations if (line := serving_line(e))]
    if len(drafts) == 1:
        return show(drafts[0][1], _LINE_LIMIT)
    return show("; ".join(f"{path}: {line}" for path, line in drafts) or "not planned", _LINE_LIMIT)


def attached(verdict: Verdict, version: Any, tracking_uri: str | None) -> str:
    """Store the report, as JSON and as Markdown, and say where it is.

    It becomes an artifact of the version's run; where there is no run, it lies beside the version's files. Where
    neither can be written, the answer says why: the verdict stands without it.
    """
    folder = posixpath.join(REPORT_FOLDER, f"{_plain(version.name)}-v{version.version}")
    why = "its run is not known, and nothing can be written beside its files"
    for root, told in _roots(version, tracking_uri):
        try:
            with tempfile.TemporaryDirectory(prefix="ckptdoctor-") as name:
                for ending, fmt in (("json", "json"), ("md", "markdown")):
                    (Path(name) / f"report.{ending}").write_text(render(verdict.report, fmt), encoding="utf-8")
                get_artifact_repository(resolved(root), tracking_uri=tracking_uri).log_artifacts(name, folder)
        except Exception as error:  # noqa: BLE001  # each artifact store has a client, and exceptions, of its own
            why = show(error, 300)
            continue
        return posixpath.join(told, folder, "report.md")
    _LOG.warning("The report on %s version %s is not stored: %s", show(version.name), version.version, why)
    return f"not stored: {why}"


def _roots(version: Any, tracking_uri: str | None) -> list[tuple[str, str]]:
    """Artifact roots to try, in this order: (where to write, how people call it)."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    roots: list[tuple[str, str]] = []
    if version.run_id:
        try:
            run = MlflowClient(tracking_uri).get_run(version.run_id)
            roots.append((run.info.artifact_uri, f"runs:/{version.run_id}"))
        except MlflowException:
            _LOG.debug("The run %s is not known here", version.run_id)
    beside = posixpath.dirname(version.source.rstrip("/"))
    if beside and not version.source.startswith(("models:", "runs:")):
        roots.append((beside, beside))
    return roots


def _plain(name: str) -> str:
    """`name` as the name of a folder that every artifact store takes, and no other model has."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100]
    return plain if plain == name and plain.strip(".") else f"{plain}-{zlib.crc32(name.encode()):08x}"
