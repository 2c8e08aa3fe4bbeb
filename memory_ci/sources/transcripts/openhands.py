"""Reader of OpenHands' lists of events, of the application (V0) and of the agent SDK (V1).

Events of V1 have a `kind`. Facts from the public source and from files of V0. `source: user` is a
person only for a message: V0 puts its own "No observation" and recall there, and a delegate is
given its task as a message from the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import (
    Document,
    Place,
    SessionBuilder,
    find_touched_paths,
)

CANNED_PROMPT = "Please continue working on the task on whatever approach you think is suitable."
"""The answer of the evaluation harness in place of a person."""

BARE_NO_REASONS = frozenset(
    {
        "user rejected the action",
        "action has been rejected by the user! waiting for further user input",
        "",
    }
)
"""Reasons that OpenHands fills in where the person typed none."""

WORKSPACE = "/workspace"  # The directory of the work in the container.

IGNORED_TYPES = frozenset(
    """null agent_state_changed recall loop_detection condensation_request task_tracking
    CondensationRequest CondensationSummaryEvent ConversationStateUpdateEvent LLMCompletionLogEvent
    TokenEvent""".split()
)
"""Actions, observations and events that hold nothing to learn from."""

EVENT_SOURCE = Regex(rb'"source"\s*:\s*"(?:user|agent|environment|hook)"')
EVENT_FORM = Regex(
    rb'"(?:action|observation)"\s*:\s*"\w+"'
    rb'|"kind"\s*:\s*"(?:\w+Event|Condensation|UserRejectObservation)"'
)


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is a list of OpenHands' events."""
    is_list = re.match(rb"\s*\[\s*\{", head) is not None
    return is_list and EVENT_SOURCE.search(head) is not None and EVENT_FORM.search(head) is not None


def read(stream: BinaryIO, name: str) -> Iterator[Session]:
    """Yield the one session of a file.

    The line of an event is where the file has its id.
    """
    reader = _Reader("openhands", "openhands", name)
    document = Document(stream, reader)
    for value in raw.get_list(document.value):
        reader.records += 1
        event = raw.get_object(value)
        line = document.find_line(event.get("id", ""))
        reader.place = Place(line, raw.get_time(event, "timestamp"))
        reader.add_record(event)
    yield reader.build()


