"""How models are built and loaded: model_loader/loader.py."""
# ruff: noqa: ARG001  # arguments are the engine's

from safetensors.torch import load_file

from sglang.srt import models


def _initialize_model(model_config, load_config, quant_config=None):
    classes = {True: models.LlamaForCausalLMEagle3, False: models.LlamaForCausalLM}
    return classes[model_config.is_draft_model](model_config.hf_config)


def load_model(model_config):
    model = _initialize_model(model_config, None)
    if model_config.is_draft_model:
        model.load_weights(load_file(f"{model_config.model_path}/model.safetensors").items())
    return model.eval()
