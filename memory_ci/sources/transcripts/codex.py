"""Reader of the session files of Codex (rollouts), one JSON record a line.

The old form has bare items, the new one `type` and `payload`. Facts from the public source of Codex
and from a file that version 0.169 wrote: messages to the model are `response_item` records, where
role user is also AGENTS.md, the environment and other text that nobody typed. A person's words are
in `event_msg` records as well (`user_message`, or an `item_completed` UserMessage since histories
are paginated). Only the latter is proof. The old form has no events, and injects only the wrappers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import MID_TURN, Session
from memory_ci.regex import Regex
from memory_ci.sources.agent_events import PATCHED
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Place,
    SessionBuilder,
    read_objects,
    relative_paths,
)
from memory_ci.sources.transcripts.prose import (
    IDE_CONTEXT,
    IDE_REQUEST,
    is_codex_wrapper,
    is_envelope,
)

IGNORED = frozenset(
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

CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "web_search_call": "action",
}
"""By the type of a call, the key of its input."""

OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
STARTS = frozenset({"task_started", "turn_started"})
ENDS = frozenset({"task_complete", "turn_complete"})
ABORTED = "<turn_aborted>"

REJECTED = frozenset(
    {"exec command rejected by user", "patch rejected by user", "rejected by user"}
)
"""The whole output of a call that a person refused; a guardian's refusal has another wording.

