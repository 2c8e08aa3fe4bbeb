"""Search for the agent sessions that merged changes were made in, each with the reason for it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci import progress
from memory_ci.gitrepo.blobs import Tree
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.log import find_last_mention, is_touched_since
from memory_ci.gitrepo.repo import find_commit, find_objects
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.memory.quotes import EDITING_TOOLS
from memory_ci.memory.workspace import Workspace
from memory_ci.records.event import UNKNOWN_TIME, Event, Session
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.regex import Regex
from memory_ci.sessions.captured_sessions import CapturedSessions
from memory_ci.sessions.checkpoints import (
    MAX_TIME_TO_MERGE,
    TIME_TOLERANCE,
    UnnamedCheckpoints,
    find_commit_time,
    iter_changes,
    list_named_ids,
)
from memory_ci.sessions.session_note import MAX_IDLE_TIME
from memory_ci.sessions.transcripts import format_path
from memory_ci.sources.commits import format_author
from memory_ci.sources.entire import read_checkpoint
from memory_ci.sources.reviews import is_outside
from memory_ci.sources.transcripts.registry import find_transcripts, read_stream, read_transcript
from memory_ci.sources.transcripts.repetition import RepeatedTexts
from memory_ci.text import plural

ENTIRE_REFS = ("refs/heads/entire/checkpoints/v1", "refs/remotes/origin/entire/checkpoints/v1")
GIT_AI_REFS = ("refs/notes/ai", "refs/remotes/origin/notes/ai")

COMMITTED_TRANSCRIPT = Regex(
    r"(?:.*/)?(?:\.specstory/history/[^/]+\.md|\.aider\.chat\.history\.md)"
)
"""Paths of transcripts that teams commit along with their code."""

UNMERGED_SESSIONS = "Reading sessions of no merged change"

MAX_TRANSCRIPT = 64 * 1024 * 1024
"""Bytes of one transcript, note or checkpoint file that is read from a commit."""

MAX_REPORTED_GAP = timedelta(days=7)
"""How long after its end a session that edited the files of a change is reported as not joined."""

HINT = "Name the session in the commit, by our hook or by hand: Memory-Session: <agent>:<id>."

MIN_ID = 8  # Characters of the beginning of a session's id that identify it.
MAX_LISTED = 5  # Changes that are listed in the message on sessions which were not joined.


class JoinedSession(NamedTuple):
    """A session joined with a merged change.

    Attributes:
        session: the session.
        events: the events of the session that belong to the change.
        reason: the reason for the join, in words.
        commit: the commit of the change that the session is bound to.
    """

    session: Session
    events: tuple[Event, ...]
    reason: str
    commit: Commit


class UnmergedWork(NamedTuple):
    """A checkpoint or a captured session of work that is in no merged change.

    Attributes:
        label: its name in a plan, such as "checkpoint 8c1f2a".
        at: when it was made, or ended.
        branch: the branch it was made on, "" if unknown.
        sessions: its sessions, each with the events that are new in this run.
    """

    label: str
    at: datetime
    branch: str
    sessions: tuple[tuple[Session, tuple[Event, ...]], ...]


class UnmergedSessions(NamedTuple):
    """The captured sessions of no merged change, that no earlier run has read.

    Attributes:
        abandoned: sessions that ended so long ago that they will not be merged any more.
        waiting_count: the number of other sessions, which may be merged yet.
    """

    abandoned: tuple[Session, ...]
    waiting_count: int


class SessionFinder:
    """A search for the sessions of merged changes, wherever agents and their tools keep them.

    Each source is read once, and only when it is needed.

    Attributes:
        base: the revision whose history is searched.
        captured: the sessions captured into refs.
        problems: messages on sources that could not be read.
    """

    def __init__(
        self,
        workspace: Workspace,
        named_paths: Sequence[Path] = (),
        since: str | None = None,
        base: str = "HEAD",
    ) -> None:
        """Prepare a search; nothing is read yet.

        Args:
            workspace: the workspace whose repository is searched.
            named_paths: transcripts, or directories of them, that the user named.
            since: the commit up to which earlier runs have read.
            base: a revision; checkpoints that a commit of its history names belong to that commit.
        """
        self._workspace = workspace
        self._named_paths = named_paths
        self._since = since
        self.base = base

        self.captured = CapturedSessions(workspace)
        self.problems: list[str] = []

        # Until when earlier runs have read a session, by its key.
        self._read_until_by_session: dict[str, datetime] = {}
        # Events that belong to a change already, and must not belong to a second one.
        self._joined_event_keys: set[tuple[object, ...]] = set()
        self._joined_session_keys: set[str] = set()
        # Long texts of the sessions so far, to find those that a program wrote.
        self._repeated_texts = RepeatedTexts()
        # For a change without a session although one edited its files: why that one was not joined.
        self._unjoined_reasons: dict[str, str] = {}
        self._edits_by_session: dict[str, list[tuple[datetime, str]]] = {}  # time and path

    def find_sessions(
        self, merged: MergedChange, request: PullRequest | None
    ) -> Iterator[JoinedSession]:
        """Yield the sessions that one merged change was made in, with their new events.

        An event is joined with the first change that it belongs to, and not again with later ones.
        But an outsider's pull request may name any session. So the events that it gets are joined
        with later changes as well.

        Args:
            merged: the change.
            request: its pull request, if the forge was asked.
        """
        is_from_outside = request is not None and is_outside(request, request.permission)
        joined_keys = self._joined_event_keys
        if is_from_outside:
            joined_keys = joined_keys.copy()

        # A text counts as repeated also if the second session with it comes later.
        candidates = list(self._iter_candidates(merged, request))
        for candidate in candidates:
            self._repeated_texts.remember(candidate.events)

        found_keys: set[str] = set()
        for candidate in candidates:
            new_events = self._take_new_events(candidate, merged, joined_keys)
            events = self._repeated_texts.mark_repeated(new_events)
            # Of a session with several links, the first one is yielded even without new events.
            if events or candidate.session.key not in found_keys:
                found_keys.add(candidate.session.key)
                self._joined_session_keys.add(candidate.session.key)
                yield candidate._replace(events=events)

        if not found_keys:
            self._note_unjoined_reason(merged, request)

    def describe_unjoined(self) -> tuple[str, ...]:
        """Return a line on the changes that have no session, although one edited their files.

        Returns:
            The line, with the reasons for the first `MAX_LISTED` changes; () without such changes.
        """
        if not self._unjoined_reasons:
            return ()
        count = plural(len(self._unjoined_reasons), "merged change")
        reasons = "; ".join(list(self._unjoined_reasons.values())[:MAX_LISTED])
        ellipsis = "; …" if len(self._unjoined_reasons) > MAX_LISTED else ""
        return (f"{count} had a captured session that was not joined: {reasons}{ellipsis}",)

    def read_unmerged(self) -> Iterator[UnmergedWork]:
        """Yield the checkpoints and captured sessions that belong to no merged change.

        Each event is yielded once. The events of a checkpoint get the author of its first commit.
        The events of a captured session have no author, because no commit names one.
        """
        yield from self._read_unmerged_checkpoints()
        for session in progress.count(UNMERGED_SESSIONS, self.unmerged_sessions.abandoned):
            yield self._read_unmerged_session(session)

    def _read_unmerged_session(self, session: Session) -> UnmergedWork:
        """Return a captured session with the events that neither a change nor an earlier run had.

        An earlier run that asked the forge may have joined more of the session than this one.
        """
        ended = session.ended or UNKNOWN_TIME
        read_until = self._find_read_until(session)
        complete = self.captured.load_events(session)
        unread_events = tuple(
            event for event in complete.events if event.at == UNKNOWN_TIME or event.at > read_until
        )
        unread_part = replace(complete, events=unread_events)
        new_events = self._take_unmerged_events(unread_part, session.started or ended, author="")
        events = self._mark_repeated(new_events)
        label = f"session {session.key}"
        return UnmergedWork(label, ended, session.branch, ((unread_part, events),))

    def _mark_repeated(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Return the events, and remember their long texts.

        Texts that another session has, too, get the actor "injected": a program wrote them.
        """
        self._repeated_texts.remember(events)
        return self._repeated_texts.mark_repeated(events)

    def describe_unmerged_sessions(self) -> str:
        """Return how many captured sessions belong to no merged change; "" if none was read."""
        abandoned_count = len(self.unmerged_sessions.abandoned)
        if not abandoned_count:
            return ""
        count = plural(abandoned_count, "captured session")
        verb = "belongs" if abandoned_count == 1 else "belong"
        waiting = f"{self.unmerged_sessions.waiting_count} may be merged yet"
        return f"{count} {verb} to no merged change, read for what people asked; {waiting}"

    @cached_property
    def unmerged_sessions(self) -> UnmergedSessions:
        """The sessions with words of a person that belong to no merged change of the base.

        Work is merged within `MAX_TIME_TO_MERGE`. So a session that ended longer ago than that is
        abandoned, and an earlier run has read those that were abandoned by the time of its commit.
        """
        if not self._named_paths and not self.captured.stored:
            return UnmergedSessions((), 0)
        repo = self._workspace.repo
        base = find_commit(repo, self.base)
        if base is None:
            return UnmergedSessions((), 0)

        read_until = UNKNOWN_TIME
        if self._since:
            read_until = find_commit_time(repo, self._since) - MAX_TIME_TO_MERGE
        unjoined_sessions = []
        for session in self._local_sessions:
            if not session.counts.human_turns or session.key in self._joined_session_keys:
                continue
            if session.ended is not None and session.ended > read_until:
                unjoined_sessions.append(session)
        unmerged = self._remove_merged(unjoined_sessions, base)

        latest_end = find_commit_time(repo, base) - MAX_TIME_TO_MERGE
        abandoned = [
            session for session in unmerged if session.ended and session.ended <= latest_end
        ]
        return UnmergedSessions(tuple(abandoned), len(unmerged) - len(abandoned))

    def describe_unnamed(self) -> str:
        """Return how many checkpoints no commit names and how each was used; "" without any."""
        return self.unnamed_checkpoints.describe() if self.unnamed_checkpoints else ""

    @cached_property
    def unnamed_checkpoints(self) -> UnnamedCheckpoints | None:
        """Entire's checkpoints that no commit of the history names; None without its branch."""
        if self._entire_branch is None:
            return None
        return UnnamedCheckpoints(
            self._workspace.repo, self._entire_branch.tree, self.base, self._since
        )

    def _iter_candidates(
        self, merged: MergedChange, request: PullRequest | None
    ) -> Iterator[JoinedSession]:
        """Yield all sessions that may belong to a change, the surest links first.

        A trailer or a git note that names the session is the surest link. Then come transcripts
        among the files of the change, the pull request that a transcript opened, the branch and
        time, and last the edited files.
        """
        for commit in merged.commits:
            yield from self._join_named_checkpoints(commit)
            yield from self._join_git_ai_note(commit)
            yield from self._join_named_sessions(commit)

        yield from self._join_committed_transcripts(merged)

        for session in self._local_sessions:
            if merged.number is not None and merged.number in session.pull_requests:
                reason = f"its transcript opened #{merged.number}"
                yield self._load_and_join(session, reason, merged.tip)

        branch = find_branch_of_change(merged, request)
        # No commit names these checkpoints, because their commits were squashed. That is done by
        # people with write access, so the pull request of an outsider cannot claim a checkpoint.
        if request is None or not is_outside(request, request.permission):
            yield from self._join_unnamed_checkpoints(merged, branch)
        if branch:
            yield from self._join_by_branch(merged, branch)
        else:
            yield from self._join_by_files(merged)

    def _read_unmerged_checkpoints(self) -> Iterator[UnmergedWork]:
        """Yield the checkpoints that belong to no merged change, with their sessions.

        A checkpoint is a part of a session that the tool Entire has stored on a branch.
        """
        if self._entire_branch is None or self.unnamed_checkpoints is None:
            return
        unmerged = self.unnamed_checkpoints.list_unmerged()
        for summary in progress.count(UNMERGED_SESSIONS, unmerged):
            author = self.unnamed_checkpoints.authors.get(summary.id, "")
            sessions: list[tuple[Session, tuple[Event, ...]]] = []
            for session in self._read_checkpoint(self._entire_branch, summary.id):
                start = session.started or summary.at
                new_events = self._take_unmerged_events(session, start, author)
                sessions.append((session, self._mark_repeated(new_events)))
            label = f"checkpoint {summary.id}"
            yield UnmergedWork(label, summary.at, summary.branch, tuple(sessions))

    def _remove_merged(self, sessions: Sequence[Session], base: str) -> list[Session]:
        """Return the sessions whose work is in no merged change up to the commit `base`."""
        unmerged = list(sessions)
        started = [session.started or session.ended for session in sessions]
        times = [time for time in started if time is not None]
        if not times:
            return unmerged

        for merged in iter_changes(self._workspace.repo, min(times) - TIME_TOLERANCE, base):
            branch = find_branch(merged.tip.message)
            named_keys: set[str] = set()
            for commit in merged.commits:
                for name in _list_trailer_ids(commit, "Memory-Session"):
                    named_keys.update(session.key for session in self._list_named_sessions(name))
            unmerged = [
                session
                for session in unmerged
                if session.key not in named_keys
                and not self._has_made_change(session, merged, branch)
            ]
        return unmerged

    def _has_made_change(self, session: Session, merged: MergedChange, branch: str) -> bool:
        """Return whether a merged change was made in a session, by links that need no trailer.

        These are a pull request that the session opened, the branch of both, or edited files.

        Args:
            session: the session.
            merged: the change.
            branch: the branch of the change, "" if its message does not name it.
        """
        if merged.number is not None and merged.number in session.pull_requests:
            return True
        if branch:
            return _find_commit_on_branch(session, merged, branch) is not None
        return any(self._has_made_commit(session, commit) for commit in merged.commits)

    def _take_new_events(
        self,
        candidate: JoinedSession,
        merged: MergedChange,
        joined_keys: set[tuple[object, ...]],
    ) -> Iterator[Event]:
        """Yield the events of a session that belong to a change, and note them as joined.

        They are the events that no earlier change was joined with, from the time up to which
        earlier runs have read the session to the merge of the change.

        Each gets the author of the commit. An event without a time gets the time of the event
        before it; the first events get the start of the session, or the time of the commit.

        Args:
            candidate: the session, with the commit that it is bound to.
            merged: the change.
            joined_keys: the keys of the events joined so far, to which those yielded are added.
        """
        read_until = self._find_read_until(candidate.session)
        merged_at = max(merged.tip.committed_at, candidate.commit.committed_at) + TIME_TOLERANCE
        author = format_author(candidate.commit)

        latest_time = candidate.session.started or candidate.commit.authored_at
        for event in candidate.events:
            has_time = event.at != UNKNOWN_TIME
            if has_time:
                latest_time = event.at
            key = _make_event_key(candidate.session, event)
            if key in joined_keys:
                continue
            if has_time and not read_until < event.at <= merged_at:
                continue
            joined_keys.add(key)
            yield replace(event, at=latest_time, author=author)

    def _take_unmerged_events(self, session: Session, start: datetime, author: str) -> list[Event]:
        """Return the new events of a session that belongs to no merged change; note them as joined.

        An event is new if neither a change nor another copy of the session had it before.

        Args:
            session: the session.
            start: the time for events without one.
            author: the author for the events, "" if unknown.
        """
        new_events = []
        for event in session.events:
            key = _make_event_key(session, event)
            if key in self._joined_event_keys:
                continue
            self._joined_event_keys.add(key)
            at = start if event.at == UNKNOWN_TIME else event.at
            new_events.append(replace(event, at=at, author=author))
        return new_events

    def _find_read_until(self, session: Session) -> datetime:
        """Return the time up to which earlier runs have read a session.

        This is the time of the last commit up to `since` that names the session; `UNKNOWN_TIME` if
        no commit does.
        """
        if session.key not in self._read_until_by_session:
            mentioned_at = None
            if self._since:
                mentioned_at = find_last_mention(self._workspace.repo, self._since, session.id)
            self._read_until_by_session[session.key] = mentioned_at or UNKNOWN_TIME
        return self._read_until_by_session[session.key]

    # -- links that a commit or a change names

    def _join_named_checkpoints(self, commit: Commit) -> Iterator[JoinedSession]:
        """Yield the sessions of the checkpoints that a trailer `Entire-Checkpoint` names.

        Entire is a tool that stores sessions as checkpoints on a branch of the repository.
        """
        for checkpoint in list_named_ids(commit):
            if self._entire_branch is None:
                self.problems.append(
                    "commits name checkpoints of Entire, and entire/checkpoints/v1 is not here: "
                    "fetch it"
                )
                continue
            reason = f"Entire-Checkpoint: {checkpoint}"
            for session in self._read_checkpoint(self._entire_branch, checkpoint):
                yield JoinedSession(session, session.events, reason, commit)

    def _join_git_ai_note(self, commit: Commit) -> Iterator[JoinedSession]:
        """Yield the sessions in the git note that the tool git-ai has attached to a commit."""
        data = self._git_ai_notes.read(commit.sha) if self._git_ai_notes else None
        if not data:
            return
        for session in read_stream(io.BytesIO(data), f"{commit.sha[:12]}.note"):
            yield JoinedSession(session, session.events, "a note of git-ai", commit)

    def _join_named_sessions(self, commit: Commit) -> Iterator[JoinedSession]:
        """Yield the local sessions that a trailer `Memory-Session` of a commit names.

        The trailer has the key (`<agent>:<id>`), the id, or an unambiguous beginning of the id.
        """
        for name in _list_trailer_ids(commit, "Memory-Session"):
            sessions = self._list_named_sessions(name)
            count = len({session.id for session in sessions})
            if count > 1:
                self.problems.append(
                    f"Memory-Session: {name} begins the ids of {count} sessions: none was joined"
                )
                continue
            for session in sessions:
                yield self._load_and_join(session, f"Memory-Session: {session.key}", commit)

    def _list_named_sessions(self, name: str) -> list[Session]:
        """Return all copies of the sessions with a key (`agent:id`), id or beginning of an id."""
        agent, _, uid = name.rpartition(":")
        sessions = [session for session in self._local_sessions if agent in ("", session.agent)]
        exact = [session for session in sessions if session.id == uid]
        if exact or len(uid) < MIN_ID:
            return exact
        return [session for session in sessions if session.id.startswith(uid)]

    def _join_committed_transcripts(self, merged: MergedChange) -> Iterator[JoinedSession]:
        """Yield the sessions of transcripts among the files that the change adds or edits.

        They are joined with the commit that has the transcript: its author decides how far the
        words of the transcript are trusted.
        """
        commits: dict[str, Commit] = {}
        for commit in merged.commits:
            for file in commit.files:
                if file.status != "D" and COMMITTED_TRANSCRIPT.fullmatch(file.path):
                    commits[file.path] = commit
        if not commits or not self._workspace.config.sessions.read:
            return

        tree = Tree(self._workspace.repo, merged.tip.sha)
        for path, data in self._read_contents(tree, commits):
            for session in read_stream(io.BytesIO(data), path):
                reason = "committed with the change"
                yield JoinedSession(session, session.events, reason, commits[path])

    # -- links by branch, time and files

    def _join_unnamed_checkpoints(
        self, merged: MergedChange, branch: str
    ) -> Iterator[JoinedSession]:
        """Yield the sessions of Entire's checkpoints that no trailer of a commit names.

        They are joined with a change by its branch, its files and their time.

        Args:
            merged: the change.
            branch: its branch, "" if unknown.
        """
        if self._entire_branch is None or self.unnamed_checkpoints is None:
            return
        for summary, reason in self.unnamed_checkpoints.join_change(merged, branch):
            for session in self._read_checkpoint(self._entire_branch, summary.id):
                yield JoinedSession(session, session.events, reason, merged.tip)

    def _join_by_branch(self, merged: MergedChange, branch: str) -> Iterator[JoinedSession]:
        """Yield the sessions on the branch of a change during which a commit of it was made."""
        for session in self._local_sessions:
            commit = _find_commit_on_branch(session, merged, branch)
            if commit is not None:
                reason = f"on {branch} when {commit.sha[:7]} was made"
                yield self._load_and_join(session, reason, commit)

    def _join_by_files(self, merged: MergedChange) -> Iterator[JoinedSession]:
        """Yield the sessions that edited the files of a commit shortly before it was made.

        This is the link for a change whose branch is unknown, because it was pushed directly or
        squashed by hand.
        """
        for commit in merged.commits:
            for session in self._local_sessions:
                if self._has_made_commit(session, commit):
                    yield self._load_and_join(
                        session, f"edited what {commit.sha[:7]} holds", commit
                    )

    def _note_unjoined_reason(self, merged: MergedChange, request: PullRequest | None) -> None:
        """Note for the report why a session was not joined with a change although it edited files.

        The change has no session. If several sessions edited its files, the reason is for the
        first one.
        """
        for commit in merged.commits:
            for session in self._local_sessions:
                last_edits = self._find_edits_in_commit(session, commit)
                if not last_edits:
                    continue
                reason = self._find_mismatch(session, commit, last_edits)
                if reason is None:  # only the branch was another
                    branch = find_branch_of_change(merged, request)
                    reason = f"it was on {session.branch or 'no branch'}, not on {branch}"
                self._unjoined_reasons[merged.label] = f"{merged.label} ({session.key}: {reason})"
                return

    def _has_made_commit(self, session: Session, commit: Commit) -> bool:
        """Return whether a session edited files of a commit and can be the one that made it."""
        last_edits = self._find_edits_in_commit(session, commit)
        return bool(last_edits) and self._find_mismatch(session, commit, last_edits) is None

    def _find_edits_in_commit(self, session: Session, commit: Commit) -> dict[str, datetime]:
        """Return when a session last edited the files of a commit before it was made, by path.

        Files that it did not edit are left out. So are all files if the commit was made before the
        session or long after it.
        """
        if session.started is None or session.ended is None:
            return {}
        earliest = session.started - TIME_TOLERANCE
        latest = session.ended + MAX_REPORTED_GAP
        if not earliest <= commit.authored_at <= latest:
            return {}

        last_edits: dict[str, datetime] = {}
        for edited_at, path in self._list_edits(session):
            if edited_at <= commit.authored_at:
                last_edits[path] = edited_at
        return {
            file.path: last_edits[file.path] for file in commit.files if file.path in last_edits
        }

    def _find_mismatch(
        self, session: Session, commit: Commit, last_edits: Mapping[str, datetime]
    ) -> str | None:
        """Return why a commit was not made in a session that edited its files; None if it was.

        Args:
            session: the session.
            commit: the commit.
            last_edits: when the session edited files of the commit, as `_find_edits_in_commit`
                returns it.
        """
        if not session.counts.human_turns:
            return "no person wrote in it"
        ended = session.ended or UNKNOWN_TIME
        if commit.authored_at > ended + MAX_IDLE_TIME:
            hours = (commit.authored_at - ended) // timedelta(hours=1)
            return f"it ended {hours} hours before"
        if commit.parents and self._are_committed_since(last_edits, commit.parents[0]):
            return "what it edited was committed before"
        return None

    def _are_committed_since(self, last_edits: Mapping[str, datetime], sha: str) -> bool:
        """Return whether commits up to `sha` touched each path after its last edit."""
        repo = self._workspace.repo
        return all(is_touched_since(repo, sha, path, at) for path, at in last_edits.items())

    def _list_edits(self, session: Session) -> list[tuple[datetime, str]]:
        """Return the time and path of each edit of a session, the earliest first.

        The result is cached, so that the events of a session are read only once.
        """
        if session.key not in self._edits_by_session:
            edits = []
            for event in self.captured.load_events(session).events:
                if event.kind == "tool_call" and EDITING_TOOLS.search(event.tool or ""):
                    edits += [(event.at, path) for path in event.paths]
            self._edits_by_session[session.key] = sorted(edits)
        return self._edits_by_session[session.key]

    def _load_and_join(self, session: Session, reason: str, commit: Commit) -> JoinedSession:
        """Return a session, with its events, as joined with a commit.

        Args:
            session: the session, perhaps without its events: they are loaded.
            reason: the reason for the join, in words.
            commit: the commit.
        """
        complete = self.captured.load_events(session)
        return JoinedSession(complete, complete.events, reason, commit)

    # -- the places where sessions are kept

    @cached_property
    def _local_sessions(self) -> tuple[Session, ...]:
        """The sessions captured into refs (without their events) and those the user named."""
        sessions: list[Session] = []
        if self._workspace.config.sessions.read:
            sessions += self.captured.headers
        self.problems += self.captured.problems

        for place in self._named_paths:
            count_before = len(sessions)
            for path in find_transcripts([place]):
                sessions += read_transcript(path)
            if len(sessions) == count_before:
                self.problems.append(f"{format_path(place)} holds no session that can be read")
        return tuple(sessions)

    @cached_property
    def _entire_branch(self) -> _DataBranch | None:
        """The branch of Entire's checkpoints."""
        return self._open_first_ref(ENTIRE_REFS)

    @cached_property
    def _git_ai_notes(self) -> _DataBranch | None:
        """The notes of git-ai."""
        return self._open_first_ref(GIT_AI_REFS)

    def _open_first_ref(self, refs: Sequence[str]) -> _DataBranch | None:
        """Return the tree of the first of some refs that exists, to read files from.

        Return None if no ref exists, or if the configuration forbids to read sessions.
        """
        if not self._workspace.config.sessions.read:
            return None
        repo = self._workspace.repo
        for tip in find_objects(repo, [f"{ref}^{{commit}}" for ref in refs]):
            if tip:
                return _DataBranch(self, Tree(repo, tip))
        return None

    def _read_checkpoint(self, branch: _DataBranch, checkpoint_id: str) -> list[Session]:
        checkpoint = read_checkpoint(branch.list_paths, branch.read, checkpoint_id)
        self.problems += checkpoint.problems
        return [session for session, _ in checkpoint.sessions]

    def _read_contents(self, tree: Tree, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for content in tree.read(paths, MAX_TRANSCRIPT):
            if content.data is None:
                self.problems.append(f"{content.file.path} {content.problem}")
            else:
                yield content.file.path, content.data


class _DataBranch:
    """A branch that a tool keeps its data in, read file by file.

    A path may be given without its fan-out directories, as git's notes need it.
    """

    def __init__(self, finder: SessionFinder, tree: Tree) -> None:
        self._finder = finder
        self.tree = tree
        self._by_flat_path = {path.replace("/", ""): path for path in tree.files}

    def list_paths(self, prefix: str) -> Sequence[str]:
        """Return the paths that start with a prefix."""
        return [path for path in self.tree.files if path.startswith(prefix)]

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, None if it is missing or cannot be read."""
        if path not in self.tree.files:
            path = self._by_flat_path.get(path, "")
        for _, data in self._finder._read_contents(self.tree, [path]):
            return data
        return None


def _make_event_key(session: Session, event: Event) -> tuple[object, ...]:
    """Return a key that all copies of an event share: its id, else time, actor, kind and text.

    The key has no line number: line numbers differ between copies, and a line may have two events.
    """
    return session.key, event.uid or (event.at, event.actor, event.kind, event.text)


def _find_commit_on_branch(session: Session, merged: MergedChange, branch: str) -> Commit | None:
    """Return the first commit of a change that was made during a session on the same branch."""
    if session.branch != branch or session.started is None or session.ended is None:
        return None
    earliest = session.started - TIME_TOLERANCE
    latest = session.ended + TIME_TOLERANCE
    for commit in merged.commits:
        if earliest <= commit.authored_at <= latest:
            return commit
    return None


def _list_trailer_ids(commit: Commit, key: str) -> Iterator[str]:
    for _, value in find_trailers(commit.message, (key,)):
        yield from split_ids(value)


def find_branch_of_change(merged: MergedChange, request: PullRequest | None) -> str:
    """Return the branch a change was made on; "" if neither forge nor merge commit names it."""
    return request.branch if request else find_branch(merged.tip.message)
