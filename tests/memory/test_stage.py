"""Tests of stages in the history of a project, and of the entries that their end retires."""

from __future__ import annotations

import pytest

from memory_ci.commands.add.add import add_entry
from memory_ci.errors import RepositoryError
from memory_ci.memory.stage import (
    list_stage_changes,
    list_stages,
    list_transitions,
    plan_retirement_of_ended_stages,
    read_current_phase,
)
from memory_ci.memory.workspace import load_memory
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import TODAY, Project


def commit_stage(project: Project, text: str, path: str = "INTENT.md") -> str:
    """Commit the intent file with a text, and return the sha."""
    return project.commit(f"Say where we are: {text}", {path: f"# Intent\n\nStage: {text}\n"})


def test_each_change_of_a_known_stage_is_a_transition(project: Project) -> None:
    design = commit_stage(project, "design")
    commit_stage(project, "designing")
    commit_stage(project, "who knows")
    build = commit_stage(project, "build")
    points = list_stage_changes(project.workspace, "HEAD")
    assert [(p.project, p.phase, p.commit.sha) for p in points] == [
        ("", "design", design),
        ("", "implementation", build),
    ]


def test_a_stage_that_is_unclear_for_a_while_has_not_ended(project: Project) -> None:
    start = commit_stage(project, "design")
    commit_stage(project, "who knows")
    assert read_current_phase(project.workspace, "HEAD") == "design"
    project.commit("Drop the file", {"INTENT.md": None})
    commit_stage(project, "design")
    assert list_transitions(project.workspace, start, "HEAD") == ()


def test_a_transition_is_found_only_in_the_range_that_contains_it(project: Project) -> None:
    start = commit_stage(project, "design")
    end = commit_stage(project, "build")
    after = project.commit("More work")
    (transition,) = list_transitions(project.workspace, start, "HEAD")
    assert (transition.ended, transition.begun, transition.commit.sha) == (
        "design",
        "implementation",
        end,
    )
    assert list_transitions(project.workspace, None, "HEAD") == (transition,)
    assert list_transitions(project.workspace, end, after) == ()
    assert list_transitions(project.workspace, None, start) == ()


def test_a_transition_on_a_branch_counts_when_it_is_merged(project: Project) -> None:
    start = commit_stage(project, "design")
    project.branch("go")
    commit_stage(project, "build")
    project.checkout("main")
    assert read_current_phase(project.workspace, "HEAD") == "design"
    merge = project.merge("go")
    assert [t.commit.sha for t in list_transitions(project.workspace, start, "HEAD")] == [merge]


def test_each_project_has_a_stage_of_its_own(project: Project) -> None:
    commit_stage(project, "design")
    commit_stage(project, "review", "projects/web/INTENT.md")
    commit_stage(project, "build", "projects/web/docs/INTENT.md")
    workspace = project.workspace
    assert [(s.project, s.known and s.known.phase) for s in list_stages(workspace, "HEAD")] == [
        ("", "design"),
        ("projects/web", "review"),
    ]
    assert read_current_phase(workspace, "HEAD", "projects/web/src") == "review"
    assert read_current_phase(workspace, "HEAD", "projects/website") == "design"


def test_without_an_intent_file_there_is_no_stage(project: Project) -> None:
    assert read_current_phase(project.workspace, "HEAD") is None
    assert list_stages(project.workspace, "HEAD") == ()
    commit_stage(project, "design")
    project.commit("Drop the file", {"INTENT.md": None})
    assert read_current_phase(project.workspace, "HEAD") is None


def test_an_unknown_revision_is_an_error(project: Project) -> None:
    with pytest.raises(RepositoryError) as raised:
        list_stages(project.workspace, "nowhere")
    assert raised.value.slug == "unknown-revision"


def remember(project: Project) -> None:
    entries = {
        "MEMORY.md": make_entry(1, phase="design"),
        "src/MEMORY.md": make_entry(2, phase="design"),
        "projects/web/MEMORY.md": make_entry(3, phase="design"),
        "institutional.md": make_entry(4, phase="design", domain="team"),
    }
    project.commit("Remember", {path: format_entry(entry) for path, entry in entries.items()})


def list_retired(project: Project, since: str) -> set[str]:
    located = load_memory(project.workspace, "HEAD").located
    return {
        change.path
        for change in plan_retirement_of_ended_stages(
            project.workspace.at("HEAD"), located, since, TODAY
        )
    }


def test_the_end_of_a_stage_retires_the_task_entries_of_its_project(project: Project) -> None:
    remember(project)
    commit_stage(project, "design", "projects/web/INTENT.md")
    start = commit_stage(project, "design")
    middle = commit_stage(project, "build")
    assert list_retired(project, start) == {"MEMORY.md", "src/MEMORY.md"}
    commit_stage(project, "build", "projects/web/INTENT.md")
    assert list_retired(project, middle) == {"projects/web/MEMORY.md"}


def test_a_stage_that_is_in_force_again_retires_nothing(project: Project) -> None:
    remember(project)
    start = commit_stage(project, "design")
    commit_stage(project, "build")
    commit_stage(project, "design")
    assert list_retired(project, start) == set()


def test_entries_of_a_sub_project_have_its_stage_and_retire_with_it(
    project: Project,
) -> None:
    commit_stage(project, "build")
    commit_stage(project, "design", "projects/web/INTENT.md")
    project.commit("Web\n\nDecision: the page is drawn once.", {"projects/web/app.py": "x\n"})
    project.record()
    path = "projects/web/MEMORY.md"
    assert [(entry.title, entry.phase) for entry in project.entries(path)] == [
        ("The page is drawn once", "design")
    ]
    commit_stage(project, "build", "projects/web/INTENT.md")
    project.record()
    assert project.entries(path) == ()


def test_a_note_for_a_sub_project_has_its_stage(project: Project) -> None:
    commit_stage(project, "build")
    commit_stage(project, "design", "projects/web/INTENT.md")
    scopes = ["team:projects/web/src", "team:src", "project"]
    added = [
        add_entry(project.workspace, make_entry(n, scope=scope)).entry
        for n, scope in enumerate(scopes)
    ]
    assert [entry.phase for entry in added] == ["design", "implementation", "implementation"]


def test_old_intent_files_are_not_read_if_the_range_changed_none(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = commit_stage(project, "design")
    tip = project.commit("Work", {"src/new.py": "new = 1\n"})
    read: list[str] = []

    def list_versions(*_args: object) -> list[object]:
        read.append("read")
        return []

    monkeypatch.setattr("memory_ci.memory.stage.list_versions", list_versions)
    assert list_transitions(project.workspace, since, tip) == ()
    assert read == []
    later = commit_stage(project, "build")
    list_transitions(project.workspace, since, later)
    assert read == ["read"]
