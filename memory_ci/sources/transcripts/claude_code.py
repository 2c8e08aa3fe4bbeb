"""Claude Code's session files: JSON Lines, one record a line, as versions 1.0 to 2.1 write them.

Most of what stands there as `type: user` is no person: tool results, summaries, plans, skills, commands, notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from msgspec.structs import replace

from memory_ci.records.event import MID_TURN, Actor, EventKind, Session, Severity
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Place, SessionBuilder, read_records, touched_paths
from memory_ci.sources.transcripts.prose import (
    DENIED,
    INTERRUPT,
    SUMMARY,
    command_arguments,
    find_rejection,
    has_machine_lines,
    is_injected,
    said_words,
)

Record = dict[str, Any]

# Record types that hold nothing anybody said or did.
IGNORED = frozenset(
    """agent-color agent-name agent-setting ai-title api-request api-request-blob api-request-shape atis-latch
    bridge-session content-replacement cost-state custom-title file-history-delta file-history-snapshot last-prompt mode
    permission-mode summary tag worktree-state""".split()
)

# By record type, a key that only Claude Code writes with it: how a file is known.
MARKS = {
    "file-history-snapshot": "messageId",
    "summary": "leafUuid",
    "queue-operation": "operation",
    "last-prompt": "leafUuid",
} | dict.fromkeys(("user", "assistant", "system", "progress", "attachment"), "uuid")

SNIFFED_LINES = 20
# The value of `toolDenialKind`, in newer versions, where a person said no; others are rules and classifiers.
USER_REJECTED = "user-rejected"


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is Claude Code's."""
    if not head.lstrip().startswith(b"{"):
        return False
    records = [raw.fields(raw.decode(line)) for line in head.split(b"\n")[:SNIFFED_LINES]]
    if any(record.get(MARKS.get(raw.text(record, "type"), "")) for record in records):
        return True
    return (
        b"\n" not in head and b'"parentUuid":' in head and b'"sessionId":' in head
    )  # one line, longer than the head


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The sessions of a file, line by line; nearly always one. What names no session belongs to the one before it."""
    readers: dict[str, _Reader] = {}
    early: list[tuple[int, Record | None]] = []
    current: _Reader | None = None
    for number, record in read_records(stream):
        if (session := raw.text(record, "sessionId")) and session not in readers:
            readers[session] = _Reader(session, name)
        current = readers.get(session, current)
        early.append((number, record))
        while current and early:
            current.take(*early.pop(0))
    if early:  # no record names a session
        readers[""] = _Reader("", name)
        for number, record in early:
            readers[""].take(number, record)
    yield from (reader.build() for reader in readers.values())


class _Reader(SessionBuilder):
    """One session while it is read."""

    def __init__(self, session: str, name: str) -> None:
        super().__init__("claude-code", "claude-code-jsonl", name, session)
        self.calls: dict[
            str, tuple[str | None, tuple[str, ...]]
        ] = {}  # tool and files of each call
        self.queue = Queue()
        self.is_headless = self.expects_summary = False
        self.names_senders = False  # whether any record of the session says who sent it
        self.unproved: list[
            int
        ] = []  # events of a person whose records do not say that they were typed
        self.by_text: dict[str, int] = {}  # events of what came out of the queue, by their text

    def take(self, line: int, record: Record | None) -> None:
        """One record of the file, None for a line that is none."""
        if record is None:
            self.bad_lines += 1
            return
        self.records += 1
        self.place = Place(line, raw.time(record, "timestamp"))
        kind = raw.text(record, "type")
        if (branch := raw.text(record, "gitBranch")) and branch != "HEAD":
            self.branch = branch
        if handler := HANDLERS.get(kind):
            handler(self, record)
        elif kind not in IGNORED:
            self.unknown(kind, "(none)")

    def build(self) -> Session:
        """The session, with what still waited in its queue: no turn was seen of it, but it was typed all the same."""
        for waiting in (*self.queue.dequeued.values(), *self.queue.waiting.values()):
            self._say_waiting(waiting, is_person=not self.is_headless)
        if self.names_senders or self.is_headless:
            for number in self.unproved:
                self._withdraw(number)
        return super().build()

    def _withdraw(self, number: int) -> None:
        """Take a turn for nobody's: a record that was read later shows that no person need have typed it."""
        self.events[number] = replace(self.events[number], actor="injected", labels=())

    def user(self, record: Record) -> None:
        """A record under `role: user`: results of tools, or words that need proof that a person said them. Words beside
        a tool's result were typed before that came."""
        if is_of_subagent(record):
            self._message(record, "subagent", record)
            return
        self.is_headless = self.is_headless or is_headless(record)
        self.names_senders = self.names_senders or names_sender(record)
        blocks = blocks_of(record)
        results = {
            number: block
            for number, block in enumerate(blocks)
            if block.get("type") == "tool_result"
        }
        for number, block in results.items():
            self._result(record, block, "tool", uid_of(record, number))
        words = [
            text
            for block in blocks
            if block.get("type") == "text" and (text := raw.text(block, "text"))
        ]
        is_of_tool = not results and any(record.get(key) for key in OF_RESULTS)
        if said := self._own_words(record, words, is_of_tool=is_of_tool):
            count = len(self.events)
            self._said(raw.join(said, "\n\n"), uid_of(record, "t"), is_beside=bool(results))
            if not names_sender(record):
                self.unproved += range(count, len(self.events))

    def _own_words(self, record: Record, words: list[str], *, is_of_tool: bool) -> list[str]:
        """Return those of the words that a person typed; the others become events."""
        said = []
        is_person = is_by_person(record) and not is_of_tool
        # One injected part makes the record the tool's: the text of a command stands beside its name.
        is_tools = any(is_injected(text) for text in words)
        is_shown = names_sender(record) or not any(
            has_machine_lines(said_words(text)) for text in words
        )
        for number, text in enumerate(words):
            if text.startswith(INTERRUPT):
                self.add("human", "interrupt", text, uid=uid_of(record, f"i{number}"))
            elif (is_person and is_shown and not is_tools and (own := said_words(text))) or (
                is_person and is_tools and (own := command_arguments(text))
            ):
                said.append(own)
            elif text.strip():
                self.queue.has_waited(text.strip())
                is_summary = record.get("isCompactSummary") is True or text.startswith(SUMMARY)
                kind: EventKind = (
                    "compaction" if is_summary and not self.expects_summary else "text"
                )
                self.expects_summary = self.expects_summary and not is_summary
                self.add("injected", kind, text, uid=uid_of(record, f"n{number}"))
        return said

    def _said(self, text: str, uid: str, is_beside: bool) -> None:
        """A person's turn. What came through the queue is one turn, whichever of its two records comes first."""
        has_waited = self.queue.has_waited(text)
        if not self.queue.is_delivered(text):
            self.add(
                "human",
                "text",
                text,
                uid=uid,
                labels=(MID_TURN,) if has_waited or is_beside else (),
            )

    def assistant(self, record: Record) -> None:
        """What the agent said, and what it asked of tools; its thinking is left out."""
        self._message(record, "subagent" if is_of_subagent(record) else "agent", record)

    def progress(self, record: Record) -> None:
        """A sub-agent's messages come as progress of the tool that runs it; other progress is noise."""
        if raw.text(record, "data", "type") == "agent_progress":
            self._message(record, "subagent", raw.fields(record, "data", "message"))

    def _message(self, record: Record, actor: Actor, message: Record) -> None:
        """All that `actor` said, called and got; `message` is `record` itself or stands inside it."""
        for number, block in enumerate(blocks_of(message)):
            kind, uid = block.get("type"), uid_of(message, number)
            if kind == "text":
                self.say(actor, raw.text(block, "text"), uid)
            elif kind == "tool_use":
                given = raw.fields(block, "input")
                paths = touched_paths(
                    given, "file_path", "notebook_path", "path", root=raw.text(record, "cwd")
                )[:1]
                tool = raw.text(block, "name") or None
                self.calls[raw.text(block, "id")] = tool, paths
                text = raw.text(given, "command") or raw.encode(given)
                self.add(actor, "tool_call", text, uid=uid, tool=tool, paths=paths)
            elif kind == "tool_result":
                self._result(record, block, actor, uid)

    def _result(self, record: Record, block: Record, actor: Actor, uid: str) -> None:
        """The result of a call; a person's no, or that of a rule, is one too.

        A rejection is a person's only if the record names its kind: any program can print the text of one.
        """
        tool, paths = self.calls.get(raw.text(block, "tool_use_id"), (None, ()))
        text, is_error = raw.joined(block, "content"), block.get("is_error") is True
        denial = raw.text(record, "toolDenialKind")
        reason = find_rejection(text) if is_error and denial in ("", USER_REJECTED) else None
        if reason is not None:
            by: Actor = "human" if actor == "tool" and denial == USER_REJECTED else actor
            self.add(
                by, "rejection", reason, uid=uid, tool=tool, paths=paths, ok=False, severity="warn"
            )
            return
        severity: Severity | None = "warn" if is_error and (denial or DENIED.match(text)) else None
        self.add(
            actor,
            "tool_result",
            text,
            uid=uid,
            tool=tool,
            paths=paths,
            ok=not is_error,
            severity=severity,
        )
        if tool == "AskUserQuestion" and actor == "tool" and not (is_error or self.is_headless):
            for number, (asked, said, is_label) in enumerate(list_answers(record)):
                self.add("agent", "text", asked, uid=uid_of(record, f"q{number}"))
                self.add(
                    "injected" if is_label else "human",
                    "text",
                    said,
                    uid=uid_of(record, f"a{number}"),
                )

    def system(self, record: Record) -> None:
        """Of the tool's own notices only the compaction matters."""
        if record.get("subtype") == "compact_boundary":
            self.expects_summary = True
            self.add("system", "compaction", raw.text(record, "content"), uid=uid_of(record, 0))

    def pr_link(self, record: Record) -> None:
        """The session made this pull request."""
        if isinstance(number := record.get("prNumber"), int):
            self.pull_requests.append(number)

    def queue_operation(self, record: Record) -> None:
        """Words typed while the agent works; those that have no record of their own are said here."""
        text = raw.text(record, "content").strip()
        if waiting := self.queue.operate(record.get("operation"), Waiting(text, self.place)):
            self._say_waiting(waiting, is_person=not self.is_headless)

    def attachment(self, record: Record) -> None:
        """A message handed to the running turn; its `origin`, where there is one, says who sent it."""
        attached = raw.fields(record, "attachment")
        if attached.get("type") == "queued_command":
            is_prompt = attached.get("commandMode", "prompt") == "prompt" and not is_of_subagent(
                record
            )
            is_person = is_prompt and is_by_person(attached) and is_by_person(record)
            is_named = names_sender(attached) or names_sender(record)
            self.names_senders = self.names_senders or is_named
            text = raw.joined(attached, "prompt").strip()
            if waiting := self.queue.attach(Waiting(text, self.place)):
                self._say_waiting(waiting, is_person and not self.is_headless, is_named=is_named)
            elif text in self.by_text:
                number = self.by_text.pop(text)
                if not is_person:
                    self._withdraw(number)
                elif is_named and number in self.unproved:
                    self.unproved.remove(number)

    def _say_waiting(self, waiting: Waiting, is_person: bool, *, is_named: bool = False) -> None:
        text, place = waiting
        is_person = is_person and (is_named or not has_machine_lines(said_words(text)))
        said = is_person and (command_arguments(text) if is_injected(text) else said_words(text))
        if said:
            self.by_text[text] = len(self.events)
            if not is_named:
                self.unproved.append(len(self.events))
            self.add("human", "text", said, place, labels=(MID_TURN,))
        else:
            self.add("injected", "text", text, place)


