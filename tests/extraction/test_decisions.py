"""Tests of the status of decision records."""

from __future__ import annotations

import pytest

from memory_ci.extraction.decisions import find_withdrawal


@pytest.mark.parametrize(
    ("record", "status"),
    [
        ("# A\n\nStatus: Accepted\n", ""),
        ("# A\n\n## Status\n\nAccepted, supersedes ADR-2\n\n## Decision\n\nIt was rejected.\n", ""),
        ("# A\n\n* Status: superseded by [ADR-7](0007-b.md)\n", "superseded by ADR-7"),
        ("# A\n\n## Status\n\n~~Accepted~~\n\nSuperceded by [2. B](2.md)\n", "superseded by 2. B"),
        ("---\nstatus: deprecated\n---\n# A\n", "deprecated"),
        ("---\nstatus: accepted\nsuperseded_by: ADR-9\n---\n# A\n", "superseded by ADR-9"),
        ("---\nsuperseded_by: null\n---\n# A\n", ""),
        ("---\nsuperseded_by:\n---\n# A\n", ""),
        ("# A\n\n**Status:** Rejected\n", "rejected"),
    ],
)
def test_the_status_of_a_record_decides_whether_it_is_valid(record: str, status: str) -> None:
    assert find_withdrawal(record) == status
