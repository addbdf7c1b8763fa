"""The wiring of a release, seen in runs of the engine's own code: `python -m tests.conformance.wiring ENGINE==RELEASE…`

The oracles say what a loader does with stored tensors. This says what happens to a draft once it is loaded: which ids
the model runner reads, which states of the target the ids become and which of them arrive, what stands in force while
CUDA graphs are recorded, when `fc` runs, and what the draft takes for its residual. Each line names an entry of
rules/serving and says what it claims, what was seen, and whether they agree; the exit code is 1 on a difference.

What runs: a target class, built from a small config by the engine's own constructors, with its own decoder layers and
norms. Only attention and MLP are constants, which together add one to the residual stream: a captured state is then
the number of its boundary. Model runners cannot start without a GPU; their own methods run with a ghost in place of all
that surrounds them (`Ghost`). A class that a CPU cannot build is named with the reason and proves nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DEPTH = 12
"""Layers of the small targets: n//2 and n-3 are told apart."""
WIDTH = 64
FIRST = 5
"""An id that every class reaches; it stands in each list, for a capture of nothing is another case."""


# --- inside an environment: no module of this project but the oracles ---


class Ghost:
    """Any attribute, call, item or number; false. Attributes that are set stay."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = Ghost()
        self.__dict__[name] = made
        return made

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        return Ghost()

    def __getitem__(self, _key: Any) -> Any:
        return Ghost()

    def __setitem__(self, _key: Any, _value: Any) -> None:
        return None

    def __contains__(self, _item: Any) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __int__(self) -> int:
        return 0

    __index__ = __int__

    def __float__(self) -> float:
        return 0.0

    def _same(self, *_other: Any) -> Any:
        return self

    def _no(self, _other: Any) -> bool:
        return False

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __or__ = __ror__ = __and__ = _same
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = __neg__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = _no


def alone(function: Any, **real: Any) -> Any:
    """The engine's own function with ghosts for every global name but Python's and those given."""
    import builtins

    names: set[str] = set()
    pending = [function.__code__]
    while pending:
        code = pending.pop()
        names.update(code.co_names)
        pending += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    known = {"__builtins__": builtins, "__name__": function.__module__, "__package__": None}
    space: dict[str, Any] = {n: Ghost() for n in names if not hasattr(builtins, n)}
    space.update({n: importlib.import_module(n) for n in ("inspect", "os", "time") if n in names})
    space.update({**known, **real})
    made = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def constant(value: float, replaced: Any) -> Any:
    """A module that gives `value` in the width of the model; it has the other attributes of the one it replaces."""
    import torch

    class Constant(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            given = kwargs.get("hidden_states", kwargs.get("x"))
            if given is None:
                given = next(a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point())
            made = torch.full((*given.shape[:-1], WIDTH), value, dtype=given.dtype)
            if isinstance(kwargs.get("output"), torch.Tensor):
                kwargs["output"].copy_(made)
            return made

        def __getattr__(self, name: str) -> Any:
            return getattr(replaced, name)

    return Constant()


ATTENTION = ("self_attn", "attn", "attention", "linear_attn")
MLP = ("mlp", "block_sparse_moe", "feed_forward", "ffn")


def count_layers(decoder: Any) -> None:
    """Makes each decoder layer add one to the residual stream, and the embedding zero."""
    import torch

    for layer in decoder.layers:
        replaced = 0
        for names in (ATTENTION, MLP):
            for name in names:
                part = getattr(layer, name, None)
                if isinstance(part, torch.nn.Module):
                    setattr(layer, name, constant(0.5, part))
                    replaced += 1
        if replaced != 2:
            raise RuntimeError(f"{type(layer).__name__} has other parts than attention and MLP")
    for module in decoder.modules():
        if hasattr(module, "forward_native"):
            if hasattr(module, "_forward_method"):
                module._forward_method = module.forward_native
            else:
                module.forward = module.forward_native
    for parameter in decoder.parameters():
        with contextlib.suppress(Exception):
            parameter.data = torch.ones_like(parameter.data)


def boundaries(captured: Any) -> list[Any]:
    """Captured states as numbers."""
    import torch

    found = []
    if isinstance(captured, torch.Tensor):  # states side by side, from 0.5.17 of SGLang for some classes
        captured = captured.split(WIDTH, dim=-1)
    for state in captured:
        mean = float(state.float().mean())
        if not torch.allclose(state.float(), torch.full_like(state.float(), mean), atol=1e-3):
            raise RuntimeError("a captured state is no multiple of ones")
        found.append(int(mean) if mean == int(mean) else mean)
    return found


def observe(choose: Callable[[list[int] | None], None], run: Callable[[], list[Any]]) -> list[dict[str, Any]]:
    """What arrives for no ids, and for lists with each id from below zero to above the last layer."""
    lists: list[list[int] | None] = [None, [1, FIRST, 8], [2, FIRST, 9]]
    lists += [[FIRST, x] for x in range(-3, DEPTH + 3) if x != FIRST]
    seen: list[dict[str, Any]] = []
    for ids in lists:
        row: dict[str, Any] = {"ids": ids}
        try:
            choose(ids)
        except (IndexError, KeyError, ValueError, AssertionError, TypeError) as error:
            seen.append({**row, "refused": "start", "reason": repr(error)[:120]})
            continue
        try:
            row["captured"] = run()
        except (IndexError, KeyError, ValueError, AssertionError, TypeError, RuntimeError) as error:
            row.update(refused="first_forward", reason=repr(error)[:120])
        seen.append(row)
    return seen


def in_child(work: Callable[[], Any]) -> Any:
    """The result of `work` in a process of its own, or the error as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            answer: dict[str, Any] = {"seen": work()}
        except BaseException as error:  # noqa: BLE001  # SystemExit too: the child reports and ends here
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            where = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame is not None else ""
            answer = {"error": f"{type(error).__name__}: {str(error)[:160]} ({where})"}
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "the process ended"}