HANDLERS = {
    "user": _Reader.user,
    "assistant": _Reader.assistant,
    "progress": _Reader.progress,
    "system": _Reader.system,
    "attachment": _Reader.attachment,
    "queue-operation": _Reader.queue_operation,
    "pr-link": _Reader.pr_link,
}


def blocks_of(record: Record) -> list[Record]:
    """The blocks of the message in `record`; plain text is one block of it."""
    content = raw.fields(record, "message").get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in raw.items(content) if isinstance(block, dict)]


def uid_of(record: Record, part: str | int) -> str:
    """An id of one part of a record, the same in every copy of it; empty if the record has none."""
    uuid = raw.text(record, "uuid")
    return f"{uuid}:{part}" if uuid else ""


SENDER_KEYS = ("turnOrigin", "origin", "promptSource")
"""By which newer versions say who sent a message."""

NOT_TYPED = (
    "isMeta",
    "isCompactSummary",
    "isVisibleInTranscriptOnly",
    "sourceToolUseID",
    "planContent",
)

OF_RESULTS = ("toolUseResult", "sourceToolAssistantUUID")
"""What a record has that holds the result of a tool: without that result, its words are the tool's."""


def is_set(record: Record, key: str) -> bool:
    """Whether a key has any value but false: one that is not understood counts."""
    return record.get(key, False) is not False


