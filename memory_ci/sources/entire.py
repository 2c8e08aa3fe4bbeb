"""Entire's checkpoints: what the branch `entire/checkpoints/v1` keeps of the sessions behind a commit.

A checkpoint is the folder `<2 hex>/<10 hex>/` of the branch, with one folder a session (`0/`, `1/` …; the oldest
layout has its last session in the checkpoint's own folder). A transcript is a snapshot of the whole session so far: the
part of this checkpoint starts after the line that its metadata names, in an export after the message. Large ones go on
in `full.jsonl.001` and so on.
Labels of agents are not read: they are wrong at times. Summaries in the metadata are written by a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from io import BytesIO
from itertools import chain, count, takewhile
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.records.event import UNKNOWN_TIME, Event, Session
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Place, SessionBuilder, recount
from memory_ci.sources.transcripts.registry import read_stream

CHECKPOINT = re.compile(r"[0-9a-f]{12}")
TRANSCRIPT, METADATA, HASH = "full.jsonl", "metadata.json", "content_hash.txt"
# Where metadata says how many lines of the transcript are older than the checkpoint, newest name first.
STARTS = ("checkpoint_transcript_start", "transcript_lines_at_start")
SUMMARY = ("part", "summary")  # The label of what a model wrote about the session.
# Where a session's transcript lies in the folder of a checkpoint.
SESSION = re.compile(rf"(?:([0-9]{{1,9}})/)?{re.escape(TRANSCRIPT)}")
ListPaths = Callable[[str], Sequence[str]]
ReadFile = Callable[[str], bytes | None]


# Metadata of a checkpoint and of its sessions: when, on which branch and with which files it was made.
ABOUT = re.compile(r"([0-9a-f]{2})/([0-9a-f]{10})/(?:[0-9]{1,9}/)?metadata\.json")
MAX_TOUCHED = 1_000  # Files of a checkpoint that are looked at.


class CheckpointSummary(NamedTuple):
    """What a checkpoint says of itself: its time (`UNKNOWN_TIME` without one), branch ("" if unknown) and files."""

    id: str
    at: datetime
    branch: str = ""
    paths: tuple[str, ...] = ()


def list_metadata(paths: Iterable[str]) -> dict[str, Sequence[str]]:
    """Return the paths of the metadata of each checkpoint among paths of the branch, by its id."""
    found: dict[str, list[str]] = {}
    for path in paths:
        if match := ABOUT.fullmatch(path):
            found.setdefault(match[1] + match[2], []).append(path)
    return dict(found)


def summarize(checkpoint: str, metadata: Iterable[bytes]) -> CheckpointSummary:
    """Return what the metadata of a checkpoint and of its sessions say. The newest time counts."""
    values = [raw.fields(raw.decode(data)) for data in metadata]
    times = [time for value in values if (time := raw.time(value, "created_at"))]
    branches = [branch for value in values if (branch := raw.text(value, "branch"))]
    touched = dict.fromkeys(
        raw.text(path) for value in values for path in raw.items(value, "files_touched")
    )
    paths = tuple(filter(None, touched))[:MAX_TOUCHED]
    return CheckpointSummary(
        checkpoint, max(times, default=UNKNOWN_TIME), next(iter(branches), ""), paths
    )


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions of a checkpoint, each cut to its part, with the line after which that starts; what was missing."""

    id: str
    sessions: tuple[tuple[Session, int], ...] = ()
    problems: tuple[str, ...] = ()


def read_checkpoint(list_paths: ListPaths, read: ReadFile, checkpoint: str) -> Checkpoint:
    """The checkpoint with this id, of 12 hexadecimal digits. `list_paths` gives the paths below a folder of the branch,
    `read` a file's content or None. Nothing is raised for what is missing or broken: it stands in `problems`."""
    if not CHECKPOINT.fullmatch(checkpoint):
        return Checkpoint(id=checkpoint, problems=(f"{checkpoint!r} is no checkpoint id",))
    reader = _Reader(read)
    folder = f"{checkpoint[:2]}/{checkpoint[2:]}/"
    named = raw.items(reader.metadata(f"{folder}{METADATA}"), "sessions")
    listed = (raw.text(session, "transcript").lstrip("/") for session in named)
    inside = {path for path in (*list_paths(folder), *listed) if path.startswith(folder)}
    numbers = {path: found[1] for path in inside if (found := SESSION.fullmatch(path, len(folder)))}
    places = sorted(
        numbers, key=lambda path: int(numbers[path] or -1)
    )  # the checkpoint's own is the first
    sessions = tuple(
        one for path in places for one in reader.sessions(path.removesuffix(TRANSCRIPT))
    )
    problems = reader.problems if sessions or reader.problems else [f"{folder} holds no session"]
    return Checkpoint(id=checkpoint, sessions=sessions, problems=tuple(problems))


