"""What single faults cost on the trained pair in fixtures/pair: first guesses and accepted length.

    python benchmarks/effect_sizes.py                  # print the table
    python benchmarks/effect_sizes.py --write          # and write it into docs/effects.md
    python benchmarks/effect_sizes.py --only d2t       # only the rows with this in their name

Every row is the right draft with one thing changed: its wiring, the recorded states, one weight, or its anatomy. The
forward is the probe's own (`run_chains`), on the texts of fixtures/pair/samples/prompts.jsonl, which the target goes on
with. Where values are drawn, five draws are run and the middle one is told. Needs torch and transformers; about two
minutes on one core.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from effect_faults import FAULTS, Bench, Fault  # noqa: E402

from ckptdoctor.probe.network.anatomy_reading import stated_wiring  # noqa: E402
from ckptdoctor.probe.network.chains import run_chains  # noqa: E402
from ckptdoctor.probe.network.network import open_draft  # noqa: E402
from ckptdoctor.probe.samples.files import read_samples  # noqa: E402
from ckptdoctor.probe.search.figures import accepted_length, step_figures  # noqa: E402

__all__ = ["FAULTS", "RIGHT", "Bench", "Figures", "measured", "opened", "table"]

PAIR = ROOT / "fixtures" / "pair"
PAGE = ROOT / "docs" / "effects.md"
STEPS, DRAWS = 5, 5
RIGHT = "the right draft"
HEAD = "| fault | first guess right | accepted length of 5 |\n|---|---|---|"


@dataclass(frozen=True)
class Figures:
    """The share of first guesses that are right, and the accepted length of chains of five."""

    first: float
    length: float


def opened(limit: int | None = None) -> Bench:
    """The pair; `limit` is how many counted tokens are used at most."""
    target = str(PAIR / "target")
    network, anatomy, facts = open_draft(str(PAIR / "draft"), target)
    samples = read_samples([str(PAIR / "samples" / "prompts.jsonl")], target=target, limit=limit, generate=54)
    # The states that the draft was trained on; the samples have all boundaries, in their order.
    wiring = replace(stated_wiring(facts, anatomy, samples.columns), states=facts.draft.aux.ids)
    head = load_file(str(PAIR / "target" / "model.safetensors"))["lm_head.weight"].float()
    return Bench(dict(network.weights), anatomy, wiring, samples, head, torch.Generator().manual_seed(0))


def measured(bench: Bench, fault: Fault | None = None) -> Figures:
    """The figures of `fault`, or of the right draft: the middle of five draws."""
    found = []
    with torch.inference_mode():
        for seed in range(DRAWS):
            drawn = torch.Generator().manual_seed(seed)
            sick = bench if fault is None else fault(replace(bench, draw=drawn))
            chains = run_chains(sick.network, sick.samples, sick.wiring, steps=STEPS)[sick.wiring.map]
            found.append(Figures(step_figures(chains)[0].accuracy or 0.0, accepted_length(chains).value))
            if torch.equal(drawn.get_state(), torch.Generator().manual_seed(seed).get_state()):
                break  # nothing was drawn, so that every run is the same
    return Figures(median(f.first for f in found), median(f.length for f in found))


def table(bench: Bench, wanted: Sequence[str]) -> Iterator[str]:
    """The table as lines of Markdown, one for each group."""
    right = measured(bench)
    yield HEAD
    yield f"| {RIGHT} | {right.first:.3f} | {right.length:.2f} |"
    last = ""
    for name in wanted:
        group, fault = FAULTS[name]
        if group != last:
            yield f"| **{group}** | | |"
            last = group
        figures = measured(bench, fault)
        yield f"| {name} | {figures.first:.3f} | {figures.length:.2f} |"


def main() -> None:
    """Measure and print, and with `--write` put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rows whose name has this in it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = []
    for line in table(opened(), [name for name in FAULTS if options.only in name]):
        print(line, flush=True)
        lines.append(line)
    if options.write and not options.only:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(re.sub(r"\| fault \|.*?\n(?=\n)", "\n".join(lines) + "\n", text, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
