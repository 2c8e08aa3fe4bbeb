"""Sync: the organisation's index made equal to the memory of its repositories, as far as they can be read today."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from memory_ci.commands.org.engine import NeverSyncedError, OrgEngine
from memory_ci.commands.org.index import is_server, open_engine, state_directory
from memory_ci.commands.org.records import OrgHead, OrgPublished
from memory_ci.commands.org.targets import OrgLook, OrgTarget, OrgTargets, look
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.files import lock_file
from memory_ci.store.files import write_file

JOBS, SECONDS = (
    8,
    120.0,
)  # Repositories that are looked at together, and seconds for each git of one.
AHEAD = 4  # Times so many are read before what the first gave is written: bounds what is held in memory.
T = TypeVar("T")
R = TypeVar("R")


class OrgState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the operator knows of a repository. `checked_at`: when it was last seen to be as the index has it."""

    name: str
    address: str
    audience: str
    checked_at: datetime | None = None
    stamp: str = ""
    gated: int = 0
    cut: int = 0
    failure: str = ""
    failed_at: datetime | None = None


class OrgReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a sync did, by names of repositories; `failed` keep their rows, `refused` and `dropped` have none.

    `left_out`: private ones of a listing that no line names. `gated` entries must not be shown to others; `cut` ones
    are too many or too large. `problem`: why nothing that is missing was taken for gone.
    """

    repositories: int
    unchanged: int
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()
    entries: int = 0
    gated: int = 0
    cut: int = 0
    published: tuple[OrgPublished, ...] = ()
    problem: str = ""
    is_dry_run: bool = False


def sync_org(
    out: str,
    gather: Callable[[Path], OrgTargets],
    environ: Mapping[str, str],
    now: datetime,
    *,
    jobs: int = JOBS,
    seconds: float = SECONDS,
    dry_run: bool = False,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> OrgReport:
    """Bring the index at `out` up to what `gather` names; each repository is one transaction, so a run that is cut
    short is gone on with. `gather` is given a directory to cache replies in. Raises UsageError (bad-list); EngineError:
    `forge-…`, org-unreachable when no repository at all answered (then nothing is dropped); RepositoryError:
    org-locked, write-failed."""
    place = state_directory(out)
    with tempfile.TemporaryDirectory() as elsewhere:
        targets = gather(Path(elsewhere) if dry_run else place / "forge")
    with _opened(out, place, dry_run=dry_run) as engine:
        run = _Run(engine, now, dry_run=dry_run)
        scratch = place.absolute() / "scratch" if place.is_dir() else None
        if scratch:  # a run that was killed left something there
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(exist_ok=True)
        look_at = partial(run.look, environ=environ, seconds=seconds, scratch=scratch)
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            for done, seen in enumerate(in_order(pool, look_at, targets.targets, jobs * AHEAD), 1):
                run.take(seen)
                advance(done, len(targets.targets))
        run.drop_missing(targets)
        published: tuple[OrgPublished, ...] = ()
        if not dry_run:
            published = tuple(engine.publish())
            engine.keep_state(msgspec.json.encode(run.states))
            _write_manifests(Path(out), engine, run.states, published, now)
        if targets.targets and not run.reached:
            told = "; ".join(f"{name}: {why}" for name, why in run.failed[:3]) or "each is gone"
            message = f"none of {len(targets.targets)} repositories can be reached ({told})"
            hint = "What is there keeps its rows. Check the network and the credentials, and run again."
            raise EngineError(message, slug="org-unreachable", hint=hint)
        return run.report(targets, published)


class _Run:
    """One sync: what was known, and what became of each repository."""

    def __init__(self, engine: OrgEngine, now: datetime, *, dry_run: bool) -> None:
        self._engine, self._now, self._dry_run = engine, now, dry_run
        self._known, self._before = dict(engine.heads()), load_state(engine)
        self.states = dict(self._before)
        self._named: defaultdict[str, list[str]] = defaultdict(list)
        self.failed: list[tuple[str, str]] = []
        self.reached = 0
        self._gone: list[str] = []

    def look(
        self, target: OrgTarget, environ: Mapping[str, str], seconds: float, scratch: Path | None
    ) -> OrgLook:
        """In a thread of its own: reads only. Rows of another audience than today's are read anew."""
        known, state = self._known.get(target.repository.id), self._before.get(target.repository.id)
        if known is not None and known.repository.audience != target.repository.audience:
            known = None
        return look(
            target,
            known,
            state.stamp if state and not state.failure else "",
            environ,
            seconds,
            scratch,
        )

    def take(self, seen: OrgLook) -> None:
        """Write what one repository gave."""
        repository = seen.repository or seen.target.repository
        known, state = self._known.get(repository.id), self._before.get(repository.id)
        links = (head.repository.link for head in self._known.values())
        if (
            seen.is_gone and known is None and repository.link not in links
        ):  # a typo: nothing that was here is gone
            seen = replace(
                seen, is_gone=False, problem=f"there is no repository at {seen.target.address}"
            )
        if seen.is_gone:
            self._gone.append(repository.id)
        elif seen.problem:
            self.failed.append((repository.name, seen.problem))
            if known is not None and known.repository.audience != repository.audience:
                self._drop(known)  # who may read it today was not allowed to be wrong
            base = state or OrgState(repository.name, seen.target.address, repository.audience)
            since = base.failed_at or self._now
            base = replace(
                base, audience=repository.audience, failure=seen.problem, failed_at=since
            )
            self.states[repository.id] = base
        else:
            self.reached += 1
            is_renamed = (
                known is not None and known.repository != repository and not seen.target.is_local
            )
            is_known = known is not None and seen.entries is None and not is_renamed
            done = (
                "added"
                if known is None
                else "moved"
                if is_renamed
                else "unchanged"
                if is_known
                else "updated"
            )
            self._named[done].append(repository.name)
            if not (is_known or self._dry_run):
                self._engine.sync(repository, seen.head, seen.entries)
            told = state if seen.entries is None and state else seen
            place = repository.name, seen.target.address, repository.audience
            self.states[repository.id] = OrgState(
                *place, self._now, seen.target.stamp, told.gated, told.cut
            )

    def drop_missing(self, targets: OrgTargets) -> None:
        """Forget what is shut; and, if something was reached, what is gone, and what a whole listing names no more."""
        named = {target.repository.id for target in targets.targets}
        is_whole = not targets.problem and (self.reached or not named)
        missing = [id_ for id_ in self._known if id_ not in named] if is_whole else []
        for id_ in dict.fromkeys([*targets.shut, *missing, *(self._gone if self.reached else ())]):
            if (known := self._known.get(id_)) is not None:
                self._drop(known)
            self.states.pop(id_, None)
        if is_whole:
            self.states = {id_: state for id_, state in self.states.items() if id_ in named}

    def report(self, targets: OrgTargets, published: tuple[OrgPublished, ...]) -> OrgReport:
        """What was done."""
        names = self._named
        return OrgReport(
            repositories=len(targets.targets),
            unchanged=len(names["unchanged"]),
            added=tuple(names["added"]),
            updated=tuple(names["updated"]),
            moved=tuple(names["moved"]),
            dropped=tuple(names["dropped"]),
            failed=tuple(self.failed),
            refused=targets.refused,
            left_out=targets.left_out,
            entries=sum(head.entries for head in self._engine.heads().values()),
            gated=sum(state.gated for state in self.states.values()),
            cut=sum(state.cut for state in self.states.values()),
            published=published,
            problem=targets.problem,
            is_dry_run=self._dry_run,
        )

    def _drop(self, known: OrgHead) -> None:
        self._named["dropped"].append(known.repository.name)
        if not self._dry_run:
            self._engine.drop(known.repository.id)


