"""Landing of a run: it is planned on the tip of the remote's branch, committed and pushed.

If others move the branch meanwhile, the run is planned again on the new tip; no text is rebased.
Either everything lands, or nothing. A run publishes as often as `publish.every` says, and never
moves the branch of a pull request under review. A run that is not due plans nothing, and the next
run that is due covers the same range.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from random import SystemRandom

import msgspec
from msgspec.structs import replace

from memory_ci.commands.publish.carry_over import RANGE_COVERED, is_covered
from memory_ci.commands.publish.text import TITLE
from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.forge.proposals import GitHubCommitter, Proposal, Proposals
from memory_ci.forge.rules import format_settings
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.log import FILE_OPTIONS, read_commit_time, read_log
from memory_ci.gitrepo.merges import fast_forward, private_ref
from memory_ci.gitrepo.network import DEEPER, PushOutcome, Remote, deepen, fetch_tip, push_tip
from memory_ci.gitrepo.record_commits import STEP, find_cursor
from memory_ci.gitrepo.repo import Repository, resolve_commit
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.memory.apply import Applied, apply_plan, remove_source_trailer
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    PRIVATE_REFS,
    Workspace,
    build_memory_test,
    workspace_at,
)
from memory_ci.records.config import PublishConfig
from memory_ci.records.history import Commit
from memory_ci.records.names import HEADS
from memory_ci.records.plan import Plan, Published

BY_PUSH = {"GITHUB_EVENT_NAME": "push", "CI_PIPELINE_SOURCE": "push"}
"""Variables of a job that a push started. Our own push must not start a run without end."""

BY_HAND = {"GITHUB_EVENT_NAME": "workflow_dispatch", "CI_PIPELINE_SOURCE": "web"}
"""Variables of a job that a person started; it does not wait until it is due."""

STARTED_BY_OWN_PUSH = "nothing but memory was pushed: nothing to do"

Planner = Callable[[str, frozenset[str]], Plan]
"""Plans a run, as `commands.record.run.plan_record`.

Its arguments are a ref, and the content keys of the candidates that a person accepted.
"""

Send = Callable[[str, str], PushOutcome]
"""Puts the commits between a base and a tip on the remote's branch, if that is at the base."""

SKIP_PIPELINE = "ci.skip"
"""A push option. Unlike `[skip ci]` it is in no commit, so nothing can copy it."""

DESCRIPTION = (
    "What memory would gain from merged work: the commits say it entry by entry. Maintainers have "
    "the last word on this branch: an entry taken out is not proposed again, one reworded keeps "
    "their words."
)

MAX_TRIES = 8  # Pushes that are tried while others move the branch.
MAX_SECONDS = 60.0  # Seconds in which they are tried.

BASE_SECONDS = 0.25
CAP_SECONDS = 10.0
"""Waits are drawn evenly between 0 and a bound that doubles up to this cap.

Full jitter keeps writers apart that collided once.
"""

RANDOM = SystemRandom()


