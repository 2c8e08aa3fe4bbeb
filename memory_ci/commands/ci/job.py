"""The job of a CI run in one process: verify a change, or record what was merged; and what is said of it afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from memory_ci import __version__
from memory_ci.commands.check.check import CheckReport
from memory_ci.commands.check.verify import verify_change
from memory_ci.commands.ci.event import CiJob
from memory_ci.commands.health.health import list_remarks
from memory_ci.commands.publish.carry_over import move_plan
from memory_ci.commands.publish.publish import PublishOptions, find_delay, publish
from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import RecordOptions, fetch_sessions, plan_record, save_plan
from memory_ci.commands.record.text import render_findings
from memory_ci.errors import EngineError, MemoryCIError, RepositoryError
from memory_ci.forge.selection import choose_proposals
from memory_ci.gitrepo.history import STEP, find_cursor, iter_merged_changes, plan_range, sum_costs
from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.gitrepo.repo import Repository, find_commit, find_setting
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.memory.apply import parse_plan, preview_plan, trim_plan
from memory_ci.memory.index import build_index
from memory_ci.memory.workspace import Workspace, branch_name, index_path, memory_test, workspace_at
from memory_ci.records.config import EngineName, PublishMode
from memory_ci.records.episode import Episode
from memory_ci.records.history import MergedChange
from memory_ci.records.plan import (
    ENDPOINTS,
    Change,
    Lag,
    OpenRequest,
    Plan,
    Published,
    RunLine,
    RunState,
    Served,
)
from memory_ci.records.report import Finding, Level
from memory_ci.records.retrieval import IndexUse
from memory_ci.secrets import mask_secrets
from memory_ci.store.episodes import parse_episode_file

LASTING = frozenset(
    {"forge-failed", "forge-unauthorised", "engine-unauthorised", "unreadable-reply"}
)
"""A wrong permission or a bad answer: it does not pass by itself, as a fault of the network does."""

PATIENCE = timedelta(days=1)
"""How long one merge may wait for its first run, before an earlier run must have failed at it too."""

SECONDS = 5  # How long a collector may take; a job does not wait for who watches it.
MARKER = "<!-- memory-ci: cited code -->"
TITLE = "This change edits code that memory speaks about"
DONE = f"{MARKER}\nThis change no longer edits code that memory speaks about.\n"
MAX_BYTES = 60_000  # Of a comment; GitHub takes 65,536 characters.


class CiOptions(msgspec.Struct, frozen=True):
    """`extract` writes the plan there and changes nothing; `apply` is a plan to perform: no engine is asked. `push`
    None: what the configuration of the branch says. `now`: whether `publish.every` lets it or not."""

    engine: EngineName | None = None
    push: PublishMode | None = None
    extract: Path | None = None
    apply: bytes | None = None
    dry_run: bool = False
    now: bool = False


class Stop(msgspec.Struct, frozen=True):
    """Why a run stopped, and what to do; `level` is error from the second stop in a row, `is_red` fails the job."""

    reason: str
    hint: str
    level: Level
    is_red: bool


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
        if wait := find_delay(workspace, asked, make_plan, now, environ):
            return CiRun(replace(job, kind="nothing", reason=wait), is_delayed=True)
        plan = make_plan(ref, frozenset())
        save_plan(plan, options.extract)
        stop = find_stop(
            workspace, plan, now
        )  # the job that performs the plan ends red, so that this one is kept
        return CiRun(job, plan=plan, stop=stop and replace(stop, is_red=False))
    if options.dry_run:
        plan = make_plan(ref, frozenset())
        published = Published("none", "", subjects=preview_plan(workspace, plan, now).subjects)
        return CiRun(job, plan=plan, published=published, stop=find_stop(workspace, plan, now))
    sent = publish(workspace, asked, make_plan, now, environ)
    here = workspace_at(workspace.repo, ref)
    index, path = (
        build_index(here, ref),
        index_path(here),
    )  # of the branch as it is now, ready for the cache
    return CiRun(
        job,
        plan=sent.plan
        and trim_plan(
            sent.plan, workspace_at(workspace.repo, sent.plan.base).config.evidence.quotes
        ),
        published=sent,
        index=IndexUse(index.key, path.stat().st_size if path.exists() else 0, index.was_rebuilt),
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


def _iter_waiting(repo: Repository, since: str | None, tip: str) -> Iterator[MergedChange]:
    """Merged work that no run has covered; record runs themselves are none."""
    merged = iter_merged_changes(repo, plan_range(repo, since, tip))
    return (one for one in merged if not find_trailers(one.tip.message, (STEP,)))


def list_outputs(run: CiRun) -> dict[str, str]:
    """What later steps of the job can ask: one line each, the same names in every job."""
    report, plan, sent = run.report, run.plan, run.published
    return {
        "job": run.job.kind,
        "findings": str(len(report.findings)) if report else "0",
        "memory-only": str(run.is_memory_only).lower(),
        "learned": str(len(_list_learned(plan))),
        "commits": str(len(sent.subjects)) if sent else "0",
        "tip": sent.tip if sent else "",
        "pull-request": sent.url if sent else "",
        "index-key": run.index.key if run.index else "",
        "failure": plan.engine.failure if plan else "",
    }


def _list_learned(plan: Plan | None) -> list[Change]:
    return (
        [one for step in plan.steps if step.step == "extract" for one in step.changes]
        if plan
        else []
    )


def format_outputs(outputs: Mapping[str, str], delimiter: str) -> str:
    """Outputs as a runner reads them; `delimiter` is random, so that no value can end itself and begin another.

    >>> format_outputs({"tip": "abc"}, "x1")
    'tip<<x1\\nabc\\nx1\\n'
    """
    return "".join(
        f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in outputs.items()
    )


def append_text(path: Path, text: str) -> None:
    """Add to a file that the runner reads after the step. Raises RepositoryError (write-failed)."""
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise RepositoryError(
            f"cannot write {path}: {error.strerror}", slug="write-failed"
        ) from error


def find_stop(workspace: Workspace, plan: Plan, now: datetime) -> Stop | None:
    """What there is to say of a plan whose run stopped; None for one that reached its end."""
    use = plan.engine
    if not use.failure:
        return None
    slug = use.failure.rpartition("[")[2].removesuffix("]")
    fail_on = workspace_at(workspace.repo, plan.base).config.ci.fail_on
    is_red = fail_on == "any" or (fail_on == "lasting" and slug in LASTING)
    # Each merge starts a run: if two wait, or one for long, an earlier run must have stopped as well.
    waiting = list(islice(_iter_waiting(workspace.repo, plan.until or plan.since, plan.base), 2))
    is_lagging = len(waiting) > 1 or any(now - one.tip.committed_at > PATIENCE for one in waiting)
    level: Level = "error" if is_lagging else "warning"
    return Stop(use.failure, use.hint, level, is_red)


def comment_on_cited(
    workspace: Workspace, job: CiJob, findings: Sequence[Finding], environ: Mapping[str, str]
) -> str:
    """What became of the comment, "" where there is nothing to say. A forge that refuses does not fail the job. A fork
    has none: it could steer what is said. Whether there is one says the configuration of the base."""
    base = find_commit(workspace.repo, job.base) if job.base else None
    if job.number is None or job.is_fork or base is None:
        return ""
    config = workspace_at(workspace.repo, base).config
    if not config.ci.comment:
        return ""
    cited = [one for one in findings if one.code in ("anchor-changed", "anchor-gone")]
    body = (
        f"{MARKER}\n{render_findings(TITLE, cited, MAX_BYTES - len(MARKER) - 1)}" if cited else DONE
    )
    try:
        forge = choose_proposals(
            config.forge, environ, workspace.repo.common_dir / "memory-ci" / "forge-cache"
        )
        if forge is None:
            return ""
        known = forge.find_comment(job.number, MARKER)
        if known is None and cited:
            forge.add_comment(job.number, body)
            return "commented on the request"
        if known is None or known.body.replace("\r\n", "\n").strip() == body.strip():
            return ""
        forge.update_comment(job.number, known, body)
    except EngineError as error:
        return f"no comment on the request: {error.message}"
    return "the comment on the request is up to date"


def describe_run(
    workspace: Workspace, run: CiRun, now: datetime, environ: Mapping[str, str]
) -> RunLine:
    """The line of a run that came to its end."""
    plan, sent = run.plan, run.published
    state: RunState
    if run.stop:
        state, reason = "stopped", run.stop.reason
    elif run.report and not run.report.is_ok:
        state, reason = "findings", ""
    elif run.is_waiting:
        state, reason = "waiting", sent.reason if sent else run.job.reason
    else:
        state, reason = "done", ""
    found = (
        parse_episode_file(file.path, file.text.encode()).tellings
        for file in (plan.episodes if plan else ())
    )
    told = [
        one for tellings in found for one in tellings if isinstance(one, Episode) and one.retrieved
    ]
    used = sum(len({given.id for given in one.retrieved}.intersection(one.used)) for one in told)
    lag, month_usd = _find_facts(workspace, run, now)
    return replace(
        _begin(workspace, state, reason, now, environ),
        job=run.job.kind,
        findings=len(run.report.findings) if run.report else 0,
        learned=len(_list_learned(plan)),
        lag=lag,
        month_usd=month_usd,
        served=Served(len(told), sum(len(one.retrieved) for one in told), used),
        cost_usd=plan.engine.cost_usd if plan else 0.0,
        request=OpenRequest(sent.url, (now - sent.opened).days)
        if sent and sent.url and sent.opened
        else None,
    )


def describe_failure(
    workspace: Workspace, error: MemoryCIError, now: datetime, environ: Mapping[str, str]
) -> RunLine:
    """The line of a run that an error ended."""
    return _begin(workspace, "failed", f"{error.message} [{error.slug}]", now, environ)


def _begin(
    workspace: Workspace, state: RunState, reason: str, now: datetime, environ: Mapping[str, str]
) -> RunLine:
    """The repository is what the forge calls it, else the path of its remote, else the name of its directory."""
    repo = workspace.repo
    url = find_setting(repo, f"remote.{workspace.config.publish.remote}.url") or ""
    path = urlsplit(url).path if "://" in url else url.partition(":")[2]
    return RunLine(
        version=__version__,
        repository=environ.get("GITHUB_REPOSITORY")
        or environ.get("CI_PROJECT_PATH")
        or path.strip("/").removesuffix(".git")
        or (repo.root or repo.git_dir).name,
        at=now,
        job="",
        state=state,
        reason=mask_secrets(reason),
        commit=find_commit(repo, "HEAD") or "",
    )


def _find_facts(workspace: Workspace, run: CiRun, now: datetime) -> tuple[Lag, float]:
    """How much merged work no run has covered, and what the month took; nothing where git cannot tell."""
    if run.job.kind == "verify":
        return Lag(), 0.0
    repo, plan, sent = workspace.repo, run.plan, run.published
    tip = (sent.tip if sent else "") or find_commit(repo, "HEAD") or ""
    with suppress(MemoryCIError):
        month = sum_costs(repo, now.date().replace(day=1), "--first-parent", tip)
        base = plan.base if plan else tip
        cursor = find_cursor(repo, tip, memory_test(workspace))
        since = (plan.until or plan.since) if plan else cursor.source if cursor else None
        waiting = list(_iter_waiting(repo, since, base))
        oldest = min((one.tip.committed_at for one in waiting), default=now)
        return Lag(len(waiting), max(0, (now - oldest).days)), round(float(month), 6)
    return Lag(), 0.0


def export_span(line: RunLine, ended: datetime, environ: Mapping[str, str]) -> str:
    """Send the line as one span to the collector that the environment names, if it names one; why that failed, or "".
    The variables are those of OpenTelemetry (opentelemetry.io, "OTLP Exporter Configuration")."""
    if not any(environ.get(name) for name in ENDPOINTS):
        return ""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.trace import StatusCode
    except ImportError:
        return (
            f"{ENDPOINTS[0]} is set, and memory-ci[otel] is not installed: nothing was sent to it"
        )
    provider = TracerProvider(
        resource=Resource.create({"service.name": "memory-ci", "service.version": line.version})
    )
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(timeout=SECONDS)))
    span = provider.get_tracer("memory-ci").start_span(
        "memory-ci ci", start_time=int(line.at.timestamp() * 1e9)
    )
    waiting: list[tuple[str, object]] = [("memory_ci", msgspec.to_builtins(line))]
    for name, value in waiting:
        if isinstance(value, Mapping):
            waiting += ((f"{name}.{key}", one) for key, one in value.items())
        elif isinstance(value, str | int | float):
            span.set_attribute(name, value)
    if line.state in ("stopped", "failed"):
        span.set_status(StatusCode.ERROR, line.reason)
    span.end(int(ended.timestamp() * 1e9))
    provider.shutdown()
    return ""
