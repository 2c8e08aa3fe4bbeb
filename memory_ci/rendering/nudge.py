"""The line that says memory has not changed for long."""

from __future__ import annotations

from memory_ci.records.config import NudgeConfig


def render_nudge(settings: NudgeConfig) -> str:
    """One line: how much went by, and what can be done. It holds no text of anyone else's."""
    what = "commits" if settings.unit == "commits" else "merged changes"
    since = f"memory-ci: {settings.after} or more {what} since memory changed."
    return f"{since} What would the next job like to know? `memory-ci add` notes it."
