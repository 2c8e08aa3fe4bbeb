"""What a forge knows of a pull request: who asked for it, who reviewed it, what they said, which checks failed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

Permission = Literal["write", "read", "unknown"]
"""`write` stands for write, maintain and admin; `unknown`: the forge did not say, or was not asked."""

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
    not be read, and why: what is not here was not necessarily never said.
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
"""A time with its zone; one without cannot be compared with any other."""