def in_order(
    pool: ThreadPoolExecutor, work: Callable[[T], R], items: Iterable[T], ahead: int
) -> Iterator[R]:
    """What `work` gives for each, in their order, so that the same repositories give the same file."""
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _opened(out: str, place: Path, *, dry_run: bool) -> Iterator[OrgEngine]:
    """The engine, for one writer at a time. Raises RepositoryError (org-locked)."""
    is_there = place.is_dir()
    if is_server(out) and dry_run:
        is_there = False
        with suppress(NeverSyncedError), closing(open_engine(out)) as engine:
            engine.heads()
            is_there = True
    with ExitStack() as stack:
        if dry_run and not is_there:
            out = stack.enter_context(tempfile.TemporaryDirectory())
        elif not (dry_run and is_server(out)):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not lock_file(stack.enter_context((place / "lock").open("ab")).fileno()):
                hint = "Wait for it to end: what it does is not lost."
                raise RepositoryError(
                    f"another sync works on this index ({place})", slug="org-locked", hint=hint
                )
        is_writer = not (dry_run and is_server(out))
        yield stack.enter_context(closing(open_engine(out, is_writer=is_writer)))


def load_state(engine: OrgEngine) -> dict[str, OrgState]:
    """What the last sync told of each repository, by its id; nothing where that cannot be read."""
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
    """A manifest beside the file of each audience; those of audiences that are gone go."""
    heads, kept = engine.heads(), set()
    for one in published:
        rows = [
            {
                "name": head.repository.name,
                "link": head.repository.link,
                "head": head.head,
                "entries": head.entries,
                "checked_at": state.checked_at if (state := states.get(id_)) else None,
                "is_failing": bool(state and state.failure),
            }
            for id_, head in sorted(heads.items())
            if head.repository.audience == one.audience
        ]
        about = {
            "audience": one.audience,
            "file": Path(one.path).name,
            "sha256": one.sha256,
            "size": one.size,
        }
        manifest = {**about, "written_at": now, "repositories": rows, "format": 1}
        kept.add(f"{one.audience}.json")
        write_file(out / f"{one.audience}.json", msgspec.json.format(msgspec.json.encode(manifest)))
    for path in out.glob("*.json") if out.is_dir() else ():
        if path.name not in kept and (
            path.stem in ("public", "internal") or path.stem.startswith("group-")
        ):
            path.unlink(missing_ok=True)


