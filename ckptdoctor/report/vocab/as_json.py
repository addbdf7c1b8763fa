"""A draft vocabulary as JSON, an interface: `rules/schema/vocab.schema.json` describes it, tests hold it to that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ckptdoctor.jsontext import dumps
from ckptdoctor.unknown import Unknown

if TYPE_CHECKING:
    from ckptdoctor.facts.coverage import Coverage, Part
    from ckptdoctor.facts.tokenizer.tokens import Token
    from ckptdoctor.facts.vocabulary.heads import HeadComparison
    from ckptdoctor.facts.vocabulary.token_map import TokenMap
    from ckptdoctor.facts.vocabulary.vocab import MapTensor, VocabMap
    from ckptdoctor.unknown import Known
    from ckptdoctor.vocab.page import Page

__all__ = ["page_data", "page_text"]

SCHEMA_VERSION = 1
_FIRST = 8


def page_text(page: Page, svg: str | None = None) -> str:
    """The document that `vocab show --format json` prints; `svg` is where the picture was written."""
    return dumps(page_data(page, svg))


def page_data(page: Page, svg: str | None = None) -> dict[str, Any]:
    """The page as the plain object of the document. What is not known is null, and `needs` says what it takes."""
    from ckptdoctor.version import __version__

    vocab = page.vocab
    parts = {"map": vocab.verdict, "specials": page.outside, "heads": page.heads, "coverage": page.coverage}
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ckptdoctor", "version": __version__},
        "path": page.path,
        "target": None if page.target is None else page.target.path,
        "picture": svg,
        "draft_vocab_size": _or_none(vocab.draft_size),
        "vocab_size": _or_none(vocab.size),
        "lengths": [asdict(length) for length in vocab.lengths],
        "lengths_agree": vocab.lengths_agree,
        "d2t": _tensor(vocab.d2t) if page.token_map is None else None,
        "t2d": _tensor(vocab.t2d),
        "map": _map(page, vocab) if page.token_map is None else None,
        "token_map": None if page.token_map is None else _list(page.token_map),
        "spans": [asdict(span) for span in page.spans],
        "specials": None
        if isinstance(page.outside, Unknown)
        else {"inside": _tokens(page.inside), "outside": _tokens(page.outside)},
        "heads": None if isinstance(page.heads, Unknown) else _heads(page.heads),
        "coverage": None
        if isinstance(page.coverage, Unknown) or page.counts is None
        else {"source": page.counts.source, "kind": page.counts.kind, **_coverage(page.coverage)},
        "needs": {name: value.needs for name, value in parts.items() if isinstance(value, Unknown)},
    }


def _or_none(value: Known[Any] | None) -> Any:
    return None if isinstance(value, Unknown) else value


def _tensor(tensor: Known[MapTensor | None]) -> dict[str, Any] | None:
    if tensor is None or isinstance(tensor, Unknown):
        return None
    return {"name": tensor.name, "file": tensor.file, "dtype": tensor.dtype, "shape": list(tensor.shape)}


def _map(page: Page, vocab: VocabMap) -> dict[str, Any] | None:
    if vocab.map is None:
        return None
    return {
        "verdict": _or_none(vocab.verdict),
        "reading": page.reading,
        "readings": list(vocab.map.readings),
        "confirmed": vocab.map.confirmed,
        "violations": vocab.map.violations,
        "order": vocab.map.order,
        "padding": vocab.map.padding,
        "marked": _or_none(vocab.mask_count),
        "first_targets": None if page.ids is None else page.ids[:_FIRST].tolist(),
    }


def _list(found: TokenMap) -> dict[str, Any]:
    outside = _or_none(found.out_of_range)
    return {
        "form": found.form,
        "dtype": found.dtype,
        "shape": list(found.shape),
        "meaning": found.meaning,
        "order": found.order,
        "first": list(found.values[:_FIRST]),
        "repeated": None if found.repeated is None else asdict(found.repeated),
        "out_of_range": None if outside is None else asdict(outside),
    }


def _tokens(tokens: Iterable[Token]) -> list[dict[str, Any]]:
    return [{"id": token.id, "text": token.text, "role": token.role} for token in tokens]


def _heads(heads: HeadComparison) -> dict[str, Any]:
    fields = ("chance", "spread", "sampled", "at_chance", "mask", "follows_mask", "shift", "id_shift", "wrong_from",
              "wrong_to", "elsewhere", "embedding", "embedding_fits")  # fmt: skip
    return {
        "by_reading": [{"reading": reading, "cosine": cosine} for reading, cosine in heads.by_reading],
        "best": _or_none(heads.best),
        **{name: getattr(heads, name) for name in fields},
    }


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "total": coverage.total,
        "covered": coverage.covered,
        "share": coverage.share,
        "size": coverage.size,
        "best_share": coverage.best_share,
        "curve": [{"size": size, "share": share} for size, share in coverage.curve],
        "scripts": [_part(part) for part in coverage.scripts],
        "specials": _known_part(coverage.specials),
        "bytes": _known_part(coverage.bytes),
        "digits": _known_part(coverage.digits),
        "accepted": {
            "with_all": coverage.accepted_with_all,
            "with_map": coverage.accepted_with_map,
            "with_best": coverage.accepted_with_best,
            "assumed_acceptance": coverage.assumed_acceptance,
            "assumed_draft_tokens": coverage.assumed_draft_tokens,
        },
        "costliest": [
            {"id": token.id, "text": token.text, "count": token.count, "share": token.share}
            for token in coverage.costliest
        ],
    }


def _known_part(part: Known[Part]) -> dict[str, Any] | None:
    return None if isinstance(part, Unknown) else _part(part)


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name, "count": part.count, "covered": part.covered, "tokens": part.tokens,
        "missing": part.missing, "missing_ids": list(part.missing_ids),
    }  # fmt: skip
