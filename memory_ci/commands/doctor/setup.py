"""Checks of `memory-ci doctor` on git hooks, pre-commit, the merge driver and jobs of CI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from memory_ci import __version__
from memory_ci.commands.doctor.case import Surroundings, find_interpreter_fault, peek_text
from memory_ci.commands.doctor.records import Probe, ProbeState
from memory_ci.commands.setup import hooks
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import find_setting
from memory_ci.memory.workspace import is_below_episodes
from memory_ci.records.names import FULL_ID
from memory_ci.regex import Regex
from memory_ci.store.merge_driver import ATTRIBUTES, SECTION

INSTALL = "memory-ci init --clone"
FRAMEWORK = Regex(r"\b(?:pre-commit|prek)\b")
"""A word in every hook that the framework wrote."""

PINNED = Regex(r"repo:\s*['\"]?(\S*/memory-ci)(?:\.git)?['\"]?\s*\n\s*rev:\s*['\"]?([^\s'\"#]+)")
"""Repository and revision of memory-ci in pre-commit's configuration: `repo: …` and `rev: …`."""

USES = Regex(
    r"^[ \t]*(?:-[ \t]*)?(?:uses|component):[ \t]*['\"]?(\S*/memory-ci\S*)@([^\s'\"#]+)",
    re.MULTILINE,
)
"""Action and revision of memory-ci in a job of CI: `uses: acme/memory-ci/action@v1`."""

CALLS = Regex(r"^[^#\n]*\bmemory-ci[ \t]+(?:ci|record|verify)\b", re.MULTILINE)
"""A line of a job that calls the program: `run: memory-ci ci`."""

CALLS_DRIVER = Regex(r"\bmemory[-_]ci hook merge\b")
VERSION = Regex(r"v?(?P<number>\d+(?:\.\d+)*)")
HOST = Regex(r"[a-z+]+://(?:[^/@]*@)?(?P<url_host>[^/:]+)|(?:[^/:@]+@)?(?P<ssh_host>[^/:@]+):")
"""The host of an address of git: `https://host/…`, `ssh://git@host/…`, `git@host:…`.

A path has none.
"""

FORGE = Regex(r"github|gitlab", re.IGNORECASE)
TRIGGERS = Regex(r"^on:[ \t]*\n(?P<indent>[ \t]+)\S.*\n(?:[ \t]+.*\n|\n)*", re.MULTILINE)
"""The events that start a workflow of GitHub: the line `on:` and the indented lines below it."""

PLACEHOLDER = Regex(r"(?:^|/)OWNER/")


# -- git's hooks


class HookState(NamedTuple):
    """The state of a hook of git that is installed.

    Attributes:
        state: the state of the probe.
        what: the state in words, which follow the name of the hook in a sentence.
        remedy: what to do.
    """

    state: ProbeState
    what: str
    remedy: str = INSTALL


WORKS = HookState("ok", "calls memory-ci")
UNUSABLE = HookState("fail", "is not executable, so git passes it over")
OLDER = HookState("warn", "is not as this version of memory-ci writes it")
EDITED = HookState(
    "warn",
    "was changed since `init --clone` wrote it, so it is unknown whether it still works",
    f"{INSTALL} (it renames what you changed: `memory-ci help agents` says where lines of your own "
    "belong)",
)


def check_hooks(case: Surroundings) -> Iterator[Probe]:
    """Check git's hooks: which call memory-ci, which are missing, and which have a fault."""
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
    hook_path = case.hooks / hook
    hook_text = peek_text(hook_path)
    paths = [hook_path]
    if hooks.is_generated(hook_text):  # the framework runs the `.legacy` hook
        paths.append(hook_path.with_name(f"{hook}.legacy"))

    work = hook if hook in hooks.WITH_ARGUMENT else "sync"
    call = re.compile(rf"memory[-_]ci hook {work}\b")
    for path in paths:
        text = peek_text(path)
        if hooks.is_ours(text) or call.search(hooks.without_comments(text)):
            return _judge_hook(case, hook, path, text)
    if FRAMEWORK.search(hook_text) and _is_run_by_framework(case, hook):
        return WORKS
    return _find_managed_state(case, hook, hook_text)


def _is_run_by_framework(case: Surroundings, hook: str) -> bool:
    """Return whether the configuration of pre-commit has hooks of ours run in a git hook."""
    return any(hook in hooks.RUN_BY.get(name, ()) for name in _list_configured(case))


