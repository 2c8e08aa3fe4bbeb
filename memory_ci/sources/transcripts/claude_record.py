"""Claude Code: one record, its queue of typed messages, and its own texts; an unexpected shape is empty.

The queue holds what is typed while the agent works: `enqueue` has the words. `remove` hands them to the running turn,
and mostly no other record has them; newer versions write a `queued_command` attachment just before it. `dequeue` starts
a turn with them, which a `user` record follows. `popAll` takes them back into the editor.
Wordings are those of versions 1.0 to 2.1. A text is a person's only after all texts of Claude Code are ruled out.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from memory_ci.sources.transcripts.builder import as_dict, as_list, as_text, parse_time

Record = dict[str, Any]

IGNORED = frozenset(
    """agent-color agent-name agent-setting ai-title api-request api-request-blob api-request-shape atis-latch
    bridge-session content-replacement cost-state custom-title file-history-delta file-history-snapshot last-prompt mode
    permission-mode summary tag worktree-state""".split()
)
"""Record types that hold nothing anybody said or did."""

MARKS = {
    "file-history-snapshot": "messageId",
    "summary": "leafUuid",
    "queue-operation": "operation",
    "last-prompt": "leafUuid",
} | dict.fromkeys(("user", "assistant", "system", "progress", "attachment"), "uuid")
"""By record type, a key that only Claude Code writes with it: how a file is known."""

PATH_KEYS = ("file_path", "notebook_path", "path")  # Where the tools of Claude Code are told a file.


def blocks_of(record: Record) -> list[Record]:
    """The blocks of the message in `record`; plain text is one block of it."""
    content = as_dict(record.get("message")).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in as_list(content) if isinstance(block, dict)]


def uid_of(record: Record, part: str | int) -> str:
    """An id of one part of a record, the same in every copy of it; empty if the record has none."""
    uuid = as_text(record.get("uuid"))
    return f"{uuid}:{part}" if uuid else ""


def paths_of(given: Record, cwd: str) -> tuple[str, ...]:
    """The file that a tool was told, relative to the session's directory; one outside of it is not named."""
    for key in PATH_KEYS:
        path = PurePosixPath(as_text(given.get(key)))
        if path.is_absolute() and cwd and path.is_relative_to(cwd):
            path = path.relative_to(cwd)
        if path.parts and not path.is_absolute() and ".." not in path.parts:
            return (str(path),)
    return ()


def is_by_person(record: Record) -> bool:
    """Whether the record lets a person be its sender.

    Newer versions name the sender: `turnOrigin` (human, sdk, task_notification …), `origin.kind` (human, peer,
    task-notification, coordinator …), `promptSource` (typed, queued, system, sdk; an app that a person types into says
    sdk too, so it counts last). A headless run (`claude -p`) is a program's.
    """
    if any(record.get(key) for key in ("isMeta", "isCompactSummary", "sourceToolUseID", "planContent")):
        return False
    if turn := record.get("turnOrigin"):
        return bool(turn == "human")
    if kind := as_dict(record.get("origin")).get("kind"):
        return bool(kind == "human")
    return record.get("promptSource", "typed") in ("typed", "queued") and not is_headless(record)


def is_headless(record: Record) -> bool:
    """Whether a program runs the session."""
    return record.get("turnOrigin") == "sdk" or as_text(record.get("entrypoint")).startswith("sdk")


class Waiting(NamedTuple):
    """Words in the queue: the line of the file where they stand, and when they were typed."""

    text: str
    line: int
    at: datetime | None


class Queue:
    """What waits, and what was delivered without a record of its own yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._dequeued: dict[str, Waiting] = {}
        self._delivered: set[str] = set()
        self._absorbed = 0

    def operate(self, line: int, record: Record) -> Waiting | None:
        """One `queue-operation`; gives the words that reached the agent by it and by nothing else."""
        text = as_text(record.get("content")).strip()
        operation = record.get("operation")
        if operation == "enqueue" and text:
            self._waiting[text] = Waiting(text, line, parse_time(record.get("timestamp")))
        elif operation == "popAll":
            self._waiting.clear()
        elif operation == "remove" and self._absorbed:
            self._absorbed -= 1
        elif operation in ("remove", "dequeue") and self._waiting:
            found = self._waiting.pop(text if text in self._waiting else next(iter(self._waiting)))
            if operation == "remove":
                self._delivered.add(found.text)
                return found
            if found.line != line - 1:  # what passes at once waited for nobody
                self._dequeued[found.text] = found
        return None

    def attach(self, text: str, line: int, at: datetime | None) -> Waiting | None:
        """A message handed to the running turn: the words as they were typed, None if `remove` gave them already."""
        if text in self._delivered:
            self._delivered.remove(text)
            return None
        self._absorbed += text in self._waiting
        self._delivered.add(text)
        return self._waiting.pop(text, Waiting(text, line, at))

    def is_delivered(self, text: str) -> bool:
        """Whether the turn `text` is only the second record of words already handed over; only the next turn can be."""
        is_second = text in self._delivered
        self._delivered.clear()
        return is_second

    def has_waited(self, text: str) -> bool:
        """Whether the turn `text` came out of the queue, where several messages may have become one turn."""
        found = [waiting for waiting in self._dequeued if waiting in text]
        for waiting in found:
            del self._dequeued[waiting]
        return bool(self._waiting.pop(text, None) or found)

    def rest(self) -> list[Waiting]:
        """What no turn was seen of: it was typed all the same."""
        return [*self._dequeued.values(), *self._waiting.values()]


INTERRUPT = "[Request interrupted by user"

SUMMARY = "This session is being continued from a previous conversation"

INJECTED = (
    SUMMARY,
    "Implement the following plan:",
    "Base directory for this skill:",
    "Caveat: The messages below were generated by the user while running local commands",
    "Operation stopped by hook:",
    "Another Claude session sent a message",
    "[SYSTEM NOTIFICATION",
    "[Image: source:",
)
"""How a text begins that the tool put there: summaries, plans, skills, notices."""

HOOK_FEEDBACK = re.compile(r"[A-Z]\w* hook (?:feedback|additional context|blocking error|stopped continuation)\b")
"""`Stop hook feedback: …`: what a program of the repository said to the agent."""

WRAPPED = re.compile(
    r"<(?:command-(?:name|message|args|contents)|local-command-\w+|bash-(?:input|stdout|stderr)|task-notification"
    r"|teammate-message|agent-message|cross-session-message|channel|user-prompt-submit-hook|tick|fork-boilerplate)\b"
)
"""How a text begins that is a slash command, a shell line, a hook's output or the message of another agent."""

