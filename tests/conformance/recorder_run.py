"""The recorder in real engines, as far as a CPU runs them: `python -m tests.conformance.recorder_run [RELEASE…]`

Each case runs in a process of its own. The engine's own plugin loader finds the entry point and calls it; the engine's
own functions build target and draft, read the draft's files and load them; its own forward takes the states. Stand-ins,
as for a wiring: attention and MLP are constants, which together add one to the residual stream, so that a captured
state is the number of its boundary; and the logits are not computed. Draft workers cannot start without a GPU: what
they do between target and draft (joining the captured states, handing them over) is done here, as they do it.

The exit code is 1 where a line is not the expected one, 2 where there is no environment.
"""

from __future__ import annotations

import ast
import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from tests.conformance.recording.recorder_cases import CASES, RELEASES, ROOT, TOKENS, Case

# --- inside an environment ---


def inside(release: str, folder: Path) -> list[dict[str, Any]]:
    warnings.filterwarnings("ignore")
    from counting import in_child

    from tests.conformance.recording.recorder_engines import Sglang, Vllm

    module: Any = {"sglang": Sglang, "vllm": Vllm}[release.partition("==")[0]]()
    rows = []
    for case, given in CASES.items():
        if given.expected(release) is None:
            continue
        place = folder / case.replace(" ", "_")
        place.mkdir()
        row = in_child(lambda case=case, place=place: run_case(module, CASES[case], place))
        rows.append({"case": case, **row})
    return rows


def run_case(engine: Any, case: Case, place: Path) -> dict[str, Any]:
    """One case: the report of the recorder, what it wrote to the log, and what it left behind."""
    import torch

    os.environ.update(CKPTDOCTOR_RECORD=str(place / "out"), CKPTDOCTOR_RECORD_SAMPLES=str(TOKENS))
    draft = place / "draft"
    shutil.copytree(case.draft, draft)
    if case.without:
        remove(draft / "model.safetensors", case.without)
    engine.load_plugins()
    from ckptdoctor.recorder.switching import session_on
    from ckptdoctor.recorder.words import logger

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger().addHandler(handler)
    session = session_on()
    assert session is not None, "the engine's plugin loader did not switch the recorder on"
    torch.manual_seed(0)
    ids, positions = torch.randint(0, 512, (TOKENS,)), torch.arange(TOKENS)
    raised = None
    with torch.inference_mode(mode=False):
        model, states = engine.prepare(draft, case, ids, positions)
        before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    hooked = len(session.patches)
    with torch.inference_mode():
        engine.hand_over(model, case, torch.zeros_like(states), ids, positions)  # a dummy pass
        session.worker.wait(60)
        dummy = list(lines)
        try:
            engine.hand_over(model, case, states, ids, positions)
        except Exception as error:  # noqa: BLE001 - the engine's answer
            raised = f"{type(error).__name__}: {str(error)[:120]}"
    session.worker.wait(60)
    reports = [json.loads(p.read_text()) for p in sorted((place / "out").glob("record-*.json"))]
    if raised is None and session.drafts[0].samples is not None and not session.stopped and not case.block:
        with torch.inference_mode():
            engine.hand_over(model, case, states, ids, positions)
        session.worker.wait(60)
    left = [n for module in model.modules() for n in ("forward", "combine_hidden_states", "load_weights")
            if "call" in getattr(module.__dict__.get(n), "__qualname__", "")
            or getattr(module.__dict__.get(n), "__wrapped__", None) is not None]  # fmt: skip
    same = all(torch.equal(before[n], p) for n, p in model.named_parameters() if n in before)
    return {
        "lines": lines,
        "said_of_dummy": any("first pass" in line for line in dummy),
        "reports": reports,
        "hooked": hooked,
        "left": left if raised is None else [],
        "patches_left": len(session.patches),
        "unchanged": same,
        "raised": raised,
        "samples": samples(place / "out", states, ids),
    }


def samples(folder: Path, states: Any, ids: Any) -> str:
    """Whether the saved samples are what was handed over."""
    import torch
    from safetensors import safe_open

    found = sorted(folder.glob("samples-*.safetensors"))
    if not found:
        return "none"
    with safe_open(str(found[0]), "pt") as file:
        kept = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        metadata = file.metadata()
    fits = (
        torch.equal(kept["next_token_ids"], ids)
        and torch.equal(kept["position_ids"], torch.arange(TOKENS))
        and torch.equal(kept["hidden_states"].flatten(1), states)
    )
    return f"{'as handed over' if fits else 'other values'}; {json.dumps(metadata, sort_keys=True)}"


def remove(file: Path, name: str) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(str(file))
    del tensors[name]
    save_file(tensors, str(file))


