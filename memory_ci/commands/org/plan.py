"""Which repositories of an organisation have merged work that no run has read, for a scheduler to start runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from memory_ci.commands.org.sync import JOBS, SECONDS, in_order
from memory_ci.commands.org.targets import OrgTarget, OrgTargets
from memory_ci.errors import EngineError, MemoryCIError, RepositoryError
from memory_ci.gitrepo.history import STEP, find_cursor, iter_merged_changes, plan_range
from memory_ci.gitrepo.network import connect, fetch_history, find_tips
from memory_ci.gitrepo.repo import Repository, find_commit, find_repository
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.memory.workspace import Workspace, memory_test
from memory_ci.records.config import Config, PublishConfig
from memory_ci.store.files import write_file

MATRIX = 256  # Jobs of one matrix, at most (docs.github.com, "Actions limits").
COUNTED = 100  # Changes that are counted; of more a run is as due.
BRANCH = PublishConfig().branch
STATE = "plan.json"


class Waiting(msgspec.Struct, frozen=True):
    """A repository at `head` with so many merged changes that no run has read; None where no cursor is near."""

    name: str
    address: str
    head: str
    waiting: int | None


class OrgPlan(msgspec.Struct, frozen=True):
    """`batches` of repositories that are due, `current` ones that are not; `failed` with the reason; `unasked` for the
    time was over."""

    batches: tuple[tuple[Waiting, ...], ...]
    current: int
    failed: tuple[tuple[str, str], ...] = ()
    unasked: tuple[str, ...] = ()


class _Seen(msgspec.Struct, frozen=True):
    """What was found of a repository at the tips of its default branch and of the branch of its request."""

    tips: tuple[str, str]
    waiting: int | None


def plan_org(
    gather: Callable[[Path], OrgTargets],
    environ: Mapping[str, str],
    *,
    batch: int = MATRIX,
    state: Path | None = None,
    deadline: float | None = None,
    jobs: int = JOBS,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> OrgPlan:
    """Ask each repository for its tips, and those that moved for their last cursor. Nothing is written to them.

    `state` keeps what was found, so that the next plan fetches only from those that moved. `deadline` is in seconds
    from now. Raises UsageError (bad-list), EngineError (`forge-…`, org-unreachable).
    """
    end = time.monotonic() + deadline if deadline is not None else None
    with tempfile.TemporaryDirectory() as cache:
        targets = gather(Path(cache)).targets
    known = _load(state)

    def ask(target: OrgTarget) -> _Seen | str | None:
        if end is not None and time.monotonic() >= end:
            return None
        try:
            return _look(target, known.get(target.repository.id), environ)
        except MemoryCIError as error:
            return error.message

    due, failed, unasked, seen = [], [], [], dict(known)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for done, (target, found) in enumerate(
            zip(targets, in_order(pool, ask, targets, jobs * 4), strict=True), 1
        ):
            advance(done, len(targets))
            if found is None:
                unasked.append(target.repository.name)
            elif isinstance(found, str):
                failed.append((target.repository.name, found))
            else:
                seen[target.repository.id] = found
                if found.waiting != 0:
                    due.append(
                        Waiting(
                            target.repository.name, target.address, found.tips[0], found.waiting
                        )
                    )
    if state is not None:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        ids = [target.repository.id for target in targets if target.repository.id in seen]
        write_file(state / STATE, msgspec.json.encode({id_: seen[id_] for id_ in ids}))
    if failed and len(failed) == len(targets):
        hint = "Check the network and the credentials, and run again."
        message = (
            f"none of {len(targets)} repositories can be reached ({failed[0][0]}: {failed[0][1]})"
        )
        raise EngineError(message, slug="org-unreachable", hint=hint)
    batches = tuple(tuple(due[at : at + batch]) for at in range(0, len(due), batch))
    current = len(targets) - len(due) - len(failed) - len(unasked)
    return OrgPlan(batches, current, tuple(failed), tuple(unasked))


def _load(state: Path | None) -> dict[str, _Seen]:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(
            (state / STATE).read_bytes() if state else b"{}", type=dict[str, _Seen]
        )
    return {}


def _look(target: OrgTarget, known: _Seen | None, environ: Mapping[str, str]) -> _Seen:
    """Raises EngineError (remote-failed), RepositoryError."""
    if target.is_gone or target.problem:
        raise EngineError(target.problem or "there is no such repository", slug="remote-failed")
    remote = connect(target.address, environ)
    head, update = find_tips(remote, ("HEAD", f"refs/heads/{BRANCH}"), SECONDS)
    if known is not None and known.tips == (head, update):
        return known
    if not head or target.is_local:
        return _Seen(
            (head, update),
            _count(find_repository(Path(target.address), is_named=True), head, update)
            if head
            else 0,
        )
    with tempfile.TemporaryDirectory(prefix="memory-ci-org-") as place:
        repo = fetch_history(
            remote, Path(place) / "repository", [one for one in (head, update) if one], SECONDS
        )
        return _Seen((head, update), _count(repo, head, update))


def _count(repo: Repository, head: str, update: str) -> int | None:
    """Merged changes that neither the branch nor its request has read; None where no cursor is near."""
    is_memory = memory_test(Workspace(repo, Config()))
    cursors = (
        find_cursor(repo, tip, is_memory)
        for tip in (update, head)
        if tip and find_commit(repo, tip)
    )
    sources = [cursor.source for cursor in cursors if cursor]

    def list_unread(source: str) -> Iterator[str]:
        for change in iter_merged_changes(repo, plan_range(repo, source, head)):
            files = [file.path for commit in change.commits for file in commit.files]
            if not (
                find_trailers(change.tip.message, (STEP,)) or (files and all(map(is_memory, files)))
            ):
                yield change.tip.sha

    try:
        return min(
            (sum(1 for _ in islice(list_unread(one), COUNTED)) for one in sources), default=None
        )
    except RepositoryError as error:
        if error.slug != "shallow-clone":
            raise
        return None
