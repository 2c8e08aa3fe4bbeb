"""Checks of the set-up: hooks, pre-commit, the merge driver, the jobs of CI, coding agents."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci import __version__
from memory_ci.commands.doctor.case import Surroundings, find_interpreter_fault, peek_text
from memory_ci.commands.doctor.records import Probe, ProbeState
from memory_ci.commands.setup import hooks
from memory_ci.commands.setup.agents import FoundPart, list_parts
from memory_ci.commands.setup.clients import AGENTS, MODULE, PROGRAM
from memory_ci.extras import how_to_install
from memory_ci.gitrepo.blobs import list_staged, tree_at
from memory_ci.gitrepo.history import list_readers
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import find_repository, find_setting, list_worktrees
from memory_ci.memory.workspace import Workspace, is_below_episodes
from memory_ci.records.names import FULL_ID
from memory_ci.regex import Regex
from memory_ci.sessions.session_note import list_last_signs
from memory_ci.store.merge_driver import ATTRIBUTES, SECTION

INSTALL = "memory-ci init --clone"
FRAMEWORK = Regex(r"\b(?:pre-commit|prek)\b")
"""A word in every hook that the framework wrote."""

PINNED = Regex(r"repo:\s*['\"]?(\S*/memory-ci)(?:\.git)?['\"]?\s*\n\s*rev:\s*['\"]?([^\s'\"#]+)")
USES = Regex(
    r"^[ \t]*(?:-[ \t]*)?(?:uses|component):[ \t]*['\"]?(\S*/memory-ci\S*)@([^\s'\"#]+)",
    re.MULTILINE,
)
CALLS = Regex(r"^[^#\n]*\bmemory-ci[ \t]+(?:ci|record|verify)\b", re.MULTILINE)
DRIVES = Regex(r"\bmemory[-_]ci hook merge\b")
VERSION = Regex(r"v?(\d+(?:\.\d+)*)")
HOST = Regex(r"[a-z+]+://(?:[^/@]*@)?([^/:]+)|(?:[^/:@]+@)?([^/:@]+):")
"""The host of an address of git: `https://host/…`, `ssh://git@host/…`, `git@host:…`.

