"""Gathering of the events of merged changes, declined pull requests and unmerged work.

An event is one commit, one remark of a review or one turn of an agent session. A declined request
is a pull request that was closed without a merge. A run reads a limited number of them, the oldest
first, and the next runs read the rest. Requests of members get an episode when they are read.
Requests of outsiders get no episode, so only those that were closed since the last run are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE
from memory_ci.evidence.content import extract_own_words, redact
from memory_ci.evidence.trust import is_author
from memory_ci.forge.selection import Forge
from memory_ci.gitrepo.history import HistoryRange, find_addition, read_time_once
from memory_ci.gitrepo.record_commits import Cursor
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.commit_texts import fold_blanks, iter_file_events
from memory_ci.memory.draft import Draft
from memory_ci.memory.model import Model, ModelClient
from memory_ci.memory.workspace import Snapshot, Workspace
from memory_ci.records.entry import Phase
from memory_ci.records.episode import Episode
from memory_ci.records.event import Event
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.plan import Join
from memory_ci.records.repetition import PersonTurn
from memory_ci.sessions.session_archive import SessionArchive, read_archive
from memory_ci.sessions.session_join import SessionFinder, UnmergedWork
from memory_ci.sources.commits import (
    format_author,
    make_commit_events,
    make_diff_event,
)
from memory_ci.sources.reviews import is_outside, review_events
from memory_ci.text import plural

MAX_DECLINED = 40
"""Declined requests that one run reads.

