"""Probes of SGLang: target classes, block drafters and pipeline stages; the rest is in its other parts."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from counting import boundaries, count_layers, observe
from ghosts import Ghost, alone
from sglang_drafts import Drafts, forward_batch
from sglang_runner import Runner
from small_models import (
    AUX_IDS,
    DEPTH,
    DRAFTS,
    TARGETS,
    config_folder,
    nested,
)


class Sglang(Runner, Drafts):
    """Probes of SGLang."""

    def __init__(self) -> None:
        import kernel_stubs
        import oracle_sglang

        self.oracle = oracle_sglang
        kernel_stubs.stub_absent(*oracle_sglang.KERNELS)
        import torch

        torch.set_num_threads(1)
        if not hasattr(torch._C._cpu, "_is_amx_tile_supported"):
            torch._C._cpu._is_amx_tile_supported = lambda: False
        importlib.import_module("sglang")
        oracle_sglang._layers()
        importlib.import_module("sglang.srt.configs.model_config")
        importlib.import_module("sglang.srt.model_loader.loader")
        self.registry = importlib.import_module("sglang.srt.models.registry").ModelRegistry
        with contextlib.suppress(ValueError):
            self.registry.resolve_model_cls(["NoSuchArchitecture"])

    def probes(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        for name in TARGETS:
            yield "target", name, lambda name=name: self.target(name)

        yield "runner", "", self.runner
        yield "runner", "pipeline", self.pipeline
        yield "runner", "block drafters", self.blocks
        for name in DRAFTS:
            yield "draft", name, lambda name=name: self.draft(name)

    def build(self, folder: Path, draft: bool, dtype: str = "float32", server: bool = True) -> Any:
        import torch
        from sglang.srt.configs.load_config import LoadConfig
        from sglang.srt.configs.model_config import ModelConfig
        from sglang.srt.model_loader import loader

        if server:
            self.oracle._server(folder)
            attention: Any = importlib.import_module("sglang.srt.layers.dp_attention")
            for name, value in self.oracle._ONE_RANK.items():
                if getattr(attention, name, value) is None:
                    setattr(attention, name, value)
        config = ModelConfig(
            model_path=str(folder), trust_remote_code=False, is_draft_model=draft, dtype=dtype, model_override_args="{}"
        )
        quantisation = {}
        if "quant_config" in inspect.signature(loader._initialize_model).parameters:
            quantisation["quant_config"] = loader._get_quantization_config(config, LoadConfig())
        torch.set_default_dtype(torch.float32)
        return loader._initialize_model(config, LoadConfig(), **quantisation)

    def target(self, name: str) -> Any:
        import torch

        cls, _ = self.registry.resolve_model_cls([name])
        if cls.__name__ != name and not cls.__name__.startswith(name[:5]):
            return {"setter": None, "note": f"served by {cls.__name__}"}
        if not hasattr(cls, "set_eagle3_layers_to_capture"):
            return {"setter": False}
        model = self.build(config_folder(name), draft=False)
        count_layers(model.model)
        ids = torch.zeros(3, dtype=torch.long)

        def choose(layer_ids: list[int] | None) -> None:
            for layer in model.model.layers:
                for flag in ("_is_layer_to_capture",):
                    if hasattr(layer, flag):
                        setattr(layer, flag, False)
            model.set_eagle3_layers_to_capture(layer_ids)

        def run() -> list[Any]:
            batch = forward_batch(input_ids=ids)
            zeros = torch.zeros(3, 64)
            with torch.no_grad():
                out = model.model(ids, torch.arange(3), batch, zeros)
            return boundaries(out[1]) if isinstance(out, tuple) else []

        seen = {"setter": True, "rows": observe(choose, run)}
        flagged = hasattr(model.model.layers[0], "_is_layer_to_capture")
        if hasattr(model, "set_dflash_layers_to_capture") and not flagged:
            model.set_dflash_layers_to_capture([1, 5, 8])
            seen["block"] = {str([1, 5, 8]): "same", str([2, 6, 9]): "plus_one"}.get(str(run()))
        return seen

    def blocks(self) -> Any:
        """Block drafters: where their ids stand, and what replaces them."""
        try:
            utils = importlib.import_module("sglang.srt.speculative.dflash_utils")
        except ImportError:
            return {}
        read = {"parse_dflash_draft_config": utils.parse_dflash_draft_config}
        with contextlib.suppress(ImportError):
            spark: Any = importlib.import_module("sglang.srt.speculative.dspark_components.dspark_config")
            read["dspark"] = spark.parse_dspark_draft_config
        places = []
        for place in ("dspark_target_layer_ids", "dflash_config.target_layer_ids", "target_layer_ids", AUX_IDS):
            more = {"num_hidden_layers": 2, "block_size": 4, "markov_rank": 8, "markov_head_type": "vanilla"}
            more |= {"dspark_block_size": 4, "dspark_markov_rank": 8, "dspark_noise_token_id": 1, "mask_token_id": 1}
            config = types.SimpleNamespace(**more, **nested(place, [1, 5, 8]))
            for method in read.values():
                with contextlib.suppress(ValueError, AttributeError, TypeError):
                    if list(method(draft_hf_config=config).target_layer_ids or ()) == [1, 5, 8]:
                        places.append(place)
                        break
        seen: dict[str, Any] = {"block_ids_read_from": places}
        spread = {count: utils.build_target_layer_ids(DEPTH, count) for count in (1, 2, 3, 5, 8)}
        seen["block_default_boundaries"] = {"spread": spread}
        config = types.SimpleNamespace(num_hidden_layers=2, dflash_config={"target_layer_ids": [1, DEPTH]})
        try:
            utils.parse_dflash_draft_config(draft_hf_config=config).resolve_target_layer_ids(target_num_layers=DEPTH)
        except ValueError:
            seen["block_out_of_range"] = "refuse_at_start"
        return seen

    def pipeline(self) -> Any:
        """Whether the server arguments admit pipeline stages together with EAGLE-3."""
        arguments = {
            "pp_size": 2, "tp_size": 2, "dp_size": 1, "nnodes": 1, "disable_overlap_schedule": True,
            "speculative_algorithm": "EAGLE3", "enable_mixed_chunk": False, "moe_dense_tp_size": None,
            "served_model_name": "name", "disaggregation_mode": "null", "base_gpu_id": 0, "gpu_id_step": 1,
            "min_free_slots_delay": None, "pp_max_micro_batch_size": None,
        }  # fmt: skip
        cls: Any = importlib.import_module("sglang.srt.server_args").ServerArgs
        checks = [cls.check_server_args]
        with contextlib.suppress(ImportError):
            hook = importlib.import_module("sglang.srt.arg_groups.validation_hook")
            own = [f for f in vars(hook).values() if isinstance(f, types.FunctionType)]
            checks = [f for f in own if "used with pipeline parallelism" in (f.__doc__ or "")] or checks

        def refusal(**given: Any) -> str:
            for check in checks:
                try:
                    alone(check)(Ghost(**{**arguments, **given}))
                except AssertionError as error:
                    if "ipeline" in str(error):
                        return str(error)
            return ""

        if refusal() and refusal() != refusal(speculative_algorithm=None):
            return {"pipeline": "refuse_at_start"}
        return {"pipeline": "allowed"}