A path has none.
"""

FORGE = Regex(r"github|gitlab", re.IGNORECASE)
TRIGGERS = Regex(r"^on:[ \t]*\n(?P<indent>[ \t]+)\S.*\n(?:[ \t]+.*\n|\n)*", re.MULTILINE)
PLACEHOLDER = Regex(r"(?:^|/)OWNER/")
READING_EVENTS = ("SessionStart", "sessionStart")
"""Events that are hooked into only to read memory."""


# -- git's hooks


class HookState(NamedTuple):
    """The state of a hook that is installed; `what` follows its name in a sentence."""

    state: ProbeState
    what: str
    remedy: str = INSTALL


WORKS = HookState("ok", "calls memory-ci")
UNUSABLE = HookState("fail", "is not executable, so git passes it over")
OLDER = HookState("warn", "is not as this version of memory-ci writes it")
EDITED = HookState(
    "warn",
    "was changed since `init --clone` wrote it, so whether it does its work cannot be told",
    f"{INSTALL} (it renames what you changed: `memory-ci help agents` says where lines of your own "
    "belong)",
)


def check_hooks(case: Surroundings) -> Iterator[Probe]:
    """Report the hooks that work, those that are missing, and those that do not do their work."""
    repo = case.workspace.repo
    if repo.root is None:
        what = "a bare repository: hooks belong into clones that have a work tree"
        yield Probe("hooks", "skip", what)
        return
    states = {hook: _find_state(case, hook) for hook in hooks.HOOKS}

    working = [hook for hook, state in states.items() if state is WORKS]
    if working:
        verb = "call" if len(working) > 1 else "calls"
        yield Probe("hooks", "ok", f"{', '.join(working)} {verb} memory-ci")

    missing = [hook for hook, state in states.items() if state is None]
    if missing:
        hooks_path = find_setting(repo, "core.hooksPath")
        remedy = INSTALL
        if hooks_path:
            remedy += f" says which lines to add in {hooks_path} (core.hooksPath)"
        yield Probe("hooks", "warn", f"not installed: {', '.join(missing)}", remedy)

    for hook, state in states.items():
        if state is not None and state is not WORKS:
            yield Probe("hooks", state.state, f"{hook} {state.what}", state.remedy)


def _find_state(case: Surroundings, hook: str) -> HookState | None:
    """Return the state of a hook, None if it does not call memory-ci."""
    path = case.hooks / hook
    git_hook_text = peek_text(path)
    paths = [path]
    if hooks.is_generated(git_hook_text):  # the framework runs the `.legacy` hook
        paths.append(path.with_name(f"{hook}.legacy"))

    work = hook if hook in hooks.WITH_ARGUMENT else "sync"
    call = re.compile(rf"memory[-_]ci hook {work}\b")
    for candidate in paths:
        text = peek_text(candidate)
        if hooks.is_ours(text) or call.search(hooks.without_comments(text)):
            return _judge_hook(case, hook, candidate, text)
    if FRAMEWORK.search(git_hook_text) and _is_run_by_framework(case, hook):
        return WORKS
    return _find_managed_state(case, hook, git_hook_text)


def _is_run_by_framework(case: Surroundings, hook: str) -> bool:
    """Return whether the configuration of pre-commit has hooks of ours run in a git hook."""
    return any(hook in hooks.RUN_BY.get(name, ()) for name in _list_configured(case))


def _find_managed_state(case: Surroundings, hook: str, git_hook_text: str) -> HookState | None:
    """Return the state of a hook that lefthook or husky runs, None if neither does."""
    root = case.workspace.repo.root
    if root is None:
        return None
    manager = hooks.find_manager(root, [hook])
    if manager is None or manager.additions:
        return None
    is_in_husky = (root / hooks.HUSKY) in (case.hooks / hook).parents
    if git_hook_text and (manager.tool in git_hook_text or is_in_husky):
        return WORKS
    what = f"is left to {manager.tool}, which is not installed in this clone"
    return HookState("warn", what, manager.remedy)


def _judge_hook(case: Surroundings, hook: str, path: Path, text: str) -> HookState:
    """Return the state of a hook that calls memory-ci."""
    if not path.stat().st_mode & 0o111:
        return UNUSABLE
    python = hooks.find_interpreter(text)
    fault = find_interpreter_fault(case, python, may_run=True)
    if fault:
        return HookState("fail", fault)
    if not hooks.is_ours(text):
        return WORKS
    if not hooks.is_as_written(text):
        return EDITED
    return WORKS if python and text == hooks.hook_text(hook, python) else OLDER


# -- pre-commit


def check_pre_commit(case: Surroundings) -> Iterator[Probe]:
    """Check that the hooks of ours in pre-commit's configuration are run, and their version."""
    names = _list_configured(case)
    if not names:
        yield Probe("pre-commit", "skip", f"{hooks.PRE_COMMIT} names no hook of memory-ci")
        return
    faults: list[Probe] = []
    for name in names:
        git_hooks = hooks.RUN_BY.get(name, ())
        texts = [peek_text(case.hooks / hook) for hook in git_hooks]
        if texts and not any(_is_of_framework(text) for text in texts):
            what = f"{name} is configured and never run: no {git_hooks[0]} hook"
            remedy = f"pre-commit install --hook-type {git_hooks[0]}"
            faults.append(Probe("pre-commit", "warn", what, remedy))
    pins = PINNED.findall(_read_pre_commit(case))
    faults += _judge_pins("pre-commit", hooks.PRE_COMMIT, pins)
    if faults:
        yield from faults
    else:
        yield Probe("pre-commit", "ok", f"{', '.join(names)} configured")


def _is_of_framework(hook_text: str) -> bool:
    return FRAMEWORK.search(hook_text) is not None and not hooks.is_ours(hook_text)


def _read_pre_commit(case: Surroundings) -> str:
    """Return the configuration of pre-commit without comments, "" for none."""
    root = case.workspace.repo.root
    return hooks.without_comments(peek_text(root / hooks.PRE_COMMIT)) if root else ""


