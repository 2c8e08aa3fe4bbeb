"""The search index of a repository: built from memory files, updated, and compared with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError, UsageError
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    Workspace,
    index_path,
    is_below_episodes,
    list_indexed_files,
    load_files,
    readable_path,
)
from memory_ci.records.entry import ScopeOf
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.search.builder import KnownDigests, SyncReport, open_index, sync
from memory_ci.search.database import Index, cache_key, may_replace
from memory_ci.store.layout import RECORDED_FILE

GLOBAL = ScopeOf("global")


class IndexReport(msgspec.Struct, frozen=True):
    """The result of building the index.

    Attributes:
        path: the index, or why it was built in memory only.
        key: its cache key.
        files: the number of files that it covers.
        files_read: the number of files that had to be read.
        entries: the number of entries.
        was_rebuilt: whether it was built from scratch.
    """

    path: str
    key: str
    files: int
    files_read: int
    entries: int
    was_rebuilt: bool


def load_indexed(
    workspace: Workspace,
    files: Iterable[TreeFile],
    known_hashes: Mapping[str, Collection[bytes]] = {},
) -> Iterator[LoadedFile]:
    """Yield the content of files for the index, without texts that agents must not be served.

    Args:
        workspace: the repository.
        files: memory files and episode files.
        known_hashes: by path the hashes of entries that the index has already.
    """
    from memory_ci.memory.screening import screen_file  # slow; only text new to the index needs it

    files = tuple(files)
    memory_files = [file for file in files if not is_below_episodes(file)]
    for loaded in load_files(workspace, memory_files, known_hashes):
        yield screen_file(loaded)

    episode_files = [file for file in files if is_below_episodes(file)]
    if episode_files:
        from memory_ci.memory.episodes import iter_feedback_files

        yield from iter_feedback_files(workspace, episode_files)


def index_key(workspace: Workspace, view: str | None = "HEAD") -> str:
    """Return the cache key of a view.

    Equal trees of memory and episode files have equal keys, on any machine.
    """
    return _cache_key(list_indexed_files(workspace, view))


def _cache_key(files: Iterable[TreeFile]) -> str:
    return cache_key({file.path: file.oid for file in files})


def build_index(workspace: Workspace, view: str | None, db: Path | None = None) -> IndexReport:
    """Update the index to the work tree or to a revision.

    The tasks of the past (`past_tasks`) and the episodes of git's history are updated with the
    index of the repository.

    Args:
        workspace: the repository.
        view: None for the work tree, or a revision.
        db: where to write a copy for other machines instead. For equal trees its bytes are equal.

    Raises:
        UsageError: not-an-index.
        RepositoryError: unknown-revision, write-failed.
    """
    files = list_indexed_files(workspace, view)
    if db is None:
        _update_caches(workspace, files)
    else:
        _require_index_or_nothing(db)

    with open_index(None if db else index_path(workspace)) as index:
        report = _sync_index(workspace, index, files, _read_outside_files(workspace, view, db))
        if db is not None:
            # Temporary files, which an unchanged index does not need.
            from memory_ci.search.artifact import write_artifact

            write_artifact(index, db)
        return IndexReport(
            path=index.reason or str(db or index_path(workspace)),
            key=_cache_key(files),
            files=len(files),
            files_read=report.files_read,
            entries=report.entries,
            was_rebuilt=report.was_rebuilt,
        )


def _update_caches(workspace: Workspace, files: Iterable[TreeFile]) -> None:
    """Update the caches next to the index: past tasks, and episodes derived from git's history.

    Args:
        workspace: the repository.
        files: the files that the index covers.
    """
    from memory_ci.memory.past_tasks import gather_tasks

    gather_tasks(workspace)
    if any(file.path == RECORDED_FILE for file in files):
        from memory_ci.memory.episodes import (
            cache_derived_episodes,  # few repositories have such a file
        )

        cache_derived_episodes(workspace, files)


def _require_index_or_nothing(db: Path) -> None:
    """Refuse to replace a file that never was an index; a damaged index may be replaced."""
    try:
        is_replaceable = may_replace(db)
    except OSError as error:
        raise RepositoryError(f"cannot read {db}: {error.strerror}", slug="write-failed") from error
    if not is_replaceable:
        raise UsageError(
            f"{db} is not an index of memory-ci",
            slug="not-an-index",
            hint="Name another file, or remove it.",
        )


def verify_index(
    workspace: Workspace, view: str | None, db: Path | None = None
) -> tuple[Finding, ...]:
    """Compare an index with a new one of all files, and return the differences.

    Args:
        workspace: the repository.
        view: None for the work tree, or a revision.
        db: another index than that of the repository.

    Raises:
        RepositoryError: unknown-revision.
    """
    from memory_ci.search.artifact import verify

    files = list_indexed_files(workspace, view)
    with open_index(None) as new_index:  # in memory: no file is written
        _sync_index(workspace, new_index, files, _read_outside_files(workspace, view, db))
        return tuple(verify(db or index_path(workspace), new_index))


def _read_outside_files(
    workspace: Workspace, view: str | None, db: Path | None
) -> dict[str, bytes]:
    """Return the files of global memory, which only the index of a work tree covers, by path.

    Global memory belongs to the machine, so it is not in an index for other machines.

    Args:
        workspace: the repository.
        view: the revision that is indexed; None for the work tree.
        db: the index for other machines; None for that of the repository.
    """
    return _read_global(workspace) if view is None and db is None else {}


@contextmanager
def synced_index(workspace: Workspace) -> Iterator[Index]:
    """Open the index after updating it to the work tree and the global memory."""
    files = list_indexed_files(workspace, None)
    with open_index(index_path(workspace)) as index:
        _sync_index(workspace, index, files, _read_global(workspace))
        yield index


def _sync_index(
    workspace: Workspace,
    index: Index,
    tree_files: Iterable[TreeFile],
    outside_files: Mapping[str, bytes],
) -> SyncReport:
    """Make the index equal to files of the repository and to global memory.

    Args:
        workspace: the repository.
        index: the index.
        tree_files: the memory and episode files of the repository.
        outside_files: the content of files of global memory, by path.
    """
    files = {readable_path(file): file for file in tree_files}
    oids = {path: file.oid for path, file in files.items()}
    for path, data in outside_files.items():
        import hashlib  # Not at the top: 4 ms that a project without global memory is spared.

        oids[path] = hashlib.sha256(data).hexdigest()
    return sync(index, oids, partial(_load_paths, workspace, files, outside_files))


def _load_paths(
    workspace: Workspace,
    files: Mapping[str, TreeFile],
    outside_files: Mapping[str, bytes],
    known_hashes: Mapping[str, KnownDigests],
) -> Iterator[LoadedFile]:
    """Yield the content of the files that are new to the index.

    Args:
        workspace: the repository.
        files: all files of the repository that the index covers, by path.
        outside_files: the content of files of global memory, by path.
        known_hashes: the paths of the new files, each with hashes of its entries that the index
            has already.
    """
    from memory_ci.memory.screening import screen_file  # slow; only text new to the index needs it
    from memory_ci.progress import report
    from memory_ci.store.memory_files import load_file

    new_files = [files[path] for path in sorted(known_hashes) if path in files]
    for done, loaded in enumerate(load_indexed(workspace, new_files, known_hashes)):
        report("Indexing memory files", done, len(new_files))
        yield loaded
    for path in sorted(outside_files.keys() & known_hashes.keys()):
        file = load_file(path, outside_files[path], workspace.config.scopes)
        entries = tuple(replace(place, scope=GLOBAL) for place in file.entries)
        yield screen_file(replace(file, scope=GLOBAL, entries=entries))


def _read_global(workspace: Workspace) -> dict[str, bytes]:
    """Return the global memory file by the path in the configuration.

    Returns:
        Nothing if none is configured, or it cannot be read.
    """
    configured_path = workspace.config.global_.path
    if not configured_path:
        return {}
    try:
        path = Path(configured_path).expanduser()
        if path.is_dir():
            path = path / "MEMORY.md"
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            return {}
        return {configured_path: path.read_bytes()}
    except (OSError, RuntimeError, ValueError):
        return {}
