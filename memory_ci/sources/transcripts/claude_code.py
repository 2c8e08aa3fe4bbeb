"""Reader of Claude Code's session files: JSON Lines, as versions 1.0 to 2.1 write them.

Most records of `type: user` are not of a person: tool results, summaries, plans, skills, commands,
notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from msgspec.structs import replace

from memory_ci.records.event import MID_TURN, Actor, EventKind, Session, Severity
from memory_ci.sources.transcripts import prose, raw
from memory_ci.sources.transcripts.builder import Place, SessionBuilder, read_records, touched_paths
from memory_ci.sources.transcripts.prose import INTERRUPT, SUMMARY

Record = dict[str, Any]

IGNORED = frozenset(
    """agent-color agent-name agent-setting ai-title api-request api-request-blob api-request-shape
    atis-latch bridge-session content-replacement cost-state custom-title file-history-delta
    file-history-snapshot last-prompt mode permission-mode summary tag worktree-state""".split()
)
"""Record types without any message, call or result."""

MARKS = {
    "file-history-snapshot": "messageId",
    "summary": "leafUuid",
    "queue-operation": "operation",
    "last-prompt": "leafUuid",
} | dict.fromkeys(("user", "assistant", "system", "progress", "attachment"), "uuid")
"""By record type, a key that only Claude Code writes with it: by these a file is recognised."""

SNIFFED_LINES = 20

USER_REJECTED = "user-rejected"
"""The `toolDenialKind`, in newer versions, of a person; others are of rules and classifiers."""

SENDER_KEYS = ("turnOrigin", "origin", "promptSource")
"""The keys by which newer versions name the sender of a message."""

NOT_TYPED = (
    "isMeta",
    "isCompactSummary",
    "isVisibleInTranscriptOnly",
    "sourceToolUseID",
    "planContent",
)
"""The keys of a record that no person typed."""

OF_RESULTS = ("toolUseResult", "sourceToolAssistantUUID")
"""The keys of a record with a tool's result: without that result, its words are the tool's."""


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is a session file of Claude Code."""
    if not head.lstrip().startswith(b"{"):
        return False
    for line in head.split(b"\n")[:SNIFFED_LINES]:
        record = raw.fields(raw.decode(line))
        key = MARKS.get(raw.text(record, "type"))
        if key and record.get(key):
            return True
    # A first line that is longer than `head` cannot be decoded.
    is_cut_line = b"\n" not in head
    return is_cut_line and b'"parentUuid":' in head and b'"sessionId":' in head


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the sessions of a file; nearly always it is one.

    A record without a session's id belongs to the session of the record before it.
    """
    readers: dict[str, _Reader] = {}
    waiting: list[tuple[int, Record | None]] = []
    current: _Reader | None = None
    for number, record in read_records(stream):
        session_id = raw.text(record, "sessionId")
        if session_id and session_id not in readers:
            readers[session_id] = _Reader(session_id, name)
        current = readers.get(session_id, current)
        waiting.append((number, record))
        if current:
            current.add_records(waiting)
            waiting.clear()

    if waiting:  # no record names a session
        readers[""] = _Reader("", name)
        readers[""].add_records(waiting)
    for reader in readers.values():
        yield reader.build()


class _Reader(SessionBuilder):
    """The builder of one session.

    Attributes:
        calls: tool and files of each call, by its id.
        queue: the messages typed while the agent works.
        is_headless: whether a program runs the session.
        expects_summary: whether the next summary repeats a compaction that was already added.
        names_senders: whether any record of the session names its sender.
        unproved: indices of turns that count as a person's, but whose record names no sender.
        queued_events: indices of the events of queued messages, by their text.
    """

    def __init__(self, session_id: str, name: str) -> None:
        super().__init__("claude-code", "claude-code-jsonl", name, session_id)
        self.calls: dict[str, tuple[str | None, tuple[str, ...]]] = {}
        self.queue = Queue()
        self.is_headless = False
        self.expects_summary = False
        self.names_senders = False
        self.unproved: list[int] = []
        self.queued_events: dict[str, int] = {}

    def add_records(self, records: list[tuple[int, Record | None]]) -> None:
        """Add records with their line numbers."""
        for line, record in records:
            self.add_record(line, record)

    def add_record(self, line: int, record: Record | None) -> None:
        """Add one record of the file, None for a line that holds no object."""
        if record is None:
            self.bad_lines += 1
            return
        self.records += 1
        self.place = Place(line, raw.time(record, "timestamp"))
        branch = raw.text(record, "gitBranch")
        if branch and branch != "HEAD":
            self.branch = branch
        record_type = raw.text(record, "type")
        if handler := HANDLERS.get(record_type):
            handler(self, record)
        elif record_type not in IGNORED:
            self.count_unknown(record_type, "(none)")

    def build(self) -> Session:
        """Return the session, with the messages that are still in its queue.

        The file has no turn with these, but a person typed them. If the version names senders, or a
        program ran the session, a turn without a sender is not a person's.
        """
        for message in (*self.queue.dequeued.values(), *self.queue.waiting.values()):
            self._add_queued(message, is_person=not self.is_headless)
        if self.names_senders or self.is_headless:
            for index in self.unproved:
                self._mark_injected(index)
        return super().build()

    def _mark_injected(self, index: int) -> None:
        """Attribute an event to the tool: a later record shows that a program may have typed it."""
        self.events[index] = replace(self.events[index], actor="injected", labels=())

    def handle_user(self, record: Record) -> None:
        """Add a record of role user: results of tools, and texts that a person may have typed.

        Texts in the same record as a tool's result were typed while the tool ran.
        """
        if is_of_subagent(record):
            self._add_message(record, "subagent", record)
            return
        is_named = names_sender(record)
        self.is_headless = self.is_headless or is_headless(record)
        self.names_senders = self.names_senders or is_named

        texts: list[str] = []
        has_results = False
        for number, block in enumerate(blocks_of(record)):
            if block.get("type") == "tool_result":
                has_results = True
                self._add_result(record, block, "tool", uid_of(record, number))
            elif block.get("type") == "text":
                texts.append(raw.text(block, "text"))

        is_of_tool = not has_results and any(record.get(key) for key in OF_RESULTS)
        is_person = is_by_person(record) and not is_of_tool
        typed = self._split_typed(record, [text for text in texts if text], is_person=is_person)
        if not typed:
            return
        count_before = len(self.events)
        text = raw.join(typed, "\n\n")
        self._add_turn(text, uid_of(record, "t"), is_beside_result=has_results)
        if not is_named:
            self.unproved += range(count_before, len(self.events))

    def _split_typed(self, record: Record, texts: list[str], *, is_person: bool) -> list[str]:
        """Return the texts of a record that a person typed, and add all its other texts as events.

        One text that Claude Code wrote makes all texts of the record its own, except the arguments
        that a person typed behind a slash command.

        Args:
            record: the record.
            texts: the texts in it.
            is_person: whether its keys let a person be the sender.
        """
        is_of_tool = any(prose.is_injected(text) for text in texts)
        has_machine_lines = any(prose.has_machine_lines(prose.strip_asides(text)) for text in texts)
        is_proved = names_sender(record) or not has_machine_lines
        typed = []
        for number, text in enumerate(texts):
            if text.startswith(INTERRUPT):
                self.add_event("human", "interrupt", text, uid=uid_of(record, f"i{number}"))
                continue
            words = ""
            if is_person and is_of_tool:
                words = prose.command_arguments(text)
            elif is_person and is_proved:
                words = prose.strip_asides(text)
            if words:
                typed.append(words)
            elif text.strip():
                self._add_injected(record, text, number)
        return typed

    def _add_injected(self, record: Record, text: str, number: int) -> None:
        """Add a text that Claude Code wrote, as a compaction if it is the summary of one.

        A compaction that was already added is not added again for its summary.
        """
        self.queue.take_parts(text.strip())
        kind: EventKind = "text"
        if record.get("isCompactSummary") is True or text.startswith(SUMMARY):
            if not self.expects_summary:
                kind = "compaction"
            self.expects_summary = False
        self.add_event("injected", kind, text, uid=uid_of(record, f"n{number}"))

    def _add_turn(self, text: str, uid: str, *, is_beside_result: bool) -> None:
        """Add a person's turn, unless it is the second record of a message that was queued.

        A turn that was typed while the agent worked gets the label MID_TURN.
        """
        has_waited = self.queue.take_parts(text)
        if self.queue.is_delivered(text):
            return
        labels = (MID_TURN,) if has_waited or is_beside_result else ()
        self.add_event("human", "text", text, uid=uid, labels=labels)

    def handle_assistant(self, record: Record) -> None:
        """Add an agent's texts and its calls of tools; its thinking is left out."""
        self._add_message(record, "subagent" if is_of_subagent(record) else "agent", record)

    def handle_progress(self, record: Record) -> None:
        """Add a sub-agent's message, which comes as progress of the tool that runs it.

        Other progress is noise.
        """
        if raw.text(record, "data", "type") == "agent_progress":
            self._add_message(record, "subagent", raw.fields(record, "data", "message"))

    def _add_message(self, record: Record, actor: Actor, message: Record) -> None:
        """Add the texts, calls and results of a message, which is `record` or inside it."""
        for number, block in enumerate(blocks_of(message)):
            block_type = block.get("type")
            uid = uid_of(message, number)
            if block_type == "text":
                self.add_text(actor, raw.text(block, "text"), uid)
            elif block_type == "tool_use":
                self._add_call(block, actor, uid, raw.text(record, "cwd"))
            elif block_type == "tool_result":
                self._add_result(record, block, actor, uid)

    def _add_call(self, block: Record, actor: Actor, uid: str, cwd: str) -> None:
        arguments = raw.fields(block, "input")
        paths = touched_paths(arguments, "file_path", "notebook_path", "path", root=cwd)[:1]
        tool = raw.text(block, "name") or None
        self.calls[raw.text(block, "id")] = tool, paths
        text = raw.text(arguments, "command") or raw.encode(arguments)
        self.add_event(actor, "tool_call", text, uid=uid, tool=tool, paths=paths)

    def _add_result(self, record: Record, block: Record, actor: Actor, uid: str) -> None:
        """Add the result of a tool call, which may be that a person or a rule refused the call.

        A refusal is a person's only if the record says so by its `toolDenialKind`, because any
        program can print the text of one.
        """
        tool, paths = self.calls.get(raw.text(block, "tool_use_id"), (None, ()))
        text = raw.joined(block, "content")
        is_error = block.get("is_error") is True
        denial = raw.text(record, "toolDenialKind")

        if is_error and denial in ("", USER_REJECTED):
            reason = prose.find_rejection(text)
            if reason is not None:
                is_by_user = actor == "tool" and denial == USER_REJECTED
                self.add_event(
                    "human" if is_by_user else actor,
                    "rejection",
                    reason,
                    uid=uid,
                    tool=tool,
                    paths=paths,
                    ok=False,
                    severity="warn",
                )
                return

        severity: Severity | None = None
        if is_error and (denial or prose.DENIED.match(text)):
            severity = "warn"
        self.add_event(
            actor,
            "tool_result",
            text,
            uid=uid,
            tool=tool,
            paths=paths,
            ok=not is_error,
            severity=severity,
        )
        is_answered = tool == "AskUserQuestion" and actor == "tool" and not is_error
        if is_answered and not self.is_headless:
            self._add_answers(record)

    def _add_answers(self, record: Record) -> None:
        """Add the agent's questions and a person's answers to them as texts."""
        for number, answer in enumerate(list_answers(record)):
            self.add_event("agent", "text", answer.question, uid=uid_of(record, f"q{number}"))
            actor: Actor = "injected" if answer.is_of_options else "human"
            self.add_event(actor, "text", answer.text, uid=uid_of(record, f"a{number}"))

    def handle_system(self, record: Record) -> None:
        """Add a compaction; other notices of the tool do not matter."""
        if record.get("subtype") == "compact_boundary":
            self.expects_summary = True
            self.add_event(
                "system", "compaction", raw.text(record, "content"), uid=uid_of(record, 0)
            )

    def handle_pr_link(self, record: Record) -> None:
        """Note the number of a pull request that the session opened."""
        number = record.get("prNumber")
        if isinstance(number, int):
            self.pull_requests.append(number)

    def handle_queue_operation(self, record: Record) -> None:
        """Follow the queue of messages, and add a message without a record of its own."""
        text = raw.text(record, "content").strip()
        message = self.queue.apply_operation(record.get("operation"), Waiting(text, self.place))
        if message:
            self._add_queued(message, is_person=not self.is_headless)

    def handle_attachment(self, record: Record) -> None:
        """Add a message that was queued and is handed to the running turn by this record.

        If the queue already added the message, correct who sent it.
        """
        attached = raw.fields(record, "attachment")
        if attached.get("type") != "queued_command":
            return
        is_prompt = attached.get("commandMode", "prompt") == "prompt"
        is_prompt = is_prompt and not is_of_subagent(record)
        is_person = is_prompt and is_by_person(attached) and is_by_person(record)
        is_named = names_sender(attached) or names_sender(record)
        self.names_senders = self.names_senders or is_named

        text = raw.joined(attached, "prompt").strip()
        message = self.queue.take_attached(Waiting(text, self.place))
        if message:
            is_person = is_person and not self.is_headless
            self._add_queued(message, is_person=is_person, is_named=is_named)
        elif text in self.queued_events:
            index = self.queued_events.pop(text)
            if not is_person:
                self._mark_injected(index)
            elif is_named and index in self.unproved:
                self.unproved.remove(index)

    def _add_queued(self, message: Waiting, *, is_person: bool, is_named: bool = False) -> None:
        """Add a message that waited in the queue: a person's turn, or a text of Claude Code.

        Args:
            message: the message.
            is_person: whether its record lets a person be the sender.
            is_named: whether its record names the sender.
        """
        text, place = message
        words = ""
        typed = prose.strip_asides(text)
        if is_person and (is_named or not prose.has_machine_lines(typed)):
            words = prose.command_arguments(text) if prose.is_injected(text) else typed
        if not words:
            self.add_event("injected", "text", text, place)
            return
        self.queued_events[text] = len(self.events)
        if not is_named:
            self.unproved.append(len(self.events))
        self.add_event("human", "text", words, place, labels=(MID_TURN,))


