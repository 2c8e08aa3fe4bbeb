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
from memory_ci.sources.transcripts.builder import (
    Place,
    SessionBuilder,
    find_touched_paths,
    read_records,
)
from memory_ci.sources.transcripts.claude_code_queue import MessageQueue, QueuedMessage
from memory_ci.sources.transcripts.prose import INTERRUPT_BEGINNING, SUMMARY_BEGINNING

Record = dict[str, Any]

IGNORED_TYPES = frozenset(
    """agent-color agent-name agent-setting ai-title api-request api-request-blob api-request-shape
    atis-latch bridge-session content-replacement cost-state custom-title file-history-delta
    file-history-snapshot last-prompt mode permission-mode summary tag worktree-state""".split()
)
"""Record types without any message, call or result."""

KEY_BY_RECORD_TYPE = {
    "file-history-snapshot": "messageId",
    "summary": "leafUuid",
    "queue-operation": "operation",
    "last-prompt": "leafUuid",
} | dict.fromkeys(("user", "assistant", "system", "progress", "attachment"), "uuid")
"""A key that only Claude Code writes, by the type of a record: these tell its files from others."""

MAX_SNIFFED_LINES = 20

USER_REJECTED = "user-rejected"
"""The `toolDenialKind`, in newer versions, of a person; others are of rules and classifiers."""

SENDER_KEYS = ("turnOrigin", "origin", "promptSource")
"""The keys by which newer versions name the sender of a message."""

NOT_TYPED_KEYS = (
    "isMeta",
    "isCompactSummary",
    "isVisibleInTranscriptOnly",
    "sourceToolUseID",
    "planContent",
)
"""The keys of a record that no person typed."""

