"""Vectors: give every entry one, ahead of the queries, and note when they were last seen working."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path

import msgspec

from memory_ci.errors import EngineError, RepositoryError
from memory_ci.files import read_regular
from memory_ci.memory.index import synced_index
from memory_ci.memory.workspace import Workspace
from memory_ci.search.embedders import Vectors, require_embedder
from memory_ci.search.embedders.remote import UNHURRIED
from memory_ci.search.vectors import missing, store
from memory_ci.secrets import mask_secrets
from memory_ci.store.files import write_file

MAX_NOTE = 10_000
MAX_REASON = 500
STEP = (
    1024  # Texts between two visits to the index: each visit writes all vectors of the model anew.
)


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
    after = (
        LaneNote(before.worked_on, before.failed_on or today, reason) if reason else LaneNote(today)
    )
    if after != before:
        with suppress(RepositoryError):
            write_file(_place(workspace), msgspec.json.encode(after) + b"\n")


def _place(workspace: Workspace) -> Path:
    return workspace.repo.common_dir / "memory-ci" / "vectors.json"


class VectorsReport(msgspec.Struct, frozen=True):
    """Which model embedded how many texts; 0 when every entry had its vector."""

    model_id: str
    embedded: int


def build_vectors(
    workspace: Workspace,
    environ: Mapping[str, str],
    progress: Callable[[int, int], None],
    today: date | None = None,
) -> VectorsReport:
    """Embed what has no vector; `progress` is told how many are done and how many there are.

    The index is locked between two steps only, so that nobody waits for a model, and a step that is done stays done.
    With `today` it is noted for `doctor` whether the model answered.
    Raises UsageError (no-embedder), EngineError (embedder-failed, embedder-unauthorised), and RepositoryError
    (write-failed) where the index cannot be kept, and so no vector either.
    """
    embedder = require_embedder(workspace.config.retrieve, environ, UNHURRIED)
    done, hashes, vectors = 0, tuple[bytes, ...](), Vectors(0, array("f"))
    while True:
        with synced_index(workspace) as index:
            if index.is_temporary:
                hint = "Check the rights and the space there, and whether another process holds the index."
                raise RepositoryError(
                    f"the index could not be kept: {index.reason}", slug="write-failed", hint=hint
                )
            if hashes:
                store(index, embedder.model_id, hashes, vectors)
            lost = missing(index, embedder.model_id)
        done += len(hashes)
        progress(done, done + len(lost))
        if not lost:
            return VectorsReport(embedder.model_id, done)
        hashes = tuple(lost)[:STEP]
        try:
            vectors = embedder.embed([lost[name] for name in hashes])
        except EngineError as error:
            if today:
                note_lane(workspace, today, error.message)
            raise
        if today:
            note_lane(workspace, today)
