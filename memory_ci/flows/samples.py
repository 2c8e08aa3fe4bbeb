"""Sample entries: what stands in for memory where memory-ci tries itself out."""

from __future__ import annotations

from datetime import date

from memory_ci.records.entry import Entry


def sample_entry(number: int, title: str) -> Entry:
    """An entry that says `title`; equal numbers have equal ids."""
    return Entry(
        id=f"{number:08x}-0000-4000-8000-000000000000",
        type="procedural",
        domain="task",
        importance=0.5,
        reinforcement_count=0,
        last_reinforced=date(2026, 1, 1),
        status="active",
        title=title,
    )
