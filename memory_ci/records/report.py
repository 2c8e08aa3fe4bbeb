"""Findings: what a check saw, where, and what to do."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["error", "warning", "notice"]


class Finding(msgspec.Struct, frozen=True):
    """One remark on one line of one file. `code` is stable and documented in docs/errors.md."""

    path: str
    line: int
    code: str
    message: str
    hint: str = ""
    level: Level = "error"
