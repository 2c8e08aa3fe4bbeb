"""Run the repository's checks on changes that an agent is about to commit, push or propose."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from memory_ci.checks.judge import ChangeFault
from memory_ci.checks.lines import render_violation
from memory_ci.records.check import BeforeCheck, RuleCheck
from memory_ci.records.history import Staging
from memory_ci.sessions import session_commands
from memory_ci.sessions.moments import TimedLine
from memory_ci.sources.agent_events import OWN_TEXT_PREFIX, AgentEvent

AGENTS_WARNED_AFTER_COMMIT = ("gemini",)
"""Agents that can be warned only after a commit: their shell runs no hook of git, and they read no
text before a tool call."""

COMMAND_WORDS = {
    "commit": "before you commit",
    "push": "before you push",
    "pull-request": "before you open a pull request",
}


def list_warnings(
    rules: Sequence[RuleCheck], event: AgentEvent, start: Path, common_dir: Path, today: date
) -> list[TimedLine]:
    """Return a warning for each check that the command an agent is about to run violates.

    An agent in `AGENTS_WARNED_AFTER_COMMIT` is warned of the commit that it has just made instead.
    If a check asks which commands were run since the last edit, the edit or command is noted, too.

    Args:
        rules: the checks of the default branch.
        event: the tool call.
        start: the directory of the session.
        common_dir: the git directory that all work trees share.
        today: the day; a date in a warning names its year if it is another one.
    """
    warnings: list[TimedLine] = []
    if event.is_before and event.command:
        for rule, fault, command in _find_violations(rules, event, start, common_dir):
            text = render_violation(rule, fault, today)
            line = f"{OWN_TEXT_PREFIX} {COMMAND_WORDS[command]}: {text}. The rule: {rule.title}"
            warnings.append(TimedLine(rule.id, f"before:{command}", line))
    elif event.agent in AGENTS_WARNED_AFTER_COMMIT and event.command and not event.is_failure:
        for rule, fault in _judge_last_commit(rules, event, start):
            line = f"{OWN_TEXT_PREFIX} in your last commit: {render_violation(rule, fault, today)}"
            warnings.append(TimedLine(rule.id, "before:commit", f"{line}. The rule: {rule.title}"))
    if any(isinstance(rule.check, BeforeCheck) for rule in rules):
        _note_tool_call(event, common_dir)
    return warnings


def _find_violations(
    rules: Sequence[RuleCheck], event: AgentEvent, start: Path, common_dir: Path
) -> Iterator[tuple[RuleCheck, ChangeFault, str]]:
    """Yield each violated check, its fault, and the command (commit, push …) that violates it.

    Two kinds of checks are judged: those of the commands that must run first, before any command
    that they name, and those of a change's content, before a commit alone: other commands change no
    file. A check that the message of the commit skips by a trailer is left out.
    """
    commands = session_commands.list_commands(event.command)
    if not commands:
        return
    from memory_ci.memory.rules import find_skips  # a tool call waits for each import

    message = session_commands.read_message(event.command)
    skipped_ids = find_skips([message], rules)
    rules = [rule for rule in rules if rule.id not in skipped_ids]
    for rule in rules:
        if isinstance(rule.check, BeforeCheck) and rule.check.command in commands:
            fault = session_commands.find_missing_runs(
                common_dir, event.session, rule.check, event.command
            )
            if fault is not None:
                yield rule, fault, rule.check.command
    if "commit" in commands:
        from memory_ci.gitrepo.repo import find_repository
        from memory_ci.memory.commit_rules import NextCommit, judge_commit

        repo = find_repository(start)
        staging = _make_relative_to_top(
            session_commands.read_staging(event.command), start, repo.cwd
        )
        commit = NextCommit(message, staging=staging)
        for rule, fault, _ in judge_commit(repo, rules, commit):
            yield rule, fault, "commit"


def _make_relative_to_top(staging: Staging, start: Path, top: Path) -> Staging:
    """Return the files that a commit takes, with paths relative to the top of the work tree.

    Paths outside of the work tree are left out. The top itself, as in `git add .`, means the whole
    tree.

    Args:
        staging: the files, with paths relative to `start`.
        start: the directory that git runs in.
        top: the top of the work tree.
    """
    real_start = Path(os.path.realpath(start))
    real_top = Path(os.path.realpath(top))
    inside_paths: list[Path] = []
    for name in staging.paths:
        path = Path(os.path.normpath(real_start / name))
        if path.is_relative_to(real_top) and "\0" not in str(path):
            inside_paths.append(path)
    # `:/` is git's pathspec for the top of the work tree.
    has_top = real_top in inside_paths or ":/" in staging.paths
    return Staging(
        is_whole_tree=staging.is_whole_tree or has_top,
        has_tracked=staging.has_tracked,
        paths=tuple(path.relative_to(real_top).as_posix() for path in inside_paths),
    )


def _judge_last_commit(
    rules: Sequence[RuleCheck], event: AgentEvent, start: Path
) -> Iterator[tuple[RuleCheck, ChangeFault]]:
    """Yield each check that HEAD violates, with its fault, if the agent's command was a commit."""
    if "commit" not in session_commands.list_commands(event.command):
        return
    from memory_ci.gitrepo.repo import find_repository
    from memory_ci.memory.commit_rules import judge_last_commit

    message = session_commands.read_message(event.command)
    for rule, fault, _ in judge_last_commit(find_repository(start), rules, message):
        yield rule, fault


def _note_tool_call(event: AgentEvent, common_dir: Path) -> None:
    """Note in the git directory that a session edits a file, runs a command, or that it failed."""
    if event.edited:
        session_commands.note_edit(common_dir, event.session)
    elif event.command and (event.is_before or event.is_failure):
        session_commands.note_run(
            common_dir, event.session, event.command, is_failure=event.is_failure
        )
