"""memory-ci install"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from textwrap import indent
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import dry_run_option, echo_json, json_option, workspace

NAMES = ("claude-code", "codex", "gemini")
"""Those of flows.setup.agents, written here so that the help needs no import of it."""

RENAMED = """
Hooks of ours that you had changed were renamed, and are not run: docs/hooks.md says where lines of your own belong."""

if TYPE_CHECKING:
    from memory_ci.flows.setup.hook_managers import Manager
    from memory_ci.flows.setup.steps import InstallStep


@click.command()
@click.option("--no-hook", is_flag=True, help="Leave the hooks of this clone alone.")
@click.option("--agent", "agents", multiple=True, type=click.Choice(NAMES), help="Capture this agent's sessions, too.")
@dry_run_option
@json_option
def command(no_hook: bool, agents: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Set up the merge driver and the hooks in this clone.

    Git's configuration of this clone gets the driver, .gitattributes the memory files it is for; the hook
    prepare-commit-msg notes in each commit which memory its work was given and which session made it, pre-push sends
    captured sessions along, and the four that run after git moved the work tree build the index ahead, in the
    background. A hook that is there is kept and runs first; where lefthook or husky manages hooks, they are left to it,
    and the lines to add are printed. With --agent, the agent's own settings of this project get a hook that captures
    each session; settings that name an interpreter of this machine are put into .git/info/exclude, unless git tracks
    them. Nothing outside of this clone is written, and running it again changes nothing.

    \b
    Example:
      memory-ci install --agent claude-code
      git add .gitattributes && git commit -m "Merge memory files by entries"
    """
    from memory_ci.flows.setup.hooks import hook_manager
    from memory_ci.flows.setup.install import install

    where = workspace()
    steps = install(where, sys.executable, with_hook=not no_hook, agents=agents, dry_run=dry_run)
    manager = None if no_hook else hook_manager(where)
    if as_json:
        echo_json({"dry_run": dry_run, "steps": steps, "managed_by": manager})
        return
    show_steps(steps, dry_run=dry_run, as_json=False)
    if manager is not None:
        _show_additions(manager)
    if not dry_run and any(step.part == "attributes" and step.result == "written" for step in steps):
        click.echo("\nCommit .gitattributes; each clone runs `memory-ci install` once.")
    _warn_of_local(agents, is_excluded=any(step.part == "exclude" for step in steps))


def _warn_of_local(agents: Sequence[str], *, is_excluded: bool) -> None:
    """Which settings are not to be committed, and whether git passes them over."""
    from memory_ci.flows.setup.agents import local_files

    for file in local_files(agents):
        how = "git passes over it in this clone" if is_excluded else f"where git tracks it, `git rm --cached {file}`"
        click.echo(f"\nDo not commit {file}: it names an interpreter of this machine ({how}).")


def _show_additions(manager: Manager) -> None:
    """What somebody has to add to the files of the tool that manages hooks."""
    if not manager.additions:
        click.echo(f"\n{manager.tool} manages the hooks here, and calls memory-ci already.")
        return
    click.echo(f"\n{manager.tool} manages the hooks here. None was put in; add these lines yourself:")
    for path, text in manager.additions.items():
        click.echo(f"\n{path}\n\n{indent(text, '    ').rstrip()}")


def show_steps(steps: Sequence[InstallStep], *, dry_run: bool, as_json: bool) -> None:
    """What became of each part, or would."""
    if as_json:
        echo_json({"dry_run": dry_run, "steps": steps})
        return
    for step in steps:
        would = "would be " if dry_run and step.result not in ("kept", "absent") else ""
        click.echo(f"{would}{step.result:8} {step.part:13} {step.path}")
    if any(step.result == "renamed" for step in steps):
        click.echo(RENAMED)
