"""Commands for a clone: init, install, uninstall, completion, doctor."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import click
import msgspec
from click.shell_completion import get_completion_class

from memory_ci.cli.agent import NAMES
from memory_ci.cli.common import dry_run_option, flag, json_option, option, show
from memory_ci.cli.plain import echo, echo_json, now, progress, say, workspace
from memory_ci.rendering.table import printable

"""Those of flows.setup.agents, written here so that the help needs no import of it."""

RENAMED = """
Hooks of ours that you had changed are renamed and not run. Where lines of your own belong: `memory-ci help hooks`"""

if TYPE_CHECKING:
    from memory_ci.flows.setup.hook_managers import Manager
    from memory_ci.flows.setup.steps import InstallStep

SHELLS = ("bash", "zsh", "fish")


@click.command("install")
@flag("--no-hook", help="Leave the hooks of this clone alone.")
@option("--agent", "agents", multiple=True, choices=NAMES, help="Hook into this agent, too.")
@flag("--all", "is_all", help="Hook into every agent that is known.")
@flag("--shared", help="Put the hooks of agents into the settings that are committed.")
@flag("--user", help="Hook into agents by settings in the home, for every repository with memory.")
@flag("--no-retrieve", help="Let agents capture their sessions and read no memory.")
@flag("--no-ask", help="Do not ask agents to note what a person taught them.")
@flag("--no-mcp", help="Leave the MCP server out of the settings of agents.")
@dry_run_option
@json_option
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

    Git's configuration of this clone gets the driver, .gitattributes the memory files it is for; the hook
    prepare-commit-msg notes in each commit which memory its work was given and which session made it, pre-push sends
    captured sessions along, and the four that run after git moved the work tree build the index ahead, in the
    background. A hook that is there is kept and runs first; where lefthook or husky manages hooks, they are left to it,
    and the lines to add are printed. With --agent, the agent's own settings of this project get one hook for its
    events: memory is read when a session starts, at a prompt and at a file, the agent is asked to note what a person
    taught it, and the session is captured. They are put
    into .git/info/exclude, unless git tracks them; with --shared they are for the whole team. Nothing outside of this
    clone is written, and running it again changes nothing. With --user it is the other way round: hooks of agents
    alone, in the home, silent outside of repositories with memory and where the project has hooks of its own.

    \b
    Example:
      memory-ci install --agent claude-code
      git add .gitattributes && git commit -m "Merge memory files by entries"
    """
    from memory_ci.flows.setup.agents import Wish
    from memory_ci.flows.setup.hooks import hook_manager
    from memory_ci.flows.setup.install import install, install_for_user

    chosen = NAMES if is_all else agents
    if user:
        if shared or not chosen:
            raise click.UsageError("--user goes with --agent or --all, and not with --shared")
        wish = Wish(sys.executable, "user", not no_retrieve, not no_ask, is_mcp=False)
        show_steps(install_for_user(Path.home(), chosen, wish, dry_run=dry_run), dry_run=dry_run, as_json=as_json)
        return
    where = workspace()
    has_mcp = find_spec("mcp") is not None
    steps = install(
        where,
        sys.executable,
        with_hook=not no_hook,
        agents=chosen,
        is_shared=shared,
        is_reading=not no_retrieve,
        is_asking=not no_ask,
        is_mcp=has_mcp and not no_mcp,
        dry_run=dry_run,
    )
    manager = None if no_hook else hook_manager(where)
    if as_json:
        echo_json({"dry_run": dry_run, "steps": steps, "managed_by": manager})
        return
    show_steps(steps, dry_run=dry_run, as_json=False)
    if manager is not None:
        _show_additions(manager)
    if not dry_run and any(step.part == "attributes" and step.result == "written" for step in steps):
        say("\nCommit .gitattributes; each clone runs `memory-ci install` once.")
    if not no_mcp and chosen and not has_mcp:
        say(f"\nNo MCP server was set up: {sys.executable} lacks it (pip install 'memory-ci[mcp]').")
    written = [] if shared else [step.path for step in steps if (step.part, step.result) == ("agent", "written")]
    local = [os.path.relpath(path, where.repo.cwd) for path in written]
    if local:
        how = "git passes over them; take one that it tracks out with `git rm --cached`"
        say(f"\nDo not commit {' '.join(local)}: of this clone alone ({how}). --shared is for the team.")


