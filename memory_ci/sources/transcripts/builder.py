"""What all readers of agent transcripts share: a session builder, bounded reads, merged copies."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from msgspec.structs import replace

from memory_ci.records.event import (
    MID_TURN,
    REFUSED,
    UNKNOWN_TIME,
    Actor,
    Event,
    EventKind,
    Origin,
    Session,
    SessionCounts,
    Severity,
)
from memory_ci.regex import Regex
from memory_ci.sources.agent_events import OWN_TEXT_PREFIX
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.repetition import GLOBAL_UID_LENGTH, RepeatedTexts

MAX_OPEN = 50  # Calls without a result yet among which a refused call is looked for.
MAX_LINE = 16 * 2**20  # Bytes of one line of a JSONL transcript; a longer line is counted as bad.
MAX_TEXT_LINE = 2**20  # Bytes of one line of a file for people; a longer line is counted as bad.
MAX_DOCUMENT = 64 * 2**20  # Bytes of a transcript of one JSON value; a longer text is bad.
MAX_MISSING_IDS = 20  # Ids that may be missing in a document: each costs a pass over the file.

MAX_TOOL_TEXT = 2_000
"""Characters kept of the input or output of a tool: it only corroborates, and is never quoted."""

UNSAFE_IN_REF = Regex(r"[^\w.-]+")
"""Characters that have no place in a git ref."""

REDACTION_MASK = "REDACTED"
"""The replacement for secrets in published transcripts; it may hide the id of a record, too."""


class Place(NamedTuple):
    """The place and time of a record.

    Attributes:
        line: the line of the file that it begins on, from 1.
        at: when it was written, None if unknown.
    """

    line: int
    at: datetime | None = None


class SessionBuilder:
    """Collects the events of one session in the order of its file.

    Attributes:
        place: the place of the record that is being read; the reader sets it.
        user_actor: the actor of messages of role user: a person, unless the reader finds that
            another agent or a script gave the prompts.
        agent_actor: the actor of the agent's texts and calls: "subagent" if another agent gave
            the prompts.
        root: the directory of the session, "" if unknown.
        branch: the branch of the session, "" if unknown.
        pull_requests: the numbers of pull requests that the session opened.
        events: the events so far.
        tools: the name of the tool of each call, by the id of the call.
        records: how many records the file has.
        bad_lines: how many of them could not be read.
    """

    def __init__(self, agent: str, format_name: str, path: str, session_id: str = "") -> None:
        """Begin a session without events.

        Args:
            agent: the name of the agent.
            format_name: the format of its transcript.
            path: the path of the transcript.
            session_id: the id of the session; "" takes the name of the file.
        """
        self.agent = agent
        self.id = session_id or make_session_name(path)
        self.format = format_name
        self.path = path
        self.branch = ""
        self.pull_requests: list[int] = []

        # Readers set these when they know better.
        self.place = Place(1)  # of the record that is being read
        self.root = ""  # the session's directory
        self.user_actor: Actor = "human"
        self.agent_actor: Actor = "agent"

        self.events: list[Event] = []
        self.tools: dict[str, str] = {}  # the tool of each call, by the call's id
        self.records = 0  # how many records the file has
        self.bad_lines = 0  # how many of them could not be read

        self._duplicates = 0  # events that were not added, because their uid was seen before
        self._uids: set[str] = set()
        self._open_calls: deque[Event] = deque(maxlen=MAX_OPEN)  # calls without a result yet
        self._unknown: Counter[str] = Counter()  # records of unknown types, by type

    def count_unknown(self, type_name: object, otherwise: str = "untyped") -> None:
        """Count a record of a type that this reader does not know."""
        self._unknown[(raw.get_text(type_name) or otherwise)[:60]] += 1

    def add_text(self, actor: Actor, text: str, uid: str = "") -> None:
        """Add a text, unless it is blank."""
        if text.strip():
            self.add_event(actor, "text", text, uid=uid)

    def add_call(
        self, actor: Actor, text: str, uid: str, tool: str, paths: tuple[str, ...]
    ) -> None:
        """Add a call of a tool, and remember the tool for the result, which has the same `uid`."""
        self.tools[uid] = tool
        self.add_event(actor, "tool_call", text, uid=uid and f"{uid}:call", tool=tool, paths=paths)

    def add_event(
        self,
        actor: Actor,
        kind: EventKind,
        text: str = "",
        place: Place | None = None,
        *,
        uid: str = "",
        tool: str | None = None,
        ok: bool | None = None,
        severity: Severity | None = None,
        paths: tuple[str, ...] = (),
        labels: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Add one event, unless its `uid` was seen before: that is counted as a duplicate.

        A text that memory-ci wrote, which some agents record as a prompt, gets the actor
        "injected" instead of "human". A rejection gets the input of the refused call as a label.

        Args:
            actor: whose event it is.
            kind: the kind of the event.
            text: its text.
            place: where it was read; `self.place` by default.
            uid: its id, the same in each copy of the transcript; "" for none.
            tool: the tool of a call, a result or a rejection.
            ok: whether a tool succeeded, None if unknown.
            severity: by default "error" for the result of a tool that failed, else "info".
            paths: the files it touched, relative to the root of the repository.
            labels: its marks.
        """
        if REDACTION_MASK in uid.upper():
            uid = ""  # an id that was masked as a secret is shared by many events
        if uid and uid in self._uids:
            self._duplicates += 1
            return
        self._uids.add(uid)

        if actor == "human" and kind == "text" and text.startswith(OWN_TEXT_PREFIX):
            actor = "injected"
        if kind in ("tool_result", "rejection"):
            call = self._close_call(tool, paths)
            if kind == "rejection" and call and call.text:
                labels = (*labels, (REFUSED, call.text))
        if severity is None:
            severity = "error" if kind == "tool_result" and ok is False else "info"
        if kind in ("tool_call", "tool_result"):
            text = text[:MAX_TOOL_TEXT]

        line, at = place or self.place
        key = f"{self.agent}:{self.id}"
        event = Event(
            seq=len(self.events),
            at=at or UNKNOWN_TIME,
            actor=actor,
            kind=kind,
            text=text,
            origin=Origin(kind="session", id=key, path=self.path, line=line),
            tool=tool,
            ok=ok,
            severity=severity,
            paths=paths,
            labels=labels,
            session=key,
            uid=uid,
        )
        self.events.append(event)
        if kind == "tool_call":
            self._open_calls.append(event)

    def _close_call(self, tool: str | None, paths: tuple[str, ...]) -> Event | None:
        """Remove and return the call that a result answers, None if no call waits for one.

        It is the first call of this tool with these files, else the first of this tool.
        """
        calls = [call for call in self._open_calls if tool in (None, call.tool)]
        if not calls:
            return None
        answered = calls[0]
        for call in calls:
            if call.paths == paths:
                answered = call
                break
        self._open_calls.remove(answered)
        return answered

    def build(self) -> Session:
        """Return the session, its events in the order of the file."""
        times = [event.at for event in self.events if event.at != UNKNOWN_TIME]
        counts = SessionCounts(
            records=self.records,
            duplicates=self._duplicates,
            bad_lines=self.bad_lines,
            unknown=dict(sorted(self._unknown.items())),
        )
        return Session(
            agent=self.agent,
            id=self.id,
            format=self.format,
            path=self.path,
            events=tuple(self.events),
            counts=recount_events(counts, self.events),
            branch=self.branch,
            started=min(times, default=None),
            ended=max(times, default=None),
            pull_requests=tuple(dict.fromkeys(self.pull_requests)),
        )


