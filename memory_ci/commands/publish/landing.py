"""Landing: what a run decides, made on the tip of the remote's branch and put there, or made again on a newer tip.

The run is planned anew on each tip that is fetched, entry by entry: no text is rebased. Everything lands or nothing.
It publishes as often as `publish.every` says, and never under a request that people review. A run that is not due
decides nothing, so that the cursor stays where it is: the next one that is due covers all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from random import SystemRandom

import msgspec
from msgspec.structs import replace

from memory_ci.commands.publish.carry_over import COVERED, is_covered
from memory_ci.commands.publish.text import TITLE
from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.forge.proposals import GitHubCommitter, Proposal, Proposals
from memory_ci.forge.rules import format_settings
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.history import STEP, commit_time, find_cursor
from memory_ci.gitrepo.log import FILES, read_log
from memory_ci.gitrepo.merges import fast_forward, private_ref
from memory_ci.gitrepo.network import DEEPER, PushOutcome, Remote, deepen, fetch_tip, push_tip
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.memory.apply import Applied, apply_plan, without_source
from memory_ci.memory.workspace import MAX_FILE_BYTES, PRIVATE, Workspace, memory_test, workspace_at
from memory_ci.records.config import PublishConfig
from memory_ci.records.names import HEADS
from memory_ci.records.plan import Plan, Published

BY_PUSH = {"GITHUB_EVENT_NAME": "push", "CI_PIPELINE_SOURCE": "push"}
"""What a forge says of a job that a push started: our own push must not start a run without end."""

BY_HAND = {"GITHUB_EVENT_NAME": "workflow_dispatch", "CI_PIPELINE_SOURCE": "web"}
"""What a forge says of a job that a person started: it waits for no day."""

Planner = Callable[[str, frozenset[str]], Plan]
"""Plans a record run on the tip of the ref it is given, with the content keys of candidates that a person accepted
(`flows.record.run.plan_record` with that `ref` and `accepted`)."""

Send = Callable[[str, str], PushOutcome]
"""Puts the commits between a base and a tip on the remote's branch; the branch is still at the base, or it moved."""

SKIP_PIPELINE = "ci.skip"
"""Unlike `[skip ci]` it is said of one push and stands in no commit, so that nothing can copy it."""

DESCRIPTION = (
    "What memory would gain from merged work: the commits say it entry by entry. Maintainers have the last word on "
    "this branch: an entry taken out is not proposed again, one reworded keeps their words."
)

MAX_TRIES, MAX_SECONDS = 8, 60.0
BASE_SECONDS, CAP_SECONDS = 0.25, 10.0
"""Waits are drawn evenly between 0 and a bound that doubles: full jitter keeps writers apart that met once."""

RANDOM = SystemRandom()


