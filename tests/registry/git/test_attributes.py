"""Git's door and `.gitattributes`: what is judged is what a real clone then holds, or the push is refused."""

from __future__ import annotations

import filecmp
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from gate_drafts import HEALTHY
from git_repositories import Door, door_in, installed, judged, needs_git, needs_lfs
from test_git_server import server

pytestmark = needs_git

LFS = "*.safetensors filter=lfs diff=lfs merge=lfs -text\n"


@dataclass(frozen=True)
class Form:
    """One form of `.gitattributes`: its text by path, added after the draft was committed as `lfs` says.

    `says` is what the refusal says, None where it passes; `same` whether a clone on this system holds the draft.
    """

    name: str
    files: dict[str, str]
    says: str | None
    same: bool
    lfs: bool = True


FORMS = [
    Form("usual", {".gitattributes": LFS}, None, True),
    Form("macro", {".gitattributes": "[attr]big filter=lfs -text\n*.safetensors big\n"}, None, True),
    Form("absent", {".gitattributes": "# nothing\n"}, "no .gitattributes says filter=lfs for it", False),
    Form("taken off", {".gitattributes": f"{LFS}model.* -filter\n"}, "they take filter=lfs off it", False),
    Form("taken off in a folder", {"draft/.gitattributes": "*.safetensors !filter\n"}, "filter=lfs for it", False),
    Form("pointer with CRLF", {".gitattributes": "*.safetensors filter=lfs text eol=crlf\n"}, None, True),
    Form("pointer in UTF-16", {".gitattributes": "*.safetensors filter=lfs working-tree-encoding=UTF-16LE\n"},
         "has the pointer that git-lfs is to read in the encoding UTF-16LE", False),
    Form("weights with CRLF", {".gitattributes": "*.safetensors text eol=crlf\n"},
         "it with other line ends (text eol=crlf in .gitattributes)", False, lfs=False),
    Form("config in UTF-16", {".gitattributes": "*.json working-tree-encoding=UTF-16\n"},
         "a clone has it in the encoding UTF-16", False, lfs=False),
    Form("ident", {".gitattributes": "*.json ident\n"}, None, True, lfs=False),
    Form("another filter", {"draft/.gitattributes": "*.json filter=shorten\n"},
         "it to the filter shorten", True, lfs=False),
    Form("text by content", {".gitattributes": "* text=auto\n"}, None, True, lfs=False),
    Form("in capitals", {".gitattributes": f"{LFS}*.SAFETENSORS -filter\n"}, "in other upper and lower case", True),
]  # fmt: skip


def pushed(form: Form, folder: Path) -> tuple[Door, Path]:
    """A clone with a healthy draft and then the attributes of `form` in its last commit, and the draft as it was."""
    door = door_in(folder, lfs=form.lfs)
    door.put(HEALTHY, "draft")
    kept = folder / "kept"
    shutil.copytree(door.clone / "draft", kept)
    for name, text in form.files.items():
        (door.clone / name).write_text(text, encoding="utf-8")
        door.git("add", name)  # nothing else: what is stored of the draft stays as it is
    door.git("commit", "--quiet", "--no-verify", "--allow-empty", "--message", form.name)
    return door, kept


def cloned(door: Door, folder: Path) -> Path:
    """The draft in a new clone of the remote, with git-lfs installed."""
    door.git("lfs", "install", "--skip-repo", at=folder)
    door.run("git", "clone", "--quiet", door.remote.as_uri(), str(folder / "fresh"), at=folder)
    return folder / "fresh" / "draft"


