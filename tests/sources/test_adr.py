"""Tests of decision records as a source: records that a change adds, found by configured patterns."""

from __future__ import annotations

import pytest

from memory_ci.records.config import ExtractionConfig
from memory_ci.records.history import FileChange
from memory_ci.sources.commits import list_added_adrs, make_file_event
from tests.make import make_change, make_commit

PATTERNS = ExtractionConfig().adr_paths


@pytest.mark.parametrize(
    ("path", "is_found"),
    [
        ("docs/adr/0001-use-git.md", True),
        ("doc/adr/readme.md", True),
        ("adr/7-x.md", True),
        ("services/api/docs/adr/12-x.md", True),
        ("a/decisions/3.md", True),
        ("docs/adr/deep/1.md", False),
        ("a/decisions/three.md", False),
        ("docs/adr/0001.txt", False),
        ("docs/adrx/1.md", False),
    ],
)
def test_patterns_match_whole_paths(path: str, is_found: bool) -> None:
    change = make_change(make_commit(files=(FileChange("A", path),)))
    assert list_added_adrs(change, PATTERNS) == ((path,) if is_found else ())


def test_an_edited_or_deleted_record_gives_no_event() -> None:
    files = (FileChange("M", "docs/adr/1.md"), FileChange("D", "docs/adr/2.md"))
    assert list_added_adrs(make_change(make_commit(files=files)), PATTERNS) == ()


def test_a_record_in_a_branch_commit_and_the_merge_gives_one_event() -> None:
    files = (FileChange("A", "docs/adr/1.md"),)
    change = make_change(
        make_commit(sha="a" * 40, files=files), make_commit(sha="c" * 40, files=files)
    )
    assert list_added_adrs(change, PATTERNS) == ("docs/adr/1.md",)


def test_a_character_class_may_be_negated() -> None:
    change = make_change(
        make_commit(files=(FileChange("A", "adr/x.md"), FileChange("A", "adr/1.md")))
    )
    assert list_added_adrs(change, ["adr/[!0-9]*.md"]) == ("adr/x.md",)


def test_the_event_of_a_record_has_its_path() -> None:
    event = make_file_event(
        make_change(make_commit(sha="d" * 40)), "docs/adr/1.md", "adr", "# Title\n"
    )
    assert (event.kind, event.seq, event.text, event.paths) == (
        "adr",
        0,
        "# Title\n",
        ("docs/adr/1.md",),
    )
    assert str(event.origin) == f"commit:{'d' * 40} docs/adr/1.md"
