"""Cached environments in which the engines' own loaders run on a CPU.

    python -m tests.conformance.environments sglang==0.5.4 vllm==0.33.0 …

An environment has two parts. A *base* is a virtual environment with a CPU build of torch and what the engine imports;
releases of one dependency generation share it. A *site* is a folder with the code of one release, unpacked from its
own wheel (without the compiled CUDA kernels), and the few packages whose version that release pins; it stands first on
PYTHONPATH. Nothing in a site is edited, save the version in vLLM's metadata: `+cpu` is how vLLM recognises a CPU.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PYTHON = (3, 11)
"""What SGLang's wheels and the CPU wheel of torch are built for."""

TORCH = "torch==2.13.0"
KERNEL_BYTES = 4 << 20
"""Compiled files above this size are CUDA kernels; a CPU cannot load them and they fill the disk."""


class SetupError(RuntimeError):
    """An environment that cannot be made; the message says what to do."""


@dataclass(frozen=True)
class Base:
    """Packages that several releases share: with their dependencies, then without."""

    name: str
    packages: str
    alone: str = ""


_SGLANG = """aiohttp compressed-tensors einops fastapi interegular msgspec orjson partial_json_parser pillow
prometheus-client psutil pybase64 pydantic python-multipart pyzmq requests scipy sentencepiece==0.2.1 setproctitle
tiktoken tqdm uvicorn uvloop IPython accelerate numpy safetensors packaging """
_VLLM = """regex cachetools psutil sentencepiece requests tqdm blake3 py-cpuinfo protobuf fastapi starlette aiohttp
openai pydantic orjson prometheus_client pillow prometheus-fastapi-instrumentator tiktoken lark==1.2.2 typing_extensions
filelock partial-json-parser jsonschema pyzmq msgspec pyyaml einops cloudpickle watchfiles python-json-logger pybase64
cbor2 ijson setproctitle depyf==0.20.0 opencv-python-headless mistral_common[image] llguidance==1.7.6
outlines_core==0.2.14 anthropic model-hosting-container-standards mcp numpy safetensors packaging """

BASES = {
    base.name: base
    for base in (
        Base("sglang-transformers4", _SGLANG + "openai==1.99.1 transformers==4.57.1 gguf", "dill xgrammar==0.1.25"),
        Base(
            "sglang-transformers5",
            _SGLANG + "openai==2.8.0 gguf llguidance regex tokenizers==0.23.2 transformers==5.19.0 xxhash zstandard"
            " mistral_common easydict distro watchfiles openai-harmony==0.0.4",
            "dill xgrammar==0.2.8 apache-tvm-ffi==0.1.11",
        ),
        Base(
            "vllm-transformers4",
            _VLLM + "transformers==4.57.1 compressed-tensors==0.12.2 openai-harmony gguf scipy diskcache six",
            "uvloop xgrammar==0.1.25 lm-format-enforcer==0.11.3",
        ),
        Base(
            "vllm-transformers5",
            _VLLM + "transformers==5.19.0 compressed-tensors==0.17.0 oss-harmony openai-harmony gguf scipy",
            "uvloop xgrammar==0.2.8 apache-tvm-ffi==0.1.11",
        ),
    )
}


@dataclass(frozen=True)
class Release:
    """One release of an engine: the base it runs in and the packages of its own."""

    engine: str
    release: str
    base: str
    own: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.engine}-{self.release}"


_TOKENIZERS = "tokenizers==0.22.2"

RELEASES = {
    (release.engine, release.release): release
    for release in (
        Release("sglang", "0.4.9", "sglang-transformers4", ("transformers==4.53.0", "tokenizers==0.21.4")),
        Release("sglang", "0.5.4", "sglang-transformers4"),
        Release("sglang", "0.5.9", "sglang-transformers4"),
        Release("sglang", "0.5.11", "sglang-transformers5", ("transformers==5.6.0", _TOKENIZERS)),
        Release("sglang", "0.5.12", "sglang-transformers5", ("transformers==5.6.0", _TOKENIZERS)),
        Release("sglang", "0.5.12.post1", "sglang-transformers5", ("transformers==5.6.0", _TOKENIZERS)),
        Release("sglang", "0.5.13", "sglang-transformers5", ("transformers==5.8.1", _TOKENIZERS)),
        Release("sglang", "0.5.14", "sglang-transformers5", ("transformers==5.8.1", _TOKENIZERS)),
        Release("sglang", "0.5.17", "sglang-transformers5", ("transformers==5.12.1", _TOKENIZERS)),
        Release("sglang", "0.5.23", "sglang-transformers5"),
        Release("vllm", "0.10.2", "vllm-transformers4", ("compressed-tensors==0.11.0", "frozendict==2.4.7")),
        Release("vllm", "0.11.1", "vllm-transformers4"),
        Release("vllm", "0.18.0", "vllm-transformers4", ("compressed-tensors==0.13.0",)),
        Release("vllm", "0.22.0", "vllm-transformers5", ("compressed-tensors==0.15.0.1",)),
        Release("vllm", "0.25.0", "vllm-transformers5"),
        Release("vllm", "0.33.0", "vllm-transformers5"),
    )
}