ASIDE = re.compile(
    r"<(?P<tag>system-reminder|ide_[a-z_]+|new-diagnostics|user-prompt-submit-hook)\b[^>]*>.*?(?:</(?P=tag)>|\Z)",
    re.DOTALL,
)
"""What the tool adds to a person's words: a reminder, the open file, the selection. Unclosed, it reaches to the end."""

SLASH_COMMAND = re.compile(
    r"/(?!(?:tmp|home|usr|etc|var|opt|dev|proc|root|srv|mnt|bin|lib|sys)\b)[a-z][\w:-]*(?=\s|\Z)"
)
"""`/config`, but not `/home/x`, nor `/tmp is full`."""

ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
REJECTED = re.compile(
    r"The user doesn't want to (?:proceed with this tool use\. The tool use was rejected|take this action right now\.)"
)
REASON = re.compile(r"(?:the user said:|the following reason for the rejection:)\s*(?P<reason>.*)", re.DOTALL)
CLARIFY = "The user wants to clarify these questions."
"""How the tool words a refused question of its own: no reason that a person gave."""

REMARK = "\n\nNote: The user's next message may contain a correction or preference."
"""The tool's own words behind a rejection."""

DENIED = re.compile(r"(?:Error: )?Permission (?:to use|for) .{1,4000}?(?:has been|was) (?:auto-)?denied", re.DOTALL)
"""A rule or a classifier said no, not a person."""


def is_injected(text: str) -> bool:
    """Whether `text` is known to be written by the tool, a command, a hook or another agent.

    >>> is_injected("<command-name>/compact</command-name>"), is_injected("use pnpm, not npm")
    (True, False)
    """
    start = text.lstrip()
    return bool(
        start.startswith(INJECTED) or WRAPPED.match(start) or HOOK_FEEDBACK.match(start) or SLASH_COMMAND.match(start)
    )


def command_arguments(text: str) -> str:
    """What a person typed behind the name of a slash command or a skill.

    >>> command_arguments("<command-name>/plan</command-name>\\n<command-args>small commits</command-args>")
    'small commits'
    """
    start = text.lstrip()
    if start.startswith(("<command-name>", "<command-message>")):
        found = ARGUMENTS.search(start)
        return said_words(found[1]) if found else ""
    command = SLASH_COMMAND.match(start)
    return said_words(start[command.end() :]) if command else ""


def list_answers(record: Record) -> list[tuple[str, str]]:
    """The questions that an agent asked by its tool, with their options, and what a person answered to each."""
    result = as_dict(record.get("toolUseResult"))
    answers = as_dict(result.get("answers"))
    found = []
    for question in map(as_dict, as_list(result.get("questions"))):
        asked = as_text(question.get("question"))
        options = " / ".join(as_text(as_dict(one).get("label")) for one in as_list(question.get("options")))
        if (said := as_text(answers.get(asked))).strip():
            found.append((f"{options}\n{asked}".strip(), said))
    return found


def said_words(text: str) -> str:
    """`text` without what the tool added to it.

    >>> said_words("<system-reminder>Be brief.</system-reminder>use pnpm")
    'use pnpm'
    """
    return ASIDE.sub("", text).strip()


def find_rejection(text: str) -> str | None:
    """The reason a person gave for refusing a tool call, empty for none; None if the result tells of no refusal."""
    if not REJECTED.match(text):
        return None
    found = REASON.search(text.partition(REMARK)[0])
    reason = found["reason"].strip() if found else ""
    return "" if reason.startswith(CLARIFY) else reason