Each costs three queries or more, of the 600 that a run may make.
"""

MAX_NAMED_REQUESTS = 10
"""Requests that one line of the report names."""

BACKLOG = timedelta(days=90)
"""The age of the oldest declined requests that a run reads because earlier runs did not."""


class DeclinedWindow(NamedTuple):
    """The time in which the declined requests of a run were closed.

    Attributes:
        last_run_at: when the last run ended. All requests that were closed later are read.
        start: the earliest time of a request that earlier runs may not have read, at the latest
            `last_run_at`. Requests that were closed between the two are read if they lack an
            episode.
        episode_ids: ids of episodes that exist or were deleted.
    """

    last_run_at: datetime
    start: datetime
    episode_ids: frozenset[str] = frozenset()


def find_declined_window(
    base: Snapshot,
    last_run_at: datetime,
    episode_ids: frozenset[str],
    episodes: Collection[Episode],
) -> DeclinedWindow:
    """Return the time in which the declined requests that a run reads were closed.

    It begins at the newest declined request that has an episode, but not before memory-ci was set
    up, and at most `BACKLOG` before the commit that the run reads. If no episodes are written, it
    begins when the last run ended.

    Args:
        base: the commit that the run reads.
        last_run_at: when the last run ended.
        episode_ids: ids of episodes that exist or were deleted.
        episodes: the episodes.
    """
    repo = base.workspace.repo
    setup_commit = find_addition(repo, base.sha, CONFIG_FILE)
    if setup_commit is None or not base.workspace.config.episodes.write:
        return DeclinedWindow(last_run_at, last_run_at, episode_ids)
    setup_time = read_time_once(repo, setup_commit)
    backlog_start = read_time_once(repo, base.sha) - BACKLOG
    declined_times = []
    for episode in episodes:
        is_declined = episode.action.pr and not episode.action.commit
        if is_declined:
            declined_times.append(episode.occurred_at)
    start = max([setup_time, backlog_start, *declined_times])
    return DeclinedWindow(last_run_at, min(start, last_run_at), episode_ids)


def choose_declined(requests: Iterable[PullRequest], window: DeclinedWindow) -> list[PullRequest]:
    """Return the declined requests to read, by the time of their closing.

    New requests come first, then requests with an episode, which may have new comments. A request
    is read if it was closed since the last run. A request that was closed earlier is read if a
    member opened it and it has no episode.
    """
    without_episode: list[PullRequest] = []
    with_episode: list[PullRequest] = []
    for request in requests:
        if request.closed_at is None or request.closed_at < window.start:
            continue
        has_episode = f"pr-{request.number}" in window.episode_ids
        # The listing does not always tell the permission. Without write access one needs a fork.
        is_by_member = request.permission != "read" or not request.is_fork
        is_older_than_last_run = request.closed_at < window.last_run_at
        if is_older_than_last_run and (has_episode or not is_by_member):
            continue
        if has_episode:
            with_episode.append(request)
        else:
            without_episode.append(request)

    by_time = attrgetter("closed_at", "number")
    return sorted(without_episode, key=by_time) + sorted(with_episode, key=by_time)


class GatheredEvents(NamedTuple):
    """The events of one change, and where they come from.

    Attributes:
        events: its events, numbered in their order.
        sources: the sessions and pull requests that they come from.
        request: its pull request.
    """

    events: tuple[Event, ...]
    sources: tuple[Join, ...]
    request: PullRequest | None = None


class Gatherer:
    """A reader of all sources about a change: git, its pull request, and agent sessions."""

    def __init__(self, workspace: Workspace, finder: SessionFinder, forge: Forge | None) -> None:
        """Create a gatherer that reads git, the sessions of a finder, and a forge if any."""
        self._workspace = workspace
        self._finder = finder
        self._forge = forge
        self._read_request_numbers: set[int] = set()
        self._problems: list[str] = []
        self.review_turns: list[PersonTurn] = []
        self.has_forge = forge is not None

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read, each once."""
        problems = [*self._problems, *self._finder.problems, *self._finder.describe_unjoined()]
        return tuple(dict.fromkeys(problems))

    @cached_property
    def archive(self) -> SessionArchive:
        """What people typed in all sessions, whether their work was merged or not."""
        base = find_commit(self._workspace.repo, self._finder.base)
        if base is None:
            return SessionArchive()
        return read_archive(self._workspace, base, self._finder.captured.stored)

    def is_typed(self, session: str, words: str) -> bool:
        """Return whether a person typed some words in a session; "" for whether any at all."""
        folded = fold_blanks(words)
        return any(
            turn.session == session and folded in fold_blanks(turn.text)
            for turn in self.archive.turns
        )

    def gather(self, merged: MergedChange) -> GatheredEvents:
        """Return the events of a merged change.

        They come from its commits, its decision records and job files, its pull request with the
        reviews, and its agent sessions, in this order. If there are more than the commits, an event
        with the changed files follows.

        Raises:
            EngineError: `forge-…` if the forge cannot be queried.
        """
        request = self.find_request(merged)
        sources: list[Join] = []
        events = [*make_commit_events(merged), *iter_file_events(self._workspace, merged)]
        if request is not None:
            is_named_by_commit = merged.number == request.number
            how = "named by its commit" if is_named_by_commit else "named by the forge"
            request_source, request_events = self._read_request(request, merged.label, how)
            sources += request_source
            events += request_events
        session_events: list[Event] = []
        for joined_session in self._finder.find_sessions(merged, request):
            sources.append(
                Join(
                    change=merged.label,
                    kind="session",
                    id=joined_session.session.key,
                    how=joined_session.reason,
                    events=len(joined_session.events),
                )
            )
            session_events += joined_session.events
        if len(events) > len(merged.commits) or session_events:
            events.append(make_diff_event(merged))
        return _number_events([*events, *sort_events(session_events)], sources, request)

    def gather_declined(self, request: PullRequest) -> GatheredEvents:
        """Return the events of a pull request that was closed without a merge.

        They hold no commits, for those are not in the history of the branch.
        """
        label = f"#{request.number}"
        sources, events = self._read_request(request, label, "closed without a merge")
        return _number_events(events, sources, request)

    def gather_unmerged(self) -> Iterator[tuple[UnmergedWork, GatheredEvents]]:
        """Yield the work that is in no merged change, with the events of its sessions."""
        for work in self._finder.read_unmerged():
            sources: list[Join] = []
            unmerged_events: list[Event] = []
            for session, session_events in work.sessions:
                sources.append(
                    Join(
                        change=work.label,
                        kind="session",
                        id=session.key,
                        how="of no merged change",
                        events=len(session_events),
                    )
                )
                unmerged_events += session_events
            yield work, _number_events(sort_events(unmerged_events), sources)

    def describe_unnamed_checkpoints(self) -> str:
        """Return how many checkpoints no commit names, or "" if there is nothing to report."""
        return self._finder.describe_unnamed()

    def describe_unmerged_sessions(self) -> str:
        """Return how many captured sessions belong to no change, or "" if none was read."""
        return self._finder.describe_unmerged_sessions()

    def read_declined(self, window: DeclinedWindow) -> tuple[PullRequest, ...]:
        """Return the next requests that were closed without a merge, oldest first.

        The request with the memory branch and those of bots are left out. A run reads
        `MAX_DECLINED`; the rest is a problem of the run.

        Raises:
            EngineError: `forge-…` if the forge cannot be queried at all.
        """
        if self._forge is None:
            return ()
        listing = self._forge.list_closed(window.start)
        if listing.problem:
            self._problems.append(listing.problem)
        own_branch = self._workspace.config.publish.branch
        by_people = []
        for request in listing.items:
            if request.branch != own_branch and not request.is_bot:
                by_people.append(request)

        chosen_requests = choose_declined(by_people, window)
        completed_requests = self._forge.complete_closed(chosen_requests[:MAX_DECLINED])
        unread_requests = chosen_requests[len(completed_requests.items) :]
        if unread_requests:
            reason = completed_requests.problem or f"a run reads {MAX_DECLINED}"
            self._problems.append(_describe_unread(unread_requests, reason))
        return completed_requests.items

    def is_by_member(
        self, commit: Commit, merged: MergedChange, request: PullRequest | None
    ) -> bool:
        """Return whether a commit is the work of people who may write to the repository.

        Anyone may write into a commit message that it reverts other work or used an entry, so that
        counts only in commits of members. The forge says who may write; without a forge these are
        the trusted authors of the configuration. A merge commit speaks for its branch, so all
        authors of the branch must be trusted.

        Args:
            commit: the commit.
            merged: the merged change that holds it.
            request: the pull request of the change.
        """
        if request is not None:
            return not is_outside(request, request.permission)
        if self.has_forge:  # Only members can push without a request.
            return True
        trusted_authors = self._workspace.config.extraction.trusted_authors
        commits = merged.commits if len(commit.parents) > 1 else (commit,)
        return all(is_author(format_author(authored), trusted_authors) for authored in commits)

    def find_request(self, merged: MergedChange) -> PullRequest | None:
        """Return the pull request that a merged change came from, or None.

        Anyone can write `#128` into a commit message, so the number counts only if the forge names
        the same merge commit; else the forge is queried for the number.

        Raises:
            EngineError: `forge-…` if the forge cannot be queried. It is not ignored: a change
                without a request would count as a member's work.
        """
        if self._forge is None:
            return None
        named_request = None
        if merged.number is not None:
            named_request = self._forge.find_pull_request(merged.number)
        if named_request is not None and named_request.merge_sha == merged.tip.sha:
            return named_request
        number = self._forge.find_number(merged.tip.sha)
        if number is None or number == merged.number:
            return named_request
        return self._forge.find_pull_request(number)

    def _read_request(
        self, request: PullRequest, change_label: str, how: str
    ) -> tuple[list[Join], Sequence[Event]]:
        """Return a pull request as a source, and its events; nothing if this run has read it.

        Args:
            request: the pull request.
            change_label: the label of the change that it belongs to, such as `#128`.
            how: how the request was found, for the report.
        """
        if request.number in self._read_request_numbers:
            return [], ()
        self._read_request_numbers.add(request.number)
        self._problems += [f"#{request.number}: {problem}" for problem in request.problems]
        events = review_events(request)
        self.review_turns += _list_review_turns(events, f"#{request.number}")
        source = Join(
            change=change_label,
            kind="pull-request",
            id=f"#{request.number}",
            how=how,
            events=len(events),
        )
        return [source], events


