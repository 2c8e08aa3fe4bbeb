"""Tests of finding learnings that the repository's documents contain already."""

from __future__ import annotations

import pytest

from memory_ci.extraction.support import find_restating_document, is_document, list_paragraphs

GUIDE = """# Testing

Each job takes the pool.

- Do not use `t.Parallel()` in tests that call `os.Chdir()`: it changes the
  directory of the whole process.
- Close the pool of workers at the end.

<!-- memory-ci: begin -->
Retry a POST only with the same idempotency key.
<!-- memory-ci: end -->
"""
HELP = 'cmd.Flags().IntVar(&n, "max-concurrent", 0, "Throttles the spawn rate; it is no limit of polecats that run")\n'
CODE = 'log.Info("the spawn rate throttles with max-concurrent, no limit of running polecats")\n'


@pytest.mark.parametrize(
    ("title", "is_told"),
    [
        ("Do not use t.Parallel() in tests that call os.Chdir()", True),
        ("Run tests with os.Chdir in a process of their own, as CI does", False),
        ("Close the pool of workers at the end of a job", True),
        ("Close the pool of clients at the end of a job", False),
        ("Do not use t.Parallel() in tests that call os.Chdir() or os.Setenv()", False),
        ("Retry a POST only with the same idempotency key", False),
        ("Take the pool", False),
    ],
)
def test_a_title_is_documented_by_a_paragraph_with_all_its_names_and_most_words(
    title: str, is_told: bool
) -> None:
    assert find_restating_document(title, list_paragraphs("AGENTS.md", GUIDE)) == (
        "AGENTS.md" if is_told else None
    )


@pytest.mark.parametrize(("text", "is_told"), [(HELP, True), (CODE, False)])
def test_in_code_only_the_help_text_counts(text: str, is_told: bool) -> None:
    title = "--max-concurrent throttles the spawn rate, it is no limit of polecats"
    assert find_restating_document(title, list_paragraphs("run.go", text)) == (
        "run.go" if is_told else None
    )


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("README.md", True),
        ("pkg/CLAUDE.md", True),
        ("AGENTS.md", True),
        ("docs/limits.rst", True),
        ("doc/a/b.md", True),
        ("CHANGELOG.md", False),
        ("docs/conf.py", False),
        ("src/README.txt", False),
    ],
)
def test_documents_are_files_that_people_and_agents_read_before_they_work(
    path: str, is_one: bool
) -> None:
    assert is_document(path) is is_one
