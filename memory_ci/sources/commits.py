"""Commits as events: what was merged, unedited, and where it was found."""

from __future__ import annotations

from memory_ci.records.event import Event, Origin
from memory_ci.records.history import Commit, MergedChange


def commit_events(change: MergedChange) -> tuple[Event, ...]:
    """One event per commit of `change`, oldest first, the merge commit included."""
    return tuple(_event(commit, seq) for seq, commit in enumerate(change.commits))


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
