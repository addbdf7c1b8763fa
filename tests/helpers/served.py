"""A process of the imitated engine, from its plugins to its third pass: `served.py FOLDER DRAFT CASE`.

Prints what the process saw of the recorder, as JSON.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import torch


def of_ours(value: object) -> bool:
    """Whether this is a wrapper of the recorder."""
    return getattr(getattr(value, "__code__", None), "co_filename", "").endswith("patches.py")


def main() -> None:
    draft_path, case = Path(sys.argv[1]), sys.argv[2]
    from ckptdoctor.recorder.entry import in_sglang

    in_sglang()
    from sglang.srt.model_executor.runner_utils import capture_mode
    from sglang.srt.model_loader import loader
    from sglang.srt.models import Batch

    from ckptdoctor.recorder.switching import session_on

    session = session_on()
    hooked = of_ours(loader._initialize_model)
    hf = types.SimpleNamespace(hidden_size=64, vocab_size=512)
    config = types.SimpleNamespace(hf_config=hf, is_draft_model=False, model_path=str(draft_path / "target"))
    target = loader.load_model(config)
    draft_config = types.SimpleNamespace(hf_config=hf, is_draft_model=True, model_path=str(draft_path))
    draft = loader.load_model(draft_config)
    draft.set_embed(target.model.embed_tokens.weight)
    if case == "late graph":  # an old fault: the graph is recorded before the configured ids are set
        target.set_eagle3_layers_to_capture([0, 1, 2])
    if case == "as served":
        target.set_eagle3_layers_to_capture([1, 3, 4])
    ids, positions = torch.tensor([5, 6, 7, 8, 9, 1, 2, 3]), torch.tensor([0, 1, 2, 3, 4, 0, 1, 2])
    with torch.inference_mode():
        capture_mode.is_capture_mode = True
        made_up = torch.ones(8, 192 if target.capture_aux_hidden_states else 64)
        target(ids, positions, Batch("TARGET_VERIFY", None))
        draft(ids, positions, Batch("DECODE", made_up[:, :64]))
        draft(ids, positions, Batch("EXTEND", made_up))
        capture_mode.is_capture_mode = False
        if case == "late graph":
            target.set_eagle3_layers_to_capture([1, 3, 4])
        draft(ids, positions, Batch("EXTEND", torch.zeros_like(made_up)))  # a dummy pass
        if session is not None:
            session.worker.wait(60)
        if case == "broken recorder":
            type(session).capturing = lambda _self: 1 / 0
        states = target(ids, positions, Batch("EXTEND", None))
        out = draft(ids, positions, Batch("EXTEND", states))
        # The steps of the draft take its own state, for which fc is not meant.
        draft(ids[:1], positions[:1], Batch("DECODE", out[:1, :64]))
        if session is not None:
            session.worker.wait(60)
        again = draft(ids, positions, Batch("EXTEND", states))
        if session is not None:
            session.worker.wait(60)
        draft(ids, positions, Batch("EXTEND", states))

    left = [
        f"{type(m).__name__}.{n}" for m in (*draft.modules(), *target.modules()) for n in vars(m) if of_ours(vars(m)[n])
    ]
    left += [n for n, value in vars(loader).items() if of_ours(value)]
    print(
        json.dumps(
            {
                "was_hooked": hooked,
                "left": left,
                "finders": [type(f).__module__ for f in sys.meta_path if "ckptdoctor" in type(f).__module__],
                "hooks": sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in draft.modules()),
                "same": bool(torch.equal(out, again)),
            }
        )
    )


if __name__ == "__main__":
    main()
