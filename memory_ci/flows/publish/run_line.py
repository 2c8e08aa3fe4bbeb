"""The line of JSON that a CI run ends with, and the span for OpenTelemetry where the environment asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from urllib.parse import urlsplit

import msgspec

from memory_ci import __version__
from memory_ci.errors import MemoryCIError
from memory_ci.flows.publish.ci import CiRun
from memory_ci.flows.workspace import Workspace, memory_test
from memory_ci.gitrepo.history import STEP, find_cursor, iter_merged_changes, plan_range, sum_costs
from memory_ci.gitrepo.repo import find_commit, find_setting
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.records.episode import Episode
from memory_ci.records.plan import ENDPOINTS, Lag, OpenRequest, Plan, RunLine, RunState, Served
from memory_ci.secrets import mask_secrets
from memory_ci.store.episodes import parse_episode_file

SECONDS = 5
"""How long a collector may take; a job does not wait for who watches it."""


def describe_run(workspace: Workspace, run: CiRun, now: datetime, environ: Mapping[str, str]) -> RunLine:
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
    learned = sum(len(step.changes) for step in plan.steps if step.step == "extract") if plan else 0
    request = OpenRequest(sent.url, (now - sent.opened).days) if sent and sent.url and sent.opened else None
    facts = _find_facts(workspace, run, now)
    return msgspec.structs.replace(
        _begin(workspace, state, reason, now, environ),
        job=run.job.kind,
        findings=len(run.report.findings) if run.report else 0,
        learned=learned,
        lag=facts[0],
        month_usd=facts[1],
        served=_count_served(plan) if plan else Served(),
        cost_usd=plan.engine.cost_usd if plan else 0.0,
        request=request,
    )


def describe_failure(workspace: Workspace, error: MemoryCIError, now: datetime, environ: Mapping[str, str]) -> RunLine:
    """The line of a run that an error ended."""
    return _begin(workspace, "failed", f"{error.message} [{error.slug}]", now, environ)


def _begin(workspace: Workspace, state: RunState, reason: str, now: datetime, environ: Mapping[str, str]) -> RunLine:
    commit = find_commit(workspace.repo, "HEAD") or ""
    name = _name(workspace, environ)
    return RunLine(
        version=__version__, repository=name, at=now, job="", state=state, reason=mask_secrets(reason), commit=commit
    )


def _name(workspace: Workspace, environ: Mapping[str, str]) -> str:
    """What the forge calls the repository, else the path of its remote, else the name of its directory."""
    if name := environ.get("GITHUB_REPOSITORY") or environ.get("CI_PROJECT_PATH"):
        return name
    url = find_setting(workspace.repo, f"remote.{workspace.config.publish.remote}.url") or ""
    path = urlsplit(url).path if "://" in url else url.partition(":")[2]
    return path.strip("/").removesuffix(".git") or (workspace.repo.root or workspace.repo.git_dir).name


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
        merged = iter_merged_changes(repo, plan_range(repo, since, base))
        waiting = [one for one in merged if not find_trailers(one.tip.message, (STEP,))]
        oldest = min((one.tip.committed_at for one in waiting), default=now)
        return Lag(len(waiting), max(0, (now - oldest).days)), round(float(month), 6)
    return Lag(), 0.0


def _count_served(plan: Plan) -> Served:
    found = (parse_episode_file(file.path, file.text.encode()).tellings for file in plan.episodes)
    told = [one for tellings in found for one in tellings if isinstance(one, Episode) and one.retrieved]
    used = sum(len({given.id for given in one.retrieved}.intersection(one.used)) for one in told)
    return Served(len(told), sum(len(one.retrieved) for one in told), used)


def export_span(line: RunLine, ended: datetime, environ: Mapping[str, str]) -> str:
    """Send the line as one span to the collector that the environment names, if it names one; why that failed, or "".

    The variables are those of OpenTelemetry (opentelemetry.io, "OTLP Exporter Configuration").
    """
    if not any(environ.get(name) for name in ENDPOINTS):
        return ""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.trace import StatusCode
    except ImportError:
        return f"{ENDPOINTS[0]} is set, and memory-ci[otel] is not installed: nothing was sent to it"
    provider = TracerProvider(resource=Resource.create({"service.name": "memory-ci", "service.version": line.version}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(timeout=SECONDS)))
    span = provider.get_tracer("memory-ci").start_span("memory-ci ci", start_time=int(line.at.timestamp() * 1e9))
    for name, value in _flatten(msgspec.to_builtins(line)):
        span.set_attribute(f"memory_ci.{name}", value)
    if line.state in ("stopped", "failed"):
        span.set_status(StatusCode.ERROR, line.reason)
    span.end(int(ended.timestamp() * 1e9))
    provider.shutdown()
    return ""


def _flatten(fields: Mapping[str, object], prefix: str = "") -> list[tuple[str, str | int | float]]:
    found: list[tuple[str, str | int | float]] = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            found += _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float):
            found.append((f"{prefix}{name}", value))
    return found
