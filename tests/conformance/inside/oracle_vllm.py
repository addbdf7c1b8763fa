"""vLLM's own draft class and weight loader on a CPU: `oracle_vllm.py OUT DRAFT…`, in an environment of one release.

Run as in a server: SpeculativeConfig turns draft and target config into the draft's ModelConfig, get_model_architecture
and initialize_model build the class, DefaultModelLoader finds the files and loads them (with its check for parameters
that no tensor filled, where the class takes part in it). Needs the target's config.json in DRAFT/target.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import marked_tensors
import oracle_common as common

PRELOAD = ("llama_eagle", "llama_eagle3", "qwen3_eagle3", "qwen3_dflash", "qwen3_dspark", "deepseek_eagle3")


def main() -> int:
    warnings.filterwarnings("ignore")
    os.environ.setdefault("VLLM_CACHE_ROOT", tempfile.mkdtemp(prefix="conformance-vllm-"))
    import torch

    torch.set_num_threads(1)
    vllm = importlib.import_module("vllm")
    importlib.import_module("vllm.config")
    importlib.import_module("vllm.model_executor.model_loader.utils")
    _inspect_here()
    _do_not_wait()
    for name in PRELOAD:
        try:
            importlib.import_module(f"vllm.model_executor.models.{name}")
        except ImportError as error:
            print(f"not preloaded: {name}: {error}", file=sys.stderr)
    drafts = [Path(path).resolve() for path in sys.argv[2:]]
    release = vllm.__version__.partition("+")[0]
    failed = common.run_all("vllm", release, Path(sys.argv[1]), drafts, load)
    return 1 if failed else 0


def load(draft: Path, result: dict[str, Any], stage: common.Stage) -> None:
    from vllm.config import LoadConfig, set_current_vllm_config
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
    from vllm.model_executor.model_loader.utils import get_model_architecture, initialize_model

    vllm_config = _config(draft, result, stage)
    if vllm_config.speculative_config.method == "eagle3" and not _finds_mask_token(vllm_config.speculative_config):
        vllm_config = _config(draft, result, stage, masks=False)  # it can be served as plain EAGLE-3 only
    draft_config = vllm_config.speculative_config.draft_model_config
    result["architectures"] = list(draft_config.architectures)
    with set_current_vllm_config(vllm_config, check_compile=False):
        stage("groups")
        _groups()
        stage("class")
        cls, _ = get_model_architecture(draft_config)
        result["model_class"] = f"{cls.__module__}.{cls.__name__}"
        stage("construct")
        _look_up_mask_token(vllm_config.speculative_config)
        with marked_tensors.construction():
            model = initialize_model(vllm_config=vllm_config, model_config=draft_config)
            marked_tensors.fill_with_sentinel(model, result)
        marks = marked_tensors.Marks()
        stage("load")
        reader = DefaultModelLoader(LoadConfig())
        read = reader.get_all_weights
        reader.get_all_weights = lambda *args, **kwargs: marks(read(*args, **kwargs))
        try:
            reader.load_weights(model, draft_config)
        except Exception:
            result["notes"]["failed_at"] = marks.current
            raise
        finally:
            marked_tensors.account(model, marks, result)
            _map(model, result)
            # Where these are absent or false, the draft gets the target's embedding or head after the load.
            for name in ("has_own_embed_tokens", "has_own_lm_head"):
                if hasattr(model, name):
                    result["notes"][name] = getattr(model, name)


def _map(model: Any, result: dict[str, Any]) -> None:
    """d2t is kept as the parameter draft_id_to_target_id, of offsets."""
    for name, tensor in model.named_parameters():
        if name.rpartition(".")[2] == "draft_id_to_target_id" and name in result["loaded"]:
            result["d2t"] = common.describe_map(tensor, name, offsets=True)
            result["d2t"]["source"] = result["loaded"][name][0]


def _look_up_mask_token(speculative: Any) -> None:
    """What the proposer, or speculator, does first: it looks for the token of masked slots, or stops."""
    config = speculative.draft_model_config
    if speculative.method in ("dflash", "dspark"):  # from 0.25.0 on the second runner has a class for these
        utils = importlib.import_module("vllm.v1.worker.gpu.spec_decode.utils")
        if hasattr(utils, "get_parallel_drafting_token_id"):
            utils.get_parallel_drafting_token_id(config.hf_config)
            return
    if getattr(speculative, "parallel_drafting", False):
        proposer = SimpleNamespace(draft_model_config=config, pass_hidden_states_to_model=False)
        _proposer()._init_parallel_drafting_params(proposer)


def _proposer() -> Any:
    """The class of the first runner that all proposers are made of."""
    try:
        return importlib.import_module("vllm.v1.spec_decode.llm_base_proposer").SpecDecodeBaseProposer
    except ImportError:
        return importlib.import_module("vllm.v1.spec_decode.eagle").SpecDecodeBaseProposer


def _finds_mask_token(speculative: Any) -> bool:
    try:
        _look_up_mask_token(speculative)
    except ValueError:
        return False
    return True


def _config(draft: Path, result: dict[str, Any], stage: common.Stage, masks: bool = True) -> Any:
    from vllm.config import CacheConfig, ModelConfig, ParallelConfig, SpeculativeConfig, VllmConfig

    stage("target config")
    target = str(draft / "target")
    target_config = ModelConfig(
        model=target,
        tokenizer=target,
        skip_tokenizer_init=True,
        dtype="bfloat16",
        max_model_len=128,
        enforce_eager=True,
        seed=0,
    )
    parallel = ParallelConfig()
    stage("draft config")
    asked = draft / "target" / "asked.json"  # what a user passes, where a draft's own config may be odd
    arguments = (
        json.loads(asked.read_text(encoding="utf-8"))
        if asked.is_file()
        else method(json.loads((draft / "config.json").read_text(encoding="utf-8")), _names(draft))
    )
    if not masks:
        arguments.pop("parallel_drafting", None)
    result["notes"]["method"] = arguments["method"]
    speculative = SpeculativeConfig(
        **{"num_speculative_tokens": 3, **arguments},
        model=str(draft),
        target_model_config=target_config,
        target_parallel_config=parallel,
    )
    stage("engine config")

    def make() -> Any:
        return VllmConfig(
            model_config=target_config,
            parallel_config=parallel,
            cache_config=CacheConfig(block_size=16),
            speculative_config=speculative,
        )

    try:
        return make()
    except Exception as error:
        if "Model Runner V" not in str(error):
            raise
        # What a GPU machine, which has Triton, takes by itself for this method.
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
        importlib.import_module("vllm.config.vllm").HAS_TRITON = True  # type: ignore[attr-defined]
        result["notes"]["model_runner"] = "v2"
        return make()


def method(config: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """What a user would pass as speculative_config for this draft: a choice of the oracle, not of vLLM."""
    architecture = (config.get("architectures") or [""])[0]
    if config.get("speculators_config"):
        return _speculators(config)
    if "DSpark" in architecture:
        return {"method": "dspark"}
    if "DFlash" in architecture or "Domino" in architecture or "dflash_config" in config:
        return {"method": "dflash"}
    if "Medusa" in architecture or config.get("model_type") == "medusa":
        # A user asks for as many tokens as there are heads; vLLM would not build those beyond them.
        heads = config.get("medusa_num_heads", config.get("num_heads", 5))
        return {"method": "medusa", "num_speculative_tokens": heads}
    if "peagle" in architecture.lower() or any("mask_hidden" in name for name in names):
        return {"method": "eagle3", "parallel_drafting": True}
    if "Eagle3" in architecture or "draft_vocab_size" in config or "eagle_config" in config:
        return {"method": "eagle3"}
    return {"method": "eagle"}


def _speculators(config: dict[str, Any]) -> dict[str, Any]:
    """A speculators config names its method itself; vLLM's own function reads it."""
    base = importlib.import_module("vllm.transformers_utils.configs.speculators.base").SpeculatorsConfig
    if not hasattr(base, "extract_vllm_speculative_config"):  # before 0.11 the type itself is the method
        return {"method": config["speculators_model_type"]}
    found = base.extract_vllm_speculative_config(config)
    return {name: value for name, value in found.items() if name not in ("num_speculative_tokens", "model")}


