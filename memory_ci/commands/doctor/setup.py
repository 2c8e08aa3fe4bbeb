"""Checks of `memory-ci doctor` on git hooks, pre-commit, the merge driver and jobs of CI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from memory_ci import __version__
from memory_ci.commands.doctor.context import DoctorContext, find_interpreter_fault, peek_text
from memory_ci.commands.doctor.records import Probe, ProbeState
from memory_ci.commands.setup import hooks
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import find_setting
from memory_ci.memory.workspace import is_below_episodes
from memory_ci.records.names import FULL_ID
from memory_ci.regex import Regex
from memory_ci.store.merge_driver import ATTRIBUTES, SECTION

INSTALL_COMMAND = "memory-ci init --clone"
FRAMEWORK_NAME = Regex(r"\b(?:pre-commit|prek)\b")
"""A word in every hook that the framework wrote."""

PRE_COMMIT_PIN = Regex(
    r"repo:\s*['\"]?(\S*/memory-ci)(?:\.git)?['\"]?\s*\n\s*rev:\s*['\"]?([^\s'\"#]+)"
)
"""Repository and revision of memory-ci in pre-commit's configuration: `repo: …` and `rev: …`."""

CI_PIN = Regex(
    r"^[ \t]*(?:-[ \t]*)?(?:uses|component):[ \t]*['\"]?(\S*/memory-ci\S*)@([^\s'\"#]+)",
    re.MULTILINE,
)
"""Action and revision of memory-ci in a job of CI: `uses: acme/memory-ci/action@v1`."""

PROGRAM_CALL = Regex(r"^[^#\n]*\bmemory-ci[ \t]+(?:ci|record|verify)\b", re.MULTILINE)
"""A line of a job that calls the program: `run: memory-ci ci`."""

DRIVER_CALL = Regex(r"\bmemory[-_]ci hook merge\b")
"""The call in the command of our merge driver: `python -P -m memory_ci hook merge %O %A %B`."""

VERSION_REF = Regex(r"v?(?P<number>\d+(?:\.\d+)*)")
"""A released version as a revision: `v1.4.0` or `1`."""

REMOTE_HOST = Regex(
    r"[a-z+]+://(?:[^/@]*@)?(?P<url_host>[^/:]+)|(?:[^/:@]+@)?(?P<ssh_host>[^/:@]+):"
)
"""The host of an address of git: `https://host/…`, `ssh://git@host/…`, `git@host:…`.

A path has none.
"""

FORGE_HOST = Regex(r"github|gitlab", re.IGNORECASE)
"""A word in the host of a remote on a forge: `gitlab.example.org`."""

WORKFLOW_TRIGGERS = Regex(r"^on:[ \t]*\n(?P<indent>[ \t]+)\S.*\n(?:[ \t]+.*\n|\n)*", re.MULTILINE)
"""The events that start a workflow of GitHub: the line `on:` and the indented lines below it."""

OWNER_PLACEHOLDER = Regex(r"(?:^|/)OWNER/")
"""The placeholder in our documents for the account of the repository: `OWNER/memory-ci`."""


# -- git's hooks


class HookState(NamedTuple):
    """The state of a hook of git that is installed.

    Attributes:
        state: the state of the probe.
        description: the state in words, which follow the name of the hook in a sentence.
        remedy: what to do.
    """

    state: ProbeState
    description: str
    remedy: str = INSTALL_COMMAND


WORKING = HookState("ok", "calls memory-ci")
NOT_EXECUTABLE = HookState("fail", "is not executable, so git passes it over")
OUTDATED = HookState("warn", "is not as this version of memory-ci writes it")
EDITED_BY_USER = HookState(
    "warn",
    "was changed since `init --clone` wrote it, so it is unknown whether it still works",
    f"{INSTALL_COMMAND} (it renames what you changed: `memory-ci help agents` says where lines of "
    "your own belong)",
)


def check_hooks(context: DoctorContext) -> Iterator[Probe]:
    """Check git's hooks: which call memory-ci, which are missing, and which have a fault."""
    repo = context.workspace.repo
    if repo.root is None:
        message = "a bare repository: hooks belong into clones that have a work tree"
        yield Probe("hooks", "skip", message)
        return
    states = {hook: _find_hook_state(context, hook) for hook in hooks.HOOKS}

    working_hooks = [hook for hook, state in states.items() if state is WORKING]
    if working_hooks:
        verb = "call" if len(working_hooks) > 1 else "calls"
        yield Probe("hooks", "ok", f"{', '.join(working_hooks)} {verb} memory-ci")

    missing_hooks = [hook for hook, state in states.items() if state is None]
    if missing_hooks:
        hooks_path = find_setting(repo, "core.hooksPath")
        remedy = INSTALL_COMMAND
        if hooks_path:
            remedy += f" says which lines to add in {hooks_path} (core.hooksPath)"
        yield Probe("hooks", "warn", f"not installed: {', '.join(missing_hooks)}", remedy)

    for hook, state in states.items():
        if state is not None and state is not WORKING:
            yield Probe("hooks", state.state, f"{hook} {state.description}", state.remedy)


