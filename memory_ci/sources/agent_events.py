"""Parser of the events that agents pass to their hooks, and the answers in each agent's format.

The names are those of Claude Code 2.1, Codex 0.169, Gemini CLI 0.61, Copilot CLI 1.0, opencode 1.18
and, by their documentation, VS Code and Cursor (docs/agents.md).
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from memory_ci.regex import Regex

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
"""The values of `--agent` and `--for`."""

NAMES_BY_KIND: Mapping[EventKind, str] = {
    "start": "sessionstart",
    "prompt": "userpromptsubmit userpromptsubmitted beforeagent beforesubmitprompt",
    "file": "posttooluse posttoolusefailure pretooluse beforetool aftertool afterfileedit",
    "stop": "stop agentstop afteragent",
    "end": "sessionend",
}
KIND_BY_NAME = {name: kind for kind, names in NAMES_BY_KIND.items() for name in names.split()}

EVENTS_BEFORE_CALL = ("pretooluse", "beforetool")
"""Names of events in front of a tool call, in lower case."""

READ_BEFORE = ("claude-code", "codex", "copilot", "vscode")
"""Agents that add a hook's text to the context in front of a tool call."""

READ_AFTER = ("gemini", "opencode", "cursor")
"""Agents that add a hook's text to the context only after a tool call."""

FAILED_RESPONSE = Regex(
    r"\A\W{0,3}(?:[\w\s\"{]{0,40}[Ee]xit[ _][Cc]ode\"?:? ?[1-9]|Process exited with code [1-9])"
)
"""The beginning of a tool's response whose command failed."""

AGENT_BY_VARIABLE = {"COPILOT_CLI": "copilot", "CURSOR_VERSION": "cursor"}
"""Variables of agents that also run the hooks of other agents, whose label is then wrong."""

DECISION_TO_CONTINUE = {"codex": "block", "copilot": "block", "gemini": "deny"}
"""By agent that takes no context at the end of a turn, the decision that makes it continue."""

CONTEXT_LOST_SOURCES = ("compact", "clear")
"""Sources of the start of a session whose agent has lost its context."""

