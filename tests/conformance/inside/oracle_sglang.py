"""SGLang's own draft class and weight loader on a CPU: `oracle_sglang.py OUT DRAFT…`, in an environment of one release.

Run as in a server: ModelConfig(is_draft_model=True), get_model_architecture, _initialize_model, and DefaultModelLoader,
which finds the files and names the tensors. Not the engine's own: packages of compiled kernels, which are inert
stand-ins, the server arguments, which are the defaults for a CPU, and a process group of one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import kernel_stubs
import marked_tensors
import oracle_common as common

KERNELS = ("triton", "sgl_kernel", "torchvision", "flashinfer", "tvm_ffi", "vllm")
ARGUMENTS = {"device": "cpu", "attention_backend": "torch_native", "disable_cuda_graph": True, "tp_size": 1}
_kept: list[Any] = []


def main() -> int:
    kernel_stubs.stub_absent(*KERNELS)
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    if not hasattr(torch._C._cpu, "_is_amx_tile_supported"):
        torch._C._cpu._is_amx_tile_supported = lambda: False  # a probe that torch no longer has
    sglang = importlib.import_module("sglang")
    _layers()
    # First: before it, some releases run into a circular import between their quantisation modules.
    importlib.import_module("sglang.srt.configs.model_config")
    importlib.import_module("sglang.srt.model_loader.loader")
    registry = importlib.import_module("sglang.srt.models.registry").ModelRegistry
    with contextlib.suppress(ValueError):
        registry.resolve_model_cls(["NoSuchArchitecture"])  # imports the model files once, before the forks
    drafts = [Path(path).resolve() for path in sys.argv[2:]]
    failed = common.run_all("sglang", sglang.__version__, Path(sys.argv[1]), drafts, load)
    return 1 if failed else 0


def load(draft: Path, result: dict[str, Any], stage: common.Stage) -> None:
    from sglang.srt.configs.load_config import LoadConfig
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.model_loader import loader
    from sglang.srt.model_loader.utils import get_model_architecture

    stage("server")
    _server(draft)
    stage("config")
    config = ModelConfig(
        model_path=str(draft), trust_remote_code=False, is_draft_model=True, dtype="bfloat16", model_override_args="{}"
    )
    result["architectures"] = list(config.hf_config.architectures or [])
    stage("class")
    cls, _ = get_model_architecture(config)
    result["model_class"] = f"{cls.__module__}.{cls.__name__}"
    stage("construct")
    load_config = LoadConfig()
    reader = loader.DefaultModelLoader(load_config)
    quantisation = {}
    if "quant_config" in inspect.signature(loader._initialize_model).parameters:
        quantisation["quant_config"] = loader._get_quantization_config(config, load_config)
    with marked_tensors.construction():
        model = loader._initialize_model(config, load_config, **quantisation)
    marked_tensors.fill_with_sentinel(model, result)
    marks = marked_tensors.Marks()
    stage("load")
    try:
        model.load_weights(marks(reader._get_all_weights(config, model)))
    except Exception:
        result["notes"]["failed_at"] = marks.current
        raise
    finally:
        marked_tensors.account(model, marks, result)
        _map(model, marks, result)
        # Where true, the draft gets the target's head after the load; the embedding it nearly always gets.
        if hasattr(model, "load_lm_head_from_target"):
            result["notes"]["load_lm_head_from_target"] = model.load_lm_head_from_target


def _map(model: Any, marks: marked_tensors.Marks, result: dict[str, Any]) -> None:
    """d2t becomes no parameter but the attribute hot_token_id, of absolute target ids."""
    import torch

    hot = getattr(model, "hot_token_id", None)
    if hot is None:
        return
    result["d2t"] = common.describe_map(hot, "hot_token_id", offsets=False)
    for key, stored in marks.plain().items():
        if stored.shape == hot.shape and torch.equal(stored + torch.arange(stored.shape[0]), hot):
            result["d2t"]["source"] = key
            result["ignored"] = [other for other in result["ignored"] if other != key]


def _layers() -> None:
    """Older releases take RMSNorm and activations from vLLM on a CPU without AMX; the torch ones are wanted.

    The probe asks the hardware and decides nothing about loading.
    """
    utils: Any = importlib.import_module("sglang.srt.utils")
    probe = getattr(utils, "cpu_has_amx_support", None)
    spec = importlib.util.find_spec("sglang.srt.layers.layernorm")
    if probe is None or spec is None or "from vllm" not in Path(str(spec.origin)).read_text(encoding="utf-8"):
        return
    utils.cpu_has_amx_support = lambda: True
    try:
        importlib.import_module("sglang.srt.layers.layernorm")
        importlib.import_module("sglang.srt.layers.activation")
    finally:
        utils.cpu_has_amx_support = probe


def _server(draft: Path) -> None:
    """Server arguments and process groups, by the release's own functions as far as it has them."""
    try:
        context = importlib.import_module("sglang.srt.runtime_context")
    except ImportError:
        context = None
    if context is not None and hasattr(context.get_context(), "override_server_args"):
        override = context.get_context().override_server_args(
            **{name: value for name, value in ARGUMENTS.items() if name != "tp_size"}
        )
        arguments = override.install()
        _kept.append(override)
        if hasattr(context, "publish"):
            ranks = {"ranks": context.SpawnRanks(world_rank=0)} if hasattr(context, "SpawnRanks") else {}
            context.publish(arguments, role="scheduler", **ranks)
        _groups()
        return
    module = importlib.import_module("sglang.srt.server_args")
    arguments = _default_arguments(module.ServerArgs, model_path=str(draft))
    if hasattr(module, "set_global_server_args_for_scheduler"):
        module.set_global_server_args_for_scheduler(arguments)
    batch = importlib.import_module("sglang.srt.managers.schedule_batch")
    if hasattr(batch, "global_server_args_dict"):
        names = getattr(batch, "GLOBAL_SERVER_ARGS_KEYS", list(batch.global_server_args_dict))
        batch.global_server_args_dict.update({n: getattr(arguments, n) for n in names if hasattr(arguments, n)})
    _groups()
    attention: Any = importlib.import_module("sglang.srt.layers.dp_attention")
    for name, value in _ONE_RANK.items():
        if hasattr(attention, name):
            setattr(attention, name, value)
    if hasattr(attention, "_ATTN_TP_GROUP"):
        attention._ATTN_TP_GROUP = importlib.import_module("sglang.srt.distributed").get_tp_group()