Codex records no reason.
"""

EXIT_CODE = Regex(r"^(?:Exit code:|Process exited with code) (-?\d+)$", re.MULTILINE)
FAILED = (
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
    return any(_is_record(raw.fields(raw.decode(line))) for line in lines[:5])


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
        unproved: place and text of messages of role user that no event proved to be typed yet.
        proved: texts proved to be typed whose copy of role user was not read yet.
        proof_form: the form of the events that prove that a text was typed, "item" or "event"; an
            event of the other form repeats an event of this form.
        has_meta: whether the header was read.
        is_in_turn: whether a turn has begun.
        is_busy: whether the agent works in this turn.
    """

    def __init__(self, name: str) -> None:
        super().__init__("codex", "codex-rollout", name)
        self.unproved: list[tuple[Place, str]] = []
        self.proved: list[str] = []
        self.proof_form = ""
        self.has_meta = False
        self.is_in_turn = False
        self.is_busy = False

    def add_record(self, record: dict[str, Any]) -> None:
        """Add one record of the file: a header, a message, a call, an event or a compaction."""
        record_type = raw.text(record, "type")
        payload = raw.fields(record, "payload")
        if not isinstance(record.get("payload"), dict):
            self._handle_old_form(record_type, record)
        elif record_type == "session_meta":
            self._read_meta(payload)
        elif record_type == "response_item":
            self._handle_item(payload, is_old=False)
        elif record_type == "event_msg":
            self._handle_event(payload)
        elif record_type == "compacted":
            self._add_unproved()
            self.add_event("injected", "compaction", raw.text(payload, "message"))
        elif record_type not in IGNORED:
            self.count_unknown(record_type)

    def _handle_old_form(self, record_type: str, record: dict[str, Any]) -> None:
        """Add a record of the form before `payload`; only its header has an id and no type."""
        if record_type:
            self._handle_item(record, is_old=True)
        elif "id" in record:
            self._read_meta(record)
        elif record.get("record_type") != "state":
            self.count_unknown("")

    def build(self) -> Session:
        """Return the session."""
        self._add_unproved()
        return super().build()

    def _read_meta(self, meta: dict[str, Any]) -> None:
        """Read id, directory and branch from the first header, and who gives the prompts.

        The headers after it are those of the sessions that this one was forked from.
        """
        if self.has_meta:
            return
        self.has_meta = True
        self.id = raw.text(meta, "id") or self.id
        self.root = raw.text(meta, "cwd")
        self.branch = raw.text(meta, "git", "branch")

        thread_source = meta.get("thread_source")
        is_of_user = thread_source is None or thread_source == "user"
        if isinstance(meta.get("source"), dict) or not is_of_user:
            # Another agent, a review or an approval by a model started the session.
            self.person = "subagent"
            self.worker = "subagent"
        elif meta.get("source") == "exec":
            self.person = "injected"  # `codex exec`: a script may have written the prompt

    def _handle_event(self, payload: dict[str, Any]) -> None:
        """Handle an event: a typed message, the begin or end of a turn, an abort or a rollback."""
        event_type = raw.text(payload, "type")
        item = raw.fields(payload, "item") if event_type == "item_completed" else {}
        if event_type == "user_message" or item.get("type") == "UserMessage":
            self._add_proved(payload, item)
        elif event_type in STARTS | ENDS:
            self._add_unproved()
            self.is_in_turn = event_type in STARTS
            self.is_busy = False
        elif event_type == "turn_aborted":
            self.is_in_turn = False
            self.is_busy = False
            if payload.get("reason") in (None, "interrupted"):
                self._add_interrupt()
        elif event_type == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"))
        elif f"event_msg/{event_type}" not in IGNORED:
            self.count_unknown(f"event_msg/{event_type}")

    def _roll_back(self, turns: object) -> None:
        """Remove the last turns, which a person took back, and add an interrupt in their place.

        Args:
            turns: how many turns, as the record has it.
        """
        self._add_unproved()
        turn_starts = [
            index
            for index, event in enumerate(self.events)
            if event.actor == self.person and event.kind == "text"
        ]
        if isinstance(turns, int) and turns > 0 and turn_starts:
            first_removed = turn_starts[-min(turns, len(turn_starts))]
            del self.events[first_removed:]
        self.add_event(self.person, "interrupt", labels=(("via", "rollback"),))

    def _add_proved(self, payload: dict[str, Any], item: dict[str, Any]) -> None:
        """Add a message that an event proves to be typed by the person.

        Codex records it a second time as a message of role user, before or after the event. That
        copy is left out.

        Args:
            payload: the payload of the event.
            item: the item in the payload, empty for the older form of event.
        """
        form = "item" if item else "event"
        self.proof_form = self.proof_form or form
        text = raw.joined(item, "content") if item else raw.text(payload, "message")
        if form != self.proof_form or not text.strip():
            return

        for place, message_text in self.unproved:
            if text in message_text:
                self.unproved.remove((place, message_text))
                break
        else:
            self.proved.append(text)

        if text.lstrip().startswith(ABORTED):
            self._add_interrupt()
        elif is_codex_wrapper(text) or payload.get("kind", "plain") != "plain":
            self.add_event("injected", "text", text)
        else:
            self._add_typed(text, raw.text(item, "id"))

    def _add_typed(self, text: str, uid: str = "") -> None:
        """Add the part of a text that a person typed, without an editor's context before it."""
        if text.startswith(IDE_CONTEXT):
            text = text.partition(IDE_REQUEST)[2].strip()
        if is_envelope(text):
            self.add_event("injected", "text", text, uid=uid)
            return
        is_mid_turn = self.is_in_turn and self.is_busy and self.person == "human"
        self.add_event(
            self.person, "text", text, uid=uid, labels=(MID_TURN,) if is_mid_turn else ()
        )

    def _add_interrupt(self) -> None:
        """Add an interruption once: an event and a marker of role user record the same one."""
        if not self.events or self.events[-1].kind != "interrupt":
            self.add_event(self.person, "interrupt")

    def _handle_item(self, item: dict[str, Any], *, is_old: bool) -> None:
        """Add a message, a tool call or the output of a call, as the model's API exchanged it."""
        item_type = raw.text(item, "type")
        if item_type == "message":
            self._handle_message(item, raw.joined(item, "content"), is_old=is_old)
        elif item_type in CALLS:
            self._add_call(item_type, item)
        elif item_type in OUTPUTS:
            self._add_output(item)
        elif f"response_item/{item_type}" not in IGNORED:
            self.count_unknown(f"response_item/{item_type}")

    def _add_call(self, item_type: str, item: dict[str, Any]) -> None:
        self._start_work()
        arguments = item.get(CALLS[item_type])
        text = arguments if isinstance(arguments, str) else raw.encode(arguments)
        paths = relative_paths(PATCHED.findall(text.replace("\\n", "\n")), self.root)
        tool = raw.text(item, "name") or item_type.removesuffix("_call")
        self.add_call(self.worker, text, raw.text(item, "call_id"), tool, paths)

    def _add_output(self, item: dict[str, Any]) -> None:
        """Add the output of a call: a tool's result, or that the person refused the call."""
        uid = raw.text(item, "call_id")
        tool = self.tools.get(uid)
        text, ok = read_output(item.get("output"))
        if text.strip() in REJECTED and self.person == "human":
            self.add_event("human", "rejection", uid=uid, tool=tool, ok=False)
        else:
            self.add_event("tool", "tool_result", text, uid=uid, tool=tool, ok=ok)

    def _handle_message(self, item: dict[str, Any], text: str, *, is_old: bool) -> None:
        """Add a message by its role: user, assistant, or one of Codex itself (developer)."""
        if not text:
            return
        if item.get("role") == "user":
            self._handle_user_message(text, is_old=is_old)
        elif item.get("role") == "assistant":
            self._start_work()
            self.add_event(self.worker, "text", text, uid=raw.text(item, "id"))
        else:
            self.add_event("injected", "text", text, uid=raw.text(item, "id"))

    def _handle_user_message(self, text: str, *, is_old: bool) -> None:
        """Add a message of role user that Codex wrote, or keep it until an event proves it typed.

        A text that an event proved before is left out, because it was added then. The old form of
        the file has no such events: there each text counts as typed.
        """
        if text.lstrip().startswith(ABORTED):
            self._add_interrupt()
            return
        if is_codex_wrapper(text):
            self.add_event("injected", "text", text)
            return
        if is_old:
            self._add_typed(text)
            return
        for proved_text in self.proved:
            if proved_text in text:
                self.proved.remove(proved_text)
                return
        self.unproved.append((self.place, text))

    def _start_work(self) -> None:
        self._add_unproved()
        self.is_busy = True

    def _add_unproved(self) -> None:
        """Add the messages of role user that no event proved as texts that Codex wrote."""
        for place, text in self.unproved:
            self.add_event("injected", "text", text, place)
        self.unproved = []
        self.proved = []


def read_output(output: object) -> tuple[str, bool | None]:
    """Return the text of a tool's output, and whether the tool succeeded, None if unknown.

    The output is a text, a list of parts, or an object (as such or as JSON in a text).
    """
    if isinstance(output, str) and output.startswith("{"):
        output = raw.fields(raw.decode(output.encode(errors="replace"))) or output
    answer = raw.fields(output)
    content = answer.get("output", answer.get("content")) if answer else output
    text = raw.joined(content)
    return text, _is_success(answer, text)


def _is_success(answer: dict[str, Any], text: str) -> bool | None:
    """Return whether a tool succeeded, by the fields or the text of its output; or None."""
    exit_code = raw.value(answer, "metadata", "exit_code")
    if isinstance(exit_code, int):
        return exit_code == 0
    success = answer.get("success")
    if isinstance(success, bool):
        return success
    if match := EXIT_CODE.search(text):
        return match[1] == "0"
    return False if text.startswith(FAILED) else None
