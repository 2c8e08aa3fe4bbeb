"""Commits, and what was merged, the unit that a record run works on; the lines it brought; what a forge knows of it."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal

import msgspec


class FileChange(msgspec.Struct, frozen=True):
    """A path that a commit touched, against its first parent. `status` is git's letter."""

    status: str
    path: str
    old_path: str | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One commit. Times are aware; `trailers` are those git itself finds, keys as written."""

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
        return self.message.partition("\n")[0]


class MergedChange(msgspec.Struct, frozen=True, kw_only=True):
    """What one merge brought to the branch: a merge commit, a squash, a rebase or a direct push. `tip` is the newest
    first-parent commit of the change (for a merge: the merge commit itself). `commits` are all commits it brought,
    oldest first, the tip included."""

    kind: Literal["merge", "squash", "rebase", "direct"]
    tip: Commit
    commits: tuple[Commit, ...]
    number: int | None = None
    title: str = ""

    @property
    def label(self) -> str:
        """How a person would name it: `#128`, else the short sha."""
        return f"#{self.number}" if self.number is not None else self.tip.sha[:7]


class NamedEntry(msgspec.Struct, frozen=True):
    """An entry by id, with its title where memory has it still; whether the work said that it used it."""

    id: str
    title: str = ""
    is_used: bool = False


class BlamedLines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a file that one piece of work brought. `number` is that of its request; `commit` "": not committed."""

    path: str
    first: int
    last: int
    commit: str
    day: date
    subject: str
    number: int | None = None
    given: tuple[NamedEntry, ...] = ()
    learned: tuple[NamedEntry, ...] = ()


Permission = Literal[
    "write", "read", "unknown"
]  # write, maintain or admin; unknown: not said, or not asked.
ReviewState = Literal["approved", "changes_requested", "commented", "dismissed"]


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """One review, or one comment of a thread (`path` and `line` say where). `id` is stable: `r199`, `c17`."""

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
    """The last conclusion of one check on one commit of the pull request."""

    name: str
    sha: str
    is_success: bool
    at: datetime
    summary: str = ""


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One pull or merge request. `is_fork`: its branch lies in another repository; `commits` are those of its branch.
    `last_commit_at` is when the newest of them was committed, where the forge says it. `problems` are parts that could
    not be read, and why: what is not here was not necessarily never said."""

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


Time = Annotated[
    datetime, msgspec.Meta(tz=True)
]  # One without a zone cannot be compared with others.
