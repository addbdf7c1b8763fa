"""The guard around code that uploads to the Hub."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from gate_drafts import SICK, draft
from hub_server import TOKEN, Hub

from ckptdoctor.errors import CannotExamineError, CkptdoctorError, UsageError

pytest.importorskip("huggingface_hub")
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi
from registries.hub_drafts import files_of

from ckptdoctor.registry.hub.upload import RefusedUploadError, guard, guarded, guarded_argument

# The client's own use of its HTTP library.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw bytes:DeprecationWarning")


@pytest.fixture
def api(hub: Hub) -> Any:
    from huggingface_hub import HfApi

    from ckptdoctor.registry.hub.upload import guarded

    return guarded(HfApi(endpoint=hub.url, token=TOKEN))


def writes(hub: Hub) -> list[str]:
    return [line for line in hub.asked if not line.startswith(("GET", "HEAD"))]


def test_a_guarded_api_refuses_a_sick_draft_with_nothing_sent(hub: Hub, api: Any, tmp_path: Path) -> None:
    model = draft(tmp_path / "model", SICK)
    hub.add("org/name", {"README.md": b"#"})
    stored = hub.stored
    operations = [CommitOperationAdd(n, str(model / n)) for n in ("model.safetensors", "config.json")]
    for upload in (
        lambda: api.upload_folder(repo_id="org/name", folder_path=model),
        lambda: api.upload_folder(repo_id="org/name", folder_path=model, path_in_repo="a/b"),
        lambda: api.upload_folder(repo_id="org/name", folder_path=model, allow_patterns="*.safetensors"),
        lambda: api.create_commit("org/name", operations, commit_message="m"),
        lambda: api.upload_file(
            repo_id="org/name", path_or_fileobj=model / "model.safetensors", path_in_repo="x/model.safetensors"
        ),
        lambda: api.upload_file(
            repo_id="org/name",
            path_or_fileobj=io.BytesIO((model / "model.safetensors").read_bytes()),
            path_in_repo="model.safetensors",
        ),
        lambda: api.upload_file(
            repo_id="org/name", path_or_fileobj=b"version https://git-lfs", path_in_repo="a.safetensors"
        ),
        lambda: api.run_as_future(api.upload_folder, repo_id="org/name", folder_path=model).result(),
    ):
        with pytest.raises(RefusedUploadError) as caught:
            upload()
        assert caught.value.verdict.refused
        assert "nothing was uploaded" in str(caught.value)
    assert (hub.stored, writes(hub)) == (stored, [])


def test_a_guarded_api_sends_what_it_judged(hub: Hub, api: Any, tmp_path: Path) -> None:
    model, sick = draft(tmp_path / "model"), draft(tmp_path / "sick", SICK)
    (model / "README.txt").write_text("about", encoding="utf-8")
    judged = files_of(model)
    hub.add("org/name", {"README.md": b"#"})

    def swapped(request: Any) -> bool:
        if "/preupload/" in request.route:
            for name, data in files_of(sick).items():
                (model / name).write_bytes(data)
        return False

    hub.meddle = swapped
    operations = [CommitOperationAdd(name, str(model / name)) for name in judged]
    assert isinstance(api, HfApi)
    assert (
        api.create_commit("org/name", operations, commit_message="m").oid
        == hub.repositories["org/name"].branches["main"]
    )
    assert hub.repositories["org/name"].tree() == {**judged, "README.md": b"#"}
    with pytest.raises(ValueError, match="already being committed"):
        HfApi(endpoint=hub.url, token=TOKEN).create_commit("org/name", operations, commit_message="again")


def test_a_guarded_folder_is_sent_as_judged_with_its_patterns(hub: Hub, api: Any, tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    (model / "optimizer.txt").write_text("left", encoding="utf-8")
    hub.add("org/name", {"README.md": b"#", "draft/old.txt": b"x", "draft/keep.md": b"y"})
    api.upload_folder(
        repo_id="org/name",
        folder_path=str(model),
        path_in_repo="draft",
        ignore_patterns=["*.txt"],
        delete_patterns="*.txt",
    )
    expected = {f"draft/{n}": d for n, d in files_of(model).items() if n != "optimizer.txt"}
    assert hub.repositories["org/name"].tree() == {"README.md": b"#", "draft/keep.md": b"y", **expected}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]


def test_a_part_of_a_draft_is_judged_with_the_rest_of_it(hub: Hub, api: Any, tmp_path: Path) -> None:
    healthy, sick = draft(tmp_path / "healthy"), draft(tmp_path / "sick", SICK)
    first = hub.add("org/name", healthy)
    hub.add("org/sick", sick)
    config = (healthy / "config.json").read_bytes()
    for change in (
        [CommitOperationAdd("config.json", config.replace(b'"hidden_size": ', b'"hidden_size": 9'))],
        [CommitOperationAdd("model.safetensors", str(sick / "model.safetensors"))],
        [CommitOperationDelete("config.json"), CommitOperationAdd("config.json", b"{")],
        [
            CommitOperationCopy("model.safetensors", "model.safetensors", src_revision=None),
            CommitOperationAdd("x.json", b""),
        ],
    )[:3]:
        with pytest.raises(RefusedUploadError):
            api.create_commit("org/name", change, commit_message="m")
    assert writes(hub) == []
    api.create_commit("org/name", [CommitOperationAdd("config.json", config + b"\n")], commit_message="m")
    tree = hub.repositories["org/name"].tree()
    assert tree == {**files_of(healthy), "config.json": config + b"\n"}
    assert len(hub.repositories["org/name"].commits) == 2
    assert first in hub.repositories["org/name"].commits


def test_what_no_engine_reads_is_sent_unjudged(hub: Hub, api: Any, tmp_path: Path) -> None:
    hub.add("org/sick", draft(tmp_path / "sick", SICK))
    api.upload_file(repo_id="org/sick", path_or_fileobj=b"a picture", path_in_repo="a.png")
    assert hub.repositories["org/sick"].tree()["a.png"] == b"a picture"
    assert not any("/resolve/" in line for line in hub.asked)


def test_a_copy_and_a_deletion_are_judged_too(hub: Hub, api: Any, tmp_path: Path) -> None:
    healthy, sick = draft(tmp_path / "healthy"), draft(tmp_path / "sick", SICK)
    hub.add("org/name", {**files_of(healthy), **{f"old/{n}": d for n, d in files_of(sick).items()}})
    stored = hub.stored
    with pytest.raises(RefusedUploadError):
        api.create_commit(
            "org/name", [CommitOperationCopy("old/model.safetensors", "model.safetensors")], commit_message="m"
        )
    with pytest.raises(RefusedUploadError):
        api.delete_file("old/config.json", "org/name")
    assert (hub.stored, [line for line in writes(hub) if "/commit/" in line]) == (stored, [])
    api.delete_folder("old", "org/name")
    assert hub.repositories["org/name"].tree() == files_of(healthy)


def test_a_commit_of_somebody_else_in_between_stops_it(hub: Hub, api: Any, tmp_path: Path) -> None:
    healthy, sick = draft(tmp_path / "healthy"), draft(tmp_path / "sick", SICK)
    hub.add("org/name", healthy)

    def pushed(request: Any) -> bool:
        if "/preupload/" in request.route:
            hub.add("org/name", sick)
        return False

    hub.meddle = pushed
    with pytest.raises(Exception, match="A commit has happened since"):
        api.upload_file(repo_id="org/name", path_or_fileobj=(healthy / "config.json"), path_in_repo="config.json")
    assert hub.repositories["org/name"].tree() == files_of(sick)


def test_a_policy_that_wants_values_needs_the_whole_draft(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    hub.add("org/name", model)
    (tmp_path / "policy.toml").write_text("deep = true", encoding="utf-8")
    api = guarded(HfApi(endpoint=hub.url, token=TOKEN), tmp_path / "policy.toml")
    with pytest.raises(RefusedUploadError, match="upload the whole draft in one commit"):
        api.upload_file(repo_id="org/name", path_or_fileobj=model / "config.json", path_in_repo="config.json")
    api.upload_folder(repo_id="org/name", folder_path=model)
    assert hub.repositories["org/name"].tree() == files_of(model)


def test_files_are_not_sent_ahead_of_their_commit(hub: Hub, api: Any) -> None:
    with pytest.raises(UsageError, match="give the operations to create_commit"):
        api.preupload_lfs_files("org/name", [CommitOperationAdd("model.safetensors", b"x")])
    assert hub.asked == []


def test_a_commit_that_says_two_things_of_a_path_is_refused(hub: Hub, api: Any) -> None:
    hub.add("org/name", {"README.md": b"#"})
    for paths in (("a.json", "a.json"), ("a", "a/b.json"), ("a/b.json", "a")):
        with pytest.raises(CkptdoctorError, match=r"adds it twice|cannot be copied"):
            api.create_commit("org/name", [CommitOperationAdd(p, b"{}") for p in paths], commit_message="m")
    assert writes(hub) == []


def test_a_pickle_on_the_hub_needs_the_whole_draft(hub: Hub, api: Any) -> None:
    hub.add("org/name", {"pytorch_model.bin": bytes(5000), "config.json": b"{}"})
    with pytest.raises(RefusedUploadError, match="PyTorch files are not read over the network"):
        api.upload_file(repo_id="org/name", path_or_fileobj=b"{}", path_in_repo="config.json")


def test_the_guard_around_other_code_gives_it_the_judged_copy(tmp_path: Path) -> None:
    model, sick = draft(tmp_path / "model"), draft(tmp_path / "sick", SICK)
    judged = files_of(model)
    with guard(model) as copy:
        (model / "config.json").write_bytes(b"other")
        assert files_of(copy) == judged
    assert not copy.exists()
    with pytest.raises(RefusedUploadError) as caught, guard(str(sick)):
        pytest.fail("the body ran")
    assert (caught.value.exit_code, caught.value.verdict.outcome) == (1, "refused")
    with pytest.raises(UsageError, match="not a folder"), guard(model / "config.json"):
        pytest.fail("the body ran")


def test_a_guarded_function_gets_the_copy_or_is_not_called(tmp_path: Path) -> None:
    seen: list[tuple[str, dict[str, bytes], str]] = []

    @guarded_argument("folder")
    def push(repo: str, folder: str = "", *, note: str = "n") -> str:
        """Push it."""
        seen.append((repo, files_of(Path(folder)), note))
        return folder

    model, sick = draft(tmp_path / "model"), draft(tmp_path / "sick", SICK)
    assert push("org/a", folder=str(model), note="x") != str(model)
    assert seen == [("org/a", files_of(model), "x")]
    with pytest.raises(RefusedUploadError):
        push("org/a", str(sick))
    (model / "link.json").symlink_to(sick / "config.json")
    with pytest.raises(CannotExamineError):
        push("org/a", str(model))
    assert len(seen) == 1
    assert (push.__name__, push.__doc__) == ("push", "Push it.")
    with pytest.raises(UsageError, match="has no argument path"):
        guarded_argument("path")(push)
