"""Special tokens and chat templates of public models, and drafts for them."""

# ruff: noqa: E501  # lines of templates stay as they are
from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from builder.container import encode
from builder.values import floats, integers

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe, read_target
from ckptdoctor.facts.tokenizer.tokens import Tokens


@dataclass
class Model:
    """A model as its tokenizer's files show it, and what is right about it."""

    added: dict[int, str]
    eos: str | None
    template: str
    generation: list[int] | int | None
    turn_end: int
    turn_ends: list[int]
    written: set[int]
    config: list[int] | int | None = None
    roles: dict[int, str] = field(default_factory=dict)


LLAMA3 = Model(
    added={
        128000: "<|begin_of_text|>", 128001: "<|end_of_text|>", 128006: "<|start_header_id|>",
        128007: "<|end_header_id|>", 128008: "<|eom_id|>", 128009: "<|eot_id|>", 128010: "<|python_tag|>",
    },
    eos="<|eot_id|>",
    template="""{{- bos_token }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '<|python_tag|>' + tool_call.name }}
        {%- if builtin_tools is defined %}{{- '<|eom_id|>' }}{%- else %}{{- '<|eot_id|>' }}{%- endif %}
    {%- elif message.role == 'tool' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}{{- message.content | tojson }}{{- '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}""",
    generation=[128001, 128008, 128009],
    turn_end=128009, turn_ends=[128009],
    written={128006, 128007, 128008, 128009, 128010},
    config=[128001, 128008, 128009],
    roles={128010: "tool calls"},
)  # fmt: skip
QWEN3 = Model(
    added={
        151643: "<|endoftext|>", 151644: "<|im_start|>", 151645: "<|im_end|>", 151655: "<|image_pad|>",
        151657: "<tool_call>", 151658: "</tool_call>", 151665: "<tool_response>", 151666: "</tool_response>",
        151667: "<think>", 151668: "</think>",
    },
    eos="<|im_end|>",
    template="""{#- <|image_pad|> is not written here #}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].split('<think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content + '\\n</think>\\n\\n' + content }}
        {%- for tool_call in message.tool_calls %}
            {{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user' }}{{- '\\n<tool_response>\\n' }}{{- content }}{{- '\\n</tool_response>' }}{{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}""",
    generation=[151645, 151643],
    turn_end=151645, turn_ends=[151645],
    written={151644, 151645, 151657, 151658, 151665, 151666, 151667, 151668},
    config=151645,
    roles={151657: "tool calls", 151666: "tool calls", 151667: "reasoning", 151668: "reasoning"},
)  # fmt: skip
GEMMA3 = Model(
    added={1: "<eos>", 2: "<bos>", 105: "<start_of_turn>", 106: "<end_of_turn>", 6: "<unused0>"},
    eos="<eos>",
    template="""{{ bos_token }}{%- for message in messages -%}
    {%- if (message['role'] == 'assistant') -%}{%- set role = "model" -%}{%- else -%}{%- set role = message['role'] -%}{%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' }}{{ message['content'] | trim }}{{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{'<start_of_turn>model\\n'}}{%- endif -%}""",
    generation=[1, 106],
    turn_end=106, turn_ends=[106],
    written={105, 106},
    config=[1, 106],
)  # fmt: skip
GPT_OSS = Model(
    added={
        199998: "<|startoftext|>", 199999: "<|endoftext|>", 200002: "<|return|>", 200003: "<|constrain|>",
        200005: "<|channel|>", 200006: "<|start|>", 200007: "<|end|>", 200008: "<|message|>", 200012: "<|call|>",
    },
    eos="<|return|>",
    template="""{{- "<|start|>system<|message|>" }}{{- system_content }}{{- "<|end|>" }}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "tool_calls" in message %}
            {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.content + "<|end|>" }}
            {{- "<|start|>assistant to=functions." + tool_call.name + "<|channel|>commentary <|constrain|>json<|message|>" }}
            {{- tool_content }}{{- "<|call|>" }}
        {%- elif loop.last and not add_generation_prompt %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
        {%- endif %}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}""",
    generation=[200002, 199999, 200012],
    turn_end=200002, turn_ends=[200002, 200012],
    written={200002, 200003, 200005, 200006, 200007, 200008, 200012},
    config=200002,
    roles={200003: "tool calls", 200005: "reasoning", 200007: "messages"},
)  # fmt: skip
DEEPSEEK_R1 = Model(
    added={
        0: "<｜begin▁of▁sentence｜>", 1: "<｜end▁of▁sentence｜>", 128803: "<｜User｜>", 128804: "<｜Assistant｜>",
        128806: "<｜tool▁calls▁begin｜>", 128807: "<｜tool▁calls▁end｜>", 128798: "<think>", 128799: "</think>",
    },
    eos="<｜end▁of▁sentence｜>",
    template="""{{ bos_token }}{%- for message in messages %}
{%- if message['role'] == 'user' %}{{'<｜User｜>' + message['content']}}{%- endif %}
{%- if message['role'] == 'assistant' and message['tool_calls'] is defined %}
  {{'<｜Assistant｜><｜tool▁calls▁begin｜>' + tool['function']['name'] + '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>'}}
{%- endif %}
{%- if message['role'] == 'assistant' %}
  {% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}
  {{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}
{%- endif %}{%- endfor -%}
{% if add_generation_prompt %}{{'<｜Assistant｜><think>\\n'}}{% endif %}""",
    generation=1,
    turn_end=1, turn_ends=[1],
    written={1, 128803, 128804, 128806, 128807, 128798},
    config=1,
    roles={128806: "tool calls", 128798: "reasoning", 128799: "reasoning"},
)  # fmt: skip
PHI3 = Model(
    added={32000: "<|endoftext|>", 32001: "<|assistant|>", 32006: "<|system|>", 32007: "<|end|>", 32010: "<|user|>"},
    eos="<|endoftext|>",
    template="""{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}
{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}
{% elif message['role'] == 'assistant' %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}""",
    generation=[32000, 32001, 32007],
    turn_end=32007, turn_ends=[32007],
    written={32000, 32001, 32006, 32007, 32010},
    config=32000,
)  # fmt: skip
GLM4 = Model(
    added={151329: "<|endoftext|>", 151331: "[gMASK]", 151333: "<sop>", 151335: "<|system|>", 151336: "<|user|>",
           151337: "<|assistant|>", 151338: "<|observation|>"},
    eos="<|endoftext|>",
    template="""[gMASK]<sop>{% for m in messages %}
{%- if m.role == 'user' %}<|user|>
{{ m.content }}
{%- elif m.role == 'assistant' %}<|assistant|>
{{ m.content }}
{%- elif m.role == 'tool' %}<|observation|>
{{ m.content }}
{%- endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}""",
    generation=[151329, 151336, 151338],
    turn_end=151336, turn_ends=[151336, 151338],
    written={151331, 151333, 151336, 151337, 151338},
    config=[151329, 151336, 151338],
)  # fmt: skip
LLAMA2 = Model(
    added={1: "<s>", 2: "</s>"},
    eos="</s>",
    template="""{% for message in messages %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + message['content'] | trim + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}{{ ' '  + message['content'] | trim + ' ' + eos_token }}{% endif %}{% endfor %}""",
    generation=2,
    turn_end=2, turn_ends=[2],
    written={2},
    config=2,
)  # fmt: skip
MISTRAL3 = Model(
    added={1: "<s>", 2: "</s>", 3: "[INST]", 4: "[/INST]", 5: "[TOOL_CALLS]", 6: "[AVAILABLE_TOOLS]", 8: "[TOOL_RESULTS]"},
    eos="</s>",
    template="""{{- bos_token }}{%- for message in loop_messages %}
{%- if message["role"] == "user" %}{{- "[AVAILABLE_TOOLS] [" }}{{- "[INST] " + message["content"] + "[/INST]" }}
{%- elif message.tool_calls is defined %}{{- "[TOOL_CALLS] [" }}{{- "]" + eos_token }}
{%- elif message["role"] == "assistant" %}{{- " " + message["content"] + eos_token}}
{%- elif message["role"] == "tool_results" %}{{- '[TOOL_RESULTS] {"content": ' + content|string + '[/TOOL_RESULTS]' }}{%- endif %}
{%- endfor %}""",
    generation=2,
    turn_end=2, turn_ends=[2],
    written={2, 3, 4, 5, 6, 8},
    config=2,
    roles={5: "tool calls", 8: "tool calls"},
)  # fmt: skip
KIMI_K2 = Model(
    added={163584: "[BOS]", 163585: "[EOS]", 163586: "<|im_end|>", 163587: "<|im_user|>", 163588: "<|im_assistant|>",
           163595: "<|tool_calls_section_begin|>", 163596: "<|tool_calls_section_end|>", 163601: "<|im_middle|>"},
    eos="[EOS]",
    template="""{%- for message in messages -%}
  {%- if message['role'] == 'user' -%}<|im_user|>user<|im_middle|>{%- elif message['role'] == 'assistant' -%}<|im_assistant|>assistant<|im_middle|>{%- endif -%}
  {%- if message.get('tool_calls') -%}{{ message['content'] }}<|tool_calls_section_begin|>{{ tool_call['id'] }}<|tool_calls_section_end|>
  {%- elif message['content'] is string -%}{{ message['content'] }}{%- endif -%}<|im_end|>
{%- endfor -%}{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>{%- endif -%}""",
    generation=163586,
    turn_end=163586, turn_ends=[163586],
    written={163586, 163587, 163588, 163595, 163596, 163601},
    config=163585,
    roles={163595: "tool calls"},
)  # fmt: skip
MODELS = {
    "llama-3.1": LLAMA3, "qwen3": QWEN3, "gemma-3": GEMMA3, "gpt-oss": GPT_OSS, "deepseek-r1": DEEPSEEK_R1,
    "phi-3": PHI3, "glm-4": GLM4, "llama-2": LLAMA2, "mistral-v3": MISTRAL3, "kimi-k2": KIMI_K2,
}  # fmt: skip


