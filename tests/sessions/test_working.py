"""Tests of joining a person's commit with the sessions whose work it contains."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from memory_ci.sessions.active_session import (
    add_session_trailer,
    find_index,
    list_committing_sessions,
)
from memory_ci.sessions.session_note import (
    SessionActivity,
    get_note_path,
    list_activities,
    note_activity,
    read_head,
)
from tests.project import NOW, Project

CLIENT, README = "src/client.py", "README.md"


class Desk:
    """A work tree where the session `s` works; times are hours before NOW."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def sign(self, hours: float, session: str = "s", **fields: object) -> Desk:
        at = NOW - timedelta(hours=hours)
        sign = SessionActivity(agent="codex", session=session, at=at, **fields)  # type: ignore[arg-type] # named by the test
        note_activity(self.project.workspace, sign)
        return self

    def prompt(self, hours: float = 2, session: str = "s") -> Desk:
        where = self.project.workspace
        return self.sign(hours, session, branch=read_head(where), head=self.project.sha())

    def edit(self, path: str = CLIENT, hours: float = 1, session: str = "s") -> Desk:
        self.project.write(path, f"by {session} {hours}\n")
        return self.sign(hours, session, edited=(path,), branch=read_head(self.project.workspace))

    def stage(self, *paths: str) -> Desk:
        return self.git("add", *paths or (CLIENT,))

    def git(self, *words: str) -> Desk:
        self.project.git(*words)
        return self

    def commit(self, path: str, hours: float) -> Desk:
        self.project.at(NOW - timedelta(hours=hours)).commit("By hand", {path: f"at {hours}\n"})
        return self


