"""Machines: whether a bot or an agent made a commit. What only a person may decide is judged by this."""

from __future__ import annotations

from collections.abc import Iterable

from memory_ci.evidence.trust import is_author

AGENTS = (
    "*@anthropic.com",
    "*@openai.com",
    "*@cursor.com",
    "*@aider.chat",
    "* (aider)*",
    "*@all-hands.dev",
    "*@ampcode.com",
    "*+copilot@users.noreply.github.com",
    "copilot*",
    "*gemini-code-assist*",
    "google-labs-jules*",
    "devin-ai-integration*",
)
"""What coding agents sign with, as authors or co-authors: their names or e-mail addresses, `*` for anything."""

BOTS = ("memory-ci*", "github-actions*", "*[bot]*")
"""Bots by whatever configuration: those that commit what memory-ci writes."""


def find_machine(
    author: str, co_authors: Iterable[str], sessions: Iterable[str], steps: Iterable[str], bot_authors: Iterable[str]
) -> str:
    """Who made a commit if that was no person alone, else "".

    `author` and `co_authors` are `Name <e-mail>`; `sessions` and `steps` the values of its trailers Memory-Session and
    Memory-CI-Step. The hook that writes the first does so only while an agent's session is under way.
    """
    if any(steps) or is_author(author, (*BOTS, *bot_authors)):
        return f"the bot {author}"
    if session := next(iter(sessions), ""):
        return f"an agent in the session {session}"
    agent = next((one for one in (author, *co_authors) if is_author(one, (*AGENTS, *BOTS, *bot_authors))), "")
    return f"the agent {agent}" if agent else ""
