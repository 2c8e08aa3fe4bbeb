"""Gathering: all that is known of a merged change or a declined request, as events, and where it was found.

Of requests that were closed without a merge a run reads so many, the oldest first. What one run leaves the next ones
find: work of the house has an episode as soon as it was read. Of strangers there is none, so theirs are only looked for
among what was closed since the last run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE
from memory_ci.evidence.trust import is_author
from memory_ci.forge.selection import Forge
from memory_ci.gitrepo.history import Cursor, commit_time, find_addition
from memory_ci.memory.commit_texts import file_events
from memory_ci.memory.draft import Draft
from memory_ci.memory.model import Asker, Model
from memory_ci.memory.workspace import Snapshot, Workspace
from memory_ci.records.entry import Phase
from memory_ci.records.episode import Episode
from memory_ci.records.event import Event
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.plan import Join
from memory_ci.sessions.session_join import LeftCheckpoint, SessionFinder
from memory_ci.sources.commits import (
    author_of,
    commit_events,
    diff_event,
)
from memory_ci.sources.reviews import is_outside, review_events
from memory_ci.text import plural

MAX_DECLINED = 40  # Requests that one run completes: each costs three questions or more, of the 600 that it may ask.
MAX_NAMED = 10  # Requests that one line of the report names.
BACKLOG = timedelta(days=90)


class DeclinedWindow(NamedTuple):
    """The last run ended at `since`; earlier runs may have left some back to `start`; `told` are ids of episodes."""

    since: datetime
    start: datetime
    told: frozenset[str] = frozenset()


def find_window(
    base: Snapshot, since: datetime, told: frozenset[str], episodes: Collection[Episode]
) -> DeclinedWindow:
    """The window reaches back to the newest declined request that has an episode, but not before memory-ci came in."""
    repo = base.workspace.repo
    added = find_addition(repo, base.sha, CONFIG_FILE)
    if added is None or not base.workspace.config.episodes.write:
        return DeclinedWindow(since, since, told)
    earliest = max(commit_time(repo, added), commit_time(repo, base.sha) - BACKLOG)
    declined = [
        episode.occurred_at
        for episode in episodes
        if episode.action.pr and not episode.action.commit
    ]
    return DeclinedWindow(since, min(since, max([earliest, *declined])), told)


def choose_declined(requests: Iterable[PullRequest], window: DeclinedWindow) -> list[PullRequest]:
    """The requests to read, by the time of their closing: new ones first, then those that may have new comments. They
    were closed since the last run; or before, if a member opened them, as far as the list shows, and they have no
    episode."""

    def is_told(request: PullRequest) -> bool:
        return f"pr-{request.number}" in window.told

    def is_asked(request: PullRequest) -> bool:
        if request.closed_at is None or request.closed_at < window.start:
            return False
        is_ours = request.permission != "read" or not request.is_fork
        return request.closed_at >= window.since or (is_ours and not is_told(request))

    return sorted(
        filter(is_asked, requests), key=lambda one: (is_told(one), one.closed_at, one.number)
    )


class Gathered(NamedTuple):
    """The events of one change, numbered in their order, the sessions and requests they come from, and its request."""

    events: tuple[Event, ...]
    joins: tuple[Join, ...]
    request: PullRequest | None = None


class Gatherer:
    """Asks every source about one merged change after another. `problems` tell what could not be asked."""

    def __init__(self, workspace: Workspace, finder: SessionFinder, forge: Forge | None) -> None:
        self._workspace, self._finder, self._forge = workspace, finder, forge
        self._requests: set[int] = set()
        self._problems: list[str] = []
        self.has_forge = forge is not None

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys([*self._problems, *self._finder.problems, *self._finder.tell_missed()])
        )

    def gather(self, merged: MergedChange) -> Gathered:
        """Commits first, then decision records and job files, the pull request with its reviews, and the sessions."""
        request = self.find_request(merged)
        joins: list[Join] = []
        events = [*commit_events(merged), *file_events(self._workspace, merged)]
        if request is not None:
            how = "named by its commit" if merged.number == request.number else "named by the forge"
            events += self._tell(request, merged.label, how, joins)
        sessions: list[Event] = []
        for joined in self._finder.find(merged, request):
            joins.append(
                Join(merged.label, "session", joined.session.key, joined.how, len(joined.events))
            )
            sessions += joined.events
        if len(events) > len(merged.commits) or sessions:
            events.append(diff_event(merged))
        return _gathered([*events, *in_order(sessions)], joins, request)

    def gather_declined(self, request: PullRequest) -> Gathered:
        """What was said of a request that was not merged: its commits are in no history that can be read."""
        joins: list[Join] = []
        return _gathered(
            self._tell(request, f"#{request.number}", "closed without a merge", joins),
            joins,
            request,
        )

    def gather_left(self) -> Iterator[tuple[LeftCheckpoint, Gathered]]:
        """Yield the checkpoints of work that no change brought, with what was said in them."""
        for checkpoint in self._finder.read_left():
            label = f"checkpoint {checkpoint.id}"
            joins = [
                Join(label, "session", session.key, "of no merged change", len(events))
                for session, events in checkpoint.sessions
            ]
            said = (event for _, events in checkpoint.sessions for event in events)
            yield checkpoint, _gathered(in_order(said), joins, None)

    def tell_unnamed(self) -> str:
        """Return how many checkpoints no commit names, "" where none is to be told of."""
        return self._finder.tell_unnamed()

    def read_declined(self, window: DeclinedWindow) -> tuple[PullRequest, ...]:
        """The next requests that were closed without a merge, oldest first; not our own, and not those of bots. A run
        reads `MAX_DECLINED`. What could not be read of them is a problem. Raises EngineError when the forge cannot be
        asked at all."""
        if self._forge is None:
            return ()
        listing = self._forge.list_closed(window.start)
        own = self._workspace.config.publish.branch
        people = (
            request for request in listing.items if request.branch != own and not request.is_bot
        )
        chosen = choose_declined(people, window)
        done = self._forge.complete_closed(chosen[:MAX_DECLINED])
        self._problems += [listing.problem] if listing.problem else []
        if left := chosen[len(done.items) :]:
            names = ", ".join(f"#{request.number}" for request in left[:MAX_NAMED])
            more = ", …" if len(left) > MAX_NAMED else ""
            why = done.problem or f"a run reads {MAX_DECLINED}"
            self._problems.append(
                f"{plural(len(left), 'closed request')} not read ({names}{more}): {why}"
            )
        return done.items

    def may_claim(self, commit: Commit, merged: MergedChange, request: PullRequest | None) -> bool:
        """Whether members brought a commit: the forge says so, or without a forge the trusted authors. A merge commit
        speaks for a branch, so all of its authors must be trusted."""
        if request is not None:
            return not is_outside(request, request.permission)
        makers = merged.commits if len(commit.parents) > 1 else (commit,)
        trusted = self._workspace.config.extraction.trusted_authors
        return self.has_forge or all(is_author(author_of(one), trusted) for one in makers)

    def find_request(self, merged: MergedChange) -> PullRequest | None:
        """The pull request of the change, which says who brought it. Anyone can write a number into a message. If the
        forge does not confirm it, the forge is asked for the number. Raises EngineError when the forge cannot be asked:
        without it an outsider would pass for a member."""
        if self._forge is None:
            return None
        named = self._forge.find_pull_request(merged.number) if merged.number is not None else None
        if named is not None and named.merge_sha == merged.tip.sha:
            return named
        number = self._forge.find_number(merged.tip.sha)
        return (
            named
            if number is None or number == merged.number
            else self._forge.find_pull_request(number)
        )

    def _tell(
        self, request: PullRequest, change: str, how: str, joins: list[Join]
    ) -> Sequence[Event]:
        """The events of a request, once in a run."""
        if request.number in self._requests:
            return ()
        self._requests.add(request.number)
        self._problems += [f"#{request.number}: {problem}" for problem in request.problems]
        events = review_events(request)
        joins.append(Join(change, "pull-request", f"#{request.number}", how, len(events)))
        return events


class RecordRun(NamedTuple):
    """What the parts of one run share: it reads from `since` (None: the first commit) to `base`. `cursor` is where the
    last run ended, `phases` has the stages of projects."""

    draft: Draft
    since: str | None
    cursor: Cursor | None
    gatherer: Gatherer
    model: Model
    asker: Asker | None
    phases: Mapping[str, Phase | None]
    today: date

    @property
    def base(self) -> Snapshot:
        return self.draft.base

    @property
    def workspace(self) -> Workspace:
        return self.draft.base.workspace


def in_order(events: Iterable[Event]) -> list[Event]:
    """One list of events for each session, by time; the session that began first stands first. A session may stand in
    two places: copy after copy, what was taken back would read as the last word."""
    begun: dict[str | None, datetime] = {}
    for event in (events := list(events)):
        begun[event.session] = min(event.at, begun.get(event.session, event.at))
    return sorted(events, key=lambda event: (begun[event.session], event.session or "", event.at))


def _gathered(
    events: Iterable[Event], joins: Iterable[Join], request: PullRequest | None
) -> Gathered:
    """The events in their order; of a request from outside, all but what reviewers said of it are hearsay."""
    is_theirs = request is not None and is_outside(request, request.permission)
    numbered = (
        replace(
            event,
            seq=seq,
            is_outside=event.is_outside or (is_theirs and event.kind not in ("review", "check")),
        )
        for seq, event in enumerate(events)
    )
    return Gathered(tuple(numbered), tuple(joins), request)
