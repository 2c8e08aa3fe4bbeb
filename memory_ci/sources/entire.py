"""Reader of the agent sessions that the tool Entire keeps on the branch `entire/checkpoints/v1`.

A checkpoint holds the sessions behind a commit. It is the folder `<2 hex>/<10 hex>/` of the branch,
with one folder a session (`0/`, `1/` …; the oldest layout has its last session in the checkpoint's
own folder). A transcript is a snapshot of the whole session so far: the part of this checkpoint
starts after the line that its metadata names, in an export after the message. Large ones continue
in `full.jsonl.001` and so on.

Labels of agents are not read: they are wrong at times. Summaries in the metadata are written by a
model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from io import BytesIO
from itertools import count
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.records.event import UNKNOWN_TIME, Event, Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Place, SessionBuilder, recount_events
from memory_ci.sources.transcripts.registry import read_stream

CHECKPOINT = Regex(r"[0-9a-f]{12}")
TRANSCRIPT = "full.jsonl"
METADATA = "metadata.json"
HASH = "content_hash.txt"

START_KEY = "checkpoint_transcript_start"
OLD_START_KEY = "transcript_lines_at_start"
"""Keys of metadata for the number of lines or messages that are older than the checkpoint."""

SUMMARY = ("part", "summary")  # The label of a model's text about the session.

TRANSCRIPT_PATH = Regex(rf"(?:([0-9]{{1,9}})/)?{re.escape(TRANSCRIPT)}")
"""The path of a session's transcript in the folder of a checkpoint."""

METADATA_PATH = Regex(r"([0-9a-f]{2})/([0-9a-f]{10})/(?:[0-9]{1,9}/)?metadata\.json")
"""The path of the metadata of a checkpoint or of one of its sessions: time, branch and files."""

MAX_PATHS = 1_000  # Files of a checkpoint that are compared.

ListPaths = Callable[[str], Sequence[str]]
ReadFile = Callable[[str], bytes | None]


class CheckpointSession(NamedTuple):
    """The part of a session that belongs to a checkpoint.

    Attributes:
        session: the session, with the events of this part.
        start: the number of lines or messages of its transcript that are older.
    """

    session: Session
    start: int


class CheckpointSummary(NamedTuple):
    """The metadata of a checkpoint.

    Attributes:
        id: its id.
        at: its time, `UNKNOWN_TIME` without one.
        branch: its branch, "" if unknown.
        paths: the files it touched.
    """

    id: str
    at: datetime
    branch: str = ""
    paths: tuple[str, ...] = ()


def list_metadata(paths: Iterable[str]) -> dict[str, Sequence[str]]:
    """Return the paths of metadata files among the paths of the branch, by id of the checkpoint."""
    metadata: dict[str, list[str]] = {}
    for path in paths:
        if match := METADATA_PATH.fullmatch(path):
            checkpoint_id = match[1] + match[2]
            metadata.setdefault(checkpoint_id, []).append(path)
    return dict(metadata)


