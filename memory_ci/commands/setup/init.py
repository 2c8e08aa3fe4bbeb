"""`memory-ci init`: writes files of memory, pre-commit and CI; `init --remove` removes them.

All edits are planned first, so that a file that cannot be merged is refused before anything is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from difflib import unified_diff
from functools import partial
from pathlib import Path
from shutil import which
from typing import Literal, NamedTuple

import msgspec

from memory_ci.commands.setup import ci_files
from memory_ci.commands.setup.ci_files import Release
from memory_ci.commands.setup.clients import AGENTS, Agent
from memory_ci.commands.setup.cloud import (
    CLOUD_MARK,
    COPILOT_FILE,
    COPILOT_STEPS,
    SCRIPT_FILE,
    SETUP_SCRIPT,
)
from memory_ci.commands.setup.hooks import PRE_COMMIT
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.gitrepo.addresses import is_on_github, is_on_gitlab
from memory_ci.gitrepo.repo import find_setting, follow_symbolic, head_branch
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.store.files import remove_file, write_file
from memory_ci.store.steps import read_text
from memory_ci.store.yamltext import YamlTextError, list_events

GITHUB = ".github/workflows/memory.yml"
GITLAB = ".gitlab-ci.yml"
Ci = Literal["github", "gitlab", "none"]
# Remarks on files that `init` or `init --remove` leaves, or leaves in part.
CHANGED_REMARK = "what `init` wrote there was changed: it stays as it is"
BLOCK_REMOVED_REMARK = "our lines are out, and the rest is as it was"
CALLED_REMARK = "it runs memory-ci already"
INIT_NOTE_FILE = "memory-ci/init"
"""A file in the git directory: `init` hooked an agent in, and `init --remove` clears the clone."""

CONFIG_TEXT = """\
# memory-ci: every key is optional; these are the defaults. All keys: memory-ci help settings.

# extraction:
#   max_entries_per_change: 3       # how many learnings one merged change may add
#   trusted_authors: ['*']          # whose marks become memory: globs over "Name <e-mail>"

# retrieve:
#   max_chars: 8000                 # how much ranked memory an agent's job is given
"""
FORMER_CONFIG_TEXT = f"""\
{CONFIG_TEXT}\
#   institutional_max_chars: 4000   # how much of institutional.md, which is always given
"""
"""The configuration that `init` of 0.2 wrote."""
PROJECT_TEXT = """\
# Memory

<!-- What this project has learned, one entry each. `memory-ci record` adds to it from merged work;
     `memory-ci add` puts an entry into the inbox. Edit entries as you like: \
the files are the truth. -->
"""
INSTITUTIONAL_TEXT = """\
# Institutional memory

