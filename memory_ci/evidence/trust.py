"""Trust tiers of events: how far their words may support a learning, by their author.

T0  a mark by someone with write access: a trusted author's words that were merged into the default
    branch, or his `/remember` or `Rejected:` in a review: a mark in them is written
T1  words of people who may write to the repository, and of those whose commits were merged:
    quotable, but a mark in them only proposes; a person's turns in the session of a trusted author
T2  an agent's text, the summary of a compaction, whatever its actor: only corroborates
T3  bots, tools, everything injected and everything from outside (a fork, someone without write
    access, the session of an author who is not trusted): only corroborates, never quoted into
    memory
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory_ci.evidence.content import extract_own_words
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Event, Trust
from memory_ci.regex import Regex
from memory_ci.text import unfenced_lines

MERGED_KINDS = frozenset({"commit", "adr"})

UNREVIEWED_KINDS = frozenset(
    {"text", "rejection", "interrupt", "premortem", "assumption", "intervention", "intent"}
)
"""Turns of sessions and files of jobs: nobody reviewed them, so their author's trust decides."""

WRITE_ACCESS = ("permission", "write")
"""The label of a review by someone with write access at the forge; without it none is presumed."""

REMEMBER_REQUEST = Regex(r"^[ \t]*(?:/remember[ \t]+|Rejected:[ \t]*)\S", re.MULTILINE)
"""A reviewer's request to keep words: `/remember …`, or the reason why something was declined."""

AUTHOR = Regex(r"(?P<name>.*?)\s*<(?P<email>[^>]*)>")

AGENT_PATTERNS = (
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
"""Patterns of coding agents as authors or co-authors: names or e-mail addresses, `*` for any."""

BOT_PATTERNS = ("memory-ci*", "github-actions*", "*[bot]*")
"""Bots under any configuration: those that commit memory."""


def classify_trust(
    event: Event, trusted_authors: Iterable[str], bot_authors: Iterable[str]
) -> Trust:
    """Return how far the words of an event may support a learning, from T0 (most) to T3 (least).

    A bot stays a bot even where all authors are trusted.

    Args:
        event: the event.
        trusted_authors: patterns of authors with write access.
        bot_authors: patterns of bots.
    """
    if event.is_outside or event.actor == "bot" or is_author(event.author, bot_authors):
        return "T3"
    if event.actor in ("agent", "subagent") or event.kind == "compaction":
        return "T2"
    if event.actor != "human":
        return "T3"

    is_trusted = is_author(event.author, trusted_authors)
    # A commit that only a transcript tells of may never have been made, so it is not merged.
    is_merged = event.kind in MERGED_KINDS and event.session is None
    if is_trusted and (is_merged or _is_remembered(event)):
        return "T0"
    is_unreviewed = event.session is not None or event.kind in UNREVIEWED_KINDS
    return "T3" if is_unreviewed and not is_trusted else "T1"


def _is_remembered(event: Event) -> bool:
    if event.kind != "review" or WRITE_ACCESS not in event.labels:
        return False
    lines = unfenced_lines(extract_own_words(event.text).splitlines())
    return bool(REMEMBER_REQUEST.search("\n".join(lines)))


def is_bot(event: Event, policy: ExtractionConfig) -> bool:
    """Return whether a bot made an event: an account of that type, or a configured author."""
    return event.actor == "bot" or is_author(event.author, policy.bot_authors)


def is_author(author: str, patterns: Iterable[str]) -> bool:
    """Return whether an author matches one of some patterns, such as `*@example.com`.

    Compared are the name, the e-mail and `Name <e-mail>`, case folded. Only `*` is special:
    `*[bot]*` means the brackets, which shell patterns would read as a class.
    """
    forms = [author.casefold()]
    match = AUTHOR.fullmatch(author)
    if match:
        forms += [match["name"].casefold(), match["email"].casefold()]
    for pattern in patterns:
        parts = pattern.casefold().split("*")
        regex = re.compile(".*".join(re.escape(part) for part in parts))
        if any(regex.fullmatch(form) for form in forms):
            return True
    return False


def find_bot_or_agent(
    author: str,
    co_authors: Iterable[str],
    sessions: Iterable[str],
    steps: Iterable[str],
    bot_authors: Iterable[str],
) -> str:
    """Return in words which bot or agent made a commit, "" if a person made it alone.

    Args:
        author: the author, as `Name <e-mail>`.
        co_authors: the co-authors, each as `Name <e-mail>`.
        sessions: the values of its trailer Memory-Session, which the hook writes only while an
            agent's session is under way.
        steps: the values of its trailer Memory-CI-Step, which only our own commits have.
        bot_authors: patterns of bots.
    """
    bots = (*BOT_PATTERNS, *bot_authors)
    if any(steps) or is_author(author, bots):
        return f"the bot {author}"
    session = next(iter(sessions), "")
    if session:
        return f"an agent in the session {session}"
    for person in (author, *co_authors):
        if is_author(person, (*AGENT_PATTERNS, *bots)):
            return f"the agent {person}"
    return ""