def summarize_checkpoint(checkpoint_id: str, metadata: Iterable[bytes]) -> CheckpointSummary:
    """Return the metadata of a checkpoint and of its sessions as one summary.

    Args:
        checkpoint_id: the id of the checkpoint.
        metadata: the content of each metadata file; the newest time and the first branch count.
    """
    latest = UNKNOWN_TIME
    branch = ""
    paths: dict[str, None] = {}  # a dict, because it keeps the order
    for data in metadata:
        fields = raw.get_object(raw.decode(data))
        created_at = raw.get_time(fields, "created_at")
        if created_at:
            latest = max(latest, created_at)
        branch = branch or raw.get_text(fields, "branch")
        for path in raw.get_list(fields, "files_touched"):
            paths[raw.get_text(path)] = None
    paths.pop("", None)
    return CheckpointSummary(checkpoint_id, latest, branch, tuple(paths)[:MAX_PATHS])


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that was read.

    Attributes:
        id: its id.
        sessions: its sessions, each cut to the part of the checkpoint.
        problems: messages on missing or broken parts.
    """

    id: str
    sessions: tuple[CheckpointSession, ...] = ()
    problems: tuple[str, ...] = ()


def read_checkpoint(list_paths: ListPaths, read: ReadFile, checkpoint: str) -> Checkpoint:
    """Return the checkpoint with an id of 12 hexadecimal digits.

    Nothing is raised for missing or broken files: they are in its `problems`.

    Args:
        list_paths: a function that returns the paths below a folder of the branch.
        read: a function that returns the content of a file or None.
        checkpoint: the id.
    """
    if not CHECKPOINT.fullmatch(checkpoint):
        return Checkpoint(id=checkpoint, problems=(f"{checkpoint!r} is no checkpoint id",))
    reader = _Reader(read)
    folder = f"{checkpoint[:2]}/{checkpoint[2:]}/"
    metadata = reader.read_metadata(f"{folder}{METADATA}")

    paths = set(list_paths(folder))
    for session in raw.get_list(metadata, "sessions"):
        paths.add(raw.get_text(session, "transcript").lstrip("/"))
    transcript_numbers: dict[str, int] = {}
    for path in paths:
        match = TRANSCRIPT_PATH.fullmatch(path, len(folder)) if path.startswith(folder) else None
        if match:
            # The transcript in the checkpoint's own folder has no number and is the first.
            transcript_numbers[path] = int(match[1]) if match[1] else -1

    sessions: list[CheckpointSession] = []
    for path in sorted(transcript_numbers, key=transcript_numbers.__getitem__):
        sessions += reader.read_sessions(path.removesuffix(TRANSCRIPT))
    problems = reader.problems
    if not sessions and not problems:
        problems = [f"{folder} holds no session"]
    return Checkpoint(id=checkpoint, sessions=tuple(sessions), problems=tuple(problems))


class _Reader:
    """A reader of files of the branch.

    Attributes:
        problems: messages on missing or broken parts.
    """

    def __init__(self, read: ReadFile) -> None:
        self._read = read
        self.problems: list[str] = []

    def read_metadata(self, path: str) -> dict[str, Any]:
        """Return the JSON object of a file, empty if it is missing or no object."""
        data = self._read(path)
        if data is None:
            self.problems.append(f"{path} is missing")
            return {}
        value = raw.decode(data)
        if not isinstance(value, dict):
            self.problems.append(f"{path} is no JSON object")
        return raw.get_object(value)

    def read_sessions(self, folder: str) -> Iterator[CheckpointSession]:
        """Yield the sessions of one folder, each cut to the part after the checkpoint's start.

        The metadata has the start as a number. In a transcript of lines it counts lines. In an
        export, which is one JSON value, it counts messages. A message may be several events, so
        the events of the older messages are counted and dropped.
        """
        transcript = self._read_transcript(folder)
        if transcript is None:
            return
        metadata = self.read_metadata(f"{folder}{METADATA}")
        sessions = read_stream(BytesIO(transcript), f"{folder}{TRANSCRIPT}")

        line_count = transcript.count(b"\n") + (not transcript.endswith(b"\n"))
        messages = _list_messages(transcript)
        start = self._read_start(folder, metadata, max(line_count, len(messages)))
        if not sessions:
            self.problems.append(f"{folder}{TRANSCRIPT} is in no known format")

        counts_messages = 0 < start <= len(messages)
        older_event_count = _count_events(transcript, messages[:start]) if counts_messages else 0
        for session in sessions:
            if counts_messages:
                events: Sequence[Event] = session.events[older_event_count:]
            else:
                events = _list_events_after_line(session, start)
            cut = _cut_session(session, events, metadata, f"{folder}{METADATA}")
            yield CheckpointSession(cut, start)

    def _read_transcript(self, folder: str) -> bytes | None:
        """Return the transcript of a folder, its files joined by line breaks; None if missing."""
        chunks = []
        chunk = self._read(f"{folder}{TRANSCRIPT}")
        for number in count(1):
            if chunk is None:
                break
            chunks.append(chunk)
            chunk = self._read(f"{folder}{TRANSCRIPT}.{number:03d}")
        if not chunks:
            self.problems.append(f"{folder}{TRANSCRIPT} is missing")
            return None

        transcript = b"\n".join(chunks)
        digest = self._read(f"{folder}{HASH}")
        expected = b"sha256:" + sha256(transcript).hexdigest().encode()
        if digest is not None and digest.strip() != expected:
            self.problems.append(f"{folder}{HASH} is not the hash of the transcript")
        return transcript

    def _read_start(self, folder: str, metadata: dict[str, Any], max_start: int) -> int:
        """Return how many lines or messages of a transcript are older than the checkpoint.

        If the number is not valid or too large, add a problem and return 0.

        Args:
            folder: the folder of the transcript.
            metadata: the metadata of the transcript, which have the number.
            max_start: how many lines or messages the transcript has.
        """
        start = metadata.get(START_KEY) or metadata.get(OLD_START_KEY) or 0
        if isinstance(start, int) and not isinstance(start, bool) and 0 <= start <= max_start:
            return start
        metadata_path = f"{folder}{METADATA}"
        self.problems.append(
            f"{metadata_path} says that line {start!r} of {max_start} is where the part starts"
        )
        return 0


def _list_messages(transcript: bytes) -> list[Any]:
    """Return the messages of an export, which is one JSON value; [] for a transcript of lines."""
    return raw.get_list(raw.decode(transcript), "messages")


def _count_events(transcript: bytes, messages: Sequence[Any]) -> int:
    """Return how many events an export has if only `messages`, its first ones, are in it."""
    export = raw.get_object(raw.decode(transcript)) | {"messages": messages}
    # Indented, because a file of one line would be read as JSON Lines.
    shorter = msgspec.json.format(msgspec.json.encode(export), indent=1)
    return sum(len(session.events) for session in read_stream(BytesIO(shorter), TRANSCRIPT))


def _list_events_after_line(session: Session, line: int) -> Sequence[Event]:
    return [event for event in session.events if (event.origin.line or 0) > line]


def _cut_session(
    session: Session, events: Sequence[Event], metadata: dict[str, Any], path: str
) -> Session:
    """Return a session with the events of a checkpoint only.

    If the metadata has a summary that a model wrote, its texts are added as events. Counts of
    records and bad lines stay those of the whole file.

    Args:
        session: the session.
        events: the events that belong to the checkpoint.
        metadata: the metadata of the session.
        path: the path of the metadata file, as the origin of the summary.
    """
    builder = SessionBuilder(session.agent, session.format, path, session.id)
    builder.events = [replace(event, seq=number) for number, event in enumerate(events)]
    builder.place = Place(1, raw.get_time(metadata, "created_at"))
    for section, text, paths in _iter_summary_texts(raw.get_object(metadata, "summary")):
        builder.add_event(
            "agent", "text", text, paths=paths, labels=(SUMMARY, ("section", section))
        )
    built = builder.build()
    return replace(
        session,
        events=built.events,
        counts=recount_events(session.counts, built.events),
        branch=session.branch or raw.get_text(metadata, "branch"),
        started=built.started,
        ended=built.ended,
    )


def _iter_summary_texts(summary: dict[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the section, the text and the paths of each item of a model's summary.

    An item is a text, or a finding on a file.
    """
    learnings = raw.get_object(summary, "learnings")
    sections = summary | {f"learnings.{name}": value for name, value in learnings.items()}
    for section, value in sections.items():
        for item in value if isinstance(value, list) else [value]:
            path = raw.get_text(item, "path")
            text = raw.get_text(item) or raw.get_text(item, "finding")
            if text.strip():
                yield section, text, (path,) if path else ()
