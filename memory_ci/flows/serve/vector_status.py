"""The note of the vector lane: when vectors were last seen working, and since when and why they are not."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from pathlib import Path

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.flows.workspace import Workspace
from memory_ci.secrets import mask_secrets
from memory_ci.store.files import write_file

MAX_NOTE = 10_000
MAX_REASON = 500


class LaneNote(msgspec.Struct, frozen=True):
    """`failed_on` is the first day of the failure that lasts, None while the lane works."""

    worked_on: date | None = None
    failed_on: date | None = None
    reason: str = ""


def load_note(workspace: Workspace) -> LaneNote:
    """What is known of the lane; nothing where no note can be read."""
    with suppress(OSError, ValueError):
        return msgspec.json.decode(read_regular(_place(workspace), MAX_NOTE), type=LaneNote)
    return LaneNote()


def note_lane(workspace: Workspace, today: date, reason: str = "") -> None:
    """Note that vectors answered on this day, or the reason why they did not. Written at most once a day, or when that
    changes; never raises for a place that cannot be written."""
    before = load_note(workspace)
    reason = mask_secrets(reason)[:MAX_REASON]
    after = LaneNote(before.worked_on, before.failed_on or today, reason) if reason else LaneNote(today)
    if after != before:
        with suppress(RepositoryError):
            write_file(_place(workspace), msgspec.json.encode(after) + b"\n")


def _place(workspace: Workspace) -> Path:
    return workspace.repo.common_dir / "memory-ci" / "vectors.json"
