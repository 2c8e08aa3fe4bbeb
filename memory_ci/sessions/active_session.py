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
from memory_ci.sessions.session_note import (
    SessionActivity,
    list_activities_of_recent_sessions,
    read_head,
)
from memory_ci.text import plural

SESSION_VARIABLE = "MEMORY_CI_SESSION"

AGENT_BY_VARIABLE = {
    "CLAUDE_CODE_SESSION_ID": "claude-code",
    "CODEX_THREAD_ID": "codex",
    "GEMINI_SESSION_ID": "gemini",
    "COPILOT_AGENT_SESSION_ID": "copilot",
}
"""The variables that agents set for the commands they run.

Claude Code since 2.1.132, Codex since January 2026.
"""

SESSION_KEY = Regex(r"[\w.-]{1,60}:[\w.-]{1,200}", re.ASCII)
"""The key of a session, `<agent>:<id>`, as a trailer can hold it."""


def find_sessions(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of the sessions that run in this environment.

    If one agent started another, both are found. If `MEMORY_CI_SESSION` is set, it alone counts,
    even if it is empty. Values that cannot be a key are ignored.

    >>> find_sessions({"CODEX_THREAD_ID": "019d-1", "HOME": "/root"})
    ('codex:019d-1',)
    """
    keys = []
    if SESSION_VARIABLE in environment:
        keys.append(environment[SESSION_VARIABLE])
    else:
        for variable, agent in AGENT_BY_VARIABLE.items():
            if variable in environment:
                keys.append(f"{agent}:{environment[variable]}")
    return tuple(key for key in keys if SESSION_KEY.fullmatch(key))


def add_session_trailer(
    workspace: Workspace, message_file: Path, environment: Mapping[str, str], now: datetime
) -> bool:
    """Add the sessions of a commit to its message as a `Memory-Session` trailer.

    These are the session whose agent makes the commit, and sessions whose edits a person commits.
    If `MEMORY_CI_SESSION` is set, it names the session. In a merge or rebase the edits are older
    commits, so that only the session that makes the commit counts.

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
    if SESSION_VARIABLE not in environment and not is_under_way(workspace.repo):
        index = find_index(workspace, environment)
        keys = (*keys, *list_committing_sessions(workspace, index, now))
    return add_trailer(workspace, message_file, "Memory-Session", tuple(dict.fromkeys(keys)))


def find_index(workspace: Workspace, environment: Mapping[str, str]) -> Path:
    """Return the path of the index that git makes a commit of.

    For `git commit PATH` it is not the index of the work tree.
    """
    default = str(workspace.repo.git_dir / "index")
    return work_tree(workspace) / environment.get("GIT_INDEX_FILE", default)


def list_staged_paths(workspace: Workspace, index: Path) -> frozenset[str]:
    """Return the paths that differ between an index and HEAD."""
    command = "diff --cached --name-only -z --no-renames --no-ext-diff --ignore-submodules"
    environment = {"GIT_INDEX_FILE": str(index)}
    listing = run_git(work_tree(workspace), *command.split(), env=environment)
    return frozenset(decode_path(listing).split("\0")[:-1])


def list_committing_sessions(workspace: Workspace, index: Path, now: datetime) -> tuple[str, ...]:
    """Return the keys of the sessions of this work tree whose edits are staged in an index.

    The hooks of an agent note the activities of its session: each prompt and each edit. A session
    is returned if it was active within the last hours, had a prompt, was on this branch or at this
    commit, and edited a staged file that no commit has touched since.
    """
    candidates: list[list[SessionActivity]] = []
    edited_paths: set[str] = set()
    for activities in list_activities_of_recent_sessions(workspace, now):
        if any(activity.is_prompt for activity in activities):
            candidates.append(activities)
            for activity in activities:
                edited_paths.update(activity.edited)
    if not edited_paths:
        return ()
    staged_paths = list_staged_paths(workspace, index)
    if staged_paths.isdisjoint(edited_paths):
        return ()

    branch = read_head(workspace)
    head = find_commit(workspace.repo, "HEAD") or ""
    keys = []
    for activities in candidates:
        if not _is_on_branch_or_commit(activities, branch, head):
            continue
        has_edits = _has_edited_staged_file(workspace, activities, staged_paths)
        if has_edits and SESSION_KEY.fullmatch(activities[0].key):
            keys.append(activities[0].key)
    return tuple(keys)


def _is_on_branch_or_commit(activities: Iterable[SessionActivity], branch: str, head: str) -> bool:
    """Return whether a session was last on a branch or at a commit.

    Not every activity names the branch and the commit: the last one named counts.

    Args:
        activities: the activities of the session, the earliest first.
        branch: the full name of the branch.
        head: the commit.
    """
    last_branch = ""
    last_head = ""
    for activity in activities:
        last_branch = activity.branch or last_branch
        last_head = activity.head or last_head
    is_on_branch = bool(last_branch) and last_branch == branch
    is_at_head = bool(last_head) and last_head == head
    return is_on_branch or is_at_head


def _has_edited_staged_file(
    workspace: Workspace, activities: Iterable[SessionActivity], staged_paths: frozenset[str]
) -> bool:
    """Return whether a session edited a staged file after the last commit that touched the file."""
    last_edits: dict[str, datetime] = {}
    for activity in activities:
        for path in activity.edited:
            if path in staged_paths:
                last_edits[path] = activity.at
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
        A message; "" if there is nothing new, or if the user was told before why nothing is
        pushed. That is told when a server is asked who can read the remote. Later pushes use its
        stored answer and repeat nothing.

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
            if not audience.was_server_asked:
                return ""
            reason = "does not tell who can read it"
            if audience.readers == "anybody":
                reason = "answers anybody"
            help_text = "(`memory-ci help agents`, `sessions.push`)"
            return f"{count} kept here: {remote} {reason} {help_text}"
    push(workspace.repo, remote, sessions)
    return f"{count} sent to {remote} (refs/memory-ci/sessions/)"
