"""Doctor on what was set up: hooks, the merge driver, pre-commit, the jobs of CI."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from datetime import datetime
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci import __version__
from memory_ci.commands.doctor.case import Surroundings, interpreter_fault, peek_text
from memory_ci.commands.doctor.records import Probe, ProbeState
from memory_ci.commands.setup import hooks
from memory_ci.commands.setup.agents import FoundPart, list_parts
from memory_ci.commands.setup.clients import AGENTS, MODULE, PROGRAM
from memory_ci.gitrepo.blobs import list_staged, tree_at
from memory_ci.gitrepo.history import list_readers
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import find_repository, find_setting, list_worktrees
from memory_ci.memory.workspace import Workspace, is_told
from memory_ci.records.names import FULL_ID
from memory_ci.sessions.session_note import list_heard
from memory_ci.store.merge_driver import ATTRIBUTES, SECTION

INSTALL = "memory-ci install"
FRAMEWORK = re.compile(
    r"\b(?:pre-commit|prek)\b"
)  # what the script of a hook holds that the framework put there
PINNED = re.compile(
    r"repo:\s*['\"]?(\S*/memory-ci)(?:\.git)?['\"]?\s*\n\s*rev:\s*['\"]?([^\s'\"#]+)"
)
USES = re.compile(
    r"^[ \t]*(?:-[ \t]*)?(?:uses|component):[ \t]*['\"]?(\S*/memory-ci\S*)@([^\s'\"#]+)",
    re.MULTILINE,
)
CALLS = re.compile(r"^[^#\n]*\bmemory-ci[ \t]+(?:ci|record|verify)\b", re.MULTILINE)
DRIVES = re.compile(r"\bmemory[-_]ci hook merge\b")
VERSION = re.compile(r"v?(\d+(?:\.\d+)*)")
HOST = re.compile(r"[a-z+]+://(?:[^/@]*@)?([^/:]+)|(?:[^/:@]+@)?([^/:@]+):")
"""Of an address as git takes it: `https://host/…`, `ssh://git@host/…`, `git@host:…`; a path has none."""

FORGE = re.compile(r"github|gitlab", re.IGNORECASE)
TRIGGERS = re.compile(r"^on:[ \t]*\n(?P<indent>[ \t]+)\S.*\n(?:[ \t]+.*\n|\n)*", re.MULTILINE)
PLACEHOLDER = re.compile(r"(?:^|/)OWNER/")
READING = ("SessionStart", "sessionStart")  # an event that is hooked into only to read memory


# -- git's hooks


def check_hooks(case: Surroundings) -> Iterator[Probe]:
    """Each hook of ours that is installed, missing, or does not do its work."""
    if case.workspace.repo.root is None:
        yield Probe(
            "hooks", "skip", "a bare repository: hooks belong into clones that have a work tree"
        )
        return
    found = {hook: _look_at(case, hook) for hook in hooks.HOOKS}
    if works := [hook for hook, state in found.items() if state is WORKS]:
        yield Probe(
            "hooks", "ok", f"{', '.join(works)} {'call' if len(works) > 1 else 'calls'} memory-ci"
        )
    if missing := [hook for hook, state in found.items() if state is None]:
        elsewhere = find_setting(case.workspace.repo, "core.hooksPath")
        says = f" says which lines to add in {elsewhere} (core.hooksPath)" if elsewhere else ""
        yield Probe("hooks", "warn", f"not installed: {', '.join(missing)}", f"{INSTALL}{says}")
    for hook, state in found.items():
        if state is not None and state is not WORKS:
            yield Probe("hooks", state.state, f"{hook} {state.what}", state.remedy)


class HookState(NamedTuple):
    """How a hook is that is there; `what` follows its name."""

    state: ProbeState
    what: str
    remedy: str = INSTALL


WORKS = HookState("ok", "calls memory-ci")
UNUSABLE = HookState("fail", "is not executable, so git passes it over")
OLDER = HookState("warn", "is not as this version of memory-ci writes it")
EDITED = HookState(
    "warn",
    "was changed since `install` wrote it, so whether it does its work cannot be told",
    f"{INSTALL} (it renames what you changed: `memory-ci help hooks` says where lines of your own belong)",
)


def _look_at(case: Surroundings, hook: str) -> HookState | None:
    """How a hook is, None if nothing calls memory-ci there."""
    place = case.hooks / hook
    call = re.compile(rf"memory[-_]ci hook {hook if hook in hooks.WITH_ARGUMENT else 'sync'}\b")
    theirs = peek_text(place)
    # Of one from aside only the tool that put it there knows.
    for path in (
        place,
        *([place.with_name(f"{hook}.legacy")] if hooks.is_generated(theirs) else []),
    ):
        text = peek_text(path)
        if hooks.is_ours(text) or call.search(hooks.without_comments(text)):
            return _judge_hook(case, hook, path, text)
    if FRAMEWORK.search(theirs) and any(
        hook in hooks.RUN_BY.get(name, ()) for name in _named_hooks(case)
    ):
        return WORKS
    # One that another tool runs from a file of the repository, if the tool is in this clone.
    root = case.workspace.repo.root
    manager = hooks.find_manager(root, [hook]) if root else None
    if root is None or manager is None or manager.additions:
        return None
    is_there = theirs and (manager.tool in theirs or (root / hooks.HUSKY) in place.parents)
    what = f"is left to {manager.tool}, which is not installed in this clone"
    return WORKS if is_there else HookState("warn", what, manager.remedy)


def _judge_hook(case: Surroundings, hook: str, path: Path, text: str) -> HookState:
    if not path.stat().st_mode & 0o111:
        return UNUSABLE
    python = hooks.find_interpreter(text)
    if fault := interpreter_fault(case, python, may_run=True):
        return HookState("fail", fault)
    if not hooks.is_ours(text):
        return WORKS
    if not hooks.is_as_written(text):
        return EDITED
    return WORKS if python and text == hooks.hook_text(hook, python) else OLDER


# -- pre-commit


def check_pre_commit(case: Surroundings) -> Iterator[Probe]:
    """Whether what the configuration of pre-commit names of ours is really run, and in which version."""
    names = _named_hooks(case)
    if not names:
        yield Probe("pre-commit", "skip", f"{hooks.PRE_COMMIT} names no hook of memory-ci")
        return
    amiss = []
    for name in names:  # and whether the framework was installed as the hook of git that runs it
        texts = [peek_text(case.hooks / hook) for hook in hooks.RUN_BY.get(name, ())]
        if texts and not any(FRAMEWORK.search(text) and not hooks.is_ours(text) for text in texts):
            hook = hooks.RUN_BY[name][0]
            what = f"{name} is configured and never run: no {hook} hook"
            amiss.append(
                Probe("pre-commit", "warn", what, f"pre-commit install --hook-type {hook}")
            )
    amiss += _judge_pins("pre-commit", hooks.PRE_COMMIT, PINNED.findall(_pre_commit_text(case)))
    yield from amiss or (Probe("pre-commit", "ok", f"{', '.join(names)} configured"),)


def _pre_commit_text(case: Surroundings) -> str:
    root = case.workspace.repo.root
    return hooks.without_comments(peek_text(root / hooks.PRE_COMMIT)) if root else ""


def _named_hooks(case: Surroundings) -> tuple[str, ...]:
    return tuple(dict.fromkeys(hooks.FRAMEWORK_ID.findall(_pre_commit_text(case))))


# -- the merge driver


def check_merge_driver(case: Surroundings) -> Iterator[Probe]:
    """The driver in git's configuration, and the attributes that give memory files to it: one is no use alone."""
    repo = case.workspace.repo
    if repo.root is None:
        yield Probe("merge-driver", "skip", "a bare repository merges nothing")
        return
    driver = find_setting(repo, f"{SECTION}.driver")
    lines = _unclaimed(case)
    if driver is None:
        others = f"; {ATTRIBUTES} asks for it" if not lines else ""
        yield Probe(
            "merge-driver",
            "warn",
            f"not configured: memory files merge line by line{others}",
            INSTALL,
        )
        return
    if lines:
        what = f"configured, but no attribute gives it {', '.join(lines)}: they merge line by line"
        yield Probe("merge-driver", "fail", what, f"{INSTALL}, then commit {ATTRIBUTES}")
        return
    if not DRIVES.search(driver):
        what = f"git's configuration names another driver, {driver}: memory files are not merged entry by entry"
        yield Probe("merge-driver", "fail", what, INSTALL)
        return
    fault = interpreter_fault(
        case, (hooks.find_interpreter(driver) or "").replace("%%", "%") or None, may_run=True
    )
    if fault:
        yield Probe(
            "merge-driver", "fail", f"the driver {fault}: memory files merge line by line", INSTALL
        )
    elif case.head is None or ATTRIBUTES not in tree_at(repo, case.head).files:
        remedy = f"git add {ATTRIBUTES} && git commit -m 'Merge memory files by entries'"
        yield Probe(
            "merge-driver", "warn", f"{ATTRIBUTES} is not committed: other clones have none", remedy
        )
    else:
        yield Probe("merge-driver", "ok", "memory files are merged entry by entry")


