"""Names of files that belong together."""

from __future__ import annotations

from treating.files import ONE

from ckptdoctor.publish.shards import lost_member, safetensors_name


def test_names_of_files_that_belong_together() -> None:
    assert lost_member(("a-00000-of-00002.safetensors", "a-00001-of-00002.safetensors")) is None
    assert (
        lost_member(("a-00001-of-00003.safetensors", "a-00003-of-00003.safetensors")) == "a-00002-of-00003.safetensors"
    )
    assert lost_member(("a-00001-of-99999.safetensors",)) == "a-00002-of-99999.safetensors"
    assert lost_member(("model.safetensors", "other.safetensors")) is None
    assert safetensors_name("pytorch_model-00001-of-00002.bin", False) == ONE
    assert safetensors_name("training_state.pt", True) == "model.safetensors"
    assert safetensors_name("part1.pt", False) is None
    assert safetensors_name("other-00001-of-00002.bin", False) is None
