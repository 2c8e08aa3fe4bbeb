"""Tests of an agent's note before it is committed: git commands do not lose, repeat or obstruct it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from memory_ci.commands.add.add import add_entry
from memory_ci.sessions.capture import capture
from memory_ci.sessions.marked_notes import collect_notes, load_pending, read_pending
from memory_ci.sessions.session_note import SessionActivity, note_activity, read_head
from memory_ci.store.layout import fragment_path
from tests.make import make_entry, make_id
from tests.project import IMPORTED_FROM, NOW, Project, copy_project, make_project

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
CLIENT, README = "src/client.py", "README.md"
SAID = "Never retry a charge in the caller."
NOTE = fragment_path(make_id(1))
KEY = "claude-code:s1"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    new_project = make_project(tmp_path_factory.mktemp("template") / "shop")
    new_project.branch("beside")
    new_project.commit("Beside", {"src/other.py": "other\n"})
    new_project.checkout("main")
    return new_project


@pytest.fixture
def project(template: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with our hooks and a session that made a note and edited the client."""
    new_project = copy_project(template, tmp_path / "shop")
    (new_project.path / ".git/hooks").mkdir(exist_ok=True)
    for hook in ("pre-commit", "prepare-commit-msg"):
        shutil.copy(ROOT / "hooks" / hook, new_project.path / ".git/hooks")
    command = tmp_path / "bin" / "memory-ci"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{IMPORTED_FROM}" exec "{sys.executable}" -m memory_ci "$@"\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(NOW.timestamp())))
    monkeypatch.setenv("GIT_EDITOR", "true")
    teach(new_project)
    return new_project


def teach(project: Project, number: int = 1, path: str = CLIENT) -> None:
    """Record that the agent's session edited a file, and add its note."""
    where = project.workspace
    sign = SessionActivity(
        agent="claude-code", session="s1", at=NOW - timedelta(hours=1), head=project.sha()
    )
    note_activity(where, msgspec.structs.replace(sign, branch=read_head(where)))
    project.write(path, "by the agent\n")
    note_activity(
        where,
        SessionActivity(
            agent="claude-code", session="s1", at=NOW - timedelta(minutes=9), edited=(path,)
        ),
    )
    entry = make_entry(
        number,
        evidence=(f"session:{KEY}#1 {SAID}",),
        created_at=NOW.date(),
        last_reinforced=NOW.date(),
    )
    added = add_entry(where, entry)
    assert (added.is_new, added.is_pending, ".git/" in added.path) == (True, True, True)


def count_entries(project: Project, rev: str = "HEAD") -> int:
    return project.git("log", "--format=", "--name-only", rev).split("\n").count(NOTE)


def test_a_pending_note_changes_neither_work_tree_nor_index_and_is_listed(project: Project) -> None:
    assert project.status() == f" M {CLIENT}"
    assert project.git("ls-files", ".memory/inbox") == ""
    (place,) = load_pending(project.workspace)
    assert place.entry.id == make_id(1)
    assert Path(place.path).is_file()
    output = project.git("-c", "alias.m=!memory-ci list", "m")
    assert make_id(1)[:8] in output


@pytest.mark.parametrize(
    "words", [["-am", "x"], ["-m", "x", "-i", CLIENT], ["-a", "-m", "x", "--signoff"]]
)
def test_a_commit_of_the_sessions_work_includes_the_note_once(
    project: Project, words: list[str]
) -> None:
    project.git("commit", "-q", *words)
    assert (count_entries(project), project.status()) == (1, "")
    assert "Memory-Session: claude-code:s1" in project.git("log", "-1", "--format=%B")
    assert read_pending(project.workspace) == {}
    project.write(CLIENT, "more\n")
    project.git("commit", "-qam", "More")
    assert (count_entries(project), list((project.path / ".git/memory-ci/notes").iterdir())) == (
        1,
        [],
    )


def test_a_commit_of_manually_staged_work_includes_the_note(project: Project) -> None:
    project.git("add", CLIENT)
    project.git("commit", "-qm", "x")
    assert (count_entries(project), project.status()) == (1, "")


def test_a_commit_of_a_path_contains_only_that_path(project: Project) -> None:
    project.git("commit", "-qm", "x", CLIENT)
    assert (count_entries(project), project.status(), len(read_pending(project.workspace))) == (
        0,
        "",
        1,
    )
    project.write(README, "more\n")
    project.git("commit", "-qam", "By hand")
    assert count_entries(project) == 0, "other work does not take it along"
    sign = SessionActivity(
        agent="claude-code", session="s1", at=NOW, edited=(CLIENT,), branch="refs/heads/main"
    )
    note_activity(project.workspace, sign)
    project.write(CLIENT, "more\n")
    project.git("commit", "-qam", "The session goes on")
    assert (count_entries(project), project.status()) == (1, "")


