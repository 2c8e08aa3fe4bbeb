"""Tests of plans that are applied later: moved to the new tip where they fit, refused as a whole otherwise."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from memory_ci.commands.publish.carry_over import RANGE_COVERED, is_covered, move_plan
from memory_ci.commands.publish.publish import PublishOptions, publish
from memory_ci.errors import RepositoryError
from memory_ci.extraction.entries import compute_content_key
from memory_ci.gitrepo.record_commits import find_cursor
from memory_ci.memory.apply import apply_plan
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.records.entry import Entry
from memory_ci.records.plan import Plan, Published
from memory_ci.store.edits import format_entry
from tests.commands.publish.requests_at_work import edit_branch, take_out
from tests.make import make_entry, make_id
from tests.project import MARKED, NOW, Project, copy_project
from tests.remote import UPDATE, Publisher, Remote, Waits, make_remote

KNOWN = make_entry(7, title="Known before")
REFUND = MARKED.replace("charge", "refund")


@pytest.fixture(scope="module")
def project_template(
    project_template: Project, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    """Return the project that each test gets a copy of: a run would reinforce its entry, which a change used."""
    project = copy_project(project_template, tmp_path_factory.mktemp("used") / "shop")
    project.commit("Keep", {"MEMORY.md": format_entry(KNOWN)})
    project.commit(f"Use it\n\nMemory-Used: {make_id(7)}\n", {"a.txt": "a"})
    return project


@pytest.fixture(scope="module")
def plan(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return the plan of a run on the project."""
    return copy_project(project_template, tmp_path_factory.mktemp("planned") / "shop").plan()


def move(project: Project, plan: Plan) -> Plan:
    return move_plan(project.workspace, plan, "main")


def refuse(project: Project, plan: Plan) -> str:
    """Return the reason why the plan is not moved; nothing is changed."""
    tip = project.sha()
    with pytest.raises(RepositoryError) as caught:
        move(project, plan)
    assert (caught.value.slug, project.sha()) == ("ref-moved", tip)
    assert "the next run takes the range again" in caught.value.hint
    return caught.value.message


def test_a_plan_is_applied_to_a_newer_tip_and_later_work_is_left_for_the_next_run(
    project: Project,
    plan: Plan,
) -> None:
    project.merge_work(REFUND, "refund", 129, "src/refund.py")
    project.put_fragment(make_entry(8, title="Said meanwhile"))
    tip = project.sha()
    apply_plan(project.workspace, move(project, plan), NOW)
    (subject,) = project.subjects(tip)
    assert subject.startswith("memory: extract 2 learnings from #128, reinforce 1 entry")
    cursor = find_cursor(project.workspace.repo, "main")
    assert cursor is not None
    assert cursor.source == plan.base
    assert project.record().subjects == (
        "memory: fold 1 entry from the inbox, reinforce 2 entries for #129",
    )
    assert {entry.id: entry.reinforcement_count for entry in project.entries()}[make_id(7)] == 1


def test_a_plan_for_the_tip_is_left_as_it_is(project: Project, plan: Plan) -> None:
    assert move(project, plan) == plan


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"MEMORY.md": ""}, f"{make_id(7)[:8]} was changed"),
        (
            {"MEMORY.md": None, "src/MEMORY.md": format_entry(KNOWN)},
            f"{make_id(7)[:8]} was changed",
        ),
        ({".memory-ci.yaml": "episodes: {write: false}\n"}, "configuration"),
    ],
)
def test_a_plan_for_entries_that_changed_since_is_refused(
    project: Project, plan: Plan, files: dict[str, str | None], words: str
) -> None:
    project.commit("Meanwhile", files)
    assert words in refuse(project, plan)


def test_counts_are_added_to_an_entry_that_was_reworded_since(project: Project, plan: Plan) -> None:
    project.commit(
        "Say it better", {"MEMORY.md": format_entry(KNOWN).replace("Known before", "Known better")}
    )
    moved = move(project, plan)
    apply_plan(project.workspace, moved, NOW)
    (entry,) = (each_entry for each_entry in project.entries() if each_entry.id == make_id(7))
    assert (entry.title, entry.reinforcement_count) == (
        "Known better",
        KNOWN.reinforcement_count + 1,
    )


