"""Doctor on coding agents: what each reads, is asked, captures and can call, and whether it was heard of lately."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterable, Iterator
from datetime import datetime
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import msgspec

from memory_ci.flows.doctor.case import Surroundings, interpreter_fault
from memory_ci.flows.serve.session_note import list_heard
from memory_ci.flows.setup.agents import FoundPart, list_parts
from memory_ci.flows.setup.clients import AGENTS, MODULE, PROGRAM
from memory_ci.flows.setup.hook_managers import find_interpreter, list_texts
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.blobs import list_staged
from memory_ci.gitrepo.history import list_readers
from memory_ci.gitrepo.repo import find_repository, list_worktrees
from memory_ci.records.health import Probe

INSTALL = "memory-ci install"
READING = ("SessionStart", "sessionStart")
"""An event that is hooked into only to read memory."""


def check_agents(case: Surroundings) -> Iterator[Probe]:
    """A row for each agent and part, here and in the home, and for each work tree that an agent does not read in."""
    root = case.workspace.repo.root
    if root is None or not case.workspace.config.sessions.read:
        yield Probe("agents", "skip", "no work tree" if root is None else "the configuration says sessions.read: false")
        return
    found = [*list_parts(root), *list_parts(Path.home(), "user")]
    hooks = [one for one in found if one.part.name == "hooks"]
    if not found:
        remedy = f"optional: {INSTALL} --agent {AGENTS[0].name} (or {', '.join(agent.name for agent in AGENTS[1:])})"
        yield Probe("agents", "skip", "no agent of this clone reads memory", remedy)
    heard = list_heard(case.workspace)
    for one in hooks:
        yield from _fault(case, one) or _rows(one, found, heard.get(one.agent.name))
    for one in {(one.path, one.part.name): one for one in reversed(found)}.values():  # some files serve several agents
        if one.part.name == "mcp":
            yield _server(case, one)
        elif one.part.name == "text":
            yield Probe("agents", "ok", f"{one.path} tells any agent that reads it how to ask, and how to note")
    readers = list_readers(case.workspace.repo, case.tip) if case.tip else {}
    if readers:
        seen = ", ".join(f"{name} on {at:%Y-%m-%d}" for name, at in readers.items())
        yield Probe("agents", "ok", f"work that was given memory was last committed by {seen}")
    yield from _work_trees(case, [one.agent.name for one in hooks if one.path.is_relative_to(root)])


def _rows(hook: FoundPart, found: Iterable[FoundPart], heard: datetime | None) -> Iterator[Probe]:
    """What a hook that can be called does; the day is that of a prompt, which every session begins with."""
    name, text = hook.agent.name, hook.text
    is_plugin = hook.agent.hook == "plugin"
    again = f"{INSTALL}{' --user' * (hook.part.user != '' and '--user' in text)} --agent {name}"
    if is_plugin or any(event in text for event in READING):
        if heard or name == "cursor":  # which has no event at a prompt
            when = f", last at a prompt of {heard:%Y-%m-%d %H:%M}" if heard else ""
            yield Probe("agents", "ok", f"{name} reads memory{when}: {hook.path}")
        else:
            what = f"{name} is to read memory, and no prompt of it was seen in this work tree for 30 days"
            yield Probe("agents", "skip", what, f"start {name} here, and let it trust the hook where it asks")
    else:
        yield Probe("agents", "skip", f"{name} reads no memory (--no-retrieve)", again)
    if "--no-ask" in text:
        yield Probe("agents", "skip", f"{name} is asked for no note (--no-ask)", again)
    else:
        may = any(one.part.name == "allow" and one.agent == hook.agent for one in found)
        yield Probe("agents", "ok", f"{name} is asked for notes{', and may write them' if may else ''}")
    if any(not event.is_reading and event.name in text for event in hook.agent.events):
        yield Probe("agents", "ok", f"{name} captures each session")
    else:
        yield Probe("agents", "skip", f"{name} captures no session: it says no end, or its transcripts are not read")


def _fault(case: Surroundings, hook: FoundPart) -> tuple[Probe, ...]:
    """Why a hook does nothing, here or in other clones."""
    name = hook.agent.name
    is_json = hook.text.lstrip().startswith("{")  # which was read as such just now; else it is a plugin
    commands = "\n".join(list_texts(msgspec.json.decode(hook.text))) if is_json else hook.text
    python = find_interpreter(commands)
    again = f"{INSTALL} --agent {name}"
    if fault := interpreter_fault(case, python, may_run=False):
        return (Probe("agents", "fail", f"the hook of {name} {fault}", again),)
    if python is None and shutil.which(PROGRAM) is None:
        what = f"the hook of {name} calls {PROGRAM} by name, which is not on the PATH: it does nothing"
        return (Probe("agents", "warn", what, f"put {PROGRAM} on the PATH, or {again}"),)
    if python is not None and hook.part.file in str(hook.path) and list_staged(case.workspace.repo, [hook.part.file]):
        file = hook.part.file
        what = f"git tracks {file}, which names an interpreter of this machine: no other clone captures with it"
        return (Probe("agents", "warn", what, f"git rm --cached {file}, commit that, then {again}"),)
    return ()


def _server(case: Surroundings, found: FoundPart) -> Probe:
    read = tomllib.loads if found.part.form == "block" else msgspec.json.decode
    python = next((word for word, after in pairwise(list_texts(read(found.text))) if after == MODULE[0]), None)
    if fault := interpreter_fault(case, python, may_run=False):
        return Probe(
            "agents", "fail", f"the MCP server of {found.agent.name} {fault}", f"{INSTALL} --agent {found.agent.name}"
        )
    if python == case.python and find_spec("mcp") is None:
        what = f"the MCP server of {found.agent.name} cannot start: {case.python} lacks it"
        return Probe("agents", "warn", what, "pip install 'memory-ci[mcp]'")
    return Probe("agents", "ok", f"{found.agent.name} has the MCP server: {found.path}")


def _work_trees(case: Surroundings, names: Iterable[str]) -> Iterator[Probe]:
    """Other work trees of this clone in which an agent that reads here reads nothing."""
    for tree in list_worktrees(case.workspace.repo):
        if tree.is_bare or tree.path == case.workspace.repo.root or not tree.path.is_dir():
            continue
        there = {one.agent.name for one in list_parts(tree.path) if one.part.name == "hooks"}
        for name in dict.fromkeys(names):
            if name not in there:
                remedy = f"{INSTALL} --agent {name} in it, or --shared and commit, or --user"
                yield Probe("agents", "warn", f"{name} reads nothing in the work tree {tree.path}", remedy)
            elif at := list_heard(Workspace(find_repository(tree.path), case.workspace.config)).get(name):
                yield Probe("agents", "ok", f"{name} last read at {at:%Y-%m-%d %H:%M} in the work tree {tree.path}")