def _list_configured(case: Surroundings) -> tuple[str, ...]:
    """Return the hooks of ours that the configuration of pre-commit names."""
    return tuple(dict.fromkeys(hooks.FRAMEWORK_ID.findall(_read_pre_commit(case))))


# -- the merge driver


def check_merge_driver(case: Surroundings) -> Iterator[Probe]:
    """Check the merge driver in git's configuration, and the attributes that call it."""
    yield _judge_merge_driver(case)


def _judge_merge_driver(case: Surroundings) -> Probe:
    name = "merge-driver"
    repo = case.workspace.repo
    if repo.root is None:
        return Probe(name, "skip", "a bare repository merges nothing")
    driver = find_setting(repo, f"{SECTION}.driver")
    unassigned = _list_unassigned(case)
    if driver is None:
        more = "" if unassigned else f"; {ATTRIBUTES} asks for it"
        what = f"not configured: memory files merge line by line{more}"
        return Probe(name, "warn", what, INSTALL)
    if unassigned:
        paths = ", ".join(unassigned)
        what = f"configured, but no attribute gives it {paths}: they merge line by line"
        return Probe(name, "fail", what, f"{INSTALL}, then commit {ATTRIBUTES}")
    if not DRIVES.search(driver):
        what = (
            f"git's configuration names another driver, {driver}: "
            "memory files are not merged entry by entry"
        )
        return Probe(name, "fail", what, INSTALL)

    python = hooks.find_interpreter(driver)
    if python is not None:
        python = python.replace("%%", "%")  # git expands % in the command of a driver
    fault = find_interpreter_fault(case, python or None, may_run=True)
    if fault:
        what = f"the driver {fault}: memory files merge line by line"
        return Probe(name, "fail", what, INSTALL)
    if case.head is None or ATTRIBUTES not in tree_at(repo, case.head).files:
        what = f"{ATTRIBUTES} is not committed: other clones have none"
        remedy = f"git add {ATTRIBUTES} && git commit -m 'Merge memory files by entries'"
        return Probe(name, "warn", what, remedy)
    return Probe(name, "ok", "memory files are merged entry by entry")


def _list_unassigned(case: Surroundings) -> list[str]:
    """Return the memory files, present or to come, for which git would not call the driver."""
    scopes = case.workspace.config.scopes
    patterns = (*scopes.project, *scopes.institutional)
    paths = [pattern for pattern in patterns if not re.search(r"[*?{\[]", pattern)]
    paths += [file.path for file in case.files if not is_below_episodes(file)]

    input_paths = b"".join(encode_path(path) + b"\0" for path in dict.fromkeys(paths))
    command = ("check-attr", "-z", "--stdin", "merge")
    output = run_git(case.workspace.repo.cwd, *command, input=input_paths)
    # For each path: the path, the attribute, its value.
    fields = decode_path(output).split("\0")[:-1]
    driver = SECTION.partition(".")[2]
    attributes = zip(fields[::3], fields[2::3], strict=True)
    return [path for path, value in attributes if value != driver]


# -- the jobs of CI


def check_ci(case: Surroundings) -> Iterator[Probe]:
    """Check that a job of CI records merged changes, and its version of memory-ci."""
    root = case.workspace.repo.root
    if root is None:
        yield Probe("ci", "skip", "no work tree")
        return
    texts = _read_workflows(root)
    calling = {
        path: text for path, text in texts.items() if USES.search(text) or CALLS.search(text)
    }
    if not calling:
        yield _judge_missing_ci(case, has_ci=any(texts.values()))
    for path, text in calling.items():
        yield from _judge_workflow(path, text)


def _read_workflows(root: Path) -> dict[str, str]:
    """Return the workflows of GitHub and the pipeline of GitLab without comments, by path."""
    files = sorted((root / ".github" / "workflows").glob("*.y*ml"))
    files = [file for file in files if file.suffix in (".yml", ".yaml")]
    files.append(root / ".gitlab-ci.yml")
    texts: dict[str, str] = {}
    for file in files:
        texts[file.relative_to(root).as_posix()] = hooks.without_comments(peek_text(file))
    return texts


