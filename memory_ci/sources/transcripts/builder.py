"""What transcript readers share: JSON of any shape, numbering, addresses, times, counts; copies of a session merged."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

import msgspec
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
from memory_ci.secrets import find_secrets
from memory_ci.sources.agent_events import OURS

MAX_OPEN = 50
"""Calls of which the result may still come: one that is refused is looked for among them."""

MAX_TOOL_TEXT = 2_000
"""Characters kept of what a tool was given or answered: it only corroborates, and is never quoted."""


class Place(NamedTuple):
    """Where a record stands in the file, from line 1, and when it was written."""

    line: int
    at: datetime | None = None


class SessionBuilder:
    """Collects the events of one session in the order of its file; `build` gives the frozen value."""

    def __init__(self, agent: str, session_id: str, format_name: str, path: str) -> None:
        self.agent, self.id, self.format, self.path = agent, session_id, format_name, path
        self.branch = ""
        self.pull_requests: list[int] = []
        self.events: list[Event] = []
        self._seen: set[str] = set()
        self._open: deque[Event] = deque(maxlen=MAX_OPEN)
        self._unknown: Counter[str] = Counter()
        self._records = self._bad = self._duplicates = 0

    def record(self) -> None:
        """Count one line or object of the file."""
        self._records += 1

    def bad_line(self) -> None:
        """Count a line that could not be read."""
        self._bad += 1

    def unknown(self, type_name: str) -> None:
        """Count a record of a type that this reader does not know."""
        self._unknown[type_name[:60]] += 1

    def add(
        self,
        actor: Actor,
        kind: EventKind,
        text: str,
        place: Place,
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
        if uid and uid in self._seen:
            self._duplicates += 1
            return
        self._seen.add(uid)
        if actor == "human" and kind == "text" and text.startswith(OURS):
            actor = "injected"
        call = self._close(tool, paths) if kind in ("tool_result", "rejection") else None
        if kind == "rejection" and call and call.text:
            labels = (*labels, (REFUSED, call.text))
        self.events.append(
            Event(
                seq=len(self.events),
                at=place.at or UNKNOWN_TIME,
                actor=actor,
                kind=kind,
                text=text[:MAX_TOOL_TEXT] if kind in ("tool_call", "tool_result") else text,
                origin=Origin(kind="session", id=f"{self.agent}:{self.id}", path=self.path, line=place.line),
                tool=tool,
                ok=ok,
                severity=severity or ("error" if kind == "tool_result" and ok is False else "info"),
                paths=paths,
                labels=labels,
                session=f"{self.agent}:{self.id}",
                uid=uid,
            )
        )
        if kind == "tool_call":
            self._open.append(self.events[-1])

    def _close(self, tool: str | None, paths: tuple[str, ...]) -> Event | None:
        """The call that is answered: the first open one of this tool and these files, else of the tool."""
        calls = sorted((call for call in self._open if tool in (None, call.tool)), key=lambda call: call.paths != paths)
        if not calls:
            return None
        self._open.remove(calls[0])
        return calls[0]

    def build(self) -> Session:
        """The session, its events in the order of the file."""
        times = [event.at for event in self.events if event.at != UNKNOWN_TIME]
        return Session(
            agent=self.agent,
            id=self.id,
            format=self.format,
            path=self.path,
            events=tuple(self.events),
            counts=count_events(
                self.events,
                records=self._records,
                bad_lines=self._bad,
                duplicates=self._duplicates,
                unknown=self._unknown,
            ),
            branch=self.branch,
            started=min(times, default=None),
            ended=max(times, default=None),
            pull_requests=tuple(dict.fromkeys(self.pull_requests)),
        )


def count_events(
    events: Sequence[Event], *, records: int, bad_lines: int, duplicates: int, unknown: Mapping[str, int]
) -> SessionCounts:
    """What `events` hold, beside what only the reading of the file could count."""
    kinds = Counter((event.actor, event.kind) for event in events)
    of_kind = Counter(event.kind for event in events)
    return SessionCounts(
        records=records,
        human_turns=kinds["human", "text"],
        mid_turn=sum(MID_TURN in event.labels for event in events),
        rejections=of_kind["rejection"],
        rejections_with_reason=sum(event.kind == "rejection" and bool(event.text) for event in events),
        interrupts=of_kind["interrupt"],
        compactions=of_kind["compaction"],
        agent_texts=kinds["agent", "text"],
        subagent_events=sum(event.actor == "subagent" for event in events),
        tool_calls=of_kind["tool_call"],
        tool_results=of_kind["tool_result"],
        injected=sum(event.actor == "injected" for event in events),
        duplicates=duplicates,
        bad_lines=bad_lines,
        unknown=dict(sorted(unknown.items())),
    )


def parse_time(value: object) -> datetime | None:
    """An ISO 8601 time as an aware value in UTC, or None for anything else; a time without a zone is taken as UTC."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


