"""While work is under way: which session makes a commit, and sessions that travel with a push."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from memory_ci.flows.serve.served_ids import add_trailer
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.sessionrefs import list_unpushed, push

OVERRIDE = "MEMORY_CI_SESSION"
VARIABLES = {"CLAUDE_CODE_SESSION_ID": "claude-code", "CODEX_THREAD_ID": "codex", "GEMINI_SESSION_ID": "gemini"}
"""What agents put into the environment of the commands that they run, as docs/sessions.md says since when."""

KEY = re.compile(r"[\w.-]{1,60}:[\w.-]{1,200}", re.ASCII)
"""What can stand in a trailer and name a session: `<agent>:<id>`."""


def find_sessions(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The sessions that run in this environment, as `<agent>:<id>`; an agent started by another has both.

    `MEMORY_CI_SESSION` alone counts where it is set, also if it is empty. What cannot be a key is passed over.

    >>> find_sessions({"CODEX_THREAD_ID": "019d-1", "HOME": "/root"})
    ('codex:019d-1',)
    """
    if OVERRIDE in environment:
        found = [environment[OVERRIDE]]
    else:
        found = [f"{agent}:{environment[name]}" for name, agent in VARIABLES.items() if name in environment]
    return tuple(key for key in found if KEY.fullmatch(key))


def add_session_trailer(workspace: Workspace, message_file: Path, environment: Mapping[str, str]) -> bool:
    """Put the session into a commit message as a `Memory-Session` trailer; whether there was one to put.

    Raises RepositoryError (write-failed).
    """
    return add_trailer(workspace, message_file, "Memory-Session", find_sessions(environment))


def push_sessions(workspace: Workspace, remote: str) -> int:
    """Send the sessions that a remote lacks, if `sessions.push` is on, and say how many.

    Raises EngineError (remote-failed).
    """
    if not workspace.config.sessions.push:
        return 0
    sessions = list_unpushed(workspace.repo, remote)
    if sessions:
        push(workspace.repo, remote, sessions)
    return len(sessions)
