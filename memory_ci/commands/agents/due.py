"""Find the lines of memory that are due at an agent's tool call, by a table in the git directory.

A hook runs at each tool call, and mostly finds nothing due. The code for this common case imports
no library and few modules; a test limits their number.
"""

from __future__ import annotations

import os
from pathlib import Path

from memory_ci.sessions import moments
from memory_ci.sessions.moments import AgentAction, TimedLine
from memory_ci.sources.agent_events import READ_AFTER, READ_BEFORE, AgentEvent, reads_answer


def is_quiet(event: AgentEvent, start: Path) -> bool:
    """Return whether a hook has nothing to answer or note for an event, so that it may end at once.

    Args:
        event: the event.
        start: the directory of the session.
    """
    if event.is_of_subagent:  # Sub-agents are served nothing.
        return True
    # Starts, prompts and ends are always answered or noted. All tool calls are of the kind "file".
    is_tool_call = event.kind == "file"
    if not is_tool_call:
        return False
    may_have_entries = event.edited or _names_file(event, start)
    if reads_answer(event) and may_have_entries:
        return False
    common_dir = moments.find_common_dir(start.absolute())
    may_violate_check = event.command or event.edited
    if common_dir and may_violate_check and moments.has_rules(common_dir):
        return False
    return not list_due_lines(event, start, common_dir)


def list_due_lines(event: AgentEvent, start: Path, common_dir: Path | None) -> list[TimedLine]:
    """Return the reminders of the table that an agent must read at a tool call, each once.

    Args:
        event: the event.
        start: the directory of the session.
        common_dir: the git directory with the table, None outside a repository.
    """
    points = _list_points(event, start) if event.session else []
    if common_dir is None or not points:
        return []
    table = moments.load_timed_lines(common_dir)
    due_lines: list[TimedLine] = []
    for point in points:
        due_lines += moments.select_due_lines(table, point)
    return list(dict.fromkeys(due_lines))


def _list_points(event: AgentEvent, start: Path) -> list[AgentAction]:
    """Return the commands, failures and edits at an event, for which there may be reminders.

    A reminder "before" a command or edit is served at the event before the tool call. Agents that
    read no text at that event are served it at the event after the call. A reminder after a failure
    is always served at the event after the call.
    """
    points = []
    if event.is_failure:
        points.append(AgentAction(event.command, is_failure=True))
    reading_agents = READ_BEFORE if event.is_before else READ_AFTER
    if event.agent in reading_agents and (event.command or event.edited):
        points.append(AgentAction(event.command, _list_edited(event, start)))
    return points


def _list_edited(event: AgentEvent, start: Path) -> tuple[str, ...]:
    """Return the files that the tool edits, relative to the top of the work tree."""
    if not event.edited:
        return ()
    root = moments.find_root(start.absolute())
    files = [Path(os.path.normpath(start.absolute() / path)) for path in event.edited]
    return tuple(file.relative_to(root).as_posix() for file in files if file.is_relative_to(root))


def _names_file(event: AgentEvent, start: Path) -> bool:
    return any((start / path).is_file() for path in event.paths)
