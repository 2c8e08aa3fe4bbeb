"""The job of a CI run in one process: verify a change, or record what was merged."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError, RepositoryError
from memory_ci.flows.guard.check import CheckReport
from memory_ci.flows.guard.verify import verify_change
from memory_ci.flows.index import build_index
from memory_ci.flows.measure.health import list_remarks
from memory_ci.flows.publish.ci_event import CiJob
from memory_ci.flows.publish.comment import comment_on_cited
from memory_ci.flows.publish.publish import PublishOptions, find_delay, publish
from memory_ci.flows.publish.replan import move_plan
from memory_ci.flows.record.apply import parse_plan, preview_plan, trim_plan
from memory_ci.flows.record.learner import OnProgress
from memory_ci.flows.record.run import RecordOptions, fetch_sessions, plan_record, save_plan
from memory_ci.flows.workspace import Workspace, branch_name, index_path, memory_test, workspace_at
from memory_ci.gitrepo.history import STEP, iter_merged_changes, plan_range
from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.gitrepo.repo import find_commit
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.records.config import EngineName, PublishMode
from memory_ci.records.plan import Plan, Published
from memory_ci.records.report import Level
from memory_ci.records.retrieval import IndexUse

LASTING = frozenset({"forge-failed", "forge-unauthorised", "engine-unauthorised", "unreadable-reply"})
"""A wrong permission or a bad answer: it does not pass by itself, as a fault of the network does."""

PATIENCE = timedelta(days=1)
"""How long one merge may wait for its first run, before an earlier run must have failed at it too."""


class CiOptions(msgspec.Struct, frozen=True):
    """`extract` writes the plan there and changes nothing; `apply` is a plan to perform: no engine is asked.

    `push` None: what the configuration of the branch says. `now`: whether `publish.every` lets it or not.
    """

    engine: EngineName | None = None
    push: PublishMode | None = None
    extract: Path | None = None
    apply: bytes | None = None
    dry_run: bool = False
    now: bool = False


class CiRun(msgspec.Struct, frozen=True):
    """What a job did: its report when it verified, else the plan, and the commits that it made or (dry) would make.

    `remarks` are lines about memory as a whole, after what was done; of a job that verified, about its comment.
    `is_memory_only`: the change that was verified touches nothing else.
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
        """Whether a run was asked for that is not due, or that people's review holds up."""
        return self.is_delayed or (self.published is not None and self.published.is_paused)

    @property
    def exit_code(self) -> int:
        """Of a stop that fails the job, that of an engine; of a report with errors, 1."""
        if self.stop is not None and self.stop.is_red:
            return EngineError.exit_code
        return 0 if self.report is None or self.report.is_ok else 1


def run_ci(
    workspace: Workspace,
    job: CiJob,
    options: CiOptions,
    now: datetime,
    progress: OnProgress,
    environ: Mapping[str, str],
) -> CiRun:
    """Do what the job is for. Raises what verifying, recording and publishing raise."""
    if job.kind == "verify":
        report = verify_change(workspace, job.base, "HEAD", is_fork=job.is_fork)
        said = "" if options.dry_run else comment_on_cited(workspace, job, report.findings, environ)
        alone = _is_memory_only(workspace, job.base)
        return CiRun(job, report, remarks=(said,) if said else (), is_memory_only=alone)
    if job.kind == "nothing":
        return CiRun(job)
    given = None if options.apply is None else parse_plan(options.apply)

    def make_plan(ref: str, accepted: frozenset[str]) -> Plan:
        """A new plan on a ref; one that is given is moved there, if it still fits."""
        if given is not None:
            return move_plan(workspace, given, ref)
        problems = () if options.dry_run else fetch_sessions(workspace, ref, environ)
        asked = RecordOptions(ref=ref, engine=options.engine, problems=problems, accepted=accepted)
        return plan_record(workspace, asked, now.date(), progress, environ)

    ref = branch_name(workspace, job.branch)
    asked = PublishOptions(options.push, ref, options.now)
    if options.extract is not None:
        if wait := find_delay(workspace, asked, now, environ):
            return CiRun(replace(job, kind="nothing", reason=wait), is_delayed=True)
        plan = make_plan(ref, frozenset())
        save_plan(plan, options.extract)
        stop = find_stop(workspace, plan, now)  # the job that performs the plan ends red, so that this one is kept
        return CiRun(job, plan=plan, stop=stop and replace(stop, is_red=False))
    if options.dry_run:
        plan = make_plan(ref, frozenset())
        published = Published("none", "", subjects=preview_plan(workspace, plan, now).subjects)
        return CiRun(job, plan=plan, published=published, stop=find_stop(workspace, plan, now))
    sent = publish(workspace, asked, make_plan, now, environ)
    return CiRun(
        job,
        plan=sent.plan and trim_plan(sent.plan, workspace_at(workspace.repo, sent.plan.base).config.evidence.quotes),
        published=sent,
        index=_index(workspace, ref),
        remarks=list_remarks(workspace, ref, now.date()),
        stop=find_stop(workspace, sent.plan, now) if sent.plan else None,
    )


