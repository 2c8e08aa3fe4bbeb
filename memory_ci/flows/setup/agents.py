"""The hooks of coding agents that capture a session when it ends: an entry in the agent's own settings of this project.

Where the settings are of this clone alone, the entry calls the interpreter that memory-ci is installed for; where they
are committed, it calls `memory-ci` by name, and holds no path of anyone's machine.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.setup.json_settings import EMPTY, WrongShapeError, insert, remove
from memory_ci.flows.setup.steps import InstallStep, read_text
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


PROGRAM = "memory-ci"
TEST = " >/dev/null 2>&1 && "


class AgentEdit(msgspec.Struct, frozen=True):
    """What a settings file holds and will hold ("" for no file), and the work tree that it must not lead out of.

    `is_out`: our hook was taken out.
    """

    path: Path
    before: str
    after: str
    root: Path
    is_out: bool = False


def local_files(names: Collection[str]) -> tuple[str, ...]:
    """Which settings of the agents of these names hold a path of this machine, so that no commit should have them."""
    return tuple(agent.file for agent in AGENTS if agent.is_local and agent.name in names)


def plan_agent(root: Path, name: str, python: str) -> AgentEdit:
    """The settings of an agent with our hook in them; one that called another interpreter is replaced.

    Raises UsageError (agent-settings): the file is not what the agent reads.
    """
    agent = next(agent for agent in AGENTS if agent.name == name)
    path = root / agent.file
    _refuse_link(path)
    before = read_text(path)
    wanted = _entry(agent, shlex.quote(python) if agent.is_local else PROGRAM)
    with _reading(path):
        if before and remove(before, ("hooks", agent.event), lambda value: bool(value == wanted)) != before:
            return AgentEdit(path, before, before, root)
        return AgentEdit(path, before, insert(_without(before or EMPTY, agent), ("hooks", agent.event), wanted), root)


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
        made = [path for path in (edit.path.parent, edit.path) if not path.exists()]
        write_file(edit.path, edit.after.encode("utf-8", "surrogateescape"), edit.root)
        _note_made(note, made)
    elif not dry_run:
        _remove_made(note, edit.path)
    return InstallStep("agent", str(edit.path), "removed" if edit.is_out else "written")


def _plan_out(root: Path, note: Path) -> Iterator[AgentEdit]:
    for agent in AGENTS:
        path = root / agent.file
        before = read_text(path)
        if _mark(agent) not in before:
            continue
        with _reading(path):
            after = _without(before, agent)
        if after != before:
            _refuse_link(path)
            is_left = after != EMPTY or str(path) not in read_text(note).splitlines()
            yield AgentEdit(path, before, after if is_left else "", root, is_out=True)


def _note_made(note: Path, paths: list[Path]) -> None:
    if paths:
        write_file(note, "".join(f"{line}\n" for line in (*read_text(note).splitlines(), *paths)).encode())


def _remove_made(note: Path, path: Path) -> None:
    """Remove a settings file of ours, and its directory if that is ours and holds nothing else."""
    path.unlink()
    made = read_text(note).splitlines()
    if str(path.parent) in made:
        with suppress(OSError):  # not empty: the user put something in
            path.parent.rmdir()
    write_file(note, "".join(f"{line}\n" for line in made if line not in (str(path), str(path.parent))).encode())


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        hint = "Put a file in its place, or put the hook in by hand: docs/sessions.md says which. Nothing was changed."
        raise UsageError(f"{path} is a symbolic link", slug="agent-settings", hint=hint)


def _mark(agent: Agent) -> str:
    """What no settings with our hook are without, whatever interpreter it calls."""
    return f"capture - --hook --agent {agent.name}"


def _entry(agent: Agent, program: str) -> dict[str, Any]:
    """A group of hooks as all three agents take it; it ends in success without memory-ci, too."""
    call = f"{program} -P -m memory_ci" if agent.is_local else program
    command = f"command -v {program}{TEST}{call} {_mark(agent)}; exit 0"
    return {"hooks": [{"type": "command", "command": command, "timeout": agent.minute}]}


def _without(text: str, agent: Agent) -> str:
    return remove(text, ("hooks", agent.event), lambda value: _is_ours(value, agent))


def _is_ours(value: Any, agent: Agent) -> bool:  # noqa: ANN401 - any JSON
    """Whether this is what `_entry` writes, for any program; what its owner changed is his."""
    with suppress(AttributeError, IndexError, KeyError, TypeError):
        program = value["hooks"][0]["command"].removeprefix("command -v ").partition(TEST)[0]
        return bool(value == _entry(agent, program))
    return False


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
