"""`memory-ci org sync`: writes the entries of many repositories into the organisation's index."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from memory_ci.commands.org.engine import NeverSyncedError, OrgEngine
from memory_ci.commands.org.index import is_server, open_engine, state_directory
from memory_ci.commands.org.records import OrgHead, OrgPublished, OrgRepository
from memory_ci.commands.org.targets import OrgReading, OrgTarget, OrgTargets, read_target
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.files import lock_file
from memory_ci.store.files import write_file

DEFAULT_JOBS = 8  # Repositories that are read at the same time.
GIT_SECONDS = 120.0  # Seconds of each git process of a repository.
READINGS_AHEAD = 4  # Readings per job that may wait to be written; it bounds memory.
T = TypeVar("T")
R = TypeVar("R")


class OrgState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The operator's record of a repository.

    Attributes:
        checked_at: when the index was last seen to equal it.
        push_stamp: the value of its forge then, which changes with every push; `stamp` in JSON.
        unsafe_count: how many of its entries are not shared because they must not be shown to
            others; `gated` in JSON.
        excess_count: how many are not shared because they are too many or too long, or files
            because they are too large; `cut` in JSON.
        failure: why it could not be read last time.
        failed_at: since when it could not be read.
    """

    name: str
    address: str
    audience: str
    checked_at: datetime | None = None
    push_stamp: str = msgspec.field(default="", name="stamp")
    unsafe_count: int = msgspec.field(default=0, name="gated")
    excess_count: int = msgspec.field(default=0, name="cut")
    failure: str = ""
    failed_at: datetime | None = None


class OrgReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sync, by names of repositories.

    Attributes:
        repositories: how many repositories are to be in the index.
        unchanged: how many of them did not change since the last sync.
        added: those that were not in the index before.
        updated: those with other entries than before.
        moved: those with another name, link or audience than before.
        failed: those that could not be read and keep their entries, as (name, reason).
        refused: those that may not be shared as wanted, as (name, reason); they have no entries.
        dropped: those whose entries were removed.
        unnamed_private: private ones of a listing that no line names; `left_out` in JSON.
        entries: how many entries the index holds.
        unsafe_count: how many entries are not shared because they must not be shown to others;
            `gated` in JSON.
        excess_count: how many entries are not shared because they are too many or too long, or
            files because they are too large; `cut` in JSON.
        published: the published files.
        problem: why no missing repository was dropped.
        is_dry_run: nothing was written.
    """

    repositories: int
    unchanged: int
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    unnamed_private: tuple[str, ...] = msgspec.field(default=(), name="left_out")
    entries: int = 0
    unsafe_count: int = msgspec.field(default=0, name="gated")
    excess_count: int = msgspec.field(default=0, name="cut")
    published: tuple[OrgPublished, ...] = ()
    problem: str = ""
    is_dry_run: bool = False


def sync_org(
    out: str,
    gather: Callable[[Path], OrgTargets],
    environ: Mapping[str, str],
    now: datetime,
    *,
    jobs: int = DEFAULT_JOBS,
    seconds: float = GIT_SECONDS,
    dry_run: bool = False,
    advance: Callable[[int, int], None] = lambda _done, _total: None,
) -> OrgReport:
    """Update the index to the memory of the repositories.

    Each repository is one transaction, so a run that was interrupted can be continued.

    Args:
        out: the address of the index.
        gather: returns the repositories; its argument is a directory to cache replies in.
        environ: the environment, which has the tokens.
        now: the present time.
        jobs: how many repositories are read at the same time.
        seconds: how long each git process of a repository may take.
        dry_run: report changes, and write nothing.
        advance: is called with the number of repositories done, and of all.

    Raises:
        UsageError: bad-list.
        EngineError: `forge-…`; org-unreachable when no repository answers, and none is dropped.
        RepositoryError: org-locked, write-failed.
    """
    directory = state_directory(out)
    with tempfile.TemporaryDirectory() as temporary:
        targets = gather(Path(temporary) if dry_run else directory / "forge")
    with _open_index(out, directory, dry_run=dry_run) as engine:
        run = _SyncRun(engine, now, dry_run=dry_run)
        scratch = _make_scratch_directory(directory)

        def read(target: OrgTarget) -> OrgReading:
            return run.read(target, environ, seconds, scratch)

        total = len(targets.targets)
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            readings = in_order(pool, read, targets.targets, jobs * READINGS_AHEAD)
            for done_count, reading in enumerate(readings, start=1):
                run.apply(reading)
                advance(done_count, total)
        run.drop_missing(targets)

        published: tuple[OrgPublished, ...] = ()
        if not dry_run:
            published = tuple(engine.publish())
            engine.save_state(msgspec.json.encode(run.states))
            _write_manifests(Path(out), engine, run.states, published, now)
        if total and not run.reached_count:
            raise _make_unreachable_error(total, run.failed)
        return run.report(targets, published)


def _make_scratch_directory(directory: Path) -> Path | None:
    """Return an empty directory for fetched files, inside the directory of the operator.

    A run that was killed may have left files there; they are removed.

    Args:
        directory: the directory of the operator, whoever runs syncs.

    Returns:
        The directory; None if the operator's does not exist, as in a dry run.
    """
    if not directory.is_dir():
        return None
    scratch = directory.absolute() / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(exist_ok=True)
    return scratch


def _make_unreachable_error(
    total: int, failed_repositories: Sequence[tuple[str, str]]
) -> EngineError:
    """Return the error for a sync that reached no repository, with the first three reasons."""
    reasons = [f"{name}: {reason}" for name, reason in failed_repositories[:3]] or ["each is gone"]
    message = f"none of {total} repositories can be reached ({'; '.join(reasons)})"
    hint = "What is there keeps its rows. Check the network and the credentials, and run again."
    return EngineError(message, slug="org-unreachable", hint=hint)


class _SyncRun:
    """One sync: the state before it, and its effect on each repository.

    Attributes:
        states: the operator's records by repository id, updated as the run proceeds.
        failed: the repositories that could not be read, as (name, reason).
        reached_count: how many repositories were read.
    """

    def __init__(self, engine: OrgEngine, now: datetime, *, dry_run: bool) -> None:
        """Load the state of the index before the sync.

        Args:
            engine: the index.
            now: the present time.
            dry_run: write nothing.
        """
        self._engine = engine
        self._now = now
        self._dry_run = dry_run
        self._heads = dict(engine.heads())  # before this sync, by repository id
        self._old_states = load_state(engine)
        # Names of repositories by what the sync did with them: added, updated, moved, unchanged
        # or dropped.
        self._names_by_effect: defaultdict[str, list[str]] = defaultdict(list)
        self._gone_ids: list[str] = []  # of repositories that do not exist any more
        self.states = dict(self._old_states)
        self.failed: list[tuple[str, str]] = []
        self.reached_count = 0

    def read(
        self, target: OrgTarget, environ: Mapping[str, str], seconds: float, scratch: Path | None
    ) -> OrgReading:
        """Read a repository, in a thread of its own; nothing is written.

        The entries are read only if the repository changed since the last sync, or if its audience
        did. A change is seen by the commit of its branch, or without git by the stamp of its forge.

        Args:
            target: the repository.
            environ: the environment, which has the tokens.
            seconds: how long each git process may take.
            scratch: a directory for fetched files.
        """
        indexed_head = self._heads.get(target.repository.id)
        if indexed_head and indexed_head.repository.audience != target.repository.audience:
            indexed_head = None  # as if it were not in the index
        old_state = self._old_states.get(target.repository.id)
        last_stamp = old_state.push_stamp if old_state and not old_state.failure else ""
        return read_target(target, indexed_head, last_stamp, environ, seconds, scratch=scratch)

    def apply(self, reading: OrgReading) -> None:
        """Write the entries of one repository, or note the reason why not."""
        repository = reading.repository or reading.target.repository
        if reading.is_gone and not self._was_indexed(repository):
            # A repository that was never seen is not gone: its address has a typo.
            problem = f"there is no repository at {reading.target.address}"
            reading = replace(reading, is_gone=False, problem=problem)

        if reading.is_gone:
            self._gone_ids.append(repository.id)
        elif reading.problem:
            self._note_failure(repository, reading)
        else:
            self._write_entries(repository, reading)

    def _was_indexed(self, repository: OrgRepository) -> bool:
        """Return whether the index had the repository before this sync, by its id or its link."""
        links = (head.repository.link for head in self._heads.values())
        return repository.id in self._heads or repository.link in links

    def _note_failure(self, repository: OrgRepository, reading: OrgReading) -> None:
        """Record that a repository could not be read; its entries stay in the index.

        If its audience changed, they are removed.
        """
        self.failed.append((repository.name, reading.problem))
        head = self._heads.get(repository.id)
        if head is not None and head.repository.audience != repository.audience:
            # Readers of the old audience must not see it any longer.
            self._drop_repository(head)

        state = self._old_states.get(repository.id)
        if state is None:
            state = OrgState(repository.name, reading.target.address, repository.audience)
        self.states[repository.id] = replace(
            state,
            audience=repository.audience,
            failure=reading.problem,
            failed_at=state.failed_at or self._now,
        )

    def _write_entries(self, repository: OrgRepository, reading: OrgReading) -> None:
        """Write the entries of a repository that was read, and record its state.

        If the repository did not change, its entries were not read: they stay in the index, and
        the counts of entries that are not shared stay as they were.
        """
        self.reached_count += 1
        effect = self._find_effect(repository, reading)
        self._names_by_effect[effect].append(repository.name)
        if effect != "unchanged" and not self._dry_run:
            self._engine.sync(repository, reading.head, reading.entries)

        old_state = self._old_states.get(repository.id)
        source_of_counts: OrgReading | OrgState = reading
        if reading.entries is None and old_state is not None:
            source_of_counts = old_state
        self.states[repository.id] = OrgState(
            repository.name,
            reading.target.address,
            repository.audience,
            checked_at=self._now,
            push_stamp=reading.target.push_stamp,
            unsafe_count=source_of_counts.unsafe_count,
            excess_count=source_of_counts.excess_count,
        )

    def _find_effect(self, repository: OrgRepository, reading: OrgReading) -> str:
        """Return the effect of a sync on a repository: added, moved, updated or unchanged.

        It moved if its name, link or audience changed. A local directory never counts as moved: it
        may be named by several paths, and so have several names and links.
        """
        head = self._heads.get(repository.id)
        if head is None:
            return "added"
        if head.repository != repository and not reading.target.is_local:
            return "moved"
        return "unchanged" if reading.entries is None else "updated"

    def drop_missing(self, targets: OrgTargets) -> None:
        """Drop the repositories that are excluded, gone, or no longer in the list of targets.

        If no repository was reached, the network may be at fault, so gone repositories are kept.
        Repositories that are not listed are also kept if a listing is incomplete.
        """
        listed_ids = {target.repository.id for target in targets.targets}
        is_complete = not targets.problem and (self.reached_count or not listed_ids)
        dropped_ids = list(targets.excluded_ids)
        if is_complete:
            dropped_ids += [repo_id for repo_id in self._heads if repo_id not in listed_ids]
        if self.reached_count:
            dropped_ids += self._gone_ids

        for repo_id in dict.fromkeys(dropped_ids):
            if repo_id in self._heads:
                self._drop_repository(self._heads[repo_id])
            self.states.pop(repo_id, None)
        if is_complete:
            for repo_id in self.states.keys() - listed_ids:
                del self.states[repo_id]

    def report(self, targets: OrgTargets, published: tuple[OrgPublished, ...]) -> OrgReport:
        """Return the result of the run: what happened to each repository, and counts of entries.

        Args:
            targets: the repositories to read, and those that are refused or that no line names.
            published: the published files.
        """
        names = self._names_by_effect
        return OrgReport(
            repositories=len(targets.targets),
            unchanged=len(names["unchanged"]),
            added=tuple(names["added"]),
            updated=tuple(names["updated"]),
            moved=tuple(names["moved"]),
            dropped=tuple(names["dropped"]),
            failed=tuple(self.failed),
            refused=targets.refused,
            unnamed_private=targets.unnamed_private,
            entries=sum(head.entries for head in self._engine.heads().values()),
            unsafe_count=sum(state.unsafe_count for state in self.states.values()),
            excess_count=sum(state.excess_count for state in self.states.values()),
            published=published,
            problem=targets.problem,
            is_dry_run=self._dry_run,
        )

    def _drop_repository(self, head: OrgHead) -> None:
        self._names_by_effect["dropped"].append(head.repository.name)
        if not self._dry_run:
            self._engine.drop(head.repository.id)


def in_order(
    pool: ThreadPoolExecutor, work: Callable[[T], R], items: Iterable[T], ahead: int
) -> Iterator[R]:
    """Call a function for items in threads, and yield the results in the order of the items.

    Unlike `pool.map` it bounds the number of results that wait. The order makes equal repositories
    give equal files.

    Args:
        pool: the threads; they are shut down at the end.
        work: the function to call with each item.
        items: the items.
        ahead: how many items are worked on, or wait as results, at the same time.
    """
    futures: deque[Future[R]] = deque()
    try:
        for item in items:
            futures.append(pool.submit(work, item))
            if len(futures) >= ahead:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _open_index(out: str, directory: Path, *, dry_run: bool) -> Iterator[OrgEngine]:
    """Open the index for a sync.

    A sync opens it for writing, and locks it against other syncs. A dry run does the same with a
    directory, because only a writer sees what is not published yet. On a server it opens the index
    for reading, without a lock. If there is no index yet, a dry run opens an empty one in a
    temporary directory.

    Args:
        out: the address of the index.
        directory: the directory of the operator.
        dry_run: write nothing.

    Raises:
        RepositoryError: org-locked.
    """
    with ExitStack() as stack:
        if dry_run and not _has_synced_index(out, directory):
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            engine = open_engine(scratch, is_writer=True)
        elif dry_run and is_server(out):
            engine = open_engine(out, is_writer=False)
        else:
            stack.enter_context(_lock_directory(directory))
            engine = open_engine(out, is_writer=True)
        yield stack.enter_context(closing(engine))


@contextmanager
def _lock_directory(directory: Path) -> Iterator[None]:
    """Hold the lock of the operator's directory in the block; create the directory if needed.

    Raises:
        RepositoryError: org-locked.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory / "lock").open("ab") as lock:
        if not lock_file(lock.fileno()):
            message = f"another sync works on this index ({directory})"
            hint = "Wait for it to end: what it does is not lost."
            raise RepositoryError(message, slug="org-locked", hint=hint)
        yield