MAX_LINE = 16 * 2**20  # Bytes of one line of a JSONL file; a longer one is counted as bad.
MAX_DOCUMENT = 64 * 2**20  # Bytes of a transcript that is one JSON value; a longer one is counted as bad.
MAX_SECRET = 1_000  # Characters on both sides of a cut in which a credential that was cut is looked for.
MAX_MISSED = 20  # Ids of a document that may be looked for in vain: each costs a pass over the file.


def decode(data: bytes) -> object:
    """The JSON value in `data`; None if it is none, is not UTF-8 or is nested too deep."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def encode(value: object) -> str:
    """`value`, which was decoded here, as one line of JSON; empty if it is nested too deep to be written."""
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return ""


def as_dict(value: object) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """`value` if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def text_parts(value: object) -> list[str]:
    """The texts of a message's content: one string, or the `text` of each part that has any."""
    parts = [value] if isinstance(value, str | dict) else as_list(value)
    texts = [as_text(part) or as_text(as_dict(part).get("text")) for part in parts]
    return [text for text in texts if text.strip()]


def joined_text(value: object) -> str:
    """The texts of a message's content, a line break between two parts."""
    return join_parts(text_parts(value), "\n")


def join_parts(parts: list[str], separator: str) -> str:
    """The parts of one message, parted by `separator`; by nothing where a credential runs on from part to part.

    So redaction knows it for what it is.
    """
    whole = "".join(parts[:1])
    joined = [whole]
    for part in parts[1:]:
        tail = whole[-MAX_SECRET:]
        near = find_secrets(tail + part[:MAX_SECRET])
        between = "" if any(one.start < len(tail) < one.end for one in near) else separator
        whole = tail + between + part
        joined += [between, part]
    return "".join(joined)


def touched_paths(arguments: object, *names: str, root: str = "") -> tuple[str, ...]:
    """The files that a tool call names in the arguments `names`, as `relative_paths`."""
    given = as_dict(arguments)
    return relative_paths((as_text(given.get(name)) for name in names), root)


def relative_paths(paths: Iterable[str], root: str) -> tuple[str, ...]:
    """Each of `paths` once, relative to `root`; one outside of it is not named: it tells of somebody's machine."""
    found = (PurePosixPath(path) for path in paths)
    inside = (path.relative_to(root) if root and path.is_relative_to(root) else path for path in found)
    kept = (str(path) for path in inside if path.parts and not path.is_absolute() and ".." not in path.parts)
    return tuple(dict.fromkeys(kept))


def session_name(name: str) -> str:
    """The session's id where the content gives none: the file's name without its ending."""
    return name.rpartition("/")[2].rpartition(".")[0] or name


