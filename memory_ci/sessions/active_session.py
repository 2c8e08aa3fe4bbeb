"""Search for the agent sessions that make a commit, for its trailer; and the push of sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from memory_ci.gitrepo.checkouts import is_under_way
from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.regex import Regex
from memory_ci.sessions.served_ids import add_trailer
from memory_ci.sessions.session_note import Sign, list_signs_of_recent_sessions, read_head
from memory_ci.text import plural

OVERRIDE = "MEMORY_CI_SESSION"

VARIABLES = {
    "CLAUDE_CODE_SESSION_ID": "claude-code",
    "CODEX_THREAD_ID": "codex",
    "GEMINI_SESSION_ID": "gemini",
    "COPILOT_AGENT_SESSION_ID": "copilot",
}
"""The variables that agents set for the commands they run.

Claude Code since 2.1.132, Codex since January 2026.
"""

KEY = Regex(r"[\w.-]{1,60}:[\w.-]{1,200}", re.ASCII)
"""The key of a session, `<agent>:<id>`, as a trailer can hold it."""


def find_sessions(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of the sessions that run in this environment.

    If one agent started another, both are found. If `MEMORY_CI_SESSION` is set, it alone counts,
    even if it is empty. Values that cannot be a key are ignored.

    >>> find_sessions({"CODEX_THREAD_ID": "019d-1", "HOME": "/root"})
    ('codex:019d-1',)
    """
    keys = []
    if OVERRIDE in environment:
        keys.append(environment[OVERRIDE])
    else:
        for variable, agent in VARIABLES.items():
            if variable in environment:
                keys.append(f"{agent}:{environment[variable]}")
    return tuple(key for key in keys if KEY.fullmatch(key))


def add_session_trailer(
    workspace: Workspace, message_file: Path, environment: Mapping[str, str], now: datetime
) -> bool:
    """Add the sessions of a commit to its message as a `Memory-Session` trailer.

    They are the session that makes the commit, and those whose work a person commits. If
    `MEMORY_CI_SESSION` is set, it names the session.

    Args:
        workspace: the workspace.
        message_file: the file of the message.
        environment: the environment of git's hook.
        now: the current time.

    Returns:
        Whether there was any session.

    Raises:
        RepositoryError: write-failed, git-failed.
    """
    keys = find_sessions(environment)
    if OVERRIDE not in environment and not is_under_way(workspace.repo):
        index = find_index(workspace, environment)
        keys = (*keys, *list_working(workspace, index, now))
    return add_trailer(workspace, message_file, "Memory-Session", tuple(dict.fromkeys(keys)))


def find_index(workspace: Workspace, environment: Mapping[str, str]) -> Path:
    """Return the path of the index that git makes a commit of.

    For `git commit PATH` it is not the index of the work tree.
    """
    default = str(workspace.repo.git_dir / "index")
    return work_tree(workspace) / environment.get("GIT_INDEX_FILE", default)


def list_staged(workspace: Workspace, index: Path) -> frozenset[str]:
    """Return the paths that differ between an index and HEAD."""
    command = "diff --cached --name-only -z --no-renames --no-ext-diff --ignore-submodules"
    environment = {"GIT_INDEX_FILE": str(index)}
    listing = run_git(work_tree(workspace), *command.split(), env=environment)
    return frozenset(decode_path(listing).split("\0")[:-1])


def list_working(workspace: Workspace, index: Path, now: datetime) -> tuple[str, ...]:
    """Return the keys of the sessions of this work tree whose edits are staged in an index.

    The hooks of an agent note signs of life of its session: each prompt and each edit. A session
    is returned if it gave one within the last hours, had a prompt, was on this branch or at this
    commit, and edited a staged file that no commit has touched since.
    """
    candidates: list[list[Sign]] = []
    edited_paths: set[str] = set()
    for signs in list_signs_of_recent_sessions(workspace, now):
        if any(sign.is_prompt for sign in signs):
            candidates.append(signs)
            for sign in signs:
                edited_paths.update(sign.edited)
    if not edited_paths:
        return ()
    staged = list_staged(workspace, index)
    if staged.isdisjoint(edited_paths):
        return ()

    branch = read_head(workspace)
    head = find_commit(workspace.repo, "HEAD") or ""
    keys = []
    for signs in candidates:
        if not _is_on_branch_or_commit(signs, branch, head):
            continue
        has_work = _has_edited_staged_file(workspace, signs, staged)
        if has_work and KEY.fullmatch(signs[0].key):
            keys.append(signs[0].key)
    return tuple(keys)


def _is_on_branch_or_commit(signs: Iterable[Sign], branch: str, head: str) -> bool:
    """Return whether a session was last seen on a branch or at a commit."""
    last_branch = ""
    last_head = ""
    for sign in signs:
        last_branch = sign.branch or last_branch
        last_head = sign.head or last_head
    is_on_branch = bool(last_branch) and last_branch == branch
    is_at_head = bool(last_head) and last_head == head
    return is_on_branch or is_at_head


def _has_edited_staged_file(
    workspace: Workspace, signs: Iterable[Sign], staged: frozenset[str]
) -> bool:
    """Return whether a session edited a staged file after the last commit that touched the file."""
    last_edits: dict[str, datetime] = {}
    for sign in signs:
        for path in sign.edited:
            if path in staged:
                last_edits[path] = sign.at
    if not last_edits:
        return False
    from memory_ci.gitrepo.log import is_touched_since

    return any(
        not is_touched_since(workspace.repo, "HEAD", path, edited_at)
        for path, edited_at in last_edits.items()
    )


def push_sessions(
    workspace: Workspace, remote: str, environ: Mapping[str, str], now: datetime
) -> str:
    """Push the captured sessions that a remote lacks, if `sessions.push` allows it.

    With `sessions.push: private` only members may be able to read the remote.

    Returns:
        A message, "" if there is nothing new. The reason not to push is given only when a server
        was asked who can read the remote. Its answer is kept for a while, so that not each push
        repeats the reason.

    Raises:
        EngineError: remote-failed.
    """
    policy = workspace.config.sessions.push
    if not policy:
        return ""
    from memory_ci.gitrepo.sessionrefs import list_unpushed, push

    sessions = list_unpushed(workspace.repo, remote)
    if not sessions:
        return ""
    count = plural(len(sessions), "session")
    if policy == "private":
        from memory_ci.sessions.public_remote import find_audience

        audience = find_audience(workspace, remote, environ, now)
        if audience.readers != "members":
            if not audience.is_fresh:
                return ""
            reason = "does not tell who can read it"
            if audience.readers == "anybody":
                reason = "answers anybody"
            help_text = "(`memory-ci help agents`, `sessions.push`)"
            return f"{count} kept here: {remote} {reason} {help_text}"
    push(workspace.repo, remote, sessions)
    return f"{count} sent to {remote} (refs/memory-ci/sessions/)"
