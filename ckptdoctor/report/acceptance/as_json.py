"""An answer of `ckptdoctor acceptance` as JSON, an interface: `rules/schema/acceptance.schema.json` describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckptdoctor.jsontext import dumps
from ckptdoctor.report.acceptance.as_text import band_text, commands

if TYPE_CHECKING:
    from ckptdoctor.acceptance.asking import Acceptance
    from ckptdoctor.acceptance.counting import Counting
    from ckptdoctor.acceptance.judging import Judgement
    from ckptdoctor.acceptance.knowledge import Band
    from ckptdoctor.acceptance.log_reader import LogFigures
    from ckptdoctor.acceptance.paying import Paying

__all__ = ["answer_data", "answer_text"]

SCHEMA_VERSION = 1


def answer_text(answer: Acceptance) -> str:
    """The document that `acceptance --format json` prints."""
    return dumps(answer_data(answer))


def answer_data(answer: Acceptance) -> dict[str, Any]:
    """The answer as the plain object of the document. What is not known is null."""
    from ckptdoctor.version import __version__

    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ckptdoctor", "version": __version__},
        "given": answer.given,
        "rate": answer.question.rate,
        "engine": answer.counting.engine,
        "release": answer.release,
        "undecided": answer.undecided,
        "readings": [_reading(answer, judgement) for judgement in answer.judgements],
        "log": None if answer.log is None else _log(answer, answer.log),
        "fail_under": answer.question.fail_under,
        "passed": answer.passed,
    }


def _reading(answer: Acceptance, judgement: Judgement) -> dict[str, Any]:
    low, high = judgement.acceptance
    return {
        "length": judgement.length,
        "possible": judgement.possible,
        "because": judgement.reading.because,
        "said_by": list(judgement.reading.said_by),
        "draft_tokens": _counting(judgement.reading.counting),
        "per_token_acceptance": {"low": low, "high": high},
        "band": None if judgement.band is None else _band(judgement.band, judgement),
        "signs": [_band(sign, judgement) for sign in judgement.signs],
        "published": judgement.published,
        "paying": None if judgement.paying is None else _paying(judgement.paying),
        "next": commands(answer, judgement),
    }


def _counting(counting: Counting) -> dict[str, Any]:
    return {
        "engine": counting.engine, "number": counting.tokens, "steps": counting.steps, "topk": counting.topk,
        "proposed": counting.proposed, "most": counting.most, "assumed": counting.assumed, "source": counting.source,
    }  # fmt: skip


def _band(band: Band, judgement: Judgement) -> dict[str, Any]:
    return {
        "id": band.id,
        "level": band.level,
        "title": band_text(band.title, judgement),
        "says": band_text(band.says, judgement),
        "causes": [
            {"says": cause.says, "rules": list(cause.rules), "seen_in": list(cause.seen_in)} for cause in band.causes
        ],
    }


def _paying(pays: Paying) -> dict[str, Any]:
    return {
        "tokens_per_second": pays.with_draft,
        "baseline": pays.baseline,
        "speedup": pays.speedup,
        "pays": pays.speedup > 1,
        "step_cost": pays.cost,
        "break_even_length": pays.cost,
        "break_even_acceptance": pays.needed,
        "possible": pays.possible,
        "draft_token_cost_at_most": pays.each,
        "fewer": [{"proposed": f.proposed, "length": f.length, "speedup": f.speedup} for f in pays.fewer],
    }


def _log(answer: Acceptance, log: LogFigures) -> dict[str, Any]:
    total = log.total
    return {
        "name": log.name,
        "what": log.what,
        "lines": total.lines,
        "length": {"mean": total.length, "low": total.low, "high": total.high},
        "weighed_by": total.weighed_by,
        "steps": total.drafts,
        "positions": list(total.positions),
        "throughput": total.throughput,
        "running": None if total.running is None else list(total.running),
        "rate_formula": answer.rate_formula,
        "draft_tokens_measured": answer.tokens_measured,
        "rates_disagree": answer.rates_disagree,
        "draft_tokens_of_log": log.counting.tokens,
        "warm_up_lines": log.warm_up,
        "first_line_dropped": total.dropped_first,
        "earlier_starts": log.starts,
        "lines_cut": log.cut,
        "others": [{"what": o.what, "length": o.length, "lines": o.lines} for o in log.others],
    }
