"""While work is under way: which session makes a commit, and sessions that travel with a push."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from memory_ci.gitrepo.checkouts import is_under_way
from memory_ci.gitrepo.log import is_touched_since
from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.gitrepo.repo import find_commit
from memory_ci.gitrepo.sessionrefs import list_unpushed, push
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.sessions.public_remote import find_audience
from memory_ci.sessions.served_ids import add_trailer
from memory_ci.sessions.session_note import Sign, list_recent, read_head
from memory_ci.text import plural

OVERRIDE = "MEMORY_CI_SESSION"
# What agents put into the environment of the commands that they run, as docs/sessions.md says since when.
VARIABLES = {
    "CLAUDE_CODE_SESSION_ID": "claude-code",
    "CODEX_THREAD_ID": "codex",
    "GEMINI_SESSION_ID": "gemini",
    "COPILOT_AGENT_SESSION_ID": "copilot",
}

# What can stand in a trailer and name a session: `<agent>:<id>`.
KEY = re.compile(r"[\w.-]{1,60}:[\w.-]{1,200}", re.ASCII)


def find_sessions(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The sessions that run in this environment, as `<agent>:<id>`; an agent started by another has both.

    `MEMORY_CI_SESSION` alone counts where it is set, also if it is empty. What cannot be a key is passed over.

    >>> find_sessions({"CODEX_THREAD_ID": "019d-1", "HOME": "/root"})
    ('codex:019d-1',)
    """
    if OVERRIDE in environment:
        found = [environment[OVERRIDE]]
    else:
        found = [
            f"{agent}:{environment[name]}"
            for name, agent in VARIABLES.items()
            if name in environment
        ]
    return tuple(key for key in found if KEY.fullmatch(key))


def add_session_trailer(
    workspace: Workspace, message_file: Path, environment: Mapping[str, str], now: datetime
) -> bool:
    """Put the sessions into a commit message as a `Memory-Session` trailer; whether there was one to put.

    They are the one that makes the commit and those whose work a person commits, unless the environment says which.
    Raises RepositoryError (write-failed, git-failed).
    """
    found = find_sessions(environment)
    if OVERRIDE not in environment and not is_under_way(workspace.repo):
        found = (*found, *list_working(workspace, find_index(workspace, environment), now))
    return add_trailer(workspace, message_file, "Memory-Session", tuple(dict.fromkeys(found)))


def find_index(workspace: Workspace, environment: Mapping[str, str]) -> Path:
    """The index of the commit that git makes, which is another one than that of the work tree for `commit PATH`."""
    return work_tree(workspace) / environment.get(
        "GIT_INDEX_FILE", str(workspace.repo.git_dir / "index")
    )


def list_staged(workspace: Workspace, index: Path) -> frozenset[str]:
    """The paths that an index has otherwise than HEAD."""
    asked = (
        "diff",
        "--cached",
        "--name-only",
        "-z",
        "--no-renames",
        "--no-ext-diff",
        "--ignore-submodules",
    )
    listing = run_git(work_tree(workspace), *asked, env={"GIT_INDEX_FILE": str(index)})
    return frozenset(decode_path(listing).split("\0")[:-1])


def list_working(workspace: Workspace, index: Path, now: datetime) -> tuple[str, ...]:
    """The sessions of this work tree whose work an index holds, as `<agent>:<id>`.

    Such a session gave a sign of life within the last hours, had a prompt, was on this branch or at this commit, and
    edited a file that is staged and that no commit has touched since.
    """
    recent = [
        signs for signs in list_recent(workspace, now) if any(sign.is_prompt for sign in signs)
    ]
    edits = [sign for signs in recent for sign in signs if sign.edited]
    staged = list_staged(workspace, index) if edits else frozenset()
    if staged.isdisjoint(path for sign in edits for path in sign.edited):
        return ()
    branch, head = read_head(workspace), find_commit(workspace.repo, "HEAD") or ""
    here = (
        signs
        for signs in recent
        if branch in [sign.branch for sign in signs if sign.branch][-1:]
        or (head and head in [sign.head for sign in signs if sign.head][-1:])
    )
    keys = (signs[0].key for signs in here if _is_work(workspace, signs, staged))
    return tuple(key for key in keys if KEY.fullmatch(key))


def _is_work(workspace: Workspace, signs: Iterable[Sign], staged: frozenset[str]) -> bool:
    """Whether a staged file was edited after the last commit that touched it."""
    last = {path: sign.at for sign in signs for path in sign.edited if path in staged}
    return any(not is_touched_since(workspace.repo, "HEAD", path, at) for path, at in last.items())


def push_sessions(
    workspace: Workspace, remote: str, environ: Mapping[str, str], now: datetime
) -> str:
    """Send the sessions that a remote lacks, if `sessions.push` lets them go there, and say what was done, "" for
    nothing. Why they stay is said when it was found out, not at each push. Raises EngineError (remote-failed)."""
    wish = workspace.config.sessions.push
    sessions = list_unpushed(workspace.repo, remote) if wish else ()
    if not sessions:
        return ""
    count = plural(len(sessions), "session")
    if wish == "private":
        audience = find_audience(workspace, remote, environ, now)
        if audience.readers != "members":
            told = (
                "answers anybody"
                if audience.readers == "anybody"
                else "does not tell who can read it"
            )
            return (
                f"{count} kept here: {remote} {told} (`memory-ci help sessions`, `sessions.push`)"
                if audience.is_fresh
                else ""
            )
    push(workspace.repo, remote, sessions)
    return f"{count} sent to {remote} (refs/memory-ci/sessions/)"