def test_a_note_of_the_inbox_that_was_changed_is_not_folded_as_it_was(project: Project) -> None:
    path = project.put_fragment(make_entry(8, title="Said meanwhile"))
    plan = project.plan()
    project.commit("Say it better", {path: format_entry(make_entry(8, title="Said better"))})
    assert "was changed" in refuse(project, plan)


def test_a_plan_whose_range_another_run_covered_has_nothing_to_do(
    project: Project, plan: Plan
) -> None:
    project.record()
    moved = move(project, plan)
    assert is_covered(moved)
    assert apply_plan(project.workspace, moved, NOW).subjects == ()


def test_a_plan_of_which_another_run_covered_a_part_is_refused(project: Project) -> None:
    early = project.plan()
    project.merge_work(REFUND, "refund", 129, "src/refund.py")
    late = project.plan()
    apply_plan(project.workspace, move(project, early), NOW)
    assert "another run landed" in refuse(project, late)


def test_a_plan_of_upkeep_alone_is_refused_where_a_run_landed(project: Project) -> None:
    plan = msgspec.structs.replace(project.plan(), until=None)
    project.record()
    assert "another run landed" in refuse(project, plan)


@pytest.mark.parametrize("base", ["a" * 40, "--all", "HEAD", ""])
def test_a_plan_for_commits_outside_of_history_is_refused(
    project: Project, plan: Plan, base: str
) -> None:
    assert "does not hold" in refuse(project, msgspec.structs.replace(plan, base=base))


def test_a_plan_of_a_branch_that_was_rewritten_is_refused(project: Project, plan: Plan) -> None:
    project.git("commit", "-q", "--amend", "-m", "Another")
    assert "does not hold" in refuse(project, plan)


def test_entries_that_maintainers_rejected_since_are_left_out(project: Project, plan: Plan) -> None:
    gone = added(plan)[0]
    project.commit(
        "Not this one",
        {REJECTED_FILE: f"{compute_content_key(gone.title, gone.body)} {gone.title}\n"},
    )
    apply_plan(project.workspace, move(project, plan), NOW)
    assert gone.title not in project.titles()
    assert len(project.titles()) == 2


def added(plan: Plan) -> list[Entry]:
    return [
        change.entry for step in plan.steps if step.step == "extract" for change in step.changes
    ]


@pytest.fixture
def remote(project: Project, tmp_path: Path) -> Remote:
    return make_remote(project, tmp_path / "shop.git")


def perform(project: Project, plan: Plan) -> Published:
    """Apply the plan of the first of two jobs as a pull request, as the second job does."""
    workspace = project.workspace
    publish_options = PublishOptions("pr", "main")
    return publish(
        workspace,
        publish_options,
        lambda ref, accepted: move_plan(workspace, plan, ref),
        NOW,
        {},
        pace=Waits().pace(),
    )


def test_a_plan_is_proposed_with_the_decisions_of_maintainers_on_the_branch(
    project: Project, plan: Plan, remote: Remote, tmp_path: Path
) -> None:
    perform(project, plan)
    (gone,) = [
        entry.title for entry in added(plan) if "idempotency" not in entry.title + entry.body
    ]
    edit_branch(
        remote, tmp_path / "one", {"MEMORY.md": ("send an idempotency key", "send a nonce")}
    )
    take_out(remote, tmp_path / "two", gone)
    project.commit("More work", {"b.txt": "b"})
    project.git("push", "-q", "origin", "main")
    assert perform(project, plan).mode == "pr"
    branch = remote.clone(tmp_path / "after", "--branch", UPDATE)
    assert "send a nonce" in branch.show("HEAD", "MEMORY.md")
    assert len(branch.titles() - {gone}) == len(branch.entries()) == 2
    assert remote.git("merge-base", "main", UPDATE) == remote.sha("main")


def test_an_older_plan_does_not_replace_newer_proposals(
    project: Project, plan: Plan, remote: Remote
) -> None:
    project.merge_work(REFUND, "refund", 129, "src/refund.py")
    project.git("push", "-q", "origin", "main")
    tip = Publisher(project)("pr").tip
    assert "newer run" in perform(project, plan).reason
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


def test_a_plan_that_needs_nothing_more_leaves_the_branch_of_the_others(
    project: Project, plan: Plan, remote: Remote
) -> None:
    Publisher(project)("push")
    remote.git("branch", UPDATE, "main")
    published = perform(project, plan)
    assert published.reason == RANGE_COVERED
    assert UPDATE in remote.branches()
