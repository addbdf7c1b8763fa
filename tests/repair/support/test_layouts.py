"""Layouts of names: every name that a contract replaces is among them."""

from __future__ import annotations

from pathlib import Path

from treating.names import renamed
from treatment_cases import draft_of, plan, write

from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.serving import contracts


def test_every_name_that_a_contract_replaces_is_known_here() -> None:
    naming = knowledge().naming
    known = {row["name"].format(n=0) for row in naming["layouts"]["layers"]} | {"layers.0.", "layers."}
    known |= {part for pair in naming["layouts"]["instead"].items() for part in pair}
    known |= {row["to"] for row in naming["parameter_aliases"]}
    known |= {row["from"].strip("^").replace("\\", "") for row in naming["parameter_aliases"]}
    for contract in contracts().values():
        if not contract.raw.get("in_scans"):
            continue
        for entry in contract.raw["classes"].values():
            if not entry.get("algorithms") or entry["algorithms"] == ["medusa"]:
                continue  # an ordinary model, a name of which no table is known, or heads with layouts of their own
            for row in entry.get("behaviours", {}).get("aliases", ()):
                words = {f"{w.strip('^.')}." for pair in row["value"].items() for w in pair}
                # The head of XPress is a part of one class in one release, which has no other layout.
                words = {w.removesuffix("weight.") for w in words if not w.startswith("xpress_head.")}
                assert words <= known, (contract.engine, entry["name"])


def test_the_encoder_of_a_block_drafter_is_understood_and_renamed(tmp_path: Path) -> None:
    draft = renamed(
        renamed(draft_of("specforge-dflash"), "fc.", "encoder.fc."), "hidden_norm.", "encoder.output_norm_enc."
    )
    folder = write(draft, tmp_path)
    found = plan(folder, "sglang==0.5.17", "sglang==0.5.23", "vllm==0.33.0")
    assert not {f.rule for f in found.before.judgement.findings} & {"KEY006", "KEY011"}
    assert [(s.treatment, len(s.edits)) for s in found.steps] == [("layout-for-engine", 2)]
    assert [p.outcome for p in found.before.plans] == ["broken", "served", "served"]
    assert [p.outcome for p in found.after.plans] == ["served", "served", "served"]
