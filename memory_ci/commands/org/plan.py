"""`memory-ci org plan`: lists the repositories with merged changes that no run has read yet.

A scheduler starts a run of `memory-ci record` for each.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from memory_ci.commands.org.sync import DEFAULT_JOBS, GIT_SECONDS, in_order
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

MAX_MATRIX_JOBS = 256  # Jobs of one matrix, at most (docs.github.com, "Actions limits").
MAX_COUNT = 100  # Unread changes that are counted; with more a run is no more urgent.
ANSWERS_AHEAD = 4  # Answers per job that may wait.
REQUEST_BRANCH = PublishConfig().branch
STATE_FILE = "plan.json"


class WaitingRepository(msgspec.Struct, frozen=True):
    """A repository with merged changes that no run has read.

    Attributes:
        name: its name.
        address: the address to clone it from.
        head: the commit of its default branch.
        waiting: the number of the changes; None if the commit up to which a run has read is older
            than the commits that were fetched.
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

    batches: tuple[tuple[WaitingRepository, ...], ...]
    current: int
    failed: tuple[tuple[str, str], ...] = ()
    unasked: tuple[str, ...] = ()


class UnreadWork(msgspec.Struct, frozen=True):
    """The number of merged changes that no run has read, and the tips at which it was counted.

    Attributes:
        tips: the commits of the default branch and of the branch of the request with memory,
            "" for a branch that does not exist.
        waiting: the number, as in `WaitingRepository`.
    """

    tips: tuple[str, str]
    waiting: int | None


def plan_org(
    gather: Callable[[Path], OrgTargets],
    environ: Mapping[str, str],
    *,
    batch: int = MAX_MATRIX_JOBS,
    state: Path | None = None,
    deadline: float | None = None,
    jobs: int = DEFAULT_JOBS,
    advance: Callable[[int, int], None] = lambda _done, _total: None,
) -> OrgPlan:
    """Return the repositories that have unread merged work. Nothing is written to them.

    The tips of the branches of each repository are asked for. Where one moved since the last plan,
    the newest commits are fetched and the unread changes counted.

    Args:
        gather: returns the repositories; its argument is a directory to cache replies in.
        environ: the environment, which has the tokens.
        batch: how many repositories a batch has at most.
        state: a directory where the counts are kept for the next plan, None to keep none.
        deadline: the seconds after which no further repository is asked.
        jobs: how many repositories are asked at the same time.
        advance: is called with the number of repositories done, and of all.

    Raises:
        UsageError: bad-list.
        EngineError: `forge-…`; org-unreachable if no repository can be asked.
    """
    end_time = time.monotonic() + deadline if deadline is not None else None
    with tempfile.TemporaryDirectory() as cache:
        targets = gather(Path(cache)).targets
    last_counts = _load_counts(state)

    def count_before_deadline(target: OrgTarget) -> UnreadWork | str | None:
        """Count the unread changes of a repository, unless the deadline is over.

        Returns:
            The count; the message of an error; None after the deadline.
        """
        if end_time is not None and time.monotonic() >= end_time:
            return None
        try:
            return _count_target(target, last_counts.get(target.repository.id), environ)
        except MemoryCIError as error:
            return error.message

    counts = dict(last_counts)
    due_repositories: list[WaitingRepository] = []
    failed_repositories: list[tuple[str, str]] = []
    unasked_names: list[str] = []
    results = _count_in_threads(count_before_deadline, targets, jobs, advance)
    for target, result in zip(targets, results, strict=True):
        name = target.repository.name
        if result is None:
            unasked_names.append(name)
        elif isinstance(result, str):
            failed_repositories.append((name, result))
        else:
            counts[target.repository.id] = result
            if result.waiting != 0:
                head, _ = result.tips
                due_repositories.append(
                    WaitingRepository(name, target.address, head, result.waiting)
                )

    if state is not None:
        _save_counts(state, targets, counts)
    if failed_repositories and len(failed_repositories) == len(targets):
        raise _make_unreachable_error(failed_repositories)
    batches = [
        tuple(due_repositories[start : start + batch])
        for start in range(0, len(due_repositories), batch)
    ]
    return OrgPlan(
        batches=tuple(batches),
        current=len(targets)
        - len(due_repositories)
        - len(failed_repositories)
        - len(unasked_names),
        failed=tuple(failed_repositories),
        unasked=tuple(unasked_names),
    )


