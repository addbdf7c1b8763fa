"""Probes of SGLang's draft classes and of the worker's sharing of embedding and head."""

from __future__ import annotations

import contextlib
import importlib
import json
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counting import count_layers
from ghosts import Ghost, alone
from small_models import (
    DENSE,
    DRAFTS,
)


class Drafts:
    """Probes of draft classes. Another part of the class has `build` and `registry`."""

    build: Any
    registry: Any

    def draft(self, name: str) -> Any:
        """The draft's forward and the worker's sharing of embedding and head."""
        import torch

        try:
            cls, _ = self.registry.resolve_model_cls([name])
        except ValueError:
            return {"class": False}
        if cls.__name__ != name:
            return {"class": False}
        seen: dict[str, Any] = {}
        eagle3 = "Eagle3" in name
        extra = {"eagle_config": {}} if eagle3 else {}
        made: dict[str, Any] = {}

        def build(**given: Any) -> Any:
            config = {"architectures": [name], **DENSE, **DRAFTS[name], **extra, **given}
            folder = Path(tempfile.mkdtemp(prefix="wiring-"))
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
            if not made:
                made["first"] = self.build(folder, draft=True, dtype="float32")
                return made["first"]
            return self.build(folder, draft=True, dtype="float32", server=False)

        model = build(**({"draft_vocab_size": 64} if eagle3 else {}))
        inner = model.model
        layers = [inner.midlayer] if hasattr(inner, "midlayer") else list(inner.layers)
        count_layers(types.SimpleNamespace(layers=layers, modules=inner.modules, parameters=inner.parameters))
        runs: list[int] = []
        width = 64

        def fc(x: Any, *_args: Any) -> Any:
            runs.append(x.shape[-1])
            out = torch.full((x.shape[0], width), 3.0)
            return out if plain else (out, None)

        plain = type(inner.fc) is torch.nn.Linear
        inner.fc.forward = fc
        ids = torch.zeros(2, dtype=torch.long)

        def forward(wide: int) -> Any:
            runs.clear()
            states = torch.full((2, wide), 7.0)
            batch = forward_batch(input_ids=ids, spec_info=types.SimpleNamespace(hidden_states=states))
            batch.forward_mode = type(batch.forward_mode).DECODE
            with torch.no_grad():
                return inner(ids, torch.arange(2), batch, torch.ones(2, width)), list(runs)

        if eagle3:
            _, three = forward(3 * width)
            out, one = forward(width)
            seen["fc_runs"] = "width_differs" if three == [3 * width] and one == [] else [three, one]
            left = float(out[1][0].float().mean())
            # The state came in as 7; the layer added one. A residual taken after the norm would be 1 + 1.
            seen["residual"] = {8.0: "before_norm", 2.0: "after_norm"}.get(left, left)
        else:
            _, one = forward(width)
            seen["fc_runs"] = "always" if one == [2 * width] else one
        tied = build(tie_word_embeddings=True, **({"draft_vocab_size": 128} if eagle3 else {}))
        seen["tied"] = "head_is_embedding" if tied.lm_head is tied.model.embed_tokens else "head_of_its_own"
        if eagle3:
            seen["shared"] = {
                "plain": self.shared(build(draft_vocab_size=64)),
                "null": self.shared(null) if (null := without_size(build)) is not None else None,
                "narrow": self.shared(build(draft_vocab_size=64, target_hidden_size=32)),
            }
        else:
            seen["shared"] = {"plain": self.shared(build(), "EAGLE")}
        return seen

    def shared(self, draft: Any, algorithm: str = "EAGLE3") -> dict[str, Any]:
        """Whose head and embedding a draft without a stored map has after the worker's start, and the worker's map."""
        import torch

        embed = torch.nn.Parameter(torch.full((128, 64), 5.0))
        head = torch.nn.Parameter(torch.full((128, 64), 5.0))
        torch.cuda.empty_cache = torch.cuda.synchronize = lambda *_: None
        chosen = importlib.import_module("sglang.srt.speculative.spec_info").SpeculativeAlgorithm.from_string(algorithm)
        target = Ghost(model_runner=Ghost(model=Ghost(get_embed_and_head=lambda: (embed, head), lm_head=None)))
        target.get_memory_pool = lambda: (Ghost(), Ghost())
        arguments = Ghost(speculative_token_map=None, speculative_algorithm=algorithm, device="cpu")
        runner = Ghost(model=draft)
        real = {
            "SpeculativeAlgorithm": Ghost(from_string=lambda *_: chosen),
            "super": lambda *_: Ghost(),
            "get_spec": lambda: arguments,
            "TpModelWorker": lambda *_a, **_k: Ghost(model_runner=runner),
        }
        me = Ghost(draft_model_runner=runner, draft_runner=runner, model_runner=runner, speculative_algorithm=chosen)
        me.target_worker, me.server_args = target, arguments
        for name in ("eagle_utils", "spec_utils"):
            with contextlib.suppress(ImportError):
                utils: Any = importlib.import_module(f"sglang.srt.speculative.{name}")
                if not hasattr(utils, "fast_topk"):
                    utils.fast_topk = Ghost()  # a kernel that the first releases import for GPUs alone
        try:
            worker: Any = importlib.import_module("sglang.srt.speculative.eagle_worker").EAGLEWorker
            names = worker.__init__.__code__.co_varnames[1 : worker.__init__.__code__.co_argcount]
            given = {**{n: Ghost() for n in names}, "server_args": arguments, "target_worker": target}
            alone(worker.__init__, **real)(me, **given)
        except ImportError:
            worker = importlib.import_module("sglang.srt.speculative.eagle_worker_v2").EagleDraftWorker
            me._resolve_shared_embed_and_head = lambda: (embed, head)
            alone(worker.init_token_map, **real)(me)
            alone(worker.init_lm_head, **real)(me)
        return {
            "head": "target" if draft.lm_head.weight is head else "own",
            "embedding": "target" if draft.model.embed_tokens.weight is embed else "own",
            "map": "identity" if me.__dict__.get("hot_token_id", 0) is None else "another",
        }


def without_size(build: Callable[..., Any]) -> Any:
    """A draft whose draft_vocab_size is null, which the first releases refuse."""
    try:
        return build(draft_vocab_size=None)
    except TypeError:
        return None


def forward_batch(**given: Any) -> Any:
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    return Ghost(
        forward_mode=ForwardMode.EXTEND, can_run_tbo=False, global_num_tokens_cpu=None, batch_size=1,
        tbo_children=None, attn_cp_metadata=None, mm_input_embeds=None, residual_stream=None, dp_padding_mode=None,
        global_num_tokens_gpu=None, residual=None, aux_hidden_states_buffer=None, **given,
    )  # fmt: skip
