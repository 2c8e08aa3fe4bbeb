"""The work of a CI job, in one process: it verifies a change, or records merged changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.commands.check.check import CheckReport
from memory_ci.commands.check.verify import verify_change
from memory_ci.commands.ci.comment import comment_on_cited
from memory_ci.commands.ci.event import CiJob
from memory_ci.commands.health.health import list_health_remarks
from memory_ci.commands.publish.carry_over import move_plan
from memory_ci.commands.publish.landing import Planner
from memory_ci.commands.publish.publish import PublishOptions, find_delay, publish
from memory_ci.commands.record.learner import OnProgress, ignore_progress
from memory_ci.commands.record.run import fetch_sessions, plan_record, save_plan
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.errors import EngineError
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.gitrepo.record_commits import STEP
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.memory.apply import parse_plan, preview_plan, trim_plan_quotes
from memory_ci.memory.index import prepare_queries
from memory_ci.memory.workspace import (
    Workspace,
    build_memory_test,
    find_branch_ref,
    index_path,
    workspace_at,
)
from memory_ci.records.config import EngineName, PublishMode
from memory_ci.records.history import MergedChange
from memory_ci.records.plan import Plan, Published
from memory_ci.records.report import Level
from memory_ci.records.retrieval import IndexUse

LASTING_FAILURES = frozenset(
    {"forge-failed", "forge-unauthorised", "engine-unauthorised", "unreadable-reply"}
)
"""Failures that do not pass by themselves, as those of a network do."""

MAX_WAIT = timedelta(days=1)
"""How long one merge may wait before an earlier run must have failed at it too."""


class CiOptions(msgspec.Struct, frozen=True):
    """The options of a job.

    Attributes:
        engine: the engine that extracts; None for the configured one.
        push: how memory is published; None for the configuration of the branch.
        extract: the file that the plan is written to; nothing else is changed.
        apply: a plan to perform, as JSON; no engine is asked.
        dry_run: change nothing.
        now: ignore `publish.every`.
    """

    engine: EngineName | None = None
    push: PublishMode | None = None
    extract: Path | None = None
    apply: bytes | None = None
    dry_run: bool = False
    now: bool = False


class Stop(msgspec.Struct, frozen=True):
    """Why a run stopped before its end, and what to do.

    Attributes:
        reason: the failure.
        hint: what to do about it.
        level: error if an earlier run stopped as well, else warning.
        fails_job: whether the job fails.
    """

    reason: str
    hint: str
    level: Level
    fails_job: bool


class CiRun(msgspec.Struct, frozen=True):
    """The result of a job.

    Attributes:
        job: its task.
        report: the findings, if it verified.
        plan: the plan, if it recorded.
        published: the commits that it made, or in a dry run would make.
        index: the index that it built.
        remarks: lines about memory as a whole, or about the comment on a request.
        stop: why the run stopped before its end.
        is_delayed: whether the run is not due yet.
        is_memory_only: whether the change that was verified touches nothing but memory.
    """

    job: CiJob
    report: CheckReport | None = None
    plan: Plan | None = None
    published: Published | None = None
    index: IndexUse | None = None
    remarks: tuple[str, ...] = ()
    stop: Stop | None = None
    is_delayed: bool = False
    is_memory_only: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether the run is not due, or waits for the review of the last request."""
        return self.is_delayed or (self.published is not None and self.published.is_paused)

    @property
    def exit_code(self) -> int:
        """The exit status: of a stop that fails the job that of an engine, 1 for errors."""
        if self.stop is not None and self.stop.fails_job:
            return EngineError.exit_code
        return 0 if self.report is None or self.report.is_ok else 1


def run_ci(
    workspace: Workspace,
    job: CiJob,
    options: CiOptions,
    *,
    now: datetime,
    environ: Mapping[str, str],
    progress: OnProgress = ignore_progress,
) -> CiRun:
    """Verify a change or record merged changes, as the job requires.

    Recording may be done by two jobs, so that the job that may push needs no model: the first
    writes the plan to a file (`options.extract`), and the second commits and publishes the plan
    (`options.apply`). With neither option, one job does both. A dry run plans alone.

    Args:
        workspace: the repository.
        job: the task of the job; "nothing" if its event needs no work.
        options: the options of the job.
        now: the time of the job.
        environ: environment variables, which name the forge and the model.
        progress: called as merged changes are read.

    Raises:
        MemoryCIError: the errors of verifying, recording and publishing.
    """
    if job.kind == "verify":
        return _verify_change(workspace, job, options, environ)
    if job.kind == "nothing":
        return CiRun(job)
    make_plan = _choose_planner(workspace, options, now, environ, progress)
    return _record_changes(workspace, job, options, make_plan, now=now, environ=environ)


def _choose_planner(
    workspace: Workspace,
    options: CiOptions,
    now: datetime,
    environ: Mapping[str, str],
    progress: OnProgress,
) -> Planner:
    """Return the function that makes the plan of the run for a ref.

    It plans a record run. If the job performs the plan of an earlier job, it moves that plan to the
    ref. `publish` calls it again whenever the branch has moved before the push.

    Raises:
        RepositoryError, UsageError: the errors of `parse_plan`.
    """
    if options.apply is not None:
        plan_of_earlier_job = parse_plan(options.apply)

        def move_earlier_plan(ref: str, _accepted: frozenset[str]) -> Plan:
            return move_plan(workspace, plan_of_earlier_job, ref)

        return move_earlier_plan

    def plan_run(ref: str, accepted_keys: frozenset[str]) -> Plan:
        problems = () if options.dry_run else fetch_sessions(workspace, ref, environ)
        record_options = RecordOptions(
            ref=ref, engine=options.engine, problems=problems, accepted_keys=accepted_keys
        )
        return plan_record(workspace, record_options, now.date(), progress, environ)

    return plan_run


