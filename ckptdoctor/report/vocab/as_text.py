"""A draft vocabulary for a person: what the map is, where it lies, its special tokens, the two heads, its coverage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ckptdoctor.report.terminal.segments import BLANK, Line, Segment, line
from ckptdoctor.report.vocab.words import READING, VERDICT, count, percent
from ckptdoctor.report.wording import PATH_LIMIT
from ckptdoctor.text import listing, plural, show
from ckptdoctor.unknown import Known, Unknown, known_or

if TYPE_CHECKING:
    from ckptdoctor.facts.tokenizer.tokens import Token
    from ckptdoctor.facts.vocabulary.heads import HeadComparison
    from ckptdoctor.facts.vocabulary.id_list import Violation
    from ckptdoctor.facts.vocabulary.token_map import TokenMap
    from ckptdoctor.facts.vocabulary.vocab import MapTensor
    from ckptdoctor.vocab.page import Page

__all__ = ["page_lines"]

_FIRST = 6
_TOKENS = 12
_LABEL = 11


def page_lines(page: Page, svg: str | None = None) -> Iterator[Line]:
    """The page; `svg` is where its picture was written."""
    yield line(Segment(show(page.path, PATH_LIMIT), "path"), f": {page.title}", hang=2)
    yield from _map(page) if page.token_map is None else _list(page, page.token_map)
    yield from _where(page)
    yield from _specials(page)
    yield from _heads(page)
    if page.counts is not None:
        from ckptdoctor.report.vocab.coverage_report import coverage_lines

        yield from coverage_lines(page)
    yield from _not_shown(page)
    if svg is not None:
        yield BLANK
        yield line("picture: ", Segment(show(svg, PATH_LIMIT), "path"), indent=2, hang=2)


def _map(page: Page) -> Iterator[Line]:
    vocab = page.vocab
    yield BLANK
    yield line(Segment("map", "label"), indent=2)
    size = known_or(vocab.size, None)
    drafts = known_or(vocab.draft_size, None)
    if drafts is not None and size:
        yield _row("sizes", f"{count(drafts)} draft ids, {count(size)} target ids ({percent(drafts / size)})")
    if isinstance(vocab.verdict, Unknown):
        if isinstance(vocab.d2t, Unknown) or vocab.d2t is not None:
            yield _row("d2t", f"not known: needs {show(vocab.verdict.needs)}")
        elif isinstance(vocab.reduced, Unknown):
            yield _row("d2t", "none is stored")
        else:
            words = "none is stored, and the vocabulary is reduced" if vocab.reduced else "none: draft id = target id"
            yield _row("d2t", Segment(words, "error" if vocab.reduced else ""))
    else:
        words, style = VERDICT.get(vocab.verdict, (vocab.verdict.replace("_", " "), ""))
        yield _row("d2t", Segment(words, style))
        if not vocab.verdict.startswith("zeros"):  # all zeros say nothing of what was meant
            yield _row("reading", _reading(page))
    for name, tensor in (("stored", vocab.d2t), ("", vocab.t2d)):
        if tensor is not None and not isinstance(tensor, Unknown):
            yield _row(name, _stored(page, tensor))
    if vocab.map is not None and page.ids is not None:
        yield _row("order", _ORDER.get(vocab.map.order, vocab.map.order), _padding(vocab.map.padding))
        told = [f"{i} → {t}" for i, t in enumerate(page.ids[:_FIRST].tolist())]
        yield _row("begins", f"{', '.join(told)}{', …' if len(page.ids) > _FIRST else ''}")
    if vocab.lengths:
        agree = "" if vocab.lengths_agree else ": they disagree"
        told = [show(str(length), 80) for length in vocab.lengths]
        yield _row("lengths", f"{', '.join(told)}", Segment(agree, "error"))


_MEANING = {
    "ids": ("a list of target ids: entry i is what draft id i stands for", ""),
    "offsets": ("wrong: it holds offsets (a d2t) where the engine reads target ids", "error"),
    "mask": ("wrong: it holds a mask (a t2d) where the engine reads target ids", "error"),
    "fractions": ("wrong: it holds fractions", "error"),
    "other": ("wrong: it holds no list of numbers", "error"),
}


def _list(page: Page, found: TokenMap) -> Iterator[Line]:
    """A token map of FR-Spec."""
    yield BLANK
    yield line(Segment("token map", "label"), indent=2)
    size = known_or(page.vocab.size, None)
    share = f", {count(size)} target ids ({percent(found.length / size)})" if size else ""
    yield _row("sizes", f"{count(found.length)} entries{share}")
    words, style = _MEANING.get(found.meaning, (found.meaning, ""))
    yield _row("holds", Segment(words, style))
    shape = "×".join(str(n) for n in found.shape)
    plain = "" if found.form == "torch" else "; SGLang reads PyTorch files alone"
    yield _row("stored", f"{found.form}, {show(found.dtype)} [{shape}]", Segment(plain, "warning"))
    if found.meaning == "ids":
        yield _row("order", _ORDER.get(found.order, found.order))
        told = [f"{i} → {t}" for i, t in enumerate(found.values[:_FIRST])]
        yield _row("begins", f"{', '.join(told)}{', …' if found.length > _FIRST else ''}")
    yield from _wrong(found.repeated, "repeats an id", "repeat ids")
    yield from _wrong(found.out_of_range, "is outside the vocabulary", "are outside the vocabulary")


def _wrong(wrong: Known[Violation | None], one: str, several: str) -> Iterator[Line]:
    if wrong is not None and not isinstance(wrong, Unknown):
        told = f"{plural(wrong.count, f'entry {one}', f'entries {several}')}, first entry {wrong.draft_id}"
        yield _row("wrong", Segment(f"{told} ({wrong.target_id})", "error"))


_ORDER = {
    "ascending": "ascending",
    "frequency": "not sorted: as by falling frequency",
    "other": "not sorted",
}


def _padding(count_: int) -> str:
    return f"; the last {plural(count_, 'entry', 'entries')} only fill the map up" if count_ else ""


def _row(label: str, *parts: Segment | str) -> Line:
    return line(Segment(label.ljust(_LABEL), "quiet"), *parts, indent=4, hang=_LABEL)


def _reading(page: Page) -> str:
    vocab = page.vocab
    fits = known_or(vocab.readings, ())
    fitting = listing([READING[k] for k in fits if k in READING])
    if not isinstance(vocab.confirmed, Unknown) and vocab.confirmed in READING:
        return f"{READING[vocab.confirmed]}; t2d marks exactly its targets, which proves it"
    if len(fits) > 1:
        return f"{fitting} fit; a t2d, or the target's weights, would decide"
    if len(fits) == 1:
        return f"{fitting}, the only one whose targets are all different and inside the vocabulary"
    return "none fits to the last entry"


def _stored(page: Page, tensor: MapTensor) -> str:
    shape = "×".join(str(n) for n in tensor.shape) or "scalar"
    text = f"{show(tensor.name)} {tensor.dtype} [{shape}] in {show(tensor.file)}"
    mask = page.vocab.t2d
    marked = page.vocab.mask_count
    if not isinstance(mask, Unknown) and tensor is mask and marked is not None and not isinstance(marked, Unknown):
        return f"{text}, {count(marked)} true"
    return text


def _where(page: Page) -> Iterator[Line]:
    """A histogram: in which parts of the target's vocabulary the draft's tokens lie."""
    if not page.spans or (page.vocab.map is None and page.token_map is None):
        return
    yield BLANK
    yield line(Segment("where the draft's tokens lie among the target's ids", "label"), indent=2)
    names = [f"{count(span.first)}–{count(span.last)}" for span in page.spans]
    wide = max(len(name) for name in names)
    digits = max(len(count(span.held)) for span in page.spans)
    for name, span in zip(names, page.spans, strict=True):
        share = span.held / (span.last - span.first + 1)
        full = round(share * 20) or (1 if span.held else 0)
        bar = "█" * full + "·" * (20 - full)
        held = count(span.held).rjust(digits)
        yield line(f"{name.rjust(wide)}  ", Segment(bar, "fix"), f"  {held}  {percent(share):>11}", indent=4)


def _specials(page: Page) -> Iterator[Line]:
    if isinstance(page.outside, Unknown) or not (page.inside or page.outside):
        return
    yield BLANK
    yield line(Segment("special tokens", "label"), indent=2)
    if page.inside:
        yield _row("in", listing(_named(page.inside), _TOKENS))
    yield _row("not in", Segment(listing(_named(page.outside), _TOKENS), "warning" if page.outside else ""))


def _named(tokens: Iterable[Token]) -> list[str]:
    return [str(token) if token.text else f"id {token.id}" for token in tokens]


_CLOSE = {0: "absolute ids", 1: "offsets", 2: "offset twice"}


def _heads(page: Page) -> Iterator[Line]:
    heads = page.heads
    if isinstance(heads, Unknown):
        return
    yield BLANK
    title = f"rows of the draft's head against the target's (mean cosine of {plural(heads.sampled, 'row')})"
    yield line(Segment(title, "label"), indent=2, hang=2)
    for reading, cosine in heads.by_reading:
        best = not isinstance(heads.best, Unknown) and heads.best == reading
        yield _cosine(cosine, _CLOSE.get(reading, str(reading)), "the best" if best else "")
    if heads.mask is not None:
        yield _cosine(heads.mask, "in the order of t2d's marks", "the best" if heads.follows_mask else "")
    yield _cosine(heads.chance, "rows paired at random")
    if heads.embedding is not None:
        yield _cosine(heads.embedding, "the two embeddings at the same ids")
    yield from _head_faults(heads)


def _cosine(value: float, what: str, remark: str = "") -> Line:
    return line(f"{value:6.3f}  {what}", Segment(f"  {remark}" if remark else "", "fix"), indent=6, hang=8)


def _head_faults(heads: HeadComparison) -> Iterator[Line]:
    told: list[tuple[str, str]] = []
    if isinstance(heads.best, Unknown) and not heads.follows_mask:
        told.append(
            ("No reading stands out: the head was trained from other values, or long. This accuses nobody.", "")
        )
    if heads.follows_mask:
        told.append(("The rows stand in the order of t2d's marks, and not in that of d2t.", "warning"))
    if heads.wrong_from is not None:
        to = "" if heads.wrong_to is None else f" to {heads.wrong_to - 1}"
        told.append((f"Rows {heads.wrong_from}{to} do not fit, while the others do.", "warning"))
    if heads.shift is not None:
        told.append((f"They fit after a shift by {plural(heads.shift, 'row')}.", "warning"))
    if heads.id_shift is not None:
        told.append((f"They fit target ids shifted by {heads.id_shift}.", "warning"))
    if heads.elsewhere:
        told.append((f"{plural(heads.elsewhere, 'sampled row')} belong to other tokens than d2t says.", "warning"))
    for words, style in told:
        yield line(Segment(words, style), indent=4, hang=2)


def _not_shown(page: Page) -> Iterator[Line]:
    """What a further option or file would add, one line for each."""
    parts: dict[str, object] = {"the special tokens": page.outside}
    if page.token_map is None:
        parts["the two heads"] = page.heads
    if page.counts is None or isinstance(page.coverage, Unknown):
        parts["the coverage"] = page.coverage
    lacking = {name: value.needs for name, value in parts.items() if isinstance(value, Unknown)}
    if lacking:
        yield BLANK
        yield line(Segment("not shown", "label"), indent=2)
    for name, needs in lacking.items():
        yield line(f"{name}: needs {show(needs)}", indent=4, hang=2)