RESULT_KEYS = ("toolUseResult", "sourceToolAssistantUUID")
"""The keys of a record with a tool's result: without that result, its words are the tool's."""


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is a session file of Claude Code.

    One of its first records must have a type of Claude Code, and the key of that type.
    """
    if not head.lstrip().startswith(b"{"):
        return False
    for line in head.split(b"\n")[:MAX_SNIFFED_LINES]:
        record = raw.get_object(raw.decode(line))
        key = KEY_BY_RECORD_TYPE.get(raw.get_text(record, "type"))
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
    early_records: list[tuple[int, Record | None]] = []  # before the first with a session's id
    current_reader: _Reader | None = None
    for number, record in read_records(stream):
        session_id = raw.get_text(record, "sessionId")
        if session_id and session_id not in readers:
            readers[session_id] = _Reader(session_id, name)
        current_reader = readers.get(session_id, current_reader)
        early_records.append((number, record))
        if current_reader:
            current_reader.add_records(early_records)
            early_records.clear()

    if early_records:  # no record names a session
        readers[""] = _Reader("", name)
        readers[""].add_records(early_records)
    for reader in readers.values():
        yield reader.build()


class _Reader(SessionBuilder):
    """The builder of one session.

    Newer versions name the sender of each message of role user. In a session of an older version,
    such a message counts as a person's if nothing shows that a program wrote it. The version is
    known only when all records are read, so `build` corrects the turns without a named sender.

    Attributes:
        calls: tool and files of each call, by its id.
        queue: the messages that were typed while the agent worked.
        is_headless: whether a program runs the session.
        is_compaction_added: whether a compaction was added whose summary is still to come.
        has_named_sender: whether any record of the session names its sender.
        unproved_turn_indices: indices of the events that count as a person's so far, although no
            record names their sender.
        queued_event_indices: the index of the event of each queued message, by the message's text.
    """

    def __init__(self, session_id: str, name: str) -> None:
        super().__init__("claude-code", "claude-code-jsonl", name, session_id)
        self.calls: dict[str, ToolCall] = {}
        self.queue = MessageQueue()
        self.is_headless = False
        self.is_compaction_added = False
        self.has_named_sender = False
        self.unproved_turn_indices: list[int] = []
        self.queued_event_indices: dict[str, int] = {}

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
        self.place = Place(line, raw.get_time(record, "timestamp"))
        branch = raw.get_text(record, "gitBranch")
        if branch and branch != "HEAD":
            self.branch = branch
        record_type = raw.get_text(record, "type")
        if handler := HANDLERS.get(record_type):
            handler(self, record)
        elif record_type not in IGNORED_TYPES:
            self.count_unknown(record_type, "(none)")

    def build(self) -> Session:
        """Return the session, with the messages that are still in its queue.

        A person typed these, although the file has no turn with them. If this version of Claude
        Code names senders, or if a program ran the session, a turn without a named sender does not
        count as a person's.
        """
        for message in (*self.queue.dequeued.values(), *self.queue.waiting.values()):
            self._add_queued_message(message, may_be_person=not self.is_headless)
        if self.has_named_sender or self.is_headless:
            for index in self.unproved_turn_indices:
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
        has_named_sender = names_sender(record)
        self.is_headless = self.is_headless or is_headless(record)
        self.has_named_sender = self.has_named_sender or has_named_sender

        texts: list[str] = []
        has_results = False
        for number, block in enumerate(list_blocks(record)):
            if block.get("type") == "tool_result":
                has_results = True
                self._add_result(record, block, "tool", make_uid(record, number))
            elif block.get("type") == "text":
                text = raw.get_text(block, "text")
                if text:
                    texts.append(text)

        # Without the result itself, the words in a record with a result's keys are the tool's.
        is_of_tool = not has_results and any(record.get(key) for key in RESULT_KEYS)
        may_be_person = may_be_by_person(record) and not is_of_tool
        typed_texts = self._add_injected_texts(record, texts, may_be_person=may_be_person)
        if not typed_texts:
            return
        turn_index = len(self.events)
        typed_text = raw.join_parts(typed_texts, "\n\n")
        self._add_turn(typed_text, make_uid(record, "t"), is_beside_result=has_results)
        was_added = len(self.events) > turn_index
        if was_added and not has_named_sender:
            self.unproved_turn_indices.append(turn_index)

    def _add_injected_texts(
        self, record: Record, texts: list[str], *, may_be_person: bool
    ) -> list[str]:
        """Add all texts of a record as events but those that a person typed; return the latter.

        If Claude Code wrote one text of a record, it wrote all of them. Then a person typed only
        the arguments behind a slash command. Lines that look like a program's output make the
        record a program's, unless it names a person as its sender.

        Args:
            record: the record.
            texts: the texts in it.
            may_be_person: whether the record's keys allow that a person is the sender.
        """
        is_by_program = any(prose.is_injected(text) for text in texts)
        has_machine_lines = any(prose.has_machine_lines(prose.strip_asides(text)) for text in texts)
        is_person = may_be_person and (names_sender(record) or not has_machine_lines)
        typed_texts = []
        for number, text in enumerate(texts):
            if text.startswith(INTERRUPT_BEGINNING):
                self.add_event("human", "interrupt", text, uid=make_uid(record, f"i{number}"))
                continue
            words = ""
            if is_by_program and may_be_person:
                words = prose.get_command_arguments(text)
            elif is_person:
                words = prose.strip_asides(text)
            if words:
                typed_texts.append(words)
            elif text.strip():
                self._add_injected(record, text, number)
        return typed_texts

    def _add_injected(self, record: Record, text: str, number: int) -> None:
        """Add a text that Claude Code wrote: a compaction if it is a summary of the session.

        If the compaction has a record of its own, it was added with that. Then its summary is added
        as a text.
        """
        self.queue.take_messages_in(text.strip())
        kind: EventKind = "text"
        if record.get("isCompactSummary") is True or text.startswith(SUMMARY_BEGINNING):
            if not self.is_compaction_added:
                kind = "compaction"
            self.is_compaction_added = False
        self.add_event("injected", kind, text, uid=make_uid(record, f"n{number}"))

    def _add_turn(self, text: str, uid: str, *, is_beside_result: bool) -> None:
        """Add a person's turn, unless a queued message with its text was already added.

        A turn that was typed while the agent worked gets the label MID_TURN.

        Args:
            text: the text of the turn.
            uid: the id of its event.
            is_beside_result: whether its record has a tool's result, too: it was typed while the
                tool ran.
        """
        was_queued = self.queue.take_messages_in(text)
        is_repetition = self.queue.was_delivered(text)
        self.queue.forget_delivered()
        if is_repetition:
            return
        labels = (MID_TURN,) if was_queued or is_beside_result else ()
        self.add_event("human", "text", text, uid=uid, labels=labels)

    def handle_assistant(self, record: Record) -> None:
        """Add an agent's texts and its calls of tools; its thinking is left out."""
        self._add_message(record, "subagent" if is_of_subagent(record) else "agent", record)

    def handle_progress(self, record: Record) -> None:
        """Add a sub-agent's message, which comes as progress of the tool that runs it.

        Other progress is noise.
        """
        if raw.get_text(record, "data", "type") == "agent_progress":
            self._add_message(record, "subagent", raw.get_object(record, "data", "message"))

    def _add_message(self, record: Record, actor: Actor, message: Record) -> None:
        """Add the texts, calls and results of a message, which is `record` or inside it."""
        for number, block in enumerate(list_blocks(message)):
            block_type = block.get("type")
            uid = make_uid(message, number)
            if block_type == "text":
                self.add_text(actor, raw.get_text(block, "text"), uid)
            elif block_type == "tool_use":
                self._add_call(block, actor, uid, raw.get_text(record, "cwd"))
            elif block_type == "tool_result":
                self._add_result(record, block, actor, uid)

    def _add_call(self, block: Record, actor: Actor, uid: str, cwd: str) -> None:
        arguments = raw.get_object(block, "input")
        paths = find_touched_paths(arguments, "file_path", "notebook_path", "path", root=cwd)[:1]
        tool = raw.get_text(block, "name") or None
        self.calls[raw.get_text(block, "id")] = ToolCall(tool, paths)
        text = raw.get_text(arguments, "command") or raw.encode(arguments)
        self.add_event(actor, "tool_call", text, uid=uid, tool=tool, paths=paths)

    def _add_result(self, record: Record, block: Record, actor: Actor, uid: str) -> None:
        """Add the result of a tool call, which may be that a person or a rule refused the call.

        A refusal is a person's only if the record says so by its `toolDenialKind`, because any
        program can print the text of one.
        """
        tool, paths = self.calls.get(raw.get_text(block, "tool_use_id"), ToolCall(None, ()))
        text = raw.get_joined_text(block, "content")
        is_error = block.get("is_error") is True
        denial = raw.get_text(record, "toolDenialKind")

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
        if is_error and (denial or prose.RULE_DENIAL.match(text)):
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
            self.add_event("agent", "text", answer.question, uid=make_uid(record, f"q{number}"))
            actor: Actor = "injected" if answer.is_worded_by_agent else "human"
            self.add_event(actor, "text", answer.text, uid=make_uid(record, f"a{number}"))

    def handle_system(self, record: Record) -> None:
        """Add a compaction; other notices of the tool do not matter."""
        if record.get("subtype") == "compact_boundary":
            self.is_compaction_added = True
            self.add_event(
                "system", "compaction", raw.get_text(record, "content"), uid=make_uid(record, 0)
            )

    def handle_pr_link(self, record: Record) -> None:
        """Note the number of a pull request that the session opened."""
        number = record.get("prNumber")
        if isinstance(number, int):
            self.pull_requests.append(number)

    def handle_queue_operation(self, record: Record) -> None:
        """Apply an operation on the queue, and add a message that reached the agent by it."""
        text = raw.get_text(record, "content").strip()
        message = QueuedMessage(text, self.place)
        delivered = self.queue.apply_operation(record.get("operation"), message)
        if delivered:
            self._add_queued_message(delivered, may_be_person=not self.is_headless)

    def handle_attachment(self, record: Record) -> None:
        """Add a queued message that this record hands to the running turn.

        If the event of the message was added before, this record may show who sent it. If that was
        a program, the event is corrected. If it names a person, the event stays a person's whatever
        `build` finds.
        """
        attached = raw.get_object(record, "attachment")
        if attached.get("type") != "queued_command":
            return
        is_prompt = attached.get("commandMode", "prompt") == "prompt"
        keys_allow_person = may_be_by_person(attached) and may_be_by_person(record)
        may_be_person = is_prompt and keys_allow_person and not is_of_subagent(record)
        has_named_sender = names_sender(attached) or names_sender(record)
        self.has_named_sender = self.has_named_sender or has_named_sender

        text = raw.get_joined_text(attached, "prompt").strip()
        message = self.queue.take_attached(QueuedMessage(text, self.place))
        if message:
            self._add_queued_message(
                message,
                may_be_person=may_be_person and not self.is_headless,
                has_named_sender=has_named_sender,
            )
        elif text in self.queued_event_indices:
            index = self.queued_event_indices.pop(text)
            if not may_be_person:
                self._mark_injected(index)
            elif has_named_sender and index in self.unproved_turn_indices:
                self.unproved_turn_indices.remove(index)

    def _add_queued_message(
        self, message: QueuedMessage, *, may_be_person: bool, has_named_sender: bool = False
    ) -> None:
        """Add a message that waited in the queue as a person's turn, or as a program's text.

        Without a named sender, a message with lines like a program's output counts as a program's.

        Args:
            message: the message.
            may_be_person: whether the keys of its record allow that a person is the sender.
            has_named_sender: whether its record names the sender.
        """
        text, place = message
        typed_text = prose.strip_asides(text)
        words = prose.get_command_arguments(text) if prose.is_injected(text) else typed_text
        has_proof = has_named_sender or not prose.has_machine_lines(typed_text)
        if not words or not may_be_person or not has_proof:
            self.add_event("injected", "text", text, place)
            return
        self.queued_event_indices[text] = len(self.events)
        if not has_named_sender:
            self.unproved_turn_indices.append(len(self.events))
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