def _find_hook_state(context: DoctorContext, hook: str) -> HookState | None:
    """Return the state of a git hook, None if it does not call memory-ci.

    A hook calls memory-ci itself, or by the framework (pre-commit, prek), lefthook or husky.
    """
    hook_path = context.hooks / hook
    hook_text = peek_text(hook_path)
    paths = [hook_path]
    if hooks.is_generated(hook_text):  # the framework runs the `.legacy` hook
        paths.append(hook_path.with_name(f"{hook}.legacy"))

    subcommand = hook if hook in hooks.WITH_ARGUMENT else "sync"
    call_pattern = re.compile(rf"memory[-_]ci hook {subcommand}\b")
    for path in paths:
        text = peek_text(path)
        if hooks.is_ours(text) or call_pattern.search(hooks.without_comments(text)):
            return _judge_calling_hook(context, hook, path, text)
    if FRAMEWORK_NAME.search(hook_text) and _is_run_by_framework(context, hook):
        return WORKING
    return _find_managed_state(context, hook, hook_text)


def _is_run_by_framework(context: DoctorContext, hook: str) -> bool:
    """Return whether the configuration of pre-commit has hooks of ours run in a git hook."""
    hook_ids = _list_configured_ids(context)
    return any(hook in hooks.GIT_HOOKS_BY_ID.get(hook_id, ()) for hook_id in hook_ids)


def _find_managed_state(context: DoctorContext, hook: str, hook_text: str) -> HookState | None:
    """Return the state of a git hook that lefthook or husky is set up to run.

    Returns:
        The state; None if there is no settings file of either tool, or if it does not call
        memory-ci in this hook.

    Args:
        context: the repository and the machine.
        hook: the name of the hook.
        hook_text: the text of the file that git runs.
    """
    root = context.workspace.repo.root
    if root is None:
        return None
    manager = hooks.find_manager(root, [hook])
    is_configured = manager is not None and not manager.additions  # no line has to be added
    if manager is None or not is_configured:
        return None
    is_in_husky = (root / hooks.HUSKY_FOLDER) in (context.hooks / hook).parents
    if hook_text and (manager.tool in hook_text or is_in_husky):
        return WORKING
    message = f"is left to {manager.tool}, which is not installed in this clone"
    return HookState("warn", message, manager.remedy)


def _judge_calling_hook(context: DoctorContext, hook: str, path: Path, text: str) -> HookState:
    """Return the state of a hook that calls memory-ci.

    A hook that its user wrote works if git can run it and it finds memory-ci. A hook that `init`
    wrote must also have the text that this version writes.

    Args:
        context: the repository and the machine.
        hook: the name of the hook.
        path: its file.
        text: the text of the file.
    """
    is_executable = path.stat().st_mode & 0o111 != 0
    if not is_executable:
        return NOT_EXECUTABLE
    python = hooks.find_interpreter(text)
    fault = find_interpreter_fault(context, python, may_run=True)
    if fault:
        return HookState("fail", fault)
    if not hooks.is_ours(text):
        return WORKING
    if not hooks.is_as_written(text):
        return EDITED_BY_USER
    is_current = python is not None and text == hooks.hook_text(hook, python)
    return WORKING if is_current else OUTDATED


# -- pre-commit


def check_pre_commit(context: DoctorContext) -> Iterator[Probe]:
    """Check the hooks of memory-ci that .pre-commit-config.yaml names.

    Each works only if pre-commit is installed as the git hook that runs it. The version of
    memory-ci that the file names is checked, too.
    """
    hook_ids = _list_configured_ids(context)
    if not hook_ids:
        yield Probe("pre-commit", "skip", f"{hooks.PRE_COMMIT} names no hook of memory-ci")
        return
    faults: list[Probe] = []
    for hook_id in hook_ids:
        git_hooks = hooks.GIT_HOOKS_BY_ID.get(hook_id, ())
        hook_texts = [peek_text(context.hooks / hook) for hook in git_hooks]
        if hook_texts and not any(_is_of_framework(text) for text in hook_texts):
            message = f"{hook_id} is configured and never run: no {git_hooks[0]} hook"
            remedy = f"pre-commit install --hook-type {git_hooks[0]}"
            faults.append(Probe("pre-commit", "warn", message, remedy))
    pins = _find_pins(PRE_COMMIT_PIN, _read_pre_commit(context))
    faults += _judge_pins("pre-commit", hooks.PRE_COMMIT, pins)
    if faults:
        yield from faults
    else:
        yield Probe("pre-commit", "ok", f"{', '.join(hook_ids)} configured")


