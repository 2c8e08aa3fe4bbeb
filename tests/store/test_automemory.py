"""Tests of reading Claude Code's auto memory: topic files, and the older plain Markdown."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.import_.legacy import LegacyFile, list_mentioned_files, read_auto_memory
from memory_ci.store.edits import format_entry

TODAY = date(2026, 11, 21)

FLAT = """---
name: Tests use a real database
description: Integration tests must not mock the database
type: feedback
originSessionId: 5da15695-411e
---
Use the real one.

**Why:** a mock hid a broken migration.
"""

NESTED = """---
name: merge-freeze
description: "No merges after Thursday: the release branch is cut"
metadata:
  node_type: memory
  type: project
  modified: 2026-09-03T10:00:00.000Z
---

# Merge freeze
## When
Until the tag. See [[release-plan]].
"""

PLAIN = """# Project Memory

- [Freeze](merge_freeze.md) — no merges
- See [debugging](debugging.md)

## Commands
- `make test` runs everything
- Releases:
  - tag first
  - then publish

## Architecture
The API talks to the queue.

- and nothing else

## Preferences
1. Always use tabs in Makefiles
"""


def read(text: str, *, is_listed: bool = False) -> LegacyFile:
    return read_auto_memory("memory/x.md", text.encode(), TODAY, is_named=is_listed)


def test_a_topic_file_is_one_memory() -> None:
    (learning,) = read(FLAT).learnings
    entry = learning.entry
    assert (entry.type, entry.domain, entry.title) == (
        "directive",
        "team",
        "Tests use a real database",
    )
    assert entry.body.startswith(
        "Integration tests must not mock the database\n\nUse the real one."
    )
    assert (entry.session, entry.source) == ("claude-code:5da15695-411e", "claude-code:x.md")
    assert (entry.created_at, entry.occurred_at) == (TODAY, None)


def test_the_newer_front_matter_is_read_and_headings_stay_inside_the_entry() -> None:
    (learning,) = read(NESTED).learnings
    entry = learning.entry
    assert entry.title == "No merges after Thursday: the release branch is cut"
    assert (entry.type, entry.occurred_at) == ("declarative", date(2026, 9, 3))
    assert entry.body.startswith("### Merge freeze\n#### When")
    assert entry.body in format_entry(entry)


def test_memories_about_a_person_are_refused() -> None:
    memories = read(FLAT.replace("feedback", "user"))
    assert (memories.learnings, [finding.code for finding in memories.findings]) == (
        (),
        ["about-a-person"],
    )


@pytest.mark.parametrize(
    "text",
    [
        FLAT.replace("feedback", "essay"),
        FLAT.replace("type: feedback\n", ""),
        "---\ntitle: Essay\n---\nText.\n",
    ],
)
def test_other_front_matter_is_reported_and_not_read(text: str) -> None:
    memories = read(text)
    assert (memories.learnings, [finding.code for finding in memories.findings]) == (
        (),
        ["not-understood"],
    )


def test_plain_markdown_is_read_by_bullets_and_sections() -> None:
    learnings = read(PLAIN, is_listed=True).learnings
    assert [(learning.line, learning.last, learning.entry.title) for learning in learnings] == [
        (7, 7, "Commands: `make test` runs everything"),
        (8, 11, "Commands: Releases:"),
        (12, 16, "Architecture"),
        (18, 18, "Preferences: Always use tabs in Makefiles"),
    ]
    assert learnings[1].entry.body == "- tag first\n- then publish"
    assert learnings[2].entry.body == "The API talks to the queue.\n\n- and nothing else"
    assert [learning.entry.type for learning in learnings] == ["declarative"] * 3 + ["directive"]


def test_plain_markdown_outside_the_index_is_not_read() -> None:
    memories = read(PLAIN)
    assert (memories.learnings, [finding.code for finding in memories.findings]) == (
        (),
        ["not-understood"],
    )


def test_an_index_names_its_files() -> None:
    assert list_mentioned_files(PLAIN) == {"merge_freeze.md", "debugging.md"}


def test_a_long_bullet_keeps_its_whole_text_in_the_body() -> None:
    text = "word " * 60 + "end"
    (learning,) = read(f"- {text}\n", is_listed=True).learnings
    assert learning.entry.title.endswith("…")
    assert learning.entry.body == text


PARTS = st.lists(
    st.sampled_from(
        ["- a", "  b", "text", "# Memory", "# Title", "## Two", "```", "", "---", "name: x", "1. c"]
    )
)


@given(st.binary() | PARTS.map("\n".join).map(str.encode), st.booleans())
def test_reading_any_bytes_raises_no_error(data: bytes, is_listed: bool) -> None:
    memories = read_auto_memory("x.md", data, TODAY, is_named=is_listed)
    spans = [(learning.line, learning.last) for learning in memories.learnings]
    assert all(first[1] < two[0] for first, two in pairwise(spans))