class Pace:
    """`clock` gives seconds that never go back, `sleep` waits, `draw` gives a number between two others."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[float, float], float] = RANDOM.uniform,
    ) -> None:
        self._clock, self._sleep, self._draw = clock, sleep, draw

    def tries(self) -> Iterator[int]:
        """1, 2, 3 … with a wait before each but the first, until there were enough or the time is over."""
        end = self._clock() + MAX_SECONDS
        yield 1
        for number in range(2, MAX_TRIES + 1):
            wait = self._draw(0, min(CAP_SECONDS, BASE_SECONDS * 2**number))
            if self._clock() + wait >= end:
                return
            self._sleep(wait)
            yield number


class Run(msgspec.Struct, frozen=True):
    """One run of publish: where, on which remote and branch (a short name), what it does, when, and how patiently.
    `at_once`: a person wants it now, whatever `publish.every` says. `is_asked`: its range was named."""

    workspace: Workspace
    remote: Remote
    branch: str
    make_plan: Planner
    now: datetime
    environ: Mapping[str, str]
    pace: Pace
    accepted: frozenset[str] = frozenset()
    at_once: bool = False
    is_asked: bool = False

    @property
    def in_actions(self) -> bool:
        return "GITHUB_ACTIONS" in self.environ


def land(run: Run, mode: str, send: Send) -> Published:
    """Plan, commit and send until it lands, the remote refuses, or the pace is over. Raises RepositoryError
    (push-refused), EngineError (push-contended, remote-failed) and what the planner raises."""
    repo = run.workspace.repo
    for tries in run.pace.tries():
        with private_ref(repo, PRIVATE) as ref:
            base = fetch(run, run.branch, ref)
            if is_own_push(run, base):
                return Published(
                    mode, base, tries=tries, reason="nothing but memory was pushed: nothing to do"
                )
            here = workspace_at(repo, base)
            refuse_mode(here.config.publish, mode)
            if not run.at_once and (wait := find_wait(here, (base,), run.now)):
                return Published(mode, base, tries=tries, reason=wait, is_paused=True)
            plan, applied = perform(run, ref)
            if (
                not run.at_once
                and applied.tip != base
                and (wait := find_shortage(here, base, applied.tip))
            ):
                return Published(mode, base, tries=tries, reason=wait, plan=plan, is_paused=True)
            outcome = send(base, applied.tip) if applied.tip != base else PushOutcome("done")
            if outcome.state == "refused":
                raise refusal(run.branch, outcome)
            if outcome.state == "moved":
                continue
            if outcome.said:  # a forge made the commits
                fetch(run, run.branch, ref)
            tip, reason = outcome.said or applied.tip, COVERED if is_covered(plan) else ""
            is_followed = fast_forward(repo, HEADS + run.branch, tip)
            return named(
                run, Published(mode, tip, "", tries, reason, plan, applied.subjects, is_followed)
            )
    raise contended(run.branch)


def send_by_push(run: Run) -> Send:
    """With one push: all commits, or none."""
    options = (SKIP_PIPELINE,) if "GITLAB_CI" in run.environ else ()
    return lambda base, tip: push_tip(
        run.workspace.repo, run.remote, run.branch, tip, base, options
    )


def send_by_api(run: Run, committer: GitHubCommitter) -> Send:
    """Commit by commit through the API; `said` is the id of the last one, which GitHub made and signed.

    Between two of them the branch may move. So only the last one says how far the run came: what did not land is
    planned again by the next try, or the next run.
    """
    repo = run.workspace.repo

    def send(base: str, tip: str) -> PushOutcome:
        asked = ("--reverse", *FILES, "--no-renames", "--end-of-options", tip, f"^{base}", "--")
        commits = list(read_log(repo, *asked))
        for commit, oids in commits:
            pairs = list(zip(commit.files, oids, strict=True))
            kept = [TreeFile(file.path, oid) for file, oid in pairs if oid.strip("0")]
            files: dict[str, bytes | None] = {
                file.path: None for file, oid in pairs if not oid.strip("0")
            }
            files |= {
                content.file.path: content.data
                for content in read_files(repo, kept, MAX_FILE_BYTES)
            }
            message = commit.message if commit is commits[-1][0] else without_source(commit.message)
            created = committer.commit(run.branch, base, files, message)
            if not created.oid:
                return PushOutcome("moved" if created.is_stale else "refused", created.reason)
            base = created.oid
        return PushOutcome("done", base)

    return send


def fetch(run: Run, branch: str, ref: str) -> str:
    """The tip of a branch of the remote, now also in `ref`. Raises EngineError (remote-failed)."""
    fetch_tip(run.workspace.repo, run.remote, branch, ref)
    return resolve_commit(run.workspace.repo, ref)


def refuse_mode(settings: PublishConfig, mode: str) -> None:
    """Raises UsageError (policy-forbids) for a way to publish that the settings do not allow."""
    if settings.allowed and mode not in ("none", *settings.allowed):
        message = f"publishing by {mode} is not allowed here: publish.allowed is {', '.join(settings.allowed)}"
        raise UsageError(
            message,
            slug="policy-forbids",
            hint=f"Say --push {settings.allowed[0]}, or set publish.mode.",
        )


def perform(run: Run, ref: str, until: str | None = None) -> tuple[Plan, Applied]:
    """Plan on the tip of `ref` and commit there. What the plan covers ends at `until`, if it ends at the tip. A shallow
    clone that does not hold the range is made deeper first."""
    for step in (*DEEPER, None):
        try:
            plan = run.make_plan(ref, run.accepted)
            break
        except RepositoryError as error:
            if error.slug != "shallow-clone" or step is None:
                raise
        deepen(run.workspace.repo, run.remote, run.branch, step)
    if until is not None and plan.until == plan.base:
        plan = replace(plan, until=until)
    return plan, apply_plan(run.workspace, plan, run.now, in_actions=run.in_actions)


def commit_files(
    workspace: Workspace,
    ref: str,
    base: str,
    files: Mapping[str, bytes | None],
    message: str,
    now: datetime,
    *,
    in_actions: bool,
) -> str:
    """One commit of ours on a ref that is at `base`; its id. Raises what committing raises."""
    from memory_ci.gitrepo.writer import (
        PlannedCommit,
        choose_identity,
        commit_series,
    )  # GitPython: 75 ms

    who, commits = (
        choose_identity(workspace.config.publish, in_actions=in_actions),
        [PlannedCommit(files, message)],
    )
    return commit_series(
        workspace.repo, ref=ref, expected=base, commits=commits, identity=who, when=now
    )


def is_started(environ: Mapping[str, str], how: Mapping[str, str]) -> bool:
    """Whether the forge says that this job was started so (BY_PUSH, BY_HAND)."""
    return any(environ.get(name) == value for name, value in how.items())


def is_own_push(run: Run, tip: str) -> bool:
    """Whether a push started this job and every commit that no run has covered is ours and memory alone."""
    if not is_started(run.environ, BY_PUSH):
        return False
    repo, is_memory = run.workspace.repo, memory_test(workspace_at(run.workspace.repo, tip))
    cursor = find_cursor(repo, tip, is_memory)
    if cursor is None:
        return False
    log = read_log(repo, *FILES, "--no-renames", "--end-of-options", tip, f"^{cursor.source}", "--")
    return all(
        find_trailers(commit.message, (STEP,))
        and all(is_memory(file.path) for file in commit.files)
        for commit, _ in log
    )


def find_wait(workspace: Workspace, tips: tuple[str, ...], now: datetime) -> str:
    """What a run of `every: day` or `week` waits for, "" if it is due; `tips` are the branches that it writes to. A day
    or week of the calendar (UTC) has one run, however many seconds lie between two."""
    every, repo = workspace.config.publish.every, workspace.repo
    if every not in ("day", "week"):
        return ""
    is_memory = memory_test(workspace)
    cursors = (cursor for tip in tips if (cursor := find_cursor(repo, tip, is_memory)))
    last = max((commit_time(repo, cursor.commit).date() for cursor in cursors), default=date.min)
    due = (
        last + timedelta(days=1 if every == "day" else 7 - last.weekday())
        if last > date.min
        else date.min
    )
    return f"publish.every: {every}: next on {due}" if now.astimezone(UTC).date() < due else ""


def find_shortage(workspace: Workspace, old: str, tip: str) -> str:
    """What a run of `every: N entries` waits for, "" if so many entries are at `tip` that are not at `old`."""
    every = workspace.config.publish.every
    count, _, unit = every.partition(" ")
    if not unit:
        return ""
    new = len(workspace.at(tip).places.keys() - workspace.at(old).places.keys())
    return f"publish.every: {every}: next at {every}, {new} so far" if new < int(count) else ""


def find_hold(forge: Proposals | None, found: Proposal | None, *, at_once: bool) -> str:
    """Why the branch of an open request must not move: people review it, or approved of what it holds.

    A person who starts the run may move one under review, but none that is approved: a push would dismiss that.
    Raises EngineError (`forge-…`).
    """
    review = forge.find_review(found) if forge and found else ""
    if found is None or not review or (at_once and review != "approved"):
        return ""
    what = "is approved" if review == "approved" else f"is under review ({review})"
    return f"request {found.number} {what}, and its branch stays as it is: what is new waits for the next request"


def named(run: Run, published: Published) -> Published:
    """The same with a plan that names the branch, not the private ref it was made on."""
    plan = published.plan and replace(published.plan, ref=HEADS + run.branch)
    return replace(published, plan=plan)


def refusal(branch: str, outcome: PushOutcome) -> RepositoryError:
    """The remote does not take commits on this branch from us."""
    otherwise = "Let the rules of the branch admit memory-ci, or publish by pull request: --push pr, or --push auto."
    message = (
        f"the remote refused the commits on {branch!r}: {outcome.said or 'it did not say why'}"
    )
    return RepositoryError(
        message, slug="push-refused", hint=format_settings(outcome.said, otherwise)
    )


def contended(branch: str) -> EngineError:
    """Others were faster each time."""
    message = f"the remote's {branch!r} moved each time before our commits arrived"
    return EngineError(
        message, slug="push-contended", hint="Run again: nothing landed, and nothing is lost."
    )


def request_options(environ: Mapping[str, str], base: str) -> tuple[str, ...]:
    """Ask GitLab for a merge request into `base`; one that is open is given the same title and text again."""
    if "GITLAB_CI" not in environ:
        return ()
    told = {"target": base, "title": TITLE, "description": DESCRIPTION}
    return (
        "merge_request.create",
        *(f"merge_request.{name}={value}" for name, value in told.items()),
    )
