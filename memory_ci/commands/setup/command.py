"""The command line of `memory-ci init`, which sets up files, CI, git hooks and coding agents."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import click
from msgspec.structs import replace

from memory_ci.cli.common import change_options, flag, option, refuse_other_parameters, show
from memory_ci.cli.plain import (
    echo,
    echo_json,
    has_input,
    is_terminal,
    now,
    open_current_workspace,
    progress,
    say,
    shorten_path,
)
from memory_ci.extras import how_to_install
from memory_ci.findings import printable, printable_lines
from memory_ci.sources.agent_events import AGENT_NAMES

if TYPE_CHECKING:
    from memory_ci.commands.setup.hooks import Manager
    from memory_ci.commands.setup.init import Ci, InitOptions, InitStep
    from memory_ci.commands.setup.preview import Preview
    from memory_ci.memory.workspace import Workspace
    from memory_ci.records.config import Policy
    from memory_ci.store.steps import InstallStep

Part = Literal["hooks", "retrieve", "ask", "mcp"]
"""What `init --without` leaves out."""

ALL_AGENTS = "all"

RENAMED_HOOKS_TEXT = (
    "\nHooks of ours that you had changed are renamed and not run. "
    "Where lines of your own belong: `memory-ci help agents`"
)


class AgentChoice(NamedTuple):
    """The coding agents whose settings get hooks that call memory-ci.

    Attributes:
        names: the agents.
        is_shared: the hooks go into settings that are committed.
        without: the parts that are left out.
    """

    names: tuple[str, ...]
    is_shared: bool
    without: tuple[Part, ...]


def _set_up_home(agents: AgentChoice, dry_run: bool, as_json: bool) -> None:
    """Put hooks into the settings of agents in the home, for every repository with memory."""
    from memory_ci.commands.setup.agents import AgentOptions
    from memory_ci.commands.setup.install import install_for_user

    if agents.is_shared or not agents.names:
        raise click.UsageError("--user goes with --agent, and not with --shared")
    options = AgentOptions(
        python=sys.executable,
        place="user",
        serves_memory="retrieve" not in agents.without,
        asks_for_notes="ask" not in agents.without,
        is_mcp=False,
    )
    steps = install_for_user(Path.home(), agents.names, options, dry_run=dry_run)
    show_steps(steps, dry_run=dry_run, as_json=as_json)


def _set_up_clone(agents: AgentChoice, dry_run: bool, as_json: bool) -> None:
    """Set up the merge driver, git's hooks and the settings of agents in this clone.

    The results are printed, with the steps that are left to the user: to commit a file, or to add
    lines to the files of a tool that manages git's hooks.

    Args:
        agents: the agents, and the parts to set up for them or to leave out.
        dry_run: change nothing.
        as_json: print the results as JSON.
    """
    from memory_ci.commands.setup.hooks import find_hook_manager
    from memory_ci.commands.setup.install import install

    current_workspace = open_current_workspace()
    has_mcp = find_spec("mcp") is not None  # the library of the MCP server is installed
    with_hooks = "hooks" not in agents.without
    with_mcp = "mcp" not in agents.without
    steps = install(
        current_workspace,
        sys.executable,
        with_hooks=with_hooks,
        agents=agents.names,
        is_shared=agents.is_shared,
        serves_memory="retrieve" not in agents.without,
        asks_for_notes="ask" not in agents.without,
        is_mcp=has_mcp and with_mcp,
        dry_run=dry_run,
    )
    manager = find_hook_manager(current_workspace) if with_hooks else None
    if as_json:
        echo_json({"dry_run": dry_run, "steps": steps, "managed_by": manager})
        return

    show_steps(steps, dry_run=dry_run, as_json=False, root=current_workspace.repo.root)
    if manager is not None:
        _show_manager(manager)
    if not dry_run and _is_written(steps, "attributes"):
        say("\nCommit .gitattributes; each clone runs `memory-ci init --clone` once.")
    if with_mcp and agents.names and not has_mcp:
        python = sys.executable
        say(f"\nNo MCP server was set up: {python} lacks it ({how_to_install('mcp')}).")
    if not agents.is_shared and _is_written(steps, "agent"):
        _show_local_files(steps, current_workspace.repo.cwd)


def _is_written(steps: Sequence[InstallStep], part: str) -> bool:
    return any(step.part == part and step.result == "written" for step in steps)


def _show_manager(manager: Manager) -> None:
    """Print the lines to add to the files of a tool that manages git's hooks, such as lefthook."""
    if not manager.additions:
        say(f"\n{manager.tool} manages the hooks here, and calls memory-ci already.")
        return
    say(f"\n{manager.tool} manages the hooks here. None was put in; add these lines yourself:")
    for path, text in manager.additions.items():
        echo(f"\n{path}\n\n{indent(text, '    ').rstrip()}\n")