def _is_of_framework(hook_text: str) -> bool:
    return FRAMEWORK_NAME.search(hook_text) is not None and not hooks.is_ours(hook_text)


def _read_pre_commit(context: DoctorContext) -> str:
    """Return the configuration of pre-commit without comments, "" for none."""
    root = context.workspace.repo.root
    return hooks.without_comments(peek_text(root / hooks.PRE_COMMIT)) if root else ""


def _list_configured_ids(context: DoctorContext) -> tuple[str, ...]:
    """Return the ids of our hooks that the configuration of pre-commit names."""
    return tuple(dict.fromkeys(hooks.MEMORY_CI_ID.findall(_read_pre_commit(context))))


# -- the merge driver


def check_merge_driver(context: DoctorContext) -> Iterator[Probe]:
    """Check the merge driver in git's configuration, and the attributes that call it."""
    yield _judge_merge_driver(context)


def _judge_merge_driver(context: DoctorContext) -> Probe:
    """Return the first fault of the merge driver, or that it works."""
    name = "merge-driver"
    repo = context.workspace.repo
    if repo.root is None:
        return Probe(name, "skip", "a bare repository merges nothing")
    driver = find_setting(repo, f"{SECTION}.driver")
    unassigned_paths = _list_unassigned_paths(context)
    if driver is None:
        message = "not configured: memory files merge line by line"
        if not unassigned_paths:
            message += f"; {ATTRIBUTES} asks for it"
        return Probe(name, "warn", message, INSTALL_COMMAND)
    if unassigned_paths:
        paths = ", ".join(unassigned_paths)
        message = f"configured, but no attribute gives it {paths}: they merge line by line"
        return Probe(name, "fail", message, f"{INSTALL_COMMAND}, then commit {ATTRIBUTES}")
    if not DRIVER_CALL.search(driver):
        message = (
            f"git's configuration names another driver, {driver}: "
            "memory files are not merged entry by entry"
        )
        return Probe(name, "fail", message, INSTALL_COMMAND)

    python = hooks.find_interpreter(driver)
    if python is not None:
        python = python.replace("%%", "%")  # git expands % in the command of a driver
    fault = find_interpreter_fault(context, python or None, may_run=True)
    if fault:
        message = f"the driver {fault}: memory files merge line by line"
        return Probe(name, "fail", message, INSTALL_COMMAND)
    if context.head is None or ATTRIBUTES not in tree_at(repo, context.head).files:
        message = f"{ATTRIBUTES} is not committed: other clones have none"
        remedy = f"git add {ATTRIBUTES} && git commit -m 'Merge memory files by entries'"
        return Probe(name, "warn", message, remedy)
    return Probe(name, "ok", "memory files are merged entry by entry")


def _list_unassigned_paths(context: DoctorContext) -> list[str]:
    """Return the memory files to which no attribute of git assigns our merge driver.

    The files that the configuration names without a wildcard count even if they do not exist yet.
    """
    scopes = context.workspace.config.scopes
    patterns = (*scopes.project, *scopes.institutional)
    paths = [pattern for pattern in patterns if not re.search(r"[*?{\[]", pattern)]
    paths += [file.path for file in context.files if not is_below_episodes(file)]

    input_paths = b"".join(encode_path(path) + b"\0" for path in dict.fromkeys(paths))
    command = ("check-attr", "-z", "--stdin", "merge")
    output = run_git(context.workspace.repo.cwd, *command, input=input_paths)
    # For each path there are three fields: the path, the attribute, its value.
    fields = decode_path(output).split("\0")[:-1]  # nothing follows the last NUL
    output_paths, values = fields[::3], fields[2::3]
    _, _, driver = SECTION.partition(".")
    return [path for path, value in zip(output_paths, values, strict=True) if value != driver]


# -- the jobs of CI


def check_ci(context: DoctorContext) -> Iterator[Probe]:
    """Check that a job of CI records merged changes, and its version of memory-ci."""
    root = context.workspace.repo.root
    if root is None:
        yield Probe("ci", "skip", "no work tree")
        return
    text_by_path = _read_workflows(root)
    is_called = False
    for path, text in text_by_path.items():
        if CI_PIN.search(text) or PROGRAM_CALL.search(text):
            is_called = True
            yield from _judge_workflow(path, text)
    if not is_called:
        yield _report_missing_job(context, has_ci=any(text_by_path.values()))


def _read_workflows(root: Path) -> dict[str, str]:
    """Return the workflows of GitHub and the pipeline of GitLab without comments, by path."""
    files = sorted((root / ".github" / "workflows").glob("*.y*ml"))
    files = [file for file in files if file.suffix in (".yml", ".yaml")]
    files.append(root / ".gitlab-ci.yml")
    texts: dict[str, str] = {}
    for file in files:
        texts[file.relative_to(root).as_posix()] = hooks.without_comments(peek_text(file))
    return texts


