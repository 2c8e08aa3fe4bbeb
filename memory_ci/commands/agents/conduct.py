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
from memory_ci.sources.agent_events import OURS, AgentEvent
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
    """Return the lines that are due at a tool call, and note that the session was served them.

    These are warnings of violated checks, and lines of memory for this command or file.

    Args:
        event: the tool call.
        start: the directory of the session.
        now: the time.
    """
    common_dir = moments.find_common_dir(start.absolute())
    due = list_due_lines(event, start, common_dir)
    if common_dir is None:
        return ""
    if rules := load_rules(common_dir):
        from memory_ci.commands.agents.session_checks import list_violated

        due = [*list_violated(rules, event, start, common_dir, now.date()), *due]
    if not due:
        return ""
    claimed = moments.claim_due_lines(common_dir, event.session, _drop_unsafe(due))
    if claimed:
        _note_served(f"{event.agent}:{event.session}", start, now, claimed)
    return _join_lines(claimed)


def claim_git_hook_lines(start: Path, key: str, command: str, now: datetime) -> str:
    """Return the lines that are due before a command of git, for git's hook to print.

    So they reach agents that read no text before a tool call. A line that the session was served by
    the agent's own hook is not served again.

    Args:
        start: the directory that git runs in.
        key: the agent's session, as `codex:019d-1`.
        command: the command, as `git commit`.
        now: the time.
    """
    common_dir = moments.find_common_dir(start.absolute())
    if common_dir is None:
        return ""
    due = moments.select_due_lines(moments.load_timed_lines(common_dir), AgentAction(command))
    session = key.partition(":")[2]
    claimed = moments.claim_due_lines(common_dir, session, _drop_unsafe(due))
    if claimed:
        _note_served(key, start, now, claimed)
    return _join_lines(claimed)


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
    due = [TimedLine(entry_id, "before:commit", "") for entry_id in ids]
    return frozenset(moment.id for moment in moments.claim_due_lines(common_dir, session, due))


def _drop_unsafe(due: Sequence[TimedLine]) -> list[TimedLine]:
    """Return the lines without those that hold credentials or hidden text.

    They are checked again because anybody may have written the table in the git directory.
    """
    if not due:
        return []
    from memory_ci.memory.screening import is_unsafe

    return [moment for moment in due if not is_unsafe(moment.line)]


def _join_lines(due: Iterable[TimedLine]) -> str:
    lines = [neutralise(shorten(moment.line, MAX_SERVED)) for moment in due]
    return "".join(f"{line}\n" for line in lines)


def serve_conduct(workspace: Workspace, event: AgentEvent, now: datetime) -> str:
    """Return the requests that nobody agreed to yet, as text for the start of a session.

    Two tables in the git directory are written as well, from which later hooks of the session read
    what is due before a command or edit: lines of entries, and checks. With the agreed rules the
    requests are at most `MAX_LINES` lines and `MAX_CHARS` characters; those that do not fit are
    counted. A session that is served nothing, for comparison (held out), gets none of it.

    Args:
        workspace: the repository.
        event: the start of the session.
        now: the time, from which notes on old sessions are removed.
    """
    from memory_ci.memory.workspace import load_memory
    from memory_ci.sessions.pending_requests import list_unanswered
    from memory_ci.sessions.session_note import is_held_out, mark_session

    session = event.session
    share = workspace.config.retrieve.holdout
    if session and is_held_out(mark_session(session), share):
        moments.mute(workspace.repo.common_dir, session)
        return ""
    located = load_memory(workspace, None).located
    pending = list_unanswered(workspace, [place.entry for place in located])
    pending_moments = []
    for line in pending:
        if line.when != "start":
            text = _render_moment(line.text, line.when, "not agreed yet")
            pending_moments.append(TimedLine(line.key[:8], line.when, text))
    common_dir = workspace.repo.common_dir
    entry_moments = _list_entry_moments(located, now.date())
    moments.save_timed_lines(common_dir, [*entry_moments, *pending_moments])
    save_rules(common_dir, _list_base_rules(workspace, located))
    moments.delete_notes(common_dir, (now - NOTES_KEPT).timestamp())

    requests = [line for line in pending if line.kind == "request"]
    rendered = _render_requests(requests, _list_agreed(located, now.date()))
    if session and rendered:
        keys = tuple(line.key for line in requests[: len(rendered)])
        _note_served_requests(workspace, event, now, keys)
    return _render_pending(rendered, len(requests) - len(rendered))