def read_objects(stream: BinaryIO, builder: SessionBuilder) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line that is a JSON object, with its number from 1; blank lines are passed over, all others counted."""
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        if not line.strip():
            continue
        builder.record()
        whole = len(line) <= MAX_LINE
        if not whole:
            _skip_line(stream, line)
        found = decode(line) if whole else None
        if isinstance(found, dict):
            yield number, found
        else:
            builder.bad_line()


def _skip_line(stream: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = stream.readline(MAX_LINE)


class Document:
    """A transcript that is one JSON value; `value` is None, and a bad line counted, if it cannot be read."""

    def __init__(self, stream: BinaryIO, builder: SessionBuilder) -> None:
        self._data = stream.read(MAX_DOCUMENT + 1)
        self.value = decode(self._data) if len(self._data) <= MAX_DOCUMENT else None
        self._at, self._line, self._missed = 0, 1, 0
        if self.value is None:
            builder.bad_line()

    def line_of(self, uid: str | int) -> int:
        """The line where `uid` next stands as the value of an "id", from 1; where the last one stood if it does not."""
        if uid == "" or self._missed > MAX_MISSED:
            return self._line
        value = str(uid) if isinstance(uid, int) else f'"{uid}"'
        pattern = rb'"id"\s*:\s*' + re.escape(value.encode()) + rb"(?![\w.])"
        if found := re.compile(pattern).search(self._data, self._at):
            self._line += self._data.count(b"\n", self._at, found.start())
            self._at = found.start()
        else:
            self._missed += 1
        return self._line


GLOBAL_UID_LENGTH = 32
"""From this length an id is one of a kind (a UUID), so that a copy is known in another session as well; a shorter one
is only a number inside its session."""


def merge_sessions(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """One session for each agent and id, the earliest first; an event that stands in several is kept once.

    Copies are known by their uid; without one, the n-th event of an actor, kind and text in one file is the n-th in
    another. A resumed session that repeats an earlier one under a new id keeps what is its own.
    """
    groups: dict[str, list[Session]] = {}
    for session in sorted(sessions, key=_age):
        groups.setdefault(session.key, []).append(session)
    seen: set[object] = set()
    return tuple(_merge(group, seen) for group in groups.values())


def _age(session: Session) -> tuple[object, ...]:
    """The earliest first; of one session its longest copy, whose order is the best known."""
    return (session.started or UNKNOWN_TIME, session.key, -len(session.events), session.path)


def _merge(group: list[Session], seen: set[object]) -> Session:
    found = sum(len(session.events) for session in group)
    events = [event for session in group for event in _new_events(session, seen)]
    if len(group) > 1 and all(event.at != UNKNOWN_TIME for event in events):
        events.sort(key=lambda event: event.at)
    kept = tuple(replace(event, seq=number) for number, event in enumerate(events))
    unknown: Counter[str] = Counter()
    for session in group:
        unknown.update(session.counts.unknown)
    counts = count_events(
        kept,
        records=sum(session.counts.records for session in group),
        bad_lines=sum(session.counts.bad_lines for session in group),
        duplicates=sum(session.counts.duplicates for session in group) + found - len(kept),
        unknown=unknown,
    )
    return replace(
        group[0],
        events=kept,
        counts=counts,
        branch=next((session.branch for session in group if session.branch), ""),
        started=min((session.started for session in group if session.started), default=None),
        ended=max((session.ended for session in group if session.ended), default=None),
        pull_requests=tuple(dict.fromkeys(number for session in group for number in session.pull_requests)),
    )


def _new_events(session: Session, seen: set[object]) -> Iterator[Event]:
    """The events of one file that no file before it had."""
    nth: Counter[tuple[str, ...]] = Counter()
    for event in session.events:
        if event.uid:
            key: object = event.uid if len(event.uid) >= GLOBAL_UID_LENGTH else (session.key, event.uid)
        else:
            words = (session.key, event.actor, event.kind, event.text)
            nth[words] += 1
            key = (*words, nth[words])
        if key not in seen:
            seen.add(key)
            yield event
