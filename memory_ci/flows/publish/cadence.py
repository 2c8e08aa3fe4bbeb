"""When a run publishes: as often as `publish.every` says, and never under a request that people review.

A run that is not due decides nothing, so that the cursor stays where it is: the next one that is due covers all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

from memory_ci.flows.workspace import Workspace, memory_test
from memory_ci.forge.proposals import Proposal, Proposals
from memory_ci.gitrepo.history import commit_time, find_cursor

BY_HAND = {"GITHUB_EVENT_NAME": "workflow_dispatch", "CI_PIPELINE_SOURCE": "web"}
"""What a forge says of a job that a person started."""


def is_by_hand(environ: Mapping[str, str]) -> bool:
    """Whether a person started this job: it waits for no day."""
    return any(environ.get(name) == value for name, value in BY_HAND.items())


def find_wait(workspace: Workspace, tips: tuple[str, ...], now: datetime) -> str:
    """What a run of `every: day` or `week` waits for, "" if it is due; `tips` are the branches that it writes to.

    A day or week of the calendar (UTC) has one run, however many seconds lie between two.
    """
    every, repo = workspace.config.publish.every, workspace.repo
    if every not in ("day", "week"):
        return ""
    is_memory = memory_test(workspace)
    cursors = (cursor for tip in tips if (cursor := find_cursor(repo, tip, is_memory)))
    last = max((commit_time(repo, cursor.commit).date() for cursor in cursors), default=date.min)
    due = last + timedelta(days=1 if every == "day" else 7 - last.weekday()) if last > date.min else date.min
    return f"publish.every: {every}: next on {due}" if now.astimezone(UTC).date() < due else ""


def find_shortage(workspace: Workspace, old: str, tip: str) -> str:
    """What a run of `every: N entries` waits for, "" if so many entries are at `tip` that are not at `old`."""
    every = workspace.config.publish.every
    count, _, unit = every.partition(" ")
    if not unit:
        return ""
    new = len(workspace.at(tip).places.keys() - workspace.at(old).places.keys())
    return f"publish.every: {every}: next at {every}, {new} so far" if new < int(count) else ""


def find_hold(forge: Proposals | None, found: Proposal | None, *, at_once: bool) -> str:
    """Why the branch of an open request must not move: people review it, or approved of what it holds.

    A person who starts the run may move one under review, but none that is approved: a push would dismiss that.
    Raises EngineError (`forge-…`).
    """
    review = forge.find_review(found) if forge and found else ""
    if found is None or not review or (at_once and review != "approved"):
        return ""
    what = "is approved" if review == "approved" else f"is under review ({review})"
    return f"request {found.number} {what}, and its branch stays as it is: what is new waits for the next request"