def _show_local_files(steps: Sequence[InstallStep], directory: Path) -> None:
    """Print which settings files of agents must not be committed, relative to a directory."""
    paths = []
    for step in steps:
        if step.part == "agent" and step.result == "written":
            paths.append(os.path.relpath(step.path, directory))
    reason = "git passes over them; take one that it tracks out with `git rm --cached`"
    say(
        f"\nDo not commit {' '.join(paths)}: of this clone alone ({reason}). "
        "--shared is for the team."
    )


def show_steps(
    steps: Sequence[InstallStep], *, dry_run: bool, as_json: bool, root: Path | None = None
) -> None:
    """Print the result of each part, or the result that it would have.

    Args:
        steps: the parts, with absolute paths; JSON keeps these.
        dry_run: nothing was changed.
        as_json: print JSON.
        root: the work tree; paths below it are printed relative to it.
    """
    if as_json:
        echo_json({"dry_run": dry_run, "steps": steps})
        return
    for (part, result), group in groupby(steps, key=lambda step: (step.part, step.result)):
        is_planned = dry_run and result not in ("kept", "absent")
        label = f"{result:8} {part:13}"
        if is_planned:
            label = f"would be {label}"
        paths = [shorten_path(step.path, root) for step in group]
        if part == "hook" and len(paths) > 1:  # one line for all hooks of a folder
            names = ", ".join(Path(path).name for path in paths)
            paths = [f"{Path(paths[0]).parent}: {names}"]
        for path in paths:
            say(f"{label} {path}")
    if any(step.result == "renamed" for step in steps):
        say(RENAMED_HOOKS_TEXT)


def _clear_home(dry_run: bool, as_json: bool) -> None:
    """Remove our hooks from the settings of agents in the home (`init --remove --user`)."""
    from memory_ci.commands.setup.install import uninstall_for_user

    steps = uninstall_for_user(Path.home(), dry_run=dry_run)
    show_steps(steps, dry_run=dry_run, as_json=as_json)


def _clear_clone(dry_run: bool, as_json: bool) -> None:
    """Remove the parts of `init --clone` from this clone (`init --remove --clone`)."""
    from memory_ci.commands.setup.install import uninstall

    current_workspace = open_current_workspace()
    steps = uninstall(current_workspace, dry_run=dry_run)
    show_steps(steps, dry_run=dry_run, as_json=as_json, root=current_workspace.repo.root)


def _pin_policy(source: str | None, dry_run: bool, as_json: bool) -> None:
    """Pin the policy of a platform in the configuration, and print its limits.

    Exits with status 1 if a dry run finds another policy than the pinned one.

    Args:
        source: SOURCE@REV, a git repository and a revision; None for the policy that is pinned.
        dry_run: change nothing.
        as_json: print JSON.
    """
    from memory_ci.commands.setup.policy import pin_policy

    pinned = pin_policy(Path.cwd(), source, os.environ, write=not dry_run)
    title = "New" if pinned.is_new else "As pinned"
    limits = "; ".join(_list_limits(pinned.policy)) or "narrows nothing"
    lines = [printable(f"{title}: {pinned.extends}"), f"  {limits}"]
    remarks: list[str] = []
    if pinned.is_new and not dry_run:
        remarks.append("Commit .memory-ci.yaml and .memory/policy.yaml.")
    show(pinned, lines, as_json, remarks)
    is_outdated = dry_run and pinned.is_new
    raise SystemExit(1 if is_outdated else 0)


