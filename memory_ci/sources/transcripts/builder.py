"""What transcript readers share: JSON of any shape, lines, addresses, times, counts; copies of a session merged."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
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
from memory_ci.sources.agent_events import OURS
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.repetition import GLOBAL_UID_LENGTH, RepeatedTexts

MAX_OPEN = (
    50  # Calls of which the result may still come: one that is refused is looked for among them.
)
# Characters kept of what a tool was given or answered: it only corroborates, and is never quoted.
MAX_TOOL_TEXT = 2_000
MAX_LINE = 16 * 2**20  # Bytes of one line of a JSONL file; a longer one is counted as bad.
MAX_TEXT_LINE = 2**20  # Bytes of one line of a file for people; a longer one is counted as bad.
MAX_DOCUMENT = (
    64 * 2**20
)  # Bytes of a transcript that is one JSON value; a longer one is counted as bad.
MAX_MISSED = (
    20  # Ids of a document that may be looked for in vain: each costs a pass over the file.
)
UNSAFE = re.compile(r"[^\w.-]+")


MASKED = "REDACTED"
"""What tools that publish transcripts put in the place of what looks like a secret, ids among it."""


class Place(NamedTuple):
    """Where a record stands in the file, from line 1, and when it was written."""

    line: int
    at: datetime | None = None


class SessionBuilder:
    """Collects the events of one session in the order of its file; `build` gives the frozen value.

    A reader sets `place` for each record, `root` (the session's directory, where known), and `person` and `worker`,
    which are a sub-agent where the session is one's. `tools` has the name of each call by its id.
    """

    def __init__(self, agent: str, format_name: str, path: str, session_id: str = "") -> None:
        self.agent, self.id, self.format, self.path = (
            agent,
            session_id or session_name(path),
            format_name,
            path,
        )
        self.place = Place(1)
        self.person: Actor = "human"
        self.worker: Actor = "agent"
        self.root = self.branch = ""
        self.pull_requests: list[int] = []
        self.events: list[Event] = []
        self.tools: dict[str, str] = {}
        self.records = self.bad_lines = self._duplicates = 0
        self._seen: set[str] = set()
        self._open: deque[Event] = deque(maxlen=MAX_OPEN)
        self._unknown: Counter[str] = Counter()

    def unknown(self, type_name: object, otherwise: str = "untyped") -> None:
        """Count a record of a type that this reader does not know."""
        self._unknown[(raw.text(type_name) or otherwise)[:60]] += 1

    def say(self, actor: Actor, text: str, uid: str = "") -> None:
        """Words, unless they are blank."""
        if text.strip():
            self.add(actor, "text", text, uid=uid)

    def call(self, actor: Actor, text: str, uid: str, tool: str, paths: tuple[str, ...]) -> None:
        """A call of a tool, whose result comes under the same `uid`."""
        self.tools[uid] = tool
        self.add(actor, "tool_call", text, uid=uid and f"{uid}:call", tool=tool, paths=paths)

    def add(
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
        """One event found at `place`. An event whose `uid` was seen before is counted as a duplicate; a text of ours,
        which some agents hand back as a prompt, is nobody's.

        A tool's result that failed is an error where no `severity` is named; a rejection has the input of its call.
        """
        if MASKED in uid.upper():
            uid = ""  # an id that was masked as a secret is that of many events
        if uid and uid in self._seen:
            self._duplicates += 1
            return
        self._seen.add(uid)
        if actor == "human" and kind == "text" and text.startswith(OURS):
            actor = "injected"
        call = self._close(tool, paths) if kind in ("tool_result", "rejection") else None
        if kind == "rejection" and call and call.text:
            labels = (*labels, (REFUSED, call.text))
        line, at = place or self.place
        key = f"{self.agent}:{self.id}"
        self.events.append(
            Event(
                seq=len(self.events),
                at=at or UNKNOWN_TIME,
                actor=actor,
                kind=kind,
                text=text[:MAX_TOOL_TEXT] if kind in ("tool_call", "tool_result") else text,
                origin=Origin(kind="session", id=key, path=self.path, line=line),
                tool=tool,
                ok=ok,
                severity=severity or ("error" if kind == "tool_result" and ok is False else "info"),
                paths=paths,
                labels=labels,
                session=key,
                uid=uid,
            )
        )
        if kind == "tool_call":
            self._open.append(self.events[-1])

    def _close(self, tool: str | None, paths: tuple[str, ...]) -> Event | None:
        """The call that is answered: the first open one of this tool and these files, else of the tool."""
        calls = sorted(
            (call for call in self._open if tool in (None, call.tool)),
            key=lambda call: call.paths != paths,
        )
        if not calls:
            return None
        self._open.remove(calls[0])
        return calls[0]

    def build(self) -> Session:
        """The session, its events in the order of the file."""
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
            counts=recount(counts, self.events),
            branch=self.branch,
            started=min(times, default=None),
            ended=max(times, default=None),
            pull_requests=tuple(dict.fromkeys(self.pull_requests)),
        )


def recount(counts: SessionCounts, events: Sequence[Event]) -> SessionCounts:
    """`counts` for these events; what only the reading of the file could count stays."""
    kinds = Counter((event.actor, event.kind) for event in events)
    of_kind, actors = (
        Counter(event.kind for event in events),
        Counter(event.actor for event in events),
    )
    return replace(
        counts,
        human_turns=kinds["human", "text"],
        mid_turn=sum(MID_TURN in event.labels for event in events),
        rejections=of_kind["rejection"],
        rejections_with_reason=sum(
            event.kind == "rejection" and bool(event.text) for event in events
        ),
        interrupts=of_kind["interrupt"],
        compactions=of_kind["compaction"],
        agent_texts=kinds["agent", "text"],
        subagent_events=actors["subagent"],
        tool_calls=of_kind["tool_call"],
        tool_results=of_kind["tool_result"],
        injected=actors["injected"],
    )


# -- names and paths


def touched_paths(arguments: object, *names: str, root: str = "") -> tuple[str, ...]:
    """The files that a tool call names in the arguments `names`, as `relative_paths`."""
    return relative_paths((raw.text(arguments, name) for name in names), root)


def relative_paths(paths: Iterable[str], root: str) -> tuple[str, ...]:
    """Each of `paths` once, relative to `root`; one outside of it is not named: it tells of somebody's machine."""
    found = (PurePosixPath(path) for path in paths)
    inside = (
        path.relative_to(root) if root and path.is_relative_to(root) else path for path in found
    )
    kept = (
        str(path)
        for path in inside
        if path.parts and not path.is_absolute() and ".." not in path.parts
    )
    return tuple(dict.fromkeys(kept))


def session_name(name: str) -> str:
    """The session's id where the content gives none: the file's name without its ending."""
    return name.rpartition("/")[2].rpartition(".")[0] or name


def dated_name(name: str, started: datetime | None = None) -> str:
    """`session_name` and the start, fit for a git ref.

    >>> dated_name(".log.history.md", datetime(2026, 9, 1, 12, 30, 5))
    'log.history-20260901T123005'
    """
    stem = UNSAFE.sub("-", session_name(name)).strip(".-") or "session"
    return f"{stem}-{started:%Y%m%dT%H%M%S}" if started else stem


# -- files, read within bounds


def _bounded_lines(stream: BinaryIO, limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Each line with its number from 1; None for one of more than `limit` bytes."""
    number = 0
    while line := stream.readline(limit + 1):
        number += 1
        yield number, line if len(line) <= limit else None
        while len(line) >= limit and not line.endswith(b"\n"):
            line = stream.readline(limit)


def read_records(stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Each line of a JSONL file that is not blank, with its number: its object, None for a line that is none."""
    for number, line in _bounded_lines(stream, MAX_LINE):
        if line is None or line.strip():
            found = raw.decode(line or b"")
            yield number, found if isinstance(found, dict) else None


def read_objects(stream: BinaryIO, builder: SessionBuilder) -> Iterator[dict[str, Any]]:
    """Each line that is a JSON object, where the builder's `place` says; all that are not blank are counted."""
    for number, record in read_records(stream):
        builder.records += 1
        if record is None:
            builder.bad_lines += 1
        else:
            builder.place = Place(number, raw.time(record, "timestamp"))
            yield record


def read_lines(stream: BinaryIO) -> Iterator[tuple[int, str | None]]:
    """Each line of a text without its end, with its number; None for one that is no text in UTF-8, or too long."""
    for number, line in _bounded_lines(stream, MAX_TEXT_LINE):
        try:
            yield number, None if line is None or b"\0" in line else line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            yield number, None


class Document:
    """A transcript that is one JSON value; `value` is None, and a bad line counted, if it cannot be read."""

    def __init__(self, stream: BinaryIO, builder: SessionBuilder) -> None:
        self._data = stream.read(MAX_DOCUMENT + 1)
        self.value = raw.decode(self._data) if len(self._data) <= MAX_DOCUMENT else None
        self._at, self._line, self._missed = 0, 1, 0
        builder.bad_lines += self.value is None

    def line_of(self, uid: object) -> int:
        """The line where `uid` next stands as the value of an "id", from 1; where the last one stood if it does not."""
        if uid == "" or not isinstance(uid, str | int) or self._missed > MAX_MISSED:
            return self._line
        value = str(uid) if isinstance(uid, int) else f'"{uid}"'
        pattern = rb'"id"\s*:\s*' + re.escape(value.encode()) + rb"(?![\w.])"
        if found := re.compile(pattern).search(self._data, self._at):
            self._line += self._data.count(b"\n", self._at, found.start())
            self._at = found.start()
        else:
            self._missed += 1
        return self._line


# -- copies of a session


def merge_sessions(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """One session for each agent and id, the earliest first; an event that stands in several is kept once.

    Copies are known by their uid; without one, the n-th event of an actor, kind and text in one file is the n-th in
    another. A resumed session that repeats an earlier one under a new id keeps what is its own. Of one session the
    longest copy comes first, whose order is the best known. A long text that two of the sessions repeat is nobody's.
    """
    groups: dict[str, list[Session]] = {}
    for session in sorted(
        sessions, key=lambda one: (one.started or UNKNOWN_TIME, one.key, -len(one.events), one.path)
    ):
        groups.setdefault(session.key, []).append(session)
    seen: set[object] = set()
    merged = [_merge(group, seen) for group in groups.values()]
    repeated = RepeatedTexts()
    for session in merged:
        repeated.see(session.events)
    return tuple(_without_repeated(session, repeated) for session in merged)


def _without_repeated(session: Session, repeated: RepeatedTexts) -> Session:
    events = repeated.withdraw(session.events)
    return (
        session
        if events == session.events
        else replace(session, events=events, counts=recount(session.counts, events))
    )


def _merge(group: list[Session], seen: set[object]) -> Session:
    events = [event for session in group for event in _new_events(session, seen)]
    if len(group) > 1 and all(event.at != UNKNOWN_TIME for event in events):
        events.sort(key=lambda event: event.at)
    kept = tuple(replace(event, seq=number) for number, event in enumerate(events))
    told = [session.counts for session in group]
    again = sum(len(session.events) for session in group) - len(kept)
    unknown = sum((Counter(counts.unknown) for counts in told), Counter[str]())
    counts = SessionCounts(
        records=sum(counts.records for counts in told),
        bad_lines=sum(counts.bad_lines for counts in told),
        duplicates=sum(counts.duplicates for counts in told) + again,
        unknown=dict(sorted(unknown.items())),
    )
    return replace(
        group[0],
        events=kept,
        counts=recount(counts, kept),
        branch=next((session.branch for session in group if session.branch), ""),
        started=min((session.started for session in group if session.started), default=None),
        ended=max((session.ended for session in group if session.ended), default=None),
        pull_requests=tuple(
            dict.fromkeys(number for session in group for number in session.pull_requests)
        ),
    )


def _new_events(session: Session, seen: set[object]) -> Iterator[Event]:
    """The events of one file that no file before it had."""
    nth: Counter[tuple[str, ...]] = Counter()
    for event in session.events:
        if event.uid:
            key: object = (
                event.uid if len(event.uid) >= GLOBAL_UID_LENGTH else (session.key, event.uid)
            )
        else:
            words = (session.key, event.actor, event.kind, event.text)
            nth[words] += 1
            key = (*words, nth[words])
        if key not in seen:
            seen.add(key)
            yield event