def _unclaimed(case: Surroundings) -> list[str]:
    """The memory files, or those that there will be, for which git would not call the driver."""
    patterns = case.workspace.config.scopes
    plain = [
        path
        for path in (*patterns.project, *patterns.institutional)
        if not re.search(r"[*?{\[]", path)
    ]
    paths = list(dict.fromkeys([*plain, *(file.path for file in case.files if not is_told(file))]))
    asked = b"".join(encode_path(path) + b"\0" for path in paths)
    answer = run_git(case.workspace.repo.cwd, "check-attr", "-z", "--stdin", "merge", input=asked)
    fields = decode_path(answer).split("\0")[:-1]
    found = zip(fields[::3], fields[2::3], strict=True)
    return [path for path, value in found if value != SECTION.partition(".")[2]]


# -- the jobs of CI


def check_ci(case: Surroundings) -> Iterator[Probe]:
    """Whether a job of CI records what is merged, and with which version of memory-ci."""
    root = case.workspace.repo.root
    if root is None:
        yield Probe("ci", "skip", "no work tree")
        return
    workflows = sorted((root / ".github" / "workflows").glob("*.y*ml"))
    places = [
        *(path for path in workflows if path.suffix in (".yml", ".yaml")),
        root / ".gitlab-ci.yml",
    ]
    texts = {
        path.relative_to(root).as_posix(): hooks.without_comments(peek_text(path))
        for path in places
    }
    ours = {
        path: USES.findall(text)
        for path, text in texts.items()
        if USES.search(text) or CALLS.search(text)
    }
    origin = find_setting(case.workspace.repo, "remote.origin.url")
    host = HOST.match(origin or "")
    is_on_forge = host is not None and FORGE.search(host[1] or host[2])
    if not ours and origin is None:
        yield Probe("ci", "skip", "no remote `origin`, so no CI")
    elif not ours and not any(texts.values()) and not is_on_forge:
        what = "nothing of CI is here, and `origin` is on no GitHub or GitLab"
        yield Probe(
            "ci",
            "skip",
            what,
            "optional: let any CI run `memory-ci ci --provider none` (`memory-ci help ci`)",
        )
    elif not ours:
        what = "no workflow runs memory-ci: what is merged becomes memory only by hand"
        yield Probe("ci", "warn", what, "memory-ci init --ci github (or gitlab)")
    for path, pins in ours.items():
        if is_only_called(texts[path]) and any(PLACEHOLDER.search(used) for used, _ in pins):
            what = (
                f"{path} runs only where another workflow calls it, and names the placeholder OWNER"
            )
            yield Probe(
                "ci",
                "skip",
                what,
                f"to publish it: put the account that holds memory-ci for OWNER in {path}.",
            )
            continue
        refs = ", ".join(sorted({ref for _, ref in pins}))
        works = Probe("ci", "ok", f"{path} runs memory-ci{' at ' * bool(refs)}{refs}")
        yield from _judge_pins("ci", path, pins) or (works,)


