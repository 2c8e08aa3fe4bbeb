"""Shell commands in the events of a session: each call with its result."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import NamedTuple

from memory_ci.records.event import Event
from memory_ci.sources.transcripts import raw

SHELLS = frozenset("bash exec_command shell shell_command run_shell_command terminal".split())
"""Tools that run a command line, case folded."""


class ShellRun(NamedTuple):
    """A call of a shell and its result."""

    call: Event
    result: Event


def is_shell(event: Event) -> bool:
    """Return whether an event is a call or a result of a shell."""
    return _name_tool(event) in SHELLS


def list_shell_runs(events: Iterable[Event]) -> list[ShellRun]:
    """Return the shell commands of a session that have a result, in the order of the results.

    A result belongs to the oldest call of its tool that has no result yet; if its tool has no such
    call, to the oldest call of any shell. Calls without text are left out: their command is
    unknown.
    """
    open_calls: defaultdict[str, deque[Event]] = defaultdict(deque)
    runs = []
    for event in events:
        if not is_shell(event):
            continue
        tool = _name_tool(event)
        if event.kind == "tool_call" and event.text:
            open_calls[tool].append(event)
        elif event.kind == "tool_result":
            calls = open_calls[tool] or _find_oldest(open_calls.values())
            if calls:
                runs.append(ShellRun(calls.popleft(), event))
    return runs


def _find_oldest(open_calls: Iterable[deque[Event]]) -> deque[Event] | None:
    """Return the queue, of one queue of calls per tool, whose first call is the oldest; or None."""
    waiting = [calls for calls in open_calls if calls]
    return min(waiting, key=lambda calls: calls[0].seq) if waiting else None


def _name_tool(event: Event) -> str:
    return (event.tool or "").lower()


def read_command(text: str) -> str:
    """Return the command line in the text of a call: the text itself, or its JSON argument."""
    arguments = raw.decode(text.encode("utf-8", "replace")) if text.startswith("{") else None
    for name in ("command", "cmd"):
        value = raw.get_value(arguments, name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return " ".join(raw.list_texts(value))
    return text
