"""A target and a draft, as models/llama.py and models/llama_eagle3.py have them."""
# ruff: noqa: ARG002, PLW2901  # arguments are the engine's

import torch
from torch import nn

H, VOCABULARY, DRAFTED = 64, 512, 128


class Mode:
    def __init__(self, name):
        self.name = name


class Batch:
    def __init__(self, mode, states):
        self.forward_mode = Mode(mode)
        self.spec_info = type("SpecInfo", (), {"hidden_states": states})()


class Layer(nn.Module):
    """A parameter for each name that the file holds, fused as the engine fuses them."""

    def __init__(self, width):
        super().__init__()
        shapes = {
            "self_attn.qkv_proj": (128, 2 * width),
            "self_attn.o_proj": (width, width),
            "mlp.gate_up_proj": (256, width),
            "mlp.down_proj": (width, 128),
            "input_layernorm": (width,),
            "post_attention_layernorm": (width,),
            "hidden_norm": (width,),
        }
        for name, shape in shapes.items():
            place = self
            for part in name.split("."):
                if not hasattr(place, part):
                    place.add_module(part, nn.Module())
                place = getattr(place, part)
            place.weight = nn.Parameter(torch.full(shape, 0.5))


class DraftModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, H)
        self.fc = nn.Linear(3 * H, H, bias=False)
        self.layers = nn.ModuleList([Layer(H)])
        self.norm = nn.Module()
        self.norm.weight = nn.Parameter(torch.ones(H))
        self.input_norm = None
        self.fc_norm = None

    def forward(self, input_ids, positions, forward_batch):
        embeds = self.embed_tokens(input_ids)
        hidden_states = forward_batch.spec_info.hidden_states
        if hidden_states.shape[-1] != embeds.shape[-1]:
            hidden_states = self.fc(hidden_states)
        return hidden_states + embeds


class LlamaForCausalLMEagle3(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = DraftModel()
        self.lm_head = nn.Linear(H, DRAFTED, bias=False)
        self.hot_token_id = None

    def forward(self, input_ids, positions, forward_batch):
        return self.lm_head(self.model(input_ids, positions, forward_batch))

    def set_embed(self, embed):
        del self.model.embed_tokens.weight
        self.model.embed_tokens.weight = embed

    def load_weights(self, weights):
        parameters = dict(self.named_parameters())
        fused = {
            "q_proj": ("qkv_proj", 0, 64),
            "k_proj": ("qkv_proj", 64, 96),
            "v_proj": ("qkv_proj", 96, 128),
            "gate_proj": ("gate_up_proj", 0, 128),
            "up_proj": ("gate_up_proj", 128, 256),
        }
        for name, tensor in weights:
            if name == "d2t":
                self.hot_token_id = tensor + torch.arange(tensor.shape[0])
                continue
            name = name.replace("midlayer", "layers.0")
            part = name.split(".")[-2] if "." in name else ""
            begin, end = 0, None
            if part in fused:
                whole, begin, end = fused[part]
                name = name.replace(part, whole)
            parameter = parameters.get(name, parameters.get(f"model.{name}"))
            if parameter is not None:
                parameter.data[begin:end].copy_(tensor)


class Target(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, H)
        self.layers_to_capture = []


class LlamaForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = Target()
        self.capture_aux_hidden_states = False

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.capture_aux_hidden_states = True
        self.model.layers_to_capture = [2, 4, 5] if layer_ids is None else [i + 1 for i in layer_ids]

    def forward(self, input_ids, positions, forward_batch):
        hidden = self.model.embed_tokens(input_ids)
        if not self.capture_aux_hidden_states:
            return hidden
        return torch.cat([hidden + b for b in self.model.layers_to_capture], dim=-1)
