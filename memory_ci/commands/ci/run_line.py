"""The line of JSON that says how a run in CI went, and the same as a span of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from memory_ci import __version__
from memory_ci.commands.ci.job import CiRun, iter_unread_changes
from memory_ci.commands.ci.outputs import list_learned
from memory_ci.errors import MemoryCIError
from memory_ci.gitrepo.record_commits import find_cursor, sum_costs
from memory_ci.gitrepo.repo import find_commit, find_setting
from memory_ci.memory.workspace import Workspace, build_memory_test
from memory_ci.records.episode import Episode
from memory_ci.records.plan import (
    COLLECTOR_VARIABLES,
    Lag,
    OpenRequest,
    Plan,
    Published,
    RunLine,
    RunState,
    Served,
)
from memory_ci.secrets import mask_secrets
from memory_ci.store.episodes import parse_episode_file

COLLECTOR_SECONDS = 5
"""The time limit of a collector: a job does not wait for its observers."""


def describe_run(
    workspace: Workspace, run: CiRun, now: datetime, environ: Mapping[str, str]
) -> RunLine:
    """Return the line that says how a run went, with its figures.

    Args:
        workspace: the repository.
        run: the result of the run.
        now: when the run began.
        environ: environment variables, which name the repository on the forge.
    """
    state, reason = _find_state(run)
    lag, month_usd = _measure_lag(workspace, run, now)
    return replace(
        _make_line(workspace, state, reason, now, environ),
        job=run.job.kind,
        findings=len(run.report.findings) if run.report else 0,
        learned=len(list_learned(run.plan)),
        lag=lag,
        month_usd=month_usd,
        served=_count_served(run.plan),
        cost_usd=run.plan.engine.cost_usd if run.plan else 0.0,
        request=_find_open_request(run.published, now),
    )


def describe_failure(
    workspace: Workspace, error: MemoryCIError, now: datetime, environ: Mapping[str, str]
) -> RunLine:
    """Return the line of a run that an error ended."""
    return _make_line(workspace, "failed", f"{error.message} [{error.slug}]", now, environ)


def _find_state(run: CiRun) -> tuple[RunState, str]:
    """Return the state of a run (`done`, `findings`, `waiting`, `stopped`), and the reason for it.

    A run that waits is not due yet, or its pull request is under review.
    """
    if run.stop:
        return "stopped", run.stop.reason
    if run.report and not run.report.is_ok:
        return "findings", ""
    if run.is_waiting:
        return "waiting", run.published.reason if run.published else run.job.reason
    return "done", ""


def _make_line(
    workspace: Workspace, state: RunState, reason: str, now: datetime, environ: Mapping[str, str]
) -> RunLine:
    """Return a line that has the state of a run and its repository, but no figures yet."""
    return RunLine(
        version=__version__,
        repository=_name_repository(workspace, environ),
        at=now,
        job="",
        state=state,
        reason=mask_secrets(reason),
        commit=find_commit(workspace.repo, "HEAD") or "",
    )


def _name_repository(workspace: Workspace, environ: Mapping[str, str]) -> str:
    """Return the name of the repository: `owner/name` if the job or the remote says it.

    Else it is the name of the directory.
    """
    repo = workspace.repo
    remote_url = find_setting(repo, f"remote.{workspace.config.publish.remote}.url") or ""
    is_url = "://" in remote_url  # The other form is that of ssh: git@example.org:owner/name.git
    remote_path = urlsplit(remote_url).path if is_url else remote_url.partition(":")[2]
    names = (
        environ.get("GITHUB_REPOSITORY"),
        environ.get("CI_PROJECT_PATH"),
        remote_path.strip("/").removesuffix(".git"),
    )
    for name in names:
        if name:
            return name
    return (repo.root or repo.git_dir).name


def _measure_lag(workspace: Workspace, run: CiRun, now: datetime) -> tuple[Lag, float]:
    """Return how much merged work no run has read, and the cost of this month's runs in USD.

    Both are zero for a job that verified a change, and if git fails, as in a shallow clone.
    """
    if run.job.kind == "verify":
        return Lag(), 0.0
    repo = workspace.repo
    tip = find_commit(repo, "HEAD") or ""
    if run.published and run.published.tip:
        tip = run.published.tip
    try:
        month_usd = sum_costs(repo, now.date().replace(day=1), "--first-parent", tip)
        if run.plan:  # This run read changes, from the plan's base back to `until` or `since`.
            last_read_sha = run.plan.until or run.plan.since
            newest_sha = run.plan.base
        else:
            last_run = find_cursor(repo, tip, build_memory_test(workspace))
            last_read_sha = last_run.source if last_run else None
            newest_sha = tip
        unread_changes = list(iter_unread_changes(repo, last_read_sha, newest_sha))
    except MemoryCIError:
        return Lag(), 0.0
    oldest_merge = min((change.tip.committed_at for change in unread_changes), default=now)
    lag = Lag(len(unread_changes), max(0, (now - oldest_merge).days))
    return lag, round(float(month_usd), 6)


def _count_served(plan: Plan | None) -> Served:
    """Count the entries that agents were shown for the merged changes of a run.

    Returns:
        The number of merged changes whose agents were shown entries, of these entries, and of those
        that the change used.
    """
    change_count = 0
    served_count = 0
    used_count = 0
    for episode in _list_new_episodes(plan):
        served_ids = [served_entry.id for served_entry in episode.retrieved]
        if served_ids:
            change_count += 1
            served_count += len(served_ids)
            used_count += len(set(served_ids) & set(episode.used))
    return Served(change_count, served_count, used_count)


def _list_new_episodes(plan: Plan | None) -> list[Episode]:
    """Return the episodes that a run writes: a record for each merged change."""
    if plan is None:
        return []
    episodes = []
    for file in plan.episodes:
        parsed_file = parse_episode_file(file.path, file.text.encode())
        episodes += [record for record in parsed_file.records if isinstance(record, Episode)]
    return episodes


def _find_open_request(published: Published | None, now: datetime) -> OpenRequest | None:
    """Return the open pull request of the memory branch, with its age in days."""
    if published is None or not published.url or not published.opened:
        return None
    return OpenRequest(published.url, (now - published.opened).days)


def export_span(line: RunLine, ended: datetime, environ: Mapping[str, str]) -> str:
    """Send the line of a run as one span of OpenTelemetry, if the environment names a collector.

    The variables are those of OpenTelemetry (opentelemetry.io, "OTLP Exporter Configuration").

    Returns:
        Why nothing was sent although a collector is named, or "".
    """
    if not any(environ.get(name) for name in COLLECTOR_VARIABLES):
        return ""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.trace import StatusCode
    except ImportError:
        missing = "memory-ci[otel] is not installed: nothing was sent to it"
        return f"{COLLECTOR_VARIABLES[0]} is set, and {missing}"
    service = {"service.name": "memory-ci", "service.version": line.version}
    provider = TracerProvider(resource=Resource.create(service))
    exporter = OTLPSpanExporter(timeout=COLLECTOR_SECONDS)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    started_ns = int(line.at.timestamp() * 1e9)
    span = provider.get_tracer("memory-ci").start_span("memory-ci ci", start_time=started_ns)
    for name, value in _flatten_line(line).items():
        span.set_attribute(name, value)
    if line.state in ("stopped", "failed"):
        span.set_status(StatusCode.ERROR, line.reason)
    span.end(int(ended.timestamp() * 1e9))
    provider.shutdown()
    return ""


def _flatten_line(line: RunLine) -> dict[str, str | int | float]:
    """Return the texts and numbers of a line by dotted names: `memory_ci.lag.changes`."""
    attributes: dict[str, str | int | float] = {}
    pending_values: list[tuple[str, object]] = [("memory_ci", msgspec.to_builtins(line))]
    while pending_values:
        name, value = pending_values.pop(0)
        if isinstance(value, Mapping):
            pending_values += [(f"{name}.{key}", inner) for key, inner in value.items()]
        elif isinstance(value, str | int | float):
            attributes[name] = value
    return attributes
