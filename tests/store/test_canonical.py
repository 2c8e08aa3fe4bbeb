"""Tests of the canonical form of memory files: it is stable and loses nothing."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from memory_ci.errors import UnreadableMemoryError
from memory_ci.records.config import ScopePatterns
from memory_ci.store.canonical import parse_canonical
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import canonical_file, format_entry
from memory_ci.store.memory_files import load_file, locate_entries
from tests.make import format_all_keys, make_entry, make_id

MESSY = f"""# Memory
An introduction.
---
# who this is
type: "procedural"
team_owner: {{name: Ada, since: 2020}}   # hers
id: {make_id(1).upper()}

domain: task
# a person's remark
importance: 0.50
status: active   # for now
phase:
reinforcement_count: 007
last_reinforced: 2026-09-01T10:00:00Z
evidence: one quote
# the end
---


###   Learning number 1 #


Its body,   spaced as it likes.
## Still its body



---
id: not-a-uuid
type: procedural
---
## Broken
# Prose

after.
"""

CLEAN = f"""# Memory
An introduction.

---
id: {make_id(1)}
# who this is
type: procedural
domain: task
# a person's remark
importance: 0.5
reinforcement_count: 7
last_reinforced: '2026-09-01T10:00:00Z'
status: active   # for now
evidence:
- 'one quote'
team_owner: {{name: Ada, since: 2020}}   # hers
# the end
---
## Learning number 1 #

Its body,   spaced as it likes.
## Still its body

---
id: not-a-uuid
type: procedural
---
## Broken
# Prose

after.
"""


def format_text(text: str) -> str:
    return canonical_file("MEMORY.md", text.encode()).decode()


def test_an_entry_is_formatted_and_other_text_is_unchanged() -> None:
    assert format_text(MESSY) == CLEAN
    assert format_text(CLEAN) == CLEAN


def test_the_entries_are_the_same_before_and_after() -> None:
    before, after = (parse_memory_file("", text.encode()) for text in (MESSY, CLEAN))
    assert before.entries == after.entries
    assert len(before.entries) == 1


def test_line_endings_and_the_byte_order_mark_are_kept() -> None:
    data = b"\xef\xbb\xbf" + MESSY.replace("\n", "\r\n").encode()
    assert canonical_file("", data) == b"\xef\xbb\xbf" + CLEAN.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("data", [b"", b"# Prose\n\n\n---\nno entry", b"\xff\xfe", b"---\nid: x\n"])
def test_a_file_without_an_entry_keeps_its_bytes(data: bytes) -> None:
    assert canonical_file("", data) == data


def test_entries_that_we_write_are_canonical() -> None:
    texts = [format_entry(make_entry(number, body="Text.", source="pr:7")) for number in (1, 2)]
    assert format_text("\n".join(texts)) == "\n".join(texts)


def test_two_entries_are_separated_by_one_blank_line() -> None:
    first, two = (format_entry(make_entry(number)) for number in (1, 2))
    assert (
        format_text(first + two)
        == format_text(first + "\n\n\n\n" + two + "\n\n")
        == first + "\n" + two
    )


def test_a_title_that_ends_in_a_hash_keeps_it() -> None:
    assert "\n## C# and F#\n" in format_text(
        format_entry(make_entry(1)).replace("## Learning number 1", "## C# and F#")
    )


def test_additional_decimals_of_an_importance_are_kept() -> None:
    text = format_entry(make_entry(1)).replace("importance: 0.5", "importance: 0.123456")
    assert format_text(text) == text


def test_an_entry_without_a_title_is_given_none() -> None:
    text = format_entry(make_entry(1)).replace("## Learning number 1", "\nJust a line.")
    assert format_text(text) == text.replace("---\n\nJust", "---\nJust")


def test_comments_stay_with_their_values_and_lists() -> None:
    text = format_all_keys(make_entry(1)).replace(
        "status: active\n",
        "cites:\n- 'a#b'\n# why\n- c\nnote: |\n  kept\n  # not a comment\nstatus: active\n",
    )
    assert "cites:\n- 'a#b'\n# why\n- c\n" in format_text(text)
    assert "note: |\n  kept\n  # not a comment\n---" in format_text(text)


INSIDE = [
    "evidence: [a, 'b # c']",
    "cites:\n- 'a#b'\n# why\n- c",
    "source: >\n  folded",
    "instead: 'it''s' # why",
    "unknown: {a: 1}",
    "more: |\n  kept\n  # kept",
    "# comment",
    "",
]
LINES = st.lists(
    st.sampled_from(
        [
            "---",
            "id: 00000001-0000-4000-8000-000000000000",
            "id: 00000002-0000-4000-8000-000000000000",
            "type: procedural",
            "domain: task",
            "importance: .5",
            "reinforcement_count: 1",
            "last_reinforced: 2026-09-01",
            "status: active",
            "status: 'active' # why",
            "unknown: {a: 1}",
            "  # indented",
            "## Title",
            "# One",
            "```",
            "text\r",
            "<<<<<<< x",
            ">>>>>>> x",
            "",
        ]
    ),
    max_size=30,
)
HEAD = [
    "---",
    "type: procedural",
    "status: active",
    "id: 00000001-0000-4000-8000-000000000000",
    "domain: task",
    "importance: .5",
    "reinforcement_count: 1",
    "last_reinforced: 2026-09-01",
]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw a file that contains an entry with any lines in its head and around it."""
    before, after = draw(LINES), draw(LINES)
    inside = draw(st.lists(st.sampled_from(INSIDE), max_size=4, unique=True))
    head = draw(st.permutations([*HEAD[1:], *inside]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return newline.join([*before, HEAD[0], *head, "---", "## Title", *after]).encode()


@given(files())
def test_formatting_is_stable_and_keeps_every_entry_and_every_finding(data: bytes) -> None:
    file = parse_memory_file("", data)
    try:
        result = canonical_file("", data)
    except UnreadableMemoryError:
        assert file.findings, "only a file with a fault is refused"
        reject()
    reread_file = parse_memory_file("", result)
    assert canonical_file("", result) == result
    assert reread_file.entries == file.entries
    assert sorted(finding.code for finding in reread_file.findings) == sorted(
        finding.code for finding in file.findings
    )


@given(files())
def test_no_word_is_lost(data: bytes) -> None:
    """Quotation and numbers may be rewritten; every letter of every line must still be there."""

    def letters(text: bytes) -> list[str]:
        return sorted("".join(char for char in text.decode() if char.isalpha()))

    assert letters(canonical_file("", data)) == letters(data)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.dates(date(2000, 1, 1), date(2100, 1, 1))), max_size=4)
)
def test_formatting_does_not_change_files_that_we_wrote(pairs: list[tuple[int, date]]) -> None:
    texts = [
        format_entry(make_entry(number, created_at=day, evidence=("a", "b #c")))
        for number, day in pairs
    ]
    assert format_text("\n".join(texts)) == "\n".join(texts)