def _record_changes(
    workspace: Workspace,
    job: CiJob,
    options: CiOptions,
    make_plan: Planner,
    *,
    now: datetime,
    environ: Mapping[str, str],
) -> CiRun:
    """Record merged changes: save the plan, preview it, or commit and publish it.

    Args:
        workspace: the repository.
        job: the task of the job, with the branch.
        options: the options of the job: `extract` saves the plan, `dry_run` previews it.
        make_plan: makes the plan for a ref.
        now: the time of the job.
        environ: environment variables, which name the forge.
    """
    ref = find_branch_ref(workspace, job.branch)
    publish_options = PublishOptions(options.push, ref, options.now)
    if options.extract is not None:
        delay = find_delay(workspace, publish_options, make_plan, now, environ)
        if delay:
            return CiRun(replace(job, kind="nothing", reason=delay), is_delayed=True)
        return _save_plan(workspace, job, make_plan(ref, frozenset()), options.extract, now)
    if options.dry_run:
        plan = make_plan(ref, frozenset())
        preview = preview_plan(workspace, plan, now)
        would_publish = Published("none", "", subjects=preview.subjects)
        return CiRun(job, plan=plan, published=would_publish, stop=find_stop(workspace, plan, now))

    published = publish(workspace, publish_options, make_plan, now, environ)
    return CiRun(
        job,
        plan=_trim_quotes(workspace, published.plan),
        published=published,
        index=_build_index(workspace, ref),
        remarks=list_health_remarks(workspace, ref, now.date()),
        stop=find_stop(workspace, published.plan, now) if published.plan else None,
    )


def _save_plan(workspace: Workspace, job: CiJob, plan: Plan, path: Path, now: datetime) -> CiRun:
    """Write a plan to a file, for the later job that commits it.

    If the run stopped before its end, the later job fails, not this one: the workflow would skip
    the later job, and the part of the range that was read would be lost.
    """
    save_plan(plan, path)
    stop = find_stop(workspace, plan, now)
    if stop is not None:
        stop = replace(stop, fails_job=False)
    return CiRun(job, plan=plan, stop=stop)


def _verify_change(
    workspace: Workspace, job: CiJob, options: CiOptions, environ: Mapping[str, str]
) -> CiRun:
    """Verify a change, and comment on its pull request if it changes cited code."""
    report = verify_change(workspace, job.base, "HEAD", is_fork=job.is_fork, title=job.title)
    remark = ""
    if not options.dry_run:
        remark = comment_on_cited(workspace, job, report.findings, environ)
    return CiRun(
        job,
        report,
        remarks=(remark,) if remark else (),
        is_memory_only=_is_memory_only(workspace, job.base),
    )


def _is_memory_only(workspace: Workspace, base: str | None) -> bool:
    """Return whether a change touches nothing but memory files, as the base's settings name them.

    The change is from the merge base of `base` and HEAD to HEAD.
    """
    if base is None or find_commit(workspace.repo, base) is None:
        return False
    options = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=none")
    args = ("diff", *options, "--end-of-options", f"{base}...HEAD", "--")
    output = run_git(workspace.repo.cwd, *args)
    paths = [decode_path(path) for path in output.split(b"\0") if path]
    is_memory = build_memory_test(workspace_at(workspace.repo, base))
    return bool(paths) and all(is_memory(path) for path in paths)


def _trim_quotes(workspace: Workspace, plan: Plan | None) -> Plan | None:
    """Return a plan without the quotes that the configuration of its branch does not allow."""
    if plan is None:
        return None
    config = workspace_at(workspace.repo, plan.base).config
    return trim_plan_quotes(plan, config.evidence.quotes)


def _build_index(workspace: Workspace, ref: str) -> IndexUse:
    """Build the index of the branch and its other caches as they are now, for the job's cache."""
    branch_workspace = workspace_at(workspace.repo, ref)
    index = prepare_queries(branch_workspace, ref)
    path = index_path(branch_workspace)
    size = path.stat().st_size if path.exists() else 0
    return IndexUse(index.key, size, index.was_rebuilt)


def find_stop(workspace: Workspace, plan: Plan, now: datetime) -> Stop | None:
    """Return why the run of a plan stopped before its end, or None if it did not.

    It is an error if an earlier run must have stopped as well, else a warning. The job fails only
    after a failure that does not pass by itself (`LASTING_FAILURES`).
    """
    failure = plan.engine.failure
    if not failure:
        return None
    # The plan has the failure as a text, which ends with the slug of the error:
    # `the model cannot be reached [engine-failed]`.
    slug = failure.rpartition("[")[2].removesuffix("]")
    fails_job = slug in LASTING_FAILURES
    # Each merge starts a run: if two changes are unread, or one for long, an earlier run has
    # stopped as well.
    last_read_sha = plan.until or plan.since
    unread_changes = list(islice(iter_unread_changes(workspace.repo, last_read_sha, plan.base), 2))
    is_late = any(now - change.tip.committed_at > MAX_WAIT for change in unread_changes)
    level: Level = "error" if is_late or len(unread_changes) > 1 else "warning"
    return Stop(reason=failure, hint=plan.engine.hint, level=level, fails_job=fails_job)


def iter_unread_changes(repo: Repository, since: str | None, tip: str) -> Iterator[MergedChange]:
    """Yield the merged changes that no run has read, except the commits of runs themselves."""
    for change in iter_merged_changes(repo, plan_range(repo, since, tip)):
        if not find_trailers(change.tip.message, (STEP,)):
            yield change
