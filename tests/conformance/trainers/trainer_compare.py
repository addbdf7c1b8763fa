"""The probe's network on the input that a trainer's class was given, and how far the two are apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ckptdoctor.probe.network.anatomy import Anatomy
from ckptdoctor.probe.network.anatomy_reading import stated_wiring
from ckptdoctor.probe.network.network import Memory, Network, open_draft
from ckptdoctor.probe.wiring import Wiring
from tests.conformance.trainers.trainer_cases import LENGTH, STEPS, Inputs, inputs_of

__all__ = ["FIRST_POSITION", "TOLERANCE", "apart", "run_network"]

TOLERANCE = 1e-5
"""The largest difference of any logit or state, float32."""

FIRST_POSITION = {"specforge": 0, "speculators": 1}
"""The position of the first token in the forward of EAGLE-3; P-EAGLE begins with 0 in both."""


def run_network(folder: Path, trainer: str, **changes: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Logits [steps, n, D] and states [steps, n, H] of the draft in `folder`, wired as its files say.

    `changes` are fields of the wiring that get another value.
    """
    network, anatomy, facts = open_draft(str(folder))
    if anatomy.parallel and anatomy.mask_token is None:
        anatomy = replace(anatomy, mask_token=anatomy.vocab_size - 1)
        network = Network(network.weights, anatomy)
    inputs = inputs_of(anatomy.states * anatomy.target_width, anatomy.vocab_size, anatomy.hidden)
    network.weights.setdefault("embed_tokens.weight", torch.from_numpy(inputs.embedding))
    wiring = replace(stated_wiring(facts, anatomy, anatomy.states), **changes)
    with torch.no_grad():
        return _chains(network, anatomy, wiring, inputs, 0 if anatomy.parallel else FIRST_POSITION[trainer])


def _chains(network: Network, anatomy: Anatomy, wiring: Wiring, inputs: Inputs, first: int) -> Any:
    states = torch.from_numpy(inputs.states).unflatten(1, (anatomy.states, anatomy.target_width))
    hidden = network.fuse(states, wiring)
    memory, places = Memory(), torch.arange(LENGTH) + first
    logits, found = [], []
    for step in range(STEPS):
        embedded = network.embed(torch.from_numpy(inputs.given(step)))
        if step and anatomy.parallel:
            hidden, embedded = network.masked(LENGTH, wiring)
        hidden = network.step(hidden, embedded, places + step, memory, wiring)
        found.append(hidden.numpy())
        logits.append(network.logits(hidden, wiring).numpy())
        hidden = network.handed_on(hidden, wiring)
    return np.stack(logits), np.stack(found)


def apart(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    """The largest difference, over what is no nan in `one`; infinite where the shapes differ or nothing is left."""
    if one.shape != other.shape or np.isnan(one).all() or np.isnan(other).any():
        return float("inf")
    return float(np.nanmax(np.abs(one - other)))
