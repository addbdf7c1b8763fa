"""Probes of vLLM's model runners: what they hand to a target, which one is taken, and what is admitted."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

from ghosts import Ghost, Solid, alone
from small_models import (
    AUX_IDS,
    MODEL_TYPES,
    TARGETS,
    VLLM_PLACES,
    nested,
)


class Runners:
    """Probes of the model runners. Another part of the class has `oracle`."""

    oracle: Any

    def relayed(self) -> Any:
        """Pipeline stages and captured states: whether a target that does not relay them is refused."""
        try:
            utils = importlib.import_module("vllm.v1.worker.gpu.spec_decode.eagle.eagle3_utils")
            check = utils.verify_supports_aux_hidden_states_over_pp
        except (ImportError, AttributeError):
            return {}
        plain = types.SimpleNamespace(supports_aux_hidden_states_over_pp=True)
        check(types.SimpleNamespace(model=plain), "eagle3")
        try:
            check(types.SimpleNamespace(model=types.SimpleNamespace()), "eagle3")
        except ValueError:
            return {"pipeline": "supported_targets_or_refuse"}
        return {}

    def runner(self) -> Any:
        """The first model runner: what load_model hands to the target, and that recording graphs changes nothing."""
        cls = importlib.import_module("vllm.v1.worker.gpu_model_runner").GPUModelRunner
        config = importlib.import_module("vllm.config")
        with config.set_current_vllm_config(config.VllmConfig(), check_compile=False):
            self.oracle._groups()

        def started(config: dict[str, Any]) -> Any:
            state: list[Any] = []
            model = Solid(set_aux_hidden_state_layers=lambda layers: state.append(tuple(layers)))
            model.get_eagle3_default_aux_hidden_state_layers = lambda: ("default",)
            model.get_eagle3_aux_hidden_state_layers = lambda: ("default",)
            spec = Solid(draft_model_config=Solid(hf_config=types.SimpleNamespace(**config)))
            me = Ghost(use_aux_hidden_state_outputs=True, speculative_config=spec, get_model=lambda: model)
            real = {
                "supports_eagle3": lambda _: True,
                "get_model_loader": lambda *_: Ghost(load_model=lambda **_: model, __bool__=True),
                "DeviceMemoryProfiler": Ghost,
                "super": lambda *_: Ghost(),
            }
            for name in ("_get_eagle3_aux_layers_from_config", "_setup_eagle3_aux_hidden_state_outputs"):
                if hasattr(cls, name):
                    setattr(me, name, lambda name=name: alone(getattr(cls, name), **real)(me))
            load = cls.load_model
            load = getattr(load, "__wrapped__", load)
            try:
                alone(load, **real)(me)
            except (AttributeError, TypeError, ValueError):
                if not state:
                    raise
            chosen = list(state)
            record = getattr(cls.capture_model, "__wrapped__", cls.capture_model)
            alone(record, **real)(me)
            return {"chosen": chosen, "while_recording": state[len(chosen) :]}

        seen = self._places(lambda config: started(config)["chosen"][-1])
        one = started({AUX_IDS: [1, 5, 8]})
        if len(one["chosen"]) == 1 and not one["while_recording"]:
            seen["graph_boundaries"] = "same_as_eager"
        return seen

    def runner_v2(self) -> Any:
        try:
            utils = importlib.import_module("vllm.v1.worker.gpu.spec_decode.eagle.eagle3_utils")
        except ImportError:
            return {}

        def started(config: dict[str, Any]) -> Any:
            state: list[Any] = []
            model = Solid(set_aux_hidden_state_layers=lambda layers: state.append(tuple(layers)))
            model.get_eagle3_default_aux_hidden_state_layers = lambda: ("default",)
            spec = Solid(draft_model_config=Solid(hf_config=types.SimpleNamespace(**config)), method="eagle3")
            get = utils.get_eagle3_aux_layers_from_config
            alone(
                utils.set_eagle3_aux_hidden_state_layers, supports_eagle3=lambda _: True, cast=lambda _t, value: value,
                get_eagle3_aux_layers_from_config=get, torch=Ghost(),
            )(model, spec)  # fmt: skip
            return state[-1]

        seen = self._places(started)
        return {{"ids_read_from": "ids_read_from_v2"}.get(k, k): v for k, v in seen.items()}

    def _places(self, started: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        seen: dict[str, Any] = {"ids_read_from": [], "block_ids_read_from": []}
        shifts = set()
        for place in VLLM_PLACES:
            found = started(nested(place, [1, 5, 8]))
            if found == ("default",):
                continue
            seen["ids_read_from"].append(place)
            if place.endswith("target_layer_ids"):
                shifts.add({(1, 5, 8): "same", (2, 6, 9): "plus_one"}.get(found, str(found)))
            elif found != (1, 5, 8):
                shifts.add(f"{place}: {found}")
        if shifts:
            (seen["block_ids_to_boundaries"],) = shifts
        seen["block_ids_read_from"] = [p for p in seen["ids_read_from"] if p != VLLM_PLACES[1]]
        if started({}) == ("default",):
            seen["block_default_boundaries"] = "model_default"
        return seen

    def uses_aux(self) -> Any:
        """Whether a draft can ask for the final state alone, per model runner."""
        config = types.SimpleNamespace(eagle_config={"use_aux_hidden_state": False})
        draft = Solid(hf_config=config)
        spec = Solid(method="eagle3", draft_model_config=draft, use_eagle=lambda: True, use_dflash=lambda: False)
        seen = {"v1": False, "v2": False}
        for module, cls in (
            ("llm_base_proposer", "SpecDecodeBaseProposer"), ("eagle", "SpecDecodeBaseProposer"),
            ("eagle", "EagleProposer"),
        ):  # fmt: skip
            with contextlib.suppress(ImportError, AttributeError):
                proposer = getattr(importlib.import_module(f"vllm.v1.spec_decode.{module}"), cls)
                read = proposer._get_eagle3_use_aux_hidden_state_from_config
                me = Ghost(method="eagle3", draft_model_config=draft, speculative_config=spec)
                seen["v1"] = alone(read)(me) is False
                break
        with contextlib.suppress(ImportError, AttributeError):
            utils = importlib.import_module("vllm.v1.worker.gpu.spec_decode.eagle.eagle3_utils")
            seen["v2"] = utils.requires_aux_hidden_states(spec) is False
        # A runner without such a method decides in its constructor, if there is that runner at all.
        for key, module in (("v1", "gpu_model_runner"), ("v2", "gpu.model_runner")):
            if seen[key]:
                continue
            with contextlib.suppress(ImportError):
                runner = importlib.import_module(f"vllm.v1.worker.{module}").GPUModelRunner
                me = Ghost()
                real = {"super": lambda *_: Ghost(), "get_pp_group": lambda: Solid(is_last_rank=True)}
                alone(runner.__init__, **real)(me, Ghost(speculative_config=spec), Ghost())
                if me.__dict__.get("use_aux_hidden_state_outputs") is not True:
                    raise RuntimeError(f"{module}: captured states were not asked for")
        return seen

    def choice(self) -> Any:
        """Which model runner is taken for which target."""
        cls = importlib.import_module("vllm.config").VllmConfig
        if not hasattr(cls, "use_v2_model_runner"):
            return {"rows": []}
        module = sys.modules[cls.__module__]
        rows = []
        names = [*TARGETS, "DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "KimiK3ForConditionalGeneration"]
        for name in names:
            for moe in (False, True):
                for quantised in (False, True):
                    for hybrid in (False, True):
                        model = types.SimpleNamespace(
                            runner_type="generate", architectures=[name], is_moe=moe, is_quantized=quantised,
                            is_hybrid=hybrid, is_attention_free=False, is_diffusion=False,
                        )  # fmt: skip
                        me = Solid(model_config=model, _get_v2_model_runner_unsupported_features=list)
                        me.attention_config.hisparse_config = me.watermark_config = None
                        real = {
                            "envs": types.SimpleNamespace(VLLM_USE_V2_MODEL_RUNNER=None), "HAS_TRITON": True,
                            "current_platform": Ghost(is_unspecified=lambda: False), "logger": Ghost(),
                        }  # fmt: skip
                        if hasattr(cls, "_is_default_v2_model_runner_model"):
                            listed = {k: v for k, v in vars(module).items() if k.startswith("DEFAULT_V2")}
                            inner = alone(cls._is_default_v2_model_runner_model, **listed)
                            me._is_default_v2_model_runner_model = lambda inner=inner, me=me: inner(me)
                        found = alone(cls.use_v2_model_runner.fget, **real)(me)
                        rows.append([name, moe, quantised, hybrid, "v2" if found else "v1"])
        return {"rows": rows}

    def admitted(self) -> Any:
        """Model types of targets that the speculative config admits for EAGLE-3."""
        cls = importlib.import_module("vllm.config").SpeculativeConfig
        check = cls._verify_args
        check = getattr(check, "wrapped", getattr(check, "__wrapped__", check))
        found = []
        for kind in (*MODEL_TYPES, "no_such_type"):
            text = types.SimpleNamespace(model_type=kind)
            target = Solid(hf_text_config=text, hf_config=text)
            me = Solid(
                method="eagle3", num_speculative_tokens=3, target_model_config=target, draft_model_config=None,
                tensor_parallel_size=None, draft_tensor_parallel_size=None, disable_by_batch_size=None,
                rejection_sample_method="standard", synthetic_acceptance_rates=None,
                synthetic_acceptance_length=None,
            )  # fmt: skip
            try:
                alone(check, **{n: getattr(importlib.import_module("typing"), n) for n in ("Any",)})(me)
            except ValueError as error:
                if "only supported for" not in str(error):
                    raise
            else:
                found.append(kind)
        return {"admitted": found}