def list_blocks(record: Record) -> list[Record]:
    """Return the blocks of the message in a record; plain text is one block."""
    content = raw.get_object(record, "message").get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in raw.get_list(content) if isinstance(block, dict)]


def make_uid(record: Record, part: str | int) -> str:
    """Return an id of a part of a record, equal in all its copies; "" if the record has none."""
    uuid = raw.get_text(record, "uuid")
    return f"{uuid}:{part}" if uuid else ""


def has_value(record: Record, key: str) -> bool:
    """Return whether a record has a key with any value but false, even one of an unknown type."""
    return record.get(key, False) is not False


def is_of_subagent(record: Record) -> bool:
    """Return whether a record is part of the work of an agent that another one started."""
    return has_value(record, "isSidechain") or has_value(record, "agentId")


def names_sender(record: Record) -> bool:
    """Return whether a record names its sender."""
    return any(key in record for key in SENDER_KEYS)


def may_be_by_person(record: Record) -> bool:
    """Return whether the keys of a record allow that a person is its sender.

    Newer versions name the sender by three keys: `turnOrigin` (human, sdk, task_notification …),
    `origin.kind` (human, peer, task-notification, coordinator …), and `promptSource` (typed,
    queued, system, sdk). If a record has one or both of the first two keys, all must be human. Only
    a record without them is judged by `promptSource`, because that is sdk also in an app that a
    person types into. A run of `claude -p` is a program's.
    """
    if any(has_value(record, key) for key in NOT_TYPED_KEYS):
        return False
    if raw.get_object(record, "message").get("role", "user") != "user":
        return False
    senders = []
    if "turnOrigin" in record:
        senders.append(record["turnOrigin"])
    if "origin" in record:
        senders.append(raw.get_object(record, "origin").get("kind"))
    if senders:
        return all(sender == "human" for sender in senders)
    return record.get("promptSource", "typed") in ("typed", "queued") and not is_headless(record)


