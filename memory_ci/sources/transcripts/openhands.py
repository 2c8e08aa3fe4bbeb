"""OpenHands: a list of events, in the form of the application (V0) and of the agent SDK (V1, which has `kind`).

Facts from the public source and from files of V0. `source: user` is a person only for a message: V0 puts its own
"No observation" and recall there, and a delegate is given its task as a message from the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from memory_ci.records.event import Actor, Session
from memory_ci.sources.transcripts import raw
from memory_ci.sources.transcripts.builder import Document, Place, SessionBuilder, touched_paths

# What the evaluation harness answers in place of a person.
CANNED = "Please continue working on the task on whatever approach you think is suitable."
# Reasons that OpenHands fills in where the person gave none.
BARE_NO = frozenset(
    {
        "user rejected the action",
        "action has been rejected by the user! waiting for further user input",
        "",
    }
)

WORKSPACE = "/workspace"  # Where the container holds the work.
# Actions, observations and events that are known and carry nothing to learn from.
SILENT = frozenset(
    """null agent_state_changed recall loop_detection condensation_request task_tracking CondensationRequest
    CondensationSummaryEvent ConversationStateUpdateEvent LLMCompletionLogEvent TokenEvent""".split()
)

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
    reader = _Reader("openhands", "openhands", name)
    document = Document(stream, reader)
    for event in raw.items(document.value):
        reader.records += 1
        found = raw.fields(event)
        reader.place = Place(document.line_of(found.get("id", "")), raw.time(found, "timestamp"))
        reader.take(found)
    yield reader.build()


class _Reader(SessionBuilder):
    """The events of one file; `delegates` is how many sub-agents are at work, `tool` what was called last."""

    delegates = 0
    tool = ""

    def take(self, event: dict[str, Any]) -> None:
        if kind := raw.text(event, "kind"):
            self._sdk(kind, event, raw.text(event, "id"))
        elif action := raw.text(event, "action"):
            self._action(action, event, raw.fields(event, "args"))
        elif observation := raw.text(event, "observation"):
            self._observation(observation, event)
        elif event:
            self.unknown("")
        else:
            self.bad_lines += 1

    def _action(self, action: str, event: dict[str, Any], args: dict[str, Any]) -> None:
        source = event.get("source")
        if action == "change_agent_state":
            if source == "user" and args.get("agent_state") in ("stopped", "paused"):
                self.add("human", "interrupt")
        elif action in ("condensation", "system"):
            is_text = action == "system"
            self.add(
                "injected",
                "text" if is_text else "compaction",
                raw.text(args, "content" if is_text else "summary"),
            )
        elif action == "message":
            self._message(source, raw.text(args, "content") or raw.text(event, "message"))
        elif action == "finish":
            said = (
                raw.text(args, "final_thought"),
                raw.text(args, "thought"),
                raw.text(event, "message"),
            )
            self._message("agent", next((text for text in said if text.strip()), ""))
        elif source == "agent":
            self._message("agent", raw.text(args, "thought"))
            given = {name: value for name, value in args.items() if name != "thought"}
            self.tool, paths = _tool(action, event), touched_paths(args, "path", root=WORKSPACE)
            self.add(self.worker, "tool_call", raw.encode(given), tool=self.tool, paths=paths)
            self._count_delegates(action == "delegate")
        elif action not in SILENT:
            self.unknown(f"{raw.text(source)}/{action}")

    def _count_delegates(self, more: int) -> None:
        self.delegates = max(0, self.delegates + more)
        self.worker = "subagent" if self.delegates else "agent"
        self.person = "subagent" if self.delegates else "human"

    def _message(self, source: object, text: str) -> None:
        if source == "agent":
            self.say(self.worker, text)
        else:
            self.say(
                "injected" if source != "user" or text.lstrip().startswith(CANNED) else self.person,
                text,
            )

    def _observation(self, name: str, event: dict[str, Any]) -> None:
        text = raw.text(event, "content")
        if name == "delegate":
            self._count_delegates(-1)
        if name == "user_rejected":
            self._rejected(text, self.tool)
        elif name == "condense":
            self.add("injected", "compaction", text)
        elif name == "recall" and text:
            self.add("injected", "text", text)
        elif name not in SILENT:
            text, tool, code = (
                text or raw.text(event, "message"),
                _tool(name, event),
                _exit_code(event.get("extras")),
            )
            ok = code == 0 if isinstance(code, int) else None
            if isinstance(event.get("success"), bool):
                ok = event["success"]
            self.add("tool", "tool_result", text, tool=tool, ok=False if name == "error" else ok)

    def _rejected(self, reason: str, tool: str, uid: str = "") -> None:
        text = "" if reason.strip().rstrip(".").lower() in BARE_NO else reason
        self.add("human", "rejection", text, uid=uid, tool=tool, ok=False)

    def _sdk(self, kind: str, event: dict[str, Any], uid: str) -> None:
        tool, reason = raw.text(event, "tool_name"), raw.text(event, "rejection_reason")
        if kind == "MessageEvent":
            self._sdk_message(event, uid)
        elif kind == "ActionEvent":
            self._sdk_call(event, uid, tool)
        elif kind == "ObservationEvent":
            self._sdk_result(raw.fields(event, "observation"), uid, tool)
        elif kind == "UserRejectObservation" and event.get("rejection_source", "user") == "user":
            self._rejected(reason, tool, uid)
        elif kind in ("AgentErrorEvent", "UserRejectObservation", "ConversationErrorEvent"):
            self.add(
                "tool",
                "tool_result",
                raw.text(event, "error") or reason,
                uid=uid,
                tool=tool,
                ok=False,
            )
        elif kind in ("PauseEvent", "InterruptEvent"):
            self.add("human", "interrupt", uid=uid)
        elif kind == "Condensation":
            self.add("injected", "compaction", raw.text(event, "summary"), uid=uid)
        elif kind == "SystemPromptEvent":
            self.add("injected", "text", raw.joined(event, "system_prompt"), uid=uid)
        elif kind not in SILENT:
            self.unknown(kind)

    def _sdk_message(self, event: dict[str, Any], uid: str) -> None:
        """`extended_content` is what skills and microagents add; `sender` names another agent."""
        actors: dict[str, Actor] = {
            "user": "subagent" if event.get("sender") else "human",
            "agent": "agent",
        }
        self.say(
            actors.get(raw.text(event, "source"), "injected"),
            raw.joined(event, "llm_message", "content"),
            uid,
        )
        self.say("injected", raw.joined(event, "extended_content"))

    def _sdk_call(self, event: dict[str, Any], uid: str, tool: str) -> None:
        self.say("agent", raw.joined(event, "thought"))
        action = raw.fields(event, "action")
        if action.get("kind") == "FinishAction":
            self.add("agent", "text", raw.text(action, "message"), uid=uid)
            return
        given = raw.encode({name: value for name, value in action.items() if name != "kind"})
        self.add(
            "agent",
            "tool_call",
            given,
            uid=uid,
            tool=tool,
            paths=touched_paths(action, "path", root=WORKSPACE),
        )

    def _sdk_result(self, answer: dict[str, Any], uid: str, tool: str) -> None:
        if answer.get("kind") == "FinishObservation":
            return
        shown = next(
            (
                answer[name]
                for name in ("content", "output", "agent_observation")
                if answer.get(name)
            ),
            "",
        )
        code = answer.get("exit_code", _exit_code(answer))
        failed = answer.get("is_error") is True or (isinstance(code, int) and code != 0)
        self.add("tool", "tool_result", raw.joined(shown), uid=uid, tool=tool, ok=not failed)


def _tool(name: str, event: dict[str, Any]) -> str:
    """The tool as the model called it, else the name of the action or observation."""
    return raw.text(event, "tool_call_metadata", "function_name") or name


def _exit_code(told: object) -> object:
    return raw.value(told, "metadata", "exit_code")
