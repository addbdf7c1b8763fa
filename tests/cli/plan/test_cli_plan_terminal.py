"""`ckptdoctor plan` on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_drafts import draft, target

LLAMA = "mo_eagle3_llama"


def on_terminal(*args: str, columns: int, **env: str) -> str:
    """What a terminal of so many columns gets from the command, run as a process."""
    ours, theirs = pty.openpty()
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "LINES"}}
    whole = {**kept, "PYTHONPATH": str(Path(__file__).parents[3]), "TERM": "xterm", "COLUMNS": str(columns), **env}
    process = subprocess.Popen(
        [sys.executable, "-m", "ckptdoctor", *args], env=whole, stdout=theirs, stderr=subprocess.PIPE
    )
    os.close(theirs)
    out = b""
    try:
        while part := os.read(ours, 65536):
            out += part
    except OSError:  # how Linux tells that the other end is closed
        pass
    finally:
        os.close(ours)
    _, err = process.communicate(timeout=60)
    assert err == b""
    return out.decode().replace("\r\n", "\n")


TABLE_80 = """\
  parameters of Eagle3LlamaForCausalLM
    draft_id_to_target_id                           128      ← d2t
    model.embed_tokens.weight                       512×64   the target's
    model.layers.0.self_attn.qkv_proj.weight        128×128
        ← layers.0.self_attn.k_proj.weight, layers.0.self_attn.q_proj.weight and
          layers.0.self_attn.v_proj.weight
    model.layers.0.self_attn.o_proj.weight          64×64
        ← layers.0.self_attn.o_proj.weight
    model.layers.0.mlp.gate_up_proj.weight          256×64
        ← layers.0.mlp.gate_proj.weight and layers.0.mlp.up_proj.weight
    model.layers.0.mlp.down_proj.weight             64×128
        ← layers.0.mlp.down_proj.weight
    model.layers.0.input_layernorm.weight           64
        ← layers.0.input_layernorm.weight
    model.layers.0.post_attention_layernorm.weight  64
        ← layers.0.post_attention_layernorm.weight
    model.layers.0.hidden_norm.weight               64
        ← layers.0.hidden_norm.weight
    model.fc.weight                                 64×192   ← fc.weight
    model.norm.weight                               64       ← norm.weight
    lm_head.weight                                  128×64   ← lm_head.weight

"""


def test_rows_on_a_terminal_of_80_columns() -> None:
    args = ("plan", draft(LLAMA), "--engine", "vllm==0.22.0", "--target", target(LLAMA))
    plain = on_terminal(*args, columns=80, NO_COLOR="1")
    assert TABLE_80 in plain
    assert max(map(len, plain.splitlines())) <= 80
    coloured = on_terminal(*args, columns=80)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize("columns", [60, 80, 110])
@pytest.mark.parametrize(
    ("name", "engine"), [("spec_dflash_qwen3", "vllm"), ("eagle_ref_eagle3_safetensors", "sglang")]
)
def test_a_name_and_its_shape_stay_on_one_line(columns: int, name: str, engine: str) -> None:
    out = on_terminal("plan", draft(name), "--engine", engine, "--target", target(name), columns=columns, NO_COLOR="1")
    lines = out.splitlines()
    assert max(map(len, lines)) <= columns
    start = next(n for n, text in enumerate(lines) if text.startswith("  parameters of ")) + 1
    rows = [text for text in lines[start : lines.index("", start)] if re.match(r" {4}\S", text)]
    assert all(re.fullmatch(r" {4}[\w.]+ {2,}(\d+(×\d+)*|\?)( {2,}.+)?", text) for text in rows)
