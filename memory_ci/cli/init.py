"""The commands init and uninit: all that a repository needs, set up and taken out again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from memory_ci.cli.agent import NAMES
from memory_ci.cli.common import dry_run_option, json_option
from memory_ci.cli.plain import echo, echo_json, has_input, is_terminal, now, progress, say, workspace
from memory_ci.cli.setup import show_steps
from memory_ci.rendering.table import printable, printable_lines

if TYPE_CHECKING:
    from memory_ci.flows.setup.init import Ci, InitStep, InitWish
    from memory_ci.flows.setup.steps import InstallStep
    from memory_ci.flows.workspace import Workspace

CIS: tuple[Ci, ...] = ("github", "gitlab", "none")
CLOUDS = ("claude-web", "copilot-cloud", "codex-cloud", "jules")


@click.command("init")
@click.option("--pre-commit", "pre_commit", is_flag=True, help="Put our hooks into .pre-commit-config.yaml.")
@click.option("--ci", type=click.Choice(CIS), help="Write what this CI needs to record and to verify.")
@click.option("--agent", "agents", multiple=True, type=click.Choice(NAMES), help="Hook into this agent, as `install`.")
@click.option("--cloud", type=click.Choice(CLOUDS), help="Write what this cloud agent needs, too.")
@click.option("--from", "history", metavar="REV|AGE", help="Say first what older work would give (90d, 12w, 6m, 1y).")
@click.option("--ci-source", metavar="OWNER/REPO@REV", help="The release of memory-ci that hooks and CI run.")
@dry_run_option
@json_option
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

    .memory-ci.yaml, MEMORY.md and institutional.md always; a file that is there is left as it is. --pre-commit and --ci
    write their files, or put a marked block into those that are there, all else in them staying byte for byte. --agent
    does what `install --agent` does in this clone. On a terminal, without any of these, init asks; --ci none asks
    nothing. With --cloud, a script that installs this version and builds the index in a fresh container, the committed
    hooks that the agent runs, and memory in AGENTS.md.

    --from 90d says first how many changes were merged, what in them looks like a learning, and what a model would cost.
    Running init again changes nothing; `memory-ci uninit` takes out what it wrote.

    \b
    Example:
      memory-ci init
      memory-ci init --agent claude-code --dry-run
      memory-ci init --pre-commit --ci github --ci-source OWNER/REPO@v0.2.0
      memory-ci init --from 90d
    """
    from memory_ci.flows.setup.ci_files import find_release, need_release
    from memory_ci.flows.setup.init import InitWish, init_repository

    where = workspace()
    preview = _preview(where, history) if history else None
    if preview is not None and not as_json:
        say("".join(f"{printable(line)}\n" for line in preview.lines()) + "\n")
    wish = InitWish(pre_commit, ci or "none", find_release())
    if not (pre_commit or ci or agents or cloud or as_json) and not has_input() and is_terminal():
        wish, agents, ci_source = _ask(where, wish, ci_source)
    if wish.pre_commit or wish.ci != "none":
        wish = replace(wish, release=need_release(ci_source, is_tag=wish.ci == "gitlab"))
    planned = init_repository(where, wish, dry_run=True)  # refuses before anything is written
    parts = _install(where, agents, wish, dry_run) if agents else ()
    steps = planned if dry_run else init_repository(where, wish)
    more, remark = _set_up_cloud(where, cloud, dry_run) if cloud else ((), "")
    if (agents or cloud) and not dry_run:
        _note_install(where)
    if as_json:
        told: dict[str, Any] = {"dry_run": dry_run, "files": steps, "agents": parts, "preview": preview}
        echo_json({**told, **({"cloud": more, "remark": remark} if cloud else {})})
        return
    _show(steps, dry_run)
    show_steps(parts, dry_run=dry_run, as_json=False)
    if [step.result for step in steps[:2]] == ["written", "kept"]:  # the configuration, MEMORY.md
        say("MEMORY.md was there: its prose stays, but only entries are given to agents (`memory-ci import`).")
    if any(step.result == "written" for step in steps) and not dry_run:
        say("\nCommit these files; `memory-ci record` takes up from there.")
        if wish.pre_commit:
            say("Each clone runs `pre-commit install` once.")
    if cloud:
        show_steps(more, dry_run=dry_run, as_json=False)
        say("\nCommit them to the default branch." + (f" Then {remark}." if remark else ""))