_DENSE = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": DEPTH, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32", "rope_theta": 10000.0,
    "bos_token_id": 1, "eos_token_id": 2, "attention_bias": False,
}  # fmt: skip
_EXPERTS = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True,
}  # fmt: skip
_MLA = {
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "n_group": 1,
    "topk_group": 1, "topk_method": "noaux_tc",
    "rope_scaling": {"type": "yarn", "rope_type": "yarn", "factor": 2.0, "beta_fast": 32.0, "beta_slow": 1.0,
                     "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 128},
    "scoring_func": "sigmoid", "norm_topk_prob": True, "moe_layer_freq": 1,
    "first_k_dense_replace": 1, "routed_scaling_factor": 1.0, "num_key_value_heads": 4, "head_dim": None,
}  # fmt: skip
TARGETS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {"model_type": "llama"},
    "Qwen2ForCausalLM": {"model_type": "qwen2"},
    "Qwen3ForCausalLM": {"model_type": "qwen3"},
    "Qwen2MoeForCausalLM": {"model_type": "qwen2_moe", **_EXPERTS},
    "Qwen3MoeForCausalLM": {"model_type": "qwen3_moe", **_EXPERTS},
    "DeepseekV3ForCausalLM": {"model_type": "deepseek_v3", **_MLA},
    "Glm4MoeForCausalLM": {
        "model_type": "glm4_moe", **{k: v for k, v in _MLA.items() if "rank" not in k and "rope" not in k},
        "num_key_value_heads": 2, "head_dim": 16, "partial_rotary_factor": 0.5, "use_qk_norm": True,
    },
    "MiniMaxM2ForCausalLM": {
        "model_type": "minimax_m2", "num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 8,
        "scoring_func": "sigmoid", "use_routing_bias": True, "use_qk_norm": True, "qk_norm_type": "per_layer",
        "attn_type_list": [1] * DEPTH, "shared_intermediate_size": 0,
    },
    "GptOssForCausalLM": {
        "model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"] * (DEPTH // 2), "attention_bias": True,
        "swiglu_limit": 7.0,
        "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                         "original_max_position_embeddings": 128},
    },
    "ApertusForCausalLM": {"model_type": "apertus", "hidden_act": "xielu"},
    "MistralForCausalLM": {"model_type": "mistral"},
    "Phi3ForCausalLM": {"model_type": "phi3", "pad_token_id": 0},
    "MiniCPMForCausalLM": {
        "model_type": "llama", "scale_emb": 1, "scale_depth": DEPTH**0.5, "dim_model_base": 64, "num_experts": 0,
    },
}  # fmt: skip


_MLA_DRAFT = {**_MLA, "model_type": "deepseek_v3", "num_hidden_layers": 1}
DRAFTS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLMEagle3": {"model_type": "llama", "num_hidden_layers": 1},
    "Eagle3DeepseekV2ForCausalLM": {k: v for k, v in _MLA_DRAFT.items() if v is not None},
    "LlamaForCausalLMEagle": {"model_type": "llama", "num_hidden_layers": 1},
    "Qwen2ForCausalLMEagle": {"model_type": "qwen2", "num_hidden_layers": 1},
    "MistralForCausalLMEagle": {"model_type": "mistral", "num_hidden_layers": 1},
}
AUX_IDS = "eagle_aux_hidden_state_layer_ids"


