"""Tests of the commit writer: no hook, setting or variable of the user takes effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.gitrepo.repo import Repository
from memory_ci.gitrepo.writer import PlannedCommit
from tests.gitrepo.writing import WHEN, series, state, write
from tests.repos import RepoBuilder, make_repo

pytestmark = pytest.mark.usefixtures("scratch", "check_nothing_left_behind")


def test_hooks_signatures_and_settings_of_the_user_have_no_effect(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    hooks = builder.path / ".git" / "hooks"
    hooks.mkdir()
    for name in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "post-checkout",
    ):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\nexit 1\n")
        (hooks / name).chmod(0o755)
    for setting in (
        "commit.gpgSign=true",
        "gpg.program=false",
        "core.splitIndex=true",
        "i18n.commitEncoding=latin1",
    ):
        builder.git("config", *setting.split("="))
    config = (builder.path / ".git" / "config").read_bytes()
    commits = [PlannedCommit({"MEMORY.md": b"m\n"}, "memory: café\n")]
    tip = write(repo, commits)
    assert list(tmp_path.glob("ran-*")) == []
    assert (builder.path / ".git" / "config").read_bytes() == config
    assert builder.git("cat-file", "commit", tip).endswith("\n\nmemory: café")
    assert "encoding" not in builder.git("cat-file", "commit", tip)
    assert "gpgsig" not in builder.git("cat-file", "commit", tip)


def test_git_variables_of_a_calling_hook_are_ignored(
    builder: RepoBuilder, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_repo = make_repo(tmp_path / "other")
    other_repo.commit("Theirs", {"theirs.md": "t\n"})
    theirs = state(other_repo)
    monkeypatch.setenv("GIT_DIR", str(other_repo.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other_repo.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other_repo.path / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other_repo.path / ".git" / "objects"))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "@1 +0000")
    tip = write(repo, series({"MEMORY.md": b"m\n"}))
    assert builder.git("log", "-1", "--format=%at", tip) == str(int(WHEN.timestamp()))
    assert builder.git("status", "--porcelain") == ""
    assert state(other_repo) == theirs