HEAD_LINES = (
    "domain: team",
    "domain: nowhere",
    "importance: 0.75",
    "importance: 1.5",
    "importance: 1e-1",
    "reinforcement_count: 3",
    "last_reinforced: '2026-09-02'",
    "last_reinforced: 2026-09-02",
    "status: retired",
    "status: active # still",
    "created_at: '2026-09-01'",
    "created_at: '2026-02-30'",
    "occurred_at: '2026-09-01'",
    "phase: review",
    "phase: unknown",
    "session: job-7",
    "scope: team:src/api",
    "when: start",
    "check:\n  untouched: [a]",
    "level: fail",
    "priority: high",
    "valid_until: ''",
    "supersedes:\n- 00000002-0000-4000-8000-000000000000",
    "source: 'pr:1 commit:3f2ab91'",
    "source: pr:1 commit:3f2ab91",
    "source: 'it''s'",
    "source: caf\u00e9",
    "engine: null",
    "evidence:\n- 'one: two'\n- three",
    "evidence:\n- |\n  block",
    "evidence: one",
    "cites:",
    "cites:\n- src/a.py:3@3f2ab91aa5a1",
    "aka: ''",
    "adoption: rejected",
    "instead: 'do that'",
    "promoted_at: '2026-09-01'",
    "team_owner: ada",
    "# a remark",
    "",
)
TITLES = (
    "## Wait for the lock",
    "## About C#",
    "## Closed ##",
    "##  Two blanks",
    "## id: 7",
    "## --",
    "## type: procedural",
    "### Deeper",
    "# Higher",
    "Underlined\n---",
    "",
    "## \u00a0blank",
    "## end\u000b",
)
BODIES = (
    "",
    "\nOne line.\n",
    "\n\n  indented\n\n",
    "\nA\n\n---\n\nb\n",
    "\n# Heading\n",
    "\n## Heading\n",
    "\n```\ncode\n```\n",
    "\n```\nopen\n",
    "importance: 0.5\nstatus: active\ndomain: task\n",
    "\n<<<<<<< ours\n",
    "\ufeff",
    "\n---\nid: 7\n---\n",
    "\nkept \n",
)


