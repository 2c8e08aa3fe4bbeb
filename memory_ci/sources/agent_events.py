"""What coding agents tell their hooks: one record for the events of all of them, and the answer in each one's dialect.

The names are those of Claude Code 2.1, Codex 0.169, Gemini CLI 0.61, Copilot CLI 1.0, opencode 1.18 and, by their
documentation, VS Code and Cursor (docs/agents.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

EventKind = Literal["start", "prompt", "file", "stop", "end"]

AGENT_NAMES = (
    "claude-code",
    "codex",
    "gemini",
    "copilot",
    "opencode",
    "vscode",
    "cursor",
    "agents-md",
)
"""What `--agent` and `--for` take."""

NAMES: Mapping[EventKind, str] = {
    "start": "sessionstart",
    "prompt": "userpromptsubmit userpromptsubmitted beforeagent beforesubmitprompt",
    "file": "posttooluse pretooluse aftertool afterfileedit",
    "stop": "stop agentstop afteragent",
    "end": "sessionend",
}
KINDS = {name: kind for kind, names in NAMES.items() for name in names.split()}
# Agents that also run the hooks of others: who calls is told by the environment, not by the label in a file.
CALLERS = {"COPILOT_CLI": "copilot", "CURSOR_VERSION": "cursor"}
# How agents are made to go on at the end of a turn that take no context there.
DECISIONS = {"codex": "block", "copilot": "block", "gemini": "deny"}
FORGETTING = (
    "compact",
    "clear",
)  # Why a session starts whose agent no longer has what it was given.
PATHS = ("file_path", "path", "filePath", "absolute_path", "notebook_path", "target_file")
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
WORD = re.compile(r"[\w./@+-]*[\w-]\.\w{1,10}|[\w.@+-]+(?:/[\w.@+-]+)+")
# Tools that change the files that they name; of a shell its patches alone are known.
EDITS = re.compile(r"edit|write|patch|replace|create", re.IGNORECASE)
MAX_PATHS = 3
MAX_NAME = 1_000  # Characters of a path.
MAX_COMMAND = 4_000  # Characters of a shell command that are looked through for names of files.
OURS = "memory-ci:"  # How a text of ours begins that some agents hand back as a prompt.


class AgentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event. `name` is the agent's own; `key` is the same for each hook that is run for it, "" where none is told.

    `paths` are of files that a tool read or wrote, as it named them; `edited` those that it changed. `is_inner`: of a
    sub-agent, whose prompts are nobody's. `is_again`: a hook made the agent go on already at the end of this turn.
    """

    agent: str
    name: str
    kind: EventKind
    session: str
    cwd: str = ""
    prompt: str = ""
    source: str = ""
    paths: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    transcript: str = ""
    key: str = ""
    is_inner: bool = False
    is_again: bool = False


def parse_event(
    data: bytes, agent: str, environ: Mapping[str, str], name: str = ""
) -> AgentEvent | None:
    """The event that an agent tells; None for one that is not known here. `name` is that of the event where the input
    does not have it. Raises ValueError: not a JSON object."""
    told = json.loads(data.decode("utf-8-sig", "replace"))
    if not isinstance(told, dict):
        raise ValueError("standard input is no JSON object")
    called = _text(told, "hook_event_name", "hookEventName") or name
    kind = KINDS.get(called.lower())
    if kind is None:
        return None
    given = _read_arguments(told)
    named = [
        one
        for key in PATHS
        if (one := _text(given, key)) and "\0" not in one and len(one) < MAX_NAME
    ]
    said = (
        given.get("command") or given.get("input") or given.get("patch")
    )  # a shell command or a patch
    command = (
        " ".join(map(str, said))
        if isinstance(said, list)
        else said
        if isinstance(said, str)
        else ""
    )
    patched = PATCHED.findall(command)
    edited = [*(named if EDITS.search(_text(told, "tool_name", "toolName")) else ()), *patched]
    caller = next((known for variable, known in CALLERS.items() if variable in environ), agent)
    return AgentEvent(
        agent=caller,
        name=called,
        kind=kind,
        session=_text(told, "session_id", "sessionId", "conversation_id"),
        cwd=find_directory(told),
        prompt=_text(told, "prompt"),
        source=_text(told, "source"),
        paths=tuple(dict.fromkeys([*named, *patched, *WORD.findall(command[:MAX_COMMAND])]))[
            :MAX_PATHS
        ],
        edited=tuple(dict.fromkeys(edited))[:MAX_PATHS],
        transcript=_text(told, "transcript_path", "transcriptPath"),
        key=_find_key(told),
        is_inner=bool(_text(told, "agent_id", "agent_type", "parent_session_id")),
        is_again=told.get("stop_hook_active") is True,
    )


def find_directory(told: Mapping[str, Any]) -> str:
    """Return the directory that an agent works in, "" where it names none; Cursor may name its workspace alone."""
    roots = told.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else ""
    return _text(told, "cwd") or _text({"root": first}, "root")


def may_tell(event: AgentEvent) -> bool:
    """Whether the agent passes on what is answered to this event."""
    if event.agent == "copilot":
        return event.kind in ("start", "prompt", "stop") or event.name.lower() == "pretooluse"
    if event.agent == "opencode":
        return event.kind not in ("stop", "end")
    if event.agent == "cursor":
        return event.kind == "start" or event.name == "postToolUse"
    return event.kind != "end" and event.name.lower() != "pretooluse"


def format_answer(event: AgentEvent, text: str) -> str:
    """The JSON by which an agent adds `text` to its context, with which it goes on at the end of a turn; or ""."""
    if not text:
        return ""
    if event.kind == "stop" and (decision := DECISIONS.get(event.agent)):
        return f"{json.dumps({'decision': decision, 'reason': text})}\n"
    named = {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}
    answers = {
        "copilot": {"additionalContext": text, **named},
        "cursor": {"additional_context": text},
    }
    return f"{json.dumps(answers.get(event.agent, named))}\n"


def _read_arguments(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a tool is given."""
    given = next(
        (told[key] for key in ("tool_input", "toolArgs", "toolInput") if key in told), told
    )
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = {"command": given}
    return given if isinstance(given, dict) else {}


def _find_key(told: Mapping[str, Any]) -> str:
    """What tells one event from the next: the id of the prompt, turn or tool call, or the millisecond."""
    if known := _text(told, "prompt_id", "tool_use_id", "tool_call_id", "generation_id"):
        return known
    at = told.get("timestamp")
    if isinstance(at, str):
        try:
            return str(round(datetime.fromisoformat(at).timestamp() * 1000))
        except ValueError:
            return at
    return str(at) if isinstance(at, int) else ""


def _text(told: Mapping[str, Any], *keys: str) -> str:
    """The first of these values that is a text which is not empty, half characters replaced."""
    found = next((value for key in keys if isinstance(value := told.get(key), str) and value), "")
    return found.encode("utf-8", "replace").decode()
