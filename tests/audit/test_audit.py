"""Audits of folders: what is scanned, with which target, what is kept, and that nothing stops the others."""

from __future__ import annotations

import json
import os
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest
from audit_trees import HEALTHY, SICK, WARNED, Silent, audited, draft, rows_of
from jsonschema import Draft202012Validator

from ckptdoctor.audit.state import RESULTS, open_state
from ckptdoctor.audit.summary_html import render_html
from ckptdoctor.audit.summary_text import headline, render_text
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.policy import load_policy
from ckptdoctor.report.scan.confidence import capped
from ckptdoctor.report.scan.json_report import as_data
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.resources import rules_dir
from ckptdoctor.scanning import scan_paths

SCHEMA = json.loads((rules_dir() / "schema" / "audit.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy, a sick and a warned draft, their target, an ordinary model, and what is not audited."""
    root = tmp_path_factory.mktemp("trees") / "registry"
    draft(root / "a" / "healthy")
    draft(root / "b" / "sick", SICK)
    draft(root / "b" / "warned", WARNED)
    whole = draft(root / "models" / "with-target", target=True)
    shutil.move(whole / "target", root / "models" / "llama")
    shutil.rmtree(whole)
    draft(root / "plain", "plain-model")
    draft(root / ".hidden" / "draft", SICK)
    (root / "empty").mkdir()
    (root / "link").symlink_to(root / "b" / "sick")
    return root


def copy(tree: Path, to: Path) -> Path:
    shutil.copytree(tree, to / "registry", symlinks=True)
    return to / "registry"


def single(path: Path, target: Path | None) -> dict[str, object]:
    report = scan_paths([str(path)], target=None if target is None else str(target), rules=(), select=(), ignore=())
    return dict(as_data(capped(report))["checkpoints"][0])


def test_an_audit_says_what_single_scans_say(tmp_path: Path) -> None:
    root = tmp_path / "registry"
    recipes = (HEALTHY, SICK, WARNED, "speculators-eagle3", "mla-eagle3", "medusa-original", "specforge-dflash")
    for number in range(40):
        draft(root / f"team{number % 3}" / f"{number:02d}", recipes[number % len(recipes)])
    draft(root / "models" / "llama", target=True)
    for path in (root / "models" / "llama").iterdir():
        if path.is_file():
            path.unlink()
    summary, lines = audited(root, jobs=2)
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 40
    told = {row["path"]: row["report"] for row in rows}
    targets = {row["path"]: row["target"]["path"] for row in rows}
    alone = {path: single(Path(path), Path(target) if target else None) for path, target in targets.items()}
    assert told == alone
    assert sum(target is not None for target in targets.values()) > 10
    for severity in ("error", "warning", "note"):
        found = [f for report in alone.values() for f in report["findings"] if f["severity"] == severity]  # type: ignore[attr-defined]
        assert summary.findings[severity] == len(found)


def test_every_draft_is_scanned_and_paired(tree: Path) -> None:
    summary, lines = audited(tree)
    rows = rows_of(lines)
    assert [json.loads(line)["key"] for line in lines] == [
        "registry/a/healthy", "registry/b/sick", "registry/b/warned", "registry/plain",
    ]  # fmt: skip
    assert {key: row["outcome"] for key, row in rows.items()} == {
        "healthy": "scanned", "sick": "scanned", "warned": "scanned", "plain": "model",
    }  # fmt: skip
    assert summary.counts["drafts"] == 3
    assert (summary.counts["error"], summary.counts["warning"], summary.counts["models"]) == (1, 1, 1)
    assert summary.sick[0].key == "registry/b/sick"
    told = "3 drafts: 1 with errors, 1 with warnings, 1 without; 1 not served as trained; 2 not known to be served"
    assert headline(summary) == f"{told}; 1 ordinary model"
    assert summary.counted()


def test_all_lines_are_as_the_schema_says(tree: Path, tmp_path: Path) -> None:
    root = copy(tree, tmp_path)
    (root / "b" / "gone").mkdir()
    (root / "b" / "gone" / "model.bin").write_bytes(b"no pickle")
    summary, lines = audited(root)
    validator = Draft202012Validator(SCHEMA)
    for line in (*map(json.loads, lines), summary.as_data()):
        assert [error.message for error in validator.iter_errors(line)] == []


def test_pages_show_names_as_text(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    name = "<script>alert(1)\u202e\n[red]"
    draft(tmp_path / "r" / name, SICK)
    summary, _ = audited(tmp_path / "r")
    page = render_html(summary)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)\\u202e\\x0a[red]" in page
    assert "http" not in page
    text = render_text(summary, Surface())
    assert "<script>alert(1)\\u202e\\x0a[red]" in text.replace("\n      ", "")


def test_an_audit_goes_on_with_what_is_left(tree: Path, tmp_path: Path) -> None:
    root, out = copy(tree, tmp_path), tmp_path / "out"
    first, lines = audited(root, out)
    results = out / RESULTS
    kept = results.read_bytes().splitlines(keepends=True)
    assert first.kept == 0

    watch = Silent()
    again, same = audited(root, out, watch)
    assert (watch.begun, same) == ([], lines)
    assert again.counts == first.counts

    # Killed while it wrote the line of one draft.
    left = [line for line in kept if b'"key": "registry/b/sick"' not in line]
    torn = next(line for line in kept if line not in left)
    results.write_bytes(b"".join(left) + torn[: len(torn) // 2])
    watch = Silent()
    audited(root, out, watch)
    assert watch.begun == ["registry/b/sick"]
    assert sorted(json.loads(line)["key"] for line in results.read_bytes().splitlines()) == sorted(
        json.loads(line)["key"] for line in kept
    )

    # Files that changed, a draft that is gone, a new one.
    os.utime(root / "a" / "healthy" / "config.json", (1, 1))
    shutil.rmtree(root / "b" / "warned")
    shutil.copytree(root / "b" / "sick", root / "c")
    watch = Silent()
    summary, _ = audited(root, out, watch)
    assert sorted(watch.begun) == ["registry/a/healthy", "registry/c"]
    assert summary.counts["drafts"] == 3
    assert b"b/warned" not in results.read_bytes()

    watch = Silent()
    audited(root, out, watch, fresh=True)
    assert {"registry/a/healthy", "registry/b/sick", "registry/c"} <= set(watch.begun)


def test_another_policy_or_target_scans_again(tree: Path, tmp_path: Path) -> None:
    root, out = copy(tree, tmp_path), tmp_path / "out"
    shutil.rmtree(root / "plain")  # it has the same sizes
    audited(root, out)
    policy = tmp_path / "ckptdoctor.toml"
    policy.write_text("[severity]\nVOC001 = 'warning'\n", encoding="utf-8")
    watch = Silent()
    summary, _ = audited(root, out, watch, policy=load_policy(policy))
    assert "registry/b/sick" in watch.begun
    assert (summary.counts["error"], summary.counts["warning"]) == (0, 2)
    watch = Silent()
    audited(root, out, watch, policy=load_policy(policy))
    assert watch.begun == []
    # The target of all three is another one now.
    config = root / "models" / "llama" / "config.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**document, "max_position_embeddings": 131072}), encoding="utf-8")
    watch = Silent()
    audited(root, out, watch, policy=load_policy(policy))
    assert {"registry/a/healthy", "registry/b/sick", "registry/b/warned"} <= set(watch.begun)


def test_an_exception_that_ends_scans_again(tree: Path, tmp_path: Path) -> None:
    policy = tmp_path / "ckptdoctor.toml"
    today = date.today()
    policy.write_text(
        f"[[ignore]]\nrule = 'VOC001'\nreason = 'known'\nexpires = '{today.isoformat()}'\n", encoding="utf-8"
    )
    loaded = load_policy(policy)
    now, _ = audited(tree / "b", tmp_path / "out", policy=loaded)
    assert now.counts["error"] == 0
    watch = Silent()
    later = today + timedelta(days=1)
    audited(tree / "b", tmp_path / "out", watch, policy=loaded, today=later)
    assert "b/sick" in watch.begun


def test_a_folder_that_cannot_be_examined_does_not_stop_the_others(tree: Path, tmp_path: Path) -> None:
    root = copy(tree, tmp_path)
    (root / "b" / "loop").mkdir()
    (root / "b" / "loop" / "model.safetensors").symlink_to("model.safetensors")
    os.mkfifo(root / "b" / "pipe.safetensors")
    (root / "b" / "pipe").mkdir()
    os.mkfifo(root / "b" / "pipe" / "config.json")
    (root / "b" / "pipe" / "model.safetensors").write_bytes(b"")
    crowd = root / "b" / "crowd"
    crowd.mkdir()
    for number in range(10_001):
        (crowd / f"{number}.safetensors").touch()
    summary, lines = audited(root)
    rows = rows_of(lines)
    assert rows["crowd"]["outcome"] == "unreadable"
    assert "holds more than 10000 weight files" in str(rows["crowd"]["reason"])
    assert summary.failed == 1
    assert {"healthy", "sick", "warned", "loop", "pipe", "b"} <= rows.keys()


def test_those_not_examined_are_tried_again_when_asked(tmp_path: Path) -> None:
    root, out = tmp_path / "r", tmp_path / "out"
    (root / "a").mkdir(parents=True)
    for number in range(10_001):
        (root / "a" / f"{number}.safetensors").touch()
    for retry, begun in ((False, ["r/a"]), (False, []), (True, ["r/a"])):
        watch = Silent()
        summary, _ = audited(root, out, watch, retry=retry)
        assert (watch.begun, summary.counts["unreadable"]) == (begun, 1)


def test_two_audits_cannot_use_one_folder(tree: Path, tmp_path: Path) -> None:
    with open_state(tmp_path / "out", fresh=False), pytest.raises(CannotExamineError, match="another audit is writing"):
        audited(tree, tmp_path / "out")


def test_a_state_that_is_no_state_of_ours_is_not_believed(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _, lines = audited(tree / "b", out)
    head = lines[0][: lines[0].index(b",")]
    (out / RESULTS).write_bytes(b"\xff\xfe junk\n[1, 2]\n" + head + b', "outcome": {"}\n' + head + b"}\n")
    watch = Silent()
    _, again = audited(tree / "b", out, watch)
    assert sorted(set(watch.begun)) == ["b/sick", "b/warned"]
    assert [json.loads(line)["report"] for line in again] == [json.loads(line)["report"] for line in lines]


def test_a_state_that_is_a_link_is_refused(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "precious").write_text("mine", encoding="utf-8")
    (tmp_path / "out" / RESULTS).symlink_to(tmp_path / "precious")
    with pytest.raises(CannotExamineError, match="cannot be used"):
        audited(tree, tmp_path / "out", fresh=True)
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "mine"


def test_snapshots_of_a_download_cache_are_checkpoints(tmp_path: Path) -> None:
    cache = tmp_path / "hub" / "models--org--name"
    real = draft(tmp_path / "real")
    for revision in ("aaa", "bbb"):
        snapshot = cache / "snapshots" / revision
        snapshot.mkdir(parents=True)
        (cache / "blobs").mkdir(exist_ok=True)
        for file in real.iterdir():
            shutil.copy(file, cache / "blobs" / f"{revision}{file.name}")
            (snapshot / file.name).symlink_to(f"../../blobs/{revision}{file.name}")
    _, lines = audited(tmp_path / "hub")
    assert [(json.loads(line)["key"], json.loads(line)["outcome"]) for line in lines] == [
        ("hub/models--org--name/snapshots/aaa", "scanned"),
        ("hub/models--org--name/snapshots/bbb", "scanned"),
    ]


def test_a_tree_of_too_many_folders_is_refused(tree: Path) -> None:
    with pytest.raises(CannotExamineError, match="has more than 3 folders"):
        audited(tree, folders=3)
