"""Tests of the values of the report: counts of a known repository, and of an empty one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from memory_ci.commands.report.records import EntryLife, Overview
from memory_ci.commands.report.report import gather_report
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.memory.episodes import save_episode_record
from memory_ci.records.episode import Action, Episode, Feedback, ServedEntry, Situation
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import NOW, WITHOUT_EMBEDDER, Project, copy_project, make_project
from tests.repos import make_repo


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with two merges in two weeks; the second was served the entry of the first and used it."""
    project = make_project(tmp_path_factory.mktemp("report") / "shop")
    project.git("remote", "add", "origin", "git@github.com:acme/shop.git")
    project.at(datetime(2026, 10, 26, tzinfo=UTC))
    project.record()
    project.at(datetime(2026, 11, 10, tzinfo=UTC))
    for number, branch in ((129, "late"), (130, "later"), (131, "latest")):
        project.merge_work(f"fix: answer {branch}", branch, number, "src/gateway.py")
    other_entry = make_entry(
        7, title="Always charge a card twice", relations=(f"contradicts {make_id(8)}",)
    )
    entries = (
        other_entry,
        make_entry(8, title="Never charge a card twice"),
        make_entry(9, title="Ask first", status="retired"),
    )
    text = project.show("HEAD", "MEMORY.md") + "".join(map(format_entry, entries))
    project.commit("memory: by hand", {"MEMORY.md": text})
    learned = project.entries()[0].id
    episode = Episode(
        id="pr-129",
        occurred_at=datetime(2026, 11, 10, tzinfo=UTC),
        situation=Situation(summary="charge a card after a timeout"),
        retrieved=(ServedEntry(id=learned), ServedEntry(id=make_id(8))),
        used=(learned,),
        action=Action(pr=129),
        feedback=(
            Feedback(
                id=make_id(8),
                kind="corrected",
                at=datetime(2026, 11, 11, tzinfo=UTC),
                by="ada",
                ref="pr:130",
            ),
        ),
    )
    save_episode_record(project.workspace, episode)
    return project


@pytest.fixture(scope="module")
def overview(shop: Project) -> Overview:
    return gather_report(shop.workspace, NOW, {}, task="zebra")  # vectors, if they are installed


def find(overview: Overview, title: str) -> EntryLife:
    return next(entry for entry in overview.entries if entry.title == title)


def test_each_week_counts_merges_and_the_size_of_memory(overview: Overview, shop: Project) -> None:
    weeks = {week.start: (week.merges, week.learned, week.retired) for week in overview.weeks}
    assert list(weeks) == sorted(weeks)
    assert weeks[date(2026, 11, 9)] == (3, 0, 1)
    assert weeks[date(2026, 11, 2)] == (0, 0, 0), "a gap is a week like any other"
    assert min(weeks) == date(2026, 1, 5), (
        "the week of the work that taught an entry, not of the run that learned it"
    )
    assert weeks[date(2026, 1, 5)][1] > 0
    newest = overview.weeks[-2].newest_merge
    assert newest.url == f"https://github.com/acme/shop/commit/{shop.sha('HEAD~1')}"


def test_weeks_before_the_history_begins_are_not_drawn(shop: Project, tmp_path: Path) -> None:
    project = copy_project(shop, tmp_path / "older")
    older = make_entry(30, title="Brought along", occurred_at=date(2025, 12, 10))
    text = project.show("HEAD", "MEMORY.md") + format_entry(older)
    project.commit("memory: import", {"MEMORY.md": text})
    weeks = gather_report(project.workspace, NOW, WITHOUT_EMBEDDER).weeks
    assert weeks[0].start == date(2026, 1, 5)


def test_an_entry_counts_its_jobs_and_tells_its_life(overview: Overview) -> None:
    used, served = overview.entries[0], find(overview, "Never charge a card twice")
    assert [
        (item.served_count, item.used_count)
        for item in (find(overview, "Always charge a card twice"), served)
    ] == [(0, 0), (1, 0)]
    assert [event.what for event in served.life] == ["learned", "served", "corrected"]
    assert served.life[-1].links[0].url == "https://github.com/acme/shop/pull/130"
    assert sum(entry.used_count for entry in overview.entries) == 1
    assert used.status == "active"
    assert find(overview, "Always charge a card twice").relations == (
        ("contradicts", "Never charge a card twice"),
    )
    assert find(overview, "Ask first").life[-1].what == "retired"


def test_files_are_counted_by_merged_changes_and_say_whether_memory_speaks_of_them(
    overview: Overview,
) -> None:
    files = {file.path: (file.churn, file.cover) for file in overview.files}
    assert files["src/gateway.py"] == (3, "hot")
    assert not any(path.startswith(("MEMORY", ".memory/")) for path in files)
    assert list(files) == sorted(files, key=lambda path: (-files[path][0], path)), (
        "the same page from the same commit"
    )


