"""The hooks of coding agents, in the agent's own settings of this project: memory is read, and sessions are captured.

Every event calls the same command, which an agent is asked to trust once. Where the settings are of this clone alone it
calls the interpreter that memory-ci is installed for; where they are committed, `memory-ci` by name.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.setup.json_settings import EMPTY, WrongShapeError, insert, remove
from memory_ci.flows.setup.steps import InstallStep, read_text
from memory_ci.store.files import write_file


class HookEvent(NamedTuple):
    """An event to hook into, and the tools that it is asked for ("" for all). `is_reading`: memory is read at it;
    `is_asking`: it is there for the question alone that ends a turn.
    """

    name: str
    tools: str = ""
    is_reading: bool = True
    is_asking: bool = False


class Agent(msgspec.Struct, frozen=True):
    """Where an agent reads hooks of a project, its events, and a minute in the unit of its time limits.

    `shared` is the file that is committed, where that is another. `form` is how the file writes a hook.
    """

    name: str
    file: str
    events: tuple[HookEvent, ...]
    minute: int = 60
    shared: str = ""
    form: Literal["groups", "copilot", "cursor", "plugin"] = "groups"


STOP = HookEvent("Stop", is_asking=True)
END = HookEvent("SessionEnd", is_reading=False)
STARTS = (HookEvent("SessionStart"), HookEvent("UserPromptSubmit"))
AGENTS = (
    Agent(
        "claude-code",
        ".claude/settings.local.json",
        (*STARTS, HookEvent("PostToolUse", "Read|Edit|Write|MultiEdit|NotebookEdit"), STOP, END),
        shared=".claude/settings.json",
    ),
    # Stop is after each turn: older versions have no event for the end.
    Agent("codex", ".codex/hooks.json", (*STARTS, HookEvent("PostToolUse"), HookEvent("Stop", is_reading=False))),
    Agent(
        "gemini",
        ".gemini/settings.json",
        (
            STARTS[0],
            HookEvent("BeforeAgent"),
            HookEvent("AfterTool", "read_file|read_many_files|replace|write_file"),
            HookEvent("AfterAgent", is_asking=True),
            END,
        ),
        60_000,
    ),
    Agent(
        "copilot",
        ".github/hooks/memory-ci.json",
        (
            HookEvent("sessionStart"),
            HookEvent("userPromptSubmitted"),
            HookEvent("preToolUse"),
            HookEvent("agentStop", is_asking=True),
        ),
        form="copilot",
    ),
    Agent("opencode", ".opencode/plugins/memory-ci.js", (HookEvent("chat.message"),), form="plugin"),
    Agent("vscode", ".github/hooks/memory-ci-vscode.json", (*STARTS, HookEvent("PostToolUse"))),
    Agent("cursor", ".cursor/hooks.json", (HookEvent("sessionStart"), HookEvent("postToolUse")), form="cursor"),
)

VERSIONED = '{\n  "version": 1\n}\n'
PLUGIN_HEAD = "// memory-ci install --agent opencode"
PLUGIN = (
    PLUGIN_HEAD
    + """: this file is replaced by the next install.
import { spawnSync } from "node:child_process"

const call = (event, data, cwd) => {
  const input = JSON.stringify({ hook_event_name: event, cwd, ...data })
  const args = ["hook", "agent", "--for", "opencode"]
  const run = spawnSync("memory-ci", args, { input, encoding: "utf8", timeout: 20000 })
  try { return JSON.parse(run.stdout).hookSpecificOutput.additionalContext } catch { return "" }
}

