"""Reader of the session files of Codex (rollouts), one JSON record a line.

The old form has bare items, the new one `type` and `payload`. Facts from the public source of Codex
and from a file that version 0.169 wrote: messages to the model are `response_item` records, where
role user is also AGENTS.md, the environment and other text that nobody typed. A person's words are
in `event_msg` records as well (`user_message`, or an `item_completed` UserMessage since histories
are paginated). Only such an event proves that a person typed a text. The old form has no events;
there Codex injects only texts with known beginnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from memory_ci.records.event import MID_TURN, Session
from memory_ci.regex import Regex
from memory_ci.sources.agent_events import PATCHED_FILE
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Place,
    SessionBuilder,
    make_relative_paths,
    read_objects,
)
from memory_ci.sources.transcripts.prose import (
    IDE_CONTEXT,
    IDE_REQUEST,
    is_codex_wrapper,
    looks_program_written,
)

IGNORED_TYPES = frozenset(
    """session_meta turn_context world_state token_usage_record state event_msg/token_count
    event_msg/agent_message event_msg/agent_reasoning event_msg/agent_reasoning_raw_content
    event_msg/agent_reasoning_section_break event_msg/thread_settings_applied
    event_msg/exec_command_begin event_msg/exec_command_end event_msg/patch_apply_begin
    event_msg/patch_apply_end event_msg/mcp_tool_call_begin event_msg/mcp_tool_call_end
    event_msg/web_search_begin event_msg/web_search_end event_msg/context_compacted
    event_msg/item_started event_msg/item_completed event_msg/entered_review_mode
    event_msg/exited_review_mode event_msg/turn_diff event_msg/plan_update event_msg/error
    event_msg/warning event_msg/stream_error response_item/reasoning response_item/compaction
    response_item/compaction_summary response_item/context_compaction""".split()
)
"""Types of records that only repeat other records, or hold nothing to learn from."""

INPUT_KEY_BY_CALL_TYPE = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "web_search_call": "action",
}
"""The key of the input of a call, by the type of the call."""

OUTPUT_TYPES = frozenset({"function_call_output", "custom_tool_call_output"})
TURN_STARTS = frozenset({"task_started", "turn_started"})
TURN_ENDS = frozenset({"task_complete", "turn_complete"})
ABORT_MARKER = "<turn_aborted>"

REFUSED_OUTPUTS = frozenset(
    {"exec command rejected by user", "patch rejected by user", "rejected by user"}
)
"""The whole output of a call that a person refused; a guardian's refusal has another wording.

Codex records no reason.
"""

EXIT_CODE = Regex(r"^(?:Exit code:|Process exited with code) (-?\d+)$", re.MULTILINE)
FAILURE_BEGINNINGS = (
    "execution error:",
    "failed in sandbox",
    "aborted",
    "apply_patch verification failed",
    "This action was rejected",
)


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is a rollout of Codex, in either form."""
    lines = head.lstrip().split(b"\n")
    if len(lines) == 1 and b'"type":"session_meta"' in head and b'"payload":{' in head:
        return True  # one line, longer than the head
    return any(_is_record(raw.get_object(raw.decode(line))) for line in lines[:5])


