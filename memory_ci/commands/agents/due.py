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
    if event.is_inner:  # The event of a sub-agent.
        return True
    if event.kind != "file":
        return False
    # There may be entries about the file.
    if reads_answer(event) and (event.edited or _names_file(event, start)):
        return False
    # The command or the edit may violate a check.
    common_dir = moments.find_common_dir(start.absolute())
    if common_dir and (event.command or event.edited) and moments.has_rules(common_dir):
        return False
    return not list_due_lines(event, start, common_dir)


def list_due_lines(event: AgentEvent, start: Path, common_dir: Path | None) -> list[TimedLine]:
    """Return the lines of the table that are due at a tool call, each once.

    Args:
        event: the event.
        start: the directory of the session.
        common_dir: the git directory with the table, None outside a repository.
    """
    points = _list_points(event, start) if event.session else []
    if common_dir is None or not points:
        return []
    table = moments.load_timed_lines(common_dir)
    due = [moment for point in points for moment in moments.select_due_lines(table, point)]
    return list(dict.fromkeys(due))


def _list_points(event: AgentEvent, start: Path) -> list[AgentAction]:
    """Return the points of an agent's work that an event reaches, at which lines may be due.

    The point before a command or edit is the event before the tool call; for agents that read no
    text then, it is the event after it. The point after a failure is always the latter.
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
