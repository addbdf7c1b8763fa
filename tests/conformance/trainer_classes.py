"""The probe's network against the trainers' own classes, on every EAGLE-3 and P-EAGLE draft that they can load.

    python -m tests.conformance.trainer_classes                 # fixtures/trainers, the made drafts, ../shared/drafts
    python -m tests.conformance.trainer_classes my-draft        # this draft
    python -m tests.conformance.trainer_classes --record        # and write recorded/trainer_classes.npz again

Prints draft, class and the largest difference of any logit and any state; exits 1 when one is above 1e-5, and 2 when
the environment cannot be made. It is a virtual environment with a CPU build of torch, SpecForge 0.2.0, speculators
0.9.0 and what their model classes import, kept beside those of the engines.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conformance import environments
from tests.conformance.environments import TORCH, SetupError, cache

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLACES = (ROOT / "fixtures" / "trainers", ROOT.parent / "shared" / "drafts")
TRAINERS = ("specforge==0.2.0", "speculators==0.9.0", "hs-connectors==0.9.0")
IMPORTS = """transformers==5.8.1 safetensors pydantic pydantic-settings loguru tqdm psutil pyyaml httpx accelerate
typing_extensions openai datasets>=4.0.0,<=5.1.0 click jsonschema rich packaging numpy"""
_INSIDE = "CKPTDOCTOR_TRAINER_CLASSES"


def main() -> int:
    if os.environ.get(_INSIDE):
        return _compare_all(sys.argv[1:])
    try:
        python = _environment()
    except (SetupError, OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 2
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "fixtures"))),
        "PYTHONWARNINGS": "ignore",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "OMP_NUM_THREADS": "1",
        _INSIDE: "1",
    }
    command = (str(python), "-m", "tests.conformance.trainer_classes", *sys.argv[1:])
    return subprocess.run(command, env=variables, cwd=ROOT, check=False).returncode


def _environment() -> Path:
    """The Python of the environment; it is made when it is not there."""
    folder = cache() / "trainer-classes"
    python = folder / "bin" / "python"
    with environments._part(folder, repr((TORCH, TRAINERS, IMPORTS))) as missing:
        if missing:
            environments._run(environments._interpreter(), "-m", "venv", str(folder))
            pip = (str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--prefer-binary")
            # First and alone: a later `torch` of some dependency must find it there and not ask for a CUDA build.
            environments._run(*pip, TORCH, "numpy", "packaging")
            environments._run(*pip, TORCH, *IMPORTS.split())
            environments._run(*pip, "--no-deps", *TRAINERS)
    return python


def classes_of(folder: Path) -> tuple[str, ...]:
    """The trainers whose class means the same by the draft's config as its own writer."""
    import json

    from tests.conformance.trainers.trainer_cases import MADE

    if folder.name in MADE:
        return (MADE[folder.name].trainer,)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    # SpecForge's EAGLE-3 class never reads norm_before_residual, and neither of its classes the speculators format.
    foreign = "speculators_model_type" in config or config.get("norm_before_residual") is True
    return ("speculators",) if foreign else ("specforge", "speculators")


def _compare_all(arguments: list[str]) -> int:
    import numpy as np

    from tests.conformance.trainers.trainer_cases import MADE, RECORDED, write_made

    named = [a for a in arguments if not a.startswith("--")]
    kept: dict[str, np.ndarray] = {}
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        for name in MADE:
            write_made(name, Path(temporary, name))
        seen: dict[str, Path] = {}
        for place in (Path(temporary), *PLACES):
            for folder in sorted(place.iterdir()) if place.is_dir() else ():
                if (folder / "config.json").is_file():
                    seen.setdefault(folder.name, folder)
        for name, folder in seen.items():
            if named and name not in named:
                continue
            recordable = folder.parent in (Path(temporary), PLACES[0])
            worst = max(worst, _compare(folder, kept if recordable else {}))
    if "--record" in arguments:
        np.savez_compressed(RECORDED, **kept)
    print(f"the largest difference is {worst:.1e}")
    from tests.conformance.trainers.trainer_compare import TOLERANCE

    return int(worst > TOLERANCE)


def _compare(folder: Path, kept: dict[str, object]) -> float:
    """Print a row for each class that the draft is compared with; the largest difference."""
    from ckptdoctor.errors import CkptdoctorError
    from tests.conformance.trainers.trainer_cases import KEPT
    from tests.conformance.trainers.trainer_compare import apart, run_network
    from tests.conformance.trainers.trainer_models import NotLoadableError, run_class

    try:
        run_network(folder, "specforge")
    except CkptdoctorError as error:
        print(f"{folder.name:44} -            {error}", flush=True)
        return 0.0
    worst = 0.0
    for trainer in classes_of(folder):
        try:
            real = run_class(folder, trainer)
        except NotLoadableError as error:
            print(f"{folder.name:44} {trainer:12} not loadable: {error}", flush=True)
            continue
        logits, hidden = run_network(folder, trainer)
        far = apart(real.logits, logits)
        also = apart(real.hidden, hidden) if real.hidden is not None else 0.0
        states = "" if real.hidden is None else f", states {also:.1e}"
        changes = f"  ({'; '.join(real.changes)})" if real.changes else ""
        print(f"{folder.name:44} {trainer:12} logits {far:.1e}{states}{changes}", flush=True)
        kept.setdefault(f"{folder.name}.{trainer}", real.logits[:, KEPT])
        worst = max(worst, far, also)
    return worst


if __name__ == "__main__":
    sys.exit(main())