class _Reader(SessionBuilder):
    """The builder of the session of one file.

    Attributes:
        subagent_count: how many sub-agents are at work.
        last_tool: the tool that was called last.
    """

    subagent_count = 0
    last_tool = ""

    def add_record(self, event: dict[str, Any]) -> None:
        """Add one event, of the SDK if it has a `kind`, else an action or an observation of V0."""
        if kind := raw.get_text(event, "kind"):
            self._handle_sdk_event(kind, event, raw.get_text(event, "id"))
        elif action := raw.get_text(event, "action"):
            self._handle_action(action, event, raw.get_object(event, "args"))
        elif observation := raw.get_text(event, "observation"):
            self._handle_observation(observation, event)
        elif event:
            self.count_unknown("")
        else:
            self.bad_lines += 1

    def _handle_action(self, action: str, event: dict[str, Any], args: dict[str, Any]) -> None:
        """Add an action of V0: a message, a tool call, or that the person stopped the agent.

        Args:
            action: the name of the action.
            event: the event.
            args: the arguments of the action.
        """
        source = event.get("source")
        if action == "change_agent_state":
            if source == "user" and args.get("agent_state") in ("stopped", "paused"):
                self.add_event("human", "interrupt")
        elif action == "system":
            self.add_event("injected", "text", raw.get_text(args, "content"))
        elif action == "condensation":
            self.add_event("injected", "compaction", raw.get_text(args, "summary"))
        elif action == "message":
            self._add_message(
                source, raw.get_text(args, "content") or raw.get_text(event, "message")
            )
        elif action == "finish":
            texts = (
                raw.get_text(args, "final_thought"),
                raw.get_text(args, "thought"),
                raw.get_text(event, "message"),
            )
            written = [text for text in texts if text.strip()]
            self._add_message("agent", written[0] if written else "")
        elif source == "agent":
            self._add_call(action, event, args)
        elif action not in IGNORED_TYPES:
            self.count_unknown(f"{raw.get_text(source)}/{action}")

    def _add_call(self, action: str, event: dict[str, Any], args: dict[str, Any]) -> None:
        """Add the thought of an action as the agent's text, and the action as a tool call."""
        self._add_message("agent", raw.get_text(args, "thought"))
        arguments = {name: value for name, value in args.items() if name != "thought"}
        paths = find_touched_paths(args, "path", root=WORKSPACE)
        self.last_tool = _find_tool(action, event)
        self.add_event(
            self.agent_actor, "tool_call", raw.encode(arguments), tool=self.last_tool, paths=paths
        )
        if action == "delegate":
            self._change_subagent_count(1)

    def _change_subagent_count(self, change: int) -> None:
        self.subagent_count = max(0, self.subagent_count + change)
        self.agent_actor = "subagent" if self.subagent_count else "agent"
        self.user_actor = "subagent" if self.subagent_count else "human"

    def _add_message(self, source: object, text: str) -> None:
        if source == "agent":
            self.add_text(self.agent_actor, text)
        elif source != "user" or text.lstrip().startswith(CANNED_PROMPT):
            self.add_text("injected", text)
        else:
            self.add_text(self.user_actor, text)

    def _handle_observation(self, name: str, event: dict[str, Any]) -> None:
        """Add an observation of V0: a tool's result, or that a person refused an action."""
        text = raw.get_text(event, "content")
        if name == "delegate":
            self._change_subagent_count(-1)
        if name == "user_rejected":
            self._add_rejection(text, self.last_tool)
        elif name == "condense":
            self.add_event("injected", "compaction", text)
        elif name == "recall" and text:
            self.add_event("injected", "text", text)
        elif name not in IGNORED_TYPES:
            self._add_result(name, event, text)

    def _add_result(self, name: str, event: dict[str, Any], text: str) -> None:
        """Add the result of a tool.

        Whether the tool succeeded is decided by the name "error", else by `success`, else by the
        exit code.
        """
        exit_code = _find_exit_code(event.get("extras"))
        success = event.get("success")
        ok: bool | None = None
        if name == "error":
            ok = False
        elif isinstance(success, bool):
            ok = success
        elif isinstance(exit_code, int):
            ok = exit_code == 0
        text = text or raw.get_text(event, "message")
        self.add_event("tool", "tool_result", text, tool=_find_tool(name, event), ok=ok)

    def _add_rejection(self, reason: str, tool: str, uid: str = "") -> None:
        text = "" if reason.strip().rstrip(".").lower() in BARE_NO_REASONS else reason
        self.add_event("human", "rejection", text, uid=uid, tool=tool, ok=False)

    def _handle_sdk_event(self, kind: str, event: dict[str, Any], uid: str) -> None:
        """Add an event of the agent SDK (V1) by its kind."""
        tool = raw.get_text(event, "tool_name")
        reason = raw.get_text(event, "rejection_reason")
        if kind == "MessageEvent":
            self._add_sdk_message(event, uid)
        elif kind == "ActionEvent":
            self._add_sdk_call(event, uid, tool)
        elif kind == "ObservationEvent":
            self._add_sdk_result(raw.get_object(event, "observation"), uid, tool)
        elif kind == "UserRejectObservation" and event.get("rejection_source", "user") == "user":
            self._add_rejection(reason, tool, uid)
        elif kind in ("AgentErrorEvent", "UserRejectObservation", "ConversationErrorEvent"):
            text = raw.get_text(event, "error") or reason
            self.add_event("tool", "tool_result", text, uid=uid, tool=tool, ok=False)
        elif kind in ("PauseEvent", "InterruptEvent"):
            self.add_event("human", "interrupt", uid=uid)
        elif kind == "Condensation":
            self.add_event("injected", "compaction", raw.get_text(event, "summary"), uid=uid)
        elif kind == "SystemPromptEvent":
            self.add_event("injected", "text", raw.get_joined_text(event, "system_prompt"), uid=uid)
        elif kind not in IGNORED_TYPES:
            self.count_unknown(kind)

    def _add_sdk_message(self, event: dict[str, Any], uid: str) -> None:
        """Add a message of the SDK: a person's only if its source is user and it has no sender.

        `sender` names another agent; skills and microagents add `extended_content`.
        """
        source = raw.get_text(event, "source")
        actor: Actor = "injected"
        if source == "user":
            actor = "subagent" if event.get("sender") else "human"
        elif source == "agent":
            actor = "agent"
        self.add_text(actor, raw.get_joined_text(event, "llm_message", "content"), uid)
        self.add_text("injected", raw.get_joined_text(event, "extended_content"))

    def _add_sdk_call(self, event: dict[str, Any], uid: str, tool: str) -> None:
        """Add the thought and the tool call of an action; the last action is only a message."""
        self.add_text("agent", raw.get_joined_text(event, "thought"))
        action = raw.get_object(event, "action")
        if action.get("kind") == "FinishAction":
            self.add_event("agent", "text", raw.get_text(action, "message"), uid=uid)
            return
        arguments = {name: value for name, value in action.items() if name != "kind"}
        paths = find_touched_paths(action, "path", root=WORKSPACE)
        text = raw.encode(arguments)
        self.add_event("agent", "tool_call", text, uid=uid, tool=tool, paths=paths)

    def _add_sdk_result(self, answer: dict[str, Any], uid: str, tool: str) -> None:
        """Add the result of a tool; with `is_error` or an exit code other than 0 it has failed."""
        if answer.get("kind") == "FinishObservation":
            return
        content = answer.get("content") or answer.get("output") or answer.get("agent_observation")
        exit_code = answer.get("exit_code", _find_exit_code(answer))
        has_failed_exit = isinstance(exit_code, int) and exit_code != 0
        is_failed = answer.get("is_error") is True or has_failed_exit
        text = raw.get_joined_text(content)
        self.add_event("tool", "tool_result", text, uid=uid, tool=tool, ok=not is_failed)


def _find_tool(name: str, event: dict[str, Any]) -> str:
    """Return the tool as the model called it, else the name of the action or observation."""
    return raw.get_text(event, "tool_call_metadata", "function_name") or name


def _find_exit_code(answer: object) -> object:
    return raw.get_value(answer, "metadata", "exit_code")