# --- outside ---


def entry_points(folder: Path) -> None:
    """The metadata that an installed ckptdoctor brings, for environments in which it is not installed."""
    home = folder / "ckptdoctor-0.0.0.dist-info"
    home.mkdir()
    (home / "METADATA").write_text("Metadata-Version: 2.1\nName: ckptdoctor\nVersion: 0.0.0\n", encoding="utf-8")
    (home / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nckptdoctor = ckptdoctor.recorder.entry:in_vllm\n\n"
        "[sglang.srt.plugins]\nckptdoctor = ckptdoctor.recorder.entry:in_sglang\n",
        encoding="utf-8",
    )


def look(text: str) -> list[dict[str, Any]]:
    from tests.conformance import environments

    environment = environments.ensure(environments.parse(text))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        entry_points(folder)
        command = [str(environment.python), "-m", "tests.conformance.recorder_run", "--inside", text, temporary]
        variables = environment.variables()
        variables["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], str(ROOT), temporary])
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=variables, cwd=temporary)
    if done.returncode:
        raise RuntimeError(f"{text}: {done.stderr[-3000:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def misplaced(text: str) -> list[str]:
    """Places of the rules that a release does not have, read in its source: methods that no CPU can call."""
    from ckptdoctor.recorder.places import places_for
    from tests.conformance import environments

    environment = environments.ensure(environments.parse(text))
    places = places_for(environment.release.engine, environment.release.release)
    assert places is not None
    wrong = []
    for quiet in places.quiet:
        file = environment.site / (quiet.module.replace(".", "/") + ".py")
        if not file.is_file():
            continue  # in other releases
        classes = [n for n in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(n, ast.ClassDef)]
        owner = next((n for n in classes if n.name == quiet.owner), None)
        if owner is None:
            wrong.append(f"{quiet.module} has no {quiet.owner}")
            continue
        methods = [n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == quiet.method]
        if not methods and not owner.bases:
            wrong.append(f"{quiet.owner} has no {quiet.method}")
        for method in methods:
            names = {a.arg for a in (*method.args.args, *method.args.kwonlyargs)}
            wrong += [f"{quiet.owner}.{quiet.method} takes no {name}" for name in quiet.when if name not in names]
    found = [
        f for f in places.capturing if (environment.site / (f.partition(":")[0].replace(".", "/") + ".py")).is_file()
    ]
    if places.capturing and not found:
        wrong.append("no function says whether graphs are being recorded")
    return wrong


def judge(release: str, row: dict[str, Any]) -> list[str]:
    """What is not as expected in one case."""
    if "error" in row:
        return [row["error"]]
    seen, case = row["seen"], CASES[row["case"]]
    wanted = case.expected(release) or []
    wrong = []
    if len(seen["reports"]) != 1:
        return [f"{len(seen['reports'])} reports, not one"]
    found = seen["reports"][0]["problems"]
    if found != wanted:
        wrong.append(f"problems {found}, not {wanted}")
    for name, value in (("said_of_dummy", False), ("left", []), ("unchanged", True)):
        if seen[name] != value:
            wrong.append(f"{name}: {seen[name]}")
    if seen["raised"] is not None and "fc_refuses" not in wanted:
        wrong.append(f"raised: {seen['raised']}")
    if seen["raised"] is None and seen["patches_left"]:
        wrong.append(f"{seen['patches_left']} hooks are left")
    if seen["raised"] is None and not case.block and not seen["samples"].startswith("as handed over"):
        wrong.append(f"samples: {seen['samples']}")
    return wrong


def main() -> int:
    from tests.conformance import environments

    different = 0
    for text in sys.argv[1:] or RELEASES:
        try:
            away = misplaced(text)
            rows = look(text)
        except (environments.SetupError, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 2
        different += bool(away)
        print(f"{text} places: {'; '.join(away) or 'as expected'}", flush=True)
        for row in rows:
            wrong = judge(text, row)
            different += bool(wrong)
            print(f"{text} {row['case']}: {'as expected' if not wrong else '; '.join(wrong)}", flush=True)
            for line in row.get("seen", {}).get("lines", ()):
                print(f"    {line}")
    return 1 if different else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.path.insert(0, str(Path(__file__).parent / "inside"))
        out = os.dup(1)
        os.dup2(2, 1)
        with contextlib.suppress(ImportError):
            import torch

            torch.set_num_threads(1)
        answers = inside(sys.argv[2], Path(sys.argv[3]))
        with os.fdopen(out, "w") as stream:
            json.dump(answers, stream, default=str)
        sys.exit(0)
    sys.exit(main())
