"""What the hooks of agents print, read back."""

from __future__ import annotations

import json
from collections.abc import Callable

ASK = "charge a card again"
Call = Callable[..., str]


def context(answer: str) -> str:
    """What an agent is told, whatever its dialect."""
    told = json.loads(answer or "{}")
    flat = told.get("additionalContext") or told.get("additional_context") or ""
    return str(flat or told.get("hookSpecificOutput", {}).get("additionalContext", ""))