_NOT_PASSED_ON = ("PYTHON", "VLLM_", "SGLANG_")


@dataclass(frozen=True)
class Environment:
    """A release that is ready to run."""

    release: Release
    python: Path
    site: Path

    def variables(self) -> dict[str, str]:
        """The environment variables of a process that imports this release."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)},
            "PYTHONPATH": str(self.site),
            "HF_HUB_OFFLINE": "1",
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "VLLM_NO_USAGE_STATS": "1",
            "SGLANG_USE_CPU_ENGINE": "1",
            "OMP_NUM_THREADS": "1",
        }


def cache() -> Path:
    given = os.environ.get("CKPTDOCTOR_CONFORMANCE_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "ckptdoctor" / "conformance"


def parse(text: str) -> Release:
    """`sglang==0.5.4` → the release."""
    engine, _, release = text.partition("==")
    known = RELEASES.get((engine, release))
    if known is None:
        offered = ", ".join(f"{e}=={r}" for e, r in RELEASES)
        raise SetupError(f"{text}: not a release that the conformance tests know; known: {offered}")
    return known


def ensure(release: Release) -> Environment:
    """Makes what is missing; a finished part is used as it stands until its recipe changes."""
    base, site = cache() / release.base, cache() / release.name
    recipe = BASES[release.base]
    python = base / "bin" / "python"
    with _part(base, repr((TORCH, recipe))) as missing:
        if missing:
            _make_base(base, recipe)
    with _part(site, repr(release)) as missing:
        if missing:
            _make_site(site, release, python)
    return Environment(release, python, site)


@contextlib.contextmanager
def _part(folder: Path, recipe: str) -> Iterator[bool]:
    """Yields whether the folder has to be made, while no other process makes it; marks it finished at the end."""
    mark, digest = folder / ".finished", hashlib.sha256(recipe.encode()).hexdigest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = not (mark.is_file() and mark.read_text(encoding="utf-8") == digest)
        if missing and folder.exists():
            shutil.rmtree(folder)
        yield missing
        mark.write_text(digest, encoding="utf-8")


def _make_base(folder: Path, recipe: Base) -> None:
    _run(_interpreter(), "-m", "venv", str(folder))
    python = str(folder / "bin" / "python")
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    # First and alone: a later `torch` of some dependency must find it there and not ask for a CUDA build.
    _run(*pip, TORCH, "numpy", "packaging", "--prefer-binary")
    if _output(python, "-c", "import torch; print(torch.version.cuda)") != "None":
        raise SetupError(f"{TORCH} came as a CUDA build; show pip its CPU wheel (PIP_FIND_LINKS), then try again")
    with tempfile.TemporaryDirectory() as temporary:
        constraints = Path(temporary, "constraints.txt")
        constraints.write_text(TORCH + "\n", encoding="utf-8")
        _run(*pip, "-c", str(constraints), "--prefer-binary", *recipe.packages.split())
    if recipe.alone:
        _run(*pip, "--no-deps", *recipe.alone.split())


def _make_site(folder: Path, release: Release, python: Path) -> None:
    folder.mkdir(parents=True)
    pip = (str(python), "-m", "pip", "-q", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        _run(*pip, "download", "--no-deps", "-d", temporary, f"{release.engine}=={release.release}")
        (archive,) = Path(temporary).iterdir()
        _unpack(archive, folder, release.engine)
    if release.own:
        _run(*pip, "install", "--no-deps", "--upgrade", "--target", str(folder), *release.own)
    if release.engine == "vllm":
        for metadata in folder.glob("vllm-*.dist-info/METADATA"):
            text = metadata.read_text(encoding="utf-8")
            old = f"\nVersion: {release.release}\n"
            metadata.write_text(text.replace(old, f"\nVersion: {release.release}+cpu\n", 1), encoding="utf-8")


def _unpack(archive: Path, folder: Path, engine: str) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for entry in wheel.infolist():
                if not (entry.filename.endswith(".so") and entry.file_size > KERNEL_BYTES):
                    wheel.extract(entry, folder)
        return
    with tarfile.open(archive) as source:
        source.extractall(folder / "source", filter="data")
    (package,) = [p.parent for p in folder.glob(f"source/**/{engine}/__init__.py")]
    package.rename(folder / engine)
    shutil.rmtree(folder / "source")


def _interpreter() -> str:
    if sys.version_info[:2] == PYTHON:
        return sys.executable
    found = shutil.which("python{}.{}".format(*PYTHON))
    if found is None:
        raise SetupError("the conformance tests need a Python {}.{}".format(*PYTHON))
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SetupError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    for text in sys.argv[1:] or [f"{engine}=={release}" for engine, release in RELEASES]:
        try:
            environment = ensure(parse(text))
        except SetupError as error:
            print(error, file=sys.stderr)
            return 2
        print(f"{text}: {environment.python} with {environment.site}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
