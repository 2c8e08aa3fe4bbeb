"""Published: how what a run recorded reached others."""

from __future__ import annotations

import msgspec

from memory_ci.records.plan import Plan


class Published(msgspec.Struct, frozen=True):
    """`mode` is the one that was used in the end, `tip` where its branch is now, `url` that of the pull request.

    `tries` counts the tips the run was planned on; `reason` says why it went this way; `subjects` are those of the
    commits. `is_followed`: the local branch is at the tip as well.
    """

    mode: str
    tip: str
    url: str = ""
    tries: int = 1
    reason: str = ""
    plan: Plan | None = None
    subjects: tuple[str, ...] = ()
    is_followed: bool = False