def _describe_unread(requests: Sequence[PullRequest], reason: str) -> str:
    """Return the problem of declined requests that a run did not read: `2 closed requests …`."""
    names = ", ".join(f"#{request.number}" for request in requests[:MAX_NAMED_REQUESTS])
    if len(requests) > MAX_NAMED_REQUESTS:
        names += ", …"
    return f"{plural(len(requests), 'closed request')} not read ({names}): {reason}"


class RecordRun(NamedTuple):
    """The state that the parts of one run share.

    Attributes:
        draft: memory as the changes planned so far leave it.
        since: where the range begins; None for the first commit.
        cursor: where the last run ended.
        lost_cursor: where a newer run ended, if the branch was rewritten since.
        gatherer: queries the sources.
        model: the model of the run.
        client: the client that asks the model; None without a model.
        phases: the stage of each project.
        today: the date of the run.
        newest: the merged changes of the last year, if the run has planned to read them.
    """

    draft: Draft
    since: str | None
    cursor: Cursor | None
    lost_cursor: Cursor | None
    gatherer: Gatherer
    model: Model
    client: ModelClient | None
    phases: Mapping[str, Phase | None]
    today: date
    newest: HistoryRange | None = None

    @property
    def base(self) -> Snapshot:
        """The commit that the run reads."""
        return self.draft.base

    @property
    def workspace(self) -> Workspace:
        """The repository, with the configuration that the run trusts."""
        return self.draft.base.workspace


