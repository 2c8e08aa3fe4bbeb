"""The repositories of an organisation that have unread merged work, for a scheduler of runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from memory_ci.commands.org.sync import JOBS, SECONDS, in_order
from memory_ci.commands.org.targets import OrgTarget, OrgTargets
from memory_ci.errors import EngineError, MemoryCIError, RepositoryError
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.network import connect, fetch_history, find_tips
from memory_ci.gitrepo.record_commits import STEP, find_cursor
from memory_ci.gitrepo.repo import Repository, find_commit, find_repository
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.memory.workspace import Workspace, build_memory_test
from memory_ci.records.config import Config, PublishConfig
from memory_ci.records.history import MergedChange
from memory_ci.store.files import write_file

MATRIX = 256  # Jobs of one matrix, at most (docs.github.com, "Actions limits").
COUNTED = 100  # Unread changes that are counted; with more a run is no more urgent.
AHEAD = 4  # Answers per job that may wait.
BRANCH = PublishConfig().branch
STATE = "plan.json"


class Waiting(msgspec.Struct, frozen=True):
    """A repository at `head` and how many merged changes no run has read.

    `waiting` is None where no cursor is among the newest commits.
    """

    name: str
    address: str
    head: str
    waiting: int | None


class OrgPlan(msgspec.Struct, frozen=True):
    """The repositories that are due for a run.

    Attributes:
        batches: the repositories that are due, in batches.
        current: how many are not due.
        failed: those that could not be asked, as (name, reason).
        unasked: those that were not asked before the deadline.
    """

    batches: tuple[tuple[Waiting, ...], ...]
    current: int
    failed: tuple[tuple[str, str], ...] = ()
    unasked: tuple[str, ...] = ()


class UnreadWork(msgspec.Struct, frozen=True):
    """The number of merged changes that no run has read, and the tips at which it was counted.

    `tips` are those of the default branch and of the branch of the request.
    """

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
    advance: Callable[[int, int], None] = lambda _done, _total: None,
) -> OrgPlan:
    """Return the repositories that have unread merged work. Nothing is written to them.

    Each is asked for its tips, and those that moved for their last cursor.

    Args:
        gather: returns the repositories; its argument is a directory to cache replies in.
        environ: the environment, which has the tokens.
        batch: how many repositories a batch has at most.
        state: a directory for the counts; the next plan fetches only tips that moved since.
        deadline: the seconds after which no further repository is asked.
        jobs: how many repositories are asked at the same time.
        advance: is called with the number of repositories done, and of all.

    Raises:
        UsageError: bad-list.
        EngineError: `forge-…`; org-unreachable if no repository can be asked.
    """
    end = time.monotonic() + deadline if deadline is not None else None
    with tempfile.TemporaryDirectory() as cache:
        targets = gather(Path(cache)).targets
    last_counts = _load_counts(state)
    counts = dict(last_counts)

    def count(target: OrgTarget) -> UnreadWork | str | None:
        if end is not None and time.monotonic() >= end:
            return None
        try:
            return _count_target(target, last_counts.get(target.repository.id), environ)
        except MemoryCIError as error:
            return error.message

    due: list[Waiting] = []
    failed: list[tuple[str, str]] = []
    unasked: list[str] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        answers = in_order(pool, count, targets, jobs * AHEAD)
        for done, (target, answer) in enumerate(zip(targets, answers, strict=True), 1):
            advance(done, len(targets))
            name = target.repository.name
            if answer is None:
                unasked.append(name)
            elif isinstance(answer, str):
                failed.append((name, answer))
            else:
                counts[target.repository.id] = answer
                if answer.waiting != 0:
                    due.append(Waiting(name, target.address, answer.tips[0], answer.waiting))

    if state is not None:
        _save_counts(state, targets, counts)
    if failed and len(failed) == len(targets):
        failure = ": ".join(failed[0])
        message = f"none of {len(targets)} repositories can be reached ({failure})"
        hint = "Check the network and the credentials, and run again."
        raise EngineError(message, slug="org-unreachable", hint=hint)

    return OrgPlan(
        batches=tuple(tuple(due[start : start + batch]) for start in range(0, len(due), batch)),
        current=len(targets) - len(due) - len(failed) - len(unasked),
        failed=tuple(failed),
        unasked=tuple(unasked),
    )


def _load_counts(state: Path | None) -> dict[str, UnreadWork]:
    """Return the counts of the last plan, by repository id; none if they cannot be read."""
    if state is not None:
        with suppress(OSError, msgspec.DecodeError):
            data = (state / STATE).read_bytes()
            return msgspec.json.decode(data, type=dict[str, UnreadWork])
    return {}


def _save_counts(
    state: Path, targets: Sequence[OrgTarget], counts: Mapping[str, UnreadWork]
) -> None:
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    ids = [target.repository.id for target in targets]
    saved = {id_: counts[id_] for id_ in ids if id_ in counts}
    write_file(state / STATE, msgspec.json.encode(saved))


def _count_target(
    target: OrgTarget, last_count: UnreadWork | None, environ: Mapping[str, str]
) -> UnreadWork:
    """Count the unread changes of a repository; the last count holds if no tip moved.

    Raises:
        EngineError: remote-failed.
        RepositoryError: a local repository cannot be read.
    """
    if target.is_gone or target.problem:
        raise EngineError(target.problem or "there is no such repository", slug="remote-failed")
    remote = connect(target.address, environ)
    head, update = find_tips(remote, ("HEAD", f"refs/heads/{BRANCH}"), SECONDS)
    tips = (head, update)
    if last_count is not None and last_count.tips == tips:
        return last_count
    if not head:
        return UnreadWork(tips, 0)
    if target.is_local:
        repo = find_repository(Path(target.address), is_named=True)
        return UnreadWork(tips, _count_unread(repo, head, update))

    with tempfile.TemporaryDirectory(prefix="memory-ci-org-") as directory:
        commits = [tip for tip in tips if tip]
        repo = fetch_history(remote, Path(directory) / "repository", commits, SECONDS)
        return UnreadWork(tips, _count_unread(repo, head, update))


def _count_unread(repo: Repository, head: str, update: str) -> int | None:
    """Count the merged changes that neither a branch nor its request has read, up to `COUNTED`.

    Args:
        repo: the repository.
        head: the tip of its default branch.
        update: the tip of the branch of its request, or "".

    Returns:
        The number; None where no cursor is among the commits that are fetched.
    """
    is_memory = build_memory_test(Workspace(repo, Config()))
    tips = [tip for tip in (update, head) if tip and find_commit(repo, tip)]
    cursors = [find_cursor(repo, tip, is_memory) for tip in tips]
    numbers = []
    try:
        for cursor in cursors:
            if cursor is not None:
                unread = _iter_unread(repo, cursor.source, head, is_memory)
                numbers.append(sum(1 for _ in islice(unread, COUNTED)))
    except RepositoryError as error:
        if error.slug != "shallow-clone":
            raise
        return None
    return min(numbers, default=None)


def _iter_unread(
    repo: Repository, source: str, head: str, is_memory: Callable[[str], bool]
) -> Iterator[MergedChange]:
    """Yield the changes after a cursor, without those that runs made and those of memory alone."""
    for change in iter_merged_changes(repo, plan_range(repo, source, head)):
        paths: list[str] = []
        for commit in change.commits:
            paths += [file.path for file in commit.files]
        is_of_memory = bool(paths) and all(is_memory(path) for path in paths)
        if not is_of_memory and not find_trailers(change.tip.message, (STEP,)):
            yield change