export const MemoryCI = async ({ directory }) => {
  const begun = new Set()
  return {
    "chat.message": async (input, output) => {
      const session_id = input.sessionID
      const said = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      if (said.length === 0) return
      const prompt = said.map((part) => part.text).join("\\n")
      const start = begun.has(session_id) ? "" : call("SessionStart", { session_id, source: "startup" }, directory)
      begun.add(session_id)
      const text = [start, call("UserPromptSubmit", { session_id, prompt }, directory)].filter(Boolean).join("\\n")
      const id = "prt_" + Date.now().toString(16) + Math.random().toString(36).slice(2, 12)
      if (text) output.parts.push({ ...said[0], id, text, synthetic: true })
    },
    "tool.execute.after": async (input, output) => {
      const tool = { tool_name: input.tool, tool_input: input.args ?? output.metadata ?? {} }
      const text = call("PostToolUse", { session_id: input.sessionID, ...tool }, directory)
      if (text) output.output += "\\n" + text
    },
    "shell.env": async (input, output) => {
      if (input.sessionID) output.env.MEMORY_CI_SESSION = "opencode:" + input.sessionID
    },
  }
}
"""
)


PROGRAM = "memory-ci"
TEST = " >/dev/null 2>&1 && "
MODULE = " -P -m memory_ci"
NO_ASK = " --no-ask"


class AgentEdit(msgspec.Struct, frozen=True):
    """What a settings file holds and will hold ("" for no file), and the work tree that it must not lead out of.

    `is_out`: our hook was taken out.
    """

    path: Path
    before: str
    after: str
    root: Path
    is_out: bool = False


def local_files(names: Collection[str]) -> dict[str, str]:
    """By agent, the settings that are of this clone alone, so that no commit should have them."""
    return {agent.name: agent.file for agent in AGENTS if agent.name in names}


def plan_agent(
    root: Path, name: str, python: str, *, is_shared: bool = False, is_reading: bool = True, is_asking: bool = True
) -> AgentEdit:
    """The settings of an agent with our hooks in them; those that call another interpreter are replaced.

    Raises UsageError (agent-settings): the file is not what the agent reads.
    """
    agent = next(agent for agent in AGENTS if agent.name == name)
    path = root / ((agent.shared if is_shared else "") or agent.file)
    _refuse_link(path)
    before = read_text(path)
    if agent.form == "plugin":
        if before and not before.startswith(PLUGIN_HEAD):
            hint = "Rename it; opencode reads each file of that folder. Nothing was changed."
            raise UsageError(f"{path} is not ours", slug="agent-settings", hint=hint)
        plugin = PLUGIN if is_asking else PLUGIN.replace('"opencode"]', '"opencode", "--no-ask"]')
        return AgentEdit(path, before, plugin, root)
    call = PROGRAM if is_shared else f"{shlex.quote(python)}{MODULE}"
    events = [e for e in agent.events if (is_reading or not e.is_reading) and (is_asking or not e.is_asking)]
    with _reading(path):
        after = _without(before or _base(agent), agent)
        for event in events:
            after = insert(after, ("hooks", event.name), _entry(agent, event, call, "" if is_asking else NO_ASK))
        is_there = before != "" and _sorted_hooks(before) == _sorted_hooks(after)
        return AgentEdit(path, before, before if is_there else after, root)


def plan_agents_out(root: Path, note: Path) -> tuple[AgentEdit, ...]:
    """The settings that hold a hook of ours, without it; `note` says which of them `install` made.

    Raises UsageError (agent-settings).
    """
    return tuple(_plan_out(root, note))


def put_agent(edit: AgentEdit, note: Path, dry_run: bool) -> InstallStep:
    """Write what was planned; the file `note` says what was made for it, for only that is ever removed.

    Raises RepositoryError: outside-repository, write-failed.
    """
    if edit.after == edit.before:
        return InstallStep("agent", str(edit.path), "kept")
    if not dry_run and edit.after:
        inside = [one for one in edit.path.parents if one.is_relative_to(edit.root) and one != edit.root]
        made = [path for path in (edit.path, *inside) if not path.exists()]
        write_file(edit.path, edit.after.encode("utf-8", "surrogateescape"), edit.root)
        _note_made(note, made)
    elif not dry_run:
        _remove_made(note, edit.path)
    return InstallStep("agent", str(edit.path), "removed" if edit.is_out else "written")


def _plan_out(root: Path, note: Path) -> Iterator[AgentEdit]:
    for agent, file in ((one, file) for one in AGENTS for file in (one.file, one.shared) if file):
        path = root / file
        before = read_text(path)
        if agent.form == "plugin":
            if before.startswith(PLUGIN_HEAD):
                yield AgentEdit(path, before, "", root, is_out=True)
            continue
        if not any(mark in before for mark in _marks(agent)):
            continue
        with _reading(path):
            after = _without(before, agent)
        if after != before:
            _refuse_link(path)
            is_left = after != _base(agent) or str(path) not in read_text(note).splitlines()
            yield AgentEdit(path, before, after if is_left else "", root, is_out=True)


def _note_made(note: Path, paths: list[Path]) -> None:
    if paths:
        write_file(note, "".join(f"{line}\n" for line in (*read_text(note).splitlines(), *paths)).encode())


def _remove_made(note: Path, path: Path) -> None:
    """Remove a settings file of ours, and the directories around it that are ours and hold nothing else."""
    path.unlink()
    made, gone = read_text(note).splitlines(), {str(path)}
    for directory in path.parents:
        if str(directory) not in made:
            break
        with suppress(OSError):  # not empty: the user put something in
            directory.rmdir()
        gone.add(str(directory))
    write_file(note, "".join(f"{line}\n" for line in made if line not in gone).encode())


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        hint = "Put a file in its place, or put the hook in by hand: docs/sessions.md says which. Nothing was changed."
        raise UsageError(f"{path} is a symbolic link", slug="agent-settings", hint=hint)


def _base(agent: Agent) -> str:
    """The file that hooks are put into where there is none."""
    return EMPTY if agent.form == "groups" else VERSIONED


def _marks(agent: Agent) -> tuple[str, str]:
    """What no settings with a hook of ours are without, whatever interpreter it calls; the second is that of 0.1."""
    return f"hook agent --for {agent.name}", f"capture - --hook --agent {agent.name}"


def _entry(agent: Agent, event: HookEvent, call: str, flags: str) -> dict[str, Any]:
    """A hook as the agent takes it; it ends in success without memory-ci, too."""
    command = f"command -v {call.removesuffix(MODULE)}{TEST}{call} {_marks(agent)[0]}{flags}; exit 0"
    if agent.form == "copilot":
        return {"type": "command", "bash": command, "timeoutSec": agent.minute}
    if agent.form == "cursor":
        return {"command": command}
    tools = {"matcher": event.tools} if event.tools else {}
    return {**tools, "hooks": [{"type": "command", "command": command, "timeout": agent.minute}]}


def _without(text: str, agent: Agent) -> str:
    """Settings without our hooks: the last that was put in goes first, so that all is as it was."""
    for event in reversed(agent.events):
        text = remove(text, ("hooks", event.name), partial(_is_ours, agent, event))
    return text


def _is_ours(agent: Agent, event: HookEvent, value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether this is what `_entry` writes, now or in 0.1, for any program; what its owner changed is his."""
    with suppress(AttributeError, IndexError, KeyError, TypeError):
        inner = value["hooks"][0] if agent.form == "groups" else value
        said = inner.get("command") or inner["bash"]
        program = said.removeprefix("command -v ").partition(TEST)[0]
        calls = (program, f"{program}{MODULE}")
        of_old = {"type": "command", "command": said, "timeout": agent.minute}
        is_old = value == {"hooks": [of_old]} and said.endswith(f"{_marks(agent)[1]}; exit 0")
        ours = (_entry(agent, event, call, flags) for call in calls for flags in ("", NO_ASK))
        return value in ours or (is_old and said.startswith("command -v "))
    return False


def _sorted_hooks(text: str) -> dict[str, Any]:
    """The hooks of settings, whatever their order."""
    hooks = msgspec.json.decode(text).get("hooks", {}).items()
    return {event: sorted(map(msgspec.json.encode, own)) if isinstance(own, list) else own for event, own in hooks}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A settings file that cannot be edited as text is its owner's to mend."""
    try:
        yield
    except WrongShapeError as error:
        hint = "Make it what the agent reads: docs/sessions.md says where its hooks are. Nothing was changed."
        raise UsageError(f"{path}: {error}", slug="agent-settings", hint=hint) from error
    except (ValueError, RecursionError) as error:
        message = f"{path} is not the plain JSON that a hook can be put into: {error}"
        hint = "Take comments out, or put the hook in by hand: docs/sessions.md says which. Nothing was changed."
        raise UsageError(message, slug="agent-settings", hint=hint) from error
