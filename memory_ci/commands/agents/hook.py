"""The hidden command lines of `memory-ci hook`: git's hooks, agents' hooks and the merge driver.

No hook but `commit-msg` makes a commit fail.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from memory_ci.cli.plain import now, say
from memory_ci.commands.agents import git_hooks
from memory_ci.commands.agents.shortcut import run as run_agent
from memory_ci.errors import MemoryCIError
from memory_ci.sources.agent_events import AGENT_NAMES as AGENTS
from memory_ci.text import plural


@click.group("hook", hidden=True)
def hook_command() -> None:
    """Run a git hook's work.

    \b
    Example:
      memory-ci hook prepare-commit-msg .git/COMMIT_EDITMSG
    """


@hook_command.command("prepare-commit-msg", hidden=True)
@click.argument("message_file", type=click.Path(path_type=Path))
@click.argument("rest", nargs=-1)
def prepare_commit_msg(message_file: Path, rest: tuple[str, ...]) -> None:
    """Add trailers to a commit message.

    They name the entries that the agent was served since the last commit, and the agent's session
    that makes the commit.

    \b
    Example:
      memory-ci hook prepare-commit-msg .git/COMMIT_EDITMSG
    """
    git_hooks.add_trailers(message_file, *rest)


@hook_command.command("commit-msg", hidden=True)
@click.argument("message_file", type=click.Path(path_type=Path))
def commit_msg(message_file: Path) -> None:
    """Run the checks of the default branch on the staged changes, and print violations.

    Exit status 1 means that a check of level fail is violated, and that no trailer skips it.

    \b
    Example:
      memory-ci hook commit-msg .git/COMMIT_EDITMSG
    """
    git_hooks.judge_commit(message_file)


@hook_command.command("pre-commit", hidden=True)
@click.argument("rest", nargs=-1, expose_value=False)
def pre_commit() -> None:
    """Stage the notes that agents wrote in the sessions whose work is committed.

    \b
    Example:
      memory-ci hook pre-commit
    """
    git_hooks.stage_notes()


@hook_command.command("pre-push", hidden=True)
@click.argument("remote", required=False, envvar="PRE_COMMIT_REMOTE_NAME", default="origin")
@click.argument("rest", nargs=-1, expose_value=False)
def pre_push(remote: str) -> None:
    """Send the captured sessions that a remote lacks, if `sessions.push` allows it.

    Without REMOTE, the remote is named by the variable PRE_COMMIT_REMOTE_NAME, which the program
    pre-commit sets.

    \b
    Example:
      memory-ci hook pre-push origin git@example.com:shop.git
    """
    git_hooks.push_sessions(remote)


@hook_command.command("agent", hidden=True)
@click.option("--for", "agent", default=AGENTS[0], metavar="NAME", help="Whose hooks these are.")
@click.option(
    "--event",
    "event_name",
    default="",
    metavar="NAME",
    help="The event, where the input does not name it.",
)
@click.option("--no-ask", is_flag=True, help="Never ask the agent to note a person's corrections.")
@click.option(
    "--user",
    is_flag=True,
    help="A hook in the home: silent without memory, or where the project has one.",
)
@click.option(
    "--plugin",
    is_flag=True,
    help="A hook of a plugin: silent where --user is, or with it.",
)
def agent(agent: str, event_name: str, no_ask: bool, user: bool, plugin: bool) -> None:
    """Answer an event of a coding agent, whose JSON is read from standard input.

    The exit status is always 0.

    \b
    Example:
      memory-ci hook agent --for codex
    """
    run_agent(agent, event_name, no_ask, user, plugin)


@hook_command.command("sync", hidden=True)
@click.option(
    "--detached", is_flag=True, help="Leave the caller's session, and end after a minute at most."
)
@click.argument("rest", nargs=-1, expose_value=False)
def sync(detached: bool) -> None:
    """Bring the index up to date after git changed the work tree.

    It prints nothing and never fails: the next retrieval updates the index, too.

    \b
    Example:
      memory-ci hook sync
    """
    from memory_ci.memory.prewarm import detach_process, prewarm
    from memory_ci.sessions.repetitions import refresh_pending

    with suppress(Exception):  # the next retrieval reports it
        if detached:
            detach_process()
        prewarm(Path.cwd())
        if detached:
            refresh_pending(Path.cwd(), now())


@hook_command.command("merge", hidden=True)
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("ours", type=click.Path(path_type=Path))
@click.argument("theirs", type=click.Path(path_type=Path))
@click.argument("path")
def merge(base: Path, ours: Path, theirs: Path, path: str) -> None:
    """Merge a memory file entry by entry into OURS, as git asks its merge drivers to.

    A file of episodes is merged by documents. Exit status 1 on a conflict.

    \b
    Example:
      memory-ci hook merge %O %A %B %P
    """
    from memory_ci.memory.merge import merge_files

    try:
        conflicts = merge_files(base, ours, theirs, path)
    except (MemoryCIError, OSError) as error:
        say(f"memory-ci: {path} is not merged, it stays as ours: {error}", err=True)
        raise SystemExit(1) from error
    if conflicts:
        say(f"memory-ci: {plural(conflicts, 'conflict')} left in {path}", err=True)
    raise SystemExit(1 if conflicts else 0)
