"""`memory-ci init --clone`: sets up a merge driver, git's hooks and agents in a clone.

`init --remove --clone` removes these parts, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from memory_ci.commands.setup.agents import (
    AgentEdit,
    AgentOptions,
    apply_agent_edit,
    plan_agent_removal,
    plan_agents,
)
from memory_ci.commands.setup.clients import AGENTS
from memory_ci.commands.setup.hooks import (
    find_hook_manager,
    install_hooks,
    require_hooks_folder,
    uninstall_hooks,
)
from memory_ci.gitrepo.blobs import list_staged
from memory_ci.gitrepo.repo import Repository, find_setting, remove_section, set_setting
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.store.files import remove_file
from memory_ci.store.merge_driver import ATTRIBUTES, SECTION, attribute_lines, driver_command
from memory_ci.store.steps import (
    HASHES,
    InstallStep,
    StepResult,
    insert_block,
    read_text,
    remove_block,
    write_if_changed,
)

DRIVER_TITLE = "memory-ci: memory files entry by entry"
EXCLUDE_FILE = "info/exclude"
"""In the git directory that all work trees share: the ignore patterns of this clone alone."""

MADE_FILE = "memory-ci/made"
"""In the git directory: the paths that `init --clone` made for agents, one a line."""

USER_MADE_FILE = ".local/state/memory-ci/made"
"""The same in the home, for the settings of the user."""


def install(
    workspace: Workspace,
    python: str,
    *,
    with_hooks: bool = True,
    agents: Sequence[str] = (),
    is_shared: bool = False,
    serves_memory: bool = True,
    asks_for_notes: bool = True,
    is_mcp: bool = True,
    dry_run: bool = False,
) -> tuple[InstallStep, ...]:
    """Set up a merge driver, git's hooks and agents in a clone. A second run changes nothing.

    Hooks that another tool manages (`find_hook_manager`) are not written. Files that hold settings
    of this clone alone are added to .git/info/exclude, unless git tracks them.

    Args:
        workspace: the repository and its configuration.
        python: the interpreter that git and agents start, in files of this clone alone.
        with_hooks: write git's hooks.
        agents: the names of the agents to hook into.
        is_shared: the hooks of agents go into settings that are committed.
        serves_memory: the hooks of agents read memory, too.
        asks_for_notes: the hooks of agents ask for notes.
        is_mcp: agents get the MCP server.
        dry_run: change nothing.

    Raises:
        RepositoryError: bare-repository, hooks-path-set, hook-in-the-way, not-a-file; nothing is
            written. write-failed, git-failed.
        UsageError: agent-settings; nothing is written.
    """
    repo = workspace.repo
    root = work_tree(workspace)
    made_file = repo.git_dir / MADE_FILE

    # All that can be refused is checked and planned before the first file is written.
    writes_hooks = with_hooks and find_hook_manager(workspace) is None
    if writes_hooks:
        require_hooks_folder(repo)
    options = AgentOptions(
        python="" if is_shared else python,
        place="shared" if is_shared else "file",
        serves_memory=serves_memory,
        asks_for_notes=asks_for_notes,
        is_mcp=is_mcp,
    )
    local_files = _list_local_files(agents)
    tracked = _list_tracked(repo, local_files)
    edits = plan_agents(root, agents, options, made_file, tracked)
    untracked = [file for file in _list_edited(edits, root, local_files) if file not in tracked]
    exclude_path = repo.common_dir / EXCLUDE_FILE
    if is_shared:
        exclude_text = _plan_exclude(exclude_path, included=untracked)
    else:
        exclude_text = _plan_exclude(exclude_path, excluded=untracked)

    steps = [_put_merge_driver(repo, python, dry_run), _put_attributes(workspace, root, dry_run)]
    if writes_hooks:
        steps += install_hooks(repo, python, dry_run)
    if exclude_text is not None:
        result = write_if_changed(exclude_path, exclude_text, dry_run)
        steps.append(InstallStep("exclude", str(exclude_path), result))
    return (*steps, *_apply_agent_edits(edits, made_file, dry_run))


def install_for_user(
    home: Path, names: Sequence[str], options: AgentOptions, *, dry_run: bool = False
) -> tuple[InstallStep, ...]:
    """Put our hooks into the settings that agents have in the home of the user.

    The agents then call them in every repository with memory.

    Args:
        home: the home of the user.
        names: the names of the agents.
        options: which parts to put in, and their content.
        dry_run: change nothing.

    Raises:
        RepositoryError: write-failed.
        UsageError: agent-settings; nothing is written.
    """
    made_file = home / USER_MADE_FILE
    return _apply_agent_edits(plan_agents(home, names, options, made_file), made_file, dry_run)


def uninstall_for_user(home: Path, *, dry_run: bool = False) -> tuple[InstallStep, ...]:
    """Remove the settings of `install_for_user` from the home.

    Raises:
        RepositoryError: write-failed.
        UsageError: agent-settings; nothing is changed.
    """
    made_file = home / USER_MADE_FILE
    return _apply_agent_edits(plan_agent_removal(home, made_file, place="user"), made_file, dry_run)


def uninstall(workspace: Workspace, *, dry_run: bool = False) -> tuple[InstallStep, ...]:
    """Remove the parts of `init --clone` from a clone, and put earlier hooks back in their places.

    Raises:
        RepositoryError: bare-repository, write-failed, git-failed.
        UsageError: agent-settings; nothing is changed.
    """
    repo = workspace.repo
    root = work_tree(workspace)
    made_file = repo.git_dir / MADE_FILE
    edits = plan_agent_removal(root, made_file, _list_tracked(repo, _list_agent_files()))

    steps = [_remove_merge_driver(repo, dry_run)]
    attributes = root / ATTRIBUTES
    steps.append(InstallStep("attributes", str(attributes), _take_block_out(attributes, dry_run)))
    steps += uninstall_hooks(repo, dry_run)

    exclude = repo.common_dir / EXCLUDE_FILE
    if not exclude.is_symlink():
        result = _take_block_out(exclude, dry_run)
        if result != "absent":
            steps.append(InstallStep("exclude", str(exclude), result))
    return (*steps, *_apply_agent_edits(edits, made_file, dry_run))


def _list_agent_files() -> list[str]:
    """Return every settings file that `init --clone` may write in a work tree."""
    files: set[str] = set()
    for agent in AGENTS:
        for part in agent.parts:
            files.update((part.file, part.shared))
    return sorted(files - {""})


def _list_local_files(names: Collection[str]) -> list[str]:
    """Return the settings files of agents that no commit should have.

    Those with instructions for an agent, such as AGENTS.md, may be committed.
    """
    files: dict[str, None] = {}
    for agent in AGENTS:
        if agent.name in names:
            files |= {part.file: None for part in agent.parts if part.name != "text"}
    return list(files)


def _list_edited(edits: Sequence[AgentEdit], root: Path, files: Sequence[str]) -> list[str]:
    """Return those of some files that have an edit."""
    edited_files = {edit.path.relative_to(root).as_posix() for edit in edits}
    return [file for file in files if file in edited_files]


def _list_tracked(repo: Repository, files: Sequence[str]) -> set[str]:
    """Return those of some files that git tracks."""
    if not files:
        return set()
    return {file.path for file in list_staged(repo, files)}


def _put_merge_driver(repo: Repository, python: str, dry_run: bool) -> InstallStep:
    """Add our merge driver to the configuration of the clone."""
    settings = {f"{SECTION}.name": DRIVER_TITLE, f"{SECTION}.driver": driver_command(python)}
    is_set = all(find_setting(repo, name, "--local") == value for name, value in settings.items())
    if not is_set and not dry_run:
        for name, value in settings.items():
            set_setting(repo, name, value)
    config = str(repo.common_dir / "config")
    return InstallStep("merge-driver", config, "kept" if is_set else "written")


def _remove_merge_driver(repo: Repository, dry_run: bool) -> InstallStep:
    has_driver = find_setting(repo, f"{SECTION}.driver", "--local") is not None
    if has_driver and not dry_run:
        remove_section(repo, SECTION)
    config = str(repo.common_dir / "config")
    return InstallStep("merge-driver", config, "removed" if has_driver else "absent")


def _put_attributes(workspace: Workspace, root: Path, dry_run: bool) -> InstallStep:
    path = root / ATTRIBUTES
    text = insert_block(read_text(path), HASHES, attribute_lines(workspace.config.scopes))
    return InstallStep("attributes", str(path), write_if_changed(path, text, dry_run))


def _apply_agent_edits(
    edits: Sequence[AgentEdit], made_file: Path, dry_run: bool
) -> tuple[InstallStep, ...]:
    return tuple(apply_agent_edit(edit, made_file, dry_run) for edit in edits)


def _take_block_out(path: Path, dry_run: bool) -> StepResult:
    """Remove our block from a file, and the file if nothing else is in it."""
    old_text = read_text(path)
    new_text = remove_block(old_text, HASHES)
    if new_text == old_text:
        return "absent"
    if new_text:
        write_if_changed(path, new_text, dry_run)
    elif not dry_run:
        remove_file(path)
    return "removed"


def _plan_exclude(
    path: Path, *, excluded: Sequence[str] = (), included: Collection[str] = ()
) -> str | None:
    """Return the new text of git's exclude file, in which our files are a marked block of lines.

    Args:
        path: the exclude file.
        excluded: files to add to the block; the files of earlier installs stay.
        included: files to take out of the block, for they are to be committed.

    Returns:
        The text; None to leave the file as it is, also if it is a symbolic link.
    """
    if path.is_symlink():
        return None
    text = read_text(path)
    block_match = HASHES.find(text)
    old_files: list[str] = []
    if block_match:
        # Each line is a file with a slash before it, but for the first and the last one.
        for line in block_match.group().splitlines():
            if line.startswith("/"):
                old_files.append(line.removeprefix("/"))
    if not excluded and not set(old_files).intersection(included):
        return None

    files = dict.fromkeys([*old_files, *excluded])
    patterns = [f"/{file}" for file in files if file not in included]
    return insert_block(text, HASHES, patterns) if patterns else remove_block(text, HASHES)
