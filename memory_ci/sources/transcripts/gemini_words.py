"""The words by which a Gemini CLI session is understood: what it injects, and how it tells of refusals."""

from __future__ import annotations

import re
from typing import Any

from memory_ci.sources.transcripts.fields import as_dict, as_list

INJECTED = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context",
    "System: Please continue.",
    "<hook_context>",
    "Here is the user's editor context",
    "Here is a summary of changes in the user's editor context",
)
"""How text begins that Gemini CLI puts into a message of type user."""

SUMMARY = "<state_snapshot>"
"""What /compress leaves of the history, as a message of type user."""

REFERENCED = "--- Content from referenced files ---"
"""After this line a message holds the files that it names with @: nobody typed them."""

CANCELLED = re.compile(r"^\[Operation Cancelled\] Reason: (.*)", re.DOTALL)
DENIALS = frozenset({"user did not allow tool call", "user denied execution", "tool call cancelled by user", ""})
"""Reasons that stand for a bare no; whatever else is given as a reason is the person's own."""
ABORTS = frozenset(
    """operation cancelled|operation cancelled by user|user cancelled tool execution|user cancelled the operation|
    tool call cancelled|request cancelled|user cancelled operation""".replace("\n    ", "").split("|")
)
"""Reasons that stand for Escape or Ctrl-C while the agent worked."""

EXIT_CODE = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)


def answer_of(result: object) -> dict[str, Any]:
    """The function response among the parts of a result."""
    found = (as_dict(as_dict(part).get("functionResponse")) for part in as_list(result))
    return next((answer for answer in found if answer), {})


def split_typed(texts: list[str]) -> tuple[list[str], str]:
    """What was typed, and the files that the command line added after it."""
    typed: list[str] = []
    for number, text in enumerate(texts):
        words, mark, rest = text.partition(REFERENCED)
        if words.strip():
            typed.append(words)
        if mark:
            return typed, "\n".join([mark + rest, *texts[number + 1 :]])
    return typed, ""