CASES: dict[str, tuple[Callable[[Desk], object], str]] = {
    "edited and staged": (lambda d: d.prompt().edit().stage(), "s"),
    "nothing staged": (lambda d: d.prompt().edit(), ""),
    "another file staged": (
        lambda d: d.prompt().edit().edit(README, session="x").stage(README),
        "",
    ),
    "one of two files staged": (lambda d: d.prompt().edit(README).edit().stage(), "s"),
    "a prompt and no edit": (lambda d: d.prompt().stage(), ""),
    "an edit without a prompt": (lambda d: d.edit().stage(), ""),
    "a sign of life in the eighth hour": (lambda d: d.prompt(12).edit(hours=7.9).stage(), "s"),
    "no sign of life for eight hours": (lambda d: d.prompt(12).edit(hours=8.1).stage(), ""),
    "ended before the commit": (lambda d: d.prompt().edit().sign(0.5, is_over=True).stage(), "s"),
    "ended long ago": (lambda d: d.prompt(30).edit(hours=29).sign(28, is_over=True).stage(), ""),
    "two sessions, one edited it": (lambda d: d.prompt(session="x").prompt().edit().stage(), "s"),
    "two sessions, both edited it": (
        lambda d: d.prompt(session="x").edit(session="x").prompt().edit(hours=0.5).stage(),
        "s x",
    ),
    "edited before the last commit of the file": (
        lambda d: d.prompt().edit(hours=1.5).commit(CLIENT, 1).stage(),
        "",
    ),
    "edited again after it": (
        lambda d: d.prompt().edit(hours=1.5).commit(CLIENT, 1).edit(hours=0.5).stage(),
        "s",
    ),
    "another file was committed since": (
        lambda d: d.prompt().edit(hours=1.5).commit(README, 1).stage(),
        "s",
    ),
    "a new branch at the same commit": (
        lambda d: d.prompt().edit().git("checkout", "-qb", "new").stage(),
        "s",
    ),
    "another branch at another commit": (
        lambda d: (
            d.git("checkout", "-qb", "old", "HEAD~1")
            .prompt()
            .edit()
            .git("checkout", "-q", "-m", "main")
            .stage()
        ),
        "",
    ),
    "the branch went on": (lambda d: d.prompt().edit().commit(README, 0.5).stage(), "s"),
    "a new branch that went on while it worked": (
        lambda d: d.prompt().git("checkout", "-qb", "new").commit(README, 1.5).edit().stage(),
        "s",
    ),
    "a detached HEAD": (lambda d: d.git("checkout", "-q", "--detach").prompt().edit().stage(), "s"),
    "detached elsewhere since": (
        lambda d: d.prompt().edit(README).git("checkout", "-q", "--detach", "HEAD~1").stage(README),
        "",
    ),
    "a new file": (lambda d: d.prompt().edit("src/new.py").stage("src/new.py"), "s"),
    "a file with odd letters": (lambda d: d.prompt().edit("src/* é.py").stage("src"), "s"),
    "an edit that was undone": (lambda d: d.prompt().edit().git("checkout", CLIENT).stage(), ""),
    "the file is staged as deleted": (lambda d: d.prompt().edit().git("rm", "-qf", CLIENT), "s"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_commit_is_joined_with_the_sessions_whose_work_it_contains(
    project: Project, name: str
) -> None:
    play, expected = CASES[name]
    play(Desk(project))
    where = project.workspace
    assert sorted(list_committing_sessions(where, find_index(where, {}), NOW)) == [
        f"codex:{name}" for name in expected.split()
    ]


def test_a_linked_work_tree_knows_its_own_sessions(project: Project, tmp_path: Path) -> None:
    Desk(project).prompt().edit().stage()
    linked = Project(project.worktree(tmp_path / "linked", "side").path)
    linked.write(CLIENT, "other\n")
    linked.git("add", CLIENT)
    assert list_committing_sessions(linked.workspace, find_index(linked.workspace, {}), NOW) == ()
    Desk(linked).prompt().edit().stage()
    assert list_committing_sessions(linked.workspace, find_index(linked.workspace, {}), NOW) == (
        "codex:s",
    )


def test_it_is_added_to_the_committing_session_unless_a_person_names_one(
    project: Project,
) -> None:
    Desk(project).prompt().edit().stage()
    message = project.write(".git/COMMIT_EDITMSG", "Do it\n")
    add_session_trailer(project.workspace, message, {"CLAUDE_CODE_SESSION_ID": "c1"}, NOW)
    assert message.read_text() == "Do it\n\nMemory-Session: claude-code:c1, codex:s\n"
    for environment in ({"MEMORY_CI_SESSION": ""}, {"MEMORY_CI_SESSION": "aider:1"}):
        message.write_text("Do it\n")
        add_session_trailer(project.workspace, message, environment, NOW)
        assert "codex" not in message.read_text()


def test_work_that_was_committed_before_is_not_joined_again(project: Project) -> None:
    Desk(project).prompt().edit().stage()
    message = project.write(".git/COMMIT_EDITMSG", "Do it\n")
    project.write(".git/CHERRY_PICK_HEAD", f"{project.sha()}\n")
    assert not add_session_trailer(project.workspace, message, {}, NOW)


@pytest.mark.parametrize("words", [("-a",), (CLIENT,), ("-i", CLIENT), ()])
def test_the_index_is_that_of_the_commit(project: Project, words: tuple[str, ...]) -> None:
    """`git commit -a` and `git commit PATH` use their own index, which only the hook knows."""
    Desk(project).prompt().edit().edit(README, session="x").prompt(session="x")
    project.git("add", *([] if words else [CLIENT]))
    log = project.path / ".git/told"
    project.write(
        ".git/hooks/prepare-commit-msg", f'#!/bin/sh\ngit diff --cached --name-only >"{log}"\n'
    ).chmod(0o755)
    hook = project.path / ".git/hooks/prepare-commit-msg"
    hook.write_text(
        f'#!/bin/sh\necho "$GIT_INDEX_FILE" >"{log}"; cp "$GIT_INDEX_FILE" "{log}.index"\n'
    )
    subprocess.run(
        ["git", "commit", "-qm", "x", *words],
        cwd=project.path,
        check=True,
        env={**os.environ, **AUTHOR},
    )
    assert (
        find_index(project.workspace, {"GIT_INDEX_FILE": log.read_text().strip()}).parent
        == project.path / ".git"
    )
    project.git("reset", "-q", "--soft", "HEAD~1")
    sessions = list_committing_sessions(project.workspace, Path(f"{log}.index"), later(NOW))
    assert set(sessions) == {"codex:s", *(["codex:x"] if words == ("-a",) else [])}


AUTHOR = {
    f"GIT_{role}_{field}": "a@b" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")
}


def later(when: datetime) -> datetime:
    return when + timedelta(minutes=1)


@pytest.mark.parametrize(
    "forged", ["s\nSigned-off-by: Eve <eve@example.com>", "a, codex:b", "", "x" * 300]
)
def test_a_forged_session_adds_nothing_to_a_message(project: Project, forged: str) -> None:
    Desk(project).prompt(session=forged).edit(session=forged).stage()
    message = project.write(".git/COMMIT_EDITMSG", "Do it\n")
    assert not add_session_trailer(project.workspace, message, {}, NOW)
    assert message.read_text() == "Do it\n"


def test_a_session_with_many_events_is_recognised(project: Project) -> None:
    desk = Desk(project).prompt()
    note = get_note_path(project.workspace, "s")
    with note.open("a") as stream:
        stream.write("0123456789abcdef\n" * 40_000)
    size = note.stat().st_size
    desk.edit().stage()
    assert note.stat().st_size == size
    desk.prompt(1)
    assert len(list_activities(project.workspace, "s")) == 2
