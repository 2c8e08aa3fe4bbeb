"""The derived index of a workspace: where it is, what it covers, its cache key."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError, UsageError
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.memory.past_tasks import gather_tasks
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    Workspace,
    index_path,
    is_told,
    list_indexed_files,
    load_files,
    readable_path,
)
from memory_ci.records.entry import ScopeOf
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.records.retrieval import IndexStats
from memory_ci.search.builder import Known, SyncReport, open_index, sync
from memory_ci.search.database import Index, cache_key, is_ours

GLOBAL = ScopeOf("global")


class IndexReport(msgspec.Struct, frozen=True):
    """What building gave: where the index is, and what had to be read for it."""

    path: str
    key: str
    files: int
    files_read: int
    entries: int
    was_rebuilt: bool


def load_indexed(
    workspace: Workspace, files: Iterable[TreeFile], known: Mapping[str, Collection[bytes]] = {}
) -> Iterator[LoadedFile]:
    """Each of these files as the index holds it, without what must not be served; of entries that are `known` see
    `load_file`."""
    from memory_ci.memory.screening import screen  # patterns, for text that is new to the index

    wanted = tuple(files)
    yield from map(
        screen, load_files(workspace, [file for file in wanted if not is_told(file)], known)
    )
    if episodes := [file for file in wanted if is_told(file)]:
        from memory_ci.memory.episodes import load_feedback

        yield from load_feedback(workspace, episodes)


def index_key(workspace: Workspace, view: str | None = "HEAD") -> str:
    """The cache key of a view: equal trees of memory and episode files have equal keys, on any machine."""
    return cache_key({file.path: file.oid for file in list_indexed_files(workspace, view)})


def build_index(workspace: Workspace, view: str | None, db: Path | None = None) -> IndexReport:
    """Bring the index up to a view (None: the work tree); with `db`, write that view's index there instead. With the
    index the tasks of the past are brought up (`past_tasks`). What is written to `db` is the same, byte for byte, for
    equal trees. Raises UsageError (not-an-index), RepositoryError (unknown-revision, write-failed)."""
    files = list_indexed_files(workspace, view)
    if db is None:
        gather_tasks(workspace)
    else:
        try:
            is_free = is_ours(db)
        except OSError as error:
            raise RepositoryError(
                f"cannot read {db}: {error.strerror}", slug="write-failed"
            ) from error
        if (
            not is_free
        ):  # an index that is damaged is replaced; a file that never was one is not ours to replace
            hint = "Name another file, or remove it."
            raise UsageError(f"{db} is not an index of memory-ci", slug="not-an-index", hint=hint)
    with open_index(None if db else index_path(workspace)) as index:
        report = _sync(workspace, index, files, _outside(workspace, view, db))
        if db is not None:
            from memory_ci.search.artifact import (
                write_artifact,
            )  # temporary files, which an unchanged index spares

            write_artifact(index, db)
        where = index.reason or str(db or index_path(workspace))
        key = cache_key({file.path: file.oid for file in files})
        return IndexReport(
            where, key, len(files), report.files_read, report.entries, report.was_rebuilt
        )


def verify_index(
    workspace: Workspace, view: str | None, db: Path | None = None
) -> tuple[Finding, ...]:
    """What in the index (or in `db`) is not as a view has it; every file is read, and nothing is written. Raises
    RepositoryError (unknown-revision)."""
    from memory_ci.search.artifact import verify

    files = list_indexed_files(workspace, view)
    with open_index(None) as fresh:
        _sync(workspace, fresh, files, _outside(workspace, view, db))
        return tuple(verify(db or index_path(workspace), fresh))


def index_stats(workspace: Workspace) -> IndexStats:
    """What the index holds, once it is equal to the work tree."""
    from memory_ci.search.artifact import count_index

    with synced_index(workspace) as index:
        return count_index(index)


def _outside(workspace: Workspace, view: str | None, db: Path | None) -> dict[str, bytes]:
    """Global memory belongs to the machine: it is in the index of a work tree, and never in one to hand on."""
    return _read_global(workspace) if view is None and db is None else {}


@contextmanager
def synced_index(workspace: Workspace) -> Iterator[Index]:
    """The index, equal to the memory and episode files of the work tree and the global memory as they are now."""
    files = list_indexed_files(workspace, None)
    with open_index(index_path(workspace)) as index:
        _sync(workspace, index, files, _read_global(workspace))
        yield index


def _sync(
    workspace: Workspace, index: Index, listed: Iterable[TreeFile], outside: Mapping[str, bytes]
) -> SyncReport:
    files = {readable_path(file): file for file in listed}

    def load(paths: Mapping[str, Known]) -> Iterator[LoadedFile]:
        from memory_ci.memory.screening import screen  # patterns, for text that is new to the index
        from memory_ci.store.document import load_file

        yield from load_indexed(
            workspace, [files[path] for path in sorted(paths) if path in files], paths
        )
        for path in sorted(outside.keys() & paths.keys()):
            file = load_file(path, outside[path], workspace.config.scopes)
            entries = tuple(replace(place, scope=GLOBAL) for place in file.entries)
            yield screen(replace(file, scope=GLOBAL, entries=entries))

    oids = {path: file.oid for path, file in files.items()}
    oids |= {path: hashlib.sha256(data).hexdigest() for path, data in outside.items()}
    return sync(index, oids, load)


def _read_global(workspace: Workspace) -> dict[str, bytes]:
    """The global memory file by the path that the configuration gives it; nothing where there is none."""
    written = workspace.config.global_.path
    if not written:
        return {}
    try:
        path = Path(written).expanduser()
        path = path / "MEMORY.md" if path.is_dir() else path
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            return {}
        return {written: path.read_bytes()}
    except (OSError, RuntimeError, ValueError):
        return {}
