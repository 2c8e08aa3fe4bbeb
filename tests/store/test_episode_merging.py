"""Tests of merging episode files as sets of documents."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.episode import Episode, EpisodeRecord
from memory_ci.store.episode_months import merge_documents
from memory_ci.store.episodes import (
    format_episode_record,
    parse_episode_file,
)
from tests.store.episode_records import EPISODE_RECORDS, SEPTEMBER, WHEN, document, make_episode


def month_of(*records: EpisodeRecord) -> bytes:
    """Return the file of a month with records in the order of folding."""
    ordered = sorted(
        records,
        key=lambda record: (
            record.occurred_at if isinstance(record, Episode) else record.at,
            record.id,
        ),
    )
    return b"\n".join(map(format_episode_record, ordered))


def numbered(*numbers: int, text: str = "") -> list[Episode]:
    return [
        make_episode(f"pr-{n}", occurred_at=WHEN + timedelta(days=n % 5), text=text)
        for n in numbers
    ]


NUMBERS = st.frozensets(st.integers(1, 9))


@given(NUMBERS, NUMBERS, NUMBERS)
def test_any_documents_merge_as_sets_in_the_order_of_folding(
    base: frozenset[int], ours: frozenset[int], theirs: frozenset[int]
) -> None:
    expected = month_of(*numbered(*((ours & theirs) | (ours - base) | (theirs - base))))
    texts = [month_of(*numbered(*side)) for side in (base, ours, theirs)]
    assert merge_documents(*texts) == merge_documents(texts[0], texts[2], texts[1]) == (expected, 0)


@given(st.lists(EPISODE_RECORDS, max_size=4, unique_by=lambda record: record.id), st.integers(0, 4))
def test_the_merge_has_the_documents_of_both_branches(
    records: list[EpisodeRecord], parted: int
) -> None:
    merged = merge_documents(
        b"", month_of(*records[:parted]), month_of(*records[max(0, parted - 1) :])
    )
    assert merged == (month_of(*records), 0)


def test_two_documents_of_one_id_conflict_within_the_file_and_the_others_do_not() -> None:
    (mine,), (yours,) = numbered(2, text="Mine"), numbered(2, text="Yours")
    first, three, four = numbered(1, 3, 4)
    merged = merge_documents(
        month_of(first), month_of(first, mine, three), month_of(first, yours, four)
    )
    assert merged is not None
    text, conflicts = merged
    markers = (b"<<<<<<< ours\n", b"=======\n", b">>>>>>> theirs\n")
    dispute = b"%s%s%s%s%s" % (
        markers[0],
        format_episode_record(mine),
        markers[1],
        format_episode_record(yours),
        markers[2],
    )
    assert (text, conflicts) == (
        b"\n".join([format_episode_record(first), dispute, month_of(three, four)]),
        1,
    )
    read = parse_episode_file(SEPTEMBER, text)
    assert {finding.code for finding in read.findings} == {"bad-episode"}
    assert read.records[-2:] == (three, four)


def test_a_document_changed_on_one_side_is_kept_even_if_the_other_side_removed_it() -> None:
    (old,), (new,) = numbered(2), numbered(2, text="By hand")
    record = numbered(1)[0]
    assert merge_documents(month_of(record, old), month_of(record, new), month_of(old)) == (
        month_of(new),
        0,
    )
    assert merge_documents(month_of(record, old), month_of(record), month_of(record, new)) == (
        month_of(record, new),
        0,
    )


@pytest.mark.parametrize(
    "side",
    [
        b"Prose\n",
        document(outcome="great").encode(),
        (document() + document(outcome="failure")).encode(),
        document().replace("\n", "\r\n").encode(),
        b"\xff",
    ],
    ids=["no-document", "unreadable", "two-of-one-id", "other-line-ends", "not-utf8"],
)
def test_a_side_that_is_not_clearly_readable_is_not_merged_by_documents(side: bytes) -> None:
    good = month_of(*numbered(1))
    assert merge_documents(b"", side, good) is merge_documents(side, b"", good) is None
