"""Tests of learnings of merged changes: each becomes one entry."""

from __future__ import annotations

from datetime import date

import pytest

from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import MARKED, Project


def test_marked_learnings_of_a_merged_pull_request_become_entries(project: Project) -> None:
    start = project.sha()
    project.record()
    assert project.subjects(start) == ["memory: extract 2 learnings from #128"], (
        "one commit, with the range that was read"
    )
    assert project.git("show", "--format=", "--name-only").split() == [
        ".memory/episodes/recorded/ranges.md",
        "MEMORY.md",
    ]
    by_type = {entry.type: entry for entry in project.entries()}
    cause = by_type["corrective"]
    assert "retried a POST after a timeout" in cause.title
    assert "idempotency key" in cause.body
    work = project.sha("HEAD~1^2")
    assert cause.source == f"pr:128 commit:{work[:12]}"
    assert [cite.partition(" ")[0] for cite in cause.cites] == [f"src/client.py@{work[:12]}"]
    assert " words:" in cause.cites[0]
    quote = cause.evidence[0].partition(" ")[2]
    assert quote in MARKED, "the evidence is the author's own words"
    assert by_type["declarative"].title.startswith("Retries live in src/client.py")


@pytest.mark.first_run
def test_a_second_run_changes_nothing(project: Project) -> None:
    after = project.sha()
    assert project.record().subjects == ()
    assert project.sha() == after


def test_recording_the_same_history_again_changes_nothing(project: Project) -> None:
    root = project.git("rev-list", "--max-parents=0", "HEAD")
    project.record(since=root)
    after = project.sha()
    project.record(since=root)
    assert project.sha() == after


@pytest.mark.first_run
def test_the_work_tree_stays_clean_and_follows_the_branch(project: Project) -> None:
    assert project.status() == ""
    assert "retried a POST" in (project.path / "MEMORY.md").read_text()
    project.git("fsck", "--strict")


def test_a_used_entry_is_reinforced_once_per_merged_change(project: Project) -> None:
    project.put_fragment(make_entry(1, title="Known before"))
    project.record()
    project.branch("more")
    for step in ("a", "b"):
        project.commit(f"Do {step}\n\nMemory-Used: {make_id(1)}\n", {f"{step}.txt": step})
    project.merge_back("more", message="Merge pull request #129 from ada/more\n\nMore")
    start = project.sha()
    project.record()
    assert project.subjects(start) == ["memory: reinforce 1 entry for #129, note 1 episode"]
    (entry,) = [entry for entry in project.entries() if entry.id == make_id(1)]
    assert entry.reinforcement_count == 1
    assert entry.last_reinforced == date(2026, 9, 1), (
        "a merge of January does not turn the clock back"
    )
    project.record(since=project.git("rev-list", "--max-parents=0", "HEAD"))
    assert {e.id: e.reinforcement_count for e in project.entries()}[make_id(1)] == 1


def test_a_squashed_trailer_with_a_short_id_counts_as_well(project: Project) -> None:
    project.put_fragment(make_entry(1, title="Known before"))
    project.record()
    project.commit(
        f"Do more (#130)\n\n* Do a\\n\\nMemory-Used: {make_id(1)[:8]}\n\n* Do b\n", {"a.txt": "a"}
    )
    project.record()
    assert {e.id: e.reinforcement_count for e in project.entries()}[make_id(1)] == 1


@pytest.mark.first_run
def test_a_learning_that_restates_an_entry_reinforces_it_instead(project: Project) -> None:
    before = len(project.entries())
    project.merge_work(
        MARKED.replace("fix: charge", "fix: really charge"), "again", 140, "src/other.py"
    )
    project.record()
    assert len(project.entries()) == before
    assert {entry.reinforcement_count for entry in project.entries()} == {1}


@pytest.mark.first_run
def test_a_cherry_picked_commit_does_not_add_its_learning_again(project: Project) -> None:
    work = project.sha("HEAD~1^2")
    project.branch("release", "HEAD~2")
    project.commit("Other", {"other.txt": "x"})
    project.git("cherry-pick", "--allow-empty", "--keep-redundant-commits", work)
    project.merge_back("release", message="Merge pull request #141 from ada/release\n\nRelease")
    start = project.sha()
    project.record()
    assert project.subjects(start) == [], "a release teaches nothing"


