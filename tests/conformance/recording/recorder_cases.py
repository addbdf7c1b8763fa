"""The cases of recorder_run.py: drafts, what their targets capture, and what the recorder must find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
TRAINERS = ROOT / "fixtures" / "trainers"
SHARED = ROOT.parent / "shared" / "drafts"
RELEASES = ("sglang==0.5.11", "sglang==0.5.23", "vllm==0.22.0", "vllm==0.33.0")
TOKENS = 7


@dataclass(frozen=True)
class Case:
    """A draft, the boundaries that its target is told to capture (None: nothing is told), and for each engine, or each
    release of it, the kinds of problems that the verdict names: None where its classes refuse the draft, or a CPU
    cannot run them. `without` is a tensor that is taken out of the file.
    """

    draft: Path
    layers: tuple[int, ...] | None
    problems: Mapping[str, list[str] | None]
    without: str | None = None
    block: bool = False

    def expected(self, release: str) -> list[str] | None:
        return self.problems.get(release, self.problems.get(release.partition("==")[0]))


BOTH: Mapping[str, list[str] | None] = {"sglang": [], "vllm": []}
LLAMA = TRAINERS / "sf_eagle3_llama_sglang"
USUAL = (2, 4, 5)
CASES = {
    "as served": Case(LLAMA, USUAL, BOTH),
    # SGLang hands the target's last state over where it was told to capture nothing; vLLM stops in fc.
    "one layer": Case(
        LLAMA, None, {"sglang": ["fc_skipped", "captures_none"], "vllm": ["fc_refuses", "captures_none"]}
    ),
    "other layers": Case(LLAMA, (2, 3, 5), {"sglang": ["captured"], "vllm": ["captured"]}),
    "gate_proj missing": Case(
        LLAMA,
        USUAL,
        {"sglang": ["unwritten_planned"], "vllm": ["unwritten_planned"]},
        without="midlayer.mlp.gate_proj.weight",
    ),
    "no d2t": Case(LLAMA, USUAL, {"sglang": ["plan"], "vllm": ["map_unwritten"]}, without="d2t"),
    "speculators": Case(TRAINERS / "spec_eagle3_llama", USUAL, {"vllm": []}),
    # SGLang before 0.5.12 does not look for its names; vLLM before 0.25.0 counts its ids as boundaries.
    "Model-Optimizer": Case(
        TRAINERS / "mo_eagle3_llama",
        USUAL,
        {**BOTH, "sglang==0.5.11": ["unwritten_planned"], "vllm==0.22.0": ["captured"]},
    ),
    # The norms of the targets of 0.5.11 that have some for q and k are compiled.
    "block drafter": Case(TRAINERS / "mo_dflash_qwen3", (2, 6), {**BOTH, "sglang==0.5.11": None}, block=True),
}
if SHARED.is_dir():
    CASES["Qwen3 target"] = Case(SHARED / "sf_eagle3_qwen3", USUAL, BOTH)
    CASES["MLA target"] = Case(SHARED / "sf_eagle3_yarn_dsv2lite", USUAL, BOTH)
    CASES["Qwen3 draft"] = Case(SHARED / "spec_eagle3_qwen3", USUAL, {"vllm": [], "vllm==0.22.0": None})
    CASES["a norm before fc"] = Case(SHARED / "spec_eagle3_llama_nbfc", USUAL, {"vllm": []})
    CASES["a norm for each state"] = Case(SHARED / "spec_eagle31_llama", USUAL, {"vllm": [], "vllm==0.22.0": None})
