"""The lines due at an event of an agent, by a small table in the git directory.

A hook runs at each tool call, mostly for nothing. So what is needed to see that nothing is due
loads no library and few modules; a test holds their number.
"""

from __future__ import annotations

import os
from pathlib import Path

from memory_ci.sessions import moments
from memory_ci.sessions.moments import Moment, Point
from memory_ci.sources.agent_events import TOLD_AFTER, TOLD_BEFORE, AgentEvent, reads_answer


def is_quiet(event: AgentEvent, start: Path) -> bool:
    """Return whether an event has no answer and leaves no note, so that its hook may end.

    Args:
        event: the event.
        start: the directory of the session.
    """
    if event.is_inner:
        return True
    if event.kind != "file":
        return False
    if reads_answer(event) and (event.edited or _names_file(event, start)):
        return False
    common_dir = moments.find_common_dir(start.absolute())
    if common_dir and (event.command or event.edited) and moments.has_rules(common_dir):
        return False
    return not list_due_lines(event, start, common_dir)


def list_due_lines(event: AgentEvent, start: Path, common_dir: Path | None) -> list[Moment]:
    """Return the lines of the table that are due at a tool call, each once.

    Args:
        event: the event.
        start: the directory of the session.
        common_dir: the git directory with the table, None outside a repository.
    """
    points = _list_points(event, start) if event.session else []
    if common_dir is None or not points:
        return []
    table = moments.load_moments(common_dir)
    due = [moment for point in points for moment in moments.list_due(table, point)]
    return list(dict.fromkeys(due))


def _list_points(event: AgentEvent, start: Path) -> list[Point]:
    """Return where the agent is in its work.

    A tool that has succeeded is no such point, but for agents that take no text before it.
    """
    points = []
    if event.is_failure:
        points.append(Point(event.command, is_failure=True))
    told_in = TOLD_BEFORE if event.is_before else TOLD_AFTER
    if event.agent in told_in and (event.command or event.edited):
        points.append(Point(event.command, _list_edited(event, start)))
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