@given(
    st.sampled_from([make_id(1), make_id(1).replace("0", "A"), "7", f"'{make_id(1)}'"]),
    st.lists(st.sampled_from(HEAD_LINES), max_size=5, unique=True),
    st.sampled_from(TITLES),
    st.sampled_from(BODIES),
    st.booleans(),
)
def test_an_entry_in_canonical_form_is_read_as_any_other(
    id_: str, lines: list[str], title: str, body: str, in_order: bool
) -> None:
    if in_order:
        lines = sorted(lines, key=HEAD_LINES.index)
    head = "\n".join([f"id: {id_}", "type: procedural", *lines])
    text = f"{head}\n---\n{title}\n{body}"
    entry = parse_canonical(text)
    if entry is not None:
        assert parse_memory_file("MEMORY.md", f"---\n{text}".encode()).entries == (entry,)


@given(
    st.lists(st.sampled_from(HEAD_LINES), max_size=4, unique=True),
    st.lists(st.tuples(st.sampled_from(TITLES), st.sampled_from(BODIES)), min_size=1, max_size=3),
)
def test_reading_entry_by_entry_gives_the_same_as_reading_the_whole_file(
    lines: list[str], below: list[tuple[str, str]]
) -> None:
    head = "\n".join(["type: procedural", *sorted(lines, key=HEAD_LINES.index)])
    texts = [
        f"---\nid: {make_id(number)}\n{head}\n---\n{title}\n{body}"
        for number, (title, body) in enumerate(below)
    ]
    data = "\n".join(["# Memory\n", *texts]).encode()
    parsed = parse_memory_file("MEMORY.md", data)
    read_whole = locate_entries(parsed, ScopePatterns(), with_hashes=True)
    assert load_file("MEMORY.md", data, ScopePatterns()) == read_whole


def test_written_entries_are_read_without_the_yaml_parser() -> None:
    entry = make_entry(
        1,
        created_at=date(2026, 9, 1),
        reinforcement_count=2,
        importance=0.25,
        source="pr:1",
        cites=("src/a.py:3@3f2ab91aa5a1",),
        evidence=("it was said: never", "once more"),
        body="Wait.\n\nThen go on.",
    )
    text = format_entry(entry).removeprefix("---\n")
    assert parse_canonical(text) == entry


def test_an_entry_that_is_too_long_is_reported_in_every_read() -> None:
    entry = make_entry(1, body=("word " * 5_000).strip())
    loaded = load_file("MEMORY.md", format_entry(entry).encode(), ScopePatterns())
    assert [finding.code for finding in loaded.findings] == ["entry-too-long"]
    assert loaded.text_hashes == {}


def test_a_line_that_is_refused_is_refused_in_any_form() -> None:
    text = format_entry(make_entry(1, source="x")).replace("source: x", f"source: {'x' * 100_001}")
    loaded = load_file("MEMORY.md", text.encode(), ScopePatterns())
    assert [finding.code for finding in loaded.findings] == ["malformed-front-matter"]


def test_a_key_that_is_written_twice_is_left_to_the_yaml_parser() -> None:
    text = format_entry(make_entry(1)).removeprefix("---\n")
    assert parse_canonical(text) is not None
    assert parse_canonical(text.replace("type: ", "source: pr:1\nsource: pr:2\ntype: ")) is None


@pytest.mark.parametrize(
    "field", ["cites:", "cites: a.py", "source:\n- pr:1", "source: ", "type:procedural", "- a"]
)
def test_a_field_of_another_form_is_left_to_the_yaml_parser(field: str) -> None:
    text = format_entry(make_entry(1)).removeprefix("---\n")
    assert parse_canonical(text.replace("type: ", f"{field}\ntype: ")) is None