def _list_agreed(located: Iterable[Located], today: date) -> list[str]:
    """Return the titles of the rules that retrieval serves to each session."""
    return [
        place.entry.title
        for place in located
        if place.scope.name == "institutional"
        and place.entry.type == "directive"
        and is_in_force(place.entry, today)
    ]


def _render_requests(requests: Iterable[PendingLine], agreed: Sequence[str]) -> list[str]:
    """Return lines for the first requests that, together with the agreed rules, fit the limits.

    Args:
        requests: the requests, the most useful first.
        agreed: the titles of the agreed rules, which a session is served, too.
    """
    lines: list[str] = []
    size = len(PENDING_HEADING) + sum(map(len, agreed))
    limit = min(MAX_PENDING, MAX_LINES - len(agreed))
    for request in requests:
        line = f"- {neutralise(shorten(' '.join(request.text.split()), MAX_LINE))}"
        size += len(line)
        if len(lines) >= limit or size > MAX_CHARS:
            break
        lines.append(line)
    return lines


def _list_base_rules(workspace: Workspace, located: Iterable[Located]) -> list[RuleCheck]:
    """Return the checks of the default branch, for agents.

    Without any check in the work tree the branch is not read, to save time.
    """
    if all(place.entry.check is None for place in located):
        return []
    from memory_ci.memory.commit_rules import find_base
    from memory_ci.memory.rules import list_rules
    from memory_ci.memory.workspace import workspace_at

    base = find_base(workspace.repo)
    return list_rules(workspace_at(workspace.repo, base).at(base)) if base else []


def _note_served(key: str, start: Path, now: datetime, due: Sequence[TimedLine]) -> None:
    """Note that a session was served the entries of some lines, for its trailer and for reports.

    Args:
        key: the agent and the id of the session, as `codex:019d-1`.
        start: the directory of the session.
        now: the time.
        due: the lines; those of requests that nobody agreed to have no entry.
    """
    ids = tuple(moment.id for moment in due if moments.ENTRY_ID.fullmatch(moment.id))
    if not ids:
        return
    from memory_ci.gitrepo.repo import find_repository
    from memory_ci.memory.workspace import configure
    from memory_ci.sessions.served_ids import record_served
    from memory_ci.sessions.session_note import SessionActivity, note_activity

    workspace = configure(Workspace(find_repository(start), Config()))
    record_served(workspace, ids, now)
    agent, _, session = key.partition(":")
    note_activity(workspace, SessionActivity(agent=agent, session=session, at=now, served=ids))


def _note_served_requests(
    workspace: Workspace, event: AgentEvent, now: datetime, keys: tuple[str, ...]
) -> None:
    """Note the keys of the requests that a session was served at its start."""
    from memory_ci.sessions.session_note import SessionActivity, note_activity

    note_activity(
        workspace,
        SessionActivity(agent=event.agent, session=event.session, at=now, served_requests=keys),
    )


def _list_entry_moments(located: Iterable[Located], today: date) -> Iterator[TimedLine]:
    """Yield the entries that agents are served later than at the start of a session.

    The key `when` of an entry says at which moment, such as before a commit. Entries of single
    sessions are left out, and entries with text that must not reach an agent.
    """
    from memory_ci.memory.screening import find_unsafe

    for place in located:
        entry = place.entry
        if entry.when is None or entry.when == "start" or not is_in_force(entry, today):
            continue
        is_served_by_check = entry.check is not None and entry.when == "before:commit"
        is_of_one_session = place.scope.name == "session"
        if is_served_by_check or is_of_one_session or any(find_unsafe(place)):
            continue
        yield TimedLine(entry.id, entry.when, _render_entry(entry))


def _render_entry(entry: Entry) -> str:
    body = " ".join(entry.body.split())
    text = f"{name_entry(entry)}. {body}" if body else name_entry(entry)
    return _render_moment(text, entry.when or "", f"id {entry.id[:8]}")


def _render_moment(text: str, when: str, note: str) -> str:
    """Return one line for an agent: `memory-ci: before you commit: … (id 7f3a2b1c)`."""
    words = MOMENT_WORDS.get(when.partition(" ")[0], "")
    line = neutralise(shorten(" ".join(text.split()), MAX_LINE))
    lead = f"{OURS} {words}: " if words else f"{OURS} "
    return f"{lead}{line} ({note})"


def _render_pending(lines: Sequence[str], left_out: int) -> str:
    """Return lines below a heading, with the number of those that were left out; "" for none."""
    if not lines:
        return ""
    text_lines = [PENDING_HEADING, *lines]
    if left_out:
        text_lines.append(f"{left_out} more: `memory-ci review`.")
    return "".join(f"{line}\n" for line in text_lines)
