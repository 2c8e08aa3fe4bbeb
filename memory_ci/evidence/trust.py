"""Trust: how far the words of an event may carry a learning, by who wrote them.

T0  a mark by someone with write access: a trusted author's words that were merged into the default branch, or his
    `/remember` or `Rejected:` in a review: a mark in them is written
T1  words of people who may write to the repository, and of those whose commits were merged: quotable, but a mark in
    them only proposes; a person's turns in the session of a trusted author
T2  an agent's text, the summary of a compaction whoever hands it on: only corroborates
T3  bots, tools, everything injected and everything from outside (a fork, someone without write access, the session of
    an author who is not trusted): only corroborates, never quoted into memory
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory_ci.evidence.content import own_words
from memory_ci.records.event import Event, Trust
from memory_ci.text import unfenced_lines

MERGED = frozenset({"commit", "adr"})
# Turns of sessions and files of jobs: nobody reviewed them, so they are worth what their author is.
OF_A_SESSION = frozenset(
    {"text", "rejection", "interrupt", "premortem", "assumption", "intervention", "intent"}
)
# The label of a review whose author the forge knows to have write access; without it nothing is presumed.
WRITE_ACCESS = ("permission", "write")
# What a reviewer asks to be kept: `/remember …`, and why something was declined.
REMEMBER = re.compile(r"^[ \t]*(?:/remember[ \t]+|Rejected:[ \t]*)\S", re.MULTILINE)
AUTHOR = re.compile(r"(?P<name>.*?)\s*<(?P<email>[^>]*)>")


def tier(event: Event, trusted_authors: Iterable[str], bot_authors: Iterable[str]) -> Trust:
    """The trust tier of `event`; a bot stays a bot even where every author is trusted."""
    if event.is_outside or event.actor == "bot" or is_author(event.author, bot_authors):
        return "T3"
    if event.actor in ("agent", "subagent") or event.kind == "compaction":
        return "T2"
    if event.actor != "human":
        return "T3"
    is_trusted = is_author(event.author, trusted_authors)
    is_merged = (
        event.kind in MERGED and event.session is None
    )  # a transcript that tells of a commit proves none
    if is_trusted and (is_merged or _is_remembered(event)):
        return "T0"
    is_unreviewed = event.session is not None or event.kind in OF_A_SESSION
    return "T3" if is_unreviewed and not is_trusted else "T1"


def _is_remembered(event: Event) -> bool:
    if event.kind != "review" or WRITE_ACCESS not in event.labels:
        return False
    lines = unfenced_lines(own_words(event.text).splitlines())
    return bool(REMEMBER.search("\n".join(lines)))


def is_author(author: str, patterns: Iterable[str]) -> bool:
    """Whether the name, the e-mail or `Name <e-mail>` matches one of `patterns`, case folded. Only `*` is special:
    `*[bot]*` means the brackets, which shell patterns would read as a class."""
    match = AUTHOR.fullmatch(author)
    forms = [author, *(match.groups() if match else ())]
    globs = [
        re.compile(".*".join(map(re.escape, pattern.casefold().split("*")))) for pattern in patterns
    ]
    return any(glob.fullmatch(form.casefold()) for glob in globs for form in forms)


# What coding agents sign with, as authors or co-authors: their names or e-mail addresses, `*` for anything.
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

# Bots by whatever configuration: those that commit what memory-ci writes.
BOTS = ("memory-ci*", "github-actions*", "*[bot]*")


def find_machine(
    author: str,
    co_authors: Iterable[str],
    sessions: Iterable[str],
    steps: Iterable[str],
    bot_authors: Iterable[str],
) -> str:
    """Who made a commit if that was no person alone, else "".

    `author` and `co_authors` are `Name <e-mail>`; `sessions` and `steps` the values of its trailers Memory-Session and
    Memory-CI-Step. The hook that writes the first does so only while an agent's session is under way.
    """
    if any(steps) or is_author(author, (*BOTS, *bot_authors)):
        return f"the bot {author}"
    if session := next(iter(sessions), ""):
        return f"an agent in the session {session}"
    agent = next(
        (one for one in (author, *co_authors) if is_author(one, (*AGENTS, *BOTS, *bot_authors))), ""
    )
    return f"the agent {agent}" if agent else ""
