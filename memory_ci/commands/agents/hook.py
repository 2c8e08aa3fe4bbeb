"""The hidden command lines of `memory-ci hook`: git's hooks, agents' hooks and the merge driver.

No hook but `commit-msg` makes a commit fail.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from memory_ci.cli.plain import now, open_current_workspace, say, today
from memory_ci.commands.agents.shortcut import run as run_agent
from memory_ci.errors import MemoryCIError
from memory_ci.findings import printable, printable_lines
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

    They name what the work since the last commit was given, and the agent's session that makes the
    commit.

    \b
    Example:
      memory-ci hook prepare-commit-msg .git/COMMIT_EDITMSG
    """
    from memory_ci.sessions.active_session import add_session_trailer
    from memory_ci.sessions.served_ids import add_served_trailer

    with _harmless("no trailer added"):
        current_workspace = open_current_workspace(is_quiet=True)
        source = rest[0] if rest else ""
        add_served_trailer(current_workspace, message_file, source)
        add_session_trailer(current_workspace, message_file, os.environ, now())


@hook_command.command("commit-msg", hidden=True)
@click.argument("message_file", type=click.Path(path_type=Path))
def commit_msg(message_file: Path) -> None:
    """Judge what is staged by the checks of the default branch, and print what is violated.

    Exit status 1 means that a check of level fail is violated, and that no trailer skips it.

    \b
    Example:
      memory-ci hook commit-msg .git/COMMIT_EDITMSG
    """
    is_refused = False
    with _harmless("no check judged"):
        is_refused = _print_violations(message_file)
    raise SystemExit(1 if is_refused else 0)


@hook_command.command("pre-commit", hidden=True)
@click.argument("rest", nargs=-1, expose_value=False)
def pre_commit() -> None:
    """Stage what agents marked in the sessions whose work is committed.

    \b
    Example:
      memory-ci hook pre-commit
    """
    from memory_ci.sessions.marked_notes import stage_notes

    with _harmless("no note staged"):
        for path in stage_notes(open_current_workspace(is_quiet=True), os.environ, now()):
            say(f"memory-ci: {printable(path)} goes with this commit", err=True)
    with _harmless("nothing told"):
        _print_due_lines("git commit")


@hook_command.command("pre-push", hidden=True)
@click.argument("remote", required=False, envvar="PRE_COMMIT_REMOTE_NAME", default="origin")
@click.argument("rest", nargs=-1, expose_value=False)
def pre_push(remote: str) -> None:
    """Send the captured sessions that a remote lacks, if `sessions.push` lets them.

    pre-commit names the remote by a variable.

    \b
    Example:
      memory-ci hook pre-push origin git@example.com:shop.git
    """
    from memory_ci.sessions.active_session import push_sessions

    with _harmless("sessions not pushed"):
        message = push_sessions(open_current_workspace(is_quiet=True), remote, os.environ, now())
        if message:
            say(f"memory-ci: {printable(message)}", err=True)
    with _harmless("no nudge"):
        _nudge()
    with _harmless("nothing told"):
        _print_due_lines("git push")


@hook_command.command("agent", hidden=True)
@click.option("--for", "agent", default=AGENTS[0], metavar="NAME", help="Whose hooks these are.")
@click.option(
    "--event",
    "event_name",
    default="",
    metavar="NAME",
    help="The event, where the input does not name it.",
)
@click.option("--no-ask", is_flag=True, help="Never ask the agent to note what a person taught it.")
@click.option(
    "--user",
    is_flag=True,
    help="A hook in the home: silent without memory, or where the project has one.",
)
@click.option(
    "--plugin", is_flag=True, help="A hook of a plugin: silent where --user is, or with it."
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
    """Bring the index up to the work tree after git moved it.

    It says nothing and never fails: retrieval can do the same.

    \b
    Example:
      memory-ci hook sync
    """
    from memory_ci.memory.prewarm import detach, prewarm
    from memory_ci.sessions.repetitions import refresh_pending

    with suppress(Exception):  # the next retrieval reports it
        if detached:
            detach()
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


def _print_due_lines(command: str) -> None:
    """Print on stderr the lines of entries that an agent must read before a command of git.

    A person who runs git reads nothing.
    """
    from memory_ci.commands.agents.conduct import claim_git_hook_lines
    from memory_ci.sessions.active_session import find_sessions

    session_keys = find_sessions(os.environ)
    if not session_keys:
        return
    lines = claim_git_hook_lines(Path.cwd(), session_keys[0], command, now())
    if lines:
        say(printable_lines(lines.rstrip()), err=True)


def _print_violations(message_file: Path) -> bool:
    """Print the violations of the commit on stderr, and return whether it is refused.

    An agent's session that its own hook told of a check reads no second line on it, but for the
    error that says why the commit is refused.
    """
    from memory_ci.checks.lines import render_violation
    from memory_ci.gitrepo.repo import find_repository
    from memory_ci.memory.commit_rules import judge_message_file

    violations = judge_message_file(find_repository(Path.cwd()), message_file, os.environ)
    untold = _claim_untold([violation.rule.id for violation in violations if not violation.reason])
    is_refused = False
    for rule, fault, reason in violations:
        if reason:
            say(f"memory-ci: {printable(f'{rule.name} is skipped: {reason}')}", err=True)
            continue
        line = printable(render_violation(rule, fault, today()))
        if rule.level == "fail":
            is_refused = True
            say(f"memory-ci: error: {line}", err=True)
        elif rule.id in untold:
            say(f"memory-ci: note: {line}", err=True)
    return is_refused


def _claim_untold(ids: Sequence[str]) -> Collection[str]:
    """Return the entries of which this session was not told yet; all of them to a person."""
    if not ids:
        return ids
    from memory_ci.commands.agents.conduct import claim_entries
    from memory_ci.sessions.nudge import session_of

    session = session_of(os.environ)
    return claim_entries(Path.cwd(), session, ids) if session else ids


def _nudge() -> None:
    """Print on stderr, once a session, that memory has not changed for long.

    Pushes of tags and deletions of branches do not count. Input from a terminal is not of git, and
    is not waited for.
    """
    from memory_ci.sessions.nudge import is_branch_pushed, nudge_once, session_of

    has_input = sys.stdin is not None and not sys.stdin.isatty()
    updates = sys.stdin.buffer if has_input else ()
    if not is_branch_pushed(updates, os.environ):
        return
    line = nudge_once(open_current_workspace(is_quiet=True), session_of(os.environ), today())
    if line:
        say(line, err=True)


@contextmanager
def _harmless(failed: str) -> Iterator[None]:
    """Print any error, bugs included, as one line on stderr, so that git goes on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - pre-commit makes of our exit status git's
        say(f"memory-ci: {failed}: {printable(str(error))}", err=True)