def nested(place: str, value: Any) -> dict[str, Any]:
    """A config with `value` at a dotted place."""
    outer, _, inner = place.rpartition(".")
    return {outer: {inner: value}} if outer else {inner: value}


def config_folder(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="wiring-"))
    config = {"architectures": [name], **_DENSE, **TARGETS[name]}
    config = {k: v for k, v in config.items() if v is not None}
    from transformers import CONFIG_MAPPING

    if config["model_type"] not in CONFIG_MAPPING:  # a type younger than this transformers: the same keys, generic
        config["model_type"] = "mixtral"
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def inside(engine: str) -> list[dict[str, Any]]:
    warnings.filterwarnings("ignore")
    module = {"sglang": Sglang, "vllm": Vllm}[engine]()
    rows = []
    for kind, name, work in module.probes():
        rows.append({"kind": kind, "name": name, **in_child(work)})
    return rows


class Sglang:
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
            config = {"architectures": [name], **_DENSE, **DRAFTS[name], **extra, **given}
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


class Solid(Ghost):
    """A ghost that is there."""

    def __bool__(self) -> bool:
        return True


class Vllm:
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

    def draft(self, name: str) -> Any:
        """What a draft does with captured states and with the flags of its config."""
        import torch
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader.utils import initialize_model

        given: dict[str, Any] = {**_DENSE, "architectures": [name], **VLLM_DRAFTS[name]}
        grouped = False

        def build(**more: Any) -> Any:
            nonlocal grouped
            folder = Path(tempfile.mkdtemp(prefix="wiring-"))
            (folder / "target").mkdir()
            config = {k: v for k, v in {**given, **more}.items() if v is not None}
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
            target = {**_DENSE, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
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


KEEP_NUMBERS = ("GptOssForCausalLM", "Qwen3MoeForCausalLM")
"""Targets of vLLM whose layers keep their numbers on a later pipeline stage; the contract says so in a source."""
MODEL_TYPES = (
    "llama", "qwen", "qwen2", "qwen3", "minicpm", "gpt_oss", "hunyuan_vl", "hunyuan_v1_dense", "afmoe", "nemotron_h",
    "deepseek_v2", "deepseek_v3", "kimi_k2", "kimi_k25", "minimax_m2", "gemma4", "laguna", "mistral", "phi3",
)  # fmt: skip
VLLM_PLACES = (
    AUX_IDS, f"eagle_config.{AUX_IDS}", "dflash_config.target_layer_ids", "dspark_target_layer_ids",
    "target_layer_ids", "dflash_config.layer_ids", "eagle_config.layer_ids",
)  # fmt: skip
VLLM_DRAFTS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLMEagle3": {"model_type": "llama", "num_hidden_layers": 1, "draft_vocab_size": 64},
    "Eagle3Qwen3ForCausalLM": {"model_type": "qwen3", "num_hidden_layers": 1, "draft_vocab_size": 64},
    "Eagle3DeepseekV2ForCausalLM": {
        **_MLA_DRAFT, "model_type": "deepseek_v2", "draft_vocab_size": 64, "n_routed_experts": None,
    },
    "EagleLlamaForCausalLM": {"model_type": "llama", "num_hidden_layers": 1},
    "DFlashDraftModel": {
        "model_type": "qwen3", "num_hidden_layers": 1, "target_layer_ids": None,
        "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 5, 8]}, "block_size": 8,
    },
}  # fmt: skip


# --- outside: the contracts, and the comparison ---

Verdict = tuple[str, str, Any, Any, bool]
"""File, place of the entry, what it claims, what was seen, whether they agree."""


