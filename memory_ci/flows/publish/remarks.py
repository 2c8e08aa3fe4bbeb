"""Remarks: what the page of a job says about memory as a whole."""

from __future__ import annotations

from datetime import date

from memory_ci.flows.measure.health import find_branch_health
from memory_ci.flows.sessions.nudge import find_nudge
from memory_ci.flows.workspace import Workspace, workspace_at
from memory_ci.rendering.health import render_health_line


def list_remarks(workspace: Workspace, ref: str, today: date) -> tuple[str, ...]:
    """The health of a branch, and the nudge if it is time for one; nothing where they cannot be told."""
    here = workspace_at(workspace.repo, ref)
    health = find_branch_health(here, ref, today)
    return tuple(filter(None, (render_health_line(health) if health else "", find_nudge(here, ref))))
