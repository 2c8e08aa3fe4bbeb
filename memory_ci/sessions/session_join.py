"""Sessions, captured or in files: which agent sessions belong to a merged change, and how that is known."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.gitrepo.blobs import Tree
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.log import find_last_mention, is_touched_since
from memory_ci.gitrepo.repo import find_objects
from memory_ci.gitrepo.sessionrefs import StoredSession, list_stored, read_stored
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.memory.quotes import EDITS, TOLERANCE
from memory_ci.memory.workspace import Workspace
from memory_ci.records.event import UNKNOWN_TIME, Event, Session
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.sessions.checkpoints import GRACE, UnnamedCheckpoints, list_named
from memory_ci.sessions.session_note import LIVE
from memory_ci.sessions.transcripts import path_text
from memory_ci.sources.commits import author_of
from memory_ci.sources.entire import read_checkpoint
from memory_ci.sources.reviews import is_outside
from memory_ci.sources.transcripts.digest import read
from memory_ci.sources.transcripts.registry import find_transcripts, read_stream, read_transcript
from memory_ci.sources.transcripts.repetition import RepeatedTexts
from memory_ci.text import plural

ENTIRE = ("refs/heads/entire/checkpoints/v1", "refs/remotes/origin/entire/checkpoints/v1")
NOTES = ("refs/notes/ai", "refs/remotes/origin/notes/ai")
# Transcripts that teams commit beside their code.
COMMITTED = re.compile(r"(?:.*/)?(?:\.specstory/history/[^/]+\.md|\.aider\.chat\.history\.md)")
MAX_TRANSCRIPT = 64 * 1024 * 1024
# How long after its end it is told that a session which edited the files of a change was not joined with it.
MEMORABLE = timedelta(days=7)
MIN_ID = 8  # Characters of a session's id that name it.
MAX_TOLD = 5  # Changes that the line on sessions which were not joined names.
MAX_SESSIONS = 2_000
MAX_BYTES = 200_000_000  # What one run reads of captured sessions, the newest first.


class JoinedSession(NamedTuple):
    """A session of a change: its events that belong there, how it was found, and the commit it is bound to."""

    session: Session
    events: tuple[Event, ...]
    how: str
    commit: Commit


class LeftCheckpoint(NamedTuple):
    """A checkpoint of work that no merged change is known to have brought: its time, and its events by session."""

    id: str
    at: datetime
    branch: str
    sessions: tuple[tuple[Session, tuple[Event, ...]], ...]


class SessionFinder:
    """Finds sessions where agents and their tools keep them; each source is read once, and only when asked for. `extra`
    are transcripts, or directories of them, that the caller names. Checkpoints that a commit of `base` names are that
    commit's. `problems` tell what could not be read."""

    def __init__(
        self,
        workspace: Workspace,
        extra: Sequence[Path] = (),
        since: str | None = None,
        base: str = "HEAD",
    ) -> None:
        self._workspace, self._extra, self._since, self._base = workspace, extra, since, base
        self.captured = CapturedSessions(workspace)
        self._read_until: dict[str, datetime] = {}
        self._given: set[tuple[object, ...]] = set()
        self._repeated = RepeatedTexts()
        self.problems: list[str] = []
        self._missed: dict[str, str] = {}
        self._edits: dict[str, list[tuple[datetime, str]]] = {}

    def find(self, merged: MergedChange, request: PullRequest | None) -> Iterator[JoinedSession]:
        """The sessions of one merged change, each once; an event goes to the first change that it is joined with. What
        an outsider says is a session of his takes nothing from the change that it belongs to."""
        seen: set[str] = set()
        is_theirs = request is not None and is_outside(request, request.permission)
        given = self._given.copy() if is_theirs else self._given
        candidates = list(self._candidates(merged, request))
        for joined in candidates:
            self._repeated.see(joined.events)
        for joined in candidates:
            events = self._repeated.withdraw(self._take(joined, merged, given))
            if events or joined.session.key not in seen:
                seen.add(joined.session.key)
                yield joined._replace(events=events)
        if not seen:
            branch = find_branch_of(merged, request)
            judged = (
                (self._judge(one, commit), one) for commit in merged.commits for one in self._known
            )
            for why, one in judged:
                if why is not None:
                    why = why or f"it was on {one.branch or 'no branch'}, not on {branch}"
                    self._missed[merged.label] = f"{merged.label} ({one.key}: {why})"
                    break

    def tell_missed(self) -> tuple[str, ...]:
        """How many of the changes have no session although a captured one edited their files, and why; one line."""
        if not self._missed:
            return ()
        count = plural(len(self._missed), "merged change")
        named = "; ".join(list(self._missed.values())[:MAX_TOLD])
        more = "; …" if len(self._missed) > MAX_TOLD else ""
        return (f"{count} had a captured session that was not joined: {named}{more}",)

    def _candidates(
        self, merged: MergedChange, request: PullRequest | None
    ) -> Iterator[JoinedSession]:
        """First those that commits name, then those that the change and the session name of each other."""
        for commit in merged.commits:
            yield from self._checkpoints(commit)
            yield from self._noted(commit)
            yield from self._named(commit)
        yield from self._committed(merged)
        for session in self._known:
            if merged.number is not None and merged.number in session.pull_requests:
                yield self._join(session, f"its transcript opened #{merged.number}", merged.tip)
        if not (
            request and is_outside(request, request.permission)
        ):  # who folds commits may write here
            yield from self._unnamed(merged, find_branch_of(merged, request))
        if branch := find_branch_of(merged, request):
            yield from self._near(merged, branch)
        else:
            yield from self._edited(merged)

    def _take(
        self, joined: JoinedSession, merged: MergedChange, given: set[tuple[object, ...]]
    ) -> Iterator[Event]:
        """The events up to the merge that are not `given` yet, bound to the author of the commit.

        One without a time has that of the event before it, in a session without any that of the commit.

        Copies are known by their id; without one, by who said what when: the lines of two copies differ, and one line
        may hold two events.
        """
        begin, end = (
            self._begin(joined.session),
            max(merged.tip.committed_at, joined.commit.committed_at) + GRACE,
        )
        latest = joined.session.started or joined.commit.authored_at
        for event in joined.events:
            latest = latest if event.at == UNKNOWN_TIME else event.at
            key = _event_key(joined.session, event)
            if key in given or (event.at != UNKNOWN_TIME and not begin < event.at <= end):
                continue
            given.add(key)
            yield replace(event, at=latest, author=author_of(joined.commit))

    def _begin(self, session: Session) -> datetime:
        """When the part of a session ends that an earlier run has read: at the last commit before that names it."""
        if session.key not in self._read_until:
            found = self._since and find_last_mention(self._workspace.repo, self._since, session.id)
            self._read_until[session.key] = found or UNKNOWN_TIME
        return self._read_until[session.key]

    def _checkpoints(self, commit: Commit) -> Iterator[JoinedSession]:
        """Entire's checkpoints, by the trailer that its hook writes."""
        for value in list_named(commit):
            if self._entire is None:
                why = "commits name checkpoints of Entire, and entire/checkpoints/v1 is not here: fetch it"
                self.problems.append(why)
                continue
            for session in self._read_checkpoint(self._entire, value):
                yield JoinedSession(session, session.events, f"Entire-Checkpoint: {value}", commit)

    def _unnamed(self, merged: MergedChange, branch: str) -> Iterator[JoinedSession]:
        """Yield the sessions of checkpoints that no commit names and whose work this change brought."""
        if self._entire is None or self.unnamed is None:
            return
        for summary, how in self.unnamed.join(merged, branch):
            for session in self._read_checkpoint(self._entire, summary.id):
                yield JoinedSession(session, session.events, how, merged.tip)

    def read_left(self) -> Iterator[LeftCheckpoint]:
        """Yield the checkpoints of work that no change brought, each event once and with its author."""
        if self._entire is None or self.unnamed is None:
            return
        for summary in self.unnamed.list_left():
            author = self.unnamed.authors.get(summary.id, "")
            sessions: list[tuple[Session, tuple[Event, ...]]] = []
            for session in self._read_checkpoint(self._entire, summary.id):
                events = (event for event in session.events if self._is_new(session, event))
                at = session.started or summary.at
                timed = (
                    replace(event, at=at) if event.at == UNKNOWN_TIME else event for event in events
                )
                said = [replace(event, author=author) for event in timed]
                self._repeated.see(said)
                sessions.append((session, self._repeated.withdraw(said)))
            yield LeftCheckpoint(summary.id, summary.at, summary.branch, tuple(sessions))

    def tell_unnamed(self) -> str:
        """Return how many checkpoints no commit names and what became of them, "" where none is to be told of."""
        return self.unnamed.describe() if self.unnamed else ""

    def _is_new(self, session: Session, event: Event) -> bool:
        key = _event_key(session, event)
        is_new = key not in self._given
        self._given.add(key)
        return is_new

    def _read_checkpoint(self, tree: _Tree, checkpoint: str) -> list[Session]:
        found = read_checkpoint(tree.list_paths, tree.read, checkpoint)
        self.problems += found.problems
        return [session for session, _ in found.sessions]

    def _named(self, commit: Commit) -> Iterator[JoinedSession]:
        """Sessions that a commit names by their key or id, or by a beginning of it that only one has."""
        for value in _values(commit, "Memory-Session"):
            agent, _, uid = value.rpartition(":")
            theirs = [session for session in self._known if agent in ("", session.agent)]
            named = [session for session in theirs if session.id == uid]  # all copies of it
            if not named and len(uid) >= MIN_ID:
                named = [session for session in theirs if session.id.startswith(uid)]
            if (count := len({session.id for session in named})) > 1:
                self.problems.append(
                    f"Memory-Session: {value} begins the ids of {count} sessions: none was joined"
                )
                continue
            for session in named:
                yield self._join(session, f"Memory-Session: {session.key}", commit)

    def _noted(self, commit: Commit) -> Iterator[JoinedSession]:
        """The prompts that git-ai noted on a commit."""
        data = self._notes.read(commit.sha) if self._notes else None
        for session in read_stream(io.BytesIO(data), f"{commit.sha[:12]}.note") if data else ():
            yield JoinedSession(session, session.events, "a note of git-ai", commit)

    def _committed(self, merged: MergedChange) -> Iterator[JoinedSession]:
        """Transcripts that the change itself brought. Who may say what in them depends on who brought them."""
        brought = {
            file.path: commit
            for commit in merged.commits
            for file in commit.files
            if file.status != "D" and COMMITTED.fullmatch(file.path)
        }
        if not brought or not self._workspace.config.sessions.read:
            return
        for path, data in self._contents(Tree(self._workspace.repo, merged.tip.sha), brought):
            for session in read_stream(io.BytesIO(data), path):
                yield JoinedSession(
                    session, session.events, "committed with the change", brought[path]
                )

    def _near(self, merged: MergedChange, branch: str) -> Iterator[JoinedSession]:
        """Sessions on the branch of the change, during which one of its commits was made."""
        for session in self._known:
            if session.branch != branch or session.started is None or session.ended is None:
                continue
            begin, end = session.started - GRACE, session.ended + GRACE
            if commit := next(
                (one for one in merged.commits if begin <= one.authored_at <= end), None
            ):
                yield self._join(session, f"on {branch} when {commit.sha[:7]} was made", commit)

    def _edited(self, merged: MergedChange) -> Iterator[JoinedSession]:
        """Of a change whose branch nobody knows (pushed, or squashed by hand), the sessions that edited its files. The
        rule is that of commits which people make (`active_session.list_working`), as far as a digest tells."""
        for commit in merged.commits:
            for session in self._known:
                if self._judge(session, commit) == "":
                    yield self._join(session, f"edited what {commit.sha[:7]} holds", commit)

    def _judge(self, session: Session, commit: Commit) -> str | None:
        """Why a session that edited a file of a commit is not known to have made it; "" if it is, None if it did not
        edit any."""
        at, ended = commit.authored_at, session.ended
        if (
            session.started is None
            or ended is None
            or not session.started - GRACE <= at <= ended + MEMORABLE
        ):
            return None
        edits = {path: when for when, path in self._list_edits(session) if when <= at}
        ours = [(file.path, edits[file.path]) for file in commit.files if file.path in edits]
        if not ours:
            return None
        if not session.counts.human_turns:
            return "no person wrote in it"
        if at > ended + LIVE:
            return f"it ended {(at - ended) // timedelta(hours=1)} hours before"
        first = next(iter(commit.parents), None)
        if first and all(
            is_touched_since(self._workspace.repo, first, path, when) for path, when in ours
        ):
            return "what it edited was committed before"
        return ""

    def _list_edits(self, session: Session) -> list[tuple[datetime, str]]:
        """When a session edited which files, the earliest first; its digest is read once."""
        if session.key not in self._edits:
            events = self.captured.whole(session).events
            edits = (
                event
                for event in events
                if event.kind == "tool_call" and EDITS.search(event.tool or "")
            )
            self._edits[session.key] = sorted(
                (event.at, path) for event in edits for path in event.paths
            )
        return self._edits[session.key]

    def _join(self, session: Session, how: str, commit: Commit) -> JoinedSession:
        whole = self.captured.whole(session)
        return JoinedSession(whole, whole.events, how, commit)

    # -- the places where sessions are kept

    @cached_property
    def _known(self) -> tuple[Session, ...]:
        """Sessions that are found by what they say: those captured into refs (without their events), and those that the
        caller names."""
        captured = self.captured.said if self._workspace.config.sessions.read else ()
        self.problems += self.captured.problems
        known = list(captured)
        for place in self._extra:
            found = [
                session for path in find_transcripts([place]) for session in read_transcript(path)
            ]
            if not found:
                self.problems.append(f"{path_text(place)} holds no session that can be read")
            known += found
        return tuple(known)

    @cached_property
    def _entire(self) -> _Tree | None:
        return self._tree(ENTIRE)

    @cached_property
    def unnamed(self) -> UnnamedCheckpoints | None:
        """The checkpoints of Entire that no commit of the history names; None where there is no branch of them."""
        if self._entire is None:
            return None
        return UnnamedCheckpoints(self._workspace.repo, self._entire.tree, self._base, self._since)

    @cached_property
    def _notes(self) -> _Tree | None:
        return self._tree(NOTES)

    def _tree(self, refs: Sequence[str]) -> _Tree | None:
        if not self._workspace.config.sessions.read:
            return None
        repo = self._workspace.repo
        tip = next(filter(None, find_objects(repo, [f"{ref}^{{commit}}" for ref in refs])), None)
        return None if tip is None else _Tree(self, Tree(repo, tip))

    def _contents(self, tree: Tree, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for content in tree.read(paths, MAX_TRANSCRIPT):
            if content.data is None:
                self.problems.append(f"{content.file.path} {content.problem}")
            else:
                yield content.file.path, content.data


class _Tree:
    """The files of a branch that a tool keeps its data in, read one by one; fan-out directories are seen through."""

    def __init__(self, finder: SessionFinder, tree: Tree) -> None:
        self._finder, self.tree = finder, tree
        self._flat = {path.replace("/", ""): path for path in tree.files}

    def list_paths(self, prefix: str) -> Sequence[str]:
        return [path for path in self.tree.files if path.startswith(prefix)]

    def read(self, path: str) -> bytes | None:
        known = path if path in self.tree.files else self._flat.get(path, "")
        return next((data for _, data in self._finder._contents(self.tree, [known])), None)


def _event_key(session: Session, event: Event) -> tuple[object, ...]:
    """Return what all copies of an event share: its id, else who said what when."""
    return session.key, event.uid or (event.at, event.actor, event.kind, event.text)


def _values(commit: Commit, key: str) -> Iterator[str]:
    for _, value in find_trailers(commit.message, (key,)):
        yield from split_ids(value)


def find_branch_of(merged: MergedChange, request: PullRequest | None) -> str:
    """The branch that a change was made on, "" where neither the forge nor its merge commit tells."""
    return request.branch if request else find_branch(merged.tip.message)


class CapturedSessions:
    """The sessions kept in refs of a repository. `problems` tell what was not read."""

    def __init__(self, workspace: Workspace) -> None:
        self._repo = workspace.repo
        self._limit = workspace.config.sessions.max_bytes * TOLERANCE
        self._places: dict[str, StoredSession] = {}
        self.problems: list[str] = []

    @cached_property
    def stored(self) -> tuple[StoredSession, ...]:
        """All that are kept here."""
        return list_stored(self._repo)

    @cached_property
    def said(self) -> tuple[Session, ...]:
        """What each session says of itself, without events, in the order of their refs."""
        newest = sorted(self.stored, key=lambda stored: stored.at, reverse=True)
        said: dict[str, Session] = {}
        end, room = min(len(newest), MAX_SESSIONS), MAX_BYTES
        for stored, data in read_stored(self._repo, newest[:end], self._limit):
            room -= len(data)
            if room < 0:
                end = newest.index(stored)
                break
            for session in read(io.BytesIO(data[: data.find(b"\n") + 1]), stored.id):
                said[stored.ref] = session
                self._places[session.key] = stored
        for stored in newest[:end]:
            if stored.ref not in said:
                self.problems.append(
                    f"{stored.key} holds no digest of at most {self._limit} bytes that can be read"
                )
        if end < len(newest):
            left = plural(len(newest) - end, "captured session")
            self.problems.append(
                f"{left} not read, the oldest: over {MAX_SESSIONS} sessions or {MAX_BYTES} bytes"
            )
        return tuple(said[ref] for ref in sorted(said))

    def whole(self, session: Session) -> Session:
        """The session with its events, if it is one of `said`; any other as it is."""
        stored = None if session.events else self._places.get(session.key)
        for _, data in read_stored(self._repo, [stored] if stored else [], self._limit):
            return next(read(io.BytesIO(data), session.id), session)
        return session
