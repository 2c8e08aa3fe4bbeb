"""Tests of folding episodes: the files of an ended month become one file."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.episode import Action, EpisodeRecord
from memory_ci.store.episode_months import join_months
from memory_ci.store.episodes import (
    episode_record_path,
    format_episode_record,
    month_path,
    parse_episode_file,
)
from tests.store.episode_records import EPISODE_RECORDS, SEPTEMBER, WHEN, document, make_episode


def month_files(*names: str, month: int = 9) -> dict[str, bytes]:
    episodes = [
        make_episode(
            name, occurred_at=datetime(2026, month, 3, tzinfo=UTC) + timedelta(days=n), text=name
        )
        for n, name in enumerate(names)
    ]
    return {episode_record_path(episode): format_episode_record(episode) for episode in episodes}


def fold_files(files: dict[str, bytes], before: date = date(2026, 11, 1)) -> dict[str, bytes]:
    """Return the files after folding."""
    after: dict[str, bytes | None] = {**files, **join_months(files, before)}
    return {path: data for path, data in after.items() if data is not None}


def list_documents(files: dict[str, bytes]) -> set[bytes]:
    """Return the bytes of every record in the files."""
    return {
        format_episode_record(record)
        for path, data in files.items()
        for record in parse_episode_file(path, data).records
    }


def test_a_month_that_has_ended_is_folded_into_one_file_with_the_same_documents() -> None:
    files = month_files("pr-2", "pr-1", "pr-3") | month_files("pr-4", "pr-5", "pr-6", month=10)
    files |= month_files("pr-7", "pr-8", "pr-9", month=11)
    after = fold_files(files)
    folded = [month_path("2026-09"), month_path("2026-10")]
    assert sorted(after) == [*folded, *sorted(path for path in files if "2026-11" in path)]
    assert list_documents(after) == list_documents(files)
    assert [record.id for record in parse_episode_file("x", after[folded[0]]).records] == [
        "pr-2",
        "pr-1",
        "pr-3",
    ]


@given(st.lists(EPISODE_RECORDS, max_size=6))
def test_folding_loses_nothing_and_is_idempotent(records: list[EpisodeRecord]) -> None:
    files = {episode_record_path(record): format_episode_record(record) for record in records}
    after = fold_files(files, date.max)
    assert list_documents(after) == list_documents(files)
    assert join_months(after, date.max) == {}


def test_a_later_document_is_folded_into_its_month_once() -> None:
    first = month_files("pr-1", "pr-2", "pr-3")
    with_later_file = month_files("pr-9") | {path: first[path] for path in list(first)[:1]}
    after = fold_files(fold_files(first) | with_later_file)
    assert list(after) == [SEPTEMBER]
    assert after == fold_files(first | with_later_file)


def test_documents_are_copied_with_their_unknown_keys() -> None:
    files = {
        f".memory/episodes/2026-09/{name}.md": document(id=name, mood="good  # as ever")
        for name in "abc"
    }
    after = fold_files({path: text.encode() for path, text in files.items()})
    assert after == {SEPTEMBER: "\n".join(files.values()).encode()}


@pytest.mark.parametrize("sizes", [[1], [2, 1], [300, 1, 1]])
def test_a_month_that_git_would_take_for_a_rename_is_not_folded(
    sizes: list[int],
) -> None:
    episodes = [
        make_episode(
            f"pr-{n}", occurred_at=WHEN.replace(month=9), action=Action(files=("src/x.py",) * size)
        )
        for n, size in enumerate(sizes)
    ]
    files = {episode_record_path(episode): format_episode_record(episode) for episode in episodes}
    assert fold_files(files) == files


def test_a_partly_unreadable_file_is_not_folded() -> None:
    broken = {".memory/episodes/2026-09/x.md": (document() + document(outcome="great")).encode()}
    assert fold_files(broken) == broken
    after = fold_files(broken | month_files("pr-1", "pr-2", "pr-3"))
    assert sorted(after) == [SEPTEMBER, ".memory/episodes/2026-09/x.md"]


def test_nothing_is_added_to_a_partly_unreadable_month() -> None:
    files = month_files("pr-1", "pr-2", "pr-3") | {SEPTEMBER: b"---\nid: x\n"}
    assert fold_files(files) == files
    assert join_months({**files, SEPTEMBER: None}, date(2026, 11, 1)) == {}