def test_a_commit_of_other_work_does_not_include_the_note(project: Project) -> None:
    project.write(README, "by hand\n")
    project.git("add", README)
    project.git("commit", "-qm", "By hand")
    assert (count_entries(project), len(read_pending(project.workspace))) == (0, 1)


def test_a_stash_does_not_change_the_note(project: Project) -> None:
    project.git("stash")
    assert project.status() == ""
    project.git("stash", "pop")
    project.git("commit", "-qam", "x")
    assert (count_entries(project), project.status()) == (1, "")


def test_a_rebase_does_not_change_the_note(project: Project) -> None:
    project.git("rebase", "-q", "--autostash", "beside")
    assert len(read_pending(project.workspace)) == 1
    project.git("commit", "-qam", "x")
    project.git("rebase", "-q", "HEAD~1")
    assert (count_entries(project), project.status()) == (1, "")
    assert read_pending(project.workspace) == {}


@pytest.mark.parametrize("is_committed", [True, False])
def test_pull_with_a_rebase_does_not_change_the_note(
    project: Project, tmp_path: Path, is_committed: bool
) -> None:
    remote = Project(project.bare(tmp_path / "remote.git").path)
    remote.git("update-ref", "refs/heads/main", "refs/heads/beside")
    project.git("remote", "add", "origin", str(remote.path))
    if is_committed:
        project.git("commit", "-qam", "x")
    project.git("pull", "-q", "--rebase", "--autostash", "origin", "main")
    assert len(read_pending(project.workspace)) == 1 - is_committed
    if not is_committed:
        project.git("commit", "-qam", "x")
    assert (count_entries(project), project.status()) == (1, "")


def test_an_amended_commit_has_the_note_once(project: Project) -> None:
    project.git("commit", "-qam", "x")
    project.write(CLIENT, "more\n")
    project.git("commit", "-qa", "--amend", "--no-edit")
    project.git("commit", "-q", "--amend", "-m", "Better words")
    assert (count_entries(project), project.status(), read_pending(project.workspace)) == (
        1,
        "",
        {},
    )


def test_amending_only_the_message_does_not_include_the_note(project: Project) -> None:
    project.git("commit", "-q", "--amend", "-m", "Better words")
    assert (count_entries(project), project.status(), len(read_pending(project.workspace))) == (
        0,
        f" M {CLIENT}",
        1,
    )


@pytest.mark.parametrize("is_all", [True, False])
@pytest.mark.parametrize("after", ["commit", "stash", "agent"])
def test_an_aborted_commit_does_not_lose_the_note(
    project: Project, is_all: bool, after: str
) -> None:
    project.git("add", *([] if is_all else [CLIENT]))
    given_up = subprocess.run(
        ["git", "commit", *(["-a"] if is_all else [])], cwd=project.path, capture_output=True
    )
    assert given_up.returncode == 1
    if after == "stash":
        project.git("stash")
    if after == "agent":
        collect_notes(project.workspace, KEY)
        assert ("?? .memory" in project.status()) is False
    if after != "stash":
        project.git("commit", "-qam", "x")
        assert (count_entries(project), project.status()) == (1, "")
        return
    project.write(CLIENT, "again\n")
    project.git("commit", "-qam", "x")
    assert (count_entries(project), len(read_pending(project.workspace))) == (1, 0)


def test_without_hooks_the_note_stays_pending(project: Project) -> None:
    project.git("commit", "-qam", "x", "--no-verify")
    assert (count_entries(project), len(read_pending(project.workspace))) == (0, 1)


def test_a_note_that_was_committed_elsewhere_is_not_committed_again(project: Project) -> None:
    project.git("checkout", "-qb", "work")
    project.git("commit", "-qam", "x")
    project.git("checkout", "-q", "main")
    project.write(CLIENT, "otherwise\n")
    project.git("commit", "-qam", "Otherwise")
    assert (count_entries(project), count_entries(project, "work")) == (0, 1)


def test_a_merge_does_not_include_the_note(project: Project) -> None:
    project.git("stash")
    project.git("merge", "-q", "--no-ff", "--no-commit", "beside")
    project.git("commit", "-qm", "Merge")
    assert (count_entries(project), len(read_pending(project.workspace))) == (0, 1)


def test_any_commit_includes_the_note_of_a_session_without_edits(project: Project) -> None:
    project.git("checkout", CLIENT)
    shutil.rmtree(project.path / ".git/memory-ci/given")
    project.write(README, "by hand\n")
    project.git("commit", "-qam", "x")
    assert count_entries(project) == 1