@needs_lfs
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_of_attributes_at_both_doors_and_in_a_real_clone(form: Form, tmp_path: Path) -> None:
    door, kept = pushed(form, tmp_path)
    installed(door)
    done = door.push("main")
    said = " ".join(done.stderr.split())
    assert (done.returncode == 0) is (form.says is None), said
    assert form.says is None or form.says in said
    if form.lfs:
        door.git("lfs", "push", "--all", "origin")
    server(door)
    done = door.push("--no-verify", "main:refs/heads/other")
    said = " ".join(done.stderr.replace("remote:", "").split())
    assert (done.returncode == 0) is (form.says is None), said
    assert form.says is None or form.says in said
    (door.remote / "hooks" / "pre-receive").unlink()
    door.push("--no-verify", "main")
    fresh = cloned(door, tmp_path)
    names = [path.name for path in kept.iterdir()]
    _, differ, lost = filecmp.cmpfiles(kept, fresh, names, shallow=False)
    assert (not differ and not lost) is form.same, (differ, lost)


def test_settings_of_this_repository_are_none_of_a_clone(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = door.put(HEALTHY)
    info = door.clone / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("*.json filter=shorten\n", encoding="utf-8")
    assert judged(door, commit, monkeypatch).outcome == "passed"


def test_an_id_that_a_clone_expands_is_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    door.put(HEALTHY)
    config = door.clone / "config.json"
    config.write_text(config.read_text("utf-8").replace("{", '{"_note": "$Id$",', 1), encoding="utf-8")
    (door.clone / ".gitattributes").write_text("*.json ident\n", encoding="utf-8")
    assert "the id of its content in place of $Id$" in judged(door, door.commit(), monkeypatch).sentence


@needs_lfs
@pytest.mark.parametrize(
    ("settings", "outcome"),
    [("[lfs]\n\tfetchexclude = *\n", "refused"), ("[lfs]\n\tfetchinclude = other/*\n", "refused"),
     ("[lfs]\n\tlocksverify = true\n", "passed")],
)  # fmt: skip
def test_objects_that_the_tree_keeps_from_being_fetched(
    settings: str, outcome: str, lfs_door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lfs_door.clone / ".lfsconfig").write_text(settings, encoding="utf-8")
    verdict = judged(lfs_door, lfs_door.put(HEALTHY), monkeypatch)
    assert verdict.outcome == outcome, verdict.sentence


@pytest.mark.parametrize(
    ("first", "second"),
    [("config.json", "Config.json"), ("draft/config.json", "Draft/README.md"), ("é.json", "e\u0301.json")],
)
def test_names_that_differ_in_case_alone(first: str, second: str, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = first.rpartition("/")[0] or "."
    door.put(HEALTHY, folder)
    for name in (first, second):
        path = door.clone / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_text("{}", encoding="utf-8")
    verdict = judged(door, door.commit(), monkeypatch)
    assert "are one name on macOS and Windows" in verdict.sentence


def test_names_in_two_cases_where_no_draft_is_are_none_of_ours(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    door.put(HEALTHY, "draft")
    for name in ("notes/readme.json", "notes/README.json", "draft/readme.md", "draft/README.md"):
        (door.clone / name).parent.mkdir(exist_ok=True)
        (door.clone / name).write_text("{}", encoding="utf-8")
    assert judged(door, door.commit(), monkeypatch).outcome == "passed"


@pytest.mark.parametrize("name", [".GitAttributes", "draft/.GITATTRIBUTES"])
def test_attributes_under_a_name_in_capitals_are_refused(
    name: str, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    door.put(HEALTHY, "draft")
    (door.clone / name).write_text("* -filter\n", encoding="utf-8")
    assert "it counts as .gitattributes" in judged(door, door.commit(), monkeypatch).sentence


def test_ten_thousand_other_files_are_no_reason_to_refuse(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    door.put(HEALTHY, "draft")
    blob = door.blob(b"x")
    rows = "".join(f"100644 {blob}\tdraft/{number}.txt\n" for number in range(10_001))
    door.git("update-index", "--index-info", stdin=rows.encode())
    door.git("commit", "--quiet", "--no-verify", "--message", "many")
    assert judged(door, "HEAD", monkeypatch).outcome == "passed"