def _list_limits(policy: Policy) -> list[str]:
    """Return the limits of a policy, a phrase each."""
    engine = policy.engine
    limits: list[str] = []
    if engine.allowed:
        limits.append(f"engines: {', '.join(engine.allowed)}")
    if engine.max_cost_usd:
        limits.append(f"at most {engine.max_cost_usd:g} USD a run")
    if engine.max_cost_usd_month:
        limits.append(f"at most {engine.max_cost_usd_month:g} USD a month")
    if policy.publish.allowed:
        limits.append(f"publish by {', '.join(policy.publish.allowed)}")
    if policy.minimum_version:
        limits.append(f"memory-ci {policy.minimum_version} or newer")
    return limits


CIS: tuple[Ci, ...] = ("github", "gitlab", "none")
CLOUDS = ("claude-web", "copilot-cloud", "codex-cloud", "jules")


@click.command("init")
@flag("--pre-commit", help="Add our hooks to .pre-commit-config.yaml.")
@option("--ci", choices=CIS, help="Write the jobs of this CI that record and verify.")
@option(
    "--agent",
    "agents",
    multiple=True,
    choices=(*AGENT_NAMES, ALL_AGENTS),
    metavar="AGENT",
    help=f"Add hooks to the settings of this agent: {', '.join(AGENT_NAMES)}, or {ALL_AGENTS}.",
)
@option("--cloud", choices=CLOUDS, help="Also write the files for this cloud agent.")
@option(
    "--from",
    "history",
    metavar="REV|AGE",
    help="First print possible learnings from older work (90d, 12w, 6m, 1y).",
)
@option(
    "--ci-source", metavar="OWNER/REPO@REV", help="The release of memory-ci that hooks and CI run."
)
@flag("--clone", help="Set up the merge driver, git's hooks and --agent in this clone alone.")
@flag("--shared", help="With --clone: add the hooks of agents to the settings that are committed.")
@flag("--user", help="Set up --agent in the home, for every repository with memory.")
@option(
    "--without",
    multiple=True,
    choices=get_args(Part),
    help="With --clone and --user: leave out git's hooks; or for agents, reading memory, asking "
    "for notes of what a person taught, or the MCP server.",
)
@option(
    "--policy",
    is_flag=False,
    flag_value="",
    metavar="[SRC@REV]",
    help="Pin the policy of a platform, or update the pinned one.",
)
@flag("--remove", help="Remove what init wrote; with --clone or --user, what these wrote.")
@change_options
@click.pass_context
def init_command(
    ctx: click.Context,
    *,
    pre_commit: bool,
    ci: Ci | None,
    agents: tuple[str, ...],
    cloud: str | None,
    history: str | None,
    ci_source: str | None,
    clone: bool,
    shared: bool,
    user: bool,
    without: tuple[Part, ...],
    policy: str | None,
    remove: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Set up memory in a repository, with hooks, CI and agents, or remove the set-up.

    It writes .memory-ci.yaml, MEMORY.md and institutional.md, unless they exist. --pre-commit and
    --ci write a file, or add a marked block to the file that exists; the rest of it stays byte for
    byte. At a terminal, without an option, init asks; --ci none asks nothing. --cloud writes a
    script that installs this version and builds the index in a new container, the committed hooks
    that the agent runs, and memory in AGENTS.md. --from 90d first prints the number of changes
    merged since then, the sentences in them that look like a learning, and the price of a run with
    a model. Running init again changes nothing.

    --clone sets up a further clone: the merge driver in its git configuration and .gitattributes,
    and git's hooks. These note in each commit which memory the agent was served and which session
    made it, push captured sessions, and update the index. A hook that exists runs first; for
    lefthook or husky, the lines to add are printed. With --agent, hooks are added to the settings
    of the agent in this clone, which git then ignores (.git/info/exclude) unless it tracks them.

    --policy copies memory-ci-policy.yaml of a git repository to .memory/policy.yaml, and its digest
    to .memory-ci.yaml. A policy limits the engines that may be used, the cost, the ways to publish,
    and the version. With --dry-run the exit status is 1 if the source has another policy.

    --remove removes the files and blocks that init wrote. Files and blocks that somebody changed
    stay, and so does memory. Hooks that existed before are restored; a hook of ours that you
    changed is renamed. If others merge with memory-ci, restore .gitattributes afterwards.

    \b
    Example:
      memory-ci init
      memory-ci init --agent claude-code --dry-run
      memory-ci init --pre-commit --ci github --ci-source OWNER/memory-ci@v0.2.0
      memory-ci init --clone --agent claude-code
      memory-ci init --policy https://github.com/acme/policy@v1
      memory-ci init --remove --dry-run
    """
    agent_names = AGENT_NAMES if ALL_AGENTS in agents else agents
    if policy is not None:
        refuse_other_parameters(ctx, "policy", ("dry_run", "as_json"))
        _pin_policy(policy or None, dry_run, as_json)
        return
    if remove:
        refuse_other_parameters(ctx, "remove", ("clone", "user", "dry_run", "as_json"))
        if user:
            _clear_home(dry_run, as_json)
        elif clone:
            _clear_clone(dry_run, as_json)
        else:
            _clear_repository(dry_run, as_json)
        return
    if clone or user:
        mode = "user" if user else "clone"
        allowed = ("clone", "agents", "shared", "user", "without", "dry_run", "as_json")
        refuse_other_parameters(ctx, mode, allowed)
        set_up = _set_up_home if user else _set_up_clone
        set_up(AgentChoice(agent_names, shared, without), dry_run, as_json)
        return
    if shared or without:
        raise click.UsageError("--shared and --without belong to --clone.")
    files = FileChoice(pre_commit, ci, cloud, ci_source)
    _set_up_repository(files, agent_names, history, dry_run, as_json)


class FileChoice(NamedTuple):
    """The files that `init` writes in addition to those of memory.

    Attributes:
        pre_commit: our hooks in .pre-commit-config.yaml.
        ci: the CI whose workflow is written, None if the user did not say.
        cloud: the cloud agent whose set-up file is written, None for none.
        ci_source: the release of memory-ci that they run, as the user wrote it.
    """

    pre_commit: bool
    ci: Ci | None
    cloud: str | None
    ci_source: str | None


def _set_up_repository(
    files: FileChoice,
    agents: tuple[str, ...],
    history: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write the files of `init`, after asking for them if no option names one.

    Args:
        files: the files that options name.
        agents: the agents that options name.
        history: an age or a revision, since which a preview of older work is shown first.
        dry_run: write nothing.
        as_json: print JSON.
    """
    from memory_ci.commands.setup.ci_files import find_release, need_release, parse_release
    from memory_ci.commands.setup.init import InitOptions
    from memory_ci.memory.workspace import work_tree

    current_workspace = open_current_workspace()
    options = InitOptions(files.pre_commit, files.ci or "none", find_release())
    if files.ci_source:
        options = replace(options, release=parse_release(files.ci_source))
    can_ask = is_terminal() and not (dry_run or as_json or has_input())
    names_a_part = files.pre_commit or files.ci or agents or files.cloud or history
    asked_history: str | None = None
    if can_ask and not names_a_part:
        from memory_ci.commands.setup.init import guess_agents
        from memory_ci.commands.setup.questions import ask_for_parts

        installed_agents = guess_agents(work_tree(current_workspace), Path.home())
        answers = ask_for_parts(current_workspace, options, installed_agents)
        options, agents, asked_history = answers
    preview = _preview_history(current_workspace, history, as_json) if history else None
    if options.pre_commit or options.ci != "none":
        release = need_release(options.release, must_be_tag=options.ci == "gitlab")
        options = replace(options, release=release)

    results = _write_parts(current_workspace, options, agents, files.cloud, dry_run=dry_run)
    if as_json:
        json_object: dict[str, Any] = {
            "dry_run": dry_run,
            "files": results.files,
            "agents": results.agents,
            "preview": preview,
        }
        if files.cloud:
            json_object |= {"cloud": results.cloud, "remark": results.remark}
        echo_json(json_object)
        return

    root = current_workspace.repo.root
    _show_files(results.files, dry_run)
    show_steps(results.agents, dry_run=dry_run, as_json=False, root=root)
    _show_next_steps(results.files, options, dry_run)
    if files.cloud:
        show_steps(results.cloud, dry_run=dry_run, as_json=False, root=root)
        then = f" Then {results.remark}." if results.remark else ""
        say(f"\nCommit them to the default branch.{then}")
    if asked_history:
        # At the end: an interruption of it leaves everything set up.
        _preview_history(current_workspace, asked_history, as_json)


class _InitResults(NamedTuple):
    """The results of `init` for each part.

    Attributes:
        files: the files of memory, of pre-commit and of CI.
        agents: the settings of agents, and git's hooks.
        cloud: the files of a cloud agent.
        remark: the steps to do by hand for a cloud agent, "" for none.
    """

    files: tuple[InitStep, ...]
    agents: tuple[InstallStep, ...] = ()
    cloud: tuple[InstallStep, ...] = ()
    remark: str = ""


def _write_parts(
    current_workspace: Workspace,
    options: InitOptions,
    agents: tuple[str, ...],
    cloud: str | None,
    *,
    dry_run: bool,
) -> _InitResults:
    """Write the files of `init`, the settings of agents, and the files of a cloud agent.

    Args:
        current_workspace: the repository.
        options: the files to write.
        agents: the agents whose settings get our hooks.
        cloud: the cloud agent, None for none.
        dry_run: write nothing.
    """
    from memory_ci.commands.setup.init import INIT_NOTE_FILE, init_repository
    from memory_ci.commands.setup.install import install

    # The dry run raises for a file that cannot be merged, before anything is written.
    file_steps = init_repository(current_workspace, options, dry_run=True)
    agent_steps: tuple[InstallStep, ...] = ()
    if agents:
        agent_steps = install(
            current_workspace,
            sys.executable,
            with_hooks=not options.pre_commit,  # pre-commit runs our hooks, not git's own
            agents=agents,
            is_mcp=find_spec("mcp") is not None,
            dry_run=dry_run,
        )
    if not dry_run:
        file_steps = init_repository(current_workspace, options)
    cloud_steps: tuple[InstallStep, ...] = ()
    remark = ""
    if cloud:
        cloud_steps, remark = _set_up_cloud(current_workspace, cloud, dry_run)
    if (agents or cloud) and not dry_run:
        init_note = current_workspace.repo.git_dir / INIT_NOTE_FILE
        init_note.parent.mkdir(exist_ok=True)
        init_note.touch()
    return _InitResults(file_steps, agent_steps, cloud_steps, remark)


def _preview_history(current_workspace: Workspace, history: str, as_json: bool) -> Preview:
    """Return a preview of learnings from older work, and print it unless JSON is printed later.

    Args:
        current_workspace: the repository.
        history: the age or the revision since which work is read.
        as_json: print nothing.
    """
    from memory_ci.commands.setup.preview import preview_history

    with progress("Reading merged work") as advance:
        preview = preview_history(current_workspace, history, now(), os.environ, advance)
    if not as_json:
        lines = [printable(line) for line in preview.lines()]
        say("\n".join([*lines, "", ""]))
    return preview


def _show_next_steps(steps: Sequence[InitStep], options: InitOptions, dry_run: bool) -> None:
    """Print the steps that a person has to take after `init`.

    Args:
        steps: the results for each file; the configuration and MEMORY.md are the first two.
        options: the options of `init`.
        dry_run: nothing was written.
    """
    config_step, memory_step = steps[:2]
    if config_step.result == "written" and memory_step.result == "kept":
        say(
            "MEMORY.md existed: its prose stays, but only entries are served to agents "
            "(`memory-ci import`)."
        )
    if not dry_run and any(step.result == "written" for step in steps):
        say("\nCommit these files; `memory-ci record` takes up from there.")
        if options.pre_commit:
            say("Each clone runs `pre-commit install` once.")


def _clear_repository(dry_run: bool, as_json: bool) -> None:
    """Remove the files that `init` wrote, and print which stay and why (`init --remove`).

    If `init` set up an agent, this also removes the parts of `init --clone`.
    """
    from memory_ci.commands.setup.init import INIT_NOTE_FILE, uninit_repository
    from memory_ci.commands.setup.install import uninstall

    current_workspace = open_current_workspace()
    init_note = current_workspace.repo.git_dir / INIT_NOTE_FILE
    is_installed_by_init = init_note.exists()
    # Without the note `init --clone` installed them, and they are only looked for.
    steps = uninstall(current_workspace, dry_run=dry_run or not is_installed_by_init)
    installed = [step for step in steps if step.result != "absent"]
    agent_steps = installed if is_installed_by_init else []
    file_steps = uninit_repository(current_workspace, dry_run=dry_run)
    if not dry_run:
        init_note.unlink(missing_ok=True)

    if as_json:
        echo_json({"dry_run": dry_run, "files": file_steps, "agents": agent_steps})
        return
    _show_files(file_steps, dry_run)
    show_steps(agent_steps, dry_run=dry_run, as_json=False, root=current_workspace.repo.root)
    if installed and not is_installed_by_init:
        say(
            "Left what `memory-ci init --clone` put into this clone: "
            "`memory-ci init --remove --clone` takes it out."
        )
    if not file_steps and not agent_steps:
        say("Nothing that init wrote is here.")


def _show_files(steps: Sequence[InitStep], dry_run: bool) -> None:
    """Print the result for each file, and in a dry run the diffs."""
    for step in steps:
        is_planned = dry_run and step.result in ("written", "removed")
        result = f"would be {step.result}" if is_planned else step.result
        remark = f"  ({step.remark})" if step.remark else ""
        say(f"{result:8} {step.path}{remark}")
    for step in steps:
        if dry_run and step.diff:
            echo(f"\n{printable_lines(step.diff)}")


def _set_up_cloud(
    current_workspace: Workspace, name: str, dry_run: bool
) -> tuple[tuple[InstallStep, ...], str]:
    """Write the files of a cloud agent.

    Args:
        current_workspace: the repository.
        name: the agent, one of CLOUDS.
        dry_run: write nothing.

    Returns:
        The result for each file, and the step left to a person, "" for nothing.
    """
    from memory_ci.commands.setup.cloud import find_manual_step, set_up_cloud
    from memory_ci.commands.setup.install import MADE_FILE
    from memory_ci.memory.agents_block import export_block
    from memory_ci.store.steps import InstallStep

    steps = set_up_cloud(
        current_workspace, name, current_workspace.repo.git_dir / MADE_FILE, dry_run=dry_run
    )
    block = export_block(current_workspace, None, dry_run=dry_run)
    remark = find_manual_step(current_workspace.repo.root or Path(), name)
    return (*steps, InstallStep("cloud", block.path, block.result)), remark
