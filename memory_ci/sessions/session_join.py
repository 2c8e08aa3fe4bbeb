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
    GRACE,
    WINDOW,
    UnnamedCheckpoints,
    find_commit_time,
    iter_changes,
    list_named,
)
from memory_ci.sessions.session_note import LIVE
from memory_ci.sessions.transcripts import path_text
from memory_ci.sources.commits import author_of
from memory_ci.sources.entire import read_checkpoint
from memory_ci.sources.reviews import is_outside
from memory_ci.sources.transcripts.registry import find_transcripts, read_stream, read_transcript
from memory_ci.sources.transcripts.repetition import RepeatedTexts
from memory_ci.text import plural

ENTIRE = ("refs/heads/entire/checkpoints/v1", "refs/remotes/origin/entire/checkpoints/v1")
NOTES = ("refs/notes/ai", "refs/remotes/origin/notes/ai")

COMMITTED = Regex(r"(?:.*/)?(?:\.specstory/history/[^/]+\.md|\.aider\.chat\.history\.md)")
"""Paths of transcripts that teams commit along with their code."""

UNMERGED_SESSIONS = "Reading sessions of no merged change"

MAX_TRANSCRIPT = 64 * 1024 * 1024
"""Bytes of one transcript, note or checkpoint file that is read from a commit."""

MEMORABLE = timedelta(days=7)
"""How long after its end a session that edited the files of a change is reported as not joined."""

HINT = "Name the session in the commit, by our hook or by hand: Memory-Session: <agent>:<id>."

MIN_ID = 8  # Characters of the beginning of a session's id that identify it.
MAX_LISTED = 5  # Changes that are listed in the message on sessions which were not joined.


