"""The note of a backfill: which batches were sent, kept beside the repository until their answers are recorded.

It holds ids and the titles of memory, no evidence and no credentials, so that losing it costs money but no data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NoReturn

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.extraction.engines.batches import Batch
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.records.candidate import Known
from memory_ci.store.files import write_file


class Estimate(msgspec.Struct, frozen=True):
    """What will be asked: about so many tokens in, and at most so many USD, each answer at its full length."""

    requests: int
    batches: int
    input_tokens: int
    cost_usd: float


class Sent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The batches of the changes after `since` on `ref`, which was at `base`.

    `known` is the digest of memory that all of them were sent with. `is_whole` is False until the last was sent.
    """

    version: Literal[1] = 1
    ref: str
    base: str
    since: str | None
    known: tuple[Known, ...]
    estimate: Estimate
    batches: tuple[Batch, ...] = ()
    is_whole: bool = False


def find_sent(repo: Repository) -> Sent | None:
    """What an earlier run sent. Raises RepositoryError: bad-batch-state, foreign-batch-state."""
    path = _place(repo)
    try:
        sent = msgspec.json.decode(path.read_bytes(), type=Sent)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        _refuse(path, f"cannot be read: {error}", "bad-batch-state", error)
    if find_commit(repo, sent.base) != sent.base:
        _refuse(path, f"is of another repository: commit {sent.base[:12]} is not here", "foreign-batch-state")
    return sent


def save_sent(repo: Repository, sent: Sent) -> None:
    """Write the note, whole or not at all. Raises RepositoryError (write-failed)."""
    write_file(_place(repo), msgspec.json.format(msgspec.json.encode(sent), indent=2) + b"\n")


def remove_sent(repo: Repository) -> None:
    """Forget what was sent; there may be nothing."""
    _place(repo).unlink(missing_ok=True)


def _place(repo: Repository) -> Path:
    return repo.common_dir / "memory-ci" / "backfill.json"


def _refuse(path: Path, what: str, slug: str, error: Exception | None = None) -> NoReturn:
    hint = "Remove the file; the same range is then sent and paid for again."
    raise RepositoryError(f"the note of a backfill, {path}, {what}", slug=slug, hint=hint) from error
