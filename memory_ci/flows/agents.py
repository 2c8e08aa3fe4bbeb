"""The hooks of coding agents that capture a session when it ends: an entry in the agent's own settings of this project.

Where the settings are of this clone alone, the entry calls the interpreter that memory-ci is installed for; where they
are committed, it calls `memory-ci` by name, and holds no path of anyone's machine.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.jsontext import EMPTY, WrongShapeError, insert, remove
from memory_ci.flows.stepping import InstallStep, read_text
from memory_ci.store.files import write_file


class Agent(msgspec.Struct, frozen=True):
    """Where an agent reads hooks of a project, the event to hook into, and a minute in the unit of its time limits."""

    name: str
    file: str
    event: str
    minute: int
    is_local: bool = False


AGENTS = (
    Agent("claude-code", ".claude/settings.local.json", "SessionEnd", 60, is_local=True),
    Agent("codex", ".codex/hooks.json", "Stop", 60),  # after each turn: older versions have no event for the end
    Agent("gemini", ".gemini/settings.json", "SessionEnd", 60_000),
)


class AgentEdit(msgspec.Struct, frozen=True):
    """What a settings file holds and will hold ("" for no file), and the work tree that it must not lead out of."""

    path: Path
    before: str
    after: str
    root: Path


def plan_agent(root: Path, name: str, python: str) -> AgentEdit:
    """The settings of an agent with our hook in them; one that called another interpreter is replaced.

    Raises UsageError (agent-settings): the file is not what the agent reads.
    """
    agent = next(agent for agent in AGENTS if agent.name == name)
    path = root / agent.file
    before = read_text(path)
    wanted = _entry(agent, python)
    with _reading(path):
        if before and remove(before, ("hooks", agent.event), lambda value: bool(value == wanted)) != before:
            return AgentEdit(path, before, before, root)
        return AgentEdit(path, before, insert(_without(before or EMPTY, agent), ("hooks", agent.event), wanted), root)


def plan_agents_out(root: Path) -> tuple[AgentEdit, ...]:
    """The settings that hold a hook of ours, without it. Raises UsageError (agent-settings)."""
    return tuple(_plan_out(root))


def put_agent(edit: AgentEdit, dry_run: bool) -> InstallStep:
    """Write what was planned. Raises RepositoryError: outside-repository, write-failed."""
    if edit.after == edit.before:
        return InstallStep("agent", str(edit.path), "kept")
    if not dry_run and edit.after:
        write_file(edit.path, edit.after.encode("utf-8", "surrogateescape"), edit.root)
    elif not dry_run:
        edit.path.unlink()
        with suppress(OSError):  # not empty: it is the user's
            edit.path.parent.rmdir()
    return InstallStep("agent", str(edit.path), "written" if _mark_of(edit.path) in edit.after else "removed")


def _plan_out(root: Path) -> Iterator[AgentEdit]:
    for agent in AGENTS:
        path = root / agent.file
        before = read_text(path)
        if _mark(agent) in before:
            with _reading(path):
                after = _without(before, agent)
            yield AgentEdit(path, before, "" if after == EMPTY else after, root)


def _mark(agent: Agent) -> str:
    """What tells our hook from others, whatever interpreter it calls."""
    return f"capture - --hook --agent {agent.name}"


def _mark_of(path: Path) -> str:
    return next(_mark(agent) for agent in AGENTS if path.match(agent.file))


def _entry(agent: Agent, python: str) -> dict[str, Any]:
    """A group of hooks as all three agents take it; it ends in success without memory-ci, too."""
    program = shlex.quote(python) if agent.is_local else "memory-ci"
    call = f"{program} -P -m memory_ci" if agent.is_local else program
    command = f"command -v {program} >/dev/null 2>&1 && {call} {_mark(agent)}; exit 0"
    return {"hooks": [{"type": "command", "command": command, "timeout": agent.minute}]}


def _without(text: str, agent: Agent) -> str:
    return remove(text, ("hooks", agent.event), lambda value: _is_ours(value, _mark(agent)))


def _is_ours(value: Any, mark: str) -> bool:  # noqa: ANN401 - any JSON
    hooks = value.get("hooks") if isinstance(value, dict) else None
    return (
        isinstance(hooks, list)
        and len(hooks) == 1
        and isinstance(hooks[0], dict)
        and mark in str(hooks[0].get("command"))
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A settings file that cannot be edited as text is its owner's to mend."""
    try:
        yield
    except WrongShapeError as error:
        hint = "Make it what the agent reads: docs/sessions.md says where its hooks are. Nothing was changed."
        raise UsageError(f"{path}: {error}", slug="agent-settings", hint=hint) from error
    except ValueError as error:
        message = f"{path} is not the plain JSON that a hook can be put into: {error}"
        hint = "Take comments out, or put the hook in by hand: docs/sessions.md says which. Nothing was changed."
        raise UsageError(message, slug="agent-settings", hint=hint) from error