def is_only_called(workflow: str) -> bool:
    """Return whether a workflow of GitHub starts only where another workflow calls it.

    >>> is_only_called("on:\\n  workflow_call:\\n    inputs: {}\\njobs: {}\\n")
    True
    >>> is_only_called("on:\\n  push:\\n  workflow_call:\\njobs: {}\\n")
    False
    """
    block = TRIGGERS.search(workflow)
    names = re.findall(rf"(?m)^{block['indent']}(\w+):", block[0]) if block else []
    return names == ["workflow_call"]


def _judge_pins(name: str, path: str, pins: Iterable[tuple[str, str]]) -> list[Probe]:
    """What is wrong with the versions that a file names, each once."""
    found = []
    own = [int(part) for part in re.findall(r"\d+", __version__)]
    for used, ref in dict.fromkeys(pins):
        version = VERSION.fullmatch(ref)
        parts = [int(part) for part in version[1].split(".")] if version else []
        if PLACEHOLDER.search(used):
            remedy = f"Put the account that holds memory-ci for OWNER in {path}."
            found.append(
                Probe(name, "fail", f"{path} still names the placeholder OWNER: {used}", remedy)
            )
        elif version is None and not re.fullmatch(FULL_ID, ref):
            remedy = f"Name a version or a commit in {path}: @v{__version__}."
            found.append(Probe(name, "warn", f"{path} follows {ref}, which moves", remedy))
        elif parts < own[: len(parts)]:  # as far as it says: 1 is not older than 1.4
            what = f"{path} uses memory-ci {ref}, and this clone {__version__}"
            found.append(Probe(name, "warn", what, f"Raise it to v{__version__} in {path}."))
    return list(dict.fromkeys(found))


