"""Tests of upkeep: compaction, retirement and the like as commits; a second run changes nothing."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from memory_ci.commands.record.global_promotion import promote_globally, propose_globally
from memory_ci.commands.record.upkeep import Upkeep, plan_upkeep
from memory_ci.commands.retrieve.text import render_context
from memory_ci.errors import UsageError
from memory_ci.memory.draft import Draft
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.workspace import load_memory
from memory_ci.records.plan import STEPS
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import NOW, TODAY, Project
from tests.repos import make_repo

BODY = (
    "a retry doubled the charge because the gateway had booked the first request before it answered"
)


def put(project: Project, path: str, *entries: str) -> None:
    project.commit("Put", {path: "\n".join(entries)})


def test_near_duplicates_become_one_entry_that_is_found_by_both_ids(project: Project) -> None:
    each_entry = make_entry(
        1, title="Retry with a key", body=BODY, importance=0.9, reinforcement_count=2
    )
    two = make_entry(2, title="Retry with a key", body=BODY + " again", reinforcement_count=3)
    put(project, "MEMORY.md", format_entry(each_entry), format_entry(two))
    assert project.upkeep("compact").subjects == ("memory: compact 2 entries",)
    (entry,) = project.entries()
    assert (entry.id, entry.reinforcement_count, entry.supersedes) == (make_id(1), 5, (make_id(2),))
    assert find_entry(load_memory(project.workspace, None).located, make_id(2)[:8]).entry == entry
    assert project.upkeep("compact").subjects == ()
    assert project.status() == ""


def test_planning_leaves_the_draft_as_it_was(project: Project) -> None:
    same = [
        make_entry(number, title="Retry with an idempotency key", body="Always.")
        for number in (1, 2)
    ]
    base = project.commit(
        "Add", {"MEMORY.md": format_entry(same[0]) + "\n" + format_entry(same[1])}
    )
    draft = Draft(project.workspace.at(base))
    assert list(plan_upkeep(Upkeep(None, TODAY), draft, STEPS))
    assert draft.entries == tuple(same)


def test_a_retired_entry_is_taken_out_and_stays_in_history(project: Project) -> None:
    put(
        project,
        "MEMORY.md",
        format_entry(make_entry(1, status="retired")),
        format_entry(make_entry(2)),
    )
    before = project.sha()
    project.record()
    assert make_id(1) not in {entry.id for entry in project.entries()}
    assert make_id(1) in {entry.id for entry in project.entries(rev=before)}


def test_a_tombstone_takes_every_copy_of_its_id_out(project: Project) -> None:
    live, dead = make_entry(1), make_entry(1, status="retired")
    put(project, "MEMORY.md", format_entry(live), format_entry(dead))
    put(project, "src/MEMORY.md", format_entry(live))
    assert project.upkeep("compact").subjects == ("memory: compact 1 entry",)
    assert project.entries() == project.entries("src/MEMORY.md") == ()


def test_a_rejected_copy_makes_the_united_entry_rejected(project: Project) -> None:
    put(
        project,
        "MEMORY.md",
        format_entry(make_entry(1)),
        format_entry(make_entry(1, adoption="rejected")),
    )
    project.upkeep("compact")
    assert [entry.adoption for entry in project.entries()] == ["rejected"]


def test_two_entries_that_say_nothing_alike_stay_two(project: Project) -> None:
    put(
        project,
        "MEMORY.md",
        *(format_entry(make_entry(n, body=f"word{n} other{n} thing{n}")) for n in range(1, 9)),
    )
    assert project.upkeep("compact").subjects == ()


@pytest.mark.parametrize("path", ["MEMORY.md", "institutional.md"])
def test_two_learnings_whose_front_matter_was_copied_both_stay_and_the_finding_stays(
    project: Project, path: str
) -> None:
    put(project, "MEMORY.md", format_entry(make_entry(1, title="Retry with a key", body=BODY)))
    copied = format_entry(
        make_entry(1, title="Invoices are numbered per tenant", body="The ledger joins on both.")
    )
    project.commit(
        "Copy",
        {path: copied if path != "MEMORY.md" else project.show("main", path) + "\n" + copied},
    )
    project.record()
    assert project.upkeep("compact").subjects == ()
    assert {
        "Retry with a key",
        "Invoices are numbered per tenant",
    } <= project.titles() | project.titles(path)
    assert [finding.code for finding in project.check().findings] == ["duplicate-id"]
    served = render_context(
        project.retrieve(
            "number the invoices of a tenant; retry a charge with a key", all_matches=True
        )
    )
    assert all(
        title in served for title in ("Retry with a key", "Invoices are numbered per tenant")
    )


def test_a_plan_may_change_the_second_of_two_learnings_with_one_id(project: Project) -> None:
    copied = make_entry(1, title="Sketch first", body="On paper.", phase="design")
    put(project, "docs/MEMORY.md", format_entry(make_entry(1, title="Retry with a key", body=BODY)))
    project.commit(
        "Copy",
        {"docs/MEMORY.md": project.show("main", "docs/MEMORY.md") + "\n" + format_entry(copied)},
    )
    for stage in ("design", "implementation"):
        project.commit("Plan", {"INTENT.md": f"# Shop\n\nStage: {stage}\n"})
        project.record()
    assert [entry.status for entry in project.entries("docs/MEMORY.md")] == ["active", "retired"]


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "copied"])
def test_an_entry_edited_on_one_branch_and_moved_on_another_is_one_with_the_newer_words(
    project: Project, *, moved: bool
) -> None:
    old = make_entry(1, title="Retry with a key", body=BODY, importance=0.9)
    new = make_entry(
        1, title="Retry with a key", body="The client sends the key that the ledger made."
    )
    put(project, "src/MEMORY.md", format_entry(old), format_entry(make_entry(5, title="Last")))
    project.branch("edit")
    put(project, "src/MEMORY.md", format_entry(new), format_entry(make_entry(5, title="Last")))
    project.checkout("main")
    put(project, "MEMORY.md", format_entry(old))
    if not moved:
        project.commit("New", {"web/MEMORY.md": format_entry(new)})
        project.git("rm", "-q", "src/MEMORY.md")
        project.commit("Leave", {})
    else:
        project.merge("edit")
    project.upkeep("compact")
    path = "MEMORY.md" if moved else "web/MEMORY.md"
    assert new.body in {entry.body for entry in project.entries(path)}
    assert (old.body in {entry.body for entry in project.entries()}) != moved


def test_the_tasks_of_a_stage_that_ended_are_retired_by_the_next_run(project: Project) -> None:
    project.commit("Plan", {"INTENT.md": "# Shop\n\nStage: design\n"})
    project.record()
    task = make_entry(1, phase="design", title="Sketch first")
    team = make_entry(2, phase="design", domain="team", title="Draw on paper")
    put(project, "docs/MEMORY.md", format_entry(task), format_entry(team))
    project.commit("Unclear", {"INTENT.md": "# Shop\n\nStage: who knows\n"})
    project.record()
    assert {entry.id for entry in project.entries("docs/MEMORY.md")} == {make_id(1), make_id(2)}
    project.commit("Build", {"INTENT.md": "# Shop\n\nStage: implementation\n"})
    start = project.sha()
    project.record()
    assert project.subjects(start) == [
        "memory: read 1 merged change",
        "memory: retire 3 entries",
        "memory: compact 3 entries",
    ]
    assert {entry.id for entry in project.entries("docs/MEMORY.md")} == {make_id(2)}
    after = project.sha()
    project.record()
    assert project.sha() == after


def test_a_written_entry_has_its_stage(project: Project) -> None:
    project.commit("Plan", {"INTENT.md": "# Shop\n\nStage: design\n"})
    project.record()
    assert {entry.phase for entry in project.entries()} == {"design"}


@pytest.mark.first_run
def test_entries_of_reverted_work_are_rejected_until_the_revert_is_reverted(
    project: Project,
) -> None:
    before = {entry.id: entry for entry in project.entries()}
    project.git("revert", "--no-edit", "-m", "1", "HEAD~1")
    project.record()
    assert {entry.adoption for entry in project.entries()} == {"rejected"}
    assert all(entry.importance < before[entry.id].importance for entry in project.entries())
    context = render_context(project.retrieve("charge retried"))
    assert "[tried and rejected] " in context
    after = project.sha()
    project.record()
    assert project.sha() == after
    project.git("revert", "--no-edit", project.git("log", "-1", "--format=%H", "--grep=^Revert"))
    project.record()
    restored = {entry.id: entry for entry in project.entries()}
    assert {i: (e.adoption, e.importance, e.instead, e.evidence) for i, e in restored.items()} == {
        i: (e.adoption, e.importance, e.instead, e.evidence) for i, e in before.items()
    }


def test_contradictions_are_linked_and_both_are_shown_with_a_flag(project: Project) -> None:
    each_entry = make_entry(1, title="Always retry the charge request with the same key")
    two = make_entry(2, title="Never retry the charge request with the same key")
    put(project, "MEMORY.md", format_entry(each_entry), format_entry(two))
    project.upkeep("consolidate")
    assert {entry.id: entry.relations for entry in project.entries()} == {
        make_id(1): (f"contradicts {make_id(2)}",),
        make_id(2): (f"contradicts {make_id(1)}",),
    }
    context = render_context(project.retrieve("retry the charge request"))
    assert f"CONTRADICTED by {make_id(1)[:8]}" in context
    assert f"CONTRADICTED by {make_id(2)[:8]}" in context
    assert project.upkeep("consolidate").subjects == ()
    assert project.upkeep("compact").subjects == (), "what contradicts is never united"


def test_an_entry_of_three_sessions_is_promoted_to_the_project(project: Project) -> None:
    for number in (1, 2, 3):
        entry = make_entry(
            number, title="Run the migration before the worker", session=f"claude-code:s{number}"
        )
        project.commit("Job", {f".teaparty/jobs/j{number}/institutional.md": format_entry(entry)})
    assert project.upkeep("promote").subjects == ("memory: promote 3 entries",)
    (entry,) = project.entries()
    assert entry.promoted_from is not None
    assert entry.promoted_at == TODAY
    assert {entry.id, *entry.supersedes} == {make_id(1), make_id(2), make_id(3)}
    assert project.upkeep("promote").subjects == ()


def test_only_general_entries_are_copied_into_the_global_checkout(
    project: Project, tmp_path: Path
) -> None:
    checkout = make_repo(tmp_path / "memory")
    checkout.commit("Start", {"MEMORY.md": "# Ours\n"})
    for number in (1, 2, 3):
        agnostic = make_entry(
            number, title="Write the failing test before the fix", source=f"pr:{number}"
        )
        bound = make_entry(
            number + 10, title="Run shop.client before the fix of shop", source=f"pr:{number}"
        )
        text = (
            project.show("HEAD", "MEMORY.md")
            + "\n"
            + format_entry(agnostic)
            + "\n"
            + format_entry(bound)
        )
        project.commit("Put", {"MEMORY.md": text})
    proposed = propose_globally(project.workspace, None, TODAY)
    assert {entry.title for entry in proposed} == {"Write the failing test before the fix"}
    assert promote_globally(str(checkout.path), proposed, NOW, dry_run=True) == proposed
    assert promote_globally(str(checkout.path), proposed, NOW, dry_run=False) == proposed
    assert "Write the failing test" in checkout.show("HEAD", "MEMORY.md")
    assert checkout.git("status", "--porcelain") == ""
    assert promote_globally(str(checkout.path), proposed, NOW, dry_run=False) == ()
    with pytest.raises(UsageError) as raised:
        promote_globally(str(tmp_path / "nowhere"), proposed, NOW, dry_run=False)
    assert raised.value.slug == "no-global-checkout"


@pytest.mark.first_run
def test_an_anchor_follows_its_file_in_a_commit_of_its_own(project: Project) -> None:
    project.git("mv", "src/client.py", "src/gateway.py")
    project.commit("Move the client")
    start = project.sha()
    project.record()
    assert project.subjects(start) == ["memory: consolidate 2 entries"]
    assert all(
        cite.startswith("src/gateway.py@") for entry in project.entries() for cite in entry.cites
    )
    after = project.sha()
    project.record()
    assert project.sha() == after


@pytest.mark.first_run
def test_entries_whose_code_is_long_gone_are_retired_on_demand_only(project: Project) -> None:
    project.commit("Drop the client", {"src/client.py": None})
    project.record()
    assert project.upkeep("retire").subjects == ()
    assert project.upkeep("retire", stale_after=400).subjects == ()
    assert project.upkeep("retire", stale_after=30).subjects == ("memory: retire 2 entries",)
    assert {entry.status for entry in project.entries()} == {"retired"}
    assert project.retrieve("charge retried").hits == ()


def test_upkeep_alone_moves_no_cursor(project: Project) -> None:
    put(project, "MEMORY.md", format_entry(make_entry(1, status="retired")))
    project.upkeep("compact")
    assert "Memory-CI-Source" not in project.git("log", "-1", "--format=%B")
    start = project.sha()
    project.record()
    assert project.subjects(start) == ["memory: extract 2 learnings from #128"]


def test_a_season_of_merges_leaves_no_duplicate_and_loses_no_id(project: Project) -> None:
    """Weekly merges with learnings, some repeated, and trailers of served entries; a stage ends in between."""
    seen: set[str] = set()
    for week in range(1, 8):
        day = date.fromordinal(date(2026, 1, 10).toordinal() + 7 * week)
        project.at(project.clock.now.replace(month=day.month, day=day.day))
        answer = project.retrieve("worker lock queue", limit=2, all_matches=True)
        given_served = " ".join(hit.located.entry.id for hit in answer.hits)
        learning = f"worker {week % 5} must take lock {week % 5} before queue{week % 5} drains because it waits."
        trailer = f"\n\nMemory-Used: {given_served}" if given_served else ""
        project.merge_work(
            f"feat: part {week}\n\nLearning: {learning}{trailer}\n",
            f"b{week}",
            200 + week,
            f"p{week}.py",
        )
        if week == 4:
            project.commit("Build", {"INTENT.md": "Stage: implementation\n"})
        project.record(today=day)
        seen |= {entry.id for entry in project.entries()}
    entries = project.entries()
    ids = {entry.id for entry in entries} | {old for entry in entries for old in entry.supersedes}
    retired = {
        e.id
        for sha in project.git(
            "log", "-G", "^status: retired", "--format=%H", "--", "MEMORY.md"
        ).split()
        for e in project.entries(rev=sha)
        if e.status == "retired"
    }
    assert seen <= ids | retired
    assert len({entry.id for entry in entries}) == len(entries)
    assert max(entry.reinforcement_count for entry in entries) > 3
    assert project.check().is_ok
    root = project.git("rev-list", "--max-parents=0", "HEAD")
    project.record(since=root, today=TODAY)  # months that are old by now become one file each
    after = project.sha()
    assert project.record(today=TODAY).subjects == ()
    assert project.record(since=root, today=TODAY).subjects == ()
    assert project.sha() == after