def is_of_subagent(record: Record) -> bool:
    """Whether a record is part of the work of an agent that another one started."""
    return is_set(record, "isSidechain") or is_set(record, "agentId")


def names_sender(record: Record) -> bool:
    """Whether a record says who sent it."""
    return any(key in record for key in SENDER_KEYS)


def is_by_person(record: Record) -> bool:
    """Whether the record lets a person be its sender.

    Newer versions name the sender: `turnOrigin` (human, sdk, task_notification …), `origin.kind` (human, peer,
    task-notification, coordinator …), `promptSource` (typed, queued, system, sdk; an app that a person types into says
    sdk too, so it counts last). All that is named must be a person. A headless run (`claude -p`) is a program's.
    """
    if any(is_set(record, key) for key in NOT_TYPED):
        return False
    if raw.fields(record, "message").get("role", "user") != "user":
        return False
    senders = []
    if "turnOrigin" in record:
        senders.append(record["turnOrigin"])
    if "origin" in record:
        senders.append(raw.fields(record, "origin").get("kind"))
    if senders:
        return all(sender == "human" for sender in senders)
    return record.get("promptSource", "typed") in ("typed", "queued") and not is_headless(record)


def is_headless(record: Record) -> bool:
    """Whether a program runs the session."""
    return record.get("turnOrigin") == "sdk" or raw.text(record, "entrypoint").startswith("sdk")