def _judge_missing_ci(case: Surroundings, *, has_ci: bool) -> Probe:
    """Judge that no job calls memory-ci.

    Args:
        case: the repository and the machine.
        has_ci: the repository has other jobs of CI.
    """
    origin = find_setting(case.workspace.repo, "remote.origin.url")
    if origin is None:
        return Probe("ci", "skip", "no remote `origin`, so no CI")
    host = HOST.match(origin)
    is_on_forge = host is not None and FORGE.search(host[1] or host[2])
    if not has_ci and not is_on_forge:
        what = "nothing of CI is here, and `origin` is on no GitHub or GitLab"
        remedy = "optional: let any CI run `memory-ci ci --provider none` (`memory-ci help ci`)"
        return Probe("ci", "skip", what, remedy)
    what = "no workflow runs memory-ci: what is merged becomes memory only by hand"
    return Probe("ci", "warn", what, "memory-ci init --ci github (or gitlab)")


def _judge_workflow(path: str, text: str) -> list[Probe]:
    """Judge a workflow that runs memory-ci."""
    pins = USES.findall(text)
    has_placeholder = any(PLACEHOLDER.search(used) for used, _ in pins)
    if has_placeholder and is_only_called(text):
        what = f"{path} runs only where another workflow calls it, and names the placeholder OWNER"
        remedy = f"to publish it: put the account that holds memory-ci for OWNER in {path}."
        return [Probe("ci", "skip", what, remedy)]
    faults = _judge_pins("ci", path, pins)
    if faults:
        return faults
    refs = ", ".join(sorted({ref for _, ref in pins}))
    version = f" at {refs}" if refs else ""
    return [Probe("ci", "ok", f"{path} runs memory-ci{version}")]


def is_only_called(workflow: str) -> bool:
    """Return whether a workflow of GitHub starts only where another workflow calls it.

    >>> is_only_called("on:\\n  workflow_call:\\n    inputs: {}\\njobs: {}\\n")
    True
    >>> is_only_called("on:\\n  push:\\n  workflow_call:\\njobs: {}\\n")
    False
    """
    block = TRIGGERS.search(workflow)
    if block is None:
        return False
    names = re.findall(rf"(?m)^{block['indent']}(\w+):", block[0])
    return names == ["workflow_call"]


def _judge_pins(name: str, path: str, pins: Iterable[tuple[str, str]]) -> list[Probe]:
    """Return the faults of the versions that a file names, each once.

    Args:
        name: the name of the check.
        path: the file.
        pins: the repositories of memory-ci in the file, and the revision of each.
    """
    probes: list[Probe] = []
    for used, ref in dict.fromkeys(pins):
        version = VERSION.fullmatch(ref)
        if PLACEHOLDER.search(used):
            what = f"{path} still names the placeholder OWNER: {used}"
            remedy = f"Put the account that holds memory-ci for OWNER in {path}."
            probes.append(Probe(name, "fail", what, remedy))
        elif version is None and not re.fullmatch(FULL_ID, ref):
            remedy = f"Name a version or a commit in {path}: @v{__version__}."
            probes.append(Probe(name, "warn", f"{path} follows {ref}, which moves", remedy))
        elif version is not None and _is_older(version[1]):
            what = f"{path} uses memory-ci {ref}, and this clone {__version__}"
            probes.append(Probe(name, "warn", what, f"Raise it to v{__version__} in {path}."))
    return list(dict.fromkeys(probes))


def _is_older(version: str) -> bool:
    """Return whether a version is older than this one.

    Only its own parts are compared: 1 is not before 1.4.
    """
    numbers = [int(number) for number in version.split(".")]
    our_numbers = [int(number) for number in re.findall(r"\d+", __version__)]
    return numbers < our_numbers[: len(numbers)]


# -- coding agents: hooks, notes, captured sessions, servers


