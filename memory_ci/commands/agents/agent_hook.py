"""The hook of coding agents: it serves memory at starts, prompts and files, and captures sessions.

After a correction by a person it asks the agent to note it (`correction`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memory_ci.gitrepo.repo import Repository, find_repository
from memory_ci.memory.workspace import Workspace, configure, undo_killed_run
from memory_ci.records.config import Config
from memory_ci.records.retrieval import Retrieval
from memory_ci.sources.agent_events import (
    FORGETTING,
    OURS,
    AgentEvent,
    format_answer,
    reads_answer,
)

if TYPE_CHECKING:
    from memory_ci.commands.retrieve.options import RetrieveOptions

DOUBLING = ("copilot", "cursor", "vscode")
"""Agents that run several files of hooks for one event: only the first hook answers."""

CAPTURED_AT_STOP = ("codex", "copilot", "cursor", "opencode")
"""Agents without a reliable event at the end of a session: each end of a turn may be the last."""


class HookPlace:
    """The directory of an event and the repository around it, which is opened when it is needed."""

    def __init__(self, start: Path) -> None:
        self.start = start

    @cached_property
    def bare(self) -> Workspace:
        """The repository without its configuration, which notes of a session do not need."""
        return Workspace(self._repo, Config())

    @cached_property
    def workspace(self) -> Workspace:
        """The repository with its configuration."""
        return configure(undo_killed_run(self._repo))

    @cached_property
    def _repo(self) -> Repository:
        return find_repository(self.start)


def answer_hook(event: AgentEvent, *, now: datetime, environ: Mapping[str, str], asks: bool) -> str:
    """Return the output of the hook for an event, "" for none.

    Args:
        event: the event.
        now: the time.
        environ: the environment.
        asks: the agent may be asked for notes.

    Raises:
        MemoryCIError: the repository or its memory cannot be read.
    """
    return format_answer(event, _answer_event(event, now, environ, asks))


def _answer_event(
    event: AgentEvent,
    now: datetime,
    environ: Mapping[str, str],
    asks: bool,
) -> str:
    """Return the text for the agent about an event, "" for none.

    An entry is served to a session again only after it changed, or after the agent lost its context
    (a compaction).

    Args:
        event: the event.
        now: the time.
        environ: the environment.
        asks: whether the agent may be asked for notes.
    """
    # Sub-agents are served nothing, nor is a prompt that memory-ci itself wrote.
    if event.is_inner or event.prompt.startswith(OURS):
        return ""
    place = HookPlace(Path(event.cwd) if event.cwd else Path.cwd())
    if event.kind in ("stop", "end"):
        return _finish(event, place, now, asks)
    if event.kind == "file":
        return _answer_tool(event, place, now, environ)
    if event.kind == "start" and event.source in FORGETTING and event.session:
        from memory_ci.sessions.session_note import note_cleared

        note_cleared(place.workspace, event.session, now)
    if not reads_answer(event) or not _is_first(event, place, now):
        return ""
    request = ""
    if event.kind == "prompt" and event.session:
        from memory_ci.commands.agents.correction import note_prompt

        request = note_prompt(place.workspace, event, now, environ, asks)
    return _serve_alone(event, place, now, environ, request=request)


def _answer_tool(
    event: AgentEvent, place: HookPlace, now: datetime, environ: Mapping[str, str]
) -> str:
    """Return the text for a tool call: warnings and rules due before it, else entries on its files.

    A line is due before a command or edit if an entry of memory names it as its moment.
    """
    if event.command or event.edited:
        from memory_ci.commands.agents.conduct import claim_due_lines

        due_lines = claim_due_lines(event, place.start, now)
        if due_lines:
            return due_lines
    if not reads_answer(event):
        return ""
    event = event._replace(paths=_list_new_files(event, place, now))
    if not event.paths or not _is_first(event, place, now):
        return ""
    return _serve_alone(event, place, now, environ, request="")


def _is_first(event: AgentEvent, place: HookPlace, now: datetime) -> bool:
    """Return whether this hook is the first to answer an event, of an agent that runs several."""
    if not event.key or event.agent not in DOUBLING:
        return True
    from memory_ci.sessions.session_note import claim_event

    return claim_event(place.workspace, event.session, f"{event.kind} {event.key}", now)


def _serve_alone(
    event: AgentEvent,
    place: HookPlace,
    now: datetime,
    environ: Mapping[str, str],
    *,
    request: str,
) -> str:
    """Return the memory for an event, under a lock: other hooks of this clone wait.

    Args:
        event: the event.
        place: the directory of the event.
        now: the time.
        environ: the environment.
        request: a request to the agent, to put below the memory.
    """
    from memory_ci.sessions.session_note import lock_hooks

    workspace = place.workspace
    with lock_hooks(workspace):
        return _serve(workspace, event, now, environ, request=request)


def _list_new_files(event: AgentEvent, place: HookPlace, now: datetime) -> tuple[str, ...]:
    """Return the files of an event about which the session was not served entries yet.

    Files that the event edits are recorded as edited in the note of the session, a file in the git
    directory. This needs no configuration, which takes time to read.
    """
    from memory_ci.memory.workspace import repository_path
    from memory_ci.sessions.session_note import (
        SessionActivity,
        list_unserved_files,
        note_activity,
        read_head,
    )

    files = [place.start / path for path in event.paths]
    files = [file for file in files if file.is_file()]
    if not event.session or not (files or event.edited):
        return tuple(str(file) for file in files)
    bare = place.bare
    if event.edited:
        activity = SessionActivity(
            agent=event.agent,
            session=event.session,
            at=now,
            transcript=event.transcript,
            edited=tuple(repository_path(bare, place.start / path) for path in event.edited),
            branch=read_head(bare),
        )
        note_activity(bare, activity)
    return tuple(str(file) for file in list_unserved_files(bare, event.session, files))


def _serve(
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
    asks_for_feedback = _note_served(workspace, event, now, ids)
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

    They are noted as served to the session, file by file.
    """
    from memory_ci.api import Memory
    from memory_ci.memory.workspace import repository_path
    from memory_ci.sessions.session_note import note_served

    memory = Memory(workspace, now=now, environ=environ)
    files: list[str | None] = [repository_path(workspace, Path(path)) for path in event.paths]
    combined = Retrieval(task=event.prompt, mode="lexical")
    for about in files or [None]:
        file_options = replace(options, about=about)
        retrieval = memory.retrieve(about or event.prompt, options=file_options)
        combined_entries = {hit.located for hit in combined.hits}
        new_hits = [hit for hit in retrieval.hits if hit.located not in combined_entries]
        combined = replace(retrieval, hits=(*combined.hits, *new_hits))
        if event.session:
            note_served(workspace, event.session, retrieval, now, about)
    return combined


