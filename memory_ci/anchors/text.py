"""The verdict on a cite as text."""

from __future__ import annotations

from memory_ci.records.anchor import Verdict, format_place


def format_verdict(verdict: Verdict) -> str:
    """Return a verdict with the place that is cited."""
    return f"{verdict.kind}: {''.join(format_place(verdict))}"
