"""The gate of an MLflow model registry: a store that judges what is registered and promoted, before any other store.

MLflow finds it by the scheme of the registry's URI: `ckptdoctor+sqlite:///mlflow.db` is the registry in
`sqlite:///mlflow.db` with the gate in front. MLflow loads this module in every process that asks for a registry, so
what judges is imported when something is to be judged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ckptdoctor.text import show

try:
    from mlflow.entities.model_registry import ModelVersionTag
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, PERMISSION_DENIED, ErrorCode
except ImportError as error:
    raise ImportError("the gate of MLflow registries needs MLflow: pip install 'ckptdoctor[mlflow]'") from error

from ckptdoctor.registry.mlflow.options import TAG, Options, options_of, told

if TYPE_CHECKING:
    from ckptdoctor.policy import Policy
    from ckptdoctor.registry.gate import Verdict
    from ckptdoctor.registry.mlflow.judging import Judged

__all__ = ["RefusedError", "build_store", "check_version"]

_MESSAGE_LIMIT = 30_000
CHANGED = "The files are not those that were judged before."
_LOG = logging.getLogger("mlflow.ckptdoctor")
_STAGES = ("staging", "production")
_OWN = ContextVar("_OWN", default=False)
"""Whether it is the gate itself that sets tags: a store may set those of a new version by its own method."""


class RefusedError(MlflowException):  # type: ignore[misc]  # MLflow is not followed by mypy
    """A version that the gate does not let in, or not any further. The message carries the report."""

    def __init__(self, message: str) -> None:
        super().__init__(message, error_code=INVALID_PARAMETER_VALUE)


def build_store(store_uri: str, tracking_uri: str | None = None) -> Any:
    """The registry store for `store_uri`, which is MLflow's own with the gate in front (MLflow's entry point).

    `ckptdoctor+URI` and `ckptdoctor:URI` are the registry `URI`. `?ckptdoctor-policy=FILE` is the policy (else
    CKPTDOCTOR_POLICY), `?ckptdoctor-models=PATTERN,…` limits the gate to registered models with such names.
    Raises `MlflowException` for a registry that cannot be gated, and for a policy that cannot be read.
    """
    from mlflow.store.db.db_types import DATABASE_ENGINES
    from mlflow.tracking._model_registry import utils

    plain, options = options_of(store_uri, tracking_uri)
    kind = urlsplit(plain).scheme.split("+")[0]
    if kind not in ("", "file", "http", "https", *DATABASE_ENGINES):
        raise MlflowException(
            f"ckptdoctor cannot stand before a registry of the kind {show(kind)}: it knows databases, folders and"
            " MLflow servers.",
            error_code=INVALID_PARAMETER_VALUE,
        )
    options.policy()
    return _gated(utils._get_store_registry().get_store_builder(plain)(plain), options)


def check_version(
    name: str, version: str | int, registry_uri: str | None = None, tracking_uri: str | None = None
) -> Verdict:
    """Judge the files of a registered version as they are now, and change nothing.

    Works with any registry, gated or not (default: the one that MLflow uses). A remark of the report says when the
    files are not those that were judged when it was registered. Raises `MlflowException` when there is no such version.
    """
    from mlflow.tracking._model_registry import utils

    store = utils._get_store(registry_uri, tracking_uri)
    options = store.ckptdoctor if isinstance(store, _Gate) else options_of("", tracking_uri)[1]
    return _judge_version(store, options, store.get_model_version(name, str(version)), options.policy()).verdict


@contextmanager
def _ours() -> Iterator[None]:
    token = _OWN.set(True)
    try:
        yield
    finally:
        _OWN.reset(token)


def _gated(store: Any, options: Options) -> Any:
    """The store itself, as one of a class of its own with the gate before its methods: also what it calls by itself
    (a copy is a registration) goes through the gate, and all else stays as it is."""
    store.__class__ = _gated_class(type(store))
    store.ckptdoctor = options
    return store


def _gated_class(base: type[Any]) -> type[Any]:
    return type(f"Gated{base.__name__}", (_Gate, base), {})


def _judge(store: Any, options: Options, source: str, policy: Policy, name: str) -> tuple[Judged, Callable[[], bool]]:
    """The judgement of the files that `source` leads to, and whether they are still the same when it is asked."""
    from ckptdoctor.registry.mlflow.judging import is_unchanged, judge
    from ckptdoctor.registry.mlflow.sources import places

    found = partial(places, source, store, options.tracking_uri)
    with told():
        judged = judge(found, policy, name)
    return judged, partial(is_unchanged, found, judged, policy, name)


def _judge_version(store: Any, options: Options, version: Any, policy: Policy) -> Judged:
    """The judgement of a registered version as its files are now; says so when they are not those of then."""
    from ckptdoctor.registry.mlflow.judging import is_unchanged, remarked
    from ckptdoctor.registry.mlflow.sources import places

    source = store.get_model_version_download_uri(version.name, version.version)
    judged, _ = _judge(store, options, source, policy, version.name)
    then = version.tags.get(f"{TAG}digest", "").removeprefix("sha256:")
    if not then or judged.digest == then:
        return judged
    if judged.verdict.refused and not judged.digest:  # refused at the first look, by a stricter policy perhaps
        found = partial(places, source, store, options.tracking_uri)
        if is_unchanged(found, replace(judged, digest=then), policy, version.name):
            return judged
    return remarked(judged, CHANGED)


def _refusal(what: str, verdict: Verdict) -> RefusedError:
    from ckptdoctor.report import render

    text = render(verdict.report, "text")
    if len(text) > _MESSAGE_LIMIT:
        text = f"{text[:_MESSAGE_LIMIT]}\n… (the report goes on)\n"
    return RefusedError(f"ckptdoctor: {what}. {verdict.sentence[0].upper()}{verdict.sentence[1:]}.\n\n{text}")


_Store: Any = object


class _Gate(_Store):  # type: ignore[misc]  # before whichever of MLflow's own stores is behind it
    """What is judged before the store behind it hears of it."""

    ckptdoctor: Options

    def create_model_version(
        self,
        name: str,
        source: str,
        run_id: str | None = None,
        tags: Iterable[Any] | None = None,
        run_link: str | None = None,
        description: str | None = None,
        local_model_path: str | None = None,
        model_id: str | None = None,
    ) -> Any:
        """Judge the files of `source`, register them if nothing speaks against it, and see that they did not change."""
        options = self.ckptdoctor
        theirs = [tag for tag in tags or () if not tag.key.startswith(TAG)]
        rest = (run_link, description, local_model_path, model_id)
        if options.skips(name, source, _is_prompt({tag.key: tag.value for tag in theirs})):
            return super().create_model_version(name, source, run_id, theirs, *rest)
        judged, unchanged = _judge(self, options, source, options.policy(), name)
        if judged.verdict.refused:
            raise _refusal(f"no version of {show(name)} is registered from {show(source)}", judged.verdict)
        own = _tags(judged) if judged.digest else []
        with _ours():
            version = super().create_model_version(name, source, run_id, [*theirs, *own], *rest)
        same = False
        try:
            same = unchanged()
        finally:  # also when it was interrupted here: nobody has seen that they are the files that were judged
            if not same:
                super().delete_model_version(name, version.version)
        if not same:
            raise RefusedError(
                f"ckptdoctor: no version of {show(name)} is registered from {show(source)}: its files changed while"
                " they were judged and registered. Register it again when nothing writes to them any more."
            )
        return self._report(version, judged) if judged.digest else version

    def transition_model_version_stage(
        self, name: str, version: Any, stage: str, archive_existing_versions: bool
    ) -> Any:
        """Judge the version anew before it is moved to Staging or Production; any other stage is free."""
        if str(stage).lower() in _STAGES:
            self._judge_again(name, version, f"is not moved to {show(stage)}")
        return super().transition_model_version_stage(name, version, stage, archive_existing_versions)

    def set_registered_model_alias(self, name: str, alias: str, version: Any) -> Any:
        """Judge the version anew before an alias leads to it."""
        self._judge_again(name, version, f"does not get the alias {show(alias)}")
        return super().set_registered_model_alias(name, alias, version)

    def copy_model_version(self, src_mv: Any, dst_name: str) -> Any:
        """Copy a version, which is a registration as any other, and say of a refusal what it is."""
        try:
            return super().copy_model_version(src_mv, dst_name)
        except MlflowException as error:
            if isinstance(error.__cause__, RefusedError):
                raise error.__cause__ from None
            raise

    def rename_registered_model(self, name: str, new_name: str) -> Any:
        """Rename it, unless its versions would come under the gate without having been judged."""
        if self.ckptdoctor.covers(new_name) and not self.ckptdoctor.covers(name):
            raise RefusedError(
                f"ckptdoctor: {show(name)} is not renamed to {show(new_name)}: models of that name are judged, and its"
                " versions were not. Copy the versions to it instead; each copy is judged."
            )
        return super().rename_registered_model(name, new_name)

    def set_model_version_tag(self, name: str, version: Any, tag: Any) -> Any:
        """Set a tag that is not one of the gate's own."""
        _not_ours(tag.key)
        return super().set_model_version_tag(name, version, tag)

    def delete_model_version_tag(self, name: str, version: Any, key: str) -> Any:
        """Delete a tag that is not one of the gate's own."""
        _not_ours(key)
        return super().delete_model_version_tag(name, version, key)

    def _judge_again(self, name: str, number: Any, refused: str) -> None:
        version = self.get_model_version(name, number)
        options = self.ckptdoctor
        if options.skips(name, version.source, _is_prompt(version.tags)):
            return
        judged = _judge_version(self, options, version, options.policy())
        if judged.digest or judged.verdict.refused or f"{TAG}verdict" in version.tags:
            self._tag(version, _tags(judged))
            self._report(version, judged, renew=True)
        if judged.verdict.refused:
            raise _refusal(f"version {version.version} of {show(name)} {refused}", judged.verdict)

    def _report(self, version: Any, judged: Judged, renew: bool = False) -> Any:
        """Attach the report and say what the person should know; the version as it then is."""
        from ckptdoctor.registry.mlflow.reports import attached, summary

        where = version.tags.get(f"{TAG}report")
        if where is None or renew:  # else a server with a gate of its own has done it
            where = attached(judged.verdict, version, self.ckptdoctor.tracking_uri)
            self._tag(version, [ModelVersionTag(f"{TAG}report", where)])
        level = logging.INFO if judged.verdict.outcome == "passed" else logging.WARNING
        said = summary(judged.verdict)
        _LOG.log(level, "%s version %s: %s. Report: %s", show(version.name), version.version, said, show(where, 400))
        return self.get_model_version(version.name, version.version)

    def _tag(self, version: Any, tags: Iterable[Any]) -> None:
        for tag in tags:
            try:
                super().set_model_version_tag(version.name, version.version, tag)
            except MlflowException as error:
                if error.error_code != ErrorCode.Name(PERMISSION_DENIED):
                    raise
                return  # the server has a gate of its own, which sets them


def _tags(judged: Judged) -> list[Any]:
    from ckptdoctor.registry.mlflow.reports import tags_of

    return [ModelVersionTag(key, value) for key, value in tags_of(judged).items()]


def _is_prompt(tags: Mapping[str, str]) -> bool:
    return tags.get("mlflow.prompt.is_prompt", "false").lower() == "true"


def _not_ours(key: str) -> None:
    if key.startswith(TAG) and not _OWN.get():
        raise MlflowException(f"{show(key)} is set by the gate of ckptdoctor alone.", error_code=PERMISSION_DENIED)