PATH_ARGUMENTS = ("file_path", "path", "filePath", "absolute_path", "notebook_path", "target_file")
PATCHED_FILE = Regex(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
PATH_LIKE_WORD = Regex(r"[\w./@+-]*[\w-]\.\w{1,10}|[\w.@+-]+(?:/[\w.@+-]+)+")

EDITING_TOOL = Regex(r"edit|write|patch|replace|create", re.IGNORECASE)
"""Tools that change the files they name; of a shell command only its patches are recognised."""

MAX_PATHS = 3
MAX_PATH = 1_000  # Characters of a path.
MAX_COMMAND = 4_000  # Characters of a shell command that are searched for names of files.
OWN_TEXT_PREFIX = "memory-ci:"
"""The beginning of texts that memory-ci writes for agents; some agents return them as a prompt."""


class AgentEvent(NamedTuple):
    """An event of an agent's hook.

    Attributes:
        agent: the agent.
        name: the agent's own name of the event.
        kind: memory-ci's kind of the event.
        session: the id of the session.
        cwd: the directory of the session.
        prompt: the prompt, if it is one.
        source: why a session starts.
        paths: files that a tool read or wrote, as it named them.
        edited: those of them that it changed.
        command: the shell command of a tool, "" for another tool.
        is_before: whether the tool has not run yet.
        is_failure: whether its command has failed.
        transcript: the path of the transcript.
        key: the same for each hook that runs for one event, "" if the agent has none.
        is_of_subagent: whether it is of a sub-agent, whose prompts no person typed.
        was_continued: whether a hook already made the agent continue at the end of this turn.
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
    command: str = ""
    is_before: bool = False
    is_failure: bool = False
    transcript: str = ""
    key: str = ""
    is_of_subagent: bool = False
    was_continued: bool = False


def parse_event(
    data: bytes, agent: str, environ: Mapping[str, str], name: str = ""
) -> AgentEvent | None:
    """Return the event in the JSON that an agent passes to a hook, None for an unknown event.

    Args:
        data: the JSON.
        agent: the agent whose hook it is.
        environ: the environment, which may name another agent as the caller.
        name: the name of the event where the input does not have it.

    Raises:
        ValueError: the input is not a JSON object.
    """
    hook_input = json.loads(data.removeprefix(BOM_UTF8).decode("utf-8", "replace"))
    if not isinstance(hook_input, dict):
        raise ValueError("standard input is no JSON object")
    event_name = _get_text(hook_input, "hook_event_name", "hookEventName") or name
    kind = KIND_BY_NAME.get(event_name.lower())
    if kind is None:
        return None

    for variable, caller in AGENT_BY_VARIABLE.items():
        if variable in environ:
            agent = caller
            break
    called_paths = _find_paths(hook_input)
    command = _read_command(_read_arguments(hook_input))
    return AgentEvent(
        agent=agent,
        name=event_name,
        kind=kind,
        session=_get_text(hook_input, "session_id", "sessionId", "conversation_id"),
        cwd=find_directory(hook_input),
        prompt=_get_text(hook_input, "prompt"),
        source=_get_text(hook_input, "source"),
        paths=called_paths.named,
        edited=called_paths.edited,
        command=command[:MAX_COMMAND],
        is_before=event_name.lower() in EVENTS_BEFORE_CALL,
        is_failure=_is_failure(event_name, hook_input),
        transcript=_get_text(hook_input, "transcript_path", "transcriptPath"),
        key=_find_key(hook_input),
        is_of_subagent=bool(_get_text(hook_input, "agent_id", "agent_type", "parent_session_id")),
        was_continued=hook_input.get("stop_hook_active") is True,
    )


def _is_failure(name: str, hook_input: Mapping[str, Any]) -> bool:
    """Return whether the event is a failed tool call, by its name or the tool's response."""
    if name.lower() == "posttoolusefailure":
        return True
    response = hook_input.get("tool_response", hook_input.get("toolResult"))
    if isinstance(response, dict):
        response = response.get("output", response.get("textResultForLlm", ""))
    return isinstance(response, str) and FAILED_RESPONSE.match(response) is not None


class _CalledPaths(NamedTuple):
    """The files that a tool call names, and those of them that it changes."""

    named: tuple[str, ...]
    edited: tuple[str, ...]


def _find_paths(hook_input: Mapping[str, Any]) -> _CalledPaths:
    """Return the files that a tool call names, and those of them that it changes.

    Files are named by an argument, by a patch, or by words of a shell command that look like paths.
    """
    arguments = _read_arguments(hook_input)
    argument_paths = []
    for key in PATH_ARGUMENTS:
        path = _get_text(arguments, key)
        if path and "\0" not in path and len(path) < MAX_PATH:
            argument_paths.append(path)
    command = _read_command(arguments)
    patched_paths = PATCHED_FILE.findall(command)
    command_paths = PATH_LIKE_WORD.findall(command[:MAX_COMMAND])

    edited_paths = patched_paths
    if EDITING_TOOL.search(_get_text(hook_input, "tool_name", "toolName")):
        edited_paths = [*argument_paths, *patched_paths]
    named_paths = [*argument_paths, *patched_paths, *command_paths]
    return _CalledPaths(
        named=tuple(dict.fromkeys(named_paths))[:MAX_PATHS],
        edited=tuple(dict.fromkeys(edited_paths))[:MAX_PATHS],
    )


def _read_command(arguments: Mapping[str, Any]) -> str:
    """Return the shell command or the patch in the arguments of a tool, or ""."""
    command = arguments.get("command") or arguments.get("input") or arguments.get("patch")
    if isinstance(command, list):
        return " ".join(str(word) for word in command)
    return command if isinstance(command, str) else ""


def find_directory(hook_input: Mapping[str, Any]) -> str:
    """Return the directory that an agent works in, "" if the input of its hook names none.

    Cursor may name only the roots of its workspace.
    """
    directory = _get_text(hook_input, "cwd")
    roots = hook_input.get("workspace_roots")
    if not directory and isinstance(roots, list) and roots:
        directory = _get_text({"first root": roots[0]}, "first root")
    return directory


def reads_answer(event: AgentEvent) -> bool:
    """Return whether the agent reads the output of a hook for this event, as each agent documents.

    In front of a tool call, only Copilot does.
    """
    if event.agent == "copilot":
        return event.is_before or event.kind in ("start", "prompt", "stop")
    if event.is_before:
        return False
    if event.agent == "opencode":
        return event.kind not in ("stop", "end")
    if event.agent == "cursor":
        return event.kind == "start" or event.name == "postToolUse"
    return event.kind != "end"


def format_answer(event: AgentEvent, text: str) -> str:
    """Return the JSON for a hook to print, by which an agent adds a text to its context.

    At the end of a turn the agent continues with the text. Without a text, return "".
    """
    if not text:
        return ""
    if event.kind == "stop" and event.agent in DECISION_TO_CONTINUE:
        decision = {"decision": DECISION_TO_CONTINUE[event.agent], "reason": text}
        return f"{json.dumps(decision)}\n"
    answer: dict[str, Any] = {
        "hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}
    }
    if event.agent == "copilot":
        answer = {"additionalContext": text, **answer}
    elif event.agent == "cursor":
        answer = {"additional_context": text}
    return f"{json.dumps(answer)}\n"


def _read_arguments(hook_input: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a tool call, under the key that the agent uses, or as JSON text."""
    arguments: Any = hook_input
    for key in ("tool_input", "toolArgs", "toolInput"):
        if key in hook_input:
            arguments = hook_input[key]
            break
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {"command": arguments}
    return arguments if isinstance(arguments, dict) else {}


def _find_key(hook_input: Mapping[str, Any]) -> str:
    """Return a key that all hooks of one event share and no other event has, "" if none is found.

    It is an id of the prompt, the turn or the call, else the time in milliseconds.
    """
    uid = _get_text(hook_input, "prompt_id", "tool_use_id", "tool_call_id", "generation_id")
    if uid:
        return uid
    timestamp = hook_input.get("timestamp")
    if isinstance(timestamp, str):
        from datetime import datetime  # few agents need it

        try:
            return str(round(datetime.fromisoformat(timestamp).timestamp() * 1000))
        except ValueError:
            return timestamp
    return str(timestamp) if isinstance(timestamp, int) else ""


def _get_text(hook_input: Mapping[str, Any], *keys: str) -> str:
    """Return the value of the first of some keys that is a text and not empty, else "".

    Lone surrogates, which JSON can spell but UTF-8 cannot, are replaced.
    """
    for key in keys:
        value = hook_input.get(key)
        if isinstance(value, str) and value:
            return value.encode("utf-8", "replace").decode()
    return ""
