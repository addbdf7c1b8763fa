"""How long `ckptdoctor fix` takes for a 2 GB draft with a wrong layer name, beside `cp -r` of the same folder.

    python benchmarks/copy_speed.py [--place DIR] [--runs N] [--size GB] [--command "PROGRAM ARGUMENTS"]

Makes an EAGLE-3 draft whose decoder layer is called `decoder.` (no engine looks for that), then times in turn, as the
best and the median of N runs: `cp -r`, `cp -r` and `sync` (the copy is then on the disk, as that of ckptdoctor is), and
`ckptdoctor fix SOURCE --out NEW`. Warm: the source is in memory. Cold: it is not (root only). Peak memory is that of
the process as the kernel counts it. Everything is made in a new folder in DIR, and removed. Needs numpy.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

DROP = Path("/proc/sys/vm/drop_caches")
VOCAB, DRAFT_VOCAB, HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 128256, 32000, 4096, 32, 8, 128


def shapes(gigabytes: float) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of every tensor; the width of the MLP is what brings the file to its size."""
    layer = "decoder."
    found: dict[str, tuple[str, tuple[int, ...]]] = {
        "d2t": ("I64", (DRAFT_VOCAB,)),
        "embed_tokens.weight": ("BF16", (VOCAB, HIDDEN)),
        "fc.weight": ("BF16", (HIDDEN, 3 * HIDDEN)),
        "lm_head.weight": ("BF16", (DRAFT_VOCAB, HIDDEN)),
        "norm.weight": ("BF16", (HIDDEN,)),
        f"{layer}hidden_norm.weight": ("BF16", (HIDDEN,)),
        f"{layer}input_layernorm.weight": ("BF16", (HIDDEN,)),
        f"{layer}post_attention_layernorm.weight": ("BF16", (HIDDEN,)),
        f"{layer}self_attn.q_proj.weight": ("BF16", (HEADS * HEAD_DIM, 2 * HIDDEN)),
        f"{layer}self_attn.k_proj.weight": ("BF16", (KV_HEADS * HEAD_DIM, 2 * HIDDEN)),
        f"{layer}self_attn.v_proj.weight": ("BF16", (KV_HEADS * HEAD_DIM, 2 * HIDDEN)),
        f"{layer}self_attn.o_proj.weight": ("BF16", (HIDDEN, HEADS * HEAD_DIM)),
        "t2d": ("BOOL", (VOCAB,)),
    }
    rest = gigabytes * 2**30 - sum(length(*tensor) for tensor in found.values())
    width = max(256, int(rest / (3 * 2 * HIDDEN)) // 256 * 256)
    found[f"{layer}mlp.gate_proj.weight"] = found[f"{layer}mlp.up_proj.weight"] = ("BF16", (width, HIDDEN))
    found[f"{layer}mlp.down_proj.weight"] = ("BF16", (HIDDEN, width))
    return dict(sorted(found.items(), key=lambda item: ({"I64": 0, "BF16": 1, "BOOL": 2}[item[1][0]], item[0])))


def length(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor."""
    return math.prod(shape) * {"I64": 8, "BF16": 2, "BOOL": 1}[dtype]


def make_draft(folder: Path, gigabytes: float) -> None:
    """Writes the draft into the new `folder`."""
    import numpy as np

    folder.mkdir()
    tensors = shapes(gigabytes)
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": (at, at := at + length(dtype, shape))}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    step = VOCAB // DRAFT_VOCAB
    random = np.random.default_rng(2)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, (dtype, shape) in tensors.items():
            if name == "d2t":
                file.write((np.arange(DRAFT_VOCAB, dtype="<i8") * (step - 1)).tobytes())
            elif name == "t2d":
                ids = np.arange(VOCAB)
                file.write(((ids % step == 0) & (ids < step * DRAFT_VOCAB)).tobytes())
            elif name.endswith("norm.weight"):
                file.write(np.full(shape, 0x3F80, dtype="<u2").tobytes())
            else:
                left = length(dtype, shape) // 2
                while left:  # in parts: this script must not need 2 GB; the mask keeps every value small and finite
                    count = min(left, 1 << 24)
                    file.write((random.integers(0, 1 << 16, count, dtype="<u2") & 0xBFFF).tobytes())
                    left -= count
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "vocab_size": VOCAB,
        "draft_vocab_size": DRAFT_VOCAB, "hidden_size": HIDDEN, "head_dim": HEAD_DIM, "num_hidden_layers": 1,
        "intermediate_size": tensors["decoder.mlp.gate_proj.weight"][1][0], "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
        "max_position_embeddings": 2048, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
        "dtype": "bfloat16", "torch_dtype": "bfloat16", "bos_token_id": 128000, "eos_token_id": 128001,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    os.sync()


def warm(folder: Path) -> None:
    """Reads all of `folder`, so that it is in memory as far as there is room."""
    for path in folder.iterdir():
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def run(command: Sequence[str], out: Path, accepted: tuple[int, ...] = (0,)) -> tuple[float, float]:
    """Seconds that `command` takes to make `out`, and its peak memory in MB."""
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in accepted or not out.is_dir():
        sys.exit(f"{shlex.join(command)}: ended with {child.returncode}")
    return seconds, usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024)


def measure(source: Path, folder: Path, program: list[str], runs: int, cold: bool) -> None:
    """Times the three ways in turn, so that a change in the machine's load meets all of them, and prints a table."""
    out = folder / "new"
    ways = {
        "cp -r": ["cp", "-r", str(source), str(out)],
        "cp -r; sync": ["sh", "-c", f"cp -r {shlex.quote(str(source))} {shlex.quote(str(out))} && sync"],
        "ckptdoctor fix": [*program, "fix", str(source), "--out", str(out), "--fail-on", "never"],
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, command in ways.items():
            os.sync()
            if cold:
                DROP.write_text("3")
            else:
                warm(source)
            found[name].append(run(command, out))
            shutil.rmtree(out)
    print(f"\n{'source not in memory' if cold else 'source in memory'}, {runs} runs")
    print(f"{'':16}{'best s':>8}{'median s':>10}{'peak MB':>9}{'x cp -r':>9}{'x cp -r; sync':>15}")
    middle = {name: statistics.median(seconds for seconds, _ in results) for name, results in found.items()}
    for name, results in found.items():
        print(
            f"{name:16}{min(seconds for seconds, _ in results):8.2f}{middle[name]:10.2f}"
            f"{max(peak for _, peak in results):9.0f}{middle[name] / middle['cp -r']:9.2f}"
            f"{middle[name] / middle['cp -r; sync']:15.2f}"
        )


def main() -> None:
    """Reads the options, makes the draft, measures, and cleans up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--place", type=Path, default=Path.cwd(), help="a folder on the disk to measure (default: here)"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each way (default: 5)")
    parser.add_argument("--size", type=float, default=2.0, help="GB of the draft, at least 2 (default: 2)")
    parser.add_argument(
        "--command", default=f"{shlex.quote(sys.executable)} -m ckptdoctor", help="how to call ckptdoctor"
    )
    parser.add_argument("--make", type=Path, metavar="NEW", help="only make the draft, as the new folder NEW")
    options = parser.parse_args()
    if options.make:
        make_draft(options.make, options.size)
        return
    folder = Path(tempfile.mkdtemp(prefix="copy-speed-", dir=options.place))
    try:
        source = folder / "source"
        # In a process of its own: the kernel counts the memory of this one as a peak of those that it starts.
        making = [sys.executable, __file__, "--make", str(source), "--size", str(options.size)]
        subprocess.run(making, check=True)  # noqa: S603
        size = sum(path.stat().st_size for path in source.iterdir())
        print(f"{size / 2**30:.2f} GB in {folder}, {os.cpu_count()} processors")
        program = shlex.split(options.command)
        measure(source, folder, program, options.runs, cold=False)
        if os.access(DROP, os.W_OK):
            measure(source, folder, program, options.runs, cold=True)
        else:
            print("\nnot measured with the source out of memory: that takes root")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
