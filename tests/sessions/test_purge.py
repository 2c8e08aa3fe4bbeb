"""Tests of deleting captured sessions, locally and on a remote: only the named ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.errors import UsageError
from memory_ci.gitrepo.sessionrefs import list_remote, push, store
from memory_ci.sessions.capture import list_captured, purge_sessions
from tests.project import NOW, Project


@pytest.fixture
def captured(project: Project, tmp_path: Path) -> Project:
    """Return a project with three sessions, which the remote `origin` has, too."""
    project.git("remote", "add", "origin", str(project.bare(tmp_path / "origin.git").path))
    repo = project.workspace.repo
    for agent, session in (
        ("codex", "aaaaaaaa-1"),
        ("codex", "aaaaaaaa-2"),
        ("gemini", "bbbbbbbb-1"),
    ):
        store(repo, agent, session, {"digest.jsonl": b"x\n"}, NOW)
    push(repo, "origin", list_captured(project.workspace))
    return project


def list_sessions(project: Project) -> list[str]:
    return [stored.key for stored in list_captured(project.workspace)]


def count_refs(project: Project) -> int:
    return len(list_remote(project.workspace.repo, "origin"))


@pytest.mark.parametrize(
    ("name", "count"),
    [("bbbbbbbb-1", 1), ("gemini:bbbbbbbb", 1), ("aaaaaaaa", 2), ("codex:aaaaaaaa-2", 1)],
)
def test_a_session_is_named_by_its_key_its_id_or_its_beginning(
    captured: Project, name: str, count: int
) -> None:
    assert len(purge_sessions(captured.workspace, [name], dry_run=True)) == count
    assert len(list_sessions(captured)) == 3
    purge_sessions(captured.workspace, [name])
    assert len(list_sessions(captured)) == 3 - count
    assert count_refs(captured) == 3


@pytest.mark.parametrize("name", ["aaaa", "gemini:aaaaaaaa", "", "cccccccc"])
def test_an_unknown_name_deletes_nothing(captured: Project, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        purge_sessions(captured.workspace, ["bbbbbbbb", name])
    assert caught.value.slug == "unknown-session"
    assert len(list_sessions(captured)) == 3


def test_all_sessions_are_deleted_locally_and_on_the_remote_and_nothing_else(
    captured: Project,
) -> None:
    purge_sessions(captured.workspace, [], every=True, remote="origin")
    assert (list_sessions(captured), count_refs(captured)) == ([], 0)
    assert captured.git("for-each-ref", "--format=%(refname)", "refs/memory-ci/") == ""
    assert captured.git("ls-remote", "origin", "refs/heads/main") != ""


def test_a_session_deleted_locally_can_still_be_deleted_on_a_remote(captured: Project) -> None:
    purge_sessions(captured.workspace, [], every=True)
    purge_sessions(captured.workspace, ["gemini:bbbbbbbb"], remote="origin")
    assert count_refs(captured) == 2
