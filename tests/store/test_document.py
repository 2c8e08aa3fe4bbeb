"""Tests of reading memory files: each rule of docs/formats.md."""

from __future__ import annotations

from datetime import date

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.entry import Entry
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file, format_entry
from tests.make import make_entry, make_id

HEAD = """---
id: 0f6f1f0e-5f0a-4c55-9c0b-3f3a0c2f9d11
type: corrective
domain: team
importance: 0.8
reinforcement_count: 3
last_reinforced: '2026-11-20'
status: active
"""
ONE = HEAD + "---\n## Retry a POST only with a key\nTwice a retry doubled a charge.\n"


def read(text: str | bytes) -> tuple[tuple[Entry, ...], list[tuple[int, str]]]:
    """Return the entries of a file, and the line and text of each finding."""
    data = text.encode() if isinstance(text, str) else text
    file = parse_memory_file("MEMORY.md", data)
    if "not-utf8" not in {finding.code for finding in file.findings}:
        assert render_memory_file(file) == data, "a file that nobody edits keeps every byte"
    return file.entries, [(finding.line, finding.code) for finding in file.findings]


def test_an_entry_is_read_with_its_fields_title_and_body() -> None:
    (entry,), findings = read(ONE)
    assert not findings
    assert (entry.type, entry.importance, entry.reinforcement_count) == ("corrective", 0.8, 3)
    assert entry.last_reinforced == date(2026, 11, 20)
    assert (entry.title, entry.body) == (
        "Retry a POST only with a key",
        "Twice a retry doubled a charge.",
    )


def test_a_phase_that_is_unknown_is_none_and_keeps_its_line() -> None:
    text = ONE.replace("status: active\n", "status: active\nphase: unknown\n")
    (entry,), findings = read(text)
    assert (entry.phase, findings) == (None, [])
    updated = msgspec.structs.replace(entry, reinforcement_count=4)
    edited = render_memory_file(
        edit_file(parse_memory_file("", text.encode()), updated=[updated])
    ).decode()
    assert edited == text.replace("count: 3", "count: 4")


@pytest.mark.parametrize(
    "body",
    [
        "before\n\n---\n\nafter a horizontal rule",
        "```\n---\nid: 1\ntype: corrective\n---\n```\nafter a fenced example",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "---\ntitle: a nested document\nauthor: someone\n---\nits text",
        "A heading\n---\nof the underlined kind",
        "---\nid: the word in prose\n---",
        "~~~~\n```\n---\nid: 1\ntype: x\n~~~~\n---\nend",
        "    ---\nindented code",
    ],
)
def test_a_separator_inside_a_body_is_part_of_the_body(body: str) -> None:
    other_entry = format_entry(make_entry(7))
    entries, findings = read(f"{ONE}{body}\n\n{other_entry}")
    assert not findings
    assert [entry.id for entry in entries] == ["0f6f1f0e-5f0a-4c55-9c0b-3f3a0c2f9d11", make_id(7)]
    assert entries[0].body.endswith(body)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("session: 0123456", "session", "0123456"),
        ("session: 12:30", "session", "12:30"),
        ("source: NO", "source", "NO"),
        ("instead: ~", "instead", "~"),
        ("source: 1e3", "source", "1e3"),
        ("created_at: 2026-09-02", "created_at", date(2026, 9, 2)),
        ("occurred_at: '2026-09-01T10:00:00+02:00'", "occurred_at", date(2026, 9, 1)),
        ("supersedes: 0123456", "supersedes", ("0123456",)),
        ("evidence: [a, 'b c']", "evidence", ("a", "b c")),
        ("source: >\n  folded\n  text", "source", "folded text"),
    ],
)
def test_every_scalar_is_text_until_its_field_converts_it(
    line: str, field: str, value: object
) -> None:
    (entry,), findings = read(ONE.replace("status: active", f"status: active\n{line}"))
    assert not findings
    assert getattr(entry, field) == value


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("status: active", "status: active\nstatus: retired", (9, "malformed-front-matter")),
        ("status: active", "status: &a active", (8, "malformed-front-matter")),
        ("status: active", "status: active\nsource: *a", (9, "malformed-front-matter")),
        ("status: active", "status: !!str active", (8, "malformed-front-matter")),
        ("status: active", "status: 'active", (8, "malformed-front-matter")),
        ("status: active", "status: asleep", (8, "bad-value")),
        ("type: corrective", "type: advice", (3, "bad-value")),
        ("importance: 0.8", "importance: high", (5, "bad-value")),
        ("importance: 0.8", "importance: nan", (5, "bad-value")),
        ("importance: 0.8", "importance: 1.2", (5, "bad-value")),
        ("reinforcement_count: 3", "reinforcement_count: -1", (6, "bad-value")),
        ("last_reinforced: '2026-11-20'", "last_reinforced: yesterday", (7, "bad-value")),
        ("last_reinforced: '2026-11-20'", "last_reinforced: '2026-02-30'", (7, "bad-value")),
        ("id: 0f6f1f0e-5f0a-4c55-9c0b-3f3a0c2f9d11", "id: 7", (2, "bad-value")),
        ("type: corrective\n", "", (1, "missing-field")),
        ("last_reinforced: '2026-11-20'\n", "", (1, "missing-field")),
        ("domain:", "domane:", (1, "missing-field")),
    ],
)
def test_a_broken_entry_is_reported_and_the_others_are_read(
    old: str, new: str, finding: tuple[int, str]
) -> None:
    assert old in ONE
    entries, findings = read(ONE.replace(old, new) + "\n" + format_entry(make_entry(7)))
    assert [entry.id for entry in entries] == [make_id(7)]
    assert finding in findings