def _note_served(
    workspace: Workspace, event: AgentEvent, now: datetime, ids: Sequence[str]
) -> bool:
    """Note the entries that a session was served, for reports.

    Returns:
        Whether to ask the agent now to say later which entries helped: once a session, and at each
        start.
    """
    from memory_ci.sessions.served_ids import HELD_OUT_PREFIX
    from memory_ci.sessions.session_note import SessionActivity, claim_event, note_activity

    if not ids:
        return False
    # `claim_event` is true at the first call for a session. Without an id each time is the first.
    is_first_time = not event.session or claim_event(
        workspace, event.session, "told how to say what helped", now
    )
    served_ids = tuple(entry_id for entry_id in ids if not entry_id.startswith(HELD_OUT_PREFIX))
    if served_ids and event.session:
        activity = SessionActivity(
            agent=event.agent, session=event.session, at=now, served=served_ids
        )
        note_activity(workspace, activity)
    return is_first_time or event.kind == "start"


def _finish(event: AgentEvent, place: HookPlace, now: datetime, asks: bool) -> str:
    """Handle the end of a turn or a session: capture it, and collect the notes of the agent.

    For agents without a reliable end of a session, each end of a turn captures it.

    Returns:
        The question to the agent at the end of a turn, "" for none.
    """
    is_end = event.kind == "end"
    if is_end and event.session:
        from memory_ci.sessions.session_note import note_session_end

        note_session_end(place.workspace, event.agent, event.session, now)
    if event.session:
        from memory_ci.sessions.marked_notes import collect_notes

        collect_notes(place.bare, f"{event.agent}:{event.session}")
    if is_end or event.agent in CAPTURED_AT_STOP:
        _capture(event, place, now)
    if is_end or not asks or not event.session or not reads_answer(event):
        return ""
    from memory_ci.commands.agents.correction import ask_once

    return ask_once(place.workspace, event, now)


def _capture(event: AgentEvent, place: HookPlace, now: datetime) -> None:
    """Store the digest of a session in a ref, if its transcript exists.

    Codex runs no hook for a patch inside a shell command. So the files that its session edited are
    noted here, by the transcript.
    """
    transcript = _find_transcript(event, place)
    if not transcript.is_file():
        return
    from memory_ci.memory.quotes import list_edited
    from memory_ci.memory.workspace import repository_path
    from memory_ci.sessions.capture import keep_sessions, read_repository_sessions
    from memory_ci.sessions.session_note import SessionActivity, note_activity, read_head

    workspace = place.workspace
    sessions = read_repository_sessions(
        workspace, transcript, event.agent, event.cwd, event.session
    )
    keep_sessions(workspace, transcript, sessions, now)
    if event.agent != "codex":
        return
    for session in sessions:
        edited = list_edited(session) if session.id == event.session else ()
        if edited:
            activity = SessionActivity(
                agent="codex",
                session=session.id,
                at=now,
                edited=tuple(repository_path(workspace, place.start / path) for path in edited),
                branch=read_head(workspace),
            )
            note_activity(workspace, activity)


def _find_transcript(event: AgentEvent, place: HookPlace) -> Path:
    """Return the path of a session's transcript, which most agents name in the event.

    For Copilot and for Cursor's command line it is found by the id of the session. opencode has one
    file for all sessions.
    """
    path = Path(event.transcript).expanduser()
    if event.agent not in ("copilot", "cursor", "opencode"):
        return path
    from memory_ci.gitrepo.sessionrefs import SAFE

    if event.agent == "copilot" and SAFE.fullmatch(event.session):
        return Path.home() / ".copilot/session-state" / event.session / "events.jsonl"
    if event.agent == "opencode" and event.session:
        from memory_ci.sources.transcripts.registry import OPENCODE

        return Path.home() / OPENCODE
    if event.agent == "cursor" and not event.transcript and SAFE.fullmatch(event.session):
        from memory_ci.sources.transcripts.registry import find_cursor_session

        return find_cursor_session(Path.home(), place.start, event.session) or path
    return path