def is_headless(record: Record) -> bool:
    """Return whether a program runs the session."""
    return record.get("turnOrigin") == "sdk" or raw.get_text(record, "entrypoint").startswith("sdk")


class Answer(NamedTuple):
    """An answer to a question that an agent asked by its tool.

    Attributes:
        question: the options and the question.
        text: the answer.
        is_worded_by_agent: whether the answer is made of options only: chosen by a person, but
            worded by the agent.
    """

    question: str
    text: str
    is_worded_by_agent: bool


def list_answers(record: Record) -> Iterator[Answer]:
    """Yield the answers in a record to the questions that an agent asked by its tool.

    An answer consists of labels and descriptions of options, or has words of the person as well.
    The labels come before the question, so that the question is last before its answer.
    """
    result = raw.get_object(record, "toolUseResult")
    for question in raw.get_list(result, "questions"):
        question_text = raw.get_text(question, "question")
        answer = raw.get_text(result, "answers", question_text)
        if not answer.strip():
            continue
        options = raw.get_list(question, "options")
        labels = [raw.get_text(option, "label") for option in options]
        wordings = labels + [raw.get_text(option, "description") for option in options]

        own_words = answer
        # The longest first: a label may be part of a description.
        for wording in sorted(wordings, key=len, reverse=True):
            if wording:
                own_words = own_words.replace(wording, "")
        yield Answer(
            question=f"{' / '.join(labels)}\n{question_text}".strip(),
            text=answer,
            is_worded_by_agent=not own_words.strip(" ,;\n"),
        )


class ToolCall(NamedTuple):
    """The tool and the files of a call, for its result."""

    tool: str | None
    paths: tuple[str, ...]