# -- coding agents: what each reads, is asked, captures and can call, and whether it was heard of lately


def check_agents(case: Surroundings) -> Iterator[Probe]:
    """A row for each agent and part, here and in the home, and for each work tree that an agent does not read in."""
    root = case.workspace.repo.root
    if root is None or not case.workspace.config.sessions.read:
        yield Probe(
            "agents",
            "skip",
            "no work tree" if root is None else "the configuration says sessions.read: false",
        )
        return
    found = [*list_parts(root), *list_parts(Path.home(), "user")]
    hooked = [one for one in found if one.part.name == "hooks"]
    if not found:
        remedy = f"optional: {INSTALL} --agent {AGENTS[0].name} (or {', '.join(agent.name for agent in AGENTS[1:])})"
        yield Probe("agents", "skip", "no agent of this clone reads memory", remedy)
    heard = list_heard(case.workspace)
    for one in hooked:
        yield from _fault(case, one) or _rows(one, found, heard.get(one.agent.name))
    for one in {
        (one.path, one.part.name): one for one in reversed(found)
    }.values():  # some files serve several agents
        if one.part.name == "mcp":
            yield _server(case, one)
        elif one.part.name == "text":
            yield Probe(
                "agents",
                "ok",
                f"{one.path} tells any agent that reads it how to ask, and how to note",
            )
    readers = list_readers(case.workspace.repo, case.tip) if case.tip else {}
    if readers:
        seen = ", ".join(f"{name} on {at:%Y-%m-%d}" for name, at in readers.items())
        yield Probe("agents", "ok", f"work that was given memory was last committed by {seen}")
    yield from _look_beside(
        case, dict.fromkeys(one.agent.name for one in hooked if one.path.is_relative_to(root))
    )


def _look_beside(case: Surroundings, names: Iterable[str]) -> Iterator[Probe]:
    """Other work trees of this clone in which an agent that reads here reads nothing."""
    for tree in list_worktrees(case.workspace.repo):
        if tree.is_bare or tree.path == case.workspace.repo.root or not tree.path.is_dir():
            continue
        there = {one.agent.name for one in list_parts(tree.path) if one.part.name == "hooks"}
        told = (
            list_heard(Workspace(find_repository(tree.path), case.workspace.config))
            if there
            else {}
        )
        for name in names:
            if name not in there:
                remedy = f"{INSTALL} --agent {name} in it, or --shared and commit, or --user"
                yield Probe(
                    "agents", "warn", f"{name} reads nothing in the work tree {tree.path}", remedy
                )
            elif at := told.get(name):
                yield Probe(
                    "agents",
                    "ok",
                    f"{name} last read at {at:%Y-%m-%d %H:%M} in the work tree {tree.path}",
                )