def recount_events(counts: SessionCounts, events: Sequence[Event]) -> SessionCounts:
    """Return the counts of a session, with all that depend on its events counted from `events`.

    Counts of the file, such as that of its records, stay.
    """
    by_actor = Counter(event.actor for event in events)
    by_kind = Counter(event.kind for event in events)
    by_both = Counter((event.actor, event.kind) for event in events)
    reasons = [event.text for event in events if event.kind == "rejection" and event.text]
    return replace(
        counts,
        human_turns=by_both["human", "text"],
        mid_turn=sum(MID_TURN in event.labels for event in events),
        rejections=by_kind["rejection"],
        rejections_with_reason=len(reasons),
        interrupts=by_kind["interrupt"],
        compactions=by_kind["compaction"],
        agent_texts=by_both["agent", "text"],
        subagent_events=by_actor["subagent"],
        tool_calls=by_kind["tool_call"],
        tool_results=by_kind["tool_result"],
        injected=by_actor["injected"],
    )


# -- names and paths


def find_touched_paths(arguments: object, *names: str, root: str = "") -> tuple[str, ...]:
    """Return the files that a tool call names in its arguments `names`, relative to `root`."""
    return make_relative_paths((raw.get_text(arguments, name) for name in names), root)


def make_relative_paths(paths: Iterable[str], root: str) -> tuple[str, ...]:
    """Return paths relative to `root`, each once.

    Other absolute paths, and paths with `..`, are left out: they would disclose how somebody's
    machine is laid out. Paths that are already relative stay, also if `root` is empty.
    """
    inside: dict[str, None] = {}  # a dict, because it keeps the order
    for name in paths:
        path = PurePosixPath(name)
        if root and path.is_relative_to(root):
            path = path.relative_to(root)
        if path.parts and not path.is_absolute() and ".." not in path.parts:
            inside[str(path)] = None
    return tuple(inside)