class OrgDifference(msgspec.Struct, frozen=True):
    """A repository of which the index does not hold what it holds, and what differs. `is_behind`: only newer work."""

    name: str
    what: str
    is_behind: bool = False


class AudienceStatus(msgspec.Struct, frozen=True):
    """One audience: what is published, and since when the oldest of it was not seen to be current."""

    audience: str
    repositories: int
    entries: int
    size: int
    oldest: datetime | None


class OrgStatus(msgspec.Struct, frozen=True):
    """How the index is kept; `failing` repositories as (name, since when, why), which keep their rows."""

    audiences: tuple[AudienceStatus, ...]
    failing: tuple[tuple[str, datetime | None, str], ...]
    gated: int
    cut: int


def org_status(index: str) -> OrgStatus:
    """The state of an index; failures are known where its operator runs this. Raises EngineError (org-missing)."""
    with closing(open_engine(index)) as engine:
        heads, states = engine.heads(), load_state(engine)
        sizes = {
            name: engine.size(name)
            for name in sorted({head.repository.audience for head in heads.values()})
        }
    audiences = []
    for name, size in sizes.items():
        mine = [head for head in heads.values() if head.repository.audience == name]
        checked = [
            state.checked_at
            for head in mine
            if (state := states.get(head.repository.id)) and state.checked_at
        ]
        entries = sum(head.entries for head in mine)
        audiences.append(AudienceStatus(name, len(mine), entries, size, min(checked, default=None)))
    failing = [
        (state.name, state.failed_at, state.failure) for state in states.values() if state.failure
    ]
    return OrgStatus(
        tuple(audiences),
        tuple(sorted(failing, key=lambda one: one[0])),
        sum(state.gated for state in states.values()),
        sum(state.cut for state in states.values()),
    )


def verify_org(
    index: str,
    environ: Mapping[str, str],
    *,
    jobs: int = JOBS,
    seconds: float = SECONDS,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[tuple[OrgDifference, ...], int]:
    """What reading all repositories anew shows to differ, row for row; and how many there are. Raises EngineError
    (org-missing, org-damaged)."""
    with closing(open_engine(index)) as engine, ThreadPoolExecutor(max_workers=jobs) as pool:
        heads, states = engine.heads(), load_state(engine)
        unknown = heads.keys() - states.keys()
        if unknown:
            hint = "Verify where the index was synced: the addresses of the repositories are kept there."
            raise EngineError(
                f"{index} is not where this index is synced", slug="org-missing", hint=hint
            )
        targets = [
            OrgTarget(head.repository, states[id_].address) for id_, head in sorted(heads.items())
        ]
        looks = in_order(
            pool, lambda target: look(target, None, "", environ, seconds), targets, jobs
        )
        differences = []
        for done, seen in enumerate(looks, 1):
            head = heads[seen.target.repository.id]
            name = head.repository.name
            if seen.is_gone or seen.problem:
                differences.append(OrgDifference(name, seen.problem or "is gone", is_behind=True))
            elif seen.head != head.head:
                what = f"is at {seen.head[:12]}, the index at {head.head[:12]}"
                differences.append(OrgDifference(name, what, is_behind=True))
            else:
                held = engine.entries(head.repository.id)
                fresh = sorted(
                    seen.entries or (), key=lambda place: (place.path, place.line, place.entry.id)
                )
                if held != fresh:
                    pairs = zip([*held, None], [*fresh, None], strict=False)
                    other = next((one for one, two in pairs if one != two), None)
                    place = f"; the first that differs: {other.path}:{other.line}" if other else ""
                    what = f"the index has {len(held)} entries, the repository {len(fresh)}{place}"
                    differences.append(OrgDifference(name, what))
            advance(done, len(targets))
    return tuple(differences), len(targets)