def _show_additions(manager: Manager) -> None:
    """What somebody has to add to the files of the tool that manages hooks."""
    if not manager.additions:
        say(f"\n{manager.tool} manages the hooks here, and calls memory-ci already.")
        return
    say(f"\n{manager.tool} manages the hooks here. None was put in; add these lines yourself:")
    for path, text in manager.additions.items():
        echo(f"\n{path}\n\n{indent(text, '    ').rstrip()}\n")


def show_steps(steps: Sequence[InstallStep], *, dry_run: bool, as_json: bool) -> None:
    """What became of each part, or would."""
    if as_json:
        echo_json({"dry_run": dry_run, "steps": steps})
        return
    for step in steps:
        would = "would be " if dry_run and step.result not in ("kept", "absent") else ""
        say(f"{would}{step.result:8} {step.part:13} {step.path}")
    if any(step.result == "renamed" for step in steps):
        say(RENAMED)


@click.command("uninstall")
@flag("--user", help="Take out of the home what `install --user` put there.")
@dry_run_option
@json_option
def uninstall_command(user: bool, dry_run: bool, as_json: bool) -> None:
    """Take out what install put into this clone.

    Hooks that were there before are put back, and a hook of ours that you changed is renamed, not lost; .gitattributes,
    git's configuration and the settings of agents are as they were. If others merge with memory-ci, restore
    .gitattributes: without the driver its lines do nothing. Lines that you added for lefthook or husky are yours to
    take out.

    \b
    Example:
      memory-ci uninstall
      git restore .gitattributes
    """
    from memory_ci.flows.setup.install import uninstall, uninstall_for_user

    steps = uninstall_for_user(Path.home(), dry_run=dry_run) if user else uninstall(workspace(), dry_run=dry_run)
    show_steps(steps, dry_run=dry_run, as_json=as_json)


@click.command("export")
@option("--to", "target", choices=("agents-md",), required=True, help="What to write.")
@click.argument("path", required=False, type=click.Path(path_type=Path, dir_okay=False))
@dry_run_option
@json_option
def export_command(target: str, path: Path | None, dry_run: bool, as_json: bool) -> None:
    """Write what memory holds into AGENTS.md, for agents that have nothing installed.

    Norms, then the entries that were used most, within 4,000 characters, in a marked block of the file that
    `export.path` names, or of PATH. All else in the file stays. `check` says when the block is out of date; with
    `export.record: true` in the configuration each `record` keeps it.

    \b
    Example:
      memory-ci export --to agents-md
    """
    from memory_ci.flows.serve.export import export

    done = export(workspace(), path and Path.cwd() / path, dry_run=dry_run)
    if as_json:
        echo_json({"dry_run": dry_run, **msgspec.structs.asdict(done)})
        return
    would = "would be " if dry_run and done.result == "written" else ""
    say(f"{would}{done.result} {done.path}")
    if dry_run:
        say("".join(f"\n{printable(line)}" for line in done.lines))


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print a shell completion script.

    \b
    Example:
      memory-ci completion bash >> ~/.bashrc
    """
    from memory_ci.cli.main import main

    completion = get_completion_class(shell)
    if completion is None:  # pragma: no cover - click ships all three
        raise click.UsageError(f"click knows no completion for {shell}")
    echo(completion(main, {}, "memory-ci", "_MEMORY_CI_COMPLETE").source() + "\n")


@click.command("doctor")
@flag("--online", help="Also ask the forge and the embedder whether they answer.")
@flag("--privacy", help="Say what leaves this machine, where to, and since when.")
@json_option
def doctor_command(online: bool, privacy: bool, as_json: bool) -> None:
    """Say what is set up here, what works, and what to do about the rest.

    Nothing is written, and without --online nobody is asked over the network. A fake key and an injection are planted
    in a scratch repository, and must be refused. Exit status: 0 all is well, 1 something to do, 2 something is broken.
    With --privacy only what leaves this machine is looked at: the model, the embedder, pushed sessions, memory, agents.

    \b
    Example:
      memory-ci doctor
      memory-ci doctor --privacy
    """
    from memory_ci.flows.doctor.doctor import CHECKS, diagnose
    from memory_ci.flows.doctor.privacy import PRIVACY
    from memory_ci.rendering.health import render_diagnosis

    with progress("Looking"):
        diagnosis = diagnose(
            Path.cwd(), os.environ, now(), sys.executable, is_online=online, checks=PRIVACY if privacy else CHECKS
        )
    show(diagnosis, render_diagnosis(diagnosis), as_json)
    raise SystemExit(diagnosis.exit_status)
