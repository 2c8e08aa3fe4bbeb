"""The command lines of init, uninit, install, uninstall and policy."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from memory_ci.cli.common import change_options, flag, option, show
from memory_ci.cli.plain import (
    echo,
    echo_json,
    has_input,
    is_terminal,
    now,
    progress,
    say,
    workspace,
)
from memory_ci.findings import printable, printable_lines
from memory_ci.sources.agent_events import AGENT_NAMES

if TYPE_CHECKING:
    from memory_ci.commands.setup.hooks import Manager
    from memory_ci.commands.setup.init import Ci, InitOptions, InitStep
    from memory_ci.commands.setup.preview import Preview
    from memory_ci.memory.workspace import Workspace
    from memory_ci.records.config import Policy
    from memory_ci.store.steps import InstallStep

PLACEHOLDER = re.compile(r"\bOWNER/")

RENAMED = (
    "\nHooks of ours that you had changed are renamed and not run. "
    "Where lines of your own belong: `memory-ci help hooks`"
)


@click.command("install")
@flag("--no-hook", help="Leave the hooks of this clone alone.")
@option("--agent", "agents", multiple=True, choices=AGENT_NAMES, help="Hook into this agent, too.")
@flag("--all", "is_all", help="Hook into every agent that is known.")
@flag("--shared", help="Put the hooks of agents into the settings that are committed.")
@flag("--user", help="Hook into agents by settings in the home, for every repository with memory.")
@flag("--no-retrieve", help="Let agents capture their sessions and read no memory.")
@flag("--no-ask", help="Do not ask agents to note what a person taught them.")
@flag("--no-mcp", help="Leave the MCP server out of the settings of agents.")
@change_options
def install_command(
    no_hook: bool,
    agents: tuple[str, ...],
    is_all: bool,
    shared: bool,
    user: bool,
    no_retrieve: bool,
    no_ask: bool,
    no_mcp: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Set up the merge driver and the hooks in this clone.

    Git's configuration of this clone gets the driver, .gitattributes the memory files it is for;
    the hook prepare-commit-msg notes in each commit which memory its work was given and which
    session made it, pre-push sends captured sessions along, and the four that run after git moved
    the work tree build the index ahead, in the background. A hook that is there is kept and runs
    first; where lefthook or husky manages hooks, they are left to it, and the lines to add are
    printed. With --agent, the agent's own settings of this project get one hook for its events:
    memory is read when a session starts, at a prompt and at a file, the agent is asked to note what
    a person taught it, and the session is captured. They are put into .git/info/exclude, unless git
    tracks them; with --shared they are for the whole team. Nothing outside of this clone is
    written, and running it again changes nothing. With --user it is the other way round: hooks of
    agents alone, in the home, silent outside of repositories with memory and where the project has
    hooks of its own.

    \b
    Example:
      memory-ci install --agent claude-code
      git add .gitattributes && git commit -m "Merge memory files by entries"
    """
    from memory_ci.commands.setup.agents import AgentOptions
    from memory_ci.commands.setup.hooks import find_hook_manager
    from memory_ci.commands.setup.install import install, install_for_user

    chosen = AGENT_NAMES if is_all else agents
    if user:
        if shared or not chosen:
            raise click.UsageError("--user goes with --agent or --all, and not with --shared")
        options = AgentOptions(sys.executable, "user", not no_retrieve, not no_ask, is_mcp=False)
        steps = install_for_user(Path.home(), chosen, options, dry_run=dry_run)
        show_steps(steps, dry_run=dry_run, as_json=as_json)
        return

    current_workspace = workspace()
    has_mcp = find_spec("mcp") is not None
    steps = install(
        current_workspace,
        sys.executable,
        with_hook=not no_hook,
        agents=chosen,
        is_shared=shared,
        is_reading=not no_retrieve,
        is_asking=not no_ask,
        is_mcp=has_mcp and not no_mcp,
        dry_run=dry_run,
    )
    manager = None if no_hook else find_hook_manager(current_workspace)
    if as_json:
        echo_json({"dry_run": dry_run, "steps": steps, "managed_by": manager})
        return

    show_steps(steps, dry_run=dry_run, as_json=False, root=current_workspace.repo.root)
    if manager is not None:
        _show_manager(manager)
    if not dry_run and _is_written(steps, "attributes"):
        say("\nCommit .gitattributes; each clone runs `memory-ci install` once.")
    if not no_mcp and chosen and not has_mcp:
        python = sys.executable
        say(f"\nNo MCP server was set up: {python} lacks it (pip install 'memory-ci[mcp]').")
    if not shared and _is_written(steps, "agent"):
        _show_local_files(steps, current_workspace.repo.cwd)


