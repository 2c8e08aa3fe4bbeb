"""Lines on how to work (conduct), served to agents at a session's start and before commands.

Norms, the rules that always apply, are served by every retrieval. Here come, in addition, requests
that people made again and again and nobody agreed to yet, and lines for later moments (as before a
commit), which a table in the git directory keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from memory_ci.commands.agents.due import list_due_lines
from memory_ci.disarm import neutralise
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.memory.workspace import Workspace
from memory_ci.records.check import RuleCheck
from memory_ci.records.config import Config
from memory_ci.records.entry import Entry, Located, name_entry
from memory_ci.sessions import moments
from memory_ci.sessions.moments import AgentAction, TimedLine
from memory_ci.sessions.rule_table import load_rules, save_rules
from memory_ci.sources.agent_events import OWN_TEXT_PREFIX, AgentEvent
from memory_ci.text import shorten

if TYPE_CHECKING:
    from memory_ci.sessions.pending_requests import PendingLine

MAX_PENDING = 5  # Requests that are not agreed, and that a session is served at its start.
MAX_LINES = 10  # Rules and requests that a session is served at its start.
MAX_CHARS = 1_000  # Characters of the lines that a session is served at its start.
MAX_LINE = 180  # Characters of the text of one line.
MAX_SERVED = 300  # Characters of a line with its moment and its id.
NOTES_KEPT = timedelta(days=30)  # How long it is kept which lines a session was served.

PENDING_HEADING = (
    "People here asked for this again and again; nobody has agreed to it as a rule yet, "
    "the words are theirs:"
)
MOMENT_WORDS = {
    "before:commit": "before you commit",
    "before:push": "before you push",
    "before:pull-request": "before you open a pull request",
    "before:edit": "before you edit this",
    "before:command": "this command is known here",
    "after:failure": "this failed before",
}


def claim_due_lines(event: AgentEvent, start: Path, now: datetime) -> str:
    """Return the lines to serve at a tool call, and note that the session was served them.

    These are warnings of violated checks, and reminders from memory for this command or file. A
    line that the session was served before is not served again.

    Args:
        event: the tool call.
        start: the directory of the session.
        now: the time.
    """
    common_dir = moments.find_common_dir(start.absolute())
    due_lines = list_due_lines(event, start, common_dir)
    if common_dir is None:
        return ""
    rules = load_rules(common_dir)
    if rules:
        from memory_ci.commands.agents.session_checks import list_warnings

        warnings = list_warnings(rules, event, start, common_dir, now.date())
        due_lines = [*warnings, *due_lines]
    if not due_lines:
        return ""
    new_lines = moments.claim_due_lines(common_dir, event.session, _drop_unsafe(due_lines))
    if new_lines:
        _note_served_entries(f"{event.agent}:{event.session}", start, now, new_lines)
    return _join_lines(new_lines)


def claim_git_hook_lines(start: Path, session_key: str, command: str, now: datetime) -> str:
    """Return the reminders before a command of git, for git's hook to print, and note them.

    So they reach agents that read no text before a tool call. A line that the session was served by
    the agent's own hook is not served again.

    Args:
        start: the directory that git runs in.
        session_key: the agent's session, as `codex:019d-1`.
        command: the command, as `git commit`.
        now: the time.
    """
    common_dir = moments.find_common_dir(start.absolute())
    if common_dir is None:
        return ""
    due_lines = moments.select_due_lines(moments.load_timed_lines(common_dir), AgentAction(command))
    session = session_key.partition(":")[2]
    new_lines = moments.claim_due_lines(common_dir, session, _drop_unsafe(due_lines))
    if new_lines:
        _note_served_entries(session_key, start, now, new_lines)
    return _join_lines(new_lines)


def claim_entries(start: Path, session: str, ids: Sequence[str]) -> frozenset[str]:
    """Return those entries that a session was not served yet, and note them as served.

    Args:
        start: the directory that git runs in.
        session: the id of the agent's session, as in its own hooks.
        ids: the entries whose checks the commit violates.
    """
    common_dir = moments.find_common_dir(start.absolute())
    if common_dir is None:
        return frozenset(ids)
    entry_lines = [TimedLine(entry_id, "before:commit", "") for entry_id in ids]
    new_lines = moments.claim_due_lines(common_dir, session, entry_lines)
    return frozenset(line.id for line in new_lines)


def _drop_unsafe(lines: Sequence[TimedLine]) -> list[TimedLine]:
    """Return the lines without those that hold credentials or hidden text.

    They are checked again because anybody may have written the table in the git directory.
    """
    if not lines:
        return []
    from memory_ci.memory.screening import is_unsafe

    return [line for line in lines if not is_unsafe(line.line)]


def _join_lines(reminders: Iterable[TimedLine]) -> str:
    lines = [neutralise(shorten(reminder.line, MAX_SERVED)) for reminder in reminders]
    return "".join(f"{line}\n" for line in lines)


def serve_conduct(workspace: Workspace, event: AgentEvent, now: datetime) -> str:
    """Write the tables for later hooks of a session, and return the text for its start.

    The text lists requests that people made again and again and nobody agreed to yet. With the
    agreed rules they are at most `MAX_LINES` lines and `MAX_CHARS` characters; those that do not
    fit are counted. The tables in the git directory hold reminders for commands and edits, and the
    checks of the default branch. A session that is held out (served nothing, to compare sessions
    with and without memory) gets none of it.

    Args:
        workspace: the repository.
        event: the start of the session.
        now: the time, from which notes on old sessions are removed.
    """
    from memory_ci.memory.workspace import load_memory
    from memory_ci.sessions.pending_requests import list_unanswered
    from memory_ci.sessions.session_note import hash_session_id, is_held_out

    session = event.session
    share = workspace.config.retrieve.holdout
    if session and is_held_out(hash_session_id(session), share):
        moments.mute(workspace.repo.common_dir, session)
        return ""
    located_entries = load_memory(workspace, None).located
    pending_lines = list_unanswered(workspace, [located.entry for located in located_entries])
    pending_reminders = []
    for line in pending_lines:
        if line.when != "start":
            text = _render_reminder(line.text, line.when, "not agreed yet")
            pending_reminders.append(TimedLine(line.key[:8], line.when, text))
    common_dir = workspace.repo.common_dir
    entry_reminders = _list_entry_reminders(located_entries, now.date())
    moments.save_timed_lines(common_dir, [*entry_reminders, *pending_reminders])
    save_rules(common_dir, _list_base_rules(workspace, located_entries))
    moments.delete_notes(common_dir, (now - NOTES_KEPT).timestamp())

    requests = [line for line in pending_lines if line.kind == "request"]
    agreed_titles = _list_agreed_rules(located_entries, now.date())
    request_lines = _render_requests(requests, agreed_titles)
    served_requests = requests[: len(request_lines)]
    if session and served_requests:
        keys = tuple(request.key for request in served_requests)
        _note_served_requests(workspace, event, now, keys)
    return _render_request_list(request_lines, len(requests) - len(served_requests))


def _list_agreed_rules(located_entries: Iterable[Located], today: date) -> list[str]:
    """Return the titles of the institutional rules, which retrieval serves to each session."""
    titles = []
    for located in located_entries:
        entry = located.entry
        is_rule = located.scope.name == "institutional" and entry.type == "directive"
        if is_rule and is_in_force(entry, today):
            titles.append(entry.title)
    return titles


def _render_requests(requests: Iterable[PendingLine], agreed_titles: Sequence[str]) -> list[str]:
    """Return lines for the first requests that, together with the agreed rules, fit the limits.

    Args:
        requests: the requests, the most useful first.
        agreed_titles: the titles of the agreed rules, which a session is served, too.
    """
    lines: list[str] = []
    size = len(PENDING_HEADING) + sum(map(len, agreed_titles))
    limit = min(MAX_PENDING, MAX_LINES - len(agreed_titles))
    for request in requests:
        line = f"- {neutralise(shorten(' '.join(request.text.split()), MAX_LINE))}"
        size += len(line)
        if len(lines) >= limit or size > MAX_CHARS:
            break
        lines.append(line)
    return lines


def _list_base_rules(workspace: Workspace, located_entries: Iterable[Located]) -> list[RuleCheck]:
    """Return the checks that the entries of the default branch carry.

    If no entry of the work tree carries a check, the branch is not read, to save time.
    """
    has_check = any(located.entry.check is not None for located in located_entries)
    if not has_check:
        return []
    from memory_ci.memory.commit_rules import find_base
    from memory_ci.memory.rules import list_rules
    from memory_ci.memory.workspace import workspace_at

    base = find_base(workspace.repo)
    return list_rules(workspace_at(workspace.repo, base).at(base)) if base else []


def _note_served_entries(
    session_key: str, start: Path, now: datetime, served_lines: Sequence[TimedLine]
) -> None:
    """Note the entries whose lines a session was served, for the commit's trailer and for reports.

    Args:
        session_key: the agent and the id of the session, as `codex:019d-1`.
        start: the directory of the session.
        now: the time.
        served_lines: the lines. A line of a request that nobody agreed to has no entry.
    """
    ids = tuple(line.id for line in served_lines if moments.ENTRY_ID.fullmatch(line.id))
    if not ids:
        return
    from memory_ci.gitrepo.repo import find_repository
    from memory_ci.memory.workspace import configure_workspace
    from memory_ci.sessions.served_ids import record_served
    from memory_ci.sessions.session_note import SessionActivity, note_activity

    workspace = configure_workspace(Workspace(find_repository(start), Config()))
    record_served(workspace, ids, now)
    agent, _, session = session_key.partition(":")
    note_activity(workspace, SessionActivity(agent=agent, session=session, at=now, served=ids))


def _note_served_requests(
    workspace: Workspace, event: AgentEvent, now: datetime, keys: tuple[str, ...]
) -> None:
    """Note the requests not agreed yet that a session was served at its start, for reports."""
    from memory_ci.sessions.session_note import SessionActivity, note_activity

    note_activity(
        workspace,
        SessionActivity(agent=event.agent, session=event.session, at=now, served_requests=keys),
    )


def _list_entry_reminders(located_entries: Iterable[Located], today: date) -> Iterator[TimedLine]:
    """Yield a reminder for each entry whose key `when` names a command, an edit or a failure.

    Left out are entries of single sessions, entries with text that must not reach an agent, and
    entries with a check before commits: the check gives a warning, and only where it is violated.
    """
    from memory_ci.memory.screening import find_unsafe_entry

    for located in located_entries:
        entry = located.entry
        if entry.when is None or entry.when == "start" or not is_in_force(entry, today):
            continue
        is_served_by_check = entry.check is not None and entry.when == "before:commit"
        is_of_one_session = located.scope.name == "session"
        if is_served_by_check or is_of_one_session or any(find_unsafe_entry(located)):
            continue
        yield TimedLine(entry.id, entry.when, _render_entry(entry))


def _render_entry(entry: Entry) -> str:
    body = " ".join(entry.body.split())
    text = f"{name_entry(entry)}. {body}" if body else name_entry(entry)
    return _render_reminder(text, entry.when or "", f"id {entry.id[:8]}")


def _render_reminder(text: str, when: str, note: str) -> str:
    """Return one line for an agent: `memory-ci: before you commit: … (id 7f3a2b1c)`."""
    words = MOMENT_WORDS.get(when.partition(" ")[0], "")
    line = neutralise(shorten(" ".join(text.split()), MAX_LINE))
    lead = f"{OWN_TEXT_PREFIX} {words}: " if words else f"{OWN_TEXT_PREFIX} "
    return f"{lead}{line} ({note})"


def _render_request_list(request_lines: Sequence[str], left_out_count: int) -> str:
    """Return the lines of requests below a heading, and how many were left out; "" for no lines."""
    if not request_lines:
        return ""
    text_lines = [PENDING_HEADING, *request_lines]
    if left_out_count:
        text_lines.append(f"{left_out_count} more: `memory-ci review`.")
    return "".join(f"{line}\n" for line in text_lines)
