"""Embeddings (vectors) of memory entries, computed before queries need them."""

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
from memory_ci.search.database import Index
from memory_ci.search.embedders import Vectors, require_embedder
from memory_ci.search.embedders.remote import INDEX_LIMITS
from memory_ci.search.vectors import list_missing_texts, store_vectors
from memory_ci.secrets import mask_secrets
from memory_ci.store.files import write_file

MAX_NOTE = 10_000
MAX_REASON = 500
STEP = 1024
"""Number of texts between two writes to the index; each writes all vectors of the model again."""


class EmbedderNote(msgspec.Struct, frozen=True):
    """A note on whether the embedder works.

    Attributes:
        worked_on: the last day on which it worked.
        failed_on: the first day of the present failure; None while it works.
        reason: the reason of the failure.
    """

    worked_on: date | None = None
    failed_on: date | None = None
    reason: str = ""


def load_embedder_note(workspace: Workspace) -> EmbedderNote:
    """Return the note; an empty one if none can be read."""
    with suppress(OSError, ValueError):
        return msgspec.json.decode(read_regular(_note_path(workspace), MAX_NOTE), type=EmbedderNote)
    return EmbedderNote()


def save_embedder_state(workspace: Workspace, today: date, reason: str = "") -> None:
    """Write into the note on the embedder that it worked today, or why it did not.

    The file is written only if the note changes: at least when a new day begins. Failure to write
    it is ignored.

    Args:
        workspace: the repository.
        today: the day.
        reason: why the embedder failed; "" if it worked.
    """
    old_note = load_embedder_note(workspace)
    reason = mask_secrets(reason)[:MAX_REASON]
    if reason:
        new_note = EmbedderNote(old_note.worked_on, old_note.failed_on or today, reason)
    else:
        new_note = EmbedderNote(worked_on=today)
    if new_note != old_note:
        with suppress(RepositoryError):
            write_file(_note_path(workspace), msgspec.json.encode(new_note) + b"\n")


def _note_path(workspace: Workspace) -> Path:
    return workspace.repo.common_dir / "memory-ci" / "vectors.json"


class VectorsReport(msgspec.Struct, frozen=True):
    """The model, and how many texts it embedded; 0 if every entry had its vector."""

    model_id: str
    embedded: int


def build_vectors(
    workspace: Workspace,
    environ: Mapping[str, str],
    progress: Callable[[int, int], None],
    today: date | None = None,
) -> VectorsReport:
    """Embed the texts of entries that have no vector in the index, in steps of STEP texts.

    The index is locked only between two steps, so that nobody waits for a model. The vectors of
    finished steps are kept if a later one fails.

    Args:
        workspace: the repository.
        environ: the environment, for credentials.
        progress: called with the number of embedded texts and the number of all.
        today: the day for the note that `doctor` reads; None to write none.

    Raises:
        UsageError: no-embedder.
        EngineError: embedder-failed, embedder-unauthorised.
        RepositoryError: write-failed, if the index cannot be written.
    """
    embedder = require_embedder(workspace.config.retrieve, environ, INDEX_LIMITS)
    embedded = 0
    # The texts of the last step, by hash, and their vectors; none before the first step.
    hashes: tuple[bytes, ...] = ()
    vectors = Vectors(0, array("f"))
    while True:
        with synced_index(workspace) as index:
            _require_saved_index(index)
            if hashes:
                store_vectors(index, embedder.model_id, hashes, vectors)
            missing_texts = list_missing_texts(index, embedder.model_id)
        embedded += len(hashes)
        progress(embedded, embedded + len(missing_texts))
        if not missing_texts:
            return VectorsReport(embedder.model_id, embedded)

        hashes = tuple(missing_texts)[:STEP]
        try:
            vectors = embedder.embed([missing_texts[text_hash] for text_hash in hashes])
        except EngineError as error:
            if today:
                save_embedder_state(workspace, today, error.message)
            raise
        if today:
            save_embedder_state(workspace, today)


def _require_saved_index(index: Index) -> None:
    """Raise an error if the index is in memory only, because its file cannot be written."""
    if index.is_temporary:
        raise RepositoryError(
            f"the index could not be kept: {index.reason}",
            slug="write-failed",
            hint="Check the rights and the space there, "
            "and whether another process holds the index.",
        )