@pytest.mark.parametrize(
    ("block", "code"),
    [
        (f"---\nid: {make_id(2)}\n---\n## Only an id\n", "missing-field"),
        (f"---\nid: {make_id(2)}\nowner: ada\n---\n## Unknown keys\n", "missing-field"),
        (f"---\nid: {make_id(2)}\nowner: [a\n---\n## No YAML\n", "malformed-front-matter"),
        ("---\ntype: corrective\ndomain: team\n---\n## No id\n", "missing-field"),
        ("\ufeff" + format_entry(make_entry(2)), "malformed-front-matter"),
        (format_entry(make_entry(2)).replace("\n", "\r"), "malformed-front-matter"),
        (
            f"---\n  id: {make_id(2)}\n  type: directive\n---\n## Indented\n",
            "malformed-front-matter",
        ),
        (
            f"---\n type: directive\n   id: {make_id(2)}\n---\n## Indented twice\n",
            "malformed-front-matter",
        ),
        (f'---\n"id": {make_id(2)}\n"type": directive\n---\n## Quoted\n', "malformed-front-matter"),
        (
            f"---\n{{type: directive, id: {make_id(2)}}}\n---\n## In braces\n",
            "malformed-front-matter",
        ),
        (
            f'---\n{{\n  "type":"directive",\n  "id":"{make_id(2)}"\n}}\n---\n## JSON\n',
            "malformed-front-matter",
        ),
        (f"---\nid:{make_id(2)}\n---\n## No blank\n", "malformed-front-matter"),
    ],
)
def test_an_unreadable_entry_is_never_part_of_its_neighbour(block: str, code: str) -> None:
    entries, findings = read(f"{ONE}\n{block}\n{format_entry(make_entry(7))}")
    assert [(entry.id, entry.body) for entry in entries] == [
        ("0f6f1f0e-5f0a-4c55-9c0b-3f3a0c2f9d11", "Twice a retry doubled a charge."),
        (make_id(7), ""),
    ]
    assert {message for _, message in findings} == {code}


def test_an_unclosed_entry_does_not_swallow_the_next() -> None:
    entries, findings = read(HEAD + "## No closing line\n\n" + format_entry(make_entry(7)))
    assert [entry.id for entry in entries] == [make_id(7)]
    assert [code for _, code in findings] == ["malformed-front-matter"]


def test_conflict_markers_are_reported_and_entries_outside_are_read() -> None:
    sides = (
        "<<<<<<< HEAD\n"
        + format_entry(make_entry(2))
        + "=======\n"
        + format_entry(make_entry(3))
        + ">>>>>>> topic\n"
    )
    entries, findings = read(ONE + "\n" + sides + "\n" + format_entry(make_entry(7)))
    assert [entry.id for entry in entries] == ["0f6f1f0e-5f0a-4c55-9c0b-3f3a0c2f9d11", make_id(7)]
    assert findings == [(13, "conflict-marker")]