def _report_missing_job(context: DoctorContext, *, has_ci: bool) -> Probe:
    """Report that no job of CI calls memory-ci: as something to do only where CI is to be expected.

    Args:
        context: the repository and the machine.
        has_ci: the repository has other jobs of CI.
    """
    origin = find_setting(context.workspace.repo, "remote.origin.url")
    if origin is None:
        return Probe("ci", "skip", "no remote `origin`, so no CI")
    match = REMOTE_HOST.match(origin)
    host = (match["url_host"] or match["ssh_host"]) if match else ""
    is_on_forge = FORGE_HOST.search(host) is not None
    if not has_ci and not is_on_forge:
        message = "nothing of CI is here, and `origin` is on no GitHub or GitLab"
        remedy = "optional: let any CI run `memory-ci ci --provider none` (`memory-ci help ci`)"
        return Probe("ci", "skip", message, remedy)
    message = "no workflow runs memory-ci: what is merged becomes memory only by hand"
    return Probe("ci", "warn", message, "memory-ci init --ci github (or gitlab)")


def _judge_workflow(path: str, text: str) -> list[Probe]:
    """Return the faults of a workflow that runs memory-ci, or that it has none.

    A template with the placeholder OWNER is no fault if it is a reusable workflow: it does not run
    in this repository, and whoever publishes it fills in the account.
    """
    pins = _find_pins(CI_PIN, text)
    has_placeholder = any(OWNER_PLACEHOLDER.search(pin.address) for pin in pins)
    if has_placeholder and is_only_called(text):
        message = (
            f"{path} runs only where another workflow calls it, and names the placeholder OWNER"
        )
        remedy = f"to publish it: put the account that holds memory-ci for OWNER in {path}."
        return [Probe("ci", "skip", message, remedy)]
    faults = _judge_pins("ci", path, pins)
    if faults:
        return faults
    refs = ", ".join(sorted({pin.ref for pin in pins}))
    version = f" at {refs}" if refs else ""
    return [Probe("ci", "ok", f"{path} runs memory-ci{version}")]


def is_only_called(workflow: str) -> bool:
    """Return whether a workflow of GitHub starts only where another workflow calls it.

    >>> is_only_called("on:\\n  workflow_call:\\n    inputs: {}\\njobs: {}\\n")
    True
    >>> is_only_called("on:\\n  push:\\n  workflow_call:\\njobs: {}\\n")
    False
    """
    triggers = WORKFLOW_TRIGGERS.search(workflow)
    if triggers is None:
        return False
    event_names = re.findall(rf"(?m)^{triggers['indent']}(\w+):", triggers[0])
    return event_names == ["workflow_call"]


class Pin(NamedTuple):
    """The version of memory-ci that a settings file names.

    Attributes:
        address: the repository of memory-ci.
        ref: the revision: a version, a commit or a branch.
    """

    address: str
    ref: str


def _find_pins(pattern: Regex[str], text: str) -> list[Pin]:
    """Return the matches of a pattern whose groups are an address and a revision, each once."""
    return list(dict.fromkeys(Pin(*groups) for groups in pattern.findall(text)))


def _judge_pins(name: str, path: str, pins: Iterable[Pin]) -> list[Probe]:
    """Return the faults of the versions of memory-ci that a file names, each once.

    Args:
        name: the name of the check.
        path: the file.
        pins: the versions.
    """
    probes: list[Probe] = []
    for pin in pins:
        ref = pin.ref
        version = VERSION_REF.fullmatch(ref)
        if OWNER_PLACEHOLDER.search(pin.address):
            message = f"{path} still names the placeholder OWNER: {pin.address}"
            remedy = f"Put the account that holds memory-ci for OWNER in {path}."
            probes.append(Probe(name, "fail", message, remedy))
        elif version is None and not re.fullmatch(FULL_ID, ref):
            remedy = f"Name a version or a commit in {path}: @v{__version__}."
            probes.append(Probe(name, "warn", f"{path} follows {ref}, which moves", remedy))
        elif version is not None and _is_older(version["number"]):
            message = f"{path} uses memory-ci {ref}, and this clone {__version__}"
            probes.append(Probe(name, "warn", message, f"Raise it to v{__version__} in {path}."))
    return list(dict.fromkeys(probes))


def _is_older(version: str) -> bool:
    """Return whether a version is older than this one.

    Only its own parts are compared: 1 is not before 1.4.
    """
    numbers = [int(number) for number in version.split(".")]
    our_numbers = [int(number) for number in re.findall(r"\d+", __version__)]
    return numbers < our_numbers[: len(numbers)]
