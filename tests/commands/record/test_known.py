"""Tests of known learnings: a new one is not dropped because of an entry that its readers are not served."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from memory_ci.commands.add.add import add_entry
from memory_ci.errors import FindingsError
from memory_ci.memory.apply import apply_plan
from memory_ci.records.entry import Entry
from memory_ci.records.plan import Change, Plan
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import NOW, Project, copy_project

TITLE = "Caches are per tenant rather than global"
MARKED = f"feat: cache\n\nDecision: {TITLE}\n"


@pytest.fixture(scope="module")
def shop_template(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = copy_project(project_template, tmp_path_factory.mktemp("recorded") / "shop")
    project.record()
    return project


@pytest.fixture
def shop(shop_template: Project, tmp_path: Path) -> Project:
    """Return a project whose history is recorded."""
    return copy_project(shop_template, tmp_path / "shop")


def note(project: Project, number: int, scope: str) -> None:
    project.put_fragment(make_entry(number, title=TITLE, scope=scope))
    project.record()


def scopes(project: Project, **options: object) -> list[str]:
    """Return the scopes of the served entries with these words."""
    hits = project.retrieve("caches per tenant", **options).hits
    return sorted(hit.located.scope.name for hit in hits if hit.located.entry.title == TITLE)


def test_a_note_for_all_is_not_dropped_for_an_entry_of_a_session(shop: Project) -> None:
    note(shop, 1, "session:job-7")
    note(shop, 2, "project")
    assert scopes(shop, session="job-8") == ["project"]


@pytest.mark.parametrize("scope", ["session:job-7", "team:pay"])
def test_a_learning_of_merged_work_is_not_dropped_for_an_entry_of_another_scope(
    shop: Project, scope: str
) -> None:
    note(shop, 1, scope)
    shop.merge_work(MARKED, "cache", 500, "src/cache.py")
    shop.record()
    assert TITLE in shop.titles()


def test_a_learning_that_all_are_served_already_is_not_written_twice(shop: Project) -> None:
    note(shop, 1, "project")
    shop.merge_work(MARKED, "cache", 500, "src/cache.py")
    shop.record()
    assert [entry.id for entry in shop.entries() if entry.title == TITLE] == [make_id(1)]


def test_a_retired_learning_that_is_marked_again_is_in_memory_after_the_run(shop: Project) -> None:
    entry = make_entry(1, title=TITLE, type="declarative", status="retired")
    shop.commit("Retire it", {"MEMORY.md": format_entry(entry)})
    shop.merge_work(MARKED, "cache", 500, "src/cache.py")
    shop.record()
    assert [(each_entry.title, each_entry.status) for each_entry in shop.entries()] == [
        (TITLE, "active")
    ]


def test_a_note_that_another_team_s_entry_says_is_added(shop: Project) -> None:
    note(shop, 1, "team:pay")
    shop.git("reset", "-q", "--hard")
    assert add_entry(shop.workspace, make_entry(2, title=TITLE)).is_new
    assert not add_entry(shop.workspace, make_entry(3, title=TITLE, scope="team:pay/cards")).is_new


def test_a_note_with_the_id_of_another_entry_waits_and_is_named(shop: Project) -> None:
    (known, *_) = shop.entries()
    path = ".memory/inbox/note.md"
    shop.commit(
        "Note",
        {path: format_entry(make_entry(1, id=known.id, title="Other words", scope="project"))},
    )
    plan = shop.plan()
    apply_plan(shop.workspace, plan, NOW)
    assert "Other words" in shop.show("HEAD", path)
    assert [(finding.path, finding.code) for finding in plan.findings] == [(path, "taken-id")]


def with_drop(plan: Plan, path: str, entry: Entry) -> Plan:
    """Return the plan with a changed fold step, in which the moved note is dropped for the entry at `path`."""
    (step, *others) = plan.steps
    (moved,) = step.changes
    why = f"is in memory already as {entry.id[:8]}"
    drop = Change(
        step="fold", kind="drop", path=path, entry=entry, why=why, moved_from=moved.moved_from
    )
    return msgspec.structs.replace(
        plan, steps=(msgspec.structs.replace(step, changes=(drop,)), *others)
    )


@pytest.mark.parametrize("status", ["active", "retired"])
def test_a_plan_may_not_drop_a_note_for_an_entry_with_other_readers(
    shop: Project, status: str
) -> None:
    path = ".teaparty/jobs/job-7/institutional.md" if status == "active" else "MEMORY.md"
    kept_entry = make_entry(1, title=TITLE, status=status)
    shop.commit("Keep", {path: format_entry(kept_entry)})
    shop.put_fragment(make_entry(2, title=TITLE, scope="project"))
    with pytest.raises(FindingsError, match="does not say the same as the inbox file"):
        apply_plan(shop.workspace, with_drop(shop.plan(), path, kept_entry), NOW)


def test_a_plan_may_drop_a_note_for_an_entry_that_all_are_served(shop: Project) -> None:
    kept_entry = make_entry(1, title=TITLE)
    shop.commit("Keep", {"MEMORY.md": format_entry(kept_entry)})
    path = shop.put_fragment(make_entry(2, title=TITLE, scope="project"))
    shop.record()
    assert path not in shop.git("ls-tree", "-r", "--name-only", "HEAD")
