"""Small reports made by hand."""

from __future__ import annotations

from dataclasses import replace

from ckptdoctor.findings import Confidence, Examination, Finding, Fix, Location, Report, Severity, Skip

HOSTILE = "a\x1b[31mb\u202ec\x07[red]d[/red]\r\n\x9b2Je\ufefff\udce9"
"""Everything that could colour, reorder, hide or erase text, and a byte that is no UTF-8."""

ERROR = Finding(
    rule="KEY004",
    name="projection-left-random",
    severity=Severity.ERROR,
    confidence=Confidence.CERTAIN,
    message=(
        "SGLang 0.5.9 builds model.midlayer.self_attn.qkv_proj.weight and finds no stored tensor for it: the file "
        "has layers.0.self_attn.q_proj.weight, a name that this release drops without a word."
    ),
    effect="the server starts, answers are correct, and every step accepts 1.0 token",
    advice="rename the layer, or serve with SGLang 0.5.12 or later",
    location=Location(file="model.safetensors", tensor="layers.0.self_attn.q_proj.weight"),
    engines=("sglang==0.5.9",),
    evidence={"missing": ["model.midlayer.self_attn.qkv_proj.weight"]},
    fix=Fix("rename-layer", "rename 11 tensors from layers.0 to midlayer", "safe"),
    seen_in=("sgl-project/sglang#1",),
)
WARNING = Finding(
    rule="ROP002",
    name="rope-theta-differs",
    severity=Severity.WARNING,
    confidence=Confidence.LIKELY,
    message="rope_theta is 10000.0 here and 500000.0 in the target.",
    effect="acceptance falls with the position",
    advice="compare with the training configuration",
    location=Location(file="config.json", config_key="rope_theta", line=12),
)
NOTE = Finding(
    rule="VOC009",
    name="map-unsorted",
    severity=Severity.NOTE,
    confidence=Confidence.CERTAIN,
    message="d2t is not ascending.",
    effect="nothing",
    advice="nothing, if the trainer orders by frequency",
    location=Location(file="model.safetensors", tensor="d2t", offset=4096),
)
SKIPS = (
    Skip("TOK004", "the tokenizer of the target"),
    Skip("GEO002", "the target (--target)"),
    Skip("AUX001", "the target (--target)"),
)
SICK = Examination(
    path="drafts/sick",
    title="EAGLE-3 draft in the names of SpecForge, 1 layer",
    draft={"algorithm": "eagle3", "dialect": "specforge"},
    target=None,
    findings=(NOTE, ERROR, WARNING),
    skipped=SKIPS,
    next_commands=("ckptdoctor explain KEY004", "ckptdoctor scan drafts/sick --target PATH"),
)
WELL = Examination(
    path="drafts/well",
    title="EAGLE-3 draft",
    draft={"algorithm": "eagle3", "dialect": "specforge"},
    target={"hidden_size": 4096},
    findings=(),
    skipped=(),
)


def report(*examinations: Examination, failed: tuple[tuple[str, str], ...] = ()) -> Report:
    return Report(examinations, failed)


def hostile() -> Report:
    """A report whose every text is hostile, as if whoever made it had forgotten to make it safe."""
    finding = replace(
        ERROR,
        name=HOSTILE,
        message=HOSTILE,
        effect=HOSTILE,
        advice=HOSTILE,
        location=Location(HOSTILE, HOSTILE, HOSTILE, 1, 2),
        engines=(HOSTILE,),
        evidence={HOSTILE: [HOSTILE]},
        fix=Fix(HOSTILE, HOSTILE, "safe"),
    )
    examination = Examination(
        path=HOSTILE,
        title=HOSTILE,
        draft={"algorithm": HOSTILE, "dialect": HOSTILE},
        target={HOSTILE: HOSTILE},
        findings=(finding,),
        skipped=(Skip("GEO002", HOSTILE),),
        next_commands=(HOSTILE,),
    )
    return Report((examination,), ((HOSTILE, HOSTILE),))