def _list_review_turns(events: Iterable[Event], label: str) -> list[PersonTurn]:
    """Return what members wrote in the reviews of a pull request, without credentials.

    People may repeat in a review a request that they made in agent sessions.

    Args:
        events: the events of the request.
        label: its number: `#128`.
    """
    turns = []
    for event in events:
        if event.kind == "review" and event.actor == "human" and not event.is_outside:
            text = redact("\n".join(extract_own_words(event.text).splitlines())).text
            turns.append(PersonTurn(label, event.at, event.author, text))
    return turns


def sort_events(events: Iterable[Event]) -> list[Event]:
    """Sort the events of sessions: by the start of their session, and within a session by time.

    Two transcripts may hold parts of one session, so that its events come in two runs. If they were
    read one after the other, a statement of the first could follow its own correction.
    """
    events_by_session: dict[str, list[Event]] = {}
    for event in events:
        events_by_session.setdefault(event.session or "", []).append(event)

    for session_events in events_by_session.values():
        session_events.sort(key=attrgetter("at"))

    def by_start(session_key: str) -> tuple[datetime, str]:
        return events_by_session[session_key][0].at, session_key

    sorted_events: list[Event] = []
    for session_key in sorted(events_by_session, key=by_start):
        sorted_events += events_by_session[session_key]
    return sorted_events


def _number_events(
    events: Iterable[Event], sources: Iterable[Join], request: PullRequest | None = None
) -> GatheredEvents:
    """Return the events of a change, numbered, and marked where an outsider wrote them.

    If an outsider opened the pull request, all of its events are an outsider's, except reviews,
    which name their own authors, and the results of CI.
    """
    is_opened_outside = request is not None and is_outside(request, request.permission)
    numbered: list[Event] = []
    for number, event in enumerate(events):
        is_by_opener = event.kind not in ("review", "check")
        is_outsiders = event.is_outside or (is_opened_outside and is_by_opener)
        numbered.append(replace(event, seq=number, is_outside=is_outsiders))
    return GatheredEvents(tuple(numbered), tuple(sources), request)
