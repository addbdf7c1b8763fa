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
import io
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


def constant(value: float) -> Any:
    """A module that gives `value` in the shape of the hidden states it gets."""
    import torch

    class Constant(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            given = kwargs.get("hidden_states", kwargs.get("x"))
            if given is None:
                given = next(a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point())
            made = torch.full_like(given, value)
            if isinstance(kwargs.get("output"), torch.Tensor):
                kwargs["output"].copy_(made)
            return made

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
                if isinstance(getattr(layer, name, None), torch.nn.Module):
                    setattr(layer, name, constant(0.5))
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
            with contextlib.redirect_stdout(io.StringIO()):
                answer: dict[str, Any] = {"seen": work()}
        except BaseException as error:
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
    answer = json.loads(text) if text else {"error": "the process ended"}
    return answer


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
    "topk_group": 1, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True, "moe_layer_freq": 1,
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
        "model_type": "glm4_moe", **{k: v for k, v in _MLA.items() if "rank" not in k}, "num_key_value_heads": 2,
        "head_dim": 16, "partial_rotary_factor": 0.5, "use_qk_norm": True,
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
    "Gemma3ForCausalLM": {
        "model_type": "gemma3_text", "query_pre_attn_scalar": 16, "sliding_window": 16, "sliding_window_pattern": 6,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "ApertusForCausalLM": {"model_type": "apertus", "hidden_act": "xielu"},
    "Ernie4_5ForCausalLM": {"model_type": "ernie4_5", "use_bias": False},
    "MistralForCausalLM": {"model_type": "mistral"},
    "Phi3ForCausalLM": {"model_type": "phi3", "pad_token_id": 0},
    "MiniCPMForCausalLM": {
        "model_type": "llama", "scale_emb": 1, "scale_depth": DEPTH**0.5, "dim_model_base": 64, "num_experts": 0,
    },
}  # fmt: skip


def config_folder(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="wiring-"))
    config = {"architectures": [name], **_DENSE, **TARGETS[name]}
    config = {k: v for k, v in config.items() if v is not None}
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

    def build(self, folder: Path, draft: bool) -> Any:
        import inspect

        import torch
        from sglang.srt.configs.load_config import LoadConfig
        from sglang.srt.configs.model_config import ModelConfig
        from sglang.srt.model_loader import loader

        self.oracle._server(folder)
        dtype = "bfloat16" if draft else "float32"
        config = ModelConfig(
            model_path=str(folder), trust_remote_code=False, is_draft_model=draft, dtype=dtype, model_override_args="{}"
        )
        quantisation = {}
        if "quant_config" in inspect.signature(loader._initialize_model).parameters:
            quantisation["quant_config"] = loader._get_quantization_config(config, LoadConfig())
        torch.set_default_dtype(torch.bfloat16 if draft else torch.float32)
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
            batch = forward_batch()
            zeros = torch.zeros(3, 64)
            with torch.no_grad():
                out = model.model(ids, torch.arange(3), batch, zeros)
            return boundaries(out[1]) if isinstance(out, tuple) else []

        return {"setter": True, "rows": observe(choose, run)}


def forward_batch() -> Any:
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    return Ghost(
        forward_mode=ForwardMode.EXTEND, can_run_tbo=False, global_num_tokens_cpu=None, input_ids=None, batch_size=1,
        tbo_children=None, attn_cp_metadata=None, mm_input_embeds=None, residual_stream=None, dp_padding_mode=None,
        global_num_tokens_gpu=None, residual=None,
    )  # fmt: skip


class Vllm:
    """Probes of vLLM."""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.path.insert(0, str(Path(__file__).parent))
        out = os.dup(1)
        os.dup2(2, 1)
        found = inside(sys.argv[2])
        with os.fdopen(out, "w") as stream:
            json.dump(found, stream)
        sys.exit(0)