def make_session_name(name: str) -> str:
    """Return the name of a file without its ending, for sessions whose file has no id."""
    return name.rpartition("/")[2].rpartition(".")[0] or name


def make_dated_name(name: str, started: datetime | None = None) -> str:
    """Return the name of a file without its ending, and the start, made fit for a git ref.

    >>> make_dated_name(".log.history.md", datetime(2026, 9, 1, 12, 30, 5))
    'log.history-20260901T123005'
    """
    stem = UNSAFE_IN_REF.sub("-", make_session_name(name)).strip(".-") or "session"
    return f"{stem}-{started:%Y%m%dT%H%M%S}" if started else stem


# -- files, read within bounds


def _bounded_lines(stream: BinaryIO, limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its number from 1; None for a line of more than `limit` bytes."""
    number = 0
    while line := stream.readline(limit + 1):
        number += 1
        is_too_long = len(line) > limit
        yield number, None if is_too_long else line
        # Skip the rest of a long line in pieces of bounded size.
        while len(line) >= limit and not line.endswith(b"\n"):
            line = stream.readline(limit)


def read_records(stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the object on each line of a JSONL file that is not blank, with the line's number.

    The object is None for a line that is too long or holds no JSON object.
    """
    for number, line in _bounded_lines(stream, MAX_LINE):
        if line is None:
            yield number, None
        elif line.strip():
            record = raw.decode(line)
            yield number, record if isinstance(record, dict) else None


def read_objects(stream: BinaryIO, builder: SessionBuilder) -> Iterator[dict[str, Any]]:
    """Yield each JSON object of a JSONL file, with the builder's `place` set to its line.

    The builder counts all lines that are not blank, and those of them that hold no object.
    """
    for number, record in read_records(stream):
        builder.records += 1
        if record is None:
            builder.bad_lines += 1
        else:
            builder.place = Place(number, raw.get_time(record, "timestamp"))
            yield record


def read_lines(stream: BinaryIO) -> Iterator[tuple[int, str | None]]:
    """Yield the number of each line of a file, and its text without the line break.

    The text is None for a line that is too long or not UTF-8.
    """
    for number, line in _bounded_lines(stream, MAX_TEXT_LINE):
        if line is None or b"\0" in line:
            yield number, None
            continue
        try:
            text = line.decode()
        except UnicodeDecodeError:
            yield number, None
        else:
            yield number, text.rstrip("\r\n")


class Document:
    """A transcript that is one JSON value.

    Attributes:
        value: the value; None, and a bad line counted, if it cannot be read.
    """

    def __init__(self, stream: BinaryIO, builder: SessionBuilder) -> None:
        """Read and decode a whole file; if that fails, count a bad line in the builder."""
        self._data = stream.read(MAX_DOCUMENT + 1)
        self._offset = 0  # where `find_line` has found the last id, and its line
        self._line = 1
        self._missing_id_count = 0  # how many ids `find_line` did not find

        self.value: object = None
        if len(self._data) <= MAX_DOCUMENT:
            self.value = raw.decode(self._data)
        if self.value is None:
            builder.bad_lines += 1

    def find_line(self, uid: object) -> int:
        """Return the line, from 1, of the JSON key "id" with the value `uid`.

        The search goes on from the key that the last call found. If there is no such key, return
        the line of the last call.
        """
        if uid == "" or not isinstance(uid, str | int) or self._missing_id_count > MAX_MISSING_IDS:
            return self._line
        value = str(uid) if isinstance(uid, int) else f'"{uid}"'
        # Matches `"id": 12`, but not the beginning of `"id": 123`.
        pattern = re.compile(rb'"id"\s*:\s*' + re.escape(value.encode()) + rb"(?![\w.])")
        match = pattern.search(self._data, self._offset)
        if match is None:
            self._missing_id_count += 1
            return self._line
        self._line += self._data.count(b"\n", self._offset, match.start())
        self._offset = match.start()
        return self._line


# -- copies of a session


def merge_sessions(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """Return one session for each agent and id, the earliest first, with each event once.

    Several files may hold copies of one session. A resumed session repeats events of an earlier
    session under a new id; these events stay in the earlier session only. `_list_new_events` says
    how copies of an event are recognised. If two of the sessions repeat a long text, a program
    wrote it: its actor becomes "injected".
    """
    copies_by_key: dict[str, list[Session]] = {}
    for session in sorted(sessions, key=_earliest_and_longest_first):
        copies_by_key.setdefault(session.key, []).append(session)

    merged: list[Session] = []
    seen_keys: set[Hashable] = set()  # of events; each step adds those of its session
    for copies in copies_by_key.values():
        merged.append(_merge_copies(copies, seen_keys))

    repeated_texts = RepeatedTexts()
    for session in merged:
        repeated_texts.remember(session.events)
    return tuple(_mark_repeated_texts(session, repeated_texts) for session in merged)


def _earliest_and_longest_first(session: Session) -> tuple[datetime, str, int, str]:
    """Return the key to sort by: of the copies of a session the longest is the most complete."""
    started = session.started or UNKNOWN_TIME
    return started, session.key, -len(session.events), session.path


def _mark_repeated_texts(session: Session, repeated_texts: RepeatedTexts) -> Session:
    """Return a session with the actor "injected" for the texts that other sessions repeat."""
    events = repeated_texts.mark_repeated(session.events)
    if events == session.events:
        return session
    return replace(session, events=events, counts=recount_events(session.counts, events))


def _merge_copies(copies: list[Session], seen_keys: set[Hashable]) -> Session:
    """Return the copies of one session, read from several files, as one session.

    Args:
        copies: the copies, the longest first: it gives the order of events without a time.
        seen_keys: the keys of all events so far; those of the copies are added.
    """
    events: list[Event] = []
    branch = ""
    pull_requests: dict[int, None] = {}  # a dict, because it keeps the order
    for session in copies:
        events += _list_new_events(session, seen_keys)
        branch = branch or session.branch
        pull_requests.update(dict.fromkeys(session.pull_requests))
    if len(copies) > 1 and all(event.at != UNKNOWN_TIME for event in events):
        events.sort(key=lambda event: event.at)
    numbered_events = tuple(replace(event, seq=number) for number, event in enumerate(events))

    counts = _sum_file_counts(copies, len(numbered_events))
    start_times = [session.started for session in copies if session.started]
    end_times = [session.ended for session in copies if session.ended]
    return replace(
        copies[0],
        events=numbered_events,
        counts=recount_events(counts, numbered_events),
        branch=branch,
        started=min(start_times, default=None),
        ended=max(end_times, default=None),
        pull_requests=tuple(pull_requests),
    )


def _sum_file_counts(copies: list[Session], merged_count: int) -> SessionCounts:
    """Return the sums over copies of a session of the counts that do not depend on its events.

    Args:
        copies: the copies.
        merged_count: how many events they have together; all others are duplicates.
    """
    records = 0
    bad_lines = 0
    duplicates = -merged_count
    unknown: Counter[str] = Counter()
    for session in copies:
        records += session.counts.records
        bad_lines += session.counts.bad_lines
        duplicates += session.counts.duplicates + len(session.events)
        unknown += Counter(session.counts.unknown)
    return SessionCounts(
        records=records,
        bad_lines=bad_lines,
        duplicates=duplicates,
        unknown=dict(sorted(unknown.items())),
    )


def _list_new_events(session: Session, seen_keys: set[Hashable]) -> list[Event]:
    """Return the events of a session whose keys are not in `seen_keys`, and add the keys to it.

    The key of an event is its uid if that is unique everywhere, else the uid within this session.
    Without a uid, it is actor, kind and text, and how often the session had these before: the
    second "yes" of one copy is the second "yes" of another.
    """
    events = []
    occurrences: Counter[Hashable] = Counter()
    for event in session.events:
        key: Hashable
        if len(event.uid) >= GLOBAL_UID_LENGTH:
            key = event.uid
        elif event.uid:
            key = (session.key, event.uid)
        else:
            words = (session.key, event.actor, event.kind, event.text)
            occurrences[words] += 1
            key = (*words, occurrences[words])
        if key not in seen_keys:
            seen_keys.add(key)
            events.append(event)
    return events
