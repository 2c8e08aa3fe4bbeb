"""OpenHands: a list of events, in the form of the application (V0) and of the agent SDK (V1, which has `kind`).

Facts from the public source and from files of V0. `source: user` is a person only for a message: V0 puts its own
"No observation" and recall there, and a delegate is given its task as a message from the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, EventKind, Session
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    as_dict,
    as_list,
    as_text,
    encode,
    joined_text,
    parse_time,
    session_name,
    touched_paths,
)

CANNED = "Please continue working on the task on whatever approach you think is suitable."
"""What the evaluation harness answers in place of a person."""

BARE_NO = frozenset(
    {"user rejected the action", "action has been rejected by the user! waiting for further user input", ""}
)
"""Reasons that OpenHands fills in where the person gave none."""

WORKSPACE = "/workspace"  # Where the container holds the work.
SILENT = frozenset(
    """null agent_state_changed recall loop_detection condensation_request task_tracking CondensationRequest
    CondensationSummaryEvent ConversationStateUpdateEvent LLMCompletionLogEvent TokenEvent""".split()
)
"""Actions, observations and events that are known and carry nothing to learn from."""

EVENT = re.compile(rb'"source"\s*:\s*"(?:user|agent|environment|hook)"')
FORM = re.compile(
    rb'"(?:action|observation)"\s*:\s*"\w+"|"kind"\s*:\s*"(?:\w+Event|Condensation|UserRejectObservation)"'
)


def sniff(head: bytes) -> bool:
    """True for a list whose first events have a source, and an action, an observation or an SDK kind."""
    is_list = re.match(rb"\s*\[\s*\{", head) is not None
    return is_list and EVENT.search(head) is not None and FORM.search(head) is not None


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """The one session of a file; `Origin.line` is the line where the event's id stands."""
    reader = _Reader(SessionBuilder("openhands", session_name(name), "openhands", name))
    document = Document(stream, reader.builder)
    for event in as_list(document.value):
        reader.builder.record()
        uid = as_dict(event).get("id")
        reader.take(document.line_of(uid if isinstance(uid, int | str) else ""), event)
    yield reader.builder.build()


