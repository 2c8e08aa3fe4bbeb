"""The health of the memory of a work tree or a commit (docs/report.md).

It is measured from the tree and its history alone, in an index in memory; nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta

from msgspec.structs import replace

from memory_ci import progress
from memory_ci.commands.health import metrics
from memory_ci.commands.health.crewship_profile import measure_crewship
from memory_ci.commands.health.git_profile import measure_git
from memory_ci.commands.health.inputs import HealthInputs, HealthView, open_inputs
from memory_ci.commands.health.records import Health, Profile
from memory_ci.commands.health.text import render_health_line, render_holdout
from memory_ci.errors import MemoryCIError, RepositoryError, UsageError
from memory_ci.findings import printable
from memory_ci.gitrepo.history import find_last_uses
from memory_ci.gitrepo.repo import find_commit, read_tips
from memory_ci.memory.past_index import PastMoment, find_moment
from memory_ci.memory.workspace import Workspace, workspace_at
from memory_ci.sessions.nudge import find_nudge

MAX_ON_PAGE = 5_000  # Active entries; a page of a job does not wait for the health of more.
MAX_MONTHS = 12


def measure_health(
    workspace: Workspace,
    today: date,
    *,
    at: str | None = None,
    profile: Profile | None = None,
    environ: Mapping[str, str] | None = None,
) -> Health:
    """Measure the health of memory: of the work tree today, or at a revision or on a day.

    Args:
        workspace: the repository and its configuration.
        today: the present day.
        at: a revision, or a day (`2026-09-01`) which then counts as today; None: the work tree.
        profile: the definitions of the metrics; None: those of the configuration.
        environ: gives the profile "crewship" its embedder; None: none is used.

    Raises:
        RepositoryError: unknown-revision, shallow-clone.
    """
    if at is not None:
        return _measure_moment(find_moment(workspace, at), profile, environ)

    tips = read_tips(workspace.repo)
    checked_out = find_commit(workspace.repo, "HEAD")
    tip = checked_out
    if (
        tips.work_branch and tips.commit
    ):  # On a branch of work the history of the default branch counts.
        tip = tips.commit
    view = HealthView(commit=None, tip=tip, today=today, checked_out=checked_out)
    with open_inputs(workspace, view) as inputs:
        return _measure_by_profile(inputs, profile, environ)


def measure_history(
    workspace: Workspace,
    today: date,
    profile: Profile | None = None,
    environ: Mapping[str, str] | None = None,
    limit: int = MAX_MONTHS,
) -> tuple[Health, ...]:
    """Return the health today and at the end of each month before, newest first.

    It goes back at most `limit` months, to the first commit or to the end of a shallow clone.

    Args:
        workspace: the repository and its configuration.
        today: the present day.
        profile: the definitions of the metrics for all months; None: those of the present
            configuration.
        environ: gives the profile "crewship" its embedder; None: none is used.
        limit: the largest number of months.
    """
    profile = profile or workspace.config.health.profile
    day = today
    months: list[Health] = []
    with suppress(RepositoryError):  # The months that a shallow clone holds are measured.
        while len(months) < limit:
            progress.report("Measuring months", len(months), limit)
            moment = find_moment(workspace, day.isoformat())
            if moment.commit is None:
                break
            months.append(_measure_moment(moment, profile, environ))
            last_of_month_before = day.replace(day=1) - timedelta(days=1)
            day = last_of_month_before
    return tuple(months)


def find_branch_health(workspace: Workspace, ref: str, today: date) -> Health | None:
    """Return the health of a branch, for the page of a CI job.

    It is measured by the profile of the configuration, and without an embedder.

    Returns:
        The health; None if git fails, or if the branch has more than `MAX_ON_PAGE` active entries,
        which would take too long.
    """
    with suppress(MemoryCIError):
        tip = find_commit(workspace.repo, ref)
        if tip is None:
            return None
        with open_inputs(workspace, HealthView(commit=tip, tip=tip, today=today)) as inputs:
            if len(inputs.active) <= MAX_ON_PAGE:
                return _measure_by_profile(inputs, profile=None, environ=None)
    return None


def list_health_remarks(workspace: Workspace, ref: str, today: date) -> tuple[str, ...]:
    """Return remarks on the memory of a branch, for the page of a CI job.

    In this order, each left out if it does not apply: its health; a reminder that is due; which
    agents last committed work that was served memory; whether a share of sessions is held out,
    that is served nothing, to measure the effect of memory.
    """
    branch = workspace_at(workspace.repo, ref)
    remarks = []
    health = find_branch_health(branch, ref, today)
    if health:
        remarks.append(render_health_line(health))

    due_reminder = find_nudge(branch, ref)
    remarks.append(due_reminder)

    readers = find_last_uses(branch.repo, ref)
    if readers:
        last_commits = ", ".join(f"{name} on {time:%Y-%m-%d}" for name, time in readers.items())
        remarks.append(
            printable(f"Work that was served memory was last committed by {last_commits}.")
        )

    remarks.append(render_holdout(branch.config.retrieve.holdout))
    return tuple(remark for remark in remarks if remark)


def _measure_moment(
    moment: PastMoment, profile: Profile | None, environ: Mapping[str, str] | None
) -> Health:
    """Measure health at a past moment, by the configuration that its commit has.

    So a commit has the same health on every clone. The embedder is that of today's configuration,
    for it says which service is sent texts. Where the configuration of the commit cannot be read,
    all of today's is used.
    """
    workspace = moment.workspace
    if moment.commit is not None:
        with suppress(UsageError):
            past_config = workspace_at(workspace.repo, moment.commit).config
            present_retrieve = workspace.config.retrieve
            retrieve = replace(
                past_config.retrieve,
                embedder=present_retrieve.embedder,
                embedder_model=present_retrieve.embedder_model,
            )
            workspace = Workspace(workspace.repo, replace(past_config, retrieve=retrieve))

    view = HealthView(commit=moment.commit or "", tip=moment.commit, today=moment.today)
    with open_inputs(workspace, view) as inputs:
        return _measure_by_profile(inputs, profile, environ)


def _measure_by_profile(
    inputs: HealthInputs, profile: Profile | None, environ: Mapping[str, str] | None
) -> Health:
    """Return the health of a tree by the metrics of a profile; None: that of its configuration."""
    profile = profile or inputs.workspace.config.health.profile
    if profile == "git":
        measurements = measure_git(inputs)
    else:
        measurements = measure_crewship(inputs, environ)
    return metrics.weigh_metrics(profile, inputs.today, inputs.view.commit, measurements)
