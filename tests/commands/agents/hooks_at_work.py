"""Helpers that read the output of agents' hooks."""

from __future__ import annotations

import json
from collections.abc import Callable

ASK = "charge a card again"
Call = Callable[..., str]


def context(answer: str) -> str:
    """Return the text that a hook adds to the session, in the format of any agent."""
    data = json.loads(answer or "{}")
    flat = data.get("additionalContext") or data.get("additional_context") or ""
    return str(flat or data.get("hookSpecificOutput", {}).get("additionalContext", ""))
