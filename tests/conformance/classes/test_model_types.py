"""The reader of model_types on small sources of our own, and which transformers goes with a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.classes import model_types
from tests.conformance.classes.test_class_sources import put
from tests.conformance.environments import SetupError


def test_model_types_that_an_engine_registers(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        engine__configs__a="""
            from transformers import PretrainedConfig, CONFIG_MAPPING, AutoConfig
            KIND = "constant"
            class A(PretrainedConfig):
                model_type = "a"
            class Child(A): ...
            class B(PretrainedConfig):
                model_type: str = "b"
            CONFIG_MAPPING._extra_content["extra"] = B
            AutoConfig.register(KIND, B)
            def later():
                AutoConfig.register("later", B, exist_ok=True)
            for kind, cls in {"k1": A, "k2": B}.items():
                CONFIG_MAPPING.register(kind, cls)
            for config in (A, B):
                AutoConfig.register(config.model_type, config)
            OTHERS = (Child,)
        """,
        engine__config="""
            from transformers import AutoConfig, GPT2Config
            from engine.configs.a import A, B, OTHERS
            _CONFIG_REGISTRY = {cls.model_type: cls for cls in [A, GPT2Config]}
            try:
                class Alias(A):
                    model_type = "alias"
                _CONFIG_REGISTRY["set"] = Alias
                _CONFIG_REGISTRY.update({cls.model_type: cls for cls in OTHERS})
            except ImportError:
                pass
            for name, cls in _CONFIG_REGISTRY.items():
                AutoConfig.register(name, cls)
        """,
        engine__lazy='_CONFIG_REGISTRY: dict = LazyConfigDict(one="One", **{"two-b": "Two"})',
        engine__listed="""
            from engine.configs.a import A
            _CONFIG_REGISTRY = [A]
            _CONFIG_REGISTRY = {config_cls.model_type: config_cls for config_cls in _CONFIG_REGISTRY}
        """,
        engine__hf_transformers_utils="""
            def get_config(model):
                try:
                    config = read(model)
                except ValueError as e:
                    if not "special" in str(e) and "other text" not in str(e):
                        raise e
                    config = _load_special_model(model)
            def _load_special_model(model): ...
        """,
    )
    found, problems = model_types.own(root, "engine", "engine")
    assert problems == frozenset()
    assert found == {"a", "b", "extra", "constant", "later", "k1", "k2", "set", "one", "two-b", "special"}


def test_a_type_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    root = put(tmp_path, engine__config="_CONFIG_REGISTRY[compute()] = Thing\nAutoConfig.register(unknown, Thing)")
    found, problems = model_types.own(root, "engine", "engine")
    assert found == frozenset()
    assert len(problems) == 2


def test_types_of_transformers_in_both_forms(tmp_path: Path) -> None:
    old = put(tmp_path / "old", transformers__models__auto__configuration_auto="""
        CONFIG_MAPPING_NAMES = OrderedDict[str, str]([("llama", "LlamaConfig"), ("gpt-sw3", "GPT2Config")])
    """)  # fmt: skip
    new = put(tmp_path / "new", transformers__models__auto__auto_mappings="""
        CONFIG_MAPPING_NAMES = OrderedDict([("llama", "LlamaConfig")])
    """, transformers__models__auto__configuration_auto="""
        from .auto_mappings import CONFIG_MAPPING_NAMES
        CONFIG_MAPPING_NAMES.update({"mlcd": "MLCDVisionConfig"})
        CONFIG_MAPPING_NAMES = OrderedDict(**{"gpt-sw3": "GPT2Config"}, **CONFIG_MAPPING_NAMES)
    """)  # fmt: skip
    assert model_types.of_transformers(old) == {"llama", "gpt-sw3"}
    assert model_types.of_transformers(new) == {"llama", "mlcd", "gpt-sw3"}
    with pytest.raises(SetupError, match="no CONFIG_MAPPING_NAMES"):
        model_types.of_transformers(put(tmp_path / "none", transformers__models__auto__configuration_auto="X = 1"))


def test_a_pinned_transformers_is_read_wherever_it_is_asked_for() -> None:
    metadata = 'Name: x\nRequires-Dist: torch==2.9\nRequires-Dist: transformers==4.57.1; extra == "runtime"\n'
    assert model_types.transformers_for(metadata) == (("4.57.1",), "==4.57.1")
    with pytest.raises(SetupError, match="asked for"):
        model_types.transformers_for(
            "Requires-Dist: transformers==1.0\nRequires-Dist: transformers==2.0; extra == 'b'\n"
        )
