"""Commits as events: what was merged, unedited, and where it was found."""

from __future__ import annotations

from memory_ci.records.event import Event, Origin
from memory_ci.records.history import Commit, MergedChange

MAX_FILES = 100
"""Files that a summary of a change names."""


def commit_events(change: MergedChange) -> tuple[Event, ...]:
    """One event per commit of `change`, oldest first, the merge commit included."""
    return tuple(_event(commit, seq) for seq, commit in enumerate(change.commits))


def diff_event(change: MergedChange) -> Event:
    """What the change did to which files, one a line: what intentions are held against."""
    files = {file.path: file.status for commit in change.commits for file in commit.files}
    lines = [f"{status} {path}" for path, status in list(files.items())[:MAX_FILES]]
    more = [f"and {len(files) - MAX_FILES} more"] if len(files) > MAX_FILES else []
    return Event(
        seq=len(change.commits),
        at=change.tip.committed_at,
        actor="system",
        kind="diff",
        text="\n".join(lines + more),
        origin=Origin(kind="commit", id=change.tip.sha),
        paths=tuple(files),
    )


def author_of(commit: Commit) -> str:
    """`Name <e-mail>`, as git prints it and as the author patterns of the configuration are matched."""
    return f"{commit.author} <{commit.email}>"


def _event(commit: Commit, seq: int) -> Event:
    return Event(
        seq=seq,
        at=commit.committed_at,
        actor="human",
        kind="commit",
        text=commit.message,
        origin=Origin(kind="commit", id=commit.sha),
        author=author_of(commit),
        paths=tuple(file.path for file in commit.files),
        labels=commit.trailers,
        is_merge=len(commit.parents) > 1,
    )