def check_agents(case: Surroundings) -> Iterator[Probe]:
    """Report each part of each agent, and the work trees that an agent does not read in."""
    repo = case.workspace.repo
    root = repo.root
    if root is None:
        yield Probe("agents", "skip", "no work tree")
        return
    if not case.workspace.config.sessions.read:
        yield Probe("agents", "skip", "the configuration says sessions.read: false")
        return

    found_parts = [*list_parts(root), *list_parts(Path.home(), "user")]
    found_hooks = [found for found in found_parts if found.part.name == "hooks"]
    last_prompts = list_last_signs(case.workspace)
    if not found_hooks:
        for name, time in last_prompts.items():
            what = f"{name} last read at {time:%Y-%m-%d %H:%M}"
            yield Probe("agents", "ok", f"{what}, by a plugin or by hooks that are gone")
    if not found_parts and not last_prompts:
        first, *others = (agent.name for agent in AGENTS)
        remedy = f"optional: {INSTALL} --agent {first} (or {', '.join(others)})"
        yield Probe("agents", "skip", "no agent of this clone reads memory", remedy)

    for hook in found_hooks:
        fault = _find_fault(case, hook)
        if fault is not None:
            yield fault
        else:
            yield from _report_hook(hook, found_parts, last_prompts.get(hook.agent.name))
    yield from _report_files(case, found_parts)

    readers = list_readers(repo, case.tip) if case.tip else {}
    if readers:
        days = ", ".join(f"{name} on {time:%Y-%m-%d}" for name, time in readers.items())
        yield Probe("agents", "ok", f"work that was given memory was last committed by {days}")
    names = [hook.agent.name for hook in found_hooks if hook.path.is_relative_to(root)]
    yield from _report_worktrees(case, dict.fromkeys(names))


def _report_files(case: Surroundings, found_parts: Sequence[FoundPart]) -> Iterator[Probe]:
    """Report servers and texts, once for a file that several agents read."""
    first_by_file: dict[tuple[Path, str], FoundPart] = {}
    for found in reversed(found_parts):
        first_by_file[found.path, found.part.name] = found
    for found in first_by_file.values():
        if found.part.name == "mcp":
            yield _judge_server(case, found)
        elif found.part.name == "text":
            what = f"{found.path} tells any agent that reads it how to ask, and how to note"
            yield Probe("agents", "ok", what)


def _report_worktrees(case: Surroundings, names: Iterable[str]) -> Iterator[Probe]:
    """Report whether the agents that read here read in other work trees of this clone."""
    repo = case.workspace.repo
    for tree in list_worktrees(repo):
        if tree.is_bare or tree.path == repo.root or not tree.path.is_dir():
            continue
        found_parts = list_parts(tree.path)
        hooked = {found.agent.name for found in found_parts if found.part.name == "hooks"}
        last_prompts: Mapping[str, datetime] = {}
        if hooked:
            workspace = Workspace(find_repository(tree.path), case.workspace.config)
            last_prompts = list_last_signs(workspace)
        for name in names:
            time = last_prompts.get(name)
            if name not in hooked:
                what = f"{name} reads nothing in the work tree {tree.path}"
                remedy = f"{INSTALL} --agent {name} in it, or --shared and commit, or --user"
                yield Probe("agents", "warn", what, remedy)
            elif time:
                what = f"{name} last read at {time:%Y-%m-%d %H:%M} in the work tree {tree.path}"
                yield Probe("agents", "ok", what)


def _report_hook(
    hook: FoundPart, found_parts: Iterable[FoundPart], last_prompt: datetime | None
) -> Iterator[Probe]:
    """Report the work of a hook: reading, asking for notes, capturing sessions.

    Args:
        hook: a hook that can be called.
        found_parts: all parts of ours that were found.
        last_prompt: the time of the last prompt, which begins every session.
    """
    name = hook.agent.name
    is_of_user = hook.part.user != "" and "--user" in hook.text
    user_flag = " --user" if is_of_user else ""
    remedy = f"{INSTALL}{user_flag} --agent {name}"
    yield _judge_reading(hook, last_prompt, remedy)

    if "--no-ask" in hook.text:
        yield Probe("agents", "skip", f"{name} is asked for no note (--without ask)", remedy)
    else:
        has_permission = any(
            found.part.name == "allow" and found.agent == hook.agent for found in found_parts
        )
        permission = ", and may write them" if has_permission else ""
        yield Probe("agents", "ok", f"{name} is asked for notes{permission}")

    if any(not event.is_reading and event.name in hook.text for event in hook.agent.events):
        yield Probe("agents", "ok", f"{name} captures each session")
    else:
        what = f"{name} captures no session: it says no end, or its transcripts are not read"
        yield Probe("agents", "skip", what)