def _is_written(steps: Sequence[InstallStep], part: str) -> bool:
    return any(step.part == part and step.result == "written" for step in steps)


def _show_manager(manager: Manager) -> None:
    """Print the lines to add for a tool that manages the hooks."""
    if not manager.additions:
        say(f"\n{manager.tool} manages the hooks here, and calls memory-ci already.")
        return
    say(f"\n{manager.tool} manages the hooks here. None was put in; add these lines yourself:")
    for path, text in manager.additions.items():
        echo(f"\n{path}\n\n{indent(text, '    ').rstrip()}\n")


def _show_local_files(steps: Sequence[InstallStep], directory: Path) -> None:
    """Print which settings files of agents should not be committed."""
    paths = [
        os.path.relpath(step.path, directory)
        for step in steps
        if step.part == "agent" and step.result == "written"
    ]
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
    for step in steps:
        is_planned = dry_run and step.result not in ("kept", "absent")
        would = "would be " if is_planned else ""
        path = Path(step.path)
        if root is not None and path.is_relative_to(root):
            path = path.relative_to(root)
        say(f"{would}{step.result:8} {step.part:13} {path}")
    if any(step.result == "renamed" for step in steps):
        say(RENAMED)


@click.command("uninstall")
@flag("--user", help="Take out of the home what `install --user` put there.")
@change_options
def uninstall_command(user: bool, dry_run: bool, as_json: bool) -> None:
    """Take out what install put into this clone.

    Hooks that were there before are put back, and a hook of ours that you changed is renamed, not
    lost; .gitattributes, git's configuration and the settings of agents are as they were. If others
    merge with memory-ci, restore .gitattributes: without the driver its lines do nothing. Lines
    that you added for lefthook or husky are yours to take out.

    \b
    Example:
      memory-ci uninstall
      git restore .gitattributes
    """
    from memory_ci.commands.setup.install import uninstall, uninstall_for_user

    if user:
        steps = uninstall_for_user(Path.home(), dry_run=dry_run)
        show_steps(steps, dry_run=dry_run, as_json=as_json)
        return
    current_workspace = workspace()
    steps = uninstall(current_workspace, dry_run=dry_run)
    show_steps(steps, dry_run=dry_run, as_json=as_json, root=current_workspace.repo.root)


