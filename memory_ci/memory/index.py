"""The search index of a repository: built from memory files, updated, and compared with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.digests import blake2b
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

GLOBAL_SCOPE = ScopeOf("global")


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
        known_hashes: the hashes of entries that the index has already, by path; such entries are
            left out.
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


def prepare_queries(workspace: Workspace, view: str | None) -> IndexReport:
    """Update the index of the repository and the caches next to it, so that no query waits.

    The caches are the tasks of the past (`past_tasks`) and the episodes of git's history. Without
    this, the first query that needs them reads git's history.

    Args:
        workspace: the repository.
        view: None for the work tree, or a revision.

    Raises:
        RepositoryError: unknown-revision.
    """
    from memory_ci.memory.past_tasks import gather_tasks

    files = list_indexed_files(workspace, view)
    index_report = _build_listed(workspace, view, files)
    gather_tasks(workspace)
    if any(file.path == RECORDED_FILE for file in files):
        from memory_ci.memory.episodes import (
            cache_derived_episodes,  # few repositories have such a file
        )

        cache_derived_episodes(workspace, files)
    return index_report


def build_index(
    workspace: Workspace, view: str | None, copy_path: Path | None = None
) -> IndexReport:
    """Update the index of the repository, or write a new index to a file.

    Args:
        workspace: the repository.
        view: None for the work tree, or a revision.
        copy_path: the file of an index for other machines; None for the index of the repository.
            For equal trees the bytes of the file are equal.

    Raises:
        UsageError: not-an-index.
        RepositoryError: unknown-revision, write-failed.
    """
    return _build_listed(workspace, view, list_indexed_files(workspace, view), copy_path)


def _build_listed(
    workspace: Workspace, view: str | None, files: Sequence[TreeFile], copy_path: Path | None = None
) -> IndexReport:
    """Build an index as `build_index` does, of the memory files of the view."""
    if copy_path is not None:
        _require_index_or_nothing(copy_path)

    # The index for other machines is built in memory, and then written.
    opened_path = index_path(workspace) if copy_path is None else None
    global_files = _read_global_files(workspace, view, copy_path)
    with open_index(opened_path) as index:
        report = _sync_index(workspace, index, files, global_files)
        if copy_path is not None:
            # Imported here because it imports `tempfile`, which most updates do not need.
            from memory_ci.search.artifact import write_artifact

            write_artifact(index, copy_path)
        # The index of the repository is in memory only if its file cannot be used.
        reason_for_memory_only = index.reason
        return IndexReport(
            path=reason_for_memory_only or str(copy_path or index_path(workspace)),
            key=_cache_key(files),
            files=len(files),
            files_read=report.files_read,
            entries=report.entries,
            was_rebuilt=report.was_rebuilt,
        )


def _require_index_or_nothing(path: Path) -> None:
    """Raise an error if a file that is to be written exists and is no index.

    A damaged index may be replaced.
    """
    try:
        is_replaceable = may_replace(path)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise RepositoryError(message, slug="write-failed") from error
    if not is_replaceable:
        raise UsageError(
            f"{path} is not an index of memory-ci",
            slug="not-an-index",
            hint="Name another file, or remove it.",
        )


def verify_index(
    workspace: Workspace, view: str | None, copy_path: Path | None = None
) -> tuple[Finding, ...]:
    """Compare an index with a new one that is built from all files, and return the differences.

    Args:
        workspace: the repository.
        view: None for the work tree, or a revision.
        copy_path: the file of an index for other machines; None for the index of the repository.

    Raises:
        RepositoryError: unknown-revision.
    """
    from memory_ci.search.artifact import verify as list_differences

    files = list_indexed_files(workspace, view)
    global_files = _read_global_files(workspace, view, copy_path)
    with open_index(None) as new_index:  # in memory: no file is written
        _sync_index(workspace, new_index, files, global_files)
        return tuple(list_differences(copy_path or index_path(workspace), new_index))


def _read_global_files(
    workspace: Workspace, view: str | None, copy_path: Path | None
) -> dict[str, bytes]:
    """Return the files of global memory that an index covers, by path.

    Global memory belongs to the machine. So it is only in the index of the repository for the work
    tree, and neither in that of a revision nor in an index for other machines.

    Args:
        workspace: the repository.
        view: the revision that is indexed; None for the work tree.
        copy_path: the file of an index for other machines; None for that of the repository.
    """
    if view is not None or copy_path is not None:
        return {}
    return _read_global(workspace)


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
    global_files: Mapping[str, bytes],
) -> SyncReport:
    """Make the index equal to files of the repository and to global memory.

    Args:
        workspace: the repository.
        index: the index.
        tree_files: the memory and episode files of the repository.
        global_files: the content of files of global memory, by path.
    """
    file_by_path = {readable_path(file): file for file in tree_files}
    oid_by_path = {path: file.oid for path, file in file_by_path.items()}
    for path, data in global_files.items():
        oid_by_path[path] = blake2b(data, digest_size=32).hexdigest()
    load_changed = partial(_load_changed_files, workspace, file_by_path, global_files)
    return sync(index, oid_by_path, load_changed)


def _load_changed_files(
    workspace: Workspace,
    file_by_path: Mapping[str, TreeFile],
    global_files: Mapping[str, bytes],
    known_hashes: Mapping[str, KnownDigests],
) -> Iterator[LoadedFile]:
    """Yield the content of the files that are new or changed since the index was updated last.

    Text that agents must not be served is left out.

    Args:
        workspace: the repository.
        file_by_path: all files of the repository that the index covers.
        global_files: the content of files of global memory, by path.
        known_hashes: the paths of the new and changed files. For each, the hashes of those entries
            that the index has already, so that they need not be loaded.
    """
    from memory_ci.memory.screening import screen_file  # slow; only text new to the index needs it
    from memory_ci.progress import report
    from memory_ci.store.memory_files import load_file

    changed_files = [file_by_path[path] for path in sorted(known_hashes) if path in file_by_path]
    for done, loaded in enumerate(load_indexed(workspace, changed_files, known_hashes)):
        report("Indexing memory files", done, len(changed_files))
        yield loaded
    for path in sorted(global_files.keys() & known_hashes.keys()):
        file = load_file(path, global_files[path], workspace.config.scopes)
        entries = tuple(replace(located, scope=GLOBAL_SCOPE) for located in file.entries)
        yield screen_file(replace(file, scope=GLOBAL_SCOPE, entries=entries))


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