def _judge_reading(hook: FoundPart, last_prompt: datetime | None, remedy: str) -> Probe:
    """Judge whether a hook reads memory, and whether it was called."""
    name = hook.agent.name
    is_plugin = hook.agent.hook_format == "plugin"
    if not is_plugin and not any(event in hook.text for event in READING_EVENTS):
        return Probe("agents", "skip", f"{name} reads no memory (--without retrieve)", remedy)
    if last_prompt:
        when = f"last at a prompt of {last_prompt:%Y-%m-%d %H:%M}"
        return Probe("agents", "ok", f"{name} reads memory, {when}: {hook.path}")
    if name == "cursor":  # it has no event at a prompt
        return Probe("agents", "ok", f"{name} reads memory: {hook.path}")
    what = f"{name} is to read memory, and no prompt of it was seen in this work tree for 30 days"
    remedy = f"start {name} here, and let it trust the hook where it asks"
    return Probe("agents", "skip", what, remedy)


def _find_fault(case: Surroundings, hook: FoundPart) -> Probe | None:
    """Return why a hook does nothing, here or in other clones, None if it works."""
    name = hook.agent.name
    file = hook.part.file
    install = f"{INSTALL} --agent {name}"
    commands = hook.text
    if hook.text.lstrip().startswith("{"):  # JSON, as `list_parts` has read it; else a plugin
        commands = "\n".join(hooks.list_texts(msgspec.json.decode(hook.text)))
    python = hooks.find_interpreter(commands)

    fault = find_interpreter_fault(case, python, may_run=False)
    if fault:
        return Probe("agents", "fail", f"the hook of {name} {fault}", install)
    if python is None:
        if shutil.which(PROGRAM) is not None:
            return None
        what = (
            f"the hook of {name} calls {PROGRAM} by name, which is not on the PATH: it does nothing"
        )
        return Probe("agents", "warn", what, f"put {PROGRAM} on the PATH, or {install}")
    if file in str(hook.path) and list_staged(case.workspace.repo, [file]):
        what = (
            f"git tracks {file}, which names an interpreter of this machine: "
            "no other clone captures with it"
        )
        remedy = f"git rm --cached {file}, commit that, then {install}"
        return Probe("agents", "warn", what, remedy)
    return None


def _judge_server(case: Surroundings, server: FoundPart) -> Probe:
    """Judge whether an agent can start the MCP server."""
    name = server.agent.name
    python = _find_server_interpreter(server)
    fault = find_interpreter_fault(case, python, may_run=False)
    if fault:
        what = f"the MCP server of {name} {fault}"
        return Probe("agents", "fail", what, f"{INSTALL} --agent {name}")
    if python == case.python and find_spec("mcp") is None:
        what = f"the MCP server of {name} cannot start: {case.python} lacks it"
        return Probe("agents", "warn", what, how_to_install("mcp"))
    path = server.path
    root = case.workspace.repo.root
    if root is not None and path.is_relative_to(root):
        path = path.relative_to(root)
    return Probe("agents", "ok", f"{name} has the MCP server: {path}")


def _find_server_interpreter(server: FoundPart) -> str | None:
    """Return the interpreter that the settings of a server call, None if they name none."""
    if server.part.form == "block":
        settings: object = tomllib.loads(server.text)
    else:
        settings = msgspec.json.decode(server.text)
    for word, next_word in pairwise(hooks.list_texts(settings)):
        if next_word == MODULE[0]:
            return word
    return None
