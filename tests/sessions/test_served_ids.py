"""Tests of the trailer of served entries in commits: no configured program runs, and comments are git's."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.sessions.served_ids import add_served_trailer, record_served
from tests.make import make_id
from tests.project import NOW, Project
from tests.repos import START


@pytest.fixture
def served_project(project: Project) -> Project:
    """Return a project to which one entry was served."""
    record_served(project.workspace, [make_id(1)], NOW)
    return project


def add_trailer(project: Project, text: str) -> str:
    """Return a message after our trailer was added."""
    message = project.write("msg", text)
    add_served_trailer(project.workspace, message)
    return message.read_bytes().decode()


def test_no_command_of_the_users_trailers_runs(served_project: Project, tmp_path: Path) -> None:
    served_project.git("config", "trailer.sign.key", "Signed-off-by")
    served_project.git("config", "trailer.sign.command", f"touch {tmp_path}/ran; echo me")
    served_project.git("config", "trailer.ifexists", "replace")
    assert add_trailer(served_project, "Do it\n") == f"Do it\n\nMemory-Retrieved: {make_id(1)}\n"
    assert not (tmp_path / "ran").exists()


def test_a_line_of_dashes_does_not_end_a_message(served_project: Project) -> None:
    assert add_trailer(served_project, "Do it\n\n---\nMore\n").endswith(
        f"---\nMore\n\nMemory-Retrieved: {make_id(1)}\n"
    )


@pytest.mark.parametrize(
    ("setting", "mark"), [(None, "#"), (";", ";"), ("auto", "@"), ("auto", "#")]
)
def test_comments_start_with_the_configured_sign(
    served_project: Project, setting: str | None, mark: str
) -> None:
    if setting:
        served_project.git("config", "core.commentChar", setting)
    empty = f"\n{mark} Please enter\n"
    assert add_trailer(served_project, empty) == empty
    expected = f"Do it\n\nMemory-Retrieved: {make_id(1)}\n\n{mark} Please enter\n"
    assert add_trailer(served_project, f"Do it\n\n{mark} Please enter\n") == expected


def test_invalid_utf_8_and_line_ends_are_kept(served_project: Project) -> None:
    message = served_project.write("msg", b"caf\xe9\r\n\r\nmore\x0bline\r\n")
    assert add_served_trailer(served_project.workspace, message)
    trailer = f"\nMemory-Retrieved: {make_id(1)}\n".encode()
    assert message.read_bytes() == b"caf\xe9\r\n\r\nmore\x0bline\r\n" + trailer


def test_a_message_that_is_amended_names_old_and_new_ids_once(served_project: Project) -> None:
    record_served(served_project.workspace, [make_id(2)], NOW)
    before = f"Do it\n\nMemory-Retrieved: {make_id(3)}, {make_id(2)}\n"
    ids = ", ".join(map(make_id, (3, 2, 1)))
    assert add_trailer(served_project, before) == f"Do it\n\nMemory-Retrieved: {ids}\n"


def test_ids_in_a_commit_are_not_repeated_by_another_commit_on_the_same_head(
    project: Project,
) -> None:
    record_served(project.workspace, [make_id(1)], START)
    project.branch("feature")
    project.commit(f"Work\n\nMemory-Retrieved: {make_id(1)}\n", {"a.txt": "a"})
    project.checkout("main")
    message = project.write("msg", "Squash (#6)\n")
    assert not add_served_trailer(project.workspace, message, "squash")
    project.branch("unrelated")
    assert not add_served_trailer(project.workspace, message)


def test_ids_served_again_on_the_same_head_are_in_the_next_commit(project: Project) -> None:
    record_served(project.workspace, [make_id(1)], START)
    project.branch("feature")
    project.commit(f"Work\n\nMemory-Retrieved: {make_id(1)}\n", {"a.txt": "a"})
    project.checkout("main")
    record_served(project.workspace, [make_id(1)], project.clock.now + timedelta(days=1))
    message = project.write("msg", "Other work\n")
    assert add_served_trailer(project.workspace, message)
    assert make_id(1) in message.read_text()


def test_a_merge_commit_gets_no_trailer(project: Project) -> None:
    record_served(project.workspace, [make_id(1)], START)
    message = project.write("msg", "Merge branch 'feature'\n")
    assert not add_served_trailer(project.workspace, message, "merge")
