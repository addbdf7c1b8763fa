"""The engines themselves are asked what `rules/serving/ENGINE-classes.yaml` says of them.

    python -m tests.conformance.asked_lists [ENGINE==RELEASE…]

For each release of environments.py that is named (default: those of `asked` in the files) its own registry is imported
on a CPU, and its names, and the setters of the classes that can be imported here, are compared with the lists. Exits
with 1 where one differs. A class whose module cannot be imported on this machine says nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ckptdoctor.serving import contracts
from ckptdoctor.serving.contract.class_lists import lists_of
from ckptdoctor.serving.contract.contracts import Release
from tests.conformance import environments

_ASK = {
    "vllm": """
import json
from vllm.model_executor.models.registry import ModelRegistry
print("ANSWER" + json.dumps({"names": sorted(ModelRegistry.get_supported_archs()), "captures": {}}))
""",
    "sglang": """
import contextlib, importlib, json, sys
sys.path.insert(0, sys.argv[1])
import kernel_stubs
kernel_stubs.stub_absent("triton", "sgl_kernel", "torchvision", "flashinfer", "tvm_ffi", "vllm")
import torch
if not hasattr(torch._C._cpu, "_is_amx_tile_supported"):
    torch._C._cpu._is_amx_tile_supported = lambda: False
importlib.import_module("sglang.srt.configs.model_config")
importlib.import_module("sglang.srt.model_loader.loader")
registry = importlib.import_module("sglang.srt.models.registry").ModelRegistry
with contextlib.suppress(ValueError):
    registry.resolve_model_cls(["NoSuchArchitecture"])
models = registry.models
how = {k: f"set_{k}_layers_to_capture" for k in ("eagle3", "dflash", "dspark")}
captures = {k: sorted(n for n, c in models.items() if hasattr(c, m)) for k, m in how.items()}
print("ANSWER" + json.dumps({"names": sorted(models), "captures": captures}))
""",
}


def ask(release: environments.Release) -> dict[str, Any]:
    """What the engine answers: `names` that it registers here, and `captures`, the names by setter."""
    environment = environments.ensure(release)
    command = [str(environment.python), "-c", _ASK[release.engine], str(Path(__file__).parent / "inside")]
    done = subprocess.run(command, check=False, env=environment.variables(), capture_output=True, text=True)
    line = next((text for text in done.stdout.splitlines() if text.startswith("ANSWER")), None)
    if line is None:
        raise environments.SetupError(f"{release.name} does not answer:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(line.removeprefix("ANSWER"))
    return answer


def differences(release: environments.Release) -> list[str]:
    """What the engine says otherwise than the lists."""
    lists = lists_of(Release(contracts()[release.engine], release.release))
    answer = ask(release)
    found = [f"{name}: registered, and not on the list" for name in answer["names"] if not lists.registers(name)]
    for how, able in answer["captures"].items():
        for name in answer["names"]:
            listed = lists.has_way(how, name)
            if listed is not None and listed != (name in able):
                found.append(f"{name}: {'has' if name in able else 'does not have'} the setter for {how}")
    print(
        f"{release.name}: {len(answer['names'])} names answered, {len(found)} otherwise than on the lists", flush=True
    )
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    asked = [f"{e}=={r}" for e, c in contracts().items() for r in c.lists.get("asked", {}).get("registered", ())]
    code = 0
    for text in arguments or asked:
        try:
            found = differences(environments.parse(text))
        except environments.SetupError as error:
            print(error, file=sys.stderr)
            return 2
        print("".join(f"  {line}\n" for line in found), end="")
        code = max(code, bool(found))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