def test_an_entry_with_a_conflict_in_its_body_is_not_read() -> None:
    entries, findings = read(ONE + "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> topic\n")
    assert entries == ()
    assert findings == [(12, "conflict-marker")]


def test_prose_before_between_and_after_entries_is_separate() -> None:
    file = parse_memory_file(
        "MEMORY.md",
        f"# Memory\nHello.\n\n{ONE}\n# Payments\nMore.\n\n{format_entry(make_entry(2))}".encode(),
    )
    assert [segment.raw.partition("\n")[0] for segment in file.segments] == [
        "# Memory",
        "---",
        "# Payments",
        "---",
    ]
    assert file.entries[0].body == "Twice a retry doubled a charge."


def test_a_byte_order_mark_and_windows_line_endings_are_read_and_kept() -> None:
    data = b"\xef\xbb\xbf" + ONE.replace("\n", "\r\n").encode()
    file = parse_memory_file("MEMORY.md", data)
    assert file.entries == parse_memory_file("MEMORY.md", ONE.encode()).entries
    assert (file.newline, file.has_bom, render_memory_file(file)) == ("\r\n", True, data)


def test_a_file_that_is_not_utf8_is_a_finding_with_its_line() -> None:
    assert read(b"# Memory\n\xff\n") == ((), [(2, "not-utf8")])


def test_an_unclosed_fence_hides_nothing_unless_a_later_fence_closes_it() -> None:
    entries, findings = read(ONE + "```python\nunclosed\n\n" + format_entry(make_entry(2)))
    assert len(entries) == 2
    hidden, findings = read(ONE + "```\nunclosed\n\n" + format_entry(make_entry(2)) + "\n```\n")
    assert len(hidden) == 1
    assert [code for _, code in findings] == ["fenced-entry"]


def test_an_entry_without_a_heading_is_served_with_a_warning() -> None:
    (entry,), findings = read(HEAD + "---\nJust a sentence.\n")
    assert (entry.title, entry.body) == ("Just a sentence.", "Just a sentence.")
    assert [code for _, code in findings] == ["no-title"]


def test_the_sentence_used_instead_of_a_missing_heading_is_not_cut() -> None:
    sentence = f"{'Just a long sentence, '.strip()} " * 20
    (entry,), _ = read(f"{HEAD}---\n{sentence}\n")
    assert entry.title == sentence.strip()


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=40)
LINES = st.sampled_from(
    [
        "---",
        "```",
        "~~~",
        "id: x",
        "type: task",
        "# One",
        "## Two",
        "<<<<<<< a",
        ">>>>>>> b",
        "",
        "x",
    ]
)


@given(st.lists(st.one_of(TEXTS, LINES, st.just(ONE)), max_size=12))
def test_any_text_is_read_and_rendered_unchanged(parts: list[str]) -> None:
    read("\n".join(parts))


@given(st.binary(max_size=200))
def test_reading_any_bytes_raises_no_error(data: bytes) -> None:
    parse_memory_file("MEMORY.md", data)


def test_files_are_read_in_linear_time() -> None:
    """With ten thousand fences, separators and conflict markers a quadratic scan would not end."""
    for line in (
        "````",
        "---",
        "<<<<<<< x",
        "`" * 3 + " a",
        "id: x\n---",
        "<<<<<<< x\n---\n>>>>>>> y\n---",
    ):
        parse_memory_file("MEMORY.md", (line + "\n").encode() * 20_000)


def test_a_count_may_have_eighteen_digits() -> None:
    (entry,), findings = read(ONE.replace("count: 3", "count: 999999999999999999"))
    assert (entry.reinforcement_count, findings) == (10**18 - 1, [])
    assert read(ONE.replace("count: 3", "count: 1000000000000000000"))[0] == ()


def test_a_title_keeps_the_hash_at_its_end() -> None:
    assert (
        read(ONE.replace("## Retry a POST only with a key", "## About C#"))[0][0].title
        == "About C#"
    )