class _Reader:
    """The events of one file; `delegates` is how many sub-agents are at work, `tool` what was called last."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.builder = builder
        self.delegates = 0
        self.tool = ""
        self.place = Place(1)

    def take(self, line: int, event: object) -> None:
        found = as_dict(event)
        self.place = Place(line, parse_time(found.get("timestamp")))
        if kind := as_text(found.get("kind")):
            self._sdk(kind, found)
        elif action := as_text(found.get("action")):
            self._action(action, found, as_dict(found.get("args")))
        elif observation := as_text(found.get("observation")):
            self._observation(observation, found)
        elif found:
            self.builder.unknown("untyped")
        else:
            self.builder.bad_line()

    def _add(self, actor: Actor, kind: EventKind, text: str, uid: object = "", **fields: Any) -> None:  # noqa: ANN401 - SessionBuilder.add checks them
        self.builder.add(actor, kind, text, self.place, uid=as_text(uid), **fields)

    @property
    def _agent(self) -> Actor:
        return "subagent" if self.delegates else "agent"

    def _action(self, action: str, event: dict[str, Any], args: dict[str, Any]) -> None:
        source = event.get("source")
        if action == "change_agent_state":
            if source == "user" and args.get("agent_state") in ("stopped", "paused"):
                self._add("human", "interrupt", "")
        elif action == "condensation":
            self._add("injected", "compaction", as_text(args.get("summary")))
        elif action == "system":
            self._add("injected", "text", as_text(args.get("content")))
        elif action == "message":
            self._message(source, as_text(args.get("content")) or as_text(event.get("message")))
        elif action == "finish":
            self._finish(event, args)
        elif source == "agent":
            self._call(action, event, args)
        elif action not in SILENT:
            self.builder.unknown(f"{as_text(source)}/{action}")

    def _message(self, source: object, text: str) -> None:
        if not text.strip():
            return
        if source == "agent":
            self._add(self._agent, "text", text)
        elif source != "user" or text.lstrip().startswith(CANNED):
            self._add("injected", "text", text)
        else:
            self._add("subagent" if self.delegates else "human", "text", text)

    def _finish(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        said = map(as_text, (args.get("final_thought"), args.get("thought"), event.get("message")))
        self._message("agent", next((text for text in said if text.strip()), ""))

    def _call(self, action: str, event: dict[str, Any], args: dict[str, Any]) -> None:
        self._message("agent", as_text(args.get("thought")))
        given = {name: value for name, value in args.items() if name != "thought"}
        paths = touched_paths(args, "path", root=WORKSPACE)
        self.tool = _tool(action, event)
        self._add(self._agent, "tool_call", encode(given), tool=self.tool, paths=paths)
        self.delegates += action == "delegate"

    def _observation(self, name: str, event: dict[str, Any]) -> None:
        text = as_text(event.get("content"))
        if name == "delegate":
            self.delegates = max(0, self.delegates - 1)
        if name in SILENT:
            if name == "recall" and text:
                self._add("injected", "text", text)
        elif name == "user_rejected":
            self._rejected(text, self.tool)
        elif name == "condense":
            self._add("injected", "compaction", text)
        else:
            self._result(text or as_text(event.get("message")), _tool(name, event), _succeeded(name, event))

    def _rejected(self, reason: str, tool: str, uid: object = "") -> None:
        text = "" if reason.strip().rstrip(".").lower() in BARE_NO else reason
        self._add("human", "rejection", text, uid, tool=tool, ok=False)

    def _result(self, text: str, tool: str, ok: bool | None, uid: object = "") -> None:
        self._add("tool", "tool_result", text, uid, tool=tool, ok=ok)

    def _sdk(self, kind: str, event: dict[str, Any]) -> None:
        uid, tool = event.get("id"), as_text(event.get("tool_name"))
        if kind == "MessageEvent":
            self._sdk_message(event)
        elif kind == "ActionEvent":
            self._sdk_call(event, tool)
        elif kind == "ObservationEvent":
            self._sdk_result(event, tool)
        elif kind == "UserRejectObservation" and event.get("rejection_source", "user") == "user":
            self._rejected(as_text(event.get("rejection_reason")), tool, uid)
        elif kind in ("AgentErrorEvent", "UserRejectObservation", "ConversationErrorEvent"):
            self._result(as_text(event.get("error")) or as_text(event.get("rejection_reason")), tool, False, uid)
        elif kind in ("PauseEvent", "InterruptEvent"):
            self._add("human", "interrupt", "", uid)
        elif kind == "Condensation":
            self._add("injected", "compaction", as_text(event.get("summary")), uid)
        elif kind == "SystemPromptEvent":
            self._add("injected", "text", joined_text(event.get("system_prompt")), uid)
        elif kind not in SILENT:
            self.builder.unknown(kind)

    def _sdk_message(self, event: dict[str, Any]) -> None:
        """`extended_content` is what skills and microagents add; `sender` names another agent."""
        text, source = joined_text(as_dict(event.get("llm_message")).get("content")), event.get("source")
        actors: dict[object, Actor] = {"user": "subagent" if event.get("sender") else "human", "agent": "agent"}
        if text:
            self._add(actors.get(as_text(source), "injected"), "text", text, event.get("id"))
        if added := joined_text(event.get("extended_content")):
            self._add("injected", "text", added)

    def _sdk_call(self, event: dict[str, Any], tool: str) -> None:
        if thought := joined_text(event.get("thought")):
            self._add("agent", "text", thought)
        action = as_dict(event.get("action"))
        if action.get("kind") == "FinishAction":
            self._add("agent", "text", as_text(action.get("message")), event.get("id"))
            return
        given = encode({name: value for name, value in action.items() if name != "kind"})
        self._add(
            "agent", "tool_call", given, event.get("id"), tool=tool, paths=touched_paths(action, "path", root=WORKSPACE)
        )

    def _sdk_result(self, event: dict[str, Any], tool: str) -> None:
        answer = as_dict(event.get("observation"))
        if answer.get("kind") == "FinishObservation":
            return
        shown = next((answer[name] for name in ("content", "output", "agent_observation") if answer.get(name)), "")
        code = answer.get("exit_code", as_dict(answer.get("metadata")).get("exit_code"))
        failed = answer.get("is_error") is True or (isinstance(code, int) and code != 0)
        self._result(joined_text(shown), tool, not failed, event.get("id"))


def _tool(name: str, event: dict[str, Any]) -> str:
    """The tool as the model called it, else the name of the action or observation."""
    return as_text(as_dict(event.get("tool_call_metadata")).get("function_name")) or name


def _succeeded(name: str, event: dict[str, Any]) -> bool | None:
    if name == "error":
        return False
    if isinstance(event.get("success"), bool):
        return bool(event["success"])
    code = as_dict(as_dict(event.get("extras")).get("metadata")).get("exit_code")
    return code == 0 if isinstance(code, int) else None
