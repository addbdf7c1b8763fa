"""Probes of SGLang's model runner: what it hands to the target, and what holds while it records CUDA graphs."""

from __future__ import annotations

import importlib
import inspect
import types
from typing import Any

from ghosts import Ghost, alone
from small_models import (
    AUX_IDS,
    DEPTH,
    nested,
)


class Runner:
    """Probes of the model runner."""

    def runner(self) -> Any:
        """What the model runner hands to the target, and what holds while it records CUDA graphs."""
        places = [f"eagle_config.{AUX_IDS}", AUX_IDS, "dflash_config.target_layer_ids", "target_layer_ids"]
        read = [p for p in places if self.started(nested(p, [1, 5, 8]))["ids"] == [1, 5, 8]]
        plain = self.started(nested(places[0], [1, 5, 8]))
        off = self.started({"eagle_config": {"use_aux_hidden_state": False, AUX_IDS: [1, 5, 8]}})
        seen = {"ids_read_from": read, "use_aux_hidden_state": not off["called"]}
        if plain["graph"] != "none recorded":
            seen["graph_boundaries"] = {str([1, 5, 8]): "same_as_eager", "None": "default"}.get(str(plain["graph"]))
        return seen

    def started(self, config: dict[str, Any]) -> dict[str, Any]:
        """One start of the target's model runner, in its own order, with a draft of this config."""
        runner = importlib.import_module("sglang.srt.model_executor.model_runner")
        state: dict[str, Any] = {"called": False, "ids": None, "graph": "none recorded"}
        model = Ghost()

        def choose(layer_ids: Any = None) -> None:
            state.update(called=True, ids=layer_ids)

        def record(*_args: Any, **_kwargs: Any) -> Any:
            state["graph"] = state["ids"] if state["called"] else "nothing chosen"
            return Ghost()

        def graphs(*_args: Any, **_kwargs: Any) -> None:
            try:
                cls = importlib.import_module("sglang.srt.model_executor.cuda_graph_runner").CudaGraphRunner
            except ImportError:
                record()
                return
            sizes = {"get_batch_sizes_to_capture": lambda *_: ([1], [1])}
            init = alone(cls.__init__, super=lambda *_: Ghost(), **sizes)
            self_ = Ghost(capture=record)
            with_model = Ghost(model=model, spec_algorithm=algorithm, is_draft_worker=False, server_args=arguments)
            with_model.eagle_use_aux_hidden_state = me.eagle_use_aux_hidden_state
            init(self_, with_model)

        model.set_eagle3_layers_to_capture = choose
        kinds = importlib.import_module("sglang.srt.speculative.spec_info").SpeculativeAlgorithm
        algorithm = kinds.from_string("EAGLE3")
        draft = Ghost(hf_config=types.SimpleNamespace(**config), num_hidden_layers=1, num_nextn_predict_layers=None)
        draft.num_attention_layers = 1
        arguments = Ghost(speculative_algorithm="EAGLE3", speculative_draft_model_path="draft", lora_paths=None)
        real: dict[str, Any] = {
            "SpeculativeAlgorithm": Ghost(from_string=lambda *_: algorithm),
            "ModelConfig": Ghost(from_server_args=lambda *_a, **_k: draft),
            "get_bool_env_var": lambda *_a, **_k: False,
            "super": lambda *_: Ghost(),
        }
        me = Ghost(model=model, device="cuda", server_args=arguments, spec_algorithm=algorithm, is_draft_worker=False)
        me.pp_size = me.tp_size = me.dp_size = 1
        me._build_model_config = lambda *_a, **_k: draft
        me.model_config = Ghost(num_hidden_layers=DEPTH, num_attention_layers=DEPTH, num_nextn_predict_layers=None)
        try:
            parts = "sglang.srt.model_executor.model_runner_components."
            resolve = importlib.import_module(parts + "spec_aux_hidden_state")
            setup = importlib.import_module(parts + "attention_backend_setup")
        except ImportError:
            me.init_cuda_graphs = me.init_device_graphs = graphs
            me.init_decode_cuda_graph = graphs
            cls = runner.ModelRunner
            for name in ("init_aux_hidden_state_capture",):
                if hasattr(cls, name):
                    setattr(me, name, lambda name=name: alone(getattr(cls, name), **real)(me))
            if "eagle_use_aux_hidden_state" in cls.__init__.__code__.co_names:
                count = cls.__init__.__code__.co_argcount - 1
                given = {n: Ghost() for n in cls.__init__.__code__.co_varnames[1 : count + 1]}
                given.update(server_args=arguments, is_draft_worker=False, pp_size=1, pp_rank=0, tp_size=1, tp_rank=0)
                given["model_config"] = me.model_config
                alone(cls.__init__, **real)(me, **given)
            me.device, me.model = "cuda", model
            extra = cls.initialize.__code__.co_argcount - 1
            alone(cls.initialize, **real)(me, *([Ghost()] * extra))
            if state["graph"] == "none recorded" and hasattr(cls, "init_attention_backends"):
                alone(cls.init_attention_backends, **real)(me)
            return state
        spec = Ghost(speculative_draft_model_path="draft")
        method = resolve._resolve_eagle_aux_hidden_state
        found = resolve.SpecAuxHiddenStateConfig()
        more = {"model_config": draft} if "model_config" in inspect.signature(method).parameters else {}
        alone(method, **{**real, "get_spec": lambda: spec})(
            config=found, server_args=arguments, spec_algorithm=algorithm, is_draft_worker=False, **more
        )
        me.spec_aux_config = found
        real["configure_aux_hidden_state_capture"] = setup.configure_aux_hidden_state_capture
        alone(runner.ModelRunner.init_attention_backends, **real)(me)
        return state