def look(text: str) -> list[dict[str, Any]]:
    """Runs the probes in the environment of a release."""
    from tests.conformance import environments

    environment = environments.ensure(environments.parse(text))
    command = [str(environment.python), str(Path(__file__).resolve()), "--inside", environment.release.engine]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment.variables())
    if done.returncode:
        raise RuntimeError(f"{text}: {done.stderr[-2000:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


class Judge:
    """Compares what was seen in one release with the entries that hold in it."""

    def __init__(self, engine: str, release: str) -> None:
        from ckptdoctor.serving.contracts import Release, contracts

        self.contract = contracts()[engine]
        self.release = Release(self.contract, release)
        self.verdicts: list[Verdict] = []

    def entry(self, targets: bool, place: str, timeline: Any, seen: Any, compare: Callable[[Any], bool]) -> None:
        reader = self.release.reader()
        reader.value(timeline)
        for entry in reader.evidence.entries:
            name = self.contract.engine + ("-targets" if targets else "")
            self.verdicts.append((name, f"{place}/{entry.since}", entry.value, seen, compare(entry.value)))

    def judge(self, row: dict[str, Any]) -> str | None:
        """Adds verdicts; returns why a probe proves nothing."""
        if "error" in row:
            return str(row["error"])
        seen = row["seen"]
        if row["kind"] == "target":
            return self.target(row["name"], seen)
        if row["kind"] == "draft":
            return self.draft(row["name"], seen)
        if "rows" in seen:
            self.choice(seen["rows"])
        elif "admitted" in seen:
            self.admitted(seen["admitted"])
        elif row["name"] == "use_aux_hidden_state":
            timeline = self.contract.targets["use_aux_hidden_state"]
            self.entry(True, "use_aux_hidden_state", timeline, seen, lambda claimed: bool(claimed == seen))
        else:
            # Block drafters run in the first model runner, and from 0.25.0 in the second one.
            other = {"v1": True, "v2": False}.get(row["name"])
            for name, found in seen.items():
                value = found
                if name.startswith("block") and other is self.release.has_reached("0.25.0"):
                    continue
                timeline = self.contract.targets.get(name)
                if isinstance(value, dict) and "spread" in value:
                    claimed = self.release.peek(timeline)
                    value = claimed if self.spreads(value["spread"]) else value["spread"]
                self.entry(True, name, timeline, value, lambda claimed, value=value: same(claimed, value))
        return None

    def target(self, name: str, seen: dict[str, Any]) -> str | None:
        rows = self.contract.targets["targets"]
        found = next((r for r in rows if name in r["classes"]), None)
        if seen["setter"] is None:
            return str(seen["note"])
        since = found["classes"][name] if found is not None else None
        claimed = since is not None and self.release.has_reached(str(since))
        file = f"{self.contract.engine}-targets"
        if not (claimed or seen["setter"]):
            return None
        # A class may have the setter before the engine admits it as a target.
        if claimed != seen["setter"] and claimed:
            self.verdicts.append((file, f"targets/classes/{name}", f"captures from {since}", "no setter", False))
        if not claimed or found is None or not seen["setter"]:
            return "not in the contract of this release, although it has the setter"
        agreed: dict[str, bool] = {}
        wrong: dict[str, Any] = {}
        for seen_row in seen["rows"]:
            used, fits, expected = self.predicted(found, seen_row)
            for name_ in used:
                agreed[name_] = agreed.get(name_, True) and fits
                if not fits:
                    wrong.setdefault(name_, []).append({**seen_row, "expected": expected})
        for name_, fits in agreed.items():
            place = f"targets/{found['id']}/{name_}"
            seen_value = "as claimed" if fits else wrong[name_][:3]
            self.entry(True, place, found[name_], f"{name}: {seen_value}", lambda _claimed, fits=fits: fits)
        if seen.get("block"):
            timeline = self.contract.targets.get("block_ids_to_boundaries")
            self.entry(True, "block_ids_to_boundaries", timeline, seen["block"], lambda c: bool(c == seen["block"]))
        timeline = self.contract.targets.get("pipeline")
        if self.release.peek(timeline) == "last_rank_counts_from_zero":
            value = seen.get("pipeline")
            wanted = None if name in KEEP_NUMBERS else "last_rank_counts_from_zero"
            self.entry(True, "pipeline", timeline, f"{name}: {value}", lambda _claimed: bool(value == wanted))
        return None

    def spreads(self, seen: dict[str, list[int]]) -> bool:
        from ckptdoctor.serving.boundaries import spread
        from ckptdoctor.serving.settings import Settings

        return all(
            list(spread(Settings({"num_hidden_layers": int(count)}), DEPTH)) == [i + 1 for i in ids]
            for count, ids in seen.items()
        )

    def predicted(self, row: Any, seen: dict[str, Any]) -> tuple[set[str], bool, Any]:
        """The entries that a forecast for this list of ids rests on, whether it came true, and the forecast."""
        from ckptdoctor.serving import boundaries as forecast

        ids, used = seen["ids"], {"reachable"}
        if ids is None:
            wanted = forecast.default_boundaries(self.release.reader(), row, DEPTH)
            used.add("default_boundaries")
        else:
            variant = self.release.peek(row["ids_to_boundaries"], "same")
            wanted = (
                forecast.default_boundaries(self.release.reader(), row, DEPTH)
                if variant == "ignored"
                else forecast.to_boundaries(variant, tuple(ids), DEPTH)
            )
            used.add("ids_to_boundaries")
        reached, refusals, _ = forecast.reach(self.release.reader(), row, wanted, DEPTH)
        low, high = (forecast._number(p, DEPTH) for p in self.release.peek(row["reachable"]))
        for boundary in set(wanted):
            if not low <= boundary <= high:
                side = "above" if boundary > high else "negative" if boundary < 0 and "negative" in row else "below"
                used.add(side)
        if refusals:
            stage = {"start": "start"}.get(refusals[0].stage, refusals[0].stage)
            return used & set(row), seen.get("refused") == stage, stage
        return used & set(row), seen.get("captured") == list(reached), list(reached)

    def draft(self, name: str, seen: dict[str, Any]) -> str | None:
        if seen.get("class") is False:
            return "no such class"
        rows = [r for r in self.contract.raw["architectures"] if r["name"] == name and self.release.holds(r)]
        if not rows:
            return "no such class in the contract"
        label = rows[0]["class"]
        behaviours = self.contract.raw["classes"][label]["behaviours"]
        values = {k: v for k, v in seen.items() if k not in ("shared", "class")}
        shared = seen.get("shared")
        if shared:
            plain, null, narrow = (shared.get(k) for k in ("plain", "null", "narrow"))
            if plain["map"] == "identity" and "map_absent" in behaviours:
                values["map_absent"] = "identity"
            if narrow is None:
                values.update(head=plain["head"], embedding=plain["embedding"])
            else:
                values["head"] = plain["head"]
                if plain["head"] == "own" and null is not None and null["head"] == "target":
                    values["head"] = "own_unless_draft_vocab_size_is_null"
                values["embedding"] = (
                    "target_unless_target_hidden_size_differs" if narrow["embedding"] == "own" else plain["embedding"]
                )
        for key, value in values.items():
            timeline = behaviours.get(key)
            place = f"classes/{label}/behaviours/{key}"
            self.entry(False, place, timeline, value, lambda claimed, value=value: same(claimed, value))
        return None

    def choice(self, rows: list[list[Any]]) -> None:
        from ckptdoctor.serving import capture

        wrong = []
        when = self.release.peek(self.contract.targets.get("runner_v2_when"), {})
        for name, moe, quantised, hybrid, chosen in rows:
            if hybrid and name in when.get("architectures", ()):
                continue  # none of the listed classes is hybrid
            target: Any = types.SimpleNamespace(
                architecture=name, has_experts=moe, is_quantised=quantised, is_hybrid=hybrid
            )
            if capture._runner(self.release, target, None) != chosen:
                wrong.append([name, moe, quantised, hybrid, chosen])
        if not rows and self.release.peek(self.contract.targets["runner"]) != "v1":
            wrong.append("there is no second runner")
        for key in ("runner", "runner_v2_when"):
            seen = f"as claimed for {len(rows)} targets" if not wrong else wrong[:4]
            self.entry(True, key, self.contract.targets.get(key), seen, lambda _claimed: not wrong)

    def admitted(self, kinds: list[str]) -> None:
        timeline = self.contract.targets["target_model_types"]

        def fits(claimed: list[str]) -> bool:
            admits = [k for k in (*MODEL_TYPES, "no_such_type") if "*" in claimed or any(w in k for w in claimed)]
            return admits == kinds

        self.entry(True, "target_model_types", timeline, kinds, fits)


def same(claimed: Any, seen: Any) -> bool:
    """Lists by their members: the order of places is a matter of which stands first, and one draft has one."""
    if isinstance(claimed, list) and isinstance(seen, list):
        return sorted(map(str, claimed)) == sorted(map(str, seen))
    if isinstance(claimed, dict) and isinstance(seen, dict):
        return claimed.keys() == seen.keys() and all(same(claimed[k], seen[k]) for k in claimed)
    return bool(claimed == seen)


def main() -> int:
    from tests.conformance import environments

    different = 0
    for text in sys.argv[1:]:
        try:
            release = environments.parse(text)
            rows = look(text)
        except (environments.SetupError, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 2
        judge = Judge(release.engine, release.release)
        for row in rows:
            reason = judge.judge(row)
            if reason is not None:
                print(f"{text} {row['kind']} {row['name']}: not seen: {reason}")
        for file, place, claimed, seen, agrees in judge.verdicts:
            different += not agrees
            print(f"{text} {file} {place}: {claimed} -> {seen}: {'agrees' if agrees else 'differs'}")
    return 1 if different else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.path.insert(0, str(Path(__file__).parent))
        out = os.dup(1)
        os.dup2(2, 1)
        answer_rows = inside(sys.argv[2])
        with os.fdopen(out, "w") as stream:
            json.dump(answer_rows, stream)
        sys.exit(0)
    sys.exit(main())