class _Reader:
    """Reads files of the branch, and collects what is wrong with them."""

    def __init__(self, read: ReadFile) -> None:
        self.read = read
        self.problems: list[str] = []

    def metadata(self, path: str) -> dict[str, Any]:
        """The JSON object at `path`, empty if it is missing or is none."""
        data = self.read(path)
        if data is None:
            self.problems.append(f"{path} is missing")
            return {}
        value = raw.decode(data)
        if not isinstance(value, dict):
            self.problems.append(f"{path} is no JSON object")
        return raw.fields(value)

    def sessions(self, folder: str) -> Iterator[tuple[Session, int]]:
        """The sessions of one folder, cut to the checkpoint's part, with the line after which that starts. A transcript
        goes on in other files, a line break between two."""
        endings = chain([""], (f".{number:03d}" for number in count(1)))
        chunks = (self.read(f"{folder}{TRANSCRIPT}{ending}") for ending in endings)
        found = [
            chunk
            for chunk in takewhile(lambda chunk: chunk is not None, chunks)
            if chunk is not None
        ]
        if not found:
            self.problems.append(f"{folder}{TRANSCRIPT} is missing")
            return
        transcript = b"\n".join(found)
        stated = self.read(f"{folder}{HASH}")
        if (
            stated is not None
            and stated.strip() != b"sha256:" + sha256(transcript).hexdigest().encode()
        ):
            self.problems.append(f"{folder}{HASH} is not the hash of the transcript")
        metadata = self.metadata(f"{folder}{METADATA}")
        sessions = read_stream(BytesIO(transcript), f"{folder}{TRANSCRIPT}")
        lines = transcript.count(b"\n") + (not transcript.endswith(b"\n"))
        messages = _list_messages(transcript)
        start = self._start(folder, metadata, max(lines, len(messages)))
        if not sessions:
            self.problems.append(f"{folder}{TRANSCRIPT} is in no known format")
        older = _count_events(transcript, messages[:start]) if 0 < start <= len(messages) else None
        for session in sessions:
            part = session.events[older:] if older is not None else _list_after(session, start)
            yield _part_of(session, part, metadata, f"{folder}{METADATA}"), start

    def _start(self, folder: str, metadata: dict[str, Any], lines: int) -> int:
        """How many lines are older than the checkpoint; 0, and a problem, for what cannot be."""
        start = next((metadata[name] for name in STARTS if metadata.get(name)), 0)
        if isinstance(start, int) and not isinstance(start, bool) and 0 <= start <= lines:
            return start
        self.problems.append(
            f"{folder}{METADATA} says that line {start!r} of {lines} is where the part starts"
        )
        return 0


def _list_messages(transcript: bytes) -> list[Any]:
    """Return the messages of an export, one JSON value; none of a transcript of lines."""
    return raw.items(raw.decode(transcript), "messages")


def _count_events(transcript: bytes, messages: Sequence[Any]) -> int:
    """Return how many events an export has that holds these messages alone, its first ones."""
    export = raw.fields(raw.decode(transcript)) | {"messages": messages}
    shorter = msgspec.json.format(
        msgspec.json.encode(export), indent=1
    )  # one line would be taken for a log
    return sum(len(session.events) for session in read_stream(BytesIO(shorter), TRANSCRIPT))


def _list_after(session: Session, start: int) -> Sequence[Event]:
    return [event for event in session.events if (event.origin.line or 0) > start]


def _part_of(
    session: Session, part: Sequence[Event], metadata: dict[str, Any], path: str
) -> Session:
    """The events of the part, and what a model says of the session; counts of records are of the whole file."""
    builder = SessionBuilder(session.agent, session.format, path, session.id)
    builder.events = [replace(event, seq=number) for number, event in enumerate(part)]
    builder.place = Place(1, raw.time(metadata, "created_at"))
    for section, text, paths in _summary_texts(raw.fields(metadata, "summary")):
        builder.add("agent", "text", text, paths=paths, labels=(SUMMARY, ("section", section)))
    built = builder.build()
    return replace(
        session,
        events=built.events,
        counts=recount(session.counts, built.events),
        branch=session.branch or raw.text(metadata, "branch"),
        started=built.started,
        ended=built.ended,
    )


def _summary_texts(summary: dict[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Section, text and paths of each thing that a summary says."""
    learnings = raw.fields(summary, "learnings")
    sections = summary | {f"learnings.{name}": value for name, value in learnings.items()}
    for section, value in sections.items():
        for item in value if isinstance(value, list) else [value]:
            path = raw.text(item, "path")
            if (text := raw.text(item) or raw.text(item, "finding")).strip():
                yield section, text, (path,) if path else ()