def _find_managed_state(case: Surroundings, hook: str, hook_text: str) -> HookState | None:
    """Return the state of a hook that lefthook or husky is set up to run, None if neither is.

    Args:
        case: the repository and the machine.
        hook: the name of the hook.
        hook_text: the text of the file that git runs.
    """
    root = case.workspace.repo.root
    if root is None:
        return None
    manager = hooks.find_manager(root, [hook])
    if manager is None or manager.additions:
        return None
    is_in_husky = (root / hooks.HUSKY) in (case.hooks / hook).parents
    if hook_text and (manager.tool in hook_text or is_in_husky):
        return WORKS
    what = f"is left to {manager.tool}, which is not installed in this clone"
    return HookState("warn", what, manager.remedy)


def _judge_hook(case: Surroundings, hook: str, path: Path, text: str) -> HookState:
    """Return the state of a hook that calls memory-ci.

    Args:
        case: the repository and the machine.
        hook: the name of the hook.
        path: its file.
        text: the text of the file.
    """
    is_executable = path.stat().st_mode & 0o111 != 0
    if not is_executable:
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
    """Check our hooks in .pre-commit-config.yaml: that git runs them, and their version."""
    names = _list_configured(case)
    if not names:
        yield Probe("pre-commit", "skip", f"{hooks.PRE_COMMIT} names no hook of memory-ci")
        return
    faults: list[Probe] = []
    for name in names:
        git_hooks = hooks.RUN_BY.get(name, ())
        hook_texts = [peek_text(case.hooks / hook) for hook in git_hooks]
        if hook_texts and not any(_is_of_framework(text) for text in hook_texts):
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
    """Return the first fault of the merge driver, or that it works."""
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
    if not CALLS_DRIVER.search(driver):
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
    """Return the memory files to which no attribute of git assigns our merge driver.

    The files that the configuration names without a wildcard count even if they do not exist yet.
    """
    scopes = case.workspace.config.scopes
    patterns = (*scopes.project, *scopes.institutional)
    paths = [pattern for pattern in patterns if not re.search(r"[*?{\[]", pattern)]
    paths += [file.path for file in case.files if not is_below_episodes(file)]

    input_paths = b"".join(encode_path(path) + b"\0" for path in dict.fromkeys(paths))
    command = ("check-attr", "-z", "--stdin", "merge")
    output = run_git(case.workspace.repo.cwd, *command, input=input_paths)
    # For each path there are three fields: the path, the attribute, its value.
    fields = decode_path(output).split("\0")[:-1]  # nothing follows the last NUL
    output_paths, values = fields[::3], fields[2::3]
    _, _, driver = SECTION.partition(".")
    return [path for path, value in zip(output_paths, values, strict=True) if value != driver]


# -- the jobs of CI


def check_ci(case: Surroundings) -> Iterator[Probe]:
    """Check that a job of CI records merged changes, and its version of memory-ci."""
    root = case.workspace.repo.root
    if root is None:
        yield Probe("ci", "skip", "no work tree")
        return
    text_by_path = _read_workflows(root)
    is_called = False
    for path, text in text_by_path.items():
        if USES.search(text) or CALLS.search(text):
            is_called = True
            yield from _judge_workflow(path, text)
    if not is_called:
        yield _judge_missing_ci(case, has_ci=any(text_by_path.values()))


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
    """Return whether it is a fault that no job of CI calls memory-ci.

    Args:
        case: the repository and the machine.
        has_ci: the repository has other jobs of CI.
    """
    origin = find_setting(case.workspace.repo, "remote.origin.url")
    if origin is None:
        return Probe("ci", "skip", "no remote `origin`, so no CI")
    match = HOST.match(origin)
    host = (match["url_host"] or match["ssh_host"]) if match else ""
    is_on_forge = FORGE.search(host) is not None
    if not has_ci and not is_on_forge:
        what = "nothing of CI is here, and `origin` is on no GitHub or GitLab"
        remedy = "optional: let any CI run `memory-ci ci --provider none` (`memory-ci help ci`)"
        return Probe("ci", "skip", what, remedy)
    what = "no workflow runs memory-ci: what is merged becomes memory only by hand"
    return Probe("ci", "warn", what, "memory-ci init --ci github (or gitlab)")


def _judge_workflow(path: str, text: str) -> list[Probe]:
    """Return the faults of a workflow that runs memory-ci, or that it has none."""
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
    triggers = TRIGGERS.search(workflow)
    if triggers is None:
        return False
    event_names = re.findall(rf"(?m)^{triggers['indent']}(\w+):", triggers[0])
    return event_names == ["workflow_call"]


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
        elif version is not None and _is_older(version["number"]):
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
