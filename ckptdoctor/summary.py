"""The facts as a report shows them: one line that says what the thing is, and plain JSON-ready values."""

from __future__ import annotations

from typing import Any

from ckptdoctor.facts import Facts, Target
from ckptdoctor.facts.mtp.mtp import MtpHeads
from ckptdoctor.text import listing, plural, show
from ckptdoctor.unknown import Unknown

__all__ = ["byte_count", "draft_summary", "target_summary", "title"]


def title(facts: Facts) -> str:
    """What the thing is, in one line: `EAGLE-3 draft (llama attention), written by SpecForge, 15 tensors, 0.2 MB`."""
    draft, files = facts.draft, facts.files
    if files.kind == "other":
        return f"{listing(dict.fromkeys(f.name for f in files.foreign))}, not examined, {byte_count(files.size)}"
    if draft.algorithm == "unknown":
        what = "not recognised as a draft"
    elif draft.algorithm == "plain":
        what = "a plain language model"
    elif facts.mtp is not None and facts.mtp.stored:
        what = _of_mtp(facts.mtp)
    else:
        what = f"{draft.algorithm_name} draft"
        details = [draft.variant] if draft.variant else []
        if draft.tabled and not isinstance(draft.attention, Unknown):
            details.append(f"{draft.attention} attention")
        what += f" ({', '.join(details)})" if details else ""
    if draft.writer.id != "unknown":
        what += f", written by {draft.writer.name}"
    return f"{what}, {plural(files.tensor_count, 'tensor')}, {byte_count(files.size)}"


def _of_mtp(mtp: MtpHeads) -> str:
    """A model with MTP layers, or such layers alone; stages of DSpark stand under the same names."""
    if mtp.layout == "assistant":
        return "MTP assistant draft"
    name = "DSpark" if mtp.kind == "dspark" else "MTP"
    where = f"({show(mtp.where)})"
    stored = plural(mtp.stored, "stage" if mtp.kind == "dspark" else "layer")
    if mtp.whole:
        return f"a language model with {mtp.stored} {name} {stored.partition(' ')[2]} {where}"
    return f"{name} {'head ' if mtp.is_mtp else ''}draft, {stored} {where}"


def byte_count(size: int) -> str:
    """`134 kB`, `2.0 GB`: bytes in decimal units, for people."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def _plain(value: Any) -> Any:
    """A fact as JSON: unknown is null, tuples are lists."""
    if isinstance(value, Unknown):
        return None
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return show(value) if isinstance(value, str) else value


def draft_summary(facts: Facts) -> dict[str, Any]:
    """The draft for the JSON report. Unknown facts are null."""
    draft, vocab, aux = facts.draft, facts.vocab, facts.draft.aux
    fc = None if isinstance(draft.fc, Unknown) else draft.fc
    return {
        "algorithm": draft.algorithm,
        "variant": draft.variant,
        "dialect": draft.writer.id,
        "attention": _plain(draft.attention) if draft.tabled else None,
        "architecture": _plain(draft.architecture.name),
        "hidden_size": _plain(draft.hidden_size),
        "target_hidden_size": draft.target_hidden_size,
        "num_attention_heads": draft.heads,
        "num_key_value_heads": draft.kv_heads,
        "head_dim": draft.head_dim,
        "first_attention_input": _plain(draft.first_attention_input),
        "fc": None
        if fc is None
        else {"in_features": fc.in_features, "out_features": fc.out_features, "bias": fc.has_bias},
        "layers_claimed": draft.depth_claimed,
        "layers_stored": _plain(draft.depth_stored),
        "layer_names": [] if isinstance(draft.names, Unknown) else list(draft.names.layer_names),
        "vocab_size": vocab.claimed_size,
        "draft_vocab_size": _plain(vocab.draft_size),
        "d2t": _plain(vocab.verdict) if vocab.map is not None else None,
        "d2t_readings": _plain(vocab.readings) if vocab.map is not None else None,
        "aux_layer_ids": _plain(aux.ids),
        "aux_layer_ids_from": aux.key,
        "use_aux_hidden_state": draft.flags.use_aux_hidden_state,
        "norm_before_residual": draft.flags.norm_before_residual,
        "norm_before_fc": draft.flags.norm_before_fc,
        "fc_norm": draft.flags.fc_norm,
        "norm_output": draft.flags.norm_output,
        "coverage": _coverage(facts),
        "files": [show(name) for name in facts.files.names],
        "bytes": facts.files.size,
        "tensors": facts.files.tensor_count,
    }


def _coverage(facts: Facts) -> dict[str, Any] | None:
    """How much of the counted text the draft can propose; None without counts or a right map."""
    coverage = facts.coverage
    if isinstance(coverage, Unknown):
        return None
    groups = (coverage.specials, coverage.bytes, coverage.digits)
    return {
        "source": show(coverage.source),
        "kind": coverage.kind,
        "positions": coverage.total,
        "covered": coverage.covered,
        "share": coverage.share,
        "best_share": coverage.best_share,
        "curve": [list(point) for point in coverage.curve],
        "parts": [
            {"name": part.name, "positions": part.count, "covered": part.covered, "missing_ids": list(part.missing_ids)}
            for part in (*coverage.scripts, *(group for group in groups if not isinstance(group, Unknown)))
        ],
        "costliest": [
            {"id": token.id, "text": show(token.text), "count": token.count, "share": token.share}
            for token in coverage.costliest
        ],
        "accepted_length": {
            "assumed_acceptance": coverage.assumed_acceptance,
            "assumed_draft_tokens": coverage.assumed_draft_tokens,
            "with_all": coverage.accepted_with_all,
            "with_map": coverage.accepted_with_map,
            "with_best": coverage.accepted_with_best,
        },
    }


def target_summary(target: Target | None) -> dict[str, Any] | None:
    """The target for the JSON report; None when none was given."""
    if target is None:
        return None
    return {
        "path": show(target.path),
        "architecture": _plain(target.architecture),
        "model_type": _plain(target.model_type),
        "config_path": target.config_path,
        "hidden_size": _plain(target.hidden_size),
        "num_layers": _plain(target.num_layers),
        "vocab_size": _plain(target.vocab_size),
    }
