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

from memory_ci.records.event import MID_TURN, Actor, Session
from memory_ci.sources.transcripts.builder import (
    Place,
    SessionBuilder,
    as_dict,
    as_text,
    decode,
    encode,
    joined_text,
    parse_time,
    read_objects,
    relative_paths,
    session_name,
)

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
"""Records that are known and say nothing that another record does not say."""

CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "web_search_call": "action",
}
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
STARTS, ENDS = frozenset({"task_started", "turn_started"}), frozenset({"task_complete", "turn_complete"})

ABORTED = "<turn_aborted>"
REJECTED = frozenset({"exec command rejected by user", "patch rejected by user", "rejected by user"})
"""The whole output of a call that a person refused; Codex records no reason. A guardian's refusal reads otherwise."""

EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)$", re.MULTILINE)
FAILED = (
    "execution error:",
    "failed in sandbox",
    "aborted",
    "apply_patch verification failed",
    "This action was rejected",
)
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


def outcome(output: object) -> tuple[str, bool | None]:
    """Text and success of a tool's output: text, parts, or an object (as such or as JSON in the text)."""
    if isinstance(output, str) and output.startswith("{"):
        output = as_dict(decode(output.encode(errors="replace"))) or output
    given = as_dict(output)
    text = joined_text(given.get("output", given.get("content")) if given else output)
    code = as_dict(given.get("metadata")).get("exit_code")
    if isinstance(code, int):
        return text, code == 0
    if isinstance(given.get("success"), bool):
        return text, given["success"]
    if found := EXIT_CODE.search(text):
        return text, found[1] == "0"
    return text, False if text.startswith(FAILED) else None


WRAPPERS = (
    "# AGENTS.md instructions",
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<skill>",
    "<user_action>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<INSTRUCTIONS>",
    "Another language model started to solve this problem",
)
"""How text begins that Codex puts into a message of role user."""

IDE_CONTEXT = "# Context from my IDE setup:"
IDE_REQUEST = "## My request for Codex:"
"""Editors put open files before what was typed; the words of the person come after the second heading."""


def sniff(head: bytes) -> bool:
    """True if one of the first lines is a rollout's record, or the bare header of the old form."""
    lines = head.lstrip().split(b"\n")
    cut_short = len(lines) == 1 and b'"type":"session_meta"' in head and b'"payload":{' in head
    return cut_short or any(_is_record(as_dict(decode(line))) for line in lines[:5])