def _is_record(record: dict[str, Any]) -> bool:
    """Return whether an object is a record of the new form, or the header of the old form."""
    if isinstance(record.get("payload"), dict):
        return record.get("type") in ("session_meta", "response_item", "event_msg", "turn_context")
    return {"id", "timestamp", "instructions"} <= record.keys() and "type" not in record


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the one session of a rollout file; `Origin.line` is the line of its record."""
    reader = _Reader(name)
    for record in read_objects(stream, reader):
        reader.add_record(record)
    yield reader.build()


class _Reader(SessionBuilder):
    """The builder of the session of one file.

    Attributes:
        unconfirmed_messages: place and text of the messages of role user that wait for an event,
            which proves that a person typed them.
        confirmed_texts: texts that an event proved to be typed, and whose message of role user was
            not read yet.
        confirming_form: the form of the first event that proved a text to be typed: "item" for
            `item_completed`, "event" for `user_message`. A file may have each event in both forms,
            so events of the other form are skipped.
        has_header: whether the header was read.
        is_in_turn: whether a turn has begun.
        is_working: whether the agent has begun to work in this turn.
    """

    def __init__(self, name: str) -> None:
        super().__init__("codex", "codex-rollout", name)
        self.unconfirmed_messages: list[tuple[Place, str]] = []
        self.confirmed_texts: list[str] = []
        self.confirming_form = ""
        self.has_header = False
        self.is_in_turn = False
        self.is_working = False

    def add_record(self, record: dict[str, Any]) -> None:
        """Add one record of the file: a header, a message, a call, an event or a compaction."""
        record_type = raw.get_text(record, "type")
        payload = raw.get_object(record, "payload")
        if not isinstance(record.get("payload"), dict):
            self._handle_old_form(record_type, record)
        elif record_type == "session_meta":
            self._read_header(payload)
        elif record_type == "response_item":
            self._handle_item(payload, is_old=False)
        elif record_type == "event_msg":
            self._handle_event(payload)
        elif record_type == "compacted":
            self._add_unconfirmed_as_injected()
            self.add_event("injected", "compaction", raw.get_text(payload, "message"))
        elif record_type not in IGNORED_TYPES:
            self.count_unknown(record_type)

    def _handle_old_form(self, record_type: str, record: dict[str, Any]) -> None:
        """Add a record of the old form, which has no `payload`.

        A record without a type is the header if it has an id.
        """
        if record_type:
            self._handle_item(record, is_old=True)
        elif "id" in record:
            self._read_header(record)
        elif record.get("record_type") != "state":
            self.count_unknown("")

    def build(self) -> Session:
        """Return the session."""
        self._add_unconfirmed_as_injected()
        return super().build()

    def _read_header(self, header: dict[str, Any]) -> None:
        """Read id, directory and branch from the first header, and who gives the prompts.

        Later headers belong to the sessions that this one was forked from.
        """
        if self.has_header:
            return
        self.has_header = True
        self.id = raw.get_text(header, "id") or self.id
        self.root = raw.get_text(header, "cwd")
        self.branch = raw.get_text(header, "git", "branch")

        thread_source = header.get("thread_source")
        is_of_user = thread_source is None or thread_source == "user"
        if isinstance(header.get("source"), dict) or not is_of_user:
            # Another agent, a review or an approval by a model started the session.
            self.user_actor = "subagent"
            self.agent_actor = "subagent"
        elif header.get("source") == "exec":
            self.user_actor = "injected"  # `codex exec`: a script may have written the prompt

    def _handle_event(self, payload: dict[str, Any]) -> None:
        """Handle an event: a typed message, the begin or end of a turn, an abort or a rollback."""
        event_type = raw.get_text(payload, "type")
        item = raw.get_object(payload, "item") if event_type == "item_completed" else {}
        if event_type == "user_message" or item.get("type") == "UserMessage":
            self._add_confirmed_message(payload, item)
        elif event_type in TURN_STARTS | TURN_ENDS:
            self._add_unconfirmed_as_injected()
            self.is_in_turn = event_type in TURN_STARTS
            self.is_working = False
        elif event_type == "turn_aborted":
            self.is_in_turn = False
            self.is_working = False
            if payload.get("reason") in (None, "interrupted"):
                self._add_interrupt()
        elif event_type == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"))
        elif f"event_msg/{event_type}" not in IGNORED_TYPES:
            self.count_unknown(f"event_msg/{event_type}")

    def _roll_back(self, turns: object) -> None:
        """Remove the last turns, which a person took back, and add an interrupt.

        The interrupt is added even if no turn is known, because the person did stop the agent.

        Args:
            turns: how many turns, as the record has it.
        """
        self._add_unconfirmed_as_injected()
        turn_starts = [
            index
            for index, event in enumerate(self.events)
            if event.actor == self.user_actor and event.kind == "text"
        ]
        if isinstance(turns, int) and turns > 0 and turn_starts:
            first_removed = turn_starts[-min(turns, len(turn_starts))]
            del self.events[first_removed:]
        self.add_event(self.user_actor, "interrupt", labels=(("via", "rollback"),))

    def _add_confirmed_message(self, payload: dict[str, Any], item: dict[str, Any]) -> None:
        """Add a message from an event, which proves that a person typed it.

        Codex records the text a second time as a message of role user, before or after the event.
        That copy is left out. If a file has events in two forms, those of the second form repeat
        the others.

        Args:
            payload: the payload of the event.
            item: the item in the payload, empty for the older form of event.
        """
        if item:
            form = "item"
            text = raw.get_joined_text(item, "content")
        else:
            form = "event"
            text = raw.get_text(payload, "message")
        if not self.confirming_form:
            self.confirming_form = form
        if form != self.confirming_form or not text.strip():
            return

        for place, message_text in self.unconfirmed_messages:
            if text in message_text:
                self.unconfirmed_messages.remove((place, message_text))
                break
        else:
            self.confirmed_texts.append(text)

        if text.lstrip().startswith(ABORT_MARKER):
            self._add_interrupt()
        elif is_codex_wrapper(text) or payload.get("kind", "plain") != "plain":
            self.add_event("injected", "text", text)
        else:
            self._add_typed_text(text, raw.get_text(item, "id"))

    def _add_typed_text(self, text: str, uid: str = "") -> None:
        """Add the part of a text that a person typed, without an editor's context before it.

        A text typed while the agent worked gets the label MID_TURN.
        """
        if text.startswith(IDE_CONTEXT):
            text = text.partition(IDE_REQUEST)[2].strip()
        if looks_program_written(text):
            self.add_event("injected", "text", text, uid=uid)
            return
        is_mid_turn = self.is_in_turn and self.is_working and self.user_actor == "human"
        labels = (MID_TURN,) if is_mid_turn else ()
        self.add_event(self.user_actor, "text", text, uid=uid, labels=labels)

    def _add_interrupt(self) -> None:
        """Add an interruption once: an event and a marker of role user record the same one."""
        if not self.events or self.events[-1].kind != "interrupt":
            self.add_event(self.user_actor, "interrupt")

    def _handle_item(self, item: dict[str, Any], *, is_old: bool) -> None:
        """Add a message, a tool call or the output of a call, as the model's API exchanged it."""
        item_type = raw.get_text(item, "type")
        if item_type == "message":
            self._handle_message(item, raw.get_joined_text(item, "content"), is_old=is_old)
        elif item_type in INPUT_KEY_BY_CALL_TYPE:
            self._add_call(item_type, item)
        elif item_type in OUTPUT_TYPES:
            self._add_output(item)
        elif f"response_item/{item_type}" not in IGNORED_TYPES:
            self.count_unknown(f"response_item/{item_type}")

    def _add_call(self, item_type: str, item: dict[str, Any]) -> None:
        self._start_work()
        arguments = item.get(INPUT_KEY_BY_CALL_TYPE[item_type])
        text = arguments if isinstance(arguments, str) else raw.encode(arguments)
        paths = make_relative_paths(PATCHED_FILE.findall(text.replace("\\n", "\n")), self.root)
        tool = raw.get_text(item, "name") or item_type.removesuffix("_call")
        self.add_call(self.agent_actor, text, raw.get_text(item, "call_id"), tool, paths)

    def _add_output(self, item: dict[str, Any]) -> None:
        """Add the output of a call: a tool's result, or that the person refused the call.

        In a session that another agent or a script started, nobody could refuse a call.
        """
        uid = raw.get_text(item, "call_id")
        tool = self.tools.get(uid)
        output = read_output(item.get("output"))
        is_refused = output.text.strip() in REFUSED_OUTPUTS
        if is_refused and self.user_actor == "human":
            self.add_event("human", "rejection", uid=uid, tool=tool, ok=False)
        else:
            self.add_event("tool", "tool_result", output.text, uid=uid, tool=tool, ok=output.ok)

    def _handle_message(self, item: dict[str, Any], text: str, *, is_old: bool) -> None:
        """Add a message by its role: user, assistant, or one of Codex itself (developer)."""
        if not text:
            return
        if item.get("role") == "user":
            self._handle_user_message(text, is_old=is_old)
        elif item.get("role") == "assistant":
            self._start_work()
            self.add_event(self.agent_actor, "text", text, uid=raw.get_text(item, "id"))
        else:
            self.add_event("injected", "text", text, uid=raw.get_text(item, "id"))

    def _handle_user_message(self, text: str, *, is_old: bool) -> None:
        """Add a message of role user if Codex wrote it, else wait for proof that a person typed it.

        A `user_message` event or a UserMessage item is the proof. If it came before this message,
        the text was added then, and the message is left out. The old form of the file has no such
        events: there each text counts as typed.
        """
        if text.lstrip().startswith(ABORT_MARKER):
            self._add_interrupt()
            return
        if is_codex_wrapper(text):
            self.add_event("injected", "text", text)
            return
        if is_old:
            self._add_typed_text(text)
            return
        for confirmed_text in self.confirmed_texts:
            if confirmed_text in text:
                self.confirmed_texts.remove(confirmed_text)
                return
        self.unconfirmed_messages.append((self.place, text))

    def _start_work(self) -> None:
        self._add_unconfirmed_as_injected()
        self.is_working = True

    def _add_unconfirmed_as_injected(self) -> None:
        """Add the messages that no event proved to be typed as texts that Codex wrote.

        The proof comes before the agent works, so both lists are cleared.
        """
        for place, text in self.unconfirmed_messages:
            self.add_event("injected", "text", text, place)
        self.unconfirmed_messages = []
        self.confirmed_texts = []


class ToolOutput(NamedTuple):
    """The text of a tool's output, and whether the tool succeeded, None if unknown."""

    text: str
    ok: bool | None


def read_output(output: object) -> ToolOutput:
    """Return the text of a tool's output, and whether the tool succeeded.

    The output is a text, a list of parts, or an object (as such or as JSON in a text).
    """
    if isinstance(output, str) and output.startswith("{"):
        output = raw.get_object(raw.decode(output.encode(errors="replace"))) or output
    output_object = raw.get_object(output)
    content = output
    if output_object:
        content = output_object.get("output", output_object.get("content"))
    text = raw.get_joined_text(content)
    return ToolOutput(text, _is_success(output_object, text))


def _is_success(output_object: dict[str, Any], text: str) -> bool | None:
    """Return whether a tool succeeded, by the fields or the text of its output; or None."""
    exit_code = raw.get_value(output_object, "metadata", "exit_code")
    if isinstance(exit_code, int):
        return exit_code == 0
    success = output_object.get("success")
    if isinstance(success, bool):
        return success
    if match := EXIT_CODE.search(text):
        return match[1] == "0"
    return False if text.startswith(FAILURE_BEGINNINGS) else None
