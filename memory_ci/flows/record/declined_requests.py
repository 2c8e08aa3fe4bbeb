"""Which of the requests that were closed without a merge a run reads: so many at once, the oldest first.

What one run leaves the next ones find: work of the house has an episode as soon as it was read. Of strangers there is
none, so that theirs are only looked for among what was closed since the last run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from memory_ci.config import CONFIG_FILE
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.history import commit_time, find_addition
from memory_ci.records.episode import Episode
from memory_ci.records.forge import PullRequest

MAX_DECLINED = 40
"""Requests that one run completes: each costs three questions or more, of the 600 that it may ask."""

BACKLOG = timedelta(days=90)


class Window(NamedTuple):
    """`since` the last run ended; back to `start` earlier runs may have left some; the ids of what was told."""

    since: datetime
    start: datetime
    told: frozenset[str] = frozenset()


def find_window(
    workspace: Workspace, base: str, since: datetime, told: frozenset[str], episodes: Collection[Episode]
) -> Window:
    """Back to the newest declined request that was told, for the oldest come first; never before memory-ci came in."""
    added = find_addition(workspace.repo, base, CONFIG_FILE)
    if added is None or not workspace.config.episodes.write:
        return Window(since, since, told)
    earliest = max(commit_time(workspace.repo, added), commit_time(workspace.repo, base) - BACKLOG)
    declined = [episode.occurred_at for episode in episodes if episode.action.pr and not episode.action.commit]
    return Window(since, min(since, max([earliest, *declined])), told)


def choose_declined(requests: Iterable[PullRequest], window: Window) -> list[PullRequest]:
    """Those to read, by the time of their closing: what is new before what was told, which may have new comments."""
    found = [request for request in requests if _is_asked(request, window)]
    return sorted(found, key=lambda request: (is_told(request, window), *_when(request)))


def is_told(request: PullRequest, window: Window) -> bool:
    """Whether an earlier run wrote the episode of the request."""
    return f"pr-{request.number}" in window.told


def _is_asked(request: PullRequest, window: Window) -> bool:
    """Closed since the last run; or before that and of the house, as far as the list shows, and not told."""
    if request.closed_at is None or request.closed_at < window.start:
        return False
    is_ours = request.permission != "read" or not request.is_fork
    return request.closed_at >= window.since or (is_ours and not is_told(request, window))


def _when(request: PullRequest) -> tuple[datetime, int]:
    return (request.closed_at or request.created_at).astimezone(UTC), request.number
