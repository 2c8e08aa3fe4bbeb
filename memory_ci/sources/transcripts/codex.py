"""Codex: rollout files, one JSON record a line, in the old form (bare items) and the new (`type` and `payload`).

Facts from the public source of Codex and from a file that version 0.169 wrote: what goes to the model stands in
`response_item` records, where role user is also AGENTS.md, the environment and other text that nobody typed; what a
person typed stands in `event_msg` records as well (`user_message`, or an `item_completed` UserMessage since histories
are paginated). Only the latter is proof. The old form has no events, and injects only the WRAPPERS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import MID_TURN, Session
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

# Records that are known and say nothing that another record does not say.
SILENT = frozenset(
    """session_meta turn_context world_state token_usage_record state event_msg/token_count event_msg/agent_message
    event_msg/agent_reasoning event_msg/agent_reasoning_raw_content event_msg/agent_reasoning_section_break
    event_msg/thread_settings_applied event_msg/exec_command_begin event_msg/exec_command_end
    event_msg/patch_apply_begin event_msg/patch_apply_end event_msg/mcp_tool_call_begin event_msg/mcp_tool_call_end
    event_msg/web_search_begin event_msg/web_search_end event_msg/context_compacted event_msg/item_started
    event_msg/item_completed event_msg/entered_review_mode event_msg/exited_review_mode event_msg/turn_diff
    event_msg/plan_update event_msg/error event_msg/warning event_msg/stream_error response_item/reasoning
    response_item/compaction response_item/compaction_summary response_item/context_compaction""".split()
)

CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "web_search_call": "action",
}
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
STARTS, ENDS = (
    frozenset({"task_started", "turn_started"}),
    frozenset({"task_complete", "turn_complete"}),
)
ABORTED = "<turn_aborted>"
# The whole output of a call that a person refused; Codex records no reason. A guardian's refusal reads otherwise.
REJECTED = frozenset(
    {"exec command rejected by user", "patch rejected by user", "rejected by user"}
)
EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)$", re.MULTILINE)
FAILED = (
    "execution error:",
    "failed in sandbox",
    "aborted",
    "apply_patch verification failed",
    "This action was rejected",
)


def sniff(head: bytes) -> bool:
    """True if one of the first lines is a rollout's record, or the bare header of the old form."""
    lines = head.lstrip().split(b"\n")
    cut_short = len(lines) == 1 and b'"type":"session_meta"' in head and b'"payload":{' in head
    return cut_short or any(_is_record(raw.fields(raw.decode(line))) for line in lines[:5])


