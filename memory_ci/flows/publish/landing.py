"""Landing: what a run decides, made on the tip of the remote's branch and put there, or made again on a newer tip.

The run is planned anew on each tip that is fetched, entry by entry: no text is rebased. Everything lands or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from random import SystemRandom
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.flows.publish.cadence import find_shortage, find_wait
from memory_ci.flows.publish.replan import COVERED, is_covered
from memory_ci.flows.record.apply import Applied, apply_plan, without_source
from memory_ci.flows.workspace import MAX_FILE_BYTES, PRIVATE, Workspace, memory_test, workspace_at
from memory_ci.forge.proposals import GitHubCommitter
from memory_ci.forge.rules import format_settings
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.history import STEP, find_cursor
from memory_ci.gitrepo.log import FILES, read_log
from memory_ci.gitrepo.merges import fast_forward, private_ref
from memory_ci.gitrepo.network import DEEPER, PushOutcome, Remote, deepen, fetch_tip, push_tip
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.records.config import PublishConfig
from memory_ci.records.names import HEADS
from memory_ci.records.plan import Plan, Published
from memory_ci.rendering.pull_request import TITLE

STARTED_BY = {"GITHUB_EVENT_NAME": "push", "CI_PIPELINE_SOURCE": "push"}
"""What a forge says of a job that a push started: our own push must not start a run without end."""

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

MAX_TRIES = 8
MAX_SECONDS = 60.0
BASE_SECONDS = 0.25
CAP_SECONDS = 10.0
"""Waits are drawn evenly between 0 and a bound that doubles: full jitter keeps writers apart that met once."""

RANDOM = SystemRandom()


class Run(msgspec.Struct, frozen=True):
    """One run of publish: where, on which remote and branch (a short name), what it does, when, and how patiently.

    `at_once`: a person wants it now, whatever `publish.every` says. `is_asked`: its range was named.
    """

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


class CommitStep(NamedTuple):
    """A commit of ours: its message, and its files with their contents (None: deleted)."""

    message: str
    files: Mapping[str, bytes | None]


def land(run: Run, mode: str, send: Send) -> Published:
    """Plan, commit and send until it lands, the remote refuses, or the pace is over.

    Raises RepositoryError (push-refused), EngineError (push-contended, remote-failed) and what the planner raises.
    """
    for tries in run.pace.tries():
        with private_ref(run.workspace.repo, PRIVATE) as ref:
            base = fetch(run, run.branch, ref)
            if is_own_push(run, base):
                return Published(mode, base, tries=tries, reason="nothing but memory was pushed: nothing to do")
            here = workspace_at(run.workspace.repo, base)
            refuse_mode(here.config.publish, mode)
            if not run.at_once and (wait := find_wait(here, (base,), run.now)):
                return Published(mode, base, tries=tries, reason=wait, is_paused=True)
            plan, applied = perform(run, ref)
            if not run.at_once and applied.tip != base and (wait := find_shortage(here, base, applied.tip)):
                return Published(mode, base, tries=tries, reason=wait, plan=plan, is_paused=True)
            reason = COVERED if is_covered(plan) else ""
            landed = named(run, Published(mode, applied.tip, "", tries, reason, plan, applied.subjects))
            outcome = send(base, applied.tip) if applied.tip != base else PushOutcome("done")
            if outcome.state == "refused":
                raise refusal(run.branch, outcome)
            if outcome.state == "done":
                return follow(run, landed, outcome.said)
    raise contended(run.branch)


def send_by_push(run: Run) -> Send:
    """With one push: all commits, or none."""
    options = (SKIP_PIPELINE,) if is_gitlab(run.environ) else ()
    return lambda base, tip: push_tip(run.workspace.repo, run.remote, run.branch, tip, base, options)


def send_by_api(run: Run, committer: GitHubCommitter) -> Send:
    """Commit by commit through the API; `said` is the id of the last one, which GitHub made and signed.

    Between two of them the branch may move. So only the last one says how far the run came: what did not land is
    planned again by the next try, or the next run.
    """

    def send(base: str, tip: str) -> PushOutcome:
        steps = list(list_steps(run.workspace, base, tip))
        for step in [*(CommitStep(without_source(step.message), step.files) for step in steps[:-1]), *steps[-1:]]:
            created = committer.commit(run.branch, base, step.files, step.message)
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
        raise UsageError(message, slug="policy-forbids", hint=f"Say --push {settings.allowed[0]}, or set publish.mode.")


def perform(run: Run, ref: str, until: str | None = None) -> tuple[Plan, Applied]:
    """Plan on the tip of `ref` and commit there. What the plan covers ends at `until`, if it ends at the tip."""
    plan = _plan(run, ref)
    if until is not None and plan.until == plan.base:
        plan = replace(plan, until=until)
    applied = apply_plan(run.workspace, plan, run.now, in_actions="GITHUB_ACTIONS" in run.environ)
    return plan, applied


def is_own_push(run: Run, tip: str) -> bool:
    """Whether a push started this job and every commit that no run has covered is ours and memory alone."""
    if not any(run.environ.get(name) == value for name, value in STARTED_BY.items()):
        return False
    repo, is_memory = run.workspace.repo, memory_test(workspace_at(run.workspace.repo, tip))
    cursor = find_cursor(repo, tip, is_memory)
    if cursor is None:
        return False
    log = read_log(repo, *FILES, "--no-renames", "--end-of-options", tip, f"^{cursor.source}", "--")
    return all(
        find_trailers(commit.message, (STEP,)) and all(is_memory(file.path) for file in commit.files)
        for commit, _ in log
    )


def list_steps(workspace: Workspace, base: str, tip: str) -> Iterator[CommitStep]:
    """The commits after `base`, oldest first, with what they wrote."""
    asked = ("--reverse", *FILES, "--no-renames", "--end-of-options", tip, f"^{base}", "--")
    for commit, oids in list(read_log(workspace.repo, *asked)):
        pairs = list(zip(commit.files, oids, strict=True))
        kept = [TreeFile(file.path, oid) for file, oid in pairs if oid.strip("0")]
        files: dict[str, bytes | None] = {file.path: None for file, oid in pairs if not oid.strip("0")}
        files |= {content.file.path: content.data for content in read_files(workspace.repo, kept, MAX_FILE_BYTES)}
        yield CommitStep(commit.message, files)


def follow(run: Run, landed: Published, made_elsewhere: str) -> Published:
    """Bring the local branch along, if that disturbs nothing; commits that a forge made are fetched first."""
    if made_elsewhere:
        with private_ref(run.workspace.repo, PRIVATE) as ref:
            fetch(run, run.branch, ref)
        landed = replace(landed, tip=made_elsewhere)
    is_followed = fast_forward(run.workspace.repo, HEADS + run.branch, landed.tip)
    return replace(landed, is_followed=is_followed)


def named(run: Run, published: Published) -> Published:
    """The same with a plan that names the branch, not the private ref it was made on."""
    if published.plan is None:
        return published
    return replace(published, plan=replace(published.plan, ref=HEADS + run.branch))


def refusal(branch: str, outcome: PushOutcome) -> RepositoryError:
    """The remote does not take commits on this branch from us."""
    otherwise = "Let the rules of the branch admit memory-ci, or publish by pull request: --push pr, or --push auto."
    hint = format_settings(outcome.said, otherwise)
    message = f"the remote refused the commits on {branch!r}: {outcome.said or 'it did not say why'}"
    return RepositoryError(message, slug="push-refused", hint=hint)


def contended(branch: str) -> EngineError:
    """Others were faster each time."""
    message = f"the remote's {branch!r} moved each time before our commits arrived"
    return EngineError(message, slug="push-contended", hint="Run again: nothing landed, and nothing is lost.")


def _plan(run: Run, ref: str) -> Plan:
    """The plan; a shallow clone that does not hold the range is made deeper first."""
    for step in DEEPER:
        try:
            return run.make_plan(ref, run.accepted)
        except RepositoryError as error:
            if error.slug != "shallow-clone":
                raise
        deepen(run.workspace.repo, run.remote, run.branch, step)
    return run.make_plan(ref, run.accepted)


def request_options(environ: Mapping[str, str], base: str) -> tuple[str, ...]:
    """Ask for a merge request into `base`; one that is open already is given the same title and text again."""
    if not is_gitlab(environ):
        return ()
    told = {"target": base, "title": TITLE, "description": DESCRIPTION}
    return ("merge_request.create", *(f"merge_request.{name}={value}" for name, value in told.items()))


def is_gitlab(environ: Mapping[str, str]) -> bool:
    """Whether this is a job of GitLab, so that its remote is GitLab's as a rule."""
    return "GITLAB_CI" in environ


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
