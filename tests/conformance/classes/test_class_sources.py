"""The readers of class lists on small sources of our own: what counts as registered and as captured."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from tests.conformance.classes import class_registries
from tests.conformance.classes.class_registries import literal, vllm_rows
from tests.conformance.classes.class_sources import Package


def put(root: Path, **files: str) -> Path:
    """Write modules; `a__b="…"` is a/b.py and `a__INIT` a/__init__.py, and every folder is a package."""
    for name, text in files.items():
        path = root.joinpath(*("__init__" if part == "INIT" else part for part in name.split("__"))).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    for folder in [root, *(p for p in root.rglob("*") if p.is_dir())]:
        (folder / "__init__.py").touch()
    return root


def sglang(root: Path, **models: str) -> class_registries.Registry:
    return class_registries.sglang(put(root, **{f"sglang__srt__models__{name}": text for name, text in models.items()}))


INTERFACES = """
    class SupportsEagle3(Protocol):
        def set_aux_hidden_state_layers(self, layers): ...
    class SupportsPP(Protocol): ...
"""


def vllm(root: Path, registry: str, interfaces: str = INTERFACES, **models: str) -> class_registries.Registry:
    files = {f"vllm__model_executor__models__{name}": text for name, text in models.items() if "__" not in name}
    files |= {name: text for name, text in models.items() if "__" in name}
    put(
        root,
        vllm__model_executor__models__registry=registry,
        vllm__model_executor__models__interfaces=interfaces,
        **files,
    )
    return class_registries.vllm(root)


def test_entry_class_alone_in_a_list_joined_and_through_a_name(tmp_path: Path) -> None:
    found = sglang(
        tmp_path,
        one="class A: ...\nEntryClass = A",
        more="class B: ...\nclass C: ...\nEntryClass = [B, C]",
        joined="class D: ...\nclass E: ...\n_OLD = [D]\nEntryClass = _OLD + [E]",
        none="class Helper: ...",
    )
    assert found.registered == {"A", "B", "C", "D", "E"}
    assert found.problems == frozenset()


def test_a_class_is_registered_by_its_own_name_not_by_its_alias(tmp_path: Path) -> None:
    found = sglang(
        tmp_path,
        base="class Real: ...\nEntryClass = []",
        other="from sglang.srt.models.base import Real as Alias\nEntryClass = [Alias]",
        third="from .base import Real\nOther = Real\nEntryClass = Other",
    )
    assert found.registered == {"Real"}


def test_entry_class_that_is_imported(tmp_path: Path) -> None:
    root = put(tmp_path, sglang__srt__models__common__modeling="class Deep: ...\nEntryClass = [Deep]")
    found = sglang(root, shallow="from sglang.srt.models.common.modeling import EntryClass, Deep")
    assert found.registered == {"Deep"}


def test_entry_class_under_a_condition_and_after_a_failed_import(tmp_path: Path) -> None:
    found = sglang(
        tmp_path,
        conditional="""
            class A: ...
            class B: ...
            class Rocm: ...
            if some_flag():
                EntryClass = [A]
            else:
                EntryClass = [B]
            if is_hip():
                EntryClass = [Rocm]
        """,
        tried="""
            try:
                from transformers import New
                class C(New): ...
                EntryClass = C
            except ImportError:
                EntryClass = []
        """,
    )
    assert found.registered == {"A", "B", "C"}


def test_an_entry_that_cannot_be_found_is_a_problem(tmp_path: Path) -> None:
    found = sglang(
        tmp_path, lost="from .gone import Lost\nEntryClass = [Lost]", grown="EntryClass = []\nEntryClass.append(f())"
    )
    assert len(found.problems) == 3
    assert any("EntryClass Lost" in problem for problem in found.problems)
    assert any("gone.Lost" in problem for problem in found.problems)
    assert any("append" in problem for problem in found.problems)


def test_setters_are_inherited_across_modules_and_told_apart(tmp_path: Path) -> None:
    found = sglang(
        tmp_path,
        llama="""
            from torch import nn
            class LlamaForCausalLM(nn.Module):
                def set_eagle3_layers_to_capture(self, layer_ids=None): ...
                if True:
                    def set_dflash_layers_to_capture(self, layer_ids): ...
            EntryClass = LlamaForCausalLM
        """,
        mistral="""
            import sglang.srt.models.llama as llama
            class MistralForCausalLM(llama.LlamaForCausalLM, Generic[T]): ...
            EntryClass = [MistralForCausalLM]
        """,
        other="""
            class Plain:
                set_dspark_layers_to_capture = None
            class OtherForCausalLM(Plain):
                set_eagle3_layers_to_capture: object
            EntryClass = OtherForCausalLM
        """,
    )
    assert found.captures["eagle3"] == {"LlamaForCausalLM", "MistralForCausalLM"}
    assert found.captures["dflash"] == {"LlamaForCausalLM", "MistralForCausalLM"}
    assert found.captures["dspark"] == {"OtherForCausalLM"}


def test_a_wrapper_counts_when_it_has_the_method_itself(tmp_path: Path) -> None:
    found = sglang(
        tmp_path,
        inner="class Inner:\n    def set_eagle3_layers_to_capture(self): ...\nEntryClass = Inner",
        silent="""
            from .inner import Inner
            class SilentForConditionalGeneration:
                def __init__(self): self.language_model = Inner()
            EntryClass = SilentForConditionalGeneration
        """,
        handing="""
            from .inner import Inner
            class HandingForConditionalGeneration:
                def __init__(self): self.language_model = Inner()
                def set_eagle3_layers_to_capture(self, ids): self.language_model.set_eagle3_layers_to_capture(ids)
            EntryClass = HandingForConditionalGeneration
        """,
        open_="""
            from .inner import Inner
            class OpenForConditionalGeneration:
                def __getattr__(self, name): return getattr(self.inner, name)
            EntryClass = OpenForConditionalGeneration
        """,
    )
    assert found.captures["eagle3"] == {"Inner", "HandingForConditionalGeneration"}
    assert found.forwarding == {"OpenForConditionalGeneration"}


def test_bases_that_name_each_other_end(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        p__a="from .b import B\nclass A(B): ...",
        p__b="from .a import A\nclass B(A):\n    def there(self): ...",
        p__c="from .d import X\n",
        p__d="from .c import X\n",
    )
    package = Package(root, "p")
    module, circular = package.module("p.a"), package.module("p.c")
    assert module is not None
    assert circular is not None
    found = module.find("A")
    assert found is not None
    assert found.has("there")
    assert not found.has("elsewhere")
    assert circular.find("X") is None


def test_star_imports_are_followed(tmp_path: Path) -> None:
    found = sglang(tmp_path, base="class Base:\n    def set_eagle3_layers_to_capture(self): ...", star="""
        from .base import *
        class S(Base): ...
        EntryClass = S
    """)  # fmt: skip
    assert found.captures["eagle3"] == {"S"}


def test_vllm_s_dictionaries_are_joined(tmp_path: Path) -> None:
    path = put(tmp_path, registry="""
        _TEXT_GENERATION_MODELS = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM"), "Old": ("old", "Old")}
        _EMBEDDING_MODELS: dict[str, tuple[str, str]] = {
            **{k: (mod, arch) for k, (mod, arch) in _TEXT_GENERATION_MODELS.items() if arch == "LlamaForCausalLM"},
            "LlamaModel": ("llama", "LlamaForCausalLM"),
        }
        _PREVIOUSLY_SUPPORTED_MODELS = {"Gone": "0.9.2"}
        if envs.EXTRA:
            _EMBEDDING_MODELS.update({"Extra": ("extra", "Extra")})
        _VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_EMBEDDING_MODELS}
    """) / "registry.py"  # fmt: skip
    assert set(vllm_rows(path)) == {"LlamaForCausalLM", "Old", "LlamaModel", "Extra"}
    assert vllm_rows(path)["LlamaModel"] == ("llama", "LlamaForCausalLM")


@pytest.mark.parametrize(
    "source", ["__import__('os').getcwd()", "[x for x in ().__class__.mro()]", "open('f')", "(lambda: 1)()"]
)
def test_only_plain_values_are_evaluated(source: str) -> None:
    with pytest.raises(ValueError, match="no plain value"):
        literal(ast.parse(source, mode="eval").body, {})


def test_vllm_s_interface_is_inherited_and_follows_the_platform(tmp_path: Path) -> None:
    found = vllm(
        tmp_path,
        """
            _VLLM_MODELS = {
                "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
                "Renamed": ("llama", "Child"),
                "RewardModel": ("llama", "Reward"),
                "Gpt": ("gpt", "Gpt"),
                "Deep": ("vllm.models.deep", "Deep"),
                "Lazy": ("vllm.models.lazy", "Lazy"),
            }
        """,
        llama="""
            from .interfaces import SupportsEagle3, SupportsPP
            from .adapters import as_reward_model
            class LlamaForCausalLM(nn.Module, SupportsPP, SupportsEagle3): ...
            class Child(LlamaForCausalLM): ...
            Reward = as_reward_model(Child)
        """,
        adapters="def as_reward_model(cls): ...",
        gpt="""
            from .interfaces import SupportsPP
            class Gpt(nn.Module, SupportsPP):
                def set_aux_hidden_state_layers(self, layers): ...
        """,
        vllm__models__deep__INIT="""
            from vllm.platforms import current_platform
            if current_platform.is_rocm():
                from .amd import Deep
            elif current_platform.is_cpu():
                from .stub import Deep
            else:
                from .nvidia import Deep
        """,
        vllm__models__deep__amd="class Deep: ...",
        vllm__models__deep__stub="class Deep: ...",
        vllm__models__deep__nvidia="""
            from vllm.model_executor.models.interfaces import SupportsEagle3
            class Deep(SupportsEagle3): ...
        """,
        vllm__models__lazy__INIT="""
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from .model import Lazy
            def __getattr__(name):
                from . import model
                return getattr(model, name)
        """,
        vllm__models__lazy__model="class Lazy: ...",
    )
    assert found.problems == frozenset()
    assert found.captures["eagle3"] == {"LlamaForCausalLM", "Renamed", "RewardModel", "Deep"}
    assert found.registered == {"LlamaForCausalLM", "Renamed", "RewardModel", "Gpt", "Deep", "Lazy"}


def test_before_the_interface_vllm_calls_the_method(tmp_path: Path) -> None:
    found = vllm(
        tmp_path,
        '_VLLM_MODELS = {"A": ("a", "A"), "B": ("a", "B")}',
        "class SupportsPP: ...",
        a="class A:\n    def set_aux_hidden_state_layers(self, layers): ...\nclass B: ...",
    )
    assert found.captures["eagle3"] == {"A"}


def test_a_registered_class_without_a_source_is_a_problem(tmp_path: Path) -> None:
    found = vllm(tmp_path, '_VLLM_MODELS = {"A": ("a", "A"), "B": ("gone", "B")}', a="class Other: ...")
    assert len(found.problems) == 2
    assert found.registered == {"A", "B"}
