"""Digests: memory-ci's own JSON Lines format for the parts of a session that are worth keeping.

The first line identifies the session. Then comes one line per event, with its address in the
transcript: texts of people, whole; the end of texts of the agent and the beginning of failures;
which tools ran on which files, without their input and output, except the input of a call that a
person refused, and the command lines of a shell that failed and of the few that followed. Of a
commit, a push and a new pull request it holds that the command was run, not its arguments; of a
command that is known to fail, its form if it succeeded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import BinaryIO, Literal

import msgspec
from msgspec.structs import asdict, replace

from memory_ci.records.event import (
    Actor,
    Event,
    EventKind,
    Origin,
    Session,
    SessionCounts,
    Severity,
)
from memory_ci.regex import Regex
from memory_ci.sources.transcripts.shell import list_shell_runs, read_command

FIRST_KEY = b'{"memory-ci-session":'
MAX_TEXT = 1_000  # Characters kept of a text of no person: it only corroborates.
MAX_COMMAND = 300  # Characters kept of the command line of a shell.
NEXT_RUNS = 6  # Commands after a failed one that may show what works instead.
MILESTONE = Regex(r"\b(?:git (?:commit|push)|gh pr create|glab mr create)\b")
"""Commands that a person may have asked for something before."""

QUOTED = Regex(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
"""A quotation in a command line, such as the message of a commit."""

STEERING_KINDS = ("rejection", "interrupt", "compaction", "commit")


class Header(msgspec.Struct, frozen=True, kw_only=True, rename={"version": "memory-ci-session"}):
    """The first line of a digest.

    Attributes:
        version: the version of the format.
        agent: the agent of the session.
        id: the id of the session.
        format: the format of the transcript.
        path: the name of the transcript.
        branch: the branch of the session.
        started: the time of its first event.
        ended: the time of its last event.
        counts: the counts of the whole transcript.
        pull_requests: the numbers of pull requests that it opened.
        left_out: how many events did not fit into the size limit.
    """

    version: Literal[1]
    agent: str
    id: str
    format: str
    path: str
    branch: str
    started: datetime | None
    ended: datetime | None
    counts: SessionCounts
    pull_requests: tuple[int, ...]
    left_out: int


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a digest.

    Attributes:
        seq: its number in the transcript.
        at: its time.
        actor: whose event it is.
        kind: its kind.
        text: its text, redacted and shortened.
        line: its line in the transcript.
        path: the name of its transcript, where that is not the header's.
        tool: the tool of a call or result.
        ok: whether a tool succeeded.
        severity: its severity.
        paths: the files it touched.
        labels: its marks.
        uid: its id in the transcript.
    """

    seq: int
    at: datetime
    actor: Actor
    kind: EventKind
    text: str = ""
    line: int | None = None
    path: str = ""
    tool: str | None = None
    ok: bool | None = None
    severity: Severity = "info"
    paths: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    uid: str = ""


def write_digest(
    session: Session,
    max_bytes: int,
    redact: Callable[[str], str],
    find_part_to_keep: Callable[[str], str] = lambda _command: "",
) -> bytes:
    """Return the digest of a session as JSON lines; the same session gives the same bytes.

    If they exceed the limit, events are left out, the least valuable and oldest first: tool calls,
    then texts that no person wrote, then texts of people between their first and their last. The
    header is never left out.

    Args:
        session: the session.
        max_bytes: the limit.
        redact: a function that masks secrets; all texts of the digest are its results.
        find_part_to_keep: a function that returns the part of a command line to keep although the
            command succeeded, or "".
    """
    commands = _choose_commands(session, find_part_to_keep)
    events = [event for event in session.events if _is_kept(event) or event.seq in commands]
    lines = {
        index: msgspec.json.encode(_make_line(event, session, commands, redact)) + b"\n"
        for index, event in enumerate(events)
    }
    total = sum(len(line) for line in lines.values())
    limit = max_bytes - len(_encode_header(session, redact, len(events)))

    values = _rate_events(events)
    least_valuable_first = sorted(range(len(events)), key=values.__getitem__)
    for index in least_valuable_first:
        if total <= limit:
            break
        total -= len(lines.pop(index))
    left_out = len(events) - len(lines)
    return _encode_header(session, redact, left_out) + b"".join(lines.values())


def sniff(head: bytes) -> bool:
    """Return whether a file that begins like this is a digest."""
    return head.startswith(FIRST_KEY)