def _is_memory_only(workspace: Workspace, base: str | None) -> bool:
    """Whether HEAD differs from where it left a base in memory alone, as the base knows memory."""
    if base is None or find_commit(workspace.repo, base) is None:
        return False
    shown = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=none")
    found = run_git(workspace.repo.cwd, "diff", *shown, "--end-of-options", f"{base}...HEAD", "--")
    paths = [decode_path(path) for path in found.split(b"\0") if path]
    return bool(paths) and all(map(memory_test(workspace_at(workspace.repo, base)), paths))


def _index(workspace: Workspace, ref: str) -> IndexUse:
    """The index of the branch as it is now, ready for the cache."""
    here = workspace_at(workspace.repo, ref)
    report, path = build_index(here, ref), index_path(here)
    return IndexUse(report.key, path.stat().st_size if path.exists() else 0, report.was_rebuilt)


def list_outputs(run: CiRun) -> dict[str, str]:
    """What later steps of the job can ask: one line each, the same names in every job."""
    report, plan, sent = run.report, run.plan, run.published
    learned = [change for step in plan.steps if step.step == "extract" for change in step.changes] if plan else []
    return {
        "job": run.job.kind,
        "findings": str(len(report.findings)) if report else "0",
        "memory-only": str(run.is_memory_only).lower(),
        "learned": str(len(learned)),
        "commits": str(len(sent.subjects)) if sent else "0",
        "tip": sent.tip if sent else "",
        "pull-request": sent.url if sent else "",
        "index-key": run.index.key if run.index else "",
        "failure": plan.engine.failure if plan else "",
    }


def format_outputs(outputs: Mapping[str, str], delimiter: str) -> str:
    """Outputs as a runner reads them; `delimiter` is random, so that no value can end itself and begin another.

    >>> format_outputs({"tip": "abc"}, "x1")
    'tip<<x1\\nabc\\nx1\\n'
    """
    return "".join(f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in outputs.items())


def append_text(path: Path, text: str) -> None:
    """Add to a file that the runner reads after the step. Raises RepositoryError (write-failed)."""
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise RepositoryError(f"cannot write {path}: {error.strerror}", slug="write-failed") from error


class Stop(msgspec.Struct, frozen=True):
    """Why a run stopped, and what to do; `level` is error from the second stop in a row, `is_red` fails the job."""

    reason: str
    hint: str
    level: Level
    is_red: bool


def find_stop(workspace: Workspace, plan: Plan, now: datetime) -> Stop | None:
    """What there is to say of a plan whose run stopped; None for one that reached its end."""
    use = plan.engine
    if not use.failure:
        return None
    slug = use.failure.rpartition("[")[2].removesuffix("]")
    fail_on = workspace_at(workspace.repo, plan.base).config.ci.fail_on
    is_red = fail_on == "any" or (fail_on == "lasting" and slug in LASTING)
    level: Level = "error" if _is_lagging(workspace, plan, now) else "warning"
    return Stop(use.failure, use.hint, level, is_red)


def _is_lagging(workspace: Workspace, plan: Plan, now: datetime) -> bool:
    """Whether an earlier run must have stopped as well: each merge starts one, so two that wait have seen two."""
    history = plan_range(workspace.repo, plan.until or plan.since, plan.base)
    changes = iter_merged_changes(workspace.repo, history)
    waiting = list(islice((one for one in changes if not find_trailers(one.tip.message, (STEP,))), 2))
    return len(waiting) > 1 or any(now - one.tip.committed_at > PATIENCE for one in waiting)