def list_answers(record: Record) -> Iterator[tuple[str, str, bool]]:
    """Yield the questions that an agent asked by its tool, with their options, and what was answered to each.

    The third value says whether the answer is made of options: a person chose them, but the agent worded them.
    """
    result = raw.fields(record, "toolUseResult")
    for question in raw.items(result, "questions"):
        asked = raw.text(question, "question")
        labels = [raw.text(option, "label") for option in raw.items(question, "options")]
        descriptions = [
            raw.text(option, "description") for option in raw.items(question, "options")
        ]
        if (said := raw.text(result, "answers", asked)).strip():
            rest = said
            for words in sorted(filter(None, labels + descriptions), key=len, reverse=True):
                rest = rest.replace(words, "")
            yield f"{' / '.join(labels)}\n{asked}".strip(), said, not rest.strip(" ,;\n")


class Waiting(NamedTuple):
    """Words in the queue, and where they stand."""

    text: str
    place: Place


class Queue:
    """What is typed while the agent works: what waits, and what was delivered without a record of its own yet.

    `enqueue` has the words. `remove` hands them to the running turn, and mostly no other record has them; newer
    versions write a `queued_command` attachment just before it. `dequeue` starts a turn with them, which a `user`
    record follows. `popAll` takes them back into the editor.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        self.dequeued: dict[str, Waiting] = {}
        self._delivered: set[str] = set()
        self._absorbed = 0

    def operate(self, operation: object, told: Waiting) -> Waiting | None:
        """One `queue-operation`; gives the words that reached the agent by it and by nothing else."""
        if operation == "enqueue" and told.text:
            self.waiting[told.text] = told
        elif operation == "popAll":
            self.waiting.clear()
        elif operation == "remove" and self._absorbed:
            self._absorbed -= 1
        elif operation in ("remove", "dequeue") and self.waiting:
            found = self.waiting.pop(
                told.text if told.text in self.waiting else next(iter(self.waiting))
            )
            if operation == "remove":
                self._delivered.add(found.text)
                return found
            if found.place.line != told.place.line - 1:  # what passes at once waited for nobody
                self.dequeued[found.text] = found
        return None

    def attach(self, told: Waiting) -> Waiting | None:
        """A message handed to the running turn: the words as they were typed, None if `remove` gave them already."""
        if told.text in self._delivered:
            self._delivered.remove(told.text)
            return None
        self._absorbed += told.text in self.waiting
        self._delivered.add(told.text)
        return self.waiting.pop(told.text, told)

    def is_delivered(self, text: str) -> bool:
        """Whether the turn `text` is only the second record of words already handed over; only the next turn can be."""
        is_second = text in self._delivered
        self._delivered.clear()
        return is_second

    def has_waited(self, text: str) -> bool:
        """Whether the turn `text` came out of the queue, where several messages may have become one turn."""
        found = [waiting for waiting in self.dequeued if waiting in text]
        for waiting in found:
            del self.dequeued[waiting]
        return bool(self.waiting.pop(text, None) or found)