def place(
    folder: Path, model: Model, missing: tuple[int, ...] = (), vocabulary: dict[str, int] | None = None, **kinds: Any
) -> Tokens:
    """The tokens of a draft for `model` whose draft vocabulary has all special tokens but `missing`."""
    size = max(model.added) + 64
    targets = sorted(({*range(64), size - 1, *model.added, *kinds.get("more", ())}) - set(missing))
    count = len(targets)
    (folder / "target").mkdir(parents=True)
    tensors = {
        "d2t": integers(np.array(targets) - np.arange(count)),
        "lm_head.weight": floats(np.zeros((count, 16))),
        "fc.weight": floats(np.zeros((16, 48))),
        "midlayer.hidden_norm.weight": floats(np.ones(16)),
        "midlayer.self_attn.q_proj.weight": floats(np.zeros((16, 32))),
    }
    (folder / "model.safetensors").write_bytes(encode(tensors, {"format": "pt"}))
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "hidden_size": 16,
        "vocab_size": size,
        "draft_vocab_size": count,
    }
    (folder / "config.json").write_text(json.dumps(config))
    target = {"architectures": ["X"], "hidden_size": 16, "vocab_size": size, "num_hidden_layers": 4}
    if model.config is not None:
        target["eos_token_id"] = model.config
    (folder / "target" / "config.json").write_text(json.dumps(target))
    settings: dict[str, Any] = {"eos_token": model.eos}
    kind = kinds.get("template", "jinja")
    if kind == "jinja":
        (folder / "target" / "chat_template.jinja").write_text(model.template, encoding="utf-8")
    elif kind == "json":
        (folder / "target" / "chat_template.json").write_text(json.dumps({"chat_template": model.template}))
    elif kind == "list":
        settings["chat_template"] = [{"name": "default", "template": model.template}, {"name": "rag", "template": "x"}]
    else:
        settings["chat_template"] = model.template
    if kinds.get("added") == "tokenizer_config":
        settings["added_tokens_decoder"] = {str(i): {"content": text} for i, text in model.added.items()}
    rows = [{"id": i, "content": text, "special": True} for i, text in model.added.items()]
    tokenizer = {
        "version": "1.0", "added_tokens": rows, "pre_tokenizer": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary or {}, "merges": [["a", "b"]]},
    }  # fmt: skip
    (folder / "target" / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    (folder / "target" / "tokenizer_config.json").write_text(json.dumps(settings))
    if model.generation is not None:
        (folder / "target" / "generation_config.json").write_text(json.dumps({"eos_token_id": model.generation}))
    return describe(open_checkpoint(str(folder)), read_target(str(folder / "target"))).tokens
