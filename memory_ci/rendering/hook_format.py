"""What surrounds a context where it goes: an agent's hook, a Markdown page."""

from __future__ import annotations

import re

import msgspec

HOOK_CHARS = 10_000
"""More of one context Claude Code does not inject: it keeps it in a file and shows the beginning (hooks reference)."""

HOOK_EVENTS = ("UserPromptSubmit", "SessionStart")
"""The events whose hooks may add to the context before the agent's work."""

ASK = "If an entry above helped, name it in the commit message: Memory-Used: <its id>\n"
"""Ours, below the hints: without the trailer nobody can tell what was used from what was only given."""


def render_asking(context: str, is_noted: bool) -> str:
    """The context, and where what it gives is noted, the line that asks what of it was used; "" for no context."""
    return f"{context}{ASK}" if context and is_noted else context


def render_hook(context: str, event: str) -> str:
    """The JSON that Claude Code reads from a hook of `event`; "" for no context, which is no output."""
    if not context:
        return ""
    answer = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}
    return f"{msgspec.json.encode(answer).decode()}\n"


def render_markdown(context: str) -> str:
    """A heading and the context as it is, in a fence longer than any within: a page shows it and renders none of it."""
    if not context:
        return ""
    longest = max((len(run) for run in re.findall("`+", context)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"### What memory knows\n\n{fence}text\n{context}{fence}\n"