def _has_synced_index(out: str, directory: Path) -> bool:
    """Return whether a sync has written an index already.

    Args:
        out: the address of the index.
        directory: the directory of the operator, which the first sync into a directory makes.
    """
    if not is_server(out):
        return directory.is_dir()
    try:
        with closing(open_engine(out)) as engine:
            engine.heads()  # raises if the server has no tables
    except NeverSyncedError:
        return False
    return True


def load_state(engine: OrgEngine) -> dict[str, OrgState]:
    """Return the operator's records of repositories, by id; none if they cannot be read."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(engine.state() or b"{}", type=dict[str, OrgState])
    return {}


def _write_manifests(
    out: Path,
    engine: OrgEngine,
    states: Mapping[str, OrgState],
    published: Iterable[OrgPublished],
    now: datetime,
) -> None:
    """Write a JSON manifest next to the file of each audience, and remove other manifests.

    It has the digest of the file, and the repositories whose entries are in it.
    """
    names = set()
    for publication in published:
        manifest = {
            "audience": publication.audience,
            "file": Path(publication.path).name,
            "sha256": publication.sha256,
            "size": publication.size,
            "written_at": now,
            "repositories": _list_manifest_rows(engine.heads(), states, publication.audience),
            "format": 1,
        }
        name = f"{publication.audience}.json"
        names.add(name)
        write_file(out / name, msgspec.json.format(msgspec.json.encode(manifest)))

    if out.is_dir():
        for path in out.glob("*.json"):
            is_manifest = path.stem in ("public", "internal") or path.stem.startswith("group-")
            if is_manifest and path.name not in names:
                path.unlink(missing_ok=True)


def _list_manifest_rows(
    heads: Mapping[str, OrgHead], states: Mapping[str, OrgState], audience: str
) -> list[dict[str, object]]:
    """Return the repositories of an audience as objects of a manifest, in order of their ids."""
    rows: list[dict[str, object]] = []
    for repo_id, head in sorted(heads.items()):
        if head.repository.audience != audience:
            continue
        state = states.get(repo_id)
        row = {
            "name": head.repository.name,
            "link": head.repository.link,
            "head": head.commit,
            "entries": head.entries,
            "checked_at": state.checked_at if state else None,
            "is_failing": bool(state and state.failure),
        }
        rows.append(row)
    return rows
