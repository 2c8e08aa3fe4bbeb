"""Tests of reading legacy prose: dated sections of known kinds, and nothing else."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.import_.legacy import LegacyFile, read_dated_sections
from memory_ci.records.entry import Domain, EntryType
from memory_ci.store.edits import format_entry
from memory_ci.store.manual_notes import derive_id
from tests.make import make_entry, make_id

TODAY = date(2026, 11, 21)
DAY = date(2026, 3, 1)

FILE = """# Memory

<!-- kept by agents -->

## [2026-03-01] Corrective Learning
**Error Pattern:** a charge was sent twice
**Prevention:** send an idempotency key with each *charge*

---

## [2026-03-02] Decision: retries live in the client

Only the client knows the key.

```
## [2026-03-03] Session Learning
```

## Notes
Buy milk.
## [2026-03-04] v1.0.0 release
Shipped.
## [2026-13-01] Session Learning
No such day.
## [2026-03-05] Session Learning
"""


def read(text: str) -> LegacyFile:
    return read_dated_sections("old/MEMORY.md", text.encode(), "teaparty")


def test_a_dated_section_of_a_known_kind_becomes_an_entry() -> None:
    first, second = (learning.entry for learning in read(FILE).learnings)
    assert (first.type, first.domain, first.importance) == ("corrective", "task", 0.8)
    assert first.title == "send an idempotency key with each *charge*"
    assert first.body.startswith("**Error Pattern:**")
    assert first.body.endswith("*charge*")
    assert {first.created_at, first.occurred_at, first.last_reinforced} == {DAY}
    assert first.source == "teaparty:MEMORY.md"
    assert (second.type, second.title) == ("declarative", "retries live in the client")
    assert "## [2026-03-03]" in second.body


def test_a_section_has_its_first_and_last_line() -> None:
    assert [(learning.line, learning.last) for learning in read(FILE).learnings] == [
        (5, 10),
        (11, 18),
    ]


def test_other_text_is_reported_with_its_line_and_not_read() -> None:
    findings = read(FILE).findings
    assert [finding.line for finding in findings] == [19, 21, 23, 25]
    assert {finding.code for finding in findings} == {"not-understood"}


@pytest.mark.parametrize(
    ("kind", "type_", "domain"),
    [
        ("Session Learning", "procedural", "team"),
        ("Team Norm", "directive", "team"),
        ("Project Convention", "directive", "team"),
        ("Observation", "declarative", "team"),
        ("In-Flight Learning", "procedural", "team"),
        ("PROJECT  LEARNING", "procedural", "task"),
    ],
)
def test_a_kind_has_its_type_and_domain(kind: str, type_: EntryType, domain: Domain) -> None:
    (learning,) = read(f"## [2026-03-01] {kind}\nText.\n").learnings
    assert (learning.entry.type, learning.entry.domain) == (type_, domain)


@pytest.mark.parametrize(
    "text",
    [
        "# To do\n\n- [ ] write the parser\n",
        "---\ntitle: My essay\n---\n\n## Learning\n\nA long text.\n",
        "## Changelog\n\n## [1.2.0] - 2026-03-01\n\n### Added\n",
        "## 2026-03-01 Session Learning\nText.\n",
        "Text that mentions ## [2026-03-01] Session Learning in a line.\n",
    ],
)
def test_a_users_document_gives_no_learnings(text: str) -> None:
    document = read(text)
    assert document.learnings == ()
    assert document.findings


def test_an_entry_of_teaparty_keeps_its_id_and_gets_a_meaningful_title() -> None:
    body = "**Context:** a merge\n**Learning:** run the hooks first\n**Action:** do"
    text = format_entry(make_entry(1, title="[2026-03-01] Session Learning", body=body))
    (learning,) = read(text).learnings
    entry = learning.entry
    assert (entry.id, entry.title, entry.occurred_at) == (make_id(1), "run the hooks first", DAY)
    assert entry.body == body


def test_an_unreadable_entry_is_reported_and_the_others_are_read() -> None:
    broken = format_entry(make_entry(1)).replace("procedural", "guess")
    document = read(broken + "\n" + format_entry(make_entry(2)))
    assert [learning.entry.id for learning in document.learnings] == [make_id(2)]
    assert [(finding.line, finding.code) for finding in document.findings] == [
        (3, "not-understood")
    ]


def test_the_id_of_a_text_does_not_depend_on_its_spacing_or_date() -> None:
    def ids(text: str) -> list[str]:
        return [learning.entry.id for learning in read(text).learnings]

    ids_before = ids("## [2026-03-01] Lesson\nRun the  tests.\n")
    assert ids_before == ids("# Memory\n## [2026-04-01] Lesson\r\n\r\nrun the\r\ntests.\r\n")
    assert ids_before != ids("## [2026-03-01] Lesson\nRun the linter.\n")
    assert derive_id("legacy", "x")[14] == "4"


TEXTS = st.lists(
    st.sampled_from(
        [
            "## [2026-03-01] Lesson",
            "## [2026-03-02] Decision: a",
            "text",
            "---",
            "# One",
            "## Two",
            "```",
            "",
            "\r",
        ]
    ),
    max_size=20,
).map("\n".join)


@given(TEXTS)
def test_every_entry_has_a_title_and_lines_of_its_own(text: str) -> None:
    learnings = read(text).learnings
    spans = [(learning.line, learning.last) for learning in learnings]
    assert all(first <= last for first, last in spans)
    assert all(first[1] < two[0] for first, two in pairwise(spans))
    assert all(learning.entry.title for learning in learnings)


@given(st.binary() | TEXTS.map(str.encode))
def test_reading_any_bytes_raises_no_error(data: bytes) -> None:
    read_dated_sections("x.md", data, "legacy")
