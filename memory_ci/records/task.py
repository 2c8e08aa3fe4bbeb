"""Task: a piece of work that was merged, told so that the next one like it can learn from it."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

Outcome = Literal["success", "partial", "failure", "neutral"]
"""Merged and kept; merged and soon fixed up by another change; reverted, and not brought back; what an episode says."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A merged change, or a request that was closed on the day `merged_on` without being merged, and has no sha.

    `still` of its `files` are there today, renamed or not; `why` tells what became of it.
    """

    sha: str
    title: str
    merged_on: date
    number: int | None = None
    branch: str = ""
    files: int = 0
    still: int = 0
    outcome: Outcome = "success"
    why: str = ""
    is_merged: bool = True

    @property
    def label(self) -> str:
        """How a person would name it: `#128`, else the short sha."""
        return f"#{self.number}" if self.number is not None else self.sha[:7]


class SimilarTask(msgspec.Struct, frozen=True):
    """A task like the one asked about: the score, and the factors whose product it is, in the order they apply."""

    task: Task
    score: float
    factors: tuple[tuple[str, float], ...]
