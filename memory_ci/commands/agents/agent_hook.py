"""The one hook of agents: memory is read when a session starts, at a prompt and at a file; a session is captured.

An agent that a person corrects is asked to mark what it was taught (`correction`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from memory_ci.gitrepo.repo import Repository, find_repository
from memory_ci.gitrepo.sessionrefs import SAFE
from memory_ci.memory.workspace import Workspace, configure, undo_killed_run
from memory_ci.records.config import Config
from memory_ci.records.retrieval import Retrieval
from memory_ci.sources.agent_events import (
    FORGETTING,
    OURS,
    AgentEvent,
    format_answer,
    may_tell,
    parse_event,
)

# Agents that run several files of hooks for one event: the first hook answers.
DOUBLING = ("copilot", "cursor", "vscode")


class HookPlace:
    """Where an agent works: the directory of an event, and the repository around it, opened once when it is needed."""

    def __init__(self, start: Path) -> None:
        self.start = start

    @cached_property
    def bare(self) -> Workspace:
        """The repository without its configuration, which the note of a session does not need."""
        return Workspace(self._repo, Config())

    @cached_property
    def workspace(self) -> Workspace:
        return configure(undo_killed_run(self._repo))

    @cached_property
    def _repo(self) -> Repository:
        return find_repository(self.start)


def answer_hook(
    data: bytes,
    agent: str,
    name: str,
    now: datetime,
    environ: Mapping[str, str],
    asks: bool,
    asked: Mapping[str, Any] = {},
) -> str:
    """What the hook of `agent` prints for the JSON that it is given; "" for nothing. With `asks` it may ask for a note.
    `asked` are fields of RetrieveOptions. Raises MemoryCIError, ValueError (the input is not what agents give)."""
    event = parse_event(data, agent, environ, name)
    if event is None:
        return ""
    event = replace(event, session=asked.get("session") or event.session)
    return format_answer(event, _answer_event(event, now, environ, asks, asked))


def _answer_event(
    event: AgentEvent,
    now: datetime,
    environ: Mapping[str, str],
    asks: bool,
    asked: Mapping[str, Any],
) -> str:
    """What the agent is told; "" for nothing. A session is given nothing twice before it changed or the agent forgot
    it."""
    if event.is_inner or event.prompt.startswith(OURS):
        return ""
    place = HookPlace(Path(event.cwd) if event.cwd else Path.cwd())
    if event.kind in ("stop", "end"):
        return _finish(event, place, now, asks)
    from memory_ci.sessions.session_note import alone, claim, note_cleared

    if event.kind == "start" and event.source in FORGETTING and event.session:
        note_cleared(place.workspace, event.session, now)
    if not may_tell(event):
        return ""
    if event.kind == "file":
        event = replace(event, paths=_list_new_files(event, place, now))
        if not event.paths:
            return ""
    where = place.workspace
    if (
        event.key
        and event.agent in DOUBLING
        and not claim(where, event.session, f"{event.kind} {event.key}", now)
    ):
        return ""
    line = ""
    if event.kind == "prompt" and event.session:
        from memory_ci.commands.agents.correction import note_prompt

        line = note_prompt(where, event, now, environ, asks)
    with alone(where):
        return _tell(where, event, now, environ, line, asked)


def _list_new_files(event: AgentEvent, place: HookPlace, now: datetime) -> tuple[str, ...]:
    """The files of an event that are there and that the session was not told of. Notes which of them it edited."""
    from memory_ci.memory.workspace import repository_path
    from memory_ci.sessions.session_note import Sign, list_untold, note_sign, read_head

    start = place.start
    there = [start / path for path in event.paths if (start / path).is_file()]
    if not (event.session and (there or event.edited)):
        return tuple(map(str, there))
    bare = place.bare
    if event.edited:
        edited = tuple(repository_path(bare, start / path) for path in event.edited)
        sign = Sign(
            agent=event.agent,
            session=event.session,
            at=now,
            transcript=event.transcript,
            edited=edited,
        )
        note_sign(bare, replace(sign, branch=read_head(bare)))
    return tuple(map(str, list_untold(bare, event.session, there)))


def _tell(
    where: Workspace,
    event: AgentEvent,
    now: datetime,
    environ: Mapping[str, str],
    line: str,
    asked: Mapping[str, Any],
) -> str:
    """What memory knows, and below it our lines, of which `line` is one."""
    from memory_ci.commands.retrieve.options import RetrieveOptions
    from memory_ci.commands.retrieve.retrieve import injected_ids, retrieve
    from memory_ci.commands.retrieve.text import ASK, HOOK_CHARS, render_asking, render_context
    from memory_ci.memory.workspace import repository_path
    from memory_ci.sessions.nudge import nudge_agent
    from memory_ci.sessions.served_ids import HELD_OUT, record_injected
    from memory_ci.sessions.session_note import Sign, claim, note_given, note_sign

    if event.kind == "prompt" and (nudge := nudge_agent(where, event.session or None, now.date())):
        line = f"{nudge}\n{line}".rstrip()
    own = len(ASK) + len(line) + 1
    bounds = {"session": event.session or None, "total_chars": HOOK_CHARS, "reserved": own}
    options = RetrieveOptions(**{**asked, **bounds})
    files: list[str | None] = [repository_path(where, Path(path)) for path in event.paths]
    answer = Retrieval(task=event.prompt, mode="lexical")
    for about in files or [None]:
        found = retrieve(
            where, about or event.prompt, replace(options, about=about), now.date(), environ
        )
        known = {hit.located for hit in answer.hits}
        answer = replace(
            found, hits=(*answer.hits, *(hit for hit in found.hits if hit.located not in known))
        )
        if event.session:
            note_given(where, event.session, found, now, about)
    ids = injected_ids(answer)
    record_injected(where, ids, now)
    is_told = (
        bool(ids)
        and bool(event.session)
        and not claim(where, event.session, "told how to say what helped", now)
    )
    given = tuple(one for one in ids if not one.startswith(HELD_OUT))
    if given and event.session:
        note_sign(where, Sign(agent=event.agent, session=event.session, at=now, given=given))
    is_asked = bool(ids) and (not is_told or event.kind == "start")
    return render_asking(render_context(answer), is_asked) + (f"{line}\n" if line else "")


def _finish(event: AgentEvent, place: HookPlace, now: datetime, asks: bool) -> str:
    """Capture a session that ended, or may have, as at the end of a turn; the question that ends it, "" for none."""
    if event.kind == "end" and event.session:
        from memory_ci.sessions.session_note import note_end

        note_end(place.workspace, event.agent, event.session, now)
    if event.session:
        from memory_ci.sessions.marked_notes import collect_notes

        collect_notes(place.bare, f"{event.agent}:{event.session}")
    if event.kind == "end" or event.agent in ("codex", "copilot", "cursor", "opencode"):
        _capture(event, place, now)
    if event.kind == "end" or not (asks and event.session and may_tell(event)):
        return ""
    from memory_ci.commands.agents.correction import ask_once

    return ask_once(place.workspace, event, now)


def _capture(event: AgentEvent, place: HookPlace, now: datetime) -> None:
    """Keep the session's digest where the agent says that it keeps a transcript; Copilot's place is known by its id,
    that of Cursor's command line, which names none, too; opencode has one for all.

    Codex runs no hook for a patch inside a shell command: what a turn edited is noted at its end.
    """
    path = Path(event.transcript).expanduser()
    if event.agent == "copilot" and SAFE.fullmatch(event.session):
        path = Path.home() / ".copilot/session-state" / event.session / "events.jsonl"
    elif event.agent == "opencode" and event.session:
        from memory_ci.sources.transcripts.registry import OPENCODE

        path = Path.home() / OPENCODE
    elif event.agent == "cursor" and not event.transcript and SAFE.fullmatch(event.session):
        from memory_ci.sources.transcripts.registry import find_cursor_session

        path = find_cursor_session(Path.home(), place.start, event.session) or path
    if not path.is_file():
        return
    from memory_ci.memory.quotes import list_edited
    from memory_ci.memory.workspace import repository_path
    from memory_ci.sessions.capture import keep, read_own
    from memory_ci.sessions.session_note import Sign, note_sign, read_head

    where = place.workspace
    sessions = read_own(where, path, event.agent, event.cwd, event.session)
    keep(where, path, sessions, now)
    for session in sessions if event.agent == "codex" else ():
        if session.id == event.session and (paths := list_edited(session)):
            edited = tuple(repository_path(where, place.start / path) for path in paths)
            note_sign(
                where,
                Sign(
                    agent="codex",
                    session=session.id,
                    at=now,
                    edited=edited,
                    branch=read_head(where),
                ),
            )