def _is_record(record: dict[str, Any]) -> bool:
    if isinstance(record.get("payload"), dict):
        return record.get("type") in ("session_meta", "response_item", "event_msg", "turn_context")
    return {"id", "timestamp", "instructions"} <= record.keys() and "type" not in record


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a rollout file, streamed; `Origin.line` is the line of its record."""
    reader = _Reader(SessionBuilder("codex", session_name(name), "codex-rollout", name))
    for line, record in read_objects(stream, reader.builder):
        reader.take(line, record)
    reader.flush()
    yield reader.builder.build()


class _Reader:
    """What must be remembered from one record to the next."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.builder = builder
        self.person: Actor = "human"
        self.agent: Actor = "agent"
        self.root = ""
        self.tools: dict[str, str] = {}
        self.held: list[tuple[Place, str]] = []  # role user, no wrapper, not yet proved to be typed
        self.heard: list[str] = []  # proved, and its copy of role user not yet met
        self.proof = ""  # the form of event that proves in this file: a second form repeats the first
        self.has_meta = self.is_in_turn = self.is_busy = False

    def take(self, line: int, record: dict[str, Any]) -> None:
        place = Place(line, parse_time(record.get("timestamp")))
        kind, payload = as_text(record.get("type")), record.get("payload")
        if isinstance(payload, dict):
            self._take_new(kind, payload, place)
        elif kind:
            self._item(record, place, is_old=True)
        elif "id" in record:
            self._meta(record)
        elif record.get("record_type") != "state":
            self.builder.unknown("untyped")

    def _take_new(self, kind: str, payload: dict[str, Any], place: Place) -> None:
        if kind == "session_meta":
            self._meta(payload)
        elif kind == "response_item":
            self._item(payload, place, is_old=False)
        elif kind == "event_msg":
            self._event(payload, place)
        elif kind == "compacted":
            self.flush()
            self.builder.add("injected", "compaction", as_text(payload.get("message")), place)
        elif kind not in SILENT:
            self.builder.unknown(kind or "untyped")

    def _meta(self, meta: dict[str, Any]) -> None:
        """The first header counts: a fork carries those of its ancestors too, in copy."""
        if self.has_meta:
            return
        self.has_meta = True
        self.builder.id = as_text(meta.get("id")) or self.builder.id
        self.root = as_text(meta.get("cwd"))
        self.builder.branch = as_text(as_dict(meta.get("git")).get("branch"))
        origin = meta.get("thread_source")
        if isinstance(meta.get("source"), dict) or (origin is not None and origin != "user"):
            self.person = self.agent = "subagent"  # started by an agent, a review or a guardian
        elif meta.get("source") == "exec":
            self.person = "injected"  # `codex exec`: a script may have written the prompt

    def _event(self, payload: dict[str, Any], place: Place) -> None:
        kind = as_text(payload.get("type"))
        item = as_dict(payload.get("item")) if kind == "item_completed" else {}
        if kind == "user_message" or item.get("type") == "UserMessage":
            self._said(payload, item, place)
        elif kind in STARTS | ENDS:
            self.flush()
            self.is_in_turn, self.is_busy = kind in STARTS, False
        elif kind == "turn_aborted":
            self.is_in_turn = self.is_busy = False
            if payload.get("reason") in (None, "interrupted"):
                self._interrupted(place)
        elif kind == "thread_rolled_back":
            self._rolled_back(payload.get("num_turns"), place)
        elif f"event_msg/{kind}" not in SILENT:
            self.builder.unknown(f"event_msg/{kind}")

    def _said(self, payload: dict[str, Any], item: dict[str, Any], place: Place) -> None:
        """A message that an event proves to be typed, unless it is of the form that only repeats, or wraps."""
        form = "item" if item else "event"
        self.proof = self.proof or form
        text = joined_text(item.get("content")) if item else as_text(payload.get("message"))
        if form != self.proof or not text.strip():
            return
        self._settle(text)
        if text.lstrip().startswith(ABORTED):
            self._interrupted(place)
        elif _is_wrapper(text) or payload.get("kind", "plain") != "plain":
            self.builder.add("injected", "text", text, place)
        else:
            self._human(text, place, as_text(item.get("id")))

    def _settle(self, text: str) -> None:
        """Pair a typed message with its copy of role user, which may stand before or after it."""
        for number, (_, copy) in enumerate(self.held):
            if text in copy:
                del self.held[number]
                return
        self.heard.append(text)

    def _human(self, text: str, place: Place, uid: str = "") -> None:
        is_mid_turn = self.is_in_turn and self.is_busy and self.person == "human"
        labels = (MID_TURN,) if is_mid_turn else ()
        self.builder.add(self.person, "text", _typed_words(text), place, uid=uid, labels=labels)

    def _interrupted(self, place: Place) -> None:
        """An event and a marker of role user tell of one interruption."""
        if not self.builder.events or self.builder.events[-1].kind != "interrupt":
            self.builder.add(self.person, "interrupt", "", place)

    def _rolled_back(self, turns: object, place: Place) -> None:
        """What a person took back counts no more; that it was taken back does."""
        self.flush()
        typed = [event.seq for event in self.builder.events if (event.actor, event.kind) == (self.person, "text")]
        if isinstance(turns, int) and turns > 0 and typed:
            del self.builder.events[typed[-min(turns, len(typed))] :]
        self.builder.add(self.person, "interrupt", "", place, labels=(("via", "rollback"),))

    def _item(self, item: dict[str, Any], place: Place, *, is_old: bool) -> None:
        kind = as_text(item.get("type"))
        if kind == "message":
            self._message(item, place, is_old)
        elif kind in CALLS:
            self._call(kind, item, place)
        elif kind in OUTPUTS:
            self._output(item, place)
        elif f"response_item/{kind}" not in SILENT:
            self.builder.unknown(f"response_item/{kind}")

    def _message(self, item: dict[str, Any], place: Place, is_old: bool) -> None:
        role, text = item.get("role"), joined_text(item.get("content"))
        if not text:
            return
        if role == "user":
            self._user(text, place, is_old)
        elif role == "assistant":
            self._works()
            self.builder.add(self.agent, "text", text, place, uid=as_text(item.get("id")))
        else:
            self.builder.add("injected", "text", text, place, uid=as_text(item.get("id")))

    def _user(self, text: str, place: Place, is_old: bool) -> None:
        if text.lstrip().startswith(ABORTED):
            self._interrupted(place)
        elif _is_wrapper(text):
            self.builder.add("injected", "text", text, place)
        elif is_old:
            self._human(text, place)
        elif heard := next((heard for heard in self.heard if heard in text), None):
            self.heard.remove(heard)
        else:
            self.held.append((place, text))

    def _works(self) -> None:
        self.flush()
        self.is_busy = True

    def flush(self) -> None:
        """Messages of role user that no event proved: nobody typed them, as far as the file tells."""
        for place, text in self.held:
            self.builder.add("injected", "text", text, place)
        self.held, self.heard = [], []

    def _call(self, kind: str, item: dict[str, Any], place: Place) -> None:
        self._works()
        given = item.get(CALLS[kind])
        text = given if isinstance(given, str) else encode(given)
        uid, tool = as_text(item.get("call_id")), as_text(item.get("name")) or kind.removesuffix("_call")
        self.tools[uid] = tool
        paths = relative_paths(PATCHED.findall(text.replace("\\n", "\n")), self.root)
        self.builder.add(self.agent, "tool_call", text, place, uid=uid and f"{uid}:call", tool=tool, paths=paths)

    def _output(self, item: dict[str, Any], place: Place) -> None:
        uid = as_text(item.get("call_id"))
        tool, (text, ok) = self.tools.get(uid), outcome(item.get("output"))
        if text.strip() in REJECTED and self.person == "human":
            self.builder.add("human", "rejection", "", place, uid=uid, tool=tool, ok=False)
            return
        self.builder.add("tool", "tool_result", text, place, uid=uid, tool=tool, ok=ok)


def _is_wrapper(text: str) -> bool:
    """Whether Codex, and nobody else, put `text` into a message of role user."""
    return text.lstrip().startswith(WRAPPERS)


def _typed_words(text: str) -> str:
    """What the person typed of `text`, without the context that an editor put before it."""
    return text.partition(IDE_REQUEST)[2].strip() if text.startswith(IDE_CONTEXT) else text
