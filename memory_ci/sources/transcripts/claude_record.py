"""One record of a Claude Code session file, read without trust in its shape: what is not as expected is empty."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from memory_ci.sources.transcripts.fields import as_dict, as_list, as_text

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

PATH_KEYS = ("file_path", "notebook_path", "path")
"""Where the tools of Claude Code are told a file."""


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