def _count_in_threads(
    count_target: Callable[[OrgTarget], UnreadWork | str | None],
    targets: Sequence[OrgTarget],
    jobs: int,
    advance: Callable[[int, int], None],
) -> Iterator[UnreadWork | str | None]:
    """Count the unread changes of each target in threads, and yield the counts in their order.

    Args:
        count_target: counts the changes of one target.
        targets: the targets.
        jobs: how many targets are worked on at the same time.
        advance: is called with the number of targets done, and of all.
    """
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        results = in_order(pool, count_target, targets, jobs * ANSWERS_AHEAD)
        for done, result in enumerate(results, start=1):
            advance(done, len(targets))
            yield result


def _make_unreachable_error(failed_repositories: Sequence[tuple[str, str]]) -> EngineError:
    """Return the error for a plan where every repository failed, with the first reason."""
    name, reason = failed_repositories[0]
    message = f"none of {len(failed_repositories)} repositories can be reached ({name}: {reason})"
    hint = "Check the network and the credentials, and run again."
    return EngineError(message, slug="org-unreachable", hint=hint)


def _load_counts(state: Path | None) -> dict[str, UnreadWork]:
    """Return the counts of the last plan, by repository id; none if they cannot be read."""
    if state is not None:
        with suppress(OSError, msgspec.DecodeError):
            data = (state / STATE_FILE).read_bytes()
            return msgspec.json.decode(data, type=dict[str, UnreadWork])
    return {}


def _save_counts(
    state: Path, targets: Sequence[OrgTarget], counts: Mapping[str, UnreadWork]
) -> None:
    """Save the counts of those repositories that are still listed."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    saved: dict[str, UnreadWork] = {}
    for target in targets:
        repository_id = target.repository.id
        if repository_id in counts:
            saved[repository_id] = counts[repository_id]
    write_file(state / STATE_FILE, msgspec.json.encode(saved))


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
    head, request_tip = find_tips(remote, ("HEAD", f"refs/heads/{REQUEST_BRANCH}"), GIT_SECONDS)
    tips = (head, request_tip)
    if last_count is not None and last_count.tips == tips:
        return last_count
    if not head:
        return UnreadWork(tips, 0)
    if target.is_local:
        repo = find_repository(Path(target.address), is_named=True)
        return UnreadWork(tips, _count_unread(repo, head, request_tip))

    with tempfile.TemporaryDirectory(prefix="memory-ci-org-") as directory:
        commits = [tip for tip in tips if tip]
        repo = fetch_history(remote, Path(directory) / "repository", commits, GIT_SECONDS)
        return UnreadWork(tips, _count_unread(repo, head, request_tip))


def _count_unread(repo: Repository, head: str, request_tip: str) -> int | None:
    """Count the merged changes that no run of memory-ci has read, up to `MAX_COUNT`.

    A run notes in its commits up to which commit it has read (the cursor). Where the default branch
    is protected, a run commits to a branch of its own and opens a request to merge it. So the
    newest run may be on either branch, and the smaller of the two numbers counts.

    Args:
        repo: the repository.
        head: the tip of its default branch.
        request_tip: the tip of the branch of such a request, "" if there is none.

    Returns:
        The number; None where no cursor is among the commits that are fetched.
    """
    is_memory = build_memory_test(Workspace(repo, Config()))
    tips = [tip for tip in (request_tip, head) if tip and find_commit(repo, tip)]
    cursors = [find_cursor(repo, tip, is_memory) for tip in tips]
    counts = []
    try:
        for cursor in cursors:
            if cursor is not None:
                unread_changes = _iter_unread_changes(repo, cursor.source, head, is_memory)
                counts.append(sum(1 for _ in islice(unread_changes, MAX_COUNT)))
    except RepositoryError as error:
        if error.slug != "shallow-clone":
            raise
        return None
    return min(counts, default=None)


def _iter_unread_changes(
    repo: Repository, last_read_sha: str, head: str, is_memory: Callable[[str], bool]
) -> Iterator[MergedChange]:
    """Yield the merged changes after a commit up to `head` from which a run may learn.

    Left out are the changes that runs of memory-ci made, which have the trailer STEP in their
    message, and the changes of memory files alone.
    """
    for change in iter_merged_changes(repo, plan_range(repo, last_read_sha, head)):
        paths: list[str] = []
        for commit in change.commits:
            paths += [file.path for file in commit.files]
        is_memory_alone = bool(paths) and all(is_memory(path) for path in paths)
        is_run = bool(find_trailers(change.tip.message, (STEP,)))
        if not is_memory_alone and not is_run:
            yield change
