"""Commits, merged changes and blamed lines, and pull requests with their reviews and checks."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal

import msgspec


class FileChange(msgspec.Struct, frozen=True):
    """A path that a commit changed, compared with its first parent.

    Attributes:
        status: the letter of git: A, M, D, R and so on.
    """

    status: str
    path: str
    old_path: str | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit.

    Attributes:
        authored_at: a time with a zone, as `committed_at`.
        trailers: the trailers that git finds, with their keys as written.
    """

    sha: str
    parents: tuple[str, ...]
    author: str
    email: str
    authored_at: datetime
    committed_at: datetime
    message: str
    trailers: tuple[tuple[str, str], ...] = ()
    files: tuple[FileChange, ...] = ()

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]


class Staging(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a commit takes in addition to its index.

    Attributes:
        is_whole_tree: all files of the work tree.
        has_tracked: all files that git tracks.
        paths: these files and directories, tracked or not.
    """

    is_whole_tree: bool = False
    has_tracked: bool = False
    paths: tuple[str, ...] = ()


class MergedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was merged into the branch: the unit of work of a record run.

    Attributes:
        kind: a merge commit, a squash, a rebase or a direct push.
        tip: the newest first-parent commit of the change; for a merge the merge commit.
        commits: all commits of the change, oldest first, with the tip.
        number: the number of its pull request.
    """

    kind: Literal["merge", "squash", "rebase", "direct"]
    tip: Commit
    commits: tuple[Commit, ...]
    number: int | None = None
    title: str = ""

    @property
    def label(self) -> str:
        """A name for people: `#128`, or the short commit id."""
        return f"#{self.number}" if self.number is not None else self.tip.sha[:7]


class NamedEntry(msgspec.Struct, frozen=True):
    """An entry that a piece of work names.

    Attributes:
        title: its title; "" if memory no longer has the entry.
        is_used: the work declares that it used the entry.
    """

    id: str
    title: str = ""
    is_used: bool = False


class BlamedLines(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"served_entries": "served", "learned_entries": "learned"},
):
    """Consecutive lines of a file that one piece of work last changed.

    Attributes:
        first: the first line, from 1.
        last: the last line, included.
        commit: the commit of the work; "" if it is not committed.
        number: the number of its pull request.
        served_entries: entries that were served to the work.
        learned_entries: entries that were learned from it.
    """

    path: str
    first: int
    last: int
    commit: str
    day: date
    subject: str
    number: int | None = None
    served_entries: tuple[NamedEntry, ...] = ()
    learned_entries: tuple[NamedEntry, ...] = ()


Permission = Literal["write", "read", "unknown"]
"""The permission of a person: `write` is write, maintain or admin; `unknown`: the forge does not
say it, or was not asked."""

ReviewState = Literal["approved", "changes_requested", "commented", "dismissed"]


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A review, or one comment of a thread.

    Attributes:
        id: a stable id: `r199` for a review, `c17` for a comment.
        path: the file that a comment is about.
        line: its line in that file.
    """

    id: str
    author: str
    permission: Permission
    state: ReviewState
    body: str
    at: datetime
    path: str = ""
    line: int | None = None
    in_reply_to: str = ""
    is_resolved: bool | None = None
    is_bot: bool = False


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The last conclusion of one check on one commit of a pull request."""

    name: str
    sha: str
    is_success: bool
    at: datetime
    summary: str = ""


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request or merge request.

    Attributes:
        is_fork: its branch is in another repository.
        commits: the commits of its branch.
        last_commit_at: when the newest of them was committed, if the forge says it.
        problems: the parts that could not be read, with the reason; these may have content.
    """

    number: int
    title: str
    body: str
    author: str
    permission: Permission
    state: Literal["open", "merged", "closed"]
    created_at: datetime
    is_fork: bool = False
    is_bot: bool = False
    branch: str = ""
    labels: tuple[str, ...] = ()
    merged_at: datetime | None = None
    closed_at: datetime | None = None
    merge_sha: str = ""
    commits: tuple[str, ...] = ()
    last_commit_at: datetime | None = None
    reviews: tuple[Review, ...] = ()
    checks: tuple[Check, ...] = ()
    problems: tuple[str, ...] = ()


Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a zone; one without a zone cannot be compared with others."""