<!-- Norms that always hold. Every agent's job is given all of this, so keep it short. -->
"""
MEMORY_FILE_TEXTS = {
    CONFIG_FILE: CONFIG_TEXT,
    "MEMORY.md": PROJECT_TEXT,
    "institutional.md": INSTITUTIONAL_TEXT,
}


class InitOptions(msgspec.Struct, frozen=True):
    """The parts that `init` sets up, apart from the files of memory.

    Attributes:
        pre_commit: put our hooks into the configuration of pre-commit.
        ci: the CI to write a workflow for.
        release: the release of memory-ci that hooks and CI run.
    """

    pre_commit: bool = False
    ci: Ci = "none"
    release: Release | None = None


MEMORY_ALONE = InitOptions()


class InitStep(msgspec.Struct, frozen=True):
    """The result of `init` or `init --remove` for one file.

    Attributes:
        path: the file, relative to the top of the work tree.
        result: the action taken; `left` by `init --remove` is a file of ours that stays.
        remark: a remark for the person, such as a next step.
        diff: the unified diff of the edit.
    """

    path: str
    result: Literal["written", "kept", "removed", "left"]
    remark: str = ""
    diff: str = ""


class FileEdit(NamedTuple):
    """The text of a file before and after an edit, None for no file.

    Attributes:
        path: the file, relative to the top of the work tree.
        before: its text before.
        after: its text afterwards; the same text for no change.
        remark: a remark for the person.
        is_left: a removal leaves the file, which is not as `init` wrote it.
    """

    path: str
    before: str | None
    after: str | None
    remark: str = ""
    is_left: bool = False

    def step(self) -> InitStep:
        """Return the result of the edit."""
        if self.before == self.after:
            return InitStep(self.path, "left" if self.is_left else "kept", self.remark)
        result: Literal["written", "removed"] = "removed" if self.after is None else "written"
        return InitStep(self.path, result, self.remark, self._diff())

    def _diff(self) -> str:
        """Return the edit as a unified diff."""
        old_name = "/dev/null" if self.before is None else f"a/{self.path}"
        old_lines = (self.before or "").splitlines(keepends=True)
        new_lines = (self.after or "").splitlines(keepends=True)
        diff = ""
        for line in unified_diff(old_lines, new_lines, old_name, f"b/{self.path}"):
            diff += line if line.endswith("\n") else f"{line}\n"
        return diff


def init_repository(
    workspace: Workspace, options: InitOptions = MEMORY_ALONE, *, dry_run: bool = False
) -> tuple[InitStep, ...]:
    """Write the files of memory that are missing, and add blocks to those of pre-commit and CI.

    A second run changes nothing.

    Args:
        workspace: the repository and its configuration.
        options: the files of pre-commit and CI to write.
        dry_run: write nothing.

    Raises:
        UsageError: a file cannot be merged (cannot-merge); nothing is written.
        RepositoryError: bare-repository, outside-repository, not-a-file; nothing is written.
            write-failed.
    """
    edits = list(_plan_init(workspace, options))
    return _apply_edits(work_tree(workspace), edits, dry_run)


def uninit_repository(workspace: Workspace, *, dry_run: bool = False) -> tuple[InitStep, ...]:
    """Remove the files and blocks of `init`, unless somebody changed them; memory stays.

    Raises:
        RepositoryError: bare-repository, outside-repository, not-a-file; nothing is changed.
            write-failed.
    """
    root = work_tree(workspace)
    edits = list(_plan_removal(root, workspace.config.export.path))
    return _apply_edits(root, edits, dry_run)


def _apply_edits(root: Path, edits: Sequence[FileEdit], dry_run: bool) -> tuple[InitStep, ...]:
    """Write or remove the files of edits, and return the result of each."""
    for edit in edits:
        if dry_run or edit.before == edit.after:
            continue
        if edit.after is not None:
            write_file(root / edit.path, edit.after.encode("utf-8", "surrogateescape"), root)
        else:
            remove_file(root / edit.path)
            _remove_empty_folders(root, edit.path)
    return tuple(edit.step() for edit in edits)


def _remove_empty_folders(root: Path, path: str) -> None:
    folders = list(Path(path).parents)[:-1]
    with suppress(OSError):  # not empty: it holds files of others
        for folder in folders:
            (root / folder).rmdir()


# -- init


def _plan_init(workspace: Workspace, options: InitOptions) -> Iterator[FileEdit]:
    """Yield the edits of `init`: the files of memory, then those of pre-commit and CI."""
    root = work_tree(workspace)
    for path, text in MEMORY_FILE_TEXTS.items():
        if (root / path).exists():
            yield FileEdit(path, "", "")  # no change
        else:
            yield FileEdit(path, None, text)

    release = options.release
    if release is None:
        return
    if options.pre_commit:
        yield _plan_pre_commit(root, release)
    if options.ci == "gitlab":
        include = f"include:\n{ci_files.gitlab_item(release)}"
        add = partial(ci_files.add_gitlab, release=release)
        yield _plan_block(root, GITLAB, whole_text=include, pasted_text=include, add_block=add)
    if options.ci == "github":
        yield _plan_github(workspace, root, release)


def _plan_pre_commit(root: Path, release: Release) -> FileEdit:
    """Plan to add our hooks to .pre-commit-config.yaml.

    The file may list the types of git hooks that pre-commit installs. A remark for the person names
    the types that our hooks need and the list lacks.
    """
    repos_item = ci_files.pre_commit_item(release)
    edit = _plan_block(
        root,
        PRE_COMMIT,
        whole_text=f"{ci_files.HOOK_TYPES_LINE}repos:\n{repos_item}",
        pasted_text=repos_item,
        add_block=partial(ci_files.add_pre_commit, release=release),
    )

    keys = ci_files.list_keys(edit.after or "")
    hook_types = keys.get("default_install_hook_types", ci_files.HOOK_TYPES)
    missing_types = [name for name in ci_files.HOOK_TYPES if name not in hook_types]
    if not missing_types:
        return edit
    remark = f"add to its default_install_hook_types: {', '.join(missing_types)}"
    return edit._replace(remark=remark)


def _plan_github(workspace: Workspace, root: Path, release: Release) -> FileEdit:
    """Plan to write our workflow, unless another workflow calls memory-ci."""
    workflow = ci_files.github_workflow(release, _find_default_branch(workspace))
    for file in sorted((root / GITHUB).parent.glob("*.y*ml")):
        path = file.relative_to(root).as_posix()
        if path != GITHUB and _calls_memory_ci(read_text(file)):
            return FileEdit(path, "", "", CALLED_REMARK)
    return _plan_block(root, GITHUB, whole_text=workflow, pasted_text=workflow, add_block=None)


def _plan_block(
    root: Path,
    path: str,
    *,
    whole_text: str,
    pasted_text: str,
    add_block: Callable[[str], str] | None,
) -> FileEdit:
    """Plan to put a block of ours, lines between two marks, into a file, or to write the file.

    The file stays as it is if somebody changed a block of ours in it, if other lines of it call
    memory-ci, or if it has the same block already. A new file is one block.

    Args:
        root: the top of the work tree.
        path: the file, relative to the root.
        whole_text: the text if there is no such file.
        pasted_text: the text that a person has to paste if the file cannot be merged.
        add_block: puts the block into the text of others; None refuses a file of others.

    Raises:
        UsageError: the file cannot be merged (cannot-merge); the hint holds `pasted_text`.
    """
    old_text = _read_file(root, path)
    if old_text is None:
        return FileEdit(path, None, ci_files.fence(whole_text, ci_files.WHOLE_FILE_NOTE))
    if ci_files.is_changed(old_text):
        return FileEdit(path, old_text, old_text, CHANGED_REMARK)
    text_without_blocks = ci_files.remove_blocks(old_text)
    if text_without_blocks is not None and _calls_memory_ci(text_without_blocks):
        return FileEdit(path, old_text, old_text, CALLED_REMARK)

    try:
        if text_without_blocks is None:  # The whole file was ours.
            new_text = ci_files.fence(whole_text, ci_files.WHOLE_FILE_NOTE)
        elif add_block is not None:
            new_text = add_block(text_without_blocks)
        else:
            raise YamlTextError(0, "it is there, and is not ours to replace")
    except YamlTextError as error:
        message = f"{path}:{error.line + 1}: memory-ci cannot be put in: {error.reason}"
        hint = f"Put this in yourself, then run the same command again:\n\n{pasted_text}"
        raise UsageError(message, slug="cannot-merge", hint=hint) from error

    # Blocks of the same content stay where they are.
    if ci_files.list_blocks(new_text) == ci_files.list_blocks(old_text):
        new_text = old_text
    return FileEdit(path, old_text, new_text)


def _calls_memory_ci(text: str) -> bool:
    """Return whether a YAML file calls memory-ci; a file that is no YAML does not."""
    try:
        events = list_events(text)
    except YamlTextError:
        return False
    scalars = [event.value for event in events if event.kind == "Scalar"]
    return any(ci_files.MEMORY_CI_CALL.search(scalar) for scalar in scalars)


def _read_file(root: Path, path: str) -> str | None:
    """Return the text of a file, None for no file.

    Raises:
        RepositoryError: it is a link (outside-repository), or no regular file (not-a-file).
    """
    if (root / path).is_symlink():
        hint = "Put a regular file in its place."
        raise RepositoryError(f"{path} is a symbolic link", slug="outside-repository", hint=hint)
    if not (root / path).exists():
        return None
    return read_text(root / path)


# -- uninit


def _plan_removal(root: Path, export_path: str) -> Iterator[FileEdit]:
    """Plan to remove the files and blocks of `init`.

    Files that stay although memory-ci wrote them (memory, exports) are named with a remark.

    Args:
        root: the top of the work tree.
        export_path: the file that `export` writes memory to.
    """
    yield from _plan_whole_files(root)
    if any((root / ".memory").glob("*")):
        yield FileEdit(".memory", "", "", "memory stays", is_left=True)
    if "<!-- memory-ci export: begin" in read_text(root / export_path):
        remark = "what memory was exported to it stays"
        yield FileEdit(export_path, "", "", remark, is_left=True)
    for path in (PRE_COMMIT, GITHUB, GITLAB):
        old_text = _read_file(root, path)
        if old_text is not None:
            yield from _plan_block_removal(path, old_text)


def _plan_whole_files(root: Path) -> Iterator[FileEdit]:
    """Plan to remove the files that are as `init` wrote them; changed ones stay, with a remark.

    These are the files of memory, and the set-up files of agents in the cloud. Nothing is said of a
    file at the path of a set-up file that has no mark of ours: somebody else wrote it.
    """
    written_texts = {**MEMORY_FILE_TEXTS, SCRIPT_FILE: SETUP_SCRIPT, COPILOT_FILE: COPILOT_STEPS}
    for path, written_text in written_texts.items():
        old_text = _read_file(root, path)
        is_former_config = path == CONFIG_FILE and old_text == FORMER_CONFIG_TEXT
        if old_text is None:
            continue
        if old_text == written_text or is_former_config:
            yield FileEdit(path, old_text, None)
        elif path in MEMORY_FILE_TEXTS:
            yield FileEdit(path, old_text, old_text, "it holds what others wrote", is_left=True)
        elif CLOUD_MARK in old_text:
            yield FileEdit(path, old_text, old_text, CHANGED_REMARK, is_left=True)


def _plan_block_removal(path: str, old_text: str) -> Iterator[FileEdit]:
    """Plan to remove our blocks from a file of pre-commit or CI.

    A block that somebody changed stays. So do calls of memory-ci outside our blocks. Each is named
    with a remark. There is no edit for a file that has neither.

    Args:
        path: the file, relative to the top of the work tree.
        old_text: its text.
    """
    new_text = ci_files.remove_blocks(old_text)  # None if the whole file was ours
    if new_text != old_text:
        remark = ""
        if new_text:
            has_changed_block = bool(ci_files.list_blocks(new_text))
            remark = CHANGED_REMARK if has_changed_block else BLOCK_REMOVED_REMARK
        yield FileEdit(path, old_text, new_text, remark)
    elif ci_files.list_blocks(old_text):
        yield FileEdit(path, old_text, old_text, CHANGED_REMARK, is_left=True)
    elif _calls_memory_ci(old_text):
        remark = "memory-ci is called there, and `init` did not write that"
        yield FileEdit(path, old_text, old_text, remark, is_left=True)


# -- proposals


def _find_default_branch(workspace: Workspace) -> str:
    """Return the default branch of the remote, as the clone has it, or the checked-out one."""
    remote_head = follow_symbolic(workspace.repo, "refs/remotes/origin/HEAD")
    branch = remote_head.removeprefix("refs/remotes/origin/")
    if branch != "HEAD":  # `follow_symbolic` returns a ref that is no symbolic one unchanged.
        return branch
    checked_out = head_branch(workspace.repo) or "main"
    return checked_out.removeprefix("refs/heads/")


def guess_ci(workspace: Workspace) -> Ci:
    """Return the CI that the files of the work tree or the remote's address suggest."""
    root = work_tree(workspace)
    url = find_setting(workspace.repo, "remote.origin.url") or ""
    if (root / GITLAB).exists() or is_on_gitlab(url):
        return "gitlab"
    if (root / ".github").is_dir() or is_on_github(url):
        return "github"
    return "none"


