"""Install: the merge driver, the attributes that call it, and native hooks.

Uninstall takes out just what install put there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from memory_ci.commands.setup.agents import AgentOptions, plan_agents, plan_agents_out, put_agent
from memory_ci.commands.setup.clients import AGENTS
from memory_ci.commands.setup.hooks import hook_manager, put_hooks, refuse_hooks, take_hooks_out
from memory_ci.gitrepo.blobs import list_staged
from memory_ci.gitrepo.repo import Repository, find_setting, remove_section, set_setting
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.store.files import remove_file
from memory_ci.store.merge_driver import ATTRIBUTES, SECTION, attribute_lines, driver_command
from memory_ci.store.steps import (
    HASHES,
    InstallStep,
    StepResult,
    put_text,
    read_text,
    with_block,
    without_block,
)

TITLE = "memory-ci: memory files entry by entry"
EXCLUDE = "info/exclude"  # in the git directory that all work trees share: what git passes over in this clone alone
MADE = "memory-ci/made"
"""In the git directory: the files and directories that `install` made for agents, a path each line."""

USER_MADE = ".local/state/memory-ci/made"  # the same in the home, for what is the user's
AGENT_FILES = tuple(
    {file for agent in AGENTS for part in agent.parts for file in (part.file, part.shared) if file}
)


def install(
    workspace: Workspace,
    python: str,
    *,
    with_hook: bool = True,
    agents: Sequence[str] = (),
    is_shared: bool = False,
    is_reading: bool = True,
    is_asking: bool = True,
    is_mcp: bool = True,
    dry_run: bool = False,
) -> tuple[InstallStep, ...]:
    """Set up what is missing or differs; `python` is the interpreter that git and agents will start, where the file is
    of this clone alone. `is_shared`: the hooks of agents go into settings that are committed; `is_reading`: they read
    memory, too; `is_asking`: they are asked for notes; `is_mcp`: they get the MCP server. Again, it changes nothing.
    Hooks that another tool manages are left to it (`hook_manager`).

    Raises RepositoryError: bare-repository, hooks-path-set, hook-in-the-way, not-a-file before anything is written;
    write-failed, git-failed; UsageError: agent-settings before anything is written.
    """
    repo, root = workspace.repo, work_tree(workspace)
    attributes, note = root / ATTRIBUTES, repo.git_dir / MADE
    with_hook = with_hook and hook_manager(workspace) is None
    if with_hook:
        refuse_hooks(repo)
    chosen = [agent for agent in AGENTS if agent.name in agents]
    # All but texts are of this clone alone, so that no commit should have them.
    local = list(
        dict.fromkeys(part.file for agent in chosen for part in agent.parts if part.name != "text")
    )
    tracked = _list_tracked(repo, local)
    wish = AgentOptions(
        "" if is_shared else python,
        "shared" if is_shared else "file",
        is_reading,
        is_asking,
        is_mcp,
    )
    hooked = plan_agents(root, agents, wish, note, tracked)
    new = {one.path.relative_to(root).as_posix() for one in hooked}
    own = [one for one in local if one in new and one not in tracked]
    exclude = _plan_exclude(repo, *(([], own) if is_shared else (own, ())))
    lines = attribute_lines(workspace.config.scopes)
    settings = {f"{SECTION}.name": TITLE, f"{SECTION}.driver": driver_command(python)}
    is_set = all(find_setting(repo, name, "--local") == value for name, value in settings.items())
    for name, value in settings.items() if not (is_set or dry_run) else ():
        set_setting(repo, name, value)
    return (
        InstallStep(
            "merge-driver", str(repo.common_dir / "config"), "kept" if is_set else "written"
        ),
        InstallStep(
            "attributes",
            str(attributes),
            put_text(attributes, with_block(read_text(attributes), HASHES, lines), dry_run),
        ),
        *(put_hooks(repo, python, dry_run) if with_hook else ()),
        *(
            InstallStep("exclude", str(path), put_text(path, text, dry_run))
            for path, text in exclude
        ),
        *(put_agent(edit, note, dry_run) for edit in hooked),
    )


def install_for_user(
    home: Path, names: Sequence[str], wish: AgentOptions, *, dry_run: bool = False
) -> tuple[InstallStep, ...]:
    """Hook the agents in for every repository with memory, by settings in the home. Raises RepositoryError
    (write-failed), UsageError (agent-settings) before anything is written."""
    note = home / USER_MADE
    return tuple(put_agent(edit, note, dry_run) for edit in plan_agents(home, names, wish, note))


def uninstall_for_user(home: Path, *, dry_run: bool = False) -> tuple[InstallStep, ...]:
    """Take out of the home what `install_for_user` put in. Raises as that does."""
    note = home / USER_MADE
    return tuple(
        put_agent(edit, note, dry_run) for edit in plan_agents_out(home, note, place="user")
    )


def uninstall(workspace: Workspace, *, dry_run: bool = False) -> tuple[InstallStep, ...]:
    """Take out what `install` put in; hooks that were there before are back in their places. Raises RepositoryError:
    bare-repository, write-failed, git-failed; UsageError: agent-settings before anything is changed."""
    repo, root = workspace.repo, work_tree(workspace)
    note, exclude = repo.git_dir / MADE, repo.common_dir / EXCLUDE
    hooked = plan_agents_out(root, note, _list_tracked(repo, AGENT_FILES))
    has_driver = find_setting(repo, f"{SECTION}.driver", "--local") is not None
    if has_driver and not dry_run:
        remove_section(repo, SECTION)
    lines = _take_block_out(root / ATTRIBUTES, dry_run)
    hooks = list(take_hooks_out(repo, dry_run))
    ignored = "absent" if exclude.is_symlink() else _take_block_out(exclude, dry_run)
    return (
        InstallStep(
            "merge-driver", str(repo.common_dir / "config"), "removed" if has_driver else "absent"
        ),
        InstallStep("attributes", str(root / ATTRIBUTES), lines),
        *hooks,
        *([InstallStep("exclude", str(exclude), ignored)] if ignored != "absent" else []),
        *(put_agent(edit, note, dry_run) for edit in hooked),
    )


def _list_tracked(repo: Repository, files: Sequence[str]) -> set[str]:
    return {file.path for file in list_staged(repo, files)} if files else set()


def _take_block_out(path: Path, dry_run: bool) -> StepResult:
    text = read_text(path)
    if (rest := without_block(text, HASHES)) == text:
        return "absent"
    if rest:
        put_text(path, rest, dry_run)
    elif not dry_run:
        remove_file(path)
    return "removed"


def _plan_exclude(
    repo: Repository, files: Sequence[str], gone: Collection[str]
) -> tuple[tuple[Path, str], ...]:
    """The file that makes git pass over `files` and those of earlier installs, but not over `gone`, as it will be.
    Nothing where there is nothing to say. One that is a symbolic link is not ours to replace."""
    path = repo.common_dir / EXCLUDE
    if path.is_symlink():
        return ()
    text = read_text(path)
    found = HASHES.find(text)
    old = [line[1:] for line in found.group().splitlines() if line.startswith("/")] if found else []
    lines = [f"/{file}" for file in dict.fromkeys([*old, *files]) if file not in gone]
    if not (files or set(old).intersection(gone)):
        return ()
    return ((path, with_block(text, HASHES, lines) if lines else without_block(text, HASHES)),)
