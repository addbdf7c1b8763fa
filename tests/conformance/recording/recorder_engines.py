"""Real engines for recorder_run.py: target and draft by their own functions, and the way from one to the other."""

from __future__ import annotations

import importlib
import types
from pathlib import Path
from typing import Any

from tests.conformance.recording.recorder_cases import TOKENS, Case


class Sglang:
    """SGLang's own plugin loader, model builder, loader and classes."""

    def __init__(self) -> None:
        from sglang_probes import Sglang as Probes

        self.engine = Probes()

    def load_plugins(self) -> None:
        plugins = importlib.import_module("sglang.srt.plugins")
        plugins.load_plugins()

    def prepare(self, draft: Path, case: Case, ids: Any, positions: Any) -> tuple[Any, Any]:
        import torch
        from counting import count_layers
        from sglang.srt.configs.device_config import DeviceConfig
        from sglang.srt.configs.load_config import LoadConfig
        from sglang.srt.configs.model_config import ModelConfig
        from sglang.srt.model_loader import loader
        from sglang_drafts import forward_batch

        target = self.engine.build(draft / "target", draft=False)
        count_layers(target.model)
        target.logits_processor.forward = lambda _ids, hidden, _head, _batch, aux=None, **_more: (hidden, aux)
        if case.layers is not None:
            ids_of_layers = [b - 1 for b in case.layers]
            choose = target.set_dflash_layers_to_capture if case.block else target.set_eagle3_layers_to_capture
            choose(ids_of_layers)
        batch = forward_batch(input_ids=ids)
        with torch.no_grad():
            hidden, aux = target(ids, positions, batch, torch.zeros(TOKENS, 64))
        # What the logits processor hands to the draft worker: the captured states side by side, else the last one.
        aux = list(aux) if isinstance(aux, (list, tuple)) else aux
        states = hidden if aux is None else torch.cat(aux, dim=-1) if isinstance(aux, list) else aux
        config = ModelConfig(
            model_path=str(draft), trust_remote_code=False, is_draft_model=True, dtype="float32",
            model_override_args="{}",
        )  # fmt: skip
        default = loader.DefaultModelLoader(LoadConfig())
        model = default.load_model(model_config=config, device_config=DeviceConfig("cpu"))
        embed, head = target.get_embed_and_head()
        self.target = target  # the worker keeps it
        if case.block:
            return model, states.detach().clone()
        # As the worker does at its start.
        torch.cuda.empty_cache = torch.cuda.synchronize = lambda *_: None
        if model.load_lm_head_from_target:
            model.set_embed_and_head(embed, head)
        else:
            model.set_embed(embed)
        flatten(model.model)
        model.logits_processor.forward = lambda *_args, **_more: None
        return model, states.detach().clone()

    def hand_over(self, model: Any, case: Case, states: Any, ids: Any, positions: Any) -> None:
        if case.block:
            model.project_target_hidden(states)
            return
        from sglang_drafts import forward_batch

        batch = forward_batch(input_ids=ids, spec_info=types.SimpleNamespace(hidden_states=states))
        batch.contains_mm_inputs = lambda: False
        model.forward(ids, positions, batch)


class Vllm:
    """vLLM's own plugin loader, model builder, loader and classes."""

    def __init__(self) -> None:
        from vllm_probes import Vllm as Probes

        self.engine = Probes()
        importlib.import_module("vllm.model_executor.model_loader.base_loader")
        importlib.import_module("vllm.model_executor.models.llama_eagle3")

    def load_plugins(self) -> None:
        importlib.import_module("vllm.plugins").load_general_plugins()

    def prepare(self, draft: Path, case: Case, ids: Any, positions: Any) -> tuple[Any, Any]:
        import torch
        from counting import count_layers
        from vllm.config import LoadConfig, set_current_vllm_config
        from vllm.model_executor.model_loader import base_loader
        from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

        notes: dict[str, Any] = {"notes": {}}
        vllm_config = self.engine.oracle._config(draft, notes, lambda _stage: None)
        draft_config = vllm_config.speculative_config.draft_model_config
        self.context = set_current_vllm_config(vllm_config, check_compile=False)
        self.context.__enter__()
        self.engine.oracle._groups()
        torch.set_default_dtype(torch.float32)
        build = base_loader.initialize_model
        target = build(vllm_config=vllm_config, model_config=vllm_config.model_config, prefix="")
        count_layers(target.model)
        if case.layers is not None:
            target.set_aux_hidden_state_layers(case.layers)
        with torch.no_grad():
            out = type(target.model).forward(target.model, ids, positions, None, torch.zeros(TOKENS, 64))
        states = torch.cat(list(out[1]), dim=-1) if isinstance(out, tuple) else out
        model = build(vllm_config=vllm_config, model_config=draft_config, prefix="")
        DefaultModelLoader(LoadConfig()).load_weights(model, draft_config)
        for module in model.modules():  # on a GPU the plain matrix product is what a linear layer runs
            if hasattr(module, "quant_method"):
                module.cpu_linear = torch.nn.functional.linear
        # As the proposer does after the load: an embedding, or a head, that the file does not have is the target's.
        if not getattr(model, "has_own_embed_tokens", False):
            del model.model.embed_tokens
            model.model.embed_tokens = target.model.embed_tokens
        if not getattr(model, "has_own_lm_head", False):
            del model.lm_head
            model.lm_head = target.lm_head
        self.target = target
        model.float()
        if not case.block:
            flatten(model.model)
        return model, states.detach().float().clone()

    def hand_over(self, model: Any, case: Case, states: Any, ids: Any, positions: Any) -> None:
        import torch

        if case.block:
            model.combine_hidden_states(states)
            return
        if states.any():
            combined = model.combine_hidden_states(states)
            # The buffers of the proposer are longer than the batch.
            ids, positions = (torch.cat([t, torch.zeros(3, dtype=t.dtype)]) for t in (ids.int(), positions))
            combined = torch.cat([combined, torch.zeros(3, combined.shape[1])])
            model(input_ids=ids, positions=positions, hidden_states=combined, inputs_embeds=None)
            return
        # A dummy pass of the proposer goes past combine_hidden_states.
        model(input_ids=ids, positions=positions, hidden_states=torch.zeros(TOKENS, 64), inputs_embeds=None)


def flatten(inner: Any) -> None:
    """Attention and MLP of the draft's layers become constants, norms the plain ones; no parameter changes."""
    from counting import count_layers

    layers = [inner.midlayer] if hasattr(inner, "midlayer") else list(inner.layers)
    count_layers(types.SimpleNamespace(layers=layers, modules=inner.modules, parameters=list))