def test_a_linked_work_tree_has_its_own_notes(project: Project, tmp_path: Path) -> None:
    linked = Project(project.worktree(tmp_path / "linked", "side").path)
    teach(linked, 2)
    linked.git("commit", "-qam", "x")
    assert (count_entries(linked), linked.status()) == (0, "")
    assert fragment_path(make_id(2)) in linked.git("ls-files")
    assert len(read_pending(project.workspace)) == 1


def test_the_next_hook_writes_a_note_that_the_agent_could_not_write_to_the_git_directory(
    project: Project,
) -> None:
    place = project.path / ".git/memory-ci/notes"
    shutil.rmtree(place)
    place.write_text("in the way")
    entry = make_entry(3, evidence=(f"session:{KEY}#1 {SAID}",))
    added = add_entry(project.workspace, entry)
    assert (added.path, added.is_pending) == (fragment_path(make_id(3)), False)
    collect_notes(project.workspace, KEY)
    assert (project.path / added.path).is_file(), "still not"
    place.unlink()
    collect_notes(project.workspace, "claude-code:other")
    assert (project.path / added.path).is_file(), "another session's"
    collect_notes(project.workspace, KEY)
    assert not (project.path / added.path).exists()
    assert list(read_pending(project.workspace)) == [added.path]


# -- beside the captured session


def transcript(project: Project, text: str = SAID) -> Path:
    record = {"type": "user", "sessionId": "s1", "uuid": "u1", "timestamp": "2026-11-20T10:00:00Z"}
    turn = {**record, "cwd": str(project.path), "message": {"role": "user", "content": text}}
    return project.write(".git/s1.jsonl", f"{json.dumps(turn)}\n")


@pytest.mark.parametrize("place", ["detached", "linked", "without hooks"])
def test_a_note_in_no_commit_is_found_with_the_captured_session(
    project: Project, tmp_path: Path, place: str
) -> None:
    desk = project
    if place == "detached":
        project.git("checkout", "-q", "--detach")
    if place == "linked":
        desk = Project(project.worktree(tmp_path / "linked", "side").path)
        shutil.rmtree(project.path / ".git/memory-ci/notes")
        teach(desk)
    capture(desk.workspace, transcript(project), NOW)
    if place == "linked":
        project.git("worktree", "remove", "--force", str(desk.path))
    project.git("stash")
    project.git("checkout", "-q", "main")
    shutil.rmtree(project.path / ".git/memory-ci/notes", ignore_errors=True)
    capture(project.workspace, transcript(project), NOW)
    project.at(NOW).commit(
        "Charge once\n\nMemory-Session: claude-code:s1", {CLIENT: "by the agent\n"}
    )
    project.record()
    assert [entry.evidence for entry in project.entries() if entry.id == make_id(1)] == [
        (f"session:{KEY}#1 {SAID}",)
    ]
    project.at(NOW + timedelta(minutes=5)).commit(
        "More\n\nMemory-Session: claude-code:s1", {CLIENT: "more\n"}
    )
    project.git("rm", "-q", "MEMORY.md")
    project.commit("A person takes it out")
    project.record()
    assert "MEMORY.md" not in project.git("ls-files").splitlines(), (
        "what a person took out does not come back"
    )


def test_a_note_in_a_commit_and_with_the_session_is_one_learning(project: Project) -> None:
    capture(project.workspace, transcript(project), NOW)
    project.git("commit", "-qam", "x")
    project.record()
    assert [entry.id for entry in project.entries()].count(make_id(1)) == 1
    assert project.git("ls-files", ".memory/inbox") == ""


def test_a_note_whose_quote_the_session_does_not_prove_is_not_a_learning(project: Project) -> None:
    capture(project.workspace, transcript(project, "Retry it where you like."), NOW)
    project.at(NOW).commit("x\n\nMemory-Session: claude-code:s1", {README: "x\n"})
    plan = project.plan()
    assert make_id(1) not in str(plan.steps)
    assert any("of the session claude-code:s1" in problem for problem in plan.problems)


def test_a_thousand_notes_are_searched_with_few_git_calls(project: Project) -> None:
    first = next((project.path / ".git/memory-ci/notes").iterdir())
    for number in range(2, 1_002):
        name = first.name.replace(make_id(1), make_id(number))
        first.with_name(name).write_bytes(
            first.read_bytes().replace(make_id(1).encode(), make_id(number).encode())
        )
    assert len(read_pending(project.workspace)) == 1_000
    project.git("commit", "-qam", "x")
    assert project.status() == ""
