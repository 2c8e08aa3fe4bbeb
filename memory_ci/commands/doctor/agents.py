"""Checks of `memory-ci doctor` on coding agents: their hooks, MCP servers and captured sessions."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import msgspec

from memory_ci.commands.doctor.context import DoctorContext, find_interpreter_fault
from memory_ci.commands.doctor.records import Probe
from memory_ci.commands.doctor.setup import INSTALL_COMMAND
from memory_ci.commands.setup import hooks
from memory_ci.commands.setup.agents import FoundPart, list_parts
from memory_ci.commands.setup.clients import AGENTS, MODULE, PROGRAM
from memory_ci.extras import how_to_install
from memory_ci.gitrepo.blobs import list_staged
from memory_ci.gitrepo.history import find_last_uses
from memory_ci.gitrepo.repo import find_repository, list_worktrees
from memory_ci.memory.workspace import Workspace
from memory_ci.sessions.session_note import find_last_activity_times

READING_EVENT_NAMES = ("SessionStart", "sessionStart")
"""Events that are hooked into only to read memory."""


def check_agents(context: DoctorContext) -> Iterator[Probe]:
    """Check the settings of coding agents: hooks, MCP servers and texts, in all work trees."""
    repo = context.workspace.repo
    root = repo.root
    if root is None:
        yield Probe("agents", "skip", "no work tree")
        return
    if not context.workspace.config.sessions.read:
        yield Probe("agents", "skip", "the configuration says sessions.read: false")
        return

    found_parts = [*list_parts(root), *list_parts(Path.home(), "user")]
    found_hooks = [found for found in found_parts if found.part.name == "hooks"]
    last_prompts = find_last_activity_times(context.workspace)
    if not found_hooks:
        yield from _report_readers_without_hooks(last_prompts)
    if not found_parts and not last_prompts:
        first, *others = (agent.name for agent in AGENTS)
        remedy = f"optional: {INSTALL_COMMAND} --agent {first} (or {', '.join(others)})"
        yield Probe("agents", "skip", "no agent of this clone reads memory", remedy)

    for hook in found_hooks:
        fault = _find_hook_fault(context, hook)
        if fault is not None:
            yield fault
        else:
            yield from _report_hook(hook, found_parts, last_prompts.get(hook.agent.name))
    yield from _report_servers_and_texts(context, found_parts)
    yield from _report_last_served_work(context)
    names = [hook.agent.name for hook in found_hooks if hook.path.is_relative_to(root)]
    yield from _report_worktrees(context, dict.fromkeys(names))


def _report_readers_without_hooks(last_prompts: Mapping[str, datetime]) -> Iterator[Probe]:
    """Report when agents last read memory, in a clone whose settings have no hook of any agent.

    Args:
        last_prompts: the time of the last prompt at which each agent read, by its name.
    """
    for name, time in last_prompts.items():
        message = f"{name} last read at {time:%Y-%m-%d %H:%M}"
        yield Probe("agents", "ok", f"{message}, by a plugin or by hooks that are gone")


def _report_last_served_work(context: DoctorContext) -> Iterator[Probe]:
    """Report when agents last committed work for which they had read memory."""
    readers = find_last_uses(context.workspace.repo, context.tip) if context.tip else {}
    if readers:
        days = ", ".join(f"{name} on {time:%Y-%m-%d}" for name, time in readers.items())
        yield Probe("agents", "ok", f"work that was served memory was last committed by {days}")


def _report_servers_and_texts(
    context: DoctorContext, found_parts: Sequence[FoundPart]
) -> Iterator[Probe]:
    """Report MCP servers, and instructions in documents, once for a file that several agents read.

    Args:
        context: the repository and the machine.
        found_parts: all our parts in the settings of agents.
    """
    first_by_file: dict[tuple[Path, str], FoundPart] = {}
    for found in reversed(found_parts):  # reversed: the first of a file is stored last, and stays
        first_by_file[found.path, found.part.name] = found
    for found in first_by_file.values():
        if found.part.name == "mcp":
            yield _judge_server(context, found)
        elif found.part.name == "text":
            message = f"{found.path} tells any agent that reads it how to ask, and how to note"
            yield Probe("agents", "ok", message)


def _report_worktrees(context: DoctorContext, agent_names: Iterable[str]) -> Iterator[Probe]:
    """Report whether agents with hooks here also have them in the other work trees of the clone.

    Args:
        context: the repository and the machine.
        agent_names: the agents that have hooks in this work tree.
    """
    repo = context.workspace.repo
    for tree in list_worktrees(repo):
        if tree.is_bare or tree.path == repo.root or not tree.path.is_dir():
            continue
        found_parts = list_parts(tree.path)
        names_with_hooks = {found.agent.name for found in found_parts if found.part.name == "hooks"}
        last_prompts: Mapping[str, datetime] = {}
        if names_with_hooks:
            workspace = Workspace(find_repository(tree.path), context.workspace.config)
            last_prompts = find_last_activity_times(workspace)
        for name in agent_names:
            time = last_prompts.get(name)
            if name not in names_with_hooks:
                message = f"{name} reads nothing in the work tree {tree.path}"
                remedy = (
                    f"{INSTALL_COMMAND} --agent {name} in it, or --shared and commit, or --user"
                )
                yield Probe("agents", "warn", message, remedy)
            elif time:
                message = f"{name} last read at {time:%Y-%m-%d %H:%M} in the work tree {tree.path}"
                yield Probe("agents", "ok", message)


def _report_hook(
    hook: FoundPart, found_parts: Iterable[FoundPart], last_prompt: datetime | None
) -> Iterator[Probe]:
    """Report the three things that an agent's hook does, or that it does not do them.

    It serves memory to the agent, asks the agent to note corrections of people, and captures
    sessions.

    Args:
        hook: a hook that can be called.
        found_parts: all parts of ours that were found.
        last_prompt: the time of the last prompt at which the hook was called, None for none.
    """
    name = hook.agent.name
    is_of_user = hook.part.user != "" and "--user" in hook.text
    user_flag = " --user" if is_of_user else ""
    remedy = f"{INSTALL_COMMAND}{user_flag} --agent {name}"
    yield _judge_memory_reading(hook, last_prompt, remedy)

    # The text of the settings has the command line of the hook, with its options, and the names of
    # the events at which the agent calls it.
    if "--no-ask" in hook.text:
        yield Probe("agents", "skip", f"{name} is asked for no note (--without ask)", remedy)
    else:
        # The part `allow` permits the agent to run `memory-ci add`.
        may_add_notes = any(
            found.part.name == "allow" and found.agent == hook.agent for found in found_parts
        )
        permission = ", and may write them" if may_add_notes else ""
        yield Probe("agents", "ok", f"{name} is asked for notes{permission}")

    # At any event that does not serve memory the hook captures the session.
    capture_events = [event.name for event in hook.agent.events if not event.serves_memory]
    if any(event_name in hook.text for event_name in capture_events):
        yield Probe("agents", "ok", f"{name} captures each session")
    else:
        message = f"{name} captures no session: no hook at its end, or transcripts not readable"
        yield Probe("agents", "skip", message)


def _judge_memory_reading(hook: FoundPart, last_prompt: datetime | None, remedy: str) -> Probe:
    """Return whether an agent reads memory by its hook, and when the hook was last called.

    A call is noted for 30 days. That none was noted is no fault: nobody may have used the agent.

    Args:
        hook: the hook.
        last_prompt: the time of the last prompt at which it was called, None for none.
        remedy: the command that makes it read.
    """
    name = hook.agent.name
    is_plugin = hook.agent.hook_format == "plugin"
    if not is_plugin and not any(event in hook.text for event in READING_EVENT_NAMES):
        return Probe("agents", "skip", f"{name} reads no memory (--without retrieve)", remedy)
    if last_prompt:
        when = f"last at a prompt of {last_prompt:%Y-%m-%d %H:%M}"
        return Probe("agents", "ok", f"{name} reads memory, {when}: {hook.path}")
    if name == "cursor":  # it has no event at a prompt
        return Probe("agents", "ok", f"{name} reads memory: {hook.path}")
    message = (
        f"{name} is to read memory, and no prompt of it was seen in this work tree for 30 days"
    )
    remedy = f"start {name} here, and let it trust the hook where it asks"
    return Probe("agents", "skip", message, remedy)


def _find_hook_fault(context: DoctorContext, hook: FoundPart) -> Probe | None:
    """Return why the hook of an agent does nothing, here or in other clones, None if it works.

    It does nothing if the program that it calls is not there. A hook that git tracks must not call
    an interpreter of this machine: other clones do not have it.
    """
    name = hook.agent.name
    file = hook.part.file
    install = f"{INSTALL_COMMAND} --agent {name}"
    commands = hook.text
    if hook.text.lstrip().startswith("{"):  # JSON, as `list_parts` has read it; else a plugin
        commands = "\n".join(hooks.list_texts(msgspec.json.decode(hook.text)))
    python = hooks.find_interpreter(commands)

    fault = find_interpreter_fault(context, python, may_run=False)
    if fault:
        return Probe("agents", "fail", f"the hook of {name} {fault}", install)
    if python is None:
        if shutil.which(PROGRAM) is not None:
            return None
        message = (
            f"the hook of {name} calls {PROGRAM} by name, which is not on the PATH: it does nothing"
        )
        return Probe("agents", "warn", message, f"put {PROGRAM} on the PATH, or {install}")
    is_in_work_tree = file in str(hook.path)  # The hooks of a user have another path, in the home.
    if is_in_work_tree and list_staged(context.workspace.repo, [file]):
        message = (
            f"git tracks {file}, which names an interpreter of this machine: "
            "no other clone captures with it"
        )
        remedy = f"git rm --cached {file}, commit that, then {install}"
        return Probe("agents", "warn", message, remedy)
    return None


def _judge_server(context: DoctorContext, server: FoundPart) -> Probe:
    """Return whether an agent can start the MCP server that its settings name."""
    name = server.agent.name
    python = _find_server_interpreter(server)
    fault = find_interpreter_fault(context, python, may_run=False)
    if fault:
        message = f"the MCP server of {name} {fault}"
        return Probe("agents", "fail", message, f"{INSTALL_COMMAND} --agent {name}")
    if python == context.python and find_spec("mcp") is None:
        message = f"the MCP server of {name} cannot start: {context.python} lacks it"
        return Probe("agents", "warn", message, how_to_install("mcp"))
    path = server.path
    root = context.workspace.repo.root
    if root is not None and path.is_relative_to(root):
        path = path.relative_to(root)
    return Probe("agents", "ok", f"{name} has the MCP server: {path}")


def _find_server_interpreter(server: FoundPart) -> str | None:
    """Return the interpreter that the settings of a server call, None if they name none.

    It is the word before the arguments `-P -m memory_ci`.
    """
    if server.part.form == "block":
        settings: object = tomllib.loads(server.text)
    else:
        settings = msgspec.json.decode(server.text)
    for word, next_word in pairwise(hooks.list_texts(settings)):
        if next_word == MODULE[0]:
            return word
    return None
