"""Tests of merging a session that is in several files: no event is lost or repeated."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.builder import merge_sessions
from memory_ci.sources.transcripts.claude_code import read
from tests.sources.transcripts.claude import Record, human_texts, make_lines, make_queue, make_user

TURNS = [make_user(text, number) for number, text in enumerate(["fix it", "yes", "yes", "push"], 1)]


def read_file(*records: Record, name: str = "full.jsonl") -> Session:
    (session,) = read(io.BytesIO(make_lines(*records)), name)
    return session


def test_a_longer_checkpoint_replaces_a_shorter_one() -> None:
    (merged,) = merge_sessions(
        [read_file(*TURNS[:2], name="0/full.jsonl"), read_file(*TURNS, name="1/full.jsonl")]
    )
    assert human_texts(merged) == ["fix it", "yes", "yes", "push"]
    assert (merged.counts.human_turns, merged.counts.duplicates, merged.counts.records) == (4, 2, 6)
    assert [event.seq for event in merged.events] == [0, 1, 2, 3]
    assert merged.path == "1/full.jsonl"


def test_parts_of_a_session_are_joined_in_the_order_of_time() -> None:
    (merged,) = merge_sessions([read_file(TURNS[1], TURNS[3]), read_file(TURNS[0], TURNS[2])])
    assert human_texts(merged) == ["fix it", "yes", "yes", "push"]
    assert [event.uid[:8] for event in merged.events] == [
        "00000001",
        "00000002",
        "00000003",
        "00000004",
    ]
    assert (merged.started, merged.ended) == (merged.events[0].at, merged.events[-1].at)


def test_turns_without_an_id_are_matched_by_words_and_count() -> None:
    queued = [
        make_queue("enqueue", "yes"),
        make_queue("remove"),
        make_user("go", 4),
        make_queue("enqueue", "yes", 5),
    ]
    once, twice = read_file(*queued[:3]), read_file(*queued, make_queue("remove", number=6))
    (merged,) = merge_sessions([once, twice])
    assert human_texts(merged) == ["yes", "go", "yes"]
    assert merged.counts.mid_turn == 2


def test_a_resumed_session_keeps_only_its_own_events() -> None:
    resumed = [turn | {"sessionId": "resumed"} for turn in TURNS]
    first, second = merge_sessions([read_file(*resumed), read_file(*TURNS[:2])])
    assert (human_texts(first), human_texts(second)) == (["fix it", "yes"], ["yes", "push"])
    assert (second.id, second.counts.duplicates) == ("resumed", 2)


def test_sessions_with_other_ids_are_unchanged() -> None:
    first, second = read_file(TURNS[0]), read_file(make_user("fix it", 9, sessionId="other"))
    assert merge_sessions([second, first]) == (first, second)


@given(st.permutations(range(4)), st.integers(0, 4))
def test_the_order_of_the_files_does_not_matter(order: list[int], cut: int) -> None:
    files = [read_file(*TURNS[:count], name=f"{count}.jsonl") for count in (1, 2, 4)] + [
        read_file(*TURNS[cut - 1 :])
    ]
    assert (
        merge_sessions([files[index] for index in order])[0].events
        == merge_sessions(files)[0].events
    )


def test_merging_again_changes_no_event() -> None:
    merged = merge_sessions([read_file(*TURNS[:2]), read_file(*TURNS)])
    assert merge_sessions(merged) == merged
