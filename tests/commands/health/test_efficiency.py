"""Tests of efficiency: the share of served entries that were used, and titles that no query finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from memory_ci.commands.health.health import measure_health
from memory_ci.memory.episodes import save_episode_record
from memory_ci.records.episode import ServedEntry
from tests.commands.health.measured_projects import (
    INJECTION,
    make_episode,
    measure,
    metric,
    rewrite,
    spoil,
    value,
)
from tests.project import TODAY, Project, copy_project


@pytest.fixture
def project(measured_template: Project, tmp_path: Path) -> Project:
    return copy_project(measured_template, tmp_path / "shop")


def test_entries_learned_from_a_change_do_not_answer_its_own_question(project: Project) -> None:
    rewrite(project, source="pr:129")
    assert "1 of 1 title of merged changes find nothing" in count_questions(project)


def test_titles_that_find_nothing_are_named_newest_first(project: Project) -> None:
    spoil(project, "efficiency")
    assert metric(measure(project), "efficiency").missing == tuple(
        f"#{at} Zebras wander {at}" for at in (132, 131, 130)
    )


def test_an_unsafe_title_is_named_by_its_request_number_only(project: Project) -> None:
    project.merge_work(INJECTION, "bad", 130, "src/bad.py")
    assert metric(measure(project), "efficiency").missing == ("#130",)


BLOCK = (
    "# memory-ci: begin (memory-ci init --clone)\n/MEMORY.md merge=memory-ci\n# memory-ci: end\n"
)


def count_questions(project: Project) -> str:
    return metric(measure(project), "efficiency").basis


@pytest.mark.parametrize(
    "files",
    [
        {".gitattributes": BLOCK},
        {
            ".pre-commit-config.yaml": "repos:\n- repo: https://example.com/memory-ci\n",
            ".memory-ci.yaml": "# ours\n",
        },
        {".github/workflows/memory.yml": "on: push\n", "MEMORY.md": "# Memory\n"},
    ],
)
def test_setting_memory_ci_up_asks_no_question(project: Project, files: dict[str, str]) -> None:
    rewrite(project, source=None)
    before = count_questions(project)
    text = {"MEMORY.md": project.show("HEAD", "MEMORY.md") + "\n"} if "MEMORY.md" in files else {}
    project.commit("Zebra crossing", files | text)
    assert count_questions(project) == before


@pytest.mark.parametrize(
    "files",
    [
        {".gitattributes": "*.bin binary\n"},
        {".gitattributes": BLOCK, "src/a.py": "1\n"},
        {".github/workflows/test.yml": "on: push\n"},
        {".memory-ci.yaml": "# ours\n", ".pre-commit-config.yaml": "repos: []\n"},
    ],
)
def test_changes_beyond_setting_memory_ci_up_ask_a_question(
    project: Project, files: dict[str, str]
) -> None:
    before = count_questions(project)
    project.commit("Zebra crossing", files)
    assert count_questions(project) != before


def test_reverted_work_asks_no_questions(project: Project) -> None:
    before = count_questions(project)
    work = project.commit("Zebras wander", {"src/zebra.py": "1\n"})
    assert count_questions(project) != before
    save_episode_record(project.workspace, make_episode(f"commit-{work[:12]}"))
    project.commit(
        f'Revert "Zebras wander"\n\nThis reverts commit {work}.\n', {"src/zebra.py": None}
    )
    assert count_questions(project) == before


@pytest.mark.parametrize(("jobs", "expected"), [(19, None), (20, 50.0)])
def test_use_by_jobs_counts_from_twenty_jobs_on(
    project: Project, jobs: int, expected: float | None
) -> None:
    for number in range(jobs):
        save_episode_record(
            project.workspace, make_episode(f"pr-{1000 + number}", served=2, used=1)
        )
    assert value(project, "efficiency") == expected
    (metric,) = (
        metric
        for metric in measure_health(project.workspace, TODAY).metrics
        if metric.name == "efficiency"
    )
    assert metric.basis.startswith(f"{jobs} jobs used {jobs} of {2 * jobs} entries served (50%)")


@pytest.mark.first_run
@pytest.mark.parametrize(
    ("served", "used", "is_named"), [(9, 0, False), (10, 0, True), (10, 1, False)]
)
def test_an_entry_often_served_and_never_used_is_proposed_for_review(
    project: Project, served: int, used: int, is_named: bool
) -> None:
    entry_id = project.entries()[0].id
    for number in range(served):
        episode = replace(
            make_episode(f"pr-{1000 + number}"), retrieved=(ServedEntry(id=entry_id),)
        )
        save_episode_record(
            project.workspace, replace(episode, used=(entry_id,) if number < used else ())
        )
    (metric,) = (
        metric
        for metric in measure_health(project.workspace, TODAY).metrics
        if metric.name == "efficiency"
    )
    assert (
        f"given 10 times or more and never used, to review: {entry_id[:8]}" in metric.basis
    ) == is_named