def test_a_mark_of_a_change_is_written_once_over_all_runs(project: Project) -> None:
    root = project.git("rev-list", "--max-parents=0", "HEAD")
    marks = "".join(
        f"Learning: worker {n} must take lock {n} before queue {n * 7}.\n\n" for n in range(8)
    )
    project.merge_work(f"feat: workers\n\n{marks}", "workers", 150)
    for _ in range(3):
        project.record(since=root)
    assert len([entry for entry in project.entries() if "worker" in entry.title.lower()]) == 8


def test_a_message_with_written_out_line_breaks_is_read(project: Project) -> None:
    project.merge_work(
        "fix: x\\n\\nLearning: the importer skips the mark because of its codec.\\n", "bom", 151
    )
    project.record()
    assert any("importer skips" in title for title in project.titles())


def test_an_entry_that_a_person_reworded_is_not_written_again(project: Project) -> None:
    root = project.git("rev-list", "--max-parents=0", "HEAD")
    project.record(since=root)
    text = (
        (project.path / "MEMORY.md")
        .read_text()
        .replace("The client retried a POST after a timeout", "Boom")
    )
    project.commit("Reword", {"MEMORY.md": text})
    after = project.sha()
    project.record(since=root)
    assert project.sha() == after


def test_an_entry_that_a_person_removed_does_not_come_back(project: Project) -> None:
    root = project.git("rev-list", "--max-parents=0", "HEAD")
    project.record(since=root)
    project.commit("Not worth keeping", {"MEMORY.md": "# Memory\n"})
    after = project.sha()
    plan = project.plan(since=root)
    assert {item.verdict for item in plan.judged} == {"restates"}, (
        "the report does not say that they were written"
    )
    project.record(since=root)
    assert project.sha() == after


def test_suspected_learnings_are_candidates_and_never_written(project: Project) -> None:
    project.merge_work(
        "fix: close the file\n\nWe must never keep it open because Windows locks it.",
        "win",
        131,
        "w.py",
    )
    plan = project.plan()
    suspected = [item for item in plan.judged if item.verdict == "suspected"]
    assert any("Windows" in item.candidate.title + item.candidate.body for item in suspected)
    written = {change.entry.title for step in plan.steps for change in step.changes}
    assert not any("Windows" in title for title in written)


def test_reinforcing_one_of_two_entries_with_the_same_id_leaves_the_other(
    project: Project,
) -> None:
    first = make_entry(1, title="First entry", body="Body one, precious.")
    second = make_entry(1, title="Second entry", body="Body two.")
    project.commit("Put", {"MEMORY.md": format_entry(first) + "\n" + format_entry(second)})
    project.commit(f"Use it\n\nMemory-Used: {make_id(1)}\n", {"x.txt": "x"})
    plan = project.plan()
    changes = {
        change.kind: change.entry
        for step in plan.steps
        if step.step == "reinforce"
        for change in step.changes
    }
    assert changes["update"].title == "First entry"
    assert changes["update"].reinforcement_count == 1


@pytest.mark.first_run
def test_an_unmarked_merge_leaves_a_range_and_nothing_else(project: Project) -> None:
    project.merge_work("Rename a variable", "rename", 132)
    memory = project.show("HEAD", "MEMORY.md")
    assert project.record().subjects == ("memory: read 1 merged change",)
    assert project.show("HEAD", "MEMORY.md") == memory


def test_where_no_episodes_are_wanted_an_unmarked_merge_leaves_no_commit(project: Project) -> None:
    project.commit("No episodes", {".memory-ci.yaml": "episodes: {write: false}\n"})
    project.record()
    project.merge_work("Rename a variable", "rename", 132)
    start = project.sha()
    assert project.record().subjects == ()
    assert project.sha() == start


@pytest.mark.first_run
def test_a_mark_with_a_spelling_mistake_is_a_notice(project: Project) -> None:
    message = "fix: retry\n\nDescision: retries live in the client, because only it knows the key."
    project.merge_work(message, "retries", 133)
    findings = project.plan().findings
    assert [(finding.code, finding.level) for finding in findings] == [("misspelt-mark", "notice")]
    assert "`Descision:`" in findings[0].message
    assert "`Decision:`" in findings[0].message
