"""Tests of `review --stale`: the effect of answers on entries whose code has changed."""

from __future__ import annotations

from typing import Any

import pytest

from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.review.queue import STALE_CODE_KINDS, Queue, list_queue
from memory_ci.commands.review.review import AnsweredReview, Answers
from memory_ci.commands.review.review import answer as say
from memory_ci.errors import UsageError
from memory_ci.memory.cites import anchor_entries
from memory_ci.records.candidate import Question
from memory_ci.records.entry import Entry
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import NOW, TODAY, Project

CODE = "def pay():\n    one()\n\n\ndef ship():\n    two()\n\n\ndef close():\n    three()\n"


@pytest.fixture
def shop(project: Project) -> Project:
    """Return a project with three entries: the code of `pay` changed, of `ship` is gone, of `close` moved."""
    sha = project.commit("Write", {"src/shop.py": CODE})[:12]
    names = {1: "pay", 2: "ship", 3: "close"}
    bare = [
        make_entry(n, title=f"`{name}()` is slow", cites=(f"src/shop.py@{sha}",))
        for n, name in names.items()
    ]
    entries = anchor_entries(project.workspace, bare)
    project.commit("Remember", {"MEMORY.md": "\n".join(map(format_entry, entries))})
    project.commit(
        "Edit (#7)", {"src/shop.py": "def pay():\n    other()\n\n\ndef close():\n    three()\n"}
    )
    return project


def stale(project: Project) -> Queue:
    return list_queue(project.workspace, RecordOptions(), NOW, {}, STALE_CODE_KINDS)


def answer(
    project: Project,
    *,
    dry_run: bool = False,
    texts: dict[str, str] | None = None,
    **answers: list[str],
) -> AnsweredReview:
    queue = stale(project)
    by_id = {id_of(item): item for item in queue.questions}
    arguments: Any = {verb: [by_id[name] for name in names] for verb, names in answers.items()}
    keyed = {by_id[name].key: text for name, text in (texts or {}).items()}
    return say(
        project.workspace, queue, Answers(arguments, keyed), NOW, dry_run=dry_run, in_actions=False
    )


def id_of(one: Question) -> str:
    assert one.located
    return one.located.entry.id


def entry_of(project: Project, number: int) -> Entry:
    return next(entry for entry in project.entries() if entry.id == make_id(number))


def stale_ids(project: Project) -> list[str]:
    return [id_of(item) for item in stale(project).questions]


def test_entries_with_changed_or_removed_code_are_stale_and_name_the_edit(
    shop: Project,
) -> None:
    kinds = [(id_of(item), item.kind, str(item.verdicts[0].edit)) for item in stale(shop).questions]
    sha = shop.sha()[:7]
    assert kinds == [
        (make_id(1), "changed", f"`pay` edited in {sha}, #7"),
        (make_id(2), "gone", f"`ship` removed in {sha}, #7"),
    ]


def test_a_kept_entry_is_anchored_in_the_current_code(shop: Project) -> None:
    before, tip = shop.sha(), shop.sha()[:12]
    assert len(answer(shop, keep=[make_id(1)]).applied.subjects) == 1
    (cite,) = entry_of(shop, 1).cites
    assert cite.startswith(f"src/shop.py:1-2@{tip} symbol:pay words:")
    assert (len(shop.subjects(before)), stale_ids(shop)) == (1, [make_id(2)])
    shop.commit(
        "Again", {"src/shop.py": "def pay():\n    third()\n\n\ndef close():\n    three()\n"}
    )
    assert stale_ids(shop) == [make_id(1), make_id(2)]


def test_an_entry_that_is_kept_without_its_code_cites_it_no_more(shop: Project) -> None:
    answer(shop, keep=[make_id(2)])
    assert (entry_of(shop, 2).cites, stale_ids(shop)) == ((), [make_id(1)])


def test_kept_and_retired_entries_are_not_stale_and_have_separate_commits(shop: Project) -> None:
    before = shop.sha()
    assert (
        len(answer(shop, keep=[make_id(1)], retire=[make_id(2)], dry_run=True).applied.subjects)
        == 2
    )
    assert shop.sha() == before
    answer(shop, keep=[make_id(1)], retire=[make_id(2)])
    assert (len(shop.subjects(before)), entry_of(shop, 2).status, stale_ids(shop)) == (
        2,
        "retired",
        [],
    )


def test_an_entry_is_not_accepted(shop: Project) -> None:
    with pytest.raises(UsageError, match="--accept is no answer"):
        answer(shop, accept=[make_id(1)])


def test_an_edit_is_a_note_that_takes_the_place_of_the_entry(shop: Project) -> None:
    words = "`pay()` calls other()\n\nIt did not before."
    (note,) = answer(shop, keep=[make_id(1)], texts={make_id(1): words}).notes
    assert (note.entry.supersedes, note.path.startswith(".memory/inbox/")) == ((make_id(1),), True)
    assert note.entry.scope == "project"
    assert note.path in shop.git("show", "--name-only", "--format=%an", "HEAD")


def test_a_kept_entry_loses_its_mark_for_a_dead_name(project: Project) -> None:
    project.at(NOW.replace(month=3)).commit("Write", {"src/shop.py": "def pay_all():\n    one()\n"})
    day = NOW.replace(month=3).date()
    entry = make_entry(1, title="`pay_all` is slow", created_at=day, last_reinforced=day)
    project.at(NOW.replace(month=4)).commit("Remember", {"MEMORY.md": format_entry(entry)})
    project.at(NOW.replace(month=5)).commit(
        "Rename", {"src/shop.py": "def pay_each():\n    one()\n"}
    )
    assert stale_ids(project) == [make_id(1)]
    assert len(answer(project, keep=[make_id(1)]).applied.subjects) == 1
    assert entry_of(project, 1).last_reinforced == TODAY
    assert stale_ids(project) == []
