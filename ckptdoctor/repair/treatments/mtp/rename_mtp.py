"""MTP layers under the prefix of another tool get the names that SGLang and vLLM look for."""

from __future__ import annotations

import json

from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """Renames of the MTP layers alone. Refused where such a name is there already, and where the config names modules
    under the prefix that goes."""
    mtp = case.facts.mtp
    if mtp is None or not mtp.is_mtp or not mtp.other_stem:
        raise RefusedError("same")
    part = "mtp." if mtp.layout == "mtp" else "mtp_layers."
    prefix, wanted = mtp.root + part, part if mtp.layout == "mtp" else f"model.{part}"
    quantisation = case.facts.config.at("quantization_config")
    if mtp.root and quantisation is not None and prefix in json.dumps(quantisation.value, default=str):
        raise RefusedError("module_names", place="quantization_config", prefix=prefix)
    edits = []
    for name in case.facts.tensors:
        if name.startswith(prefix):
            to = wanted + name[len(prefix) :]
            if to in case.facts.tensors:
                raise RefusedError("collision", name=name, other=to)
            edits.append(RenameTensor(name, to))
    return Proposed(tuple(edits), subject="the names of the MTP layers")