class JoinedSession(NamedTuple):
    """A session joined with a merged change.

    Attributes:
        session: the session.
        events: the events of the session that belong to the change.
        how: the reason for the join, in words.
        commit: the commit of the change that the session is bound to.
    """

    session: Session
    events: tuple[Event, ...]
    how: str
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
    """The captured sessions of no merged change.

    Attributes:
        old: sessions that are too old to be merged any more, and that no earlier run has read.
        waiting: the number of sessions that may be merged yet.
    """

    old: tuple[Session, ...]
    waiting: int


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

        self._read_until: dict[str, datetime] = {}  # by session: read by earlier runs up to then
        self._joined_keys: set[tuple[object, ...]] = set()  # of events that a change has joined
        self._repeated = RepeatedTexts()
        self._unjoined: dict[str, str] = {}  # by change: why the session that edits it is not its
        self._joined_sessions: set[str] = set()
        self._edits: dict[str, list[tuple[datetime, str]]] = {}  # time and path, by session

    def find(self, merged: MergedChange, request: PullRequest | None) -> Iterator[JoinedSession]:
        """Yield the sessions that one merged change was made in, with their new events.

        An event is joined with the first change that it belongs to, and not again with later ones.
        An outsider's pull request may name any session; so it takes no event from later changes.

        Args:
            merged: the change.
            request: its pull request, if the forge was asked.
        """
        is_from_outside = request is not None and is_outside(request, request.permission)
        joined_keys = self._joined_keys.copy() if is_from_outside else self._joined_keys

        candidates = list(self._iter_candidates(merged, request))
        for candidate in candidates:
            self._repeated.remember(candidate.events)

        seen: set[str] = set()
        for candidate in candidates:
            events = self._repeated.mark_repeated(self._take_events(candidate, merged, joined_keys))
            if events or candidate.session.key not in seen:
                seen.add(candidate.session.key)
                self._joined_sessions.add(candidate.session.key)
                yield candidate._replace(events=events)

        if not seen:
            self._explain_unjoined(merged, request)

    def describe_unjoined(self) -> tuple[str, ...]:
        """Return a line on the changes without a session though a captured one edited their files.

        Returns:
            The line, with the reasons for the first `MAX_LISTED` changes; () without such changes.
        """
        if not self._unjoined:
            return ()
        count = plural(len(self._unjoined), "merged change")
        reasons = "; ".join(list(self._unjoined.values())[:MAX_LISTED])
        ellipsis = "; …" if len(self._unjoined) > MAX_LISTED else ""
        return (f"{count} had a captured session that was not joined: {reasons}{ellipsis}",)

    def read_unmerged(self) -> Iterator[UnmergedWork]:
        """Yield the checkpoints and captured sessions that belong to no merged change.

        Each event is yielded once. The events of a checkpoint get the author of its first commit.
        The events of a captured session have no author, because no commit names one.
        """
        yield from self._read_unmerged_checkpoints()
        for session in progress.count(UNMERGED_SESSIONS, self.unmerged_sessions.old):
            ended = session.ended or UNKNOWN_TIME
            # An earlier run that asked the forge may have joined more of the session than this one.
            read_until = self._find_read_until(session)
            complete = self.captured.load_events(session)
            new_events = tuple(
                event
                for event in complete.events
                if event.at == UNKNOWN_TIME or event.at > read_until
            )
            new_part = replace(complete, events=new_events)
            events = self._take_unmerged_events(new_part, session.started or ended, "")
            self._repeated.remember(events)
            typed_events = self._repeated.mark_repeated(events)
            label = f"session {session.key}"
            yield UnmergedWork(label, ended, session.branch, ((new_part, typed_events),))

    def describe_unmerged_sessions(self) -> str:
        """Return how many captured sessions belong to no merged change; "" if none was read."""
        old = len(self.unmerged_sessions.old)
        if not old:
            return ""
        count = plural(old, "captured session")
        verb = "belongs" if old == 1 else "belong"
        waiting = f"{self.unmerged_sessions.waiting} may be merged yet"
        return f"{count} {verb} to no merged change, read for what people asked; {waiting}"

    @cached_property
    def unmerged_sessions(self) -> UnmergedSessions:
        """The sessions with words of a person that belong to no merged change of the base."""
        if not self._named_paths and not self.captured.stored:
            return UnmergedSessions((), 0)
        repo = self._workspace.repo
        base = find_commit(repo, self.base)
        if base is None:
            return UnmergedSessions((), 0)

        # What ended before this time was read by an earlier run.
        read_until = UNKNOWN_TIME
        if self._since:
            read_until = find_commit_time(repo, self._since) - WINDOW
        unjoined = []
        for session in self._local_sessions:
            if not session.counts.human_turns or session.key in self._joined_sessions:
                continue
            if session.ended is not None and session.ended > read_until:
                unjoined.append(session)
        sessions = self._drop_merged(unjoined, base)

        end = find_commit_time(repo, base) - WINDOW
        old = tuple(session for session in sessions if session.ended and session.ended <= end)
        return UnmergedSessions(old, len(sessions) - len(old))

    def describe_unnamed(self) -> str:
        """Return how many checkpoints no commit names and how each was used; "" without any."""
        return self.unnamed.describe() if self.unnamed else ""

    @cached_property
    def unnamed(self) -> UnnamedCheckpoints | None:
        """Entire's checkpoints that no commit of the history names; None without its branch."""
        if self._entire is None:
            return None
        return UnnamedCheckpoints(self._workspace.repo, self._entire.tree, self.base, self._since)

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
                how = f"its transcript opened #{merged.number}"
                yield self._join(session, how, merged.tip)

        branch = find_branch_of(merged, request)
        # No commit names these checkpoints, because their commits were squashed. That is done by
        # people with write access, so the pull request of an outsider cannot claim a checkpoint.
        if request is None or not is_outside(request, request.permission):
            yield from self._join_unnamed_checkpoints(merged, branch)
        if branch:
            yield from self._join_by_branch(merged, branch)
        else:
            yield from self._join_by_files(merged)

    def _read_unmerged_checkpoints(self) -> Iterator[UnmergedWork]:
        """Yield the checkpoints of Entire that belong to no merged change, with their sessions."""
        if self._entire is None or self.unnamed is None:
            return
        for summary in progress.count(UNMERGED_SESSIONS, self.unnamed.list_unmerged()):
            author = self.unnamed.authors.get(summary.id, "")
            sessions: list[tuple[Session, tuple[Event, ...]]] = []
            for session in self._read_checkpoint(self._entire, summary.id):
                events = self._take_unmerged_events(session, session.started or summary.at, author)
                self._repeated.remember(events)
                sessions.append((session, self._repeated.mark_repeated(events)))
            label = f"checkpoint {summary.id}"
            yield UnmergedWork(label, summary.at, summary.branch, tuple(sessions))

    def _drop_merged(self, sessions: Sequence[Session], base: str) -> list[Session]:
        """Return the sessions whose work is in no merged change up to the commit `base`."""
        unmerged = list(sessions)
        started = [session.started or session.ended for session in sessions]
        times = [time for time in started if time is not None]
        if not times:
            return unmerged

        for merged in iter_changes(self._workspace.repo, min(times) - GRACE, base):
            branch = find_branch(merged.tip.message)
            named_keys: set[str] = set()
            for commit in merged.commits:
                for name in _list_trailer_ids(commit, "Memory-Session"):
                    named_keys.update(session.key for session in self._list_by_name(name))
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

    def _take_events(
        self, joined: JoinedSession, merged: MergedChange, joined_keys: set[tuple[object, ...]]
    ) -> Iterator[Event]:
        """Yield the events of a session up to the merge that no change before has joined.

        Each gets the author of the commit. An event without a time gets that of the event before
        it; the first events get the start of the session, or the time of the commit.

        Args:
            joined: a candidate.
            merged: the change.
            joined_keys: the keys of the events joined so far, to which those yielded are added.
        """
        read_until = self._find_read_until(joined.session)
        end = max(merged.tip.committed_at, joined.commit.committed_at) + GRACE
        author = author_of(joined.commit)

        latest = joined.session.started or joined.commit.authored_at
        for event in joined.events:
            is_timed = event.at != UNKNOWN_TIME
            if is_timed:
                latest = event.at
            key = _event_key(joined.session, event)
            if key in joined_keys:
                continue
            if is_timed and not read_until < event.at <= end:
                continue
            joined_keys.add(key)
            yield replace(event, at=latest, author=author)

    def _take_unmerged_events(self, session: Session, start: datetime, author: str) -> list[Event]:
        """Return the events of a session of no merged change that are new, and mark them as joined.

        New are those that no change and no other copy of the session had before.

        Args:
            session: the session.
            start: the time for events without one.
            author: the author for the events, "" if unknown.
        """
        events = []
        for event in session.events:
            key = _event_key(session, event)
            if key in self._joined_keys:
                continue
            self._joined_keys.add(key)
            at = start if event.at == UNKNOWN_TIME else event.at
            events.append(replace(event, at=at, author=author))
        return events

    def _find_read_until(self, session: Session) -> datetime:
        """Return the time up to which earlier runs have read a session.

        This is the time of the last commit that names the session; `UNKNOWN_TIME` if no commit
        does.
        """
        if session.key not in self._read_until:
            mentioned_at = None
            if self._since:
                mentioned_at = find_last_mention(self._workspace.repo, self._since, session.id)
            self._read_until[session.key] = mentioned_at or UNKNOWN_TIME
        return self._read_until[session.key]

    # -- links that a commit or a change names

    def _join_named_checkpoints(self, commit: Commit) -> Iterator[JoinedSession]:
        """Yield the sessions of the checkpoints that a trailer `Entire-Checkpoint` names.

        Entire is a tool that stores sessions as checkpoints on a branch of the repository.
        """
        for checkpoint in list_named(commit):
            if self._entire is None:
                self.problems.append(
                    "commits name checkpoints of Entire, and entire/checkpoints/v1 is not here: "
                    "fetch it"
                )
                continue
            how = f"Entire-Checkpoint: {checkpoint}"
            for session in self._read_checkpoint(self._entire, checkpoint):
                yield JoinedSession(session, session.events, how, commit)

    def _join_git_ai_note(self, commit: Commit) -> Iterator[JoinedSession]:
        """Yield the sessions in the git note that the tool git-ai has attached to a commit."""
        data = self._notes.read(commit.sha) if self._notes else None
        if not data:
            return
        for session in read_stream(io.BytesIO(data), f"{commit.sha[:12]}.note"):
            yield JoinedSession(session, session.events, "a note of git-ai", commit)

    def _join_named_sessions(self, commit: Commit) -> Iterator[JoinedSession]:
        """Yield the local sessions that a trailer `Memory-Session` of a commit names.

        The trailer has the key (`<agent>:<id>`), the id, or an unambiguous beginning of the id.
        """
        for name in _list_trailer_ids(commit, "Memory-Session"):
            sessions = self._list_by_name(name)
            count = len({session.id for session in sessions})
            if count > 1:
                self.problems.append(
                    f"Memory-Session: {name} begins the ids of {count} sessions: none was joined"
                )
                continue
            for session in sessions:
                yield self._join(session, f"Memory-Session: {session.key}", commit)

    def _list_by_name(self, name: str) -> list[Session]:
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
                if file.status != "D" and COMMITTED.fullmatch(file.path):
                    commits[file.path] = commit
        if not commits or not self._workspace.config.sessions.read:
            return

        tree = Tree(self._workspace.repo, merged.tip.sha)
        for path, data in self._read_files(tree, commits):
            for session in read_stream(io.BytesIO(data), path):
                how = "committed with the change"
                yield JoinedSession(session, session.events, how, commits[path])

    # -- links by branch, time and files

    def _join_unnamed_checkpoints(
        self, merged: MergedChange, branch: str
    ) -> Iterator[JoinedSession]:
        """Yield the sessions of Entire's checkpoints that no trailer names, by branch or files."""
        if self._entire is None or self.unnamed is None:
            return
        for summary, how in self.unnamed.join(merged, branch):
            for session in self._read_checkpoint(self._entire, summary.id):
                yield JoinedSession(session, session.events, how, merged.tip)

    def _join_by_branch(self, merged: MergedChange, branch: str) -> Iterator[JoinedSession]:
        """Yield the sessions on the branch of a change during which a commit of it was made."""
        for session in self._local_sessions:
            commit = _find_commit_on_branch(session, merged, branch)
            if commit is not None:
                how = f"on {branch} when {commit.sha[:7]} was made"
                yield self._join(session, how, commit)

    def _join_by_files(self, merged: MergedChange) -> Iterator[JoinedSession]:
        """Yield the sessions that edited the files of a commit shortly before it was made.

        This is the link for a change whose branch is unknown, because it was pushed directly or
        squashed by hand.
        """
        for commit in merged.commits:
            for session in self._local_sessions:
                if self._has_made_commit(session, commit):
                    yield self._join(session, f"edited what {commit.sha[:7]} holds", commit)

    def _explain_unjoined(self, merged: MergedChange, request: PullRequest | None) -> None:
        """Keep the reason, for the report, why no session that edited files of a change is its own.

        It is that of the first such session.
        """
        for commit in merged.commits:
            for session in self._local_sessions:
                reason = self._find_mismatch(session, commit)
                if reason is None:
                    continue
                if not reason:
                    branch = find_branch_of(merged, request)
                    reason = f"it was on {session.branch or 'no branch'}, not on {branch}"
                self._unjoined[merged.label] = f"{merged.label} ({session.key}: {reason})"
                return

    def _has_made_commit(self, session: Session, commit: Commit) -> bool:
        """Return whether a session edited files of a commit and can be the one that made it."""
        return self._find_mismatch(session, commit) == ""

    def _find_mismatch(self, session: Session, commit: Commit) -> str | None:
        """Return why a commit was not made in a session that had edited files of the commit.

        Returns:
            The reason; "" if the commit was made in the session; None if the session edited none of
            its files, or was not open around its time.
        """
        if session.started is None or session.ended is None:
            return None
        if not session.started - GRACE <= commit.authored_at <= session.ended + MEMORABLE:
            return None

        last_edits: dict[str, datetime] = {}
        for edited_at, path in self._list_edits(session):
            if edited_at <= commit.authored_at:
                last_edits[path] = edited_at
        shared_paths = [file.path for file in commit.files if file.path in last_edits]
        if not shared_paths:
            return None

        if not session.counts.human_turns:
            return "no person wrote in it"
        if commit.authored_at > session.ended + LIVE:
            hours = (commit.authored_at - session.ended) // timedelta(hours=1)
            return f"it ended {hours} hours before"
        if commit.parents and self._are_touched(shared_paths, last_edits, commit.parents[0]):
            return "what it edited was committed before"
        return ""

    def _are_touched(
        self, paths: Iterable[str], last_edits: Mapping[str, datetime], sha: str
    ) -> bool:
        """Return whether commits up to `sha` touched each path after its last edit."""
        repo = self._workspace.repo
        return all(is_touched_since(repo, sha, path, last_edits[path]) for path in paths)

    def _list_edits(self, session: Session) -> list[tuple[datetime, str]]:
        """Return the time and path of each edit of a session, the earliest first.

        The result is cached, so that the events of a session are read only once.
        """
        if session.key not in self._edits:
            edits = []
            for event in self.captured.load_events(session).events:
                if event.kind == "tool_call" and EDITING_TOOLS.search(event.tool or ""):
                    edits += [(event.at, path) for path in event.paths]
            self._edits[session.key] = sorted(edits)
        return self._edits[session.key]

    def _join(self, session: Session, how: str, commit: Commit) -> JoinedSession:
        """Load the events of a session, and return it as joined with a commit.

        Args:
            session: the session, perhaps without its events.
            how: the reason for the join, in words.
            commit: the commit.
        """
        complete = self.captured.load_events(session)
        return JoinedSession(complete, complete.events, how, commit)

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
                self.problems.append(f"{path_text(place)} holds no session that can be read")
        return tuple(sessions)

    @cached_property
    def _entire(self) -> _Branch | None:
        """The branch of Entire's checkpoints."""
        return self._open_first_ref(ENTIRE)

    @cached_property
    def _notes(self) -> _Branch | None:
        """The notes of git-ai."""
        return self._open_first_ref(NOTES)

    def _open_first_ref(self, refs: Sequence[str]) -> _Branch | None:
        """Return the tree of the first of some refs that exists, to read files from.

        Return None if no ref exists, or if the configuration forbids to read sessions.
        """
        if not self._workspace.config.sessions.read:
            return None
        repo = self._workspace.repo
        for tip in find_objects(repo, [f"{ref}^{{commit}}" for ref in refs]):
            if tip:
                return _Branch(self, Tree(repo, tip))
        return None

    def _read_checkpoint(self, branch: _Branch, checkpoint_id: str) -> list[Session]:
        checkpoint = read_checkpoint(branch.list_paths, branch.read, checkpoint_id)
        self.problems += checkpoint.problems
        return [session for session, _ in checkpoint.sessions]

    def _read_files(self, tree: Tree, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for content in tree.read(paths, MAX_TRANSCRIPT):
            if content.data is None:
                self.problems.append(f"{content.file.path} {content.problem}")
            else:
                yield content.file.path, content.data


class _Branch:
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
        for _, data in self._finder._read_files(self.tree, [path]):
            return data
        return None


def _event_key(session: Session, event: Event) -> tuple[object, ...]:
    """Return a key that all copies of an event share: its id, else time, actor, kind and text.

    The key has no line number: line numbers differ between copies, and a line may have two events.
    """
    return session.key, event.uid or (event.at, event.actor, event.kind, event.text)


def _find_commit_on_branch(session: Session, merged: MergedChange, branch: str) -> Commit | None:
    """Return the first commit of a change that was made during a session on the same branch."""
    if session.branch != branch or session.started is None or session.ended is None:
        return None
    for commit in merged.commits:
        if session.started - GRACE <= commit.authored_at <= session.ended + GRACE:
            return commit
    return None


def _list_trailer_ids(commit: Commit, key: str) -> Iterator[str]:
    for _, value in find_trailers(commit.message, (key,)):
        yield from split_ids(value)


def find_branch_of(merged: MergedChange, request: PullRequest | None) -> str:
    """Return the branch a change was made on; "" if neither forge nor merge commit names it."""
    return request.branch if request else find_branch(merged.tip.message)