def _rows(hook: FoundPart, found: Iterable[FoundPart], heard: datetime | None) -> Iterator[Probe]:
    """What a hook that can be called does; the day is that of a prompt, which every session begins with."""
    name, text = hook.agent.name, hook.text
    is_plugin = hook.agent.hook_format == "plugin"
    again = f"{INSTALL}{' --user' * (hook.part.user != '' and '--user' in text)} --agent {name}"
    if is_plugin or any(event in text for event in READING):
        if heard or name == "cursor":  # which has no event at a prompt
            when = f", last at a prompt of {heard:%Y-%m-%d %H:%M}" if heard else ""
            yield Probe("agents", "ok", f"{name} reads memory{when}: {hook.path}")
        else:
            what = f"{name} is to read memory, and no prompt of it was seen in this work tree for 30 days"
            yield Probe(
                "agents",
                "skip",
                what,
                f"start {name} here, and let it trust the hook where it asks",
            )
    else:
        yield Probe("agents", "skip", f"{name} reads no memory (--no-retrieve)", again)
    if "--no-ask" in text:
        yield Probe("agents", "skip", f"{name} is asked for no note (--no-ask)", again)
    else:
        may = any(one.part.name == "allow" and one.agent == hook.agent for one in found)
        yield Probe(
            "agents", "ok", f"{name} is asked for notes{', and may write them' if may else ''}"
        )
    if any(not event.is_reading and event.name in text for event in hook.agent.events):
        yield Probe("agents", "ok", f"{name} captures each session")
    else:
        yield Probe(
            "agents",
            "skip",
            f"{name} captures no session: it says no end, or its transcripts are not read",
        )


def _fault(case: Surroundings, hook: FoundPart) -> tuple[Probe, ...]:
    """Why a hook does nothing, here or in other clones."""
    name = hook.agent.name
    is_json = hook.text.lstrip().startswith(
        "{"
    )  # which was read as such just now; else it is a plugin
    commands = "\n".join(hooks.list_texts(msgspec.json.decode(hook.text))) if is_json else hook.text
    python = hooks.find_interpreter(commands)
    again = f"{INSTALL} --agent {name}"
    if fault := interpreter_fault(case, python, may_run=False):
        return (Probe("agents", "fail", f"the hook of {name} {fault}", again),)
    if python is None and shutil.which(PROGRAM) is None:
        what = (
            f"the hook of {name} calls {PROGRAM} by name, which is not on the PATH: it does nothing"
        )
        return (Probe("agents", "warn", what, f"put {PROGRAM} on the PATH, or {again}"),)
    if (
        python is not None
        and hook.part.file in str(hook.path)
        and list_staged(case.workspace.repo, [hook.part.file])
    ):
        file = hook.part.file
        what = f"git tracks {file}, which names an interpreter of this machine: no other clone captures with it"
        return (
            Probe("agents", "warn", what, f"git rm --cached {file}, commit that, then {again}"),
        )
    return ()


def _server(case: Surroundings, found: FoundPart) -> Probe:
    read = tomllib.loads if found.part.form == "block" else msgspec.json.decode
    python = next(
        (
            word
            for word, after in pairwise(hooks.list_texts(read(found.text)))
            if after == MODULE[0]
        ),
        None,
    )
    if fault := interpreter_fault(case, python, may_run=False):
        return Probe(
            "agents",
            "fail",
            f"the MCP server of {found.agent.name} {fault}",
            f"{INSTALL} --agent {found.agent.name}",
        )
    if python == case.python and find_spec("mcp") is None:
        what = f"the MCP server of {found.agent.name} cannot start: {case.python} lacks it"
        return Probe("agents", "warn", what, "pip install 'memory-ci[mcp]'")
    root, path = case.workspace.repo.root, found.path
    if root is not None and path.is_relative_to(root):
        path = path.relative_to(root)
    return Probe("agents", "ok", f"{found.agent.name} has the MCP server: {path}")
