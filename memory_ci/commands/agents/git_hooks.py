"""What memory-ci does in git's hooks; only `commit-msg` can make a commit fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory_ci.cli.plain import Option, now, open_current_workspace, say, today
from memory_ci.findings import printable, printable_lines

OPTIONS: tuple[Option, ...] = ()
REMOTE = "PRE_COMMIT_REMOTE_NAME"
"""The variable by which pre-commit names the remote of a push."""

REQUIRED_ARGUMENTS = {"prepare-commit-msg": 1, "commit-msg": 1, "pre-commit": 0, "pre-push": 0}
"""The number of arguments that git gives each hook at least."""


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `run` for the words of a command line, None if they are not valid.

    This is the fast start without click. For None the caller starts click, which reports an unknown
    hook, and too few or too many arguments.

    Args:
        words: the name of a hook, and its arguments.
        values: the values of options.
    """
    name, *arguments = words or ("",)
    required = REQUIRED_ARGUMENTS.get(name)
    if required is None or len(arguments) < required:
        return None
    if name == "commit-msg" and len(arguments) > required:
        return None
    return {**values, "name": name, "arguments": arguments}


def run(name: str, arguments: Sequence[str]) -> None:
    """Do the work of one of git's hooks.

    Args:
        name: the name of the hook.
        arguments: the arguments that git passed to it.
    """
    if name == "pre-push":
        push_sessions(arguments[0] if arguments else os.environ.get(REMOTE) or "origin")
    elif name == "pre-commit":
        stage_notes()
    elif name == "commit-msg":
        judge_commit(Path(arguments[0]))
    else:
        add_trailers(Path(arguments[0]), *arguments[1:])


def add_trailers(message_file: Path, source: str = "", *_rest: str) -> None:
    """Add trailers for the served entries and the session to a commit message.

    Args:
        message_file: the file of the message.
        source: the kind of message that git names (githooks(5)).
    """
    from memory_ci.sessions.active_session import add_session_trailer
    from memory_ci.sessions.served_ids import add_served_trailer

    with _reporting_errors("no trailer added"):
        current_workspace = open_current_workspace(is_quiet=True)
        add_served_trailer(current_workspace, message_file, source)
        add_session_trailer(current_workspace, message_file, os.environ, now())


def judge_commit(message_file: Path) -> None:
    """Judge the staged change by the checks, and exit: with status 1 to refuse the commit.

    Args:
        message_file: the file of the commit's message, whose trailers may skip checks.
    """
    is_refused = False
    with _reporting_errors("no check judged"):
        is_refused = _print_violations(message_file)
    raise SystemExit(1 if is_refused else 0)


def stage_notes() -> None:
    """Stage notes of sessions whose work is committed, and print the reminders for a commit."""
    from memory_ci.sessions import marked_notes

    with _reporting_errors("no note staged"):
        workspace = open_current_workspace(is_quiet=True)
        for path in marked_notes.stage_notes(workspace, os.environ, now()):
            say(f"memory-ci: {printable(path)} goes with this commit", err=True)
    with _reporting_errors("no lines of memory printed"):
        _print_reminders("git commit")


def push_sessions(remote: str) -> None:
    """Send captured sessions to a remote, and print the reminders for a push."""
    from memory_ci.sessions import active_session

    with _reporting_errors("sessions not pushed"):
        workspace = open_current_workspace(is_quiet=True)
        message = active_session.push_sessions(workspace, remote, os.environ, now())
        if message:
            say(f"memory-ci: {printable(message)}", err=True)
    with _reporting_errors("no reminder printed"):
        _remind_of_idle_memory()
    with _reporting_errors("no lines of memory printed"):
        _print_reminders("git push")


def _print_reminders(command: str) -> None:
    """Print on stderr the reminders from memory for an agent that runs a command of git.

    A session is shown each reminder once, and a person who runs git none.
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
    """Print the checks that the commit violates on stderr, and return whether it is refused.

    A warning that the agent's own hook has already given to this session is not repeated. An error,
    which refuses the commit, is always printed.

    Args:
        message_file: the file of the commit's message, whose trailers may skip checks.
    """
    from memory_ci.checks.lines import render_violation
    from memory_ci.gitrepo.repo import find_repository
    from memory_ci.memory.commit_rules import judge_message_file

    violations = judge_message_file(find_repository(Path.cwd()), message_file, os.environ)
    violated_ids = [violation.rule.id for violation in violations if not violation.reason]
    unserved_ids = _claim_unserved_entries(violated_ids)
    is_refused = False
    for rule, fault, skip_reason in violations:
        if skip_reason:
            say(f"memory-ci: {printable(f'{rule.name} is skipped: {skip_reason}')}", err=True)
            continue
        line = printable(render_violation(rule, fault, today()))
        if rule.level == "fail":
            is_refused = True
            say(f"memory-ci: error: {line}", err=True)
        elif rule.id in unserved_ids:
            say(f"memory-ci: note: {line}", err=True)
    return is_refused


def _claim_unserved_entries(entry_ids: Sequence[str]) -> Collection[str]:
    """Return the entries that the agent's session was not served yet, and note them as served.

    If no agent makes the commit, a person does: then all entries are returned.
    """
    if not entry_ids:
        return entry_ids
    from memory_ci.commands.agents.conduct import claim_entries
    from memory_ci.sessions.nudge import find_session_id

    session = find_session_id(os.environ)
    if not session:
        return entry_ids
    return claim_entries(Path.cwd(), session, entry_ids)


def _remind_of_idle_memory() -> None:
    """Print on stderr, once a session, that memory has not changed for long.

    That is done only at a push of a branch, which git names on standard input. A terminal there
    means that git did not start the hook, and is not waited for.
    """
    from memory_ci.sessions.nudge import find_session_id, is_branch_pushed, nudge_once

    has_input = sys.stdin is not None and not sys.stdin.isatty()
    updates = sys.stdin.buffer if has_input else ()
    if not is_branch_pushed(updates, os.environ):
        return
    line = nudge_once(open_current_workspace(is_quiet=True), find_session_id(os.environ), today())
    if line:
        say(line, err=True)


@contextmanager
def _reporting_errors(consequence: str) -> Iterator[None]:
    """Print any error in the block, bugs included, as one line on stderr, so that git goes on.

    Args:
        consequence: the step that the error prevents, such as "no trailer added".
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - an exit status above 0 would stop git
        say(f"memory-ci: {consequence}: {printable(str(error))}", err=True)
