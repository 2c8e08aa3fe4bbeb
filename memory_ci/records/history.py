"""Commits, and what was merged: the unit that a record run works on."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

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
    """What one merge brought to the branch: a merge commit, a squash, a rebase or a direct push.

    `tip` is the newest first-parent commit of the change (for a merge: the merge commit itself).
    `commits` are all commits it brought, oldest first, the tip included.
    """

    kind: Literal["merge", "squash", "rebase", "direct"]
    tip: Commit
    commits: tuple[Commit, ...]
    number: int | None = None
    title: str = ""

    @property
    def label(self) -> str:
        """How a person would name it: `#128`, else the short sha."""
        return f"#{self.number}" if self.number is not None else self.tip.sha[:7]
