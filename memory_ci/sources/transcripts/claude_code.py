"""Claude Code's session files: JSON Lines, one record a line, as versions 1.0 to 2.1 write them.

Most of what stands there as `type: user` is no person: tool results, summaries, plans, skills, commands, notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import BinaryIO, NamedTuple

from memory_ci.records.event import MID_TURN, Actor, EventKind, Session, Severity
from memory_ci.sources.transcripts.builder import (
    MAX_LINE,
    Place,
    SessionBuilder,
    as_dict,
    as_text,
    decode,
    encode,
    join_parts,
    joined_text,
    parse_time,
    session_name,
)
from memory_ci.sources.transcripts.claude_record import (
    DENIED,
    IGNORED,
    INTERRUPT,
    MARKS,
    SUMMARY,
    Queue,
    Record,
    Waiting,
    blocks_of,
    command_arguments,
    find_rejection,
    is_by_person,
    is_headless,
    is_injected,
    list_answers,
    paths_of,
    said_words,
    uid_of,
)

SNIFFED_LINES = 20

USER_REJECTED = "user-rejected"
"""The value of `toolDenialKind`, in newer versions, where a person said no; others are rules and classifiers."""


class Call(NamedTuple):
    """What was asked of a tool, remembered until its result comes."""

    tool: str | None = None
    paths: tuple[str, ...] = ()


NO_CALL = Call()


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is Claude Code's."""
    if not head.lstrip().startswith(b"{"):
        return False
    records = [as_dict(decode(line)) for line in head.split(b"\n")[:SNIFFED_LINES]]
    if any(record.get(MARKS.get(as_text(record.get("type")), "")) for record in records):
        return True
    return b"\n" not in head and b'"parentUuid":' in head and b'"sessionId":' in head  # one line, longer than the head


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The sessions of a file, line by line; nearly always one. What names no session belongs to the one before it."""
    readers: dict[str, _Reader] = {}
    early: list[tuple[int, Record | None]] = []
    current: _Reader | None = None
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        record = _decode(line)
        if (session := as_text((record or {}).get("sessionId"))) and session not in readers:
            readers[session] = _Reader(session, name)
        current = readers.get(session, current)
        early.append((number, record))
        while current and early:
            current.take(*early.pop(0))
    if early:  # no record names a session
        reader = readers[""] = _Reader(session_name(name), name)
        for number, record in early:
            reader.take(number, record)
    yield from (reader.finish() for reader in readers.values())


class _Reader:
    """One session while it is read."""

    def __init__(self, session: str, name: str) -> None:
        self.builder = SessionBuilder("claude-code", session, "claude-code-jsonl", name)
        self.calls: dict[str, Call] = {}
        self.queue = Queue()
        self.is_headless = False
        self.expects_summary = False

    def take(self, line: int, record: Record | None) -> None:
        """One record of the file, None for a line that is none."""
        if record is None:
            self.builder.bad_line()
            return
        self.builder.record()
        kind = as_text(record.get("type"))
        if (branch := as_text(record.get("gitBranch"))) and branch != "HEAD":
            self.builder.branch = branch
        if handler := HANDLERS.get(kind):
            handler(self, line, record)
        elif kind not in IGNORED:
            self.builder.unknown(kind or "(none)")

    def finish(self) -> Session:
        """The session, with what still waited in its queue."""
        for waiting in self.queue.rest():
            self._say_waiting(waiting, is_person=not self.is_headless)
        return self.builder.build()

    def user(self, line: int, record: Record) -> None:
        """A record under `role: user`: results of tools, or words that need proof that a person said them."""
        if record.get("isSidechain") is True:
            self._message(line, record, record, "subagent")
            return
        self.is_headless = self.is_headless or is_headless(record)
        blocks = blocks_of(record)
        for number, block in enumerate(blocks):
            if block.get("type") == "tool_result":
                self._result(line, record, block, "tool", uid_of(record, number))
        words = [text for block in blocks if block.get("type") == "text" and (text := as_text(block.get("text")))]
        self._words(line, record, words, is_beside=any(block.get("type") == "tool_result" for block in blocks))

    def _words(self, line: int, record: Record, words: list[str], is_beside: bool) -> None:
        said = []
        for number, text in enumerate(words):
            if text.startswith(INTERRUPT):
                self._add(line, record, "human", "interrupt", text, uid_of(record, f"i{number}"))
            elif is_by_person(record) and not is_injected(text) and (own := said_words(text)):
                said.append(own)
            elif is_by_person(record) and (typed := command_arguments(text)):
                said.append(typed)
            elif text.strip():
                self._injected(line, record, text, uid_of(record, f"n{number}"))
        if said:
            self._said(line, record, join_parts(said, "\n\n"), is_beside)

    def _said(self, line: int, record: Record, text: str, is_beside: bool) -> None:
        """A person's turn, `is_beside` a tool's result when it was typed before that came.

        What came through the queue is one turn, whichever of its two records comes first.
        """
        has_waited = self.queue.has_waited(text)
        if self.queue.is_delivered(text):
            return
        labels = (MID_TURN,) if has_waited or is_beside else ()
        uid = uid_of(record, "t")
        self.builder.add("human", "text", text, Place(line, _time(record)), uid=uid, labels=labels)

    def _injected(self, line: int, record: Record, text: str, uid: str) -> None:
        self.queue.has_waited(text.strip())
        is_summary = record.get("isCompactSummary") is True or text.startswith(SUMMARY)
        is_only_mark = is_summary and not self.expects_summary
        self.expects_summary = self.expects_summary and not is_summary
        self._add(line, record, "injected", "compaction" if is_only_mark else "text", text, uid)

    def assistant(self, line: int, record: Record) -> None:
        """What the agent said, and what it asked of tools; its thinking is left out."""
        self._message(line, record, record, "subagent" if record.get("isSidechain") is True else "agent")

    def progress(self, line: int, record: Record) -> None:
        """A sub-agent's messages come as progress of the tool that runs it; other progress is noise."""
        data = as_dict(record.get("data"))
        if data.get("type") == "agent_progress":
            self._message(line, record, as_dict(data.get("message")), "subagent")

    def _message(self, line: int, record: Record, message: Record, actor: Actor) -> None:
        """All that `actor` said, called and got; `message` is `record` itself or stands inside it."""
        for number, block in enumerate(blocks_of(message)):
            kind, uid = block.get("type"), uid_of(message, number)
            if kind == "text" and (text := as_text(block.get("text"))).strip():
                self._add(line, record, actor, "text", text, uid)
            elif kind == "tool_use":
                self._call(line, record, block, actor, uid)
            elif kind == "tool_result":
                self._result(line, record, block, actor, uid)

    def _call(self, line: int, record: Record, block: Record, actor: Actor, uid: str) -> None:
        given = as_dict(block.get("input"))
        call = Call(as_text(block.get("name")) or None, paths_of(given, as_text(record.get("cwd"))))
        self.calls[as_text(block.get("id"))] = call
        text = as_text(given.get("command")) or encode(given)
        self._add(line, record, actor, "tool_call", text, uid, call)

    def _result(self, line: int, record: Record, block: Record, actor: Actor, uid: str) -> None:
        """The result of a call; a person's no, or that of a rule, is one too."""
        call = self.calls.get(as_text(block.get("tool_use_id")), NO_CALL)
        text, is_error = joined_text(block.get("content")), block.get("is_error") is True
        denial = as_text(record.get("toolDenialKind"))
        reason = find_rejection(text) if is_error and denial in ("", USER_REJECTED) else None
        if reason is not None:
            by: Actor = "human" if actor == "tool" and _is_proved(call, denial) else actor
            self._add(line, record, by, "rejection", reason, uid, call, ok=False, severity="warn")
            return
        severity: Severity = "info"
        if is_error:
            severity = "warn" if denial or DENIED.match(text) else "error"
        self._add(line, record, actor, "tool_result", text, uid, call, ok=not is_error, severity=severity)
        if call.tool == "AskUserQuestion" and actor == "tool" and not (is_error or self.is_headless):
            for number, (asked, said) in enumerate(list_answers(record)):
                self._add(line, record, "agent", "text", asked, uid_of(record, f"q{number}"))
                self._add(line, record, "human", "text", said, uid_of(record, f"a{number}"))

    def system(self, line: int, record: Record) -> None:
        """Of the tool's own notices only the compaction matters."""
        if record.get("subtype") == "compact_boundary":
            self.expects_summary = True
            self._add(line, record, "system", "compaction", as_text(record.get("content")), uid_of(record, 0))

    def pr_link(self, line: int, record: Record) -> None:
        """The session made this pull request."""
        number = record.get("prNumber")
        if isinstance(number, int):
            self.builder.pull_requests.append(number)

    def queue_operation(self, line: int, record: Record) -> None:
        """Words typed while the agent works; those that have no record of their own are said here."""
        if waiting := self.queue.operate(line, record):
            self._say_waiting(waiting, is_person=not self.is_headless)

    def attachment(self, line: int, record: Record) -> None:
        """A message handed to the running turn; its `origin`, where there is one, says who sent it."""
        attached = as_dict(record.get("attachment"))
        if attached.get("type") != "queued_command":
            return
        is_prompt = attached.get("commandMode", "prompt") == "prompt"
        is_person = is_prompt and is_by_person(attached) and not self.is_headless
        if waiting := self.queue.attach(joined_text(attached.get("prompt")).strip(), line, _time(record)):
            self._say_waiting(waiting, is_person)

    def _say_waiting(self, waiting: Waiting, is_person: bool) -> None:
        said = command_arguments(waiting.text) if is_injected(waiting.text) else said_words(waiting.text)
        if is_person and said:
            self.builder.add("human", "text", said, Place(waiting.line, waiting.at), labels=(MID_TURN,))
        else:
            self.builder.add("injected", "text", waiting.text, Place(waiting.line, waiting.at))

    def _add(
        self,
        line: int,
        record: Record,
        actor: Actor,
        kind: EventKind,
        text: str,
        uid: str,
        call: Call = NO_CALL,
        ok: bool | None = None,
        severity: Severity = "info",
    ) -> None:
        tool, paths, at = call.tool, call.paths, _time(record)
        self.builder.add(actor, kind, text, Place(line, at), uid=uid, tool=tool, ok=ok, severity=severity, paths=paths)


def _decode(line: bytes) -> Record | None:
    record = decode(line) if len(line) <= MAX_LINE else None
    return record if isinstance(record, dict) else None


def _time(record: Record) -> datetime | None:
    return parse_time(record.get("timestamp"))


def _is_proved(call: Call, denial: str) -> bool:
    """Whether a rejection is a person's: an MCP server writes the text of its own errors, and could forge one."""
    return denial == USER_REJECTED or not (call.tool or "mcp__").startswith("mcp__")


HANDLERS = {
    "user": _Reader.user,
    "assistant": _Reader.assistant,
    "progress": _Reader.progress,
    "system": _Reader.system,
    "attachment": _Reader.attachment,
    "queue-operation": _Reader.queue_operation,
    "pr-link": _Reader.pr_link,
}