def _is_record(record: dict[str, Any]) -> bool:
    if isinstance(record.get("payload"), dict):
        return record.get("type") in ("session_meta", "response_item", "event_msg", "turn_context")
    return {"id", "timestamp", "instructions"} <= record.keys() and "type" not in record


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a rollout file, streamed; `Origin.line` is the line of its record."""
    reader = _Reader(name)
    for record in read_objects(stream, reader):
        reader.take(record)
    yield reader.build()


class _Reader(SessionBuilder):
    """What must be remembered from one record to the next.

    `held` is of role user, no wrapper, and not yet proved to be typed; `heard` is proved, and its copy of role user not
    yet met. `proof` is the form of event that proves in this file: a second form repeats the first.
    """

    def __init__(self, name: str) -> None:
        super().__init__("codex", "codex-rollout", name)
        self.held: list[tuple[Place, str]] = []
        self.heard: list[str] = []
        self.proof = ""
        self.has_meta = self.is_in_turn = self.is_busy = False

    def take(self, record: dict[str, Any]) -> None:
        kind, payload = raw.text(record, "type"), raw.fields(record, "payload")
        if not isinstance(record.get("payload"), dict):
            self._take_old(kind, record)
        elif kind == "session_meta":
            self._meta(payload)
        elif kind == "response_item":
            self._item(payload, is_old=False)
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            self._flush()
            self.add("injected", "compaction", raw.text(payload, "message"))
        elif kind not in SILENT:
            self.unknown(kind)

    def _take_old(self, kind: str, record: dict[str, Any]) -> None:
        if kind:
            self._item(record, is_old=True)
        elif "id" in record:
            self._meta(record)
        elif record.get("record_type") != "state":
            self.unknown("")

    def build(self) -> Session:
        self._flush()
        return super().build()

    def _meta(self, meta: dict[str, Any]) -> None:
        """The first header counts: a fork carries those of its ancestors too, in copy."""
        if self.has_meta:
            return
        self.has_meta = True
        self.id = raw.text(meta, "id") or self.id
        self.root = raw.text(meta, "cwd")
        self.branch = raw.text(meta, "git", "branch")
        origin = meta.get("thread_source")
        if isinstance(meta.get("source"), dict) or (origin is not None and origin != "user"):
            self.person = self.worker = "subagent"  # started by an agent, a review or a guardian
        elif meta.get("source") == "exec":
            self.person = "injected"  # `codex exec`: a script may have written the prompt

    def _event(self, payload: dict[str, Any]) -> None:
        kind = raw.text(payload, "type")
        item = raw.fields(payload, "item") if kind == "item_completed" else {}
        if kind == "user_message" or item.get("type") == "UserMessage":
            self._said(payload, item)
        elif kind in STARTS | ENDS:
            self._flush()
            self.is_in_turn, self.is_busy = kind in STARTS, False
        elif kind == "turn_aborted":
            self.is_in_turn = self.is_busy = False
            if payload.get("reason") in (None, "interrupted"):
                self._interrupted()
        elif (
            kind == "thread_rolled_back"
        ):  # what a person took back counts no more; that it was taken back does
            self._flush()
            turns = payload.get("num_turns")
            typed = [
                event.seq
                for event in self.events
                if (event.actor, event.kind) == (self.person, "text")
            ]
            if isinstance(turns, int) and turns > 0 and typed:
                del self.events[typed[-min(turns, len(typed))] :]
            self.add(self.person, "interrupt", labels=(("via", "rollback"),))
        elif f"event_msg/{kind}" not in SILENT:
            self.unknown(f"event_msg/{kind}")

    def _said(self, payload: dict[str, Any], item: dict[str, Any]) -> None:
        """A message that an event proves to be typed, unless it is of the form that only repeats, or wraps. It is
        paired with its copy of role user, which may stand before or after it."""
        form = "item" if item else "event"
        self.proof = self.proof or form
        text = raw.joined(item, "content") if item else raw.text(payload, "message")
        if form != self.proof or not text.strip():
            return
        if copy := next((one for one in self.held if text in one[1]), None):
            self.held.remove(copy)
        else:
            self.heard.append(text)
        if text.lstrip().startswith(ABORTED):
            self._interrupted()
        elif is_codex_wrapper(text) or payload.get("kind", "plain") != "plain":
            self.add("injected", "text", text)
        else:
            self._human(text, raw.text(item, "id"))

    def _human(self, text: str, uid: str = "") -> None:
        """What the person typed of `text`, without the context that an editor put before it."""
        labels = (MID_TURN,) if self.is_in_turn and self.is_busy and self.person == "human" else ()
        typed = text.partition(IDE_REQUEST)[2].strip() if text.startswith(IDE_CONTEXT) else text
        if is_envelope(typed):
            self.add("injected", "text", typed, uid=uid)
        else:
            self.add(self.person, "text", typed, uid=uid, labels=labels)

    def _interrupted(self) -> None:
        """An event and a marker of role user tell of one interruption."""
        if not self.events or self.events[-1].kind != "interrupt":
            self.add(self.person, "interrupt")

    def _item(self, item: dict[str, Any], *, is_old: bool) -> None:
        kind, uid = raw.text(item, "type"), raw.text(item, "call_id")
        if kind == "message":
            self._message(item, raw.joined(item, "content"), is_old)
        elif kind in CALLS:
            self._works()
            given = item.get(CALLS[kind])
            text = given if isinstance(given, str) else raw.encode(given)
            paths = relative_paths(PATCHED.findall(text.replace("\\n", "\n")), self.root)
            self.call(
                self.worker, text, uid, raw.text(item, "name") or kind.removesuffix("_call"), paths
            )
        elif kind in OUTPUTS:
            tool, (text, ok) = self.tools.get(uid), outcome(item.get("output"))
            if text.strip() in REJECTED and self.person == "human":
                self.add("human", "rejection", uid=uid, tool=tool, ok=False)
            else:
                self.add("tool", "tool_result", text, uid=uid, tool=tool, ok=ok)
        elif f"response_item/{kind}" not in SILENT:
            self.unknown(f"response_item/{kind}")

    def _message(self, item: dict[str, Any], text: str, is_old: bool) -> None:
        if not text:
            return
        if item.get("role") == "user":
            self._user(text, is_old)
        elif item.get("role") == "assistant":
            self._works()
            self.add(self.worker, "text", text, uid=raw.text(item, "id"))
        else:
            self.add("injected", "text", text, uid=raw.text(item, "id"))

    def _user(self, text: str, is_old: bool) -> None:
        if text.lstrip().startswith(ABORTED):
            self._interrupted()
        elif is_codex_wrapper(text):
            self.add("injected", "text", text)
        elif is_old:
            self._human(text)
        elif heard := next((heard for heard in self.heard if heard in text), None):
            self.heard.remove(heard)
        else:
            self.held.append((self.place, text))

    def _works(self) -> None:
        self._flush()
        self.is_busy = True

    def _flush(self) -> None:
        """Messages of role user that no event proved: nobody typed them, as far as the file tells."""
        for place, text in self.held:
            self.add("injected", "text", text, place)
        self.held, self.heard = [], []


def outcome(output: object) -> tuple[str, bool | None]:
    """Text and success of a tool's output: text, parts, or an object (as such or as JSON in the text)."""
    if isinstance(output, str) and output.startswith("{"):
        output = raw.fields(raw.decode(output.encode(errors="replace"))) or output
    given = raw.fields(output)
    text = raw.joined(given.get("output", given.get("content")) if given else output)
    code = raw.fields(given.get("metadata")).get("exit_code")
    if isinstance(code, int):
        return text, code == 0
    if isinstance(given.get("success"), bool):
        return text, given["success"]
    if found := EXIT_CODE.search(text):
        return text, found[1] == "0"
    return text, False if text.startswith(FAILED) else None