@click.command("policy")
@click.argument("source", required=False, metavar="SOURCE@REV")
@flag("--check", help="Only say whether the source has another policy now; status 1 if it has.")
@change_options
def policy_command(source: str | None, check: bool, dry_run: bool, as_json: bool) -> None:
    """Pin the policy of a platform in this repository, or bring it up to date.

    SOURCE is a git repository with a file memory-ci-policy.yaml, REV a branch, a tag or a commit;
    without one it is what the configuration extends now. The text is kept in .memory/policy.yaml,
    its digest in .memory-ci.yaml. A policy only narrows: engines that may be asked, caps of cost,
    ways to publish, the oldest version.

    Exit status: 0 done, 1 (--check) the source has another one, 2 usage, 4 repository, 5 network.

    \b
    Example:
      memory-ci policy https://github.com/acme/policy@v1
      memory-ci policy --check
    """
    from memory_ci.commands.setup.policy import pin_policy

    is_writing = not check and not dry_run
    pinned = pin_policy(Path.cwd(), source, os.environ, write=is_writing)
    title = "New" if pinned.is_new else "As pinned"
    limits = "; ".join(_list_limits(pinned.policy)) or "narrows nothing"
    lines = [printable(f"{title}: {pinned.extends}"), f"  {limits}"]
    remarks: list[str] = []
    if pinned.is_new and is_writing:
        remarks.append("Commit .memory-ci.yaml and .memory/policy.yaml.")
    show(pinned, lines, as_json, remarks)
    raise SystemExit(1 if check and pinned.is_new else 0)


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
@flag("--pre-commit", "pre_commit", help="Put our hooks into .pre-commit-config.yaml.")
@option("--ci", choices=CIS, help="Write what this CI needs to record and to verify.")
@option(
    "--agent",
    "agents",
    multiple=True,
    choices=AGENT_NAMES,
    help="Hook into this agent, as `install`.",
)
@option("--cloud", choices=CLOUDS, help="Write what this cloud agent needs, too.")
@option(
    "--from",
    "history",
    metavar="REV|AGE",
    help="Say first what older work would give (90d, 12w, 6m, 1y).",
)
@option(
    "--ci-source", metavar="OWNER/REPO@REV", help="The release of memory-ci that hooks and CI run."
)
@change_options
def init_command(
    pre_commit: bool,
    ci: Ci | None,
    agents: tuple[str, ...],
    cloud: str | None,
    history: str | None,
    ci_source: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Set up memory in a repository, with hooks, CI and agents.

    .memory-ci.yaml, MEMORY.md and institutional.md always; a file that is there is left as it is.
    --pre-commit and --ci write their files, or put a marked block into those that are there, all
    else in them staying byte for byte. --agent does what `install --agent` does in this clone. On a
    terminal, without any of these, init asks; --ci none asks nothing. With --cloud, a script that
    installs this version and builds the index in a fresh container, the committed hooks that the
    agent runs, and memory in AGENTS.md.

    --from 90d says first how many changes were merged, what in them looks like a learning, and what
    a model would cost. Running init again changes nothing; `memory-ci uninit` takes out what it
    wrote.

    \b
    Example:
      memory-ci init
      memory-ci init --agent claude-code --dry-run
      memory-ci init --pre-commit --ci github --ci-source OWNER/memory-ci@v0.2.0
      memory-ci init --from 90d
    """
    from memory_ci.commands.setup.ci_files import find_release, need_release
    from memory_ci.commands.setup.init import INSTALLED, InitOptions, init_repository
    from memory_ci.commands.setup.install import install

    current_workspace = workspace()
    preview = _preview(current_workspace, history, as_json) if history else None
    options = InitOptions(pre_commit, ci or "none", find_release())
    is_silent = dry_run or as_json or has_input() or not is_terminal()
    if not (is_silent or pre_commit or ci or agents or cloud):
        options, agents, ci_source = _ask(current_workspace, options, ci_source)
    if options.pre_commit or options.ci != "none":
        release = need_release(ci_source, is_tag=options.ci == "gitlab")
        options = replace(options, release=release)

    file_steps = init_repository(
        current_workspace, options, dry_run=True
    )  # refuses before anything is written
    agent_steps: tuple[InstallStep, ...] = ()
    if agents:
        agent_steps = install(
            current_workspace,
            sys.executable,
            with_hook=not options.pre_commit,  # pre-commit runs our hooks, not git's own
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
        note = current_workspace.repo.git_dir / INSTALLED
        note.parent.mkdir(exist_ok=True)
        note.touch()

    if as_json:
        result: dict[str, Any] = {
            "dry_run": dry_run,
            "files": file_steps,
            "agents": agent_steps,
            "preview": preview,
        }
        if cloud:
            result |= {"cloud": cloud_steps, "remark": remark}
        echo_json(result)
        return
    _show_files(file_steps, dry_run)
    show_steps(agent_steps, dry_run=dry_run, as_json=False, root=current_workspace.repo.root)
    _show_next_steps(file_steps, options, dry_run)
    if cloud:
        show_steps(cloud_steps, dry_run=dry_run, as_json=False, root=current_workspace.repo.root)
        then = f" Then {remark}." if remark else ""
        say(f"\nCommit them to the default branch.{then}")


def _preview(current_workspace: Workspace, history: str, as_json: bool) -> Preview:
    """Return the preview of older work, and print it unless JSON is printed later."""
    from memory_ci.commands.setup.preview import preview_history

    with progress("Reading merged work") as advance:
        preview = preview_history(current_workspace, history, now(), os.environ, advance)
    lines = [printable(line) for line in preview.lines()]
    say("" if as_json else "\n".join([*lines, "", ""]))
    return preview


def _show_next_steps(steps: Sequence[InitStep], options: InitOptions, dry_run: bool) -> None:
    """Print the steps after `init`.

    Args:
        steps: the results for each file; the configuration and MEMORY.md are the first two.
        options: the options of `init`.
        dry_run: nothing was written.
    """
    if [step.result for step in steps[:2]] == ["written", "kept"]:
        say(
            "MEMORY.md was there: its prose stays, but only entries are given to agents "
            "(`memory-ci import`)."
        )
    if not dry_run and any(step.result == "written" for step in steps):
        say("\nCommit these files; `memory-ci record` takes up from there.")
        if options.pre_commit:
            say("Each clone runs `pre-commit install` once.")


@click.command("uninit")
@change_options
def uninit_command(dry_run: bool, as_json: bool) -> None:
    """Take out what init wrote.

    Files that are as init wrote them go, and so do its blocks in those of pre-commit and CI, byte
    for byte; if init hooked an agent in, also all that `uninstall` takes out of this clone. What
    anybody changed stays, and so does memory: each is named with the reason.

    \b
    Example:
      memory-ci uninit --dry-run
      memory-ci uninit
    """
    from memory_ci.commands.setup.init import INSTALLED, uninit_repository
    from memory_ci.commands.setup.install import uninstall

    current_workspace = workspace()
    note = current_workspace.repo.git_dir / INSTALLED
    is_installed_by_init = note.exists()
    steps_out = uninstall(current_workspace, dry_run=dry_run or not is_installed_by_init)
    installed = [step for step in steps_out if step.result != "absent"]
    agent_steps = installed if is_installed_by_init else []
    file_steps = uninit_repository(current_workspace, dry_run=dry_run)
    if not dry_run:
        note.unlink(missing_ok=True)

    if as_json:
        echo_json({"dry_run": dry_run, "files": file_steps, "agents": agent_steps})
        return
    _show_files(file_steps, dry_run)
    show_steps(agent_steps, dry_run=dry_run, as_json=False, root=current_workspace.repo.root)
    if installed and not is_installed_by_init:
        say(
            "Left what `memory-ci install` put into this clone: `memory-ci uninstall` takes it out."
        )
    if not file_steps and not agent_steps:
        say("Nothing that init wrote is here.")


def _show_files(steps: Sequence[InitStep], dry_run: bool) -> None:
    """Print the result for each file, and which of the written files name a placeholder."""
    for step in steps:
        is_planned = dry_run and step.result in ("written", "removed")
        result = f"would be {step.result}" if is_planned else step.result
        remark = f"  ({step.remark})" if step.remark else ""
        say(f"{result:8} {step.path}{remark}")

    paths = [
        step.path for step in steps if step.result == "written" and PLACEHOLDER.search(step.diff)
    ]
    if paths:
        say(
            "\nOWNER is a placeholder: put the account that holds memory-ci for it in "
            f"{' and '.join(paths)}."
        )
    for step in steps:
        if dry_run and step.diff:
            echo(f"\n{printable_lines(step.diff)}")


def _ask(
    current_workspace: Workspace, options: InitOptions, source: str | None
) -> tuple[InitOptions, tuple[str, ...], str | None]:
    """Ask a person for the parts to set up; an empty answer accepts the proposal.

    Returns:
        The options, the names of agents, and the value of `--ci-source`.

    Raises:
        click.Abort: the person ends the questions.
    """
    from memory_ci.commands.setup.hooks import PRE_COMMIT
    from memory_ci.commands.setup.init import guess_agents, guess_ci
    from memory_ci.memory.workspace import work_tree

    root = work_tree(current_workspace)
    if options.release is None and source is None:
        question = (
            "pre-commit and CI install memory-ci from a tag: OWNER/REPO@TAG "
            "(empty: set up neither of them now)"
        )
        source = click.prompt(question, default="", show_default=False, err=True)
    if options.release is not None or source:
        has_pre_commit = (root / PRE_COMMIT).exists()
        pre_commit = click.confirm(
            "Check memory with pre-commit?", default=has_pre_commit, err=True
        )
        ci = click.prompt(
            "CI that records and verifies",
            guess_ci(current_workspace),
            type=click.Choice(CIS),
            err=True,
        )
        options = replace(options, pre_commit=pre_commit, ci=ci)

    proposal = " ".join(guess_agents(root, Path.home())) or "none"
    question = f"Agents to hook in, of {', '.join(AGENT_NAMES)}, or none"
    agents = click.prompt(question, default=proposal, value_proc=_parse_agents, err=True)
    return options, agents, source or None


def _parse_agents(text: str) -> tuple[str, ...]:
    """Return the names of agents in an answer, "none" left out."""
    names = dict.fromkeys(text.replace(",", " ").split())
    for name in names:
        if name not in (*AGENT_NAMES, "none"):
            raise click.BadParameter(f"{name} is none of them; `none` for none")
    return tuple(name for name in names if name != "none")


def _set_up_cloud(
    current_workspace: Workspace, name: str, dry_run: bool
) -> tuple[tuple[InstallStep, ...], str]:
    """Set up a cloud agent, and return the result for each file and what to do by hand."""
    from memory_ci.commands.setup.init import find_remark, set_up_cloud
    from memory_ci.commands.setup.install import MADE
    from memory_ci.memory.agents_block import export
    from memory_ci.store.steps import InstallStep

    steps = set_up_cloud(
        current_workspace, name, current_workspace.repo.git_dir / MADE, dry_run=dry_run
    )
    block = export(current_workspace, None, dry_run=dry_run)
    remark = find_remark(current_workspace.repo.root or Path(), name)
    return (*steps, InstallStep("cloud", block.path, block.result)), remark