class Pace:
    """The number of tries of a run, and the random waits between them."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[float, float], float] = RANDOM.uniform,
    ) -> None:
        """Keep time by the given functions.

        Args:
            clock: returns seconds that never go back.
            sleep: waits for seconds.
            draw: returns a random number between two numbers.
        """
        self._clock = clock
        self._sleep = sleep
        self._draw = draw

    def tries(self) -> Iterator[int]:
        """Yield the numbers of the tries, 1 first, with a random wait before each later one.

        It ends after `MAX_TRIES`, or when the next wait would exceed `MAX_SECONDS`.
        """
        end = self._clock() + MAX_SECONDS
        yield 1
        for number in range(2, MAX_TRIES + 1):
            longest_wait = min(CAP_SECONDS, BASE_SECONDS * 2**number)
            wait = self._draw(0, longest_wait)
            if self._clock() + wait >= end:
                return
            self._sleep(wait)
            yield number


class Run(msgspec.Struct, frozen=True):
    """A run that is published.

    Attributes:
        workspace: the repository.
        remote: the remote.
        branch: the short name of the branch.
        make_plan: plans the run.
        now: the time of the commits.
        environ: the environment of the job.
        pace: how often it is tried.
        accepted_keys: content keys of the candidates that a person accepted.
        is_by_person: a person started the run, so it is published now, whatever `publish.every`
            says.
        is_range_named: the caller named the range.
    """

    workspace: Workspace
    remote: Remote
    branch: str
    make_plan: Planner
    now: datetime
    environ: Mapping[str, str]
    pace: Pace
    accepted_keys: frozenset[str] = frozenset()
    is_by_person: bool = False
    is_range_named: bool = False

    @property
    def in_actions(self) -> bool:
        """Whether the job runs in GitHub Actions."""
        return "GITHUB_ACTIONS" in self.environ


def land(run: Run, mode: str, send: Send) -> Published:
    """Plan a run, commit it, and send the commits to the remote's branch; try again if it moved.

    Args:
        run: the run.
        mode: the name of the mode, for the outcome: `push` or `api`.
        send: sends the commits.

    Raises:
        RepositoryError: push-refused, and what planning raises.
        EngineError: push-contended, remote-failed, and what planning raises.
    """
    for number in run.pace.tries():
        with private_ref(run.workspace.repo, PRIVATE_REFS) as ref:
            published = _try_to_land(run, mode, send, ref)
        if published is not None:
            return replace(published, tries=number)
    raise make_contention(run.branch)


def _try_to_land(run: Run, mode: str, send: Send, ref: str) -> Published | None:
    """Plan, commit and send once.

    Args:
        run: the run.
        mode: the name of the mode, for the outcome.
        send: sends the commits.
        ref: the private ref on which the commits are made.

    Returns:
        The outcome; None if the remote's branch moved meanwhile.

    Raises:
        RepositoryError: push-refused.
    """
    base = fetch(run, run.branch, ref)
    if is_own_push(run, base):
        return Published(mode, base, reason=STARTED_BY_OWN_PUSH)
    workspace = workspace_at(run.workspace.repo, base)
    refuse_mode(workspace.config.publish, mode)
    # By the setting `publish.every` a run may have to wait for a day, or for enough entries.
    if not run.is_by_person:
        calendar_wait = find_calendar_wait(workspace, (base,), run.now)
        if calendar_wait:
            return Published(mode, base, reason=calendar_wait, is_paused=True)

    plan, applied = plan_and_commit(run, ref)
    outcome = PushOutcome("done")
    has_commits = applied.tip != base
    if has_commits:
        if not run.is_by_person:
            shortage = find_entry_shortage(workspace, base, applied.tip)
            if shortage:
                return Published(mode, base, reason=shortage, plan=plan, is_paused=True)
        outcome = send(base, applied.tip)
    if outcome.state == "refused":
        raise make_refusal(run.branch, outcome)
    if outcome.state == "moved":
        return None

    tip = applied.tip
    created_sha = outcome.detail  # The last commit if the forge made them, "" otherwise.
    if created_sha:
        fetch(run, run.branch, ref)
        tip = created_sha
    published = Published(
        mode,
        tip,
        reason=RANGE_COVERED if is_covered(plan) else "",  # Another run has read the range.
        plan=plan,
        subjects=applied.subjects,
        is_followed=fast_forward(run.workspace.repo, HEADS + run.branch, tip),
    )
    return with_branch_name(run, published)


def send_by_push(run: Run, base: str, tip: str) -> PushOutcome:
    """Push all commits at once, or none."""
    options = (SKIP_PIPELINE,) if "GITLAB_CI" in run.environ else ()
    return push_tip(run.workspace.repo, run.remote, run.branch, tip, base, options=options)


def send_by_api(run: Run, committer: GitHubCommitter, base: str, tip: str) -> PushOutcome:
    """Create the commits between a base and a tip through the API of GitHub, which signs them.

    They are created one by one, and the branch may move between two of them. So only the last
    commit names the range that the run covers. The next try, or the next run, plans again what did
    not land.

    Returns:
        The outcome; its `detail` is the id of the last commit.
    """
    repo = run.workspace.repo
    options = ("--reverse", *FILE_OPTIONS, "--no-renames", "--end-of-options", tip, f"^{base}")
    commits = list(read_log(repo, *options, "--"))
    last_sha = base
    for number, (commit, oids) in enumerate(commits, start=1):
        files = _read_new_files(repo, commit, oids)
        is_last = number == len(commits)
        message = commit.message if is_last else remove_source_trailer(commit.message)
        created = committer.commit(run.branch, last_sha, files, message)
        if not created.oid:
            return PushOutcome("moved" if created.is_stale else "refused", created.reason)
        last_sha = created.oid
    return PushOutcome("done", last_sha)


def _read_new_files(
    repo: Repository, commit: Commit, oids: Sequence[str]
) -> dict[str, bytes | None]:
    """Return the new content of the files that a commit changed; None for a deleted file.

    Args:
        repo: the repository.
        commit: the commit.
        oids: the blob id of each of its files after the commit, only zeros for a deleted file.
    """
    files: dict[str, bytes | None] = {}
    tree_files: list[TreeFile] = []
    for file, oid in zip(commit.files, oids, strict=True):
        is_deleted = not oid.strip("0")
        if is_deleted:
            files[file.path] = None
        else:
            tree_files.append(TreeFile(file.path, oid))
    for content in read_files(repo, tree_files, MAX_FILE_BYTES):
        files[content.file.path] = content.data
    return files


def fetch(run: Run, branch: str, ref: str) -> str:
    """Fetch a branch of the remote into `ref`, and return its tip.

    Raises:
        EngineError: remote-failed.
    """
    fetch_tip(run.workspace.repo, run.remote, branch, ref)
    return resolve_commit(run.workspace.repo, ref)


def refuse_mode(settings: PublishConfig, mode: str) -> None:
    """Raise an error if `publish.allowed` does not list a way to publish; an empty list has all.

    Raises:
        UsageError: policy-forbids.
    """
    if not settings.allowed or mode in ("none", *settings.allowed):
        return
    allowed = ", ".join(settings.allowed)
    message = f"publishing by {mode} is not allowed here: publish.allowed is {allowed}"
    hint = f"Say --push {settings.allowed[0]}, or set publish.mode."
    raise UsageError(message, slug="policy-forbids", hint=hint)


def plan_and_commit(run: Run, ref: str, until: str | None = None) -> tuple[Plan, Applied]:
    """Plan a run on the tip of `ref`, and commit the plan there.

    Args:
        run: the run.
        ref: the ref.
        until: the last commit that counts as read, if the newest commits of `ref` are no merged
            work; None for the tip.
    """
    plan = _plan_with_history(run, ref)
    if until is not None and plan.until == plan.base:
        plan = replace(plan, until=until)
    return plan, apply_plan(run.workspace, plan, run.now, in_actions=run.in_actions)


def _plan_with_history(run: Run, ref: str) -> Plan:
    """Plan a run; in a shallow clone, fetch older history until it holds the range."""
    for step in DEEPER:
        try:
            return run.make_plan(ref, run.accepted_keys)
        except RepositoryError as error:
            if error.slug != "shallow-clone":
                raise
        deepen(run.workspace.repo, run.remote, run.branch, step)
    return run.make_plan(ref, run.accepted_keys)


def commit_files(
    workspace: Workspace,
    ref: str,
    base: str,
    files: Mapping[str, bytes | None],
    *,
    message: str,
    now: datetime,
    in_actions: bool,
) -> str:
    """Create one commit of memory-ci on a ref that is at `base`, and return its id.

    Args:
        workspace: the repository, whose configuration names the author.
        ref: the ref to move.
        base: the commit that the ref is at.
        files: the new content by path; None deletes a file.
        message: the commit message.
        now: the time of the commit.
        in_actions: whether a job of GitHub Actions commits, which has another default author.

    Raises:
        RepositoryError: as `commit_series`.
    """
    # GitPython takes 75 ms to import.
    from memory_ci.gitrepo.writer import PlannedCommit, choose_identity, commit_series

    identity = choose_identity(workspace.config.publish, in_actions=in_actions)
    commits = [PlannedCommit(files, message)]
    return commit_series(
        workspace.repo, ref=ref, expected=base, commits=commits, identity=identity, when=now
    )


def is_started(environ: Mapping[str, str], variables: Mapping[str, str]) -> bool:
    """Return whether the environment has one of some variables: BY_PUSH, BY_HAND."""
    return any(environ.get(name) == value for name, value in variables.items())


def is_own_push(run: Run, tip: str) -> bool:
    """Return whether a push of memory-ci's own commits started this job of CI.

    That is so if the job was started by a push, and every commit since the end of the last run was
    made by memory-ci and changes only memory. The commits of memory-ci have the trailer `STEP`.

    Args:
        run: the run.
        tip: the tip of the branch.
    """
    if not is_started(run.environ, BY_PUSH):
        return False
    repo = run.workspace.repo
    is_memory = build_memory_test(workspace_at(repo, tip))
    cursor = find_cursor(repo, tip, is_memory)
    if cursor is None:
        return False

    last_run_end = cursor.source
    options = (*FILE_OPTIONS, "--no-renames", "--end-of-options", tip, f"^{last_run_end}", "--")
    for commit, _ in read_log(repo, *options):
        is_by_memory_ci = bool(find_trailers(commit.message, (STEP,)))
        changes_only_memory = all(is_memory(file.path) for file in commit.files)
        if not is_by_memory_ci or not changes_only_memory:
            return False
    return True


def find_calendar_wait(workspace: Workspace, tips: Sequence[str], now: datetime) -> str:
    """Return why a run is not due yet by its setting `every: day` or `week`, "" if it is due.

    There is one run per day or week of the calendar (UTC), whatever the time between two runs.

    Args:
        workspace: the repository and its configuration.
        tips: the tips of the branches that the run writes to.
        now: the time.
    """
    every = workspace.config.publish.every
    if every not in ("day", "week"):
        return ""

    is_memory = build_memory_test(workspace)
    run_days: list[date] = []
    for tip in tips:
        last_run = find_cursor(workspace.repo, tip, is_memory)
        if last_run:
            run_days.append(read_commit_time(workspace.repo, last_run.commit).date())
    if not run_days:
        return ""

    last_day = max(run_days)
    wait_days = 1 if every == "day" else 7 - last_day.weekday()  # Until the next Monday.
    due_day = last_day + timedelta(days=wait_days)
    if now.astimezone(UTC).date() >= due_day:
        return ""
    return f"publish.every: {every}: next on {due_day}"


def find_entry_shortage(workspace: Workspace, base: str, tip: str) -> str:
    """Return why a run is not due yet by its setting `every: N entries`, "" if it is due.

    It is due when at least N entries are at `tip` and not at `base`.
    """
    every = workspace.config.publish.every
    least_count, _, unit = every.partition(" ")
    if not unit:
        return ""
    new_ids = workspace.at(tip).entries_by_id.keys() - workspace.at(base).entries_by_id.keys()
    if len(new_ids) >= int(least_count):
        return ""
    return f"publish.every: {every}: next at {every}, {len(new_ids)} so far"


def find_review_hold(
    forge: Proposals | None, request: Proposal | None, *, is_by_person: bool
) -> str:
    """Return why the branch of a pull request must not move, because of its review, or "".

    A person who starts the run may move a branch under review, but not an approved one, because a
    push would dismiss the approval.

    Args:
        forge: the forge; None if none can be reached, which allows the move.
        request: the open pull request, if there is one.
        is_by_person: whether a person started the run.

    Raises:
        EngineError: `forge-…`.
    """
    if forge is None or request is None:
        return ""
    review = forge.find_review(request)
    if not review or (is_by_person and review != "approved"):
        return ""
    state = "is approved" if review == "approved" else f"is under review ({review})"
    return (
        f"request {request.number} {state}, and its branch stays as it is: "
        "what is new waits for the next request"
    )


def with_branch_name(run: Run, published: Published) -> Published:
    """Return an outcome whose plan names the branch, and not the private ref it was made on."""
    if published.plan is None:
        return published
    return replace(published, plan=replace(published.plan, ref=HEADS + run.branch))


def make_refusal(branch: str, outcome: PushOutcome) -> RepositoryError:
    """Return the error (push-refused) for a remote that does not accept our commits on a branch."""
    reason = outcome.detail or "it did not say why"
    message = f"the remote refused the commits on {branch!r}: {reason}"
    hint = format_settings(
        outcome.detail,
        "Let the rules of the branch admit memory-ci, or publish by pull request: --push pr, "
        "or --push auto.",
    )
    return RepositoryError(message, slug="push-refused", hint=hint)


def make_contention(branch: str) -> EngineError:
    """Return the error (push-contended) for a branch that moved before each push."""
    message = f"the remote's {branch!r} moved each time before our commits arrived"
    hint = "Run again: nothing landed, and nothing is lost."
    return EngineError(message, slug="push-contended", hint=hint)


def list_gitlab_options(environ: Mapping[str, str], base: str) -> tuple[str, ...]:
    """Return the push options that make GitLab open a merge request into `base`.

    GitLab reads them with the push. If the merge request is open already, GitLab sets its title and
    description again. Outside a job of GitLab's CI there are none: other hosts may refuse options.
    """
    if "GITLAB_CI" not in environ:
        return ()
    return (
        "merge_request.create",
        f"merge_request.target={base}",
        f"merge_request.title={TITLE}",
        f"merge_request.description={DESCRIPTION}",
    )
