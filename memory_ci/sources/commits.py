"""Commits and architecture decision records as events: what was merged, unedited, and where it was found."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory_ci.records.event import Actor, Event, EventKind, Origin
from memory_ci.records.history import Commit, MergedChange

MAX_FILES = 100  # Files that a summary of a change names.


def commit_events(change: MergedChange) -> tuple[Event, ...]:
    """One event per commit of `change`, oldest first, the merge commit included."""
    return tuple(
        Event(
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
        for seq, commit in enumerate(change.commits)
    )


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


def file_event(
    change: MergedChange,
    path: str,
    kind: EventKind,
    text: str,
    actor: Actor = "human",
    *,
    line: int | None = None,
    labels: tuple[tuple[str, str], ...] = (),
) -> Event:
    """What a file of the change says, as of its tip."""
    return Event(
        seq=0,
        at=change.tip.committed_at,
        actor=actor,
        kind=kind,
        text=text,
        origin=Origin(kind="commit", id=change.tip.sha, path=path, line=line),
        author=author_of(change.tip),
        paths=(path,),
        labels=labels,
    )


TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|.", re.DOTALL)
WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def adr_paths_added(change: MergedChange, patterns: Iterable[str]) -> tuple[str, ...]:
    """Paths that `change` added (git status A) and that match one of `patterns`, each once, in order.

    `*` and `?` stay inside one path segment, `**/` is any number of segments, `[0-9]` is a class.
    """

    def translate(token: str) -> str:
        if token.startswith("[") and len(token) > 1:
            return token.replace("[!", "[^", 1)
        return WILDCARDS.get(token) or re.escape(token)

    globs = [re.compile("".join(map(translate, TOKEN.findall(pattern)))) for pattern in patterns]
    added = (file.path for commit in change.commits for file in commit.files if file.status == "A")
    return tuple(dict.fromkeys(path for path in added if any(glob.fullmatch(path) for glob in globs)))
