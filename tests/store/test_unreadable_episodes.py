"""Tests of unreadable episode files: they are reported and not served."""

from __future__ import annotations

import pytest

from memory_ci.store.episodes import (
    MAX_DOCUMENT_BYTES,
    MAX_FILE_BYTES,
    format_episode_record,
    parse_episode_file,
)
from tests.make import ID
from tests.store.episode_records import PATH, document, make_episode


def read(text: str) -> tuple[list[str], list[tuple[int, str, str]]]:
    """Return the ids of the readable records, and the line, code and message of each problem."""
    file = parse_episode_file(PATH, text.encode())
    return [record.id for record in file.records], [
        (f.line, f.code, f.message) for f in file.findings
    ]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (document(outcome="a\noutcome: b"), 5, "twice"),
        (document(situation="{domain: a, domain: b}"), 5, "twice"),
        (document(situation="&a {domain: x}"), 5, "anchors"),
        (document(used="[*a]"), 5, "anchors"),
        (document(used="[!!str a]"), 5, "tag"),
        (document(outcome="great"), 4, "outcome"),
        (
            document(feedback=f"\n- {{id: {ID}, kind: praised, at: '2026-11-20T14:02:11Z'}}"),
            6,
            "kind",
        ),
        (
            document(feedback=f"\n- {{id: {ID}, kind: confirmed, at: '1700000000'}}"),
            6,
            "not a time",
        ),
        (document(occurred_at="'2026-11-20T14:02:11'"), 1, "no zone"),
        (document(occurred_at="'2026-11-20'"), 3, "not a time"),
        (document(occurred_at="'0001-01-01T00:00:00+05:00'"), 1, "calendar"),
        (document(valence="2"), 1, "valence"),
        (document(used="a"), 5, "used"),
        (document(text="here"), 5, "keep one"),
        (document(id="Bad Id"), 1, "id"),
        (document() + "<<<<<<< HEAD\n", 7, "conflict"),
        (document() + "---\n", 7, "---"),
        (document().replace("---\nText\n", ""), 1, "not closed"),
        ("Prose\n", 1, "no episode"),
        ("", 1, "no episode"),
        ("---\nsituation: {}\n---\n", 1, "no episode"),
        (document(used="[" + "x" * MAX_DOCUMENT_BYTES + "]"), 1, "64,000"),
        (document(used="[" * 30 + "]" * 30), 5, "nested"),
    ],
)
def test_unreadable_documents_are_reported_with_their_line_and_not_served(
    text: str, line: int, words: str
) -> None:
    served, ((line_found, code, message),) = read(text)
    assert (line_found, code) == (line, "bad-episode")
    assert words in message
    assert served == []


def test_prose_above_the_documents_is_reported_and_prevents_folding() -> None:
    served, problems = read("\nProse\n" + document())
    assert served == ["pr-128"]
    assert [line for line, _, _ in problems] == [2]


def test_the_other_documents_of_a_file_are_served() -> None:
    text = (
        document(id="a")
        + "\n"
        + document(id="b", outcome="great")
        + "\n---\nid: c\n"
        + document(id="d")
    )
    served, problems = read(text)
    assert served == ["a", "d"]
    assert [line for line, _, _ in problems] == [11, 15]


def test_a_document_without_an_id_is_not_read_as_text_of_the_previous_document() -> None:
    served, problems = read(document(id="a") + document().replace("id: pr-128\n", ""))
    assert served == ["a"]
    assert [line for line, _, _ in problems] == [7]


def test_a_file_of_more_than_20_mb_or_binary_content_is_a_finding() -> None:
    assert [f.code for f in parse_episode_file(PATH, b" " * (MAX_FILE_BYTES + 1)).findings] == [
        "bad-episode"
    ]
    assert [(f.line, f.code) for f in parse_episode_file(PATH, b"---\nid: \xff").findings] == [
        (2, "not-utf8")
    ]


def test_a_bom_and_windows_line_ends_are_read() -> None:
    data = b"\xef\xbb\xbf" + format_episode_record(make_episode(text="Done")).replace(
        b"\n", b"\r\n"
    )
    assert parse_episode_file(PATH, data).records == (make_episode(text="Done"),)


def test_unknown_keys_are_ignored() -> None:
    assert read(document(mood="{good: [1]}", action="{pr: 128, reviewers: [ada]}")) == (
        ["pr-128"],
        [],
    )
