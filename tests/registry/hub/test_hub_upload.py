"""Uploads to the Hub: a sick draft leaves nothing there, and of a healthy one arrives exactly what was judged."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gate_drafts import HEALTHY, SICK, WARNED, draft
from hub_server import SMALL, TOKEN, Hub, connected

from ckptdoctor.cli.main import run
from ckptdoctor.errors import CannotExamineError, CkptdoctorError, UsageError

pytest.importorskip("huggingface_hub")

from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi

from ckptdoctor.registry.hub.judging import RefusedUploadError
from ckptdoctor.registry.hub.upload import guard, guarded, guarded_argument

# The client's own use of its HTTP library.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw bytes:DeprecationWarning")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with connected(monkeypatch) as server:
        yield server


@pytest.fixture
def api(hub: Hub) -> Any:
    return guarded(HfApi(endpoint=hub.url, token=TOKEN))


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def writes(hub: Hub) -> list[str]:
    return [line for line in hub.asked if not line.startswith(("GET", "HEAD"))]


# The command


def test_a_sick_draft_is_refused_with_its_report_and_the_hub_is_not_asked(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = draft(tmp_path / "model", SICK)
    assert run(["upload", str(model), "org/new"]) == 1
    out, err = capsys.readouterr()
    assert "VOC001" in out
    assert f"ckptdoctor fix {model} --out NEW" in out
    assert ".ckptdoctor-" not in out
    assert err == f"ckptdoctor: {model} was refused: 1 error found; nothing was uploaded\n"
    assert hub.asked == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model"]


def test_a_healthy_draft_arrives_byte_for_byte(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = draft(tmp_path / "model")
    (model / "sub").mkdir()
    (model / "sub" / "notes.txt").write_text("é" * SMALL, encoding="utf-8")
    (model / ".cache" / "huggingface").mkdir(parents=True)
    (model / ".git").mkdir()
    for hidden in (".cache/x.json", ".cache/huggingface/y", ".git/config", "sub/.cache"):
        (model / hidden).write_text("{}", encoding="utf-8")
    assert run(["upload", str(model), "org/new", "--message", "a first one"]) == 0
    repository = hub.repositories["org/new"]
    expected = {n: d for n, d in files_of(model).items() if not {".git", ".cache"} & set(n.split("/"))}
    assert repository.tree() == expected
    assert sorted(expected) == ["config.json", "model.safetensors", "sub/notes.txt"]
    assert (repository.messages[-1], repository.private) == ("a first one", False)
    url = f"{hub.url}/org/new/commit/{repository.branches['main']}"
    assert capsys.readouterr().err == f"ckptdoctor: {model} passes; uploaded: {url}\n"


def test_a_warning_passes_with_a_note(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = draft(tmp_path / "model", WARNED)
    assert run(["upload", str(model), "org/new", "--private", "--create-pr"]) == 0
    out, err = capsys.readouterr()
    assert "VOC018" in out
    assert err == (
        f"ckptdoctor: {model} passes, with 1 warning to look at; uploaded: {hub.url}/org/new/discussions/1\n"
    )
    assert hub.repositories["org/new"].private
    assert hub.repositories["org/new"].tree() == {}
    assert hub.repositories["org/new"].tree("refs/pr/1") == files_of(model)


def test_what_changes_after_the_judgement_is_not_sent(hub: Hub, tmp_path: Path) -> None:
    model, sick = draft(tmp_path / "model"), draft(tmp_path / "sick", SICK)
    judged = files_of(model)

    def swapped(request: Any) -> bool:  # the first thing that is asked, when the judgement is done
        if request.route == "/api/repos/create":
            for name, data in files_of(sick).items():
                with (model / name).open("r+b") as stream:
                    stream.write(data)
        return False

    hub.meddle = swapped
    assert run(["upload", str(model), "org/new"]) == 0
    assert files_of(model) != judged
    assert hub.repositories["org/new"].tree() == judged


def test_a_dry_run_asks_nothing(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = draft(tmp_path / "model")
    assert run(["upload", str(model), "org/new", "--dry-run", "--format", "json"]) == 0
    assert capsys.readouterr().err == f"ckptdoctor: {model} passes; nothing was uploaded (--dry-run)\n"
    assert hub.asked == []


def test_the_policy_is_the_one_that_is_named_and_never_that_of_the_draft(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = draft(tmp_path / "model", SICK)
    (model / "ckptdoctor.toml").write_text("fail-on = 'never'", encoding="utf-8")
    monkeypatch.chdir(model)
    assert run(["upload", ".", "org/new"]) == 1
    assert "ckptdoctor.toml in . is not followed" in capsys.readouterr().out
    assert hub.asked == []
    (tmp_path / "policy.toml").write_text("fail-on = 'never'", encoding="utf-8")
    assert run(["upload", str(model), "org/new", "--policy", str(tmp_path / "policy.toml")]) == 0
    assert run(["upload", str(model), "org/new", "--policy", str(tmp_path / "gone.toml")]) == 2


def test_the_target_and_the_engine_count(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "model", HEALTHY)
    assert run(["upload", str(model), "org/new", "--engine", "sglang==0.5.9"]) == 1
    assert run(["upload", str(model), "org/new", "--engine", "nothing==1"]) == 2
    assert run(["upload", str(model), "org/new", "--target", str(tmp_path / "gone")]) == 3
    assert hub.asked == []


Bypass = Callable[[Path, Path], None]


def renamed(model: Path, sick: Path) -> None:
    (model / "sub").mkdir()
    (sick / "model.safetensors").rename(model / "sub" / "weights-of-another.safetensors")
    (sick / "config.json").rename(model / "sub" / "config.json")


def linked_out(model: Path, sick: Path) -> None:
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").symlink_to(sick / "model.safetensors")


def folder_linked_out(model: Path, sick: Path) -> None:
    (model / "sub").symlink_to(sick, target_is_directory=True)


def pointer(model: Path, _: Path) -> None:
    (model / "model.safetensors").write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 5\n", encoding="utf-8"
    )


def huge_header(model: Path, _: Path) -> None:
    with (model / "model.safetensors").open("r+b") as stream:
        stream.write((2**62).to_bytes(8, "little"))


def huge_config(model: Path, _: Path) -> None:
    with (model / "config.json").open("r+b") as stream:
        stream.truncate(100 * 1024 * 1024)


def pipe(model: Path, _: Path) -> None:
    os.mkfifo(model / "pipe.safetensors")


@pytest.mark.parametrize(
    ("bypass", "code"),
    [
        (renamed, 1),
        (linked_out, 3),
        (folder_linked_out, 3),
        (pointer, 1),
        (huge_header, 1),
        (huge_config, 1),
        (pipe, 3),
    ],
)
def test_ways_around_it_leave_nothing_there(hub: Hub, bypass: Bypass, code: int, tmp_path: Path) -> None:
    model, sick = draft(tmp_path / "model"), draft(tmp_path / "sick", SICK)
    bypass(model, sick)
    assert run(["upload", str(model), "org/new"]) == code
    assert hub.asked == []


@pytest.mark.parametrize(
    ("repo", "options", "sentence"),
    [
        (
            "closed/new",
            [],
            "hf://closed/new: your token may not do that; use one that may (it says: You don't have the",
        ),
        ("org/old", ["--revision", "gone"], "hf://org/old: org/old has no branch, tag or commit gone"),
    ],
)
def test_what_the_hub_refuses_is_told_in_a_sentence(
    hub: Hub, repo: str, options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("org/old", {"README.md": b"#"})
    assert run(["upload", str(draft(tmp_path / "model")), repo, *options]) == 3
    assert sentence in capsys.readouterr().err
    assert hub.objects == {}


def test_without_a_token_the_sentence_says_how_to_log_in(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert run(["upload", str(draft(tmp_path / "model")), "org/new"]) == 3
    assert "the Hub does not know you; log in with `hf auth login`, or set HF_TOKEN" in capsys.readouterr().err
    assert hub.stored == 0


@pytest.mark.parametrize("repo", ["new", "org/", "/new", "a/b/c", "hf://org/new"])
def test_a_bad_name_is_a_wrong_call(hub: Hub, repo: str, tmp_path: Path) -> None:
    assert run(["upload", str(draft(tmp_path / "model")), repo]) == 2
    assert hub.asked == []


def test_only_folders_of_this_machine_are_uploaded(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    for path in (model / "model.safetensors", tmp_path / "gone", "hf://org/name"):
        assert run(["upload", str(path), "org/new"]) == 2
    assert hub.asked == []


def process(hub: Hub, tmp_path: Path, *args: str, before: str = "pass", **env: str) -> subprocess.CompletedProcess[str]:
    script = f"import sys; {before}; from ckptdoctor.cli.main import run; sys.exit(run())"
    settings = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home")}
    return subprocess.run(
        [sys.executable, "-c", script, *args], env={**os.environ, **settings, **env}, capture_output=True, text=True
    )


def test_the_settings_of_the_environment_hold(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    sent = process(hub, tmp_path, "upload", str(model), "org/new")
    assert sent.returncode == 0, sent.stderr
    assert hub.repositories["org/new"].tree() == files_of(model)
    scanned = process(hub, tmp_path, "scan", "hf://org/new", "--format", "github")
    assert (scanned.returncode, scanned.stderr) == (0, "")
    wrong = process(hub, tmp_path, "scan", "hf://org/new", "--format", "github", HF_ENDPOINT="http://[bad")
    assert wrong.returncode == 3
    assert "look at HF_ENDPOINT" in wrong.stderr
    offline = process(hub, tmp_path, "scan", "hf://org/new", HF_HUB_OFFLINE="1")
    assert offline.returncode == 3
    assert "HF_HUB_OFFLINE is" in offline.stdout


def test_without_the_package_the_command_says_what_to_install(hub: Hub, tmp_path: Path) -> None:
    model = draft(tmp_path / "model")
    for args in (("upload", str(model), "org/new"), ("scan", "hf://org/new", "--format", "json")):
        done = process(hub, tmp_path, *args, before="sys.modules['huggingface_hub'] = None")
        assert done.returncode == 3
        assert "install it with: pip install 'ckptdoctor[hub]'" in done.stderr


# The guard around code


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
