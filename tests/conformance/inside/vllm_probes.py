"""Probes of vLLM: target classes and draft classes; those of its model runners are in a part of their own."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from counting import boundaries, count_layers, observe
from small_models import (
    DENSE,
    DEPTH,
    TARGETS,
    VLLM_DRAFTS,
    WIDTH,
    config_folder,
    nested,
)
from vllm_runners import Runners


class Vllm(Runners):
    """Probes of vLLM."""

    def __init__(self) -> None:
        import kernel_stubs
        import oracle_vllm

        kernel_stubs.stub_absent("numba")
        self.oracle = oracle_vllm
        os.environ.setdefault("VLLM_CACHE_ROOT", tempfile.mkdtemp(prefix="wiring-vllm-"))
        import torch

        torch.set_num_threads(1)
        importlib.import_module("vllm")
        importlib.import_module("vllm.config")
        importlib.import_module("vllm.model_executor.model_loader.utils")
        oracle_vllm._inspect_here()

    def probes(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        for name in TARGETS:
            yield "target", name, lambda name=name: self.target(name)
        yield "runner", "v1", self.runner
        yield "runner", "v2", self.runner_v2
        yield "runner", "use_aux_hidden_state", self.uses_aux
        yield "runner", "pipeline", self.relayed
        yield "runner", "choice", self.choice
        yield "runner", "target_model_types", self.admitted
        for name in VLLM_DRAFTS:
            yield "draft", name, lambda name=name: self.draft(name)

    def target(self, name: str) -> Any:
        import torch
        from vllm.config import CacheConfig, ModelConfig, ParallelConfig, VllmConfig, set_current_vllm_config
        from vllm.model_executor.model_loader.utils import get_model_architecture, initialize_model

        folder = str(config_folder(name))
        config = ModelConfig(
            model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=128,
            enforce_eager=True, seed=0,
        )  # fmt: skip
        whole = VllmConfig(
            model_config=config, parallel_config=ParallelConfig(), cache_config=CacheConfig(block_size=16)
        )
        with set_current_vllm_config(whole, check_compile=False):
            self.oracle._groups()
            cls, found = get_model_architecture(config)
            if found != name:
                return {"setter": None, "note": f"served by {found}"}
            if not hasattr(cls, "set_aux_hidden_state_layers"):
                return {"setter": False}
            torch.set_default_dtype(torch.float32)
            model = initialize_model(vllm_config=whole, model_config=config)
            count_layers(model.model)

            def choose(layer_ids: list[int] | None) -> None:
                if layer_ids is None:
                    older = getattr(model, "get_eagle3_aux_hidden_state_layers", None)
                    layer_ids = (older or model.get_eagle3_default_aux_hidden_state_layers)()
                model.set_aux_hidden_state_layers(tuple(layer_ids))

            def run() -> list[Any]:
                with torch.no_grad():
                    out = type(model.model).forward(
                        model.model, torch.zeros(3, dtype=torch.long), torch.arange(3), None, torch.zeros(3, WIDTH)
                    )
                return boundaries(out[1]) if isinstance(out, tuple) else []

            seen: dict[str, Any] = {"setter": True, "rows": observe(choose, run)}
            # The last of two stages holds the upper half: is its third layer layer 2 or layer 8?
            inner = model.model
            inner.start_layer = DEPTH // 2
            with contextlib.suppress(Exception):
                choose([2])
                first = run()
                choose([2 + DEPTH // 2])
                if first and not run():
                    seen["pipeline"] = "last_rank_counts_from_zero"
            return seen

    def draft(self, name: str) -> Any:
        """What a draft does with captured states and with the flags of its config."""
        import torch
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader.utils import initialize_model

        given: dict[str, Any] = {**DENSE, "architectures": [name], **VLLM_DRAFTS[name]}
        grouped = False

        def build(**more: Any) -> Any:
            nonlocal grouped
            folder = Path(tempfile.mkdtemp(prefix="wiring-"))
            (folder / "target").mkdir()
            config = {k: v for k, v in {**given, **more}.items() if v is not None}
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
            target = {**DENSE, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
            (folder / "target" / "config.json").write_text(json.dumps(target), encoding="utf-8")
            whole = self.oracle._config(folder, {"notes": {}}, lambda _name: None)
            with set_current_vllm_config(whole, check_compile=False):
                if not grouped:
                    self.oracle._groups()
                    grouped = True
                torch.set_default_dtype(torch.float32)
                model = initialize_model(
                    vllm_config=whole, model_config=whole.speculative_config.draft_model_config
                ).float()
            inner = model.model
            for module in model.modules():
                if hasattr(module, "weight") and not isinstance(module, torch.nn.Linear):
                    module.cpu_linear = torch.nn.functional.linear  # set after the load, by the CPU's linear method
            layers = list(inner.layers)
            with contextlib.suppress(RuntimeError):
                count_layers(types.SimpleNamespace(layers=layers, modules=inner.modules, parameters=inner.parameters))
            return model

        def combined(model: Any, wide: int = 3 * WIDTH) -> tuple[list[str], float]:
            """Which parts ran on captured states of 7, and what came out."""
            ran: list[str] = []
            inner = model.model
            for part in ("fc", "input_norm"):
                module = getattr(inner, part, None)
                if isinstance(module, torch.nn.Module):
                    module.register_forward_hook(lambda *_a, part=part: ran.append(part))
            norms = getattr(inner, "fc_norm", None)
            if norms is not None:
                norms[0].register_forward_hook(lambda *_a: ran.append("fc_norm"))
            with torch.no_grad():
                out = model.combine_hidden_states(torch.full((2, wide), 7.0))
            return ran, float((out[0] if isinstance(out, tuple) else out).float().mean())

        seen: dict[str, Any] = {}
        if name.startswith("EagleLlama"):
            model = build()
            ran: list[int] = []
            model.model.fc.register_forward_hook(lambda _m, args, _o: ran.append(args[0].shape[-1]))
            ids = torch.zeros(2, dtype=torch.long)
            with torch.no_grad():
                type(model.model).forward(model.model, ids, torch.arange(2), torch.full((2, WIDTH), 7.0))
            return {"fc_runs": "always" if ran == [2 * WIDTH] else ran}
        ran, _ = combined(build())
        off, _ = combined(build(eagle_config={"use_aux_hidden_state": False}), WIDTH * 3)
        seen["fc_runs"] = {(True, True): "always", (True, False): "unless_use_aux_is_false"}.get(
            ("fc" in ran, "fc" in off), [ran, off]
        )
        if "Eagle3" not in name:
            return seen
        reads: dict[str, list[str]] = {}
        if "fc" not in off:
            reads["use_aux_hidden_state"] = ["eagle_config.use_aux_hidden_state"]
        for flag, part in (("norm_before_fc", "input_norm"), ("fc_norm", "fc_norm")):
            for place in (f"eagle_config.{flag}", flag):
                ran, _ = combined(build(**nested(place, True)))
                if part in ran:
                    reads.setdefault(flag, []).append(place)

        def residual(model: Any) -> float:
            layer = model.model.layers[0]
            with torch.no_grad():
                states = torch.full((2, WIDTH), 7.0)
                _, left = layer(torch.arange(2), torch.ones(2, WIDTH), states, None)
            return float(left.mean())

        # The state comes in as 7, or as 1 after its norm; attention adds a half.
        taken = [residual(build(norm_before_residual=flag)) for flag in (None, False, True)]
        seen["residual"] = {(7.5, 7.5, 7.5): "before_norm", (7.5, 7.5, 1.5): "configured"}.get(tuple(taken), taken)
        if seen["residual"] == "configured":
            reads["norm_before_residual"] = ["norm_before_residual"]

        def last(model: Any) -> float:
            ids = torch.zeros(2, dtype=torch.long)
            with torch.no_grad():
                out = type(model.model).forward(model.model, ids, torch.arange(2), torch.full((2, WIDTH), 7.0))
            return float(out[1].mean())

        if last(build()) != last(build(norm_output=True)):
            reads["norm_output"] = ["norm_output"]
        seen["reads"] = reads
        return seen
