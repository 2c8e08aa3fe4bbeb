"""The hook of coding agents: it serves memory at starts, prompts and files, and captures sessions.

After a correction by a person it may_ask the agent to note it (`correction`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memory_ci.gitrepo.repo import Repository, find_repository
from memory_ci.memory.workspace import Workspace, configure_workspace, undo_killed_run
from memory_ci.records.config import Config
from memory_ci.records.retrieval import Hit, Retrieval
from memory_ci.sources.agent_events import (
    CONTEXT_LOST_SOURCES,
    OWN_TEXT_PREFIX,
    AgentEvent,
    format_answer,
    reads_answer,
)

if TYPE_CHECKING:
    from memory_ci.commands.retrieve.options import RetrieveOptions

AGENTS_WITH_SEVERAL_HOOKS = ("copilot", "cursor", "vscode")
"""Agents that run several files of hooks for one event: only the first hook answers."""

AGENTS_CAPTURED_EACH_TURN = ("codex", "copilot", "cursor", "opencode")
"""Agents without a reliable event at the end of a session: each end of a turn may be the last."""


class HookRepository:
    """The repository around the directory of an event, which is opened when it is needed.

    Attributes:
        start: the directory of the event.
    """

    def __init__(self, start: Path) -> None:
        self.start = start

    @cached_property
    def unconfigured_workspace(self) -> Workspace:
        """The repository without its configuration, which notes of a session do not need."""
        return Workspace(self._repo, Config())

    @cached_property
    def workspace(self) -> Workspace:
        """The repository with its configuration."""
        return configure_workspace(undo_killed_run(self._repo))

    @cached_property
    def _repo(self) -> Repository:
        return find_repository(self.start)


def answer_hook(
    event: AgentEvent, *, now: datetime, environ: Mapping[str, str], may_ask: bool
) -> str:
    """Return the output of the hook for an event, "" for none.

    Args:
        event: the event.
        now: the time.
        environ: the environment.
        may_ask: whether the agent may be asked for notes.

    Raises:
        MemoryCIError: the repository or its memory cannot be read.
    """
    return format_answer(event, _answer_event(event, now, environ, may_ask))


def _answer_event(
    event: AgentEvent,
    now: datetime,
    environ: Mapping[str, str],
    may_ask: bool,
) -> str:
    """Return the text for the agent about an event, "" for none.

    An entry is served to a session again only after it changed, or after the agent lost its context
    (a compaction).

    Args:
        event: the event.
        now: the time.
        environ: the environment.
        may_ask: whether the agent may be asked for notes.
    """
    is_own_text = event.prompt.startswith(OWN_TEXT_PREFIX)
    if event.is_of_subagent or is_own_text:  # Sub-agents are served nothing.
        return ""
    hook_repo = HookRepository(Path(event.cwd) if event.cwd else Path.cwd())
    if event.kind in ("stop", "end"):
        return _finish_turn_or_session(event, hook_repo, now, may_ask)
    if event.kind == "file":
        return _answer_tool_call(event, hook_repo, now, environ)

    # The event is the start of a session or a prompt.
    has_lost_context = event.kind == "start" and event.source in CONTEXT_LOST_SOURCES
    if has_lost_context and event.session:
        from memory_ci.sessions.session_note import note_cleared

        note_cleared(hook_repo.workspace, event.session, now)
    if not reads_answer(event) or not _claim_answer(event, hook_repo, now):
        return ""
    request = ""
    if event.kind == "prompt" and event.session:
        from memory_ci.commands.agents.correction import note_prompt

        request = note_prompt(hook_repo.workspace, event, now, environ, may_ask)
    return _serve_under_lock(event, hook_repo, now, environ, request=request)


def _answer_tool_call(
    event: AgentEvent, hook_repo: HookRepository, now: datetime, environ: Mapping[str, str]
) -> str:
    """Return the text for a tool call: warnings of checks and reminders, else entries on its files.

    An entry of memory may be a reminder for a certain command or edit, as "before you commit". The
    text is "" if the agent reads no text at this event, or was already served all of it.
    """
    if event.command or event.edited:
        from memory_ci.commands.agents.conduct import claim_due_lines

        reminders = claim_due_lines(event, hook_repo.start, now)
        if reminders:
            return reminders
    if not reads_answer(event):
        return ""
    _note_edited_files(event, hook_repo, now)
    unserved_files = _list_unserved_files(event, hook_repo)
    event = event._replace(paths=unserved_files)
    if not unserved_files or not _claim_answer(event, hook_repo, now):
        return ""
    return _serve_under_lock(event, hook_repo, now, environ, request="")


def _claim_answer(event: AgentEvent, hook_repo: HookRepository, now: datetime) -> bool:
    """Return whether this hook is to answer an event, and note that the event is answered.

    Some agents run several hooks for one event: only the first of them answers.
    """
    if not event.key or event.agent not in AGENTS_WITH_SEVERAL_HOOKS:
        return True
    from memory_ci.sessions.session_note import claim_event

    return claim_event(hook_repo.workspace, event.session, f"{event.kind} {event.key}", now)


def _serve_under_lock(
    event: AgentEvent,
    hook_repo: HookRepository,
    now: datetime,
    environ: Mapping[str, str],
    *,
    request: str,
) -> str:
    """Return the memory for an event, as `_serve_memory`, while other hooks of the work tree wait.

    Args:
        event: the event.
        hook_repo: the repository around the directory of the event.
        now: the time.
        environ: the environment.
        request: a request to the agent, to put below the memory.
    """
    from memory_ci.sessions.session_note import lock_hooks

    workspace = hook_repo.workspace
    with lock_hooks(workspace):
        return _serve_memory(workspace, event, now, environ, request=request)


def _note_edited_files(event: AgentEvent, hook_repo: HookRepository, now: datetime) -> None:
    """Add the files that an event edits to the note of its session, a file in the git directory.

    This needs no configuration, which takes time to read.
    """
    if not event.session or not event.edited:
        return
    from memory_ci.memory.workspace import repository_path
    from memory_ci.sessions.session_note import SessionActivity, note_activity, read_head

    workspace = hook_repo.unconfigured_workspace
    edited_paths = [repository_path(workspace, hook_repo.start / path) for path in event.edited]
    activity = SessionActivity(
        agent=event.agent,
        session=event.session,
        at=now,
        transcript=event.transcript,
        edited=tuple(edited_paths),
        branch=read_head(workspace),
    )
    note_activity(workspace, activity)


def _list_unserved_files(event: AgentEvent, hook_repo: HookRepository) -> tuple[str, ...]:
    """Return the existing files of an event about which its session was not served entries yet."""
    files = [hook_repo.start / path for path in event.paths]
    files = [file for file in files if file.is_file()]
    if event.session and files:
        from memory_ci.sessions.session_note import list_unserved_files

        files = list_unserved_files(hook_repo.unconfigured_workspace, event.session, files)
    return tuple(str(file) for file in files)


def _serve_memory(
    workspace: Workspace,
    event: AgentEvent,
    now: datetime,
    environ: Mapping[str, str],
    *,
    request: str,
) -> str:
    """Return the memory for an event, with a request to the agent below it, and note it as served.

    Before the request comes a reminder (nudge) if memory has not changed for long.

    Args:
        workspace: the workspace.
        event: the event.
        now: the time.
        environ: the environment.
        request: a request to the agent, "" for none.
    """
    from memory_ci.commands.retrieve.options import RetrieveOptions
    from memory_ci.commands.retrieve.retrieve import list_served_ids
    from memory_ci.commands.retrieve.text import (
        HOOK_CHARS,
        USAGE_REQUEST,
        append_usage_request,
        render_context,
    )
    from memory_ci.sessions.nudge import nudge_agent
    from memory_ci.sessions.served_ids import record_served

    if event.kind == "prompt":
        nudge = nudge_agent(workspace, event.session or None, now.date())
        if nudge:
            request = f"{nudge}\n{request}".rstrip()
    options = RetrieveOptions(
        session=event.session or None,
        total_chars=HOOK_CHARS,
        reserved=len(USAGE_REQUEST) + len(request) + 1,
    )
    retrieval = _retrieve_all(workspace, event, now, environ, options)

    ids = list_served_ids(retrieval)
    record_served(workspace, ids, now)
    _note_served(workspace, event, now, ids)
    asks_for_feedback = bool(ids) and _claim_feedback_request(workspace, event, now)
    text = append_usage_request(render_context(retrieval), asks_for_feedback)
    if event.kind == "start":
        from memory_ci.commands.agents.conduct import serve_conduct

        text += serve_conduct(workspace, event, now)
    return f"{text}{request}\n" if request else text


def _retrieve_all(
    workspace: Workspace,
    event: AgentEvent,
    now: datetime,
    environ: Mapping[str, str],
    options: RetrieveOptions,
) -> Retrieval:
    """Return the entries for the prompt of an event, or for each of its files, in one retrieval.

    The result has the figures of the last file and the entries of all files, each entry once. They
    are noted as served to the session, file by file.
    """
    from memory_ci.api import Memory
    from memory_ci.memory.workspace import repository_path
    from memory_ci.sessions.session_note import note_served

    memory = Memory(workspace, now=now, environ=environ)
    file_paths: list[str | None] = [repository_path(workspace, Path(path)) for path in event.paths]
    retrieval = Retrieval(task=event.prompt, mode="lexical")
    hits: list[Hit] = []
    # Without files, the entries are those for the prompt.
    for file_path in file_paths or [None]:
        file_options = replace(options, about=file_path)
        retrieval = memory.retrieve(file_path or event.prompt, options=file_options)
        if event.session:
            note_served(workspace, event.session, retrieval, now, file_path)
        earlier_entries = {hit.located for hit in hits}
        hits += [hit for hit in retrieval.hits if hit.located not in earlier_entries]
    return replace(retrieval, hits=tuple(hits))


def _note_served(
    workspace: Workspace, event: AgentEvent, now: datetime, ids: Sequence[str]
) -> None:
    """Note the entries that a session was served, for reports.

    Args:
        workspace: the repository.
        event: the event.
        now: the time.
        ids: their ids; one that begins with `HELD_OUT_PREFIX` was withheld from this session, to
            compare sessions with and without memory.
    """
    from memory_ci.sessions.served_ids import HELD_OUT_PREFIX
    from memory_ci.sessions.session_note import SessionActivity, note_activity

    served_ids = tuple(entry_id for entry_id in ids if not entry_id.startswith(HELD_OUT_PREFIX))
    if served_ids and event.session:
        activity = SessionActivity(
            agent=event.agent, session=event.session, at=now, served=served_ids
        )
        note_activity(workspace, activity)


def _claim_feedback_request(workspace: Workspace, event: AgentEvent, now: datetime) -> bool:
    """Return whether to ask the agent to say later which entries helped, and note the request.

    It is asked once a session and at each start; without the id of a session, each time.
    """
    if not event.session:
        return True
    from memory_ci.sessions.session_note import claim_event

    # The sentence is the key of the request in the notes of all versions: it never changes.
    is_first_time = claim_event(workspace, event.session, "told how to say what helped", now)
    return is_first_time or event.kind == "start"


def _finish_turn_or_session(
    event: AgentEvent, hook_repo: HookRepository, now: datetime, may_ask: bool
) -> str:
    """Handle the end of a turn or a session: capture it, and collect the notes of the agent.

    For agents without a reliable end of a session, each end of a turn captures it. Notes are
    collected without the configuration, which takes time to read.

    Returns:
        The question to the agent at the end of a turn, "" for none.
    """
    is_end = event.kind == "end"
    if is_end and event.session:
        from memory_ci.sessions.session_note import note_session_end

        note_session_end(hook_repo.workspace, event.agent, event.session, now)
    if event.session:
        from memory_ci.sessions.marked_notes import collect_notes

        collect_notes(hook_repo.unconfigured_workspace, f"{event.agent}:{event.session}")
    if is_end or event.agent in AGENTS_CAPTURED_EACH_TURN:
        _capture_transcript(event, hook_repo, now)
    if is_end or not may_ask or not event.session or not reads_answer(event):
        return ""
    from memory_ci.commands.agents.correction import ask_for_note_once

    return ask_for_note_once(hook_repo.workspace, event, now)


def _capture_transcript(event: AgentEvent, hook_repo: HookRepository, now: datetime) -> None:
    """Store the digest of a session in a ref, if its transcript exists.

    Codex runs no hook for a patch inside a shell command. So the files that its session edited are
    taken from the transcript, and added to the session's note in the git directory.
    """
    transcript = _find_transcript(event, hook_repo)
    if not transcript.is_file():
        return
    from memory_ci.memory.quotes import list_edited
    from memory_ci.memory.workspace import repository_path
    from memory_ci.sessions.capture import read_repository_sessions, store_sessions
    from memory_ci.sessions.session_note import SessionActivity, note_activity, read_head

    workspace = hook_repo.workspace
    sessions = read_repository_sessions(
        workspace, transcript, event.agent, event.cwd, event.session
    )
    store_sessions(workspace, transcript, sessions, now)
    if event.agent != "codex":
        return
    for session in sessions:
        edited_files = list_edited(session) if session.id == event.session else ()
        if not edited_files:
            continue
        edited_paths = [repository_path(workspace, hook_repo.start / path) for path in edited_files]
        activity = SessionActivity(
            agent="codex",
            session=session.id,
            at=now,
            edited=tuple(edited_paths),
            branch=read_head(workspace),
        )
        note_activity(workspace, activity)


def _find_transcript(event: AgentEvent, hook_repo: HookRepository) -> Path:
    """Return the path of a session's transcript, which most agents name in the event.

    For Copilot and for Cursor's command line it is found by the id of the session. opencode has one
    file for all sessions.
    """
    path = Path(event.transcript).expanduser()
    if event.agent not in ("copilot", "cursor", "opencode"):
        return path
    from memory_ci.gitrepo.sessionrefs import REF_PART

    if event.agent == "copilot" and REF_PART.fullmatch(event.session):
        return Path.home() / ".copilot/session-state" / event.session / "events.jsonl"
    if event.agent == "opencode" and event.session:
        from memory_ci.sources.transcripts.registry import OPENCODE

        return Path.home() / OPENCODE
    if event.agent == "cursor" and not event.transcript and REF_PART.fullmatch(event.session):
        from memory_ci.sources.transcripts.registry import find_cursor_session

        return find_cursor_session(Path.home(), hook_repo.start, event.session) or path
    return path
