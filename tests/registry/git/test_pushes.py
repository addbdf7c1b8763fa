"""What git tells a hook of a push."""

from __future__ import annotations

import pytest
from git_repositories import needs_git

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.registry.git.pushes import Update, pre_push_updates, receive_updates

pytestmark = needs_git


def test_lines_of_hooks() -> None:
    new, old, none = "1a" * 20, "2b" * 32, "0" * 40
    lines = f"HEAD@{{1 day ago}} {new} refs/heads/x {none}\n(delete) {none} refs/heads/y {new}\n"
    assert pre_push_updates(lines.encode()) == (Update("refs/heads/x", new), Update("refs/heads/y", None))
    lines = f"{none} {old} refs/heads/x\n{new} {none} refs/tags/y\n"
    assert receive_updates(lines.encode()) == (Update("refs/heads/x", old), Update("refs/tags/y", None))
    assert pre_push_updates(b"") == ()
    for bad in (b"one two\n", b"a --help refs/x b\n", f"x {new[:-1]} refs/heads/x {none}\n".encode()):
        with pytest.raises(CannotExamineError, match="no line about a ref"):
            pre_push_updates(bad)
        with pytest.raises(CannotExamineError, match="no line about a ref"):
            receive_updates(bad)