def _names(draft: Path) -> list[str]:
    from safetensors import safe_open

    names: list[str] = []
    for file in sorted(draft.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            names += opened.keys()
    return names


def _inspect_here() -> None:
    """vLLM inspects a class in a child process, to keep CUDA out of its own; here that only costs time per draft."""
    registry = importlib.import_module("vllm.model_executor.models.registry")
    registry._LazyRegisteredModel.inspect_model_cls = lambda self: registry._ModelInfo.from_model_cls(
        self.load_model_cls()
    )


def _do_not_wait() -> None:
    """vLLM reads a config that it could not read once more after two seconds, because a network may have failed."""
    for name in ("repo_utils", "config"):
        with contextlib.suppress(ImportError):
            module: Any = importlib.import_module(f"vllm.transformers_utils.{name}")
            if hasattr(module, "time"):
                module.time = SimpleNamespace(**{**vars(time), "sleep": lambda _seconds: None})


def _groups() -> None:
    state = importlib.import_module("vllm.distributed.parallel_state")
    with tempfile.TemporaryDirectory() as folder:
        state.init_distributed_environment(
            world_size=1, rank=0, local_rank=0, backend="gloo", distributed_init_method=f"file://{folder}/group"
        )
        state.initialize_model_parallel(1)


if __name__ == "__main__":
    sys.exit(main())