HANDLERS = {
    "user": _Reader.handle_user,
    "assistant": _Reader.handle_assistant,
    "progress": _Reader.handle_progress,
    "system": _Reader.handle_system,
    "attachment": _Reader.handle_attachment,
    "queue-operation": _Reader.handle_queue_operation,
    "pr-link": _Reader.handle_pr_link,
}


def blocks_of(record: Record) -> list[Record]:
    """Return the blocks of the message in a record; plain text is one block."""
    content = raw.fields(record, "message").get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in raw.items(content) if isinstance(block, dict)]


def uid_of(record: Record, part: str | int) -> str:
    """Return an id of a part of a record, equal in all its copies; "" if the record has none."""
    uuid = raw.text(record, "uuid")
    return f"{uuid}:{part}" if uuid else ""


def is_set(record: Record, key: str) -> bool:
    """Return whether a key has any value but false, even one of an unknown type."""
    return record.get(key, False) is not False


def is_of_subagent(record: Record) -> bool:
    """Return whether a record is part of the work of an agent that another one started."""
    return is_set(record, "isSidechain") or is_set(record, "agentId")


def names_sender(record: Record) -> bool:
    """Return whether a record names its sender."""
    return any(key in record for key in SENDER_KEYS)


def is_by_person(record: Record) -> bool:
    """Return whether a person can be the sender of a record, by the keys that it has.

    Newer versions name the sender: `turnOrigin` (human, sdk, task_notification …), `origin.kind`
    (human, peer, task-notification, coordinator …), `promptSource` (typed, queued, system, sdk).
    All senders that the first two name must be human. The last counts only without these, for an
    app that a person types into has sdk there, too. A run of `claude -p` is a program's.
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
    """Return whether a program runs the session."""
    return record.get("turnOrigin") == "sdk" or raw.text(record, "entrypoint").startswith("sdk")


class Answer(NamedTuple):
    """An answer to a question that an agent asked by its tool.

    Attributes:
        question: the options and the question.
        text: the answer.
        is_of_options: whether the answer is made of options only: chosen by a person, but worded
            by the agent.
    """

    question: str
    text: str
    is_of_options: bool


def list_answers(record: Record) -> Iterator[Answer]:
    """Yield the answers in a record to the questions that an agent asked by its tool.

    An answer consists of labels and descriptions of options, or has words of the person as well.
    """
    result = raw.fields(record, "toolUseResult")
    for question in raw.items(result, "questions"):
        question_text = raw.text(question, "question")
        answer = raw.text(result, "answers", question_text)
        if not answer.strip():
            continue
        options = raw.items(question, "options")
        labels = [raw.text(option, "label") for option in options]
        wordings = labels + [raw.text(option, "description") for option in options]

        own_words = answer
        # The longest first: a label may be part of a description.
        for wording in sorted(wordings, key=len, reverse=True):
            if wording:
                own_words = own_words.replace(wording, "")
        yield Answer(
            question=f"{' / '.join(labels)}\n{question_text}".strip(),
            text=answer,
            is_of_options=not own_words.strip(" ,;\n"),
        )


class Waiting(NamedTuple):
    """A message in the queue, and where it was read."""

    text: str
    place: Place


class Queue:
    """The messages that are typed while the agent works.

    `enqueue` has the words. `remove` hands them to the running turn, and mostly no other record
    has them; newer versions write a `queued_command` attachment just before it. `dequeue` starts a
    turn with them, which a `user` record follows. `popAll` takes them back into the editor.

    Attributes:
        waiting: the messages that wait, by their text.
        dequeued: the messages that left the queue and whose turn was not read yet.
        _delivered: the texts of messages that reached the agent since the last turn.
        _expected_removals: how many `remove` operations follow an attachment.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        self.dequeued: dict[str, Waiting] = {}
        self._delivered: set[str] = set()
        self._expected_removals = 0

    def apply_operation(self, operation: object, message: Waiting) -> Waiting | None:
        """Follow one operation on the queue of messages that were typed while the agent worked.

        `enqueue` adds a message, `popAll` takes all back into the editor. `dequeue` starts a turn
        with one, and its record follows. `remove` hands one to the running turn, mostly without a
        record.

        Args:
            operation: the name of the operation.
            message: the message that the record of the operation names, with the record's place.

        Returns:
            The message that reached the agent by this operation and by nothing else, or None.
        """
        if operation == "enqueue" and message.text:
            self.waiting[message.text] = message
        elif operation == "popAll":
            self.waiting.clear()
        elif operation == "remove" and self._expected_removals:
            self._expected_removals -= 1
        elif operation in ("remove", "dequeue") and self.waiting:
            # A record without a known text is about the message that waits longest.
            oldest_text = next(iter(self.waiting))
            text = message.text if message.text in self.waiting else oldest_text
            removed = self.waiting.pop(text)
            if operation == "remove":
                self._delivered.add(removed.text)
                return removed
            # A message dequeued on the next line did not wait for the agent.
            if removed.place.line != message.place.line - 1:
                self.dequeued[removed.text] = removed
        return None

    def take_attached(self, message: Waiting) -> Waiting | None:
        """Take the message out of the queue that an attachment hands to the running turn.

        Newer versions write such an attachment just before the `remove` of the message, which is
        then passed over.

        Returns:
            The message as it was queued; None if a `remove` returned it before.
        """
        if message.text in self._delivered:
            self._delivered.remove(message.text)
            return None
        if message.text in self.waiting:
            self._expected_removals += 1
        self._delivered.add(message.text)
        return self.waiting.pop(message.text, message)

    def is_delivered(self, text: str) -> bool:
        """Return whether a turn repeats a message that has already reached the agent.

        Only the turn right after such a message can repeat it. So all are forgotten here.
        """
        is_second = text in self._delivered
        self._delivered.clear()
        return is_second

    def take_parts(self, text: str) -> bool:
        """Take the messages that a turn consists of out of the queue; return whether any did.

        Several messages may have become one turn.
        """
        dequeued_parts = [queued for queued in self.dequeued if queued in text]
        for part in dequeued_parts:
            del self.dequeued[part]
        message = self.waiting.pop(text, None)
        return bool(message or dequeued_parts)
