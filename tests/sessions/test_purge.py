"""Captured sessions are taken out: those that were named and no other, here and on a remote."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.errors import UsageError
from memory_ci.gitrepo.sessionrefs import list_remote, push, store
from memory_ci.sessions.capture import list_captured, purge_sessions
from tests.project import NOW, Project


@pytest.fixture
def captured(project: Project, tmp_path: Path) -> Project:
    """Three sessions, all of them on the remote `origin` too."""
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


def left(project: Project) -> list[str]:
    return [stored.key for stored in list_captured(project.workspace)]


def there(project: Project) -> int:
    return len(list_remote(project.workspace.repo, "origin"))


@pytest.mark.parametrize(
    ("wanted", "count"),
    [("bbbbbbbb-1", 1), ("gemini:bbbbbbbb", 1), ("aaaaaaaa", 2), ("codex:aaaaaaaa-2", 1)],
)
def test_a_session_is_named_by_its_key_its_id_or_its_beginning(
    captured: Project, wanted: str, count: int
) -> None:
    assert len(purge_sessions(captured.workspace, [wanted], dry_run=True)) == count
    assert len(left(captured)) == 3
    purge_sessions(captured.workspace, [wanted])
    assert len(left(captured)) == 3 - count
    assert there(captured) == 3


@pytest.mark.parametrize("wanted", ["aaaa", "gemini:aaaaaaaa", "", "cccccccc"])
def test_a_name_that_fits_none_deletes_nothing(captured: Project, wanted: str) -> None:
    with pytest.raises(UsageError) as caught:
        purge_sessions(captured.workspace, ["bbbbbbbb", wanted])
    assert caught.value.slug == "unknown-session"
    assert len(left(captured)) == 3


def test_all_are_gone_here_and_there_and_nothing_else_is(captured: Project) -> None:
    purge_sessions(captured.workspace, [], every=True, remote="origin")
    assert (left(captured), there(captured)) == ([], 0)
    assert captured.git("for-each-ref", "--format=%(refname)", "refs/memory-ci/") == ""
    assert captured.git("ls-remote", "origin", "refs/heads/main") != ""


def test_what_is_gone_here_can_still_be_taken_out_of_a_remote(captured: Project) -> None:
    purge_sessions(captured.workspace, [], every=True)
    purge_sessions(captured.workspace, ["gemini:bbbbbbbb"], remote="origin")
    assert there(captured) == 2