def test_the_factors_of_a_task_add_up_to_its_score(overview: Overview) -> None:
    zebra, asked = overview.tasks[:2]
    assert (zebra.task, asked.task) == ("zebra", "charge a card after a timeout")
    assert {item.state for item in zebra.found} <= {"weak"}
    assert {item.state for item in asked.found} >= {"served"}
    assert dict(asked.answer_parts)["for this task"] > 0
    for item in asked.found:
        assert sum(value for _, value in item.parts) == pytest.approx(item.score, abs=0.001)


def test_an_explained_task_shows_the_entries_that_retrieve_serves(
    overview: Overview, shop: Project
) -> None:
    for task in overview.tasks:
        served = retrieve(shop.workspace, task.task, RetrieveOptions(), NOW.date(), {}).hits
        served_items = [item for item in task.found if item.state == "served"]
        assert [question.id for question in served_items] == [
            hit.located.entry.id for hit in served
        ]
        assert [question.score for question in served_items] == pytest.approx(
            [hit.score for hit in served]
        )


def test_an_explained_task_separates_hits_over_the_limit_from_weak_ones(
    shop: Project, tmp_path: Path
) -> None:
    project = copy_project(shop, tmp_path / "many")
    entries = [make_entry(number, title=f"Zebra stripes {number}") for number in range(20, 33)]
    project.write("MEMORY.md", "".join(map(format_entry, entries)))
    (task, *_) = gather_report(project.workspace, NOW, WITHOUT_EMBEDDER, task="zebra stripes").tasks
    assert [item.state for item in task.found] == ["served"] * 10 + ["over limit"] * 3


def test_unserved_entries_are_ordered_by_score_after_novelty(shop: Project, tmp_path: Path) -> None:
    project = copy_project(shop, tmp_path / "alike")
    entries = [make_entry(20, title="Zebra stripes and their colours in the long evening")]
    entries += [
        make_entry(21, title="Zebra stripes and their colours in the long morning"),
        make_entry(22, title="Stripes of a flag"),
        make_entry(23, title="Ask a zebra"),
    ]
    project.write("MEMORY.md", "".join(map(format_entry, entries)))
    (task, *_) = gather_report(
        project.workspace, NOW, WITHOUT_EMBEDDER, task="zebra stripes colours"
    ).tasks
    for state in ("over limit", "weak"):
        scores = [item.score for item in task.found if item.state == state]
        assert scores == sorted(scores, reverse=True)


def test_health_is_measured_at_releases_since_memory_began_and_else_at_the_ends_of_months(
    overview: Overview, shop: Project, tmp_path: Path
) -> None:
    assert [release.name for release in overview.releases][-2:] == ["2026-10-31", "2026-11-21"]
    project = copy_project(shop, tmp_path / "shop")
    before = project.git("rev-list", "--max-parents=0", "HEAD")
    for name, rev in (("v0.1", before), ("v0.2", "HEAD~1"), ("v0.3", "HEAD"), ("nightly", "HEAD")):
        project.git("tag", name, rev)
    releases = gather_report(project.workspace, NOW, WITHOUT_EMBEDDER).releases
    assert [release.name for release in releases] == ["v0.2", "v0.3", "today"]


def test_a_question_comes_with_the_command_that_answers_it(overview: Overview) -> None:
    (asked,) = (item for item in overview.inbox if item.kind == "contradiction")
    assert asked.commands[0] == f"memory-ci review --all --keep {make_id(7)[:8]}"


@pytest.mark.parametrize("task", [None, "anything"])
def test_a_repository_without_entries_or_commits_has_an_overview(
    tmp_path: Path, task: str | None
) -> None:
    repo = make_repo(tmp_path / "empty")
    project = Project(repo.path, repo.clock)
    assert gather_report(project.workspace, NOW, WITHOUT_EMBEDDER, task).notes == (
        "There is no commit yet.",
    )
    project.commit("Start", {"a.py": "one\n"})
    assert gather_report(project.workspace, NOW, WITHOUT_EMBEDDER, task).entries == ()


def test_a_memory_file_that_cannot_be_read_is_named(shop: Project, tmp_path: Path) -> None:
    project = copy_project(shop, tmp_path / "shop")
    project.commit("Broken", {"MEMORY.md": "---\nid: 0f6f1f0e\ntype: [broken\n---\n# Hello\n"})
    notes = gather_report(project.workspace, NOW, WITHOUT_EMBEDDER).notes
    assert "1 finding in MEMORY.md: `memory-ci check` names them." in notes


def test_a_shallow_clone_names_the_missing_figures(shop: Project, tmp_path: Path) -> None:
    shop.git("clone", "--quiet", "--depth", "1", f"file://{shop.path}", str(tmp_path / "clone"))
    overview = gather_report(
        Project(tmp_path / "clone", shop.clock).workspace, NOW, WITHOUT_EMBEDDER
    )
    assert overview.weeks == () or overview.notes
    assert any(note.startswith("What was merged cannot be shown: ") for note in overview.notes)