@click.command("uninit")
@dry_run_option
@json_option
def uninit_command(dry_run: bool, as_json: bool) -> None:
    """Take out what init wrote.

    Files that are as init wrote them go, and so do its blocks in those of pre-commit and CI, byte for byte; if init
    hooked an agent in, also all that `uninstall` takes out of this clone. What anybody changed stays, and so does
    memory: each is named with the reason.

    \b
    Example:
      memory-ci uninit --dry-run
      memory-ci uninit
    """
    from memory_ci.flows.setup.init import INSTALLED, uninit_repository
    from memory_ci.flows.setup.install import uninstall

    where = workspace()
    note = where.repo.git_dir / INSTALLED
    is_ours = note.exists()
    found = uninstall(where, dry_run=dry_run or not is_ours)
    parts = [part for part in found if is_ours and part.result != "absent"]
    steps = uninit_repository(where, dry_run=dry_run)
    if not dry_run:
        note.unlink(missing_ok=True)
    if as_json:
        echo_json({"dry_run": dry_run, "files": steps, "agents": parts})
        return
    _show(steps, dry_run)
    show_steps(parts, dry_run=dry_run, as_json=False)
    if not is_ours and any(part.result != "absent" for part in found):
        say("Left what `memory-ci install` put into this clone: `memory-ci uninstall` takes it out.")
    if not steps and not parts:
        say("Nothing that init wrote is here.")


def _show(steps: Sequence[InitStep], dry_run: bool) -> None:
    for step in steps:
        would = "would be " if dry_run and step.result in ("written", "removed") else ""
        remark = f"  ({step.remark})" if step.remark else ""
        say(f"{would + step.result:8} {step.path}{remark}")
    for step in steps if dry_run else ():
        if step.diff:
            echo(f"\n{printable_lines(step.diff)}")


def _preview(where: Workspace, history: str) -> Any:  # noqa: ANN401 - imported when it is asked for
    from memory_ci.flows.inbox.preview import preview_history

    with progress("Reading merged work") as advance:
        return preview_history(where, history, now(), os.environ, advance)


def _ask(where: Workspace, wish: InitWish, source: str | None) -> tuple[InitWish, tuple[str, ...], str | None]:
    """What a person wants besides the files of memory: return takes what is proposed. Raises click.Abort."""
    from memory_ci.flows.setup.hooks import PRE_COMMIT
    from memory_ci.flows.setup.init import guess_agents, guess_ci
    from memory_ci.flows.workspace import work_tree

    root = work_tree(where)
    if wish.release is None and source is None:
        question = "pre-commit and CI install memory-ci from a tag: OWNER/REPO@TAG (empty: set up neither of them now)"
        source = click.prompt(question, default="", show_default=False, err=True)
    if wish.release is not None or source:
        likes = (root / PRE_COMMIT).exists()
        wish = replace(wish, pre_commit=click.confirm("Check memory with pre-commit?", default=likes, err=True))
        kinds = click.Choice(CIS)
        wish = replace(wish, ci=click.prompt("CI that records and verifies", guess_ci(where), type=kinds, err=True))
    found = " ".join(guess_agents(root, Path.home())) or "none"
    question = f"Agents to hook in, of {', '.join(NAMES)}, or none"
    named = click.prompt(question, default=found, value_proc=_read_agents, err=True)
    return wish, named, source or None


def _read_agents(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.replace(",", " ").split()))
    if unknown := [name for name in names if name not in (*NAMES, "none")]:
        raise click.BadParameter(f"{unknown[0]} is none of them; `none` for none")
    return tuple(name for name in names if name != "none")


def _install(where: Workspace, agents: Sequence[str], wish: InitWish, dry_run: bool) -> tuple[InstallStep, ...]:
    """Agents hooked in for this clone. Where pre-commit runs our hooks, git's own are left to it."""
    from memory_ci.flows.setup.install import install

    is_mcp = find_spec("mcp") is not None
    hook = not wish.pre_commit
    return install(where, sys.executable, with_hook=hook, agents=agents, is_mcp=is_mcp, dry_run=dry_run)


def _note_install(where: Workspace) -> None:
    from memory_ci.flows.setup.init import INSTALLED

    note = where.repo.git_dir / INSTALLED
    note.parent.mkdir(exist_ok=True)
    note.touch()


def _set_up_cloud(where: Workspace, name: str, dry_run: bool) -> tuple[tuple[InstallStep, ...], str]:
    """What became of each file, and what is left to be done by hand."""
    from memory_ci.flows.serve.export import export
    from memory_ci.flows.setup.init import find_remark, set_up_cloud
    from memory_ci.flows.setup.install import MADE
    from memory_ci.flows.setup.steps import InstallStep

    steps = set_up_cloud(where, name, where.repo.git_dir / MADE, dry_run=dry_run)
    block = export(where, None, dry_run=dry_run)
    root = where.repo.root or Path()
    return (*steps, InstallStep("cloud", block.path, block.result)), find_remark(root, name)