def read(
    stream: BinaryIO,
    name: str,  # noqa: ARG001 - that of the other readers
) -> Iterator[Session]:
    """Yield the session of a digest, none if its first line is not a header.

    The paths and lines of its events are those of the transcript that the digest was made from.
    """
    try:
        header = msgspec.json.decode(stream.readline(), type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    key = f"{header.agent}:{header.id}"
    events: list[Event] = []
    bad_lines = header.counts.bad_lines
    for data in stream:
        try:
            line = msgspec.json.decode(data, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            bad_lines += 1
            continue
        fields = asdict(line)
        del fields["path"], fields["line"]
        origin = Origin(kind="session", id=key, path=line.path or header.path, line=line.line)
        events.append(Event(**fields, origin=origin, session=key))

    yield Session(
        agent=header.agent,
        id=header.id,
        format=header.format,
        path=header.path,
        events=tuple(events),
        counts=replace(header.counts, bad_lines=bad_lines),
        branch=header.branch,
        started=header.started,
        ended=header.ended,
        pull_requests=header.pull_requests,
    )


def _choose_commands(session: Session, find_part_to_keep: Callable[[str], str]) -> dict[int, str]:
    """Return the command lines that a digest keeps, by the number of the call's or result's event.

    A command that failed and the few commands after it keep their whole command line. Any other
    command keeps only the names of milestones in it (`git commit` …) and the part that
    `find_part_to_keep` returns; without any, it is not kept. The text of a result is "": it is kept
    to tell that its command was run.
    """
    runs = list_shell_runs(session.events)
    texts: dict[int, str] = {}
    for number, (_, result) in enumerate(runs):
        if result.ok is False:
            for next_call, next_result in runs[number : number + 1 + NEXT_RUNS]:
                texts[next_call.seq] = read_command(next_call.text)
                texts[next_result.seq] = ""

    for call, result in runs:
        if call.seq in texts:
            continue
        command = read_command(call.text)
        parts = dict.fromkeys(MILESTONE.findall(QUOTED.sub("", command)))
        if part := find_part_to_keep(command):
            parts[part] = None
        if parts:
            texts[call.seq] = " && ".join(parts)
            texts[result.seq] = ""
    return texts


def _is_kept(event: Event) -> bool:
    if event.actor == "human" or event.kind in STEERING_KINDS or event.kind == "tool_call":
        return True
    if event.kind == "tool_result":
        return event.ok is False or event.severity != "info"
    return event.kind == "text" and event.actor in ("agent", "subagent")


def _encode_header(session: Session, redact: Callable[[str], str], left_out: int) -> bytes:
    """Return the first line of a digest, with all texts redacted."""
    unknown = {_clean(name, redact): count for name, count in session.counts.unknown.items()}
    header = Header(
        version=1,
        agent=_clean(session.agent, redact),
        id=make_safe_id(session.id, redact),
        format=_clean(session.format, redact),
        path=_file_name(session.path, redact),
        branch=_clean(session.branch, redact),
        started=session.started,
        ended=session.ended,
        counts=replace(session.counts, unknown=unknown),
        pull_requests=session.pull_requests,
        left_out=left_out,
    )
    return msgspec.json.encode(header) + b"\n"


def _make_line(
    event: Event, session: Session, commands: Mapping[int, str], redact: Callable[[str], str]
) -> Line:
    """Return the line of a digest for one event, with all texts redacted.

    Args:
        event: the event.
        session: the session that it is part of.
        commands: the command lines to keep of shell calls, by the number of the event.
        redact: a function that masks secrets.
    """
    path = event.origin.path or session.path
    is_other_file = path != session.path
    return Line(
        seq=event.seq,
        at=event.at,
        actor=event.actor,
        kind=event.kind,
        text=_shorten_text(event, commands, redact),
        line=event.origin.line,
        path=_file_name(path, redact) if is_other_file else "",
        tool=_clean(event.tool, redact) if event.tool else event.tool,
        ok=event.ok,
        severity=event.severity,
        paths=tuple(_clean(path, redact) for path in event.paths),
        labels=tuple((_clean(key, redact), _clean(value, redact)) for key, value in event.labels),
        uid=make_safe_id(event.uid, redact),
    )


def _shorten_text(event: Event, commands: Mapping[int, str], redact: Callable[[str], str]) -> str:
    """Return the text of an event with secrets masked, and cut unless a person wrote it.

    Of the agent's text the end is kept, of a tool's result the beginning. A text is masked before
    it is cut, because no pattern recognises half a credential.
    """
    if event.kind == "tool_call":
        return _clean(commands.get(event.seq, ""), redact)[:MAX_COMMAND]
    if event.kind == "tool_result" and not _is_kept(event):
        return ""
    text = _clean(event.text, redact)
    if event.actor == "human" or len(text) <= MAX_TEXT:
        return text
    if event.kind == "tool_result":
        return text[: MAX_TEXT - 1] + "…"
    return "…" + text[1 - MAX_TEXT :]


def _rate_events(events: Sequence[Event]) -> list[int]:
    """Return how valuable each event is, from 0 for a tool call to 4 for the first human turn."""
    values = []
    human_turns = []
    for index, event in enumerate(events):
        if event.actor == "human":
            human_turns.append(index)
            values.append(2)
        elif event.kind == "tool_call":
            values.append(0)
        else:
            values.append(1)
    if human_turns:
        values[human_turns[-1]] = 3
        values[human_turns[0]] = 4
    return values


def make_safe_id(text: str, redact: Callable[[str], str]) -> str:
    """Return an id without control characters, or its hash if redaction would change it.

    A mask would make two different ids equal; their hashes differ.
    """
    valid = text.encode("utf-8", "replace").decode()
    printable = "".join(char for char in valid if char.isprintable())
    if redact(printable) == printable:
        return printable
    return hashlib.sha256(printable.encode()).hexdigest()[:32]


def _clean(text: str, redact: Callable[[str], str]) -> str:
    """Return a text masked, without lone surrogates, which JSON can spell but no file can hold."""
    return redact(text.encode("utf-8", "replace").decode())


def _file_name(path: str, redact: Callable[[str], str]) -> str:
    return _clean(path.replace("\\", "/").rpartition("/")[2], redact)