def is_called_by(root: Path, caller: Ci | Literal["pre-commit"]) -> bool:
    """Return whether the files of a CI or of pre-commit call memory-ci already."""
    if caller == "github":
        files = sorted((root / GITHUB).parent.glob("*.y*ml"))
    else:
        files = [root / (GITLAB if caller == "gitlab" else PRE_COMMIT)]
    return any(_calls_memory_ci(read_text(file)) for file in files)


PROGRAM_BY_AGENT = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini": "gemini",
    "copilot": "copilot",
    "opencode": "opencode",
    "cursor": "cursor-agent",
}
"""The program of an agent, which says that the agent is installed."""


def guess_agents(root: Path, home: Path) -> tuple[str, ...]:
    """Return the names of agents that are installed.

    Such an agent has a program, or a folder of its own in the work tree or the home.
    """
    names: list[str] = []
    for agent in AGENTS:
        program = PROGRAM_BY_AGENT.get(agent.name)
        if _has_own_folder(agent, root, home) or (program and which(program)):
            names.append(agent.name)
    return tuple(names)


SHARED_FOLDERS = (".github", ".vscode", ".config")
"""Folders of settings files of agents that other programs have files in, too."""


def _has_own_folder(agent: Agent, root: Path, home: Path) -> bool:
    """Return whether the work tree or the home has a folder that only an agent makes.

    It is the hidden folder of one of the agent's settings files: `.claude` of
    `.claude/settings.json`.

    Args:
        agent: the agent.
        root: the top of the work tree.
        home: the home of the user.
    """
    for part in agent.parts:
        for directory, settings_file in ((root, part.file), (home, part.user)):
            folder_name, slash, _ = settings_file.partition("/")
            is_hidden_folder = slash and folder_name.startswith(".")
            if not is_hidden_folder or folder_name.startswith(SHARED_FOLDERS):
                continue
            if (directory / folder_name).is_dir():
                return True
    return False