_ONE_RANK = {
    "_ATTN_TP_RANK": 0,
    "_ATTN_TP_SIZE": 1,
    "_ATTN_DP_RANK": 0,
    "_ATTN_DP_SIZE": 1,
    "_LOCAL_ATTN_DP_SIZE": 1,
    "_LOCAL_ATTN_DP_RANK": 0,
    "_ENABLE_DP_ATTENTION_FLAG": False,
}


def _default_arguments(cls: Any, **given: Any) -> Any:
    """ServerArgs with its defaults; its own constructor would go on to look for GPUs."""
    arguments = cls.__new__(cls)
    for field in dataclasses.fields(cls):
        value = None if field.default is dataclasses.MISSING else field.default
        if field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        object.__setattr__(arguments, field.name, value)
    for name, value in {**ARGUMENTS, **given}.items():
        object.__setattr__(arguments, name, value)
    return arguments


def _groups() -> None:
    state = importlib.import_module("sglang.srt.distributed.parallel_state")
    with tempfile.TemporaryDirectory() as folder:
        state.init_distributed_environment(
            world_size=1, rank=0, local_rank=0, backend="gloo", distributed_init_method=f"file://{folder}/group"
        )
        parameters = inspect.signature(state.initialize_model_parallel).parameters
        sizes = {"tensor_model_parallel_size": 1} if "tensor_model_parallel_size" in parameters else {}
        state.initialize_model_parallel(**sizes)


if __name__ == "__main__":
    sys.exit(main())
