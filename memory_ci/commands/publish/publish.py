"""Publishing of a run's commits to the remote: by push, by pull request, or by the forge's API.

The pull request has one branch, the memory branch. It holds the entries that memory would gain, and
each run makes it again on the newest base. Edits of maintainers on that branch are carried over
(`memory.maintainer_decisions`, `carry_over`). The branch moves only from where it was read.
`pull_request` keeps the request up to date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.commands.publish.branch_builder import build_branch
from memory_ci.commands.publish.carry_over import RANGE_COVERED, is_covered
from memory_ci.commands.publish.landing import (
    BY_HAND,
    STARTED_BY_OWN_PUSH,
    Pace,
    Planner,
    Run,
    fetch,
    find_calendar_wait,
    find_entry_shortage,
    find_review_hold,
    is_own_push,
    is_started,
    land,
    list_gitlab_options,
    make_contention,
    make_refusal,
    refuse_mode,
    send_by_api,
    send_by_push,
    with_branch_name,
)
from memory_ci.commands.publish.pull_request import (
    BuiltBranch,
    RequestState,
    close_request,
    find_decline,
    find_request_state,
    update_request,
)
from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.forge.selection import choose_committer
from memory_ci.gitrepo.merges import private_ref
from memory_ci.gitrepo.network import (
    PushOutcome,
    connect,
    find_remote_tip,
    push_tip,
)
from memory_ci.gitrepo.record_commits import find_cursor
from memory_ci.gitrepo.repo import (
    find_commit,
    find_objects,
    find_setting,
    is_ancestor,
)
from memory_ci.memory.apply import apply_plan
from memory_ci.memory.maintainer_decisions import read_decisions
from memory_ci.memory.workspace import (
    PRIVATE_REFS,
    Workspace,
    build_memory_test,
    find_branch_ref,
    workspace_at,
)
from memory_ci.records.config import Config, PublishConfig, PublishMode
from memory_ci.records.names import HEADS
from memory_ci.records.plan import Published
from memory_ci.text import plural

REFUSAL_SLUGS = frozenset({"push-refused", "forge-refused"})
"""Errors after which the mode `auto` or `api` tries a pull request."""


class PublishOptions(msgspec.Struct, frozen=True):
    """The choices of a caller on how a run is published.

    Attributes:
        mode: the mode; None for the mode that the branch's configuration names.
        ref: the branch; None for the checked-out branch.
        at_once: publish now, whatever `publish.every` says.
        is_range_named: the caller named the range, so the request is made of that range alone.
    """

    mode: PublishMode | None = None
    ref: str | None = None
    at_once: bool = False
    is_range_named: bool = False


class MemoryBranch(NamedTuple):
    """The state of the memory branch and of its base, as one try to publish reads them.

    Attributes:
        workspace: the repository, with the configuration at the base.
        base: the tip of the branch that is recorded on.
        tip: the tip of the memory branch on the remote; None if it does not exist.
        request: its pull request.
    """

    workspace: Workspace
    base: str
    tip: str | None
    request: RequestState

    @property
    def tips(self) -> tuple[str, ...]:
        """The branches that a run writes to."""
        return (self.base, self.tip) if self.tip else (self.base,)

    @property
    def settings(self) -> Config:
        """The configuration at the base."""
        return self.workspace.config


def publish_mode(workspace: Workspace, options: PublishOptions) -> PublishMode:
    """Return how a run is published: as the options say, else as the branch's configuration does.

    Raises:
        UsageError: policy-forbids.
    """
    settings = _read_settings(workspace, find_branch_ref(workspace, options.ref))
    mode = options.mode or settings.mode
    refuse_mode(settings, mode)
    return mode


def publish(
    workspace: Workspace,
    options: PublishOptions,
    make_plan: Planner,
    now: datetime,
    environ: Mapping[str, str],
    *,
    pace: Pace | None = None,
) -> Published:
    """Plan a run, commit it, and publish it in the mode of the options.

    The mode `none` commits on the local branch. All others plan on the tip of the remote's branch,
    so local commits that are not pushed take no part.

    Args:
        workspace: the repository.
        options: the mode and the branch.
        make_plan: plans the run on a ref.
        now: the time of the commits.
        environ: environment variables, which say which forge can be reached, and who started the
            job.
        pace: how often, and how long, a run is tried again whose branch others move.

    Raises:
        RepositoryError: no-remote, push-refused.
        EngineError: push-contended, remote-failed, `forge-…`, and what planning raises.
    """
    mode = publish_mode(workspace, options)
    ref = find_branch_ref(workspace, options.ref)
    if mode == "none":
        return _commit_locally(workspace, ref, make_plan, now, environ)
    run = _make_run(workspace, replace(options, ref=ref), make_plan, now, environ, pace=pace)
    if mode == "pr":
        return _propose_by_request(run)
    try:
        if mode == "api":
            return _publish_by_api(run)
        return land(run, "push", partial(send_by_push, run))
    except MemoryCIError as error:
        if error.slug not in REFUSAL_SLUGS or mode == "push":
            raise
        return _propose_by_request(run, error.message)


def _commit_locally(
    workspace: Workspace,
    ref: str,
    make_plan: Planner,
    now: datetime,
    environ: Mapping[str, str],
) -> Published:
    """Plan a run and commit it on the local branch; nothing is pushed."""
    accepted_keys: frozenset[str] = frozenset()  # People accept candidates in a pull request alone.
    plan = make_plan(ref, accepted_keys)
    applied = apply_plan(workspace, plan, now, in_actions="GITHUB_ACTIONS" in environ)
    # A plan of another job is covered if a run has recorded its range since.
    reason = RANGE_COVERED if is_covered(plan) else ""
    return Published(
        mode="none",
        tip=applied.tip,
        reason=reason,
        plan=plan,
        subjects=applied.subjects,
        is_followed=True,
    )


def _publish_by_api(run: Run) -> Published:
    """Commit through the forge's API, or propose a pull request where there is no API."""
    cache = run.workspace.repo.common_dir / "memory-ci" / "forge-cache"
    committer = choose_committer(run.environ, cache)
    if committer is None:
        reason = "api needs GITHUB_REPOSITORY and GITHUB_TOKEN: a pull request instead"
        return _propose_by_request(run, reason)
    return land(run, "api", partial(send_by_api, run, committer))


def find_delay(
    workspace: Workspace,
    options: PublishOptions,
    make_plan: Planner,
    now: datetime,
    environ: Mapping[str, str],
) -> str:
    """Return why a run would publish nothing now, or "".

    It is called before a model is asked and paid for. The arguments are those of `publish`.

    Raises:
        RepositoryError: no-remote.
        EngineError: remote-failed, `forge-…`.
    """
    if publish_mode(workspace, options) == "none":
        return ""
    run = _make_run(workspace, options, make_plan, now, environ)
    repo = workspace.repo
    # The tips of the base and of the memory branch are fetched into refs that are deleted again.
    with private_ref(repo, PRIVATE_REFS) as base_ref, private_ref(repo, PRIVATE_REFS) as branch_ref:
        return _find_pause_before_plan(run, _fetch_branch(run, base_ref, branch_ref))


def _make_run(
    workspace: Workspace,
    options: PublishOptions,
    make_plan: Planner,
    now: datetime,
    environ: Mapping[str, str],
    *,
    pace: Pace | None = None,
) -> Run:
    """Return the data of a run on the remote that the branch's configuration names.

    Nothing is fetched or planned. The arguments are those of `publish`.

    Raises:
        RepositoryError: no-remote. Git itself would take the unknown name for a directory.
    """
    ref = find_branch_ref(workspace, options.ref)
    remote = _read_settings(workspace, ref).remote
    if find_setting(workspace.repo, f"remote.{remote}.url") is None:
        message = f"there is no remote {remote!r} to publish to"
        hint = f"Add it: git remote add {remote} ADDRESS, or name another under publish.remote."
        raise RepositoryError(message, slug="no-remote", hint=hint)
    return Run(
        workspace=workspace,
        remote=connect(remote, environ),
        branch=ref.removeprefix(HEADS),
        make_plan=make_plan,
        now=now,
        environ=environ,
        pace=pace or Pace(),
        is_by_person=options.at_once or is_started(environ, BY_HAND),
        is_range_named=options.is_range_named,
    )


def _read_settings(workspace: Workspace, ref: str) -> PublishConfig:
    """Return the settings of a branch, or of HEAD in a job that checks out a commit."""
    has_branch = find_commit(workspace.repo, ref) is not None
    return workspace_at(workspace.repo, ref if has_branch else "HEAD").config.publish


def _fetch_branch(run: Run, base_ref: str, branch_ref: str) -> MemoryBranch:
    """Fetch the base and the memory branch, and find its pull request.

    Args:
        run: the run.
        base_ref: the private ref into which the base is fetched.
        branch_ref: the private ref into which the memory branch is fetched.

    Raises:
        UsageError: policy-forbids, if the configuration forbids pull requests.
        EngineError: remote-failed, `forge-…`.
    """
    repo = run.workspace.repo
    base = fetch(run, run.branch, base_ref)
    config = workspace_at(repo, base).config
    refuse_mode(config.publish, "pr")
    request = find_request_state(run, config)
    tip = find_remote_tip(repo, run.remote, config.publish.branch)
    if tip is not None:
        tip = fetch(run, config.publish.branch, branch_ref)
    return MemoryBranch(Workspace(repo, config), base, tip, request)


def _propose_by_request(run: Run, reason: str = "") -> Published:
    """Plan the run, and update the memory branch and its pull request.

    Both are removed if there is nothing to propose. If somebody else moves the branch meanwhile,
    all steps are repeated.

    Args:
        run: the run.
        reason: why another mode was not possible.

    Raises:
        RepositoryError: push-refused.
        EngineError: push-contended, remote-failed, `forge-…`.
    """
    repo = run.workspace.repo
    for tries in run.pace.tries():
        with (
            private_ref(repo, PRIVATE_REFS) as base_ref,
            private_ref(repo, PRIVATE_REFS) as branch_ref,
        ):
            branch = _fetch_branch(run, base_ref, branch_ref)
            published = _find_early_outcome(run, branch)
            if published is None:
                published = _rebuild_branch(run, branch, base_ref, reason)
            if published is not None:
                return with_branch_name(run, replace(published, tries=tries))
    raise make_contention(run.branch)


def _find_early_outcome(run: Run, branch: MemoryBranch) -> Published | None:
    """Return the outcome of a run that must not propose anything now, None if it may.

    It must not if a push of memory alone started it, if it is not due yet by `publish.every`, or if
    the request is under review. But after the merge of a request in which people unticked entries,
    a push of memory alone is a reason to run: the entries are removed.
    """
    request = branch.request
    has_removals = request.open_request is None and bool(request.boxes.unticked_ids)
    if is_own_push(run, branch.base) and not has_removals:
        return Published("pr", branch.base, reason=STARTED_BY_OWN_PUSH)
    pause = _find_pause_before_plan(run, branch)
    if not pause:
        return None
    url = request.open_request.url if request.open_request else ""
    opened = request.open_request.opened if request.open_request else None
    return Published(
        mode="pr",
        tip=branch.tip or branch.base,
        url=url,
        reason=pause,
        opened=opened,
        is_paused=True,
    )


def _rebuild_branch(run: Run, branch: MemoryBranch, base_ref: str, reason: str) -> Published | None:
    """Make the memory branch again, push it, and update its pull request.

    Args:
        run: the run.
        branch: the memory branch as it is.
        base_ref: the private ref at the base, on which the commits are made.
        reason: why another mode was not possible.

    Returns:
        The outcome; None if the branch moved on the remote meanwhile.
    """
    tip, boxes = branch.tip or branch.base, branch.request.boxes
    # The branch may hold entries that a person had learned from a range that they named. This run
    # reads another range, so these entries are kept as decisions are.
    decisions = read_decisions(
        branch.workspace, branch.base, tip, boxes, keep_asked_ranges=not run.is_range_named
    )
    if decisions.obstacle:
        return _leave_branch(tip, decisions.obstacle)
    built = build_branch(
        replace(run, accepted_keys=boxes.accepted_keys), base_ref, branch.base, decisions
    )
    if isinstance(built, str):
        return _leave_branch(tip, built)
    return _push_and_propose(run, branch, built, reason)


def _leave_branch(tip: str, why: str) -> Published:
    """Return the outcome of a run that does not change the memory branch."""
    return Published("pr", tip, reason=f"the branch is left as it is: {why}")


def _find_pause_before_plan(run: Run, branch: MemoryBranch) -> str:
    """Return why nothing is proposed now, or "".

    The run is not due yet by `publish.every`, or people are reviewing the open request. It is
    called before anything is planned.

    Raises:
        EngineError: `forge-…`.
    """
    if not run.is_by_person:
        calendar_wait = find_calendar_wait(branch.workspace, branch.tips, run.now)
        if calendar_wait:
            return calendar_wait
    return _find_review_wait(run, branch)


def _find_review_wait(run: Run, branch: MemoryBranch) -> str:
    """Return why a review keeps the branch as it is; "" if none does, or there is no branch yet.

    Raises:
        EngineError: `forge-…`.
    """
    if branch.tip is None:
        return ""
    return find_review_hold(
        branch.request.forge, branch.request.open_request, is_by_person=run.is_by_person
    )


def _push_and_propose(
    run: Run, branch: MemoryBranch, built: BuiltBranch, reason: str
) -> Published | None:
    """Push the built commits and update the pull request, or leave both unchanged.

    They stay unchanged if another run is ahead of this one, if the run is not due yet, or if people
    declined the same proposals before. A branch that adds nothing is deleted, and its request is
    closed.

    Args:
        run: the run.
        branch: the memory branch as it is.
        built: the memory branch as this run made it.
        reason: why another mode was not possible.

    Returns:
        The outcome; None if the branch moved on the remote meanwhile.

    Raises:
        RepositoryError: push-refused.
        EngineError: `forge-…`.
    """
    adds_something = built.tip != built.base
    old_tip = branch.tip or built.base
    staleness = RANGE_COVERED if is_covered(built.plan) else _find_staleness(branch, built)
    if staleness:
        return Published("pr", old_tip, reason=staleness, plan=built.plan)
    pause = _find_pause_after_plan(run, branch, built)
    if pause:
        return Published("pr", old_tip, reason=pause, plan=built.plan, is_paused=True)
    decline = find_decline(built, branch.request) if adds_something else ""
    if decline:
        return Published("pr", old_tip, reason=decline, plan=built.plan)
    # Deleting the branch closes its request as well, but as if a person had declined it. So the
    # request is closed first, with a note in its text.
    url = "" if adds_something else close_request(branch.request)
    outcome = _push_branch(run, branch, built)
    if outcome.state == "refused":
        raise make_refusal(branch.settings.publish.branch, outcome)
    if outcome.state == "moved":
        return None
    reasons = [reason] if reason else []
    if built.lost_titles:
        edits = plural(len(built.lost_titles), "edit")
        reasons.append(f"{edits} of the branch could not be kept: see the pull request")
    tip = outcome.detail or built.tip
    published = Published(
        mode="pr",
        tip=tip,
        url=url,
        reason="; ".join(reasons),
        plan=built.plan,
        subjects=built.subjects,
    )
    return update_request(run, branch.settings, built, published, branch.request)


def _find_pause_after_plan(run: Run, branch: MemoryBranch, built: BuiltBranch) -> str:
    """Return why the branch must not move after the run was planned, or "".

    There may be too few entries, or a review was submitted meanwhile.
    """
    if built.tip != built.base and not run.is_by_person:
        shortage = find_entry_shortage(branch.workspace, branch.tip or built.base, built.tip)
        if shortage:
            return shortage
    return _find_review_wait(run, branch)


def _find_staleness(branch: MemoryBranch, built: BuiltBranch) -> str:
    """Return why the plan must not replace the existing branch, or "".

    Either the run stopped before the end of its range, so that its plan is incomplete, or a run
    that ended later made the branch.
    """
    if branch.tip is None:
        return ""
    if built.plan.engine.failure:
        return "the run stopped before its end: the branch is left as it is"
    until = built.plan.until
    if until is None or until == built.base:
        return ""
    repo = branch.workspace.repo
    cursor = find_cursor(repo, branch.tip, build_memory_test(branch.workspace))
    if cursor is None or cursor.source == until or not is_ancestor(repo, until, cursor.source):
        return ""
    return "a newer run made the branch: it is left as it is"


def _push_branch(run: Run, branch: MemoryBranch, built: BuiltBranch) -> PushOutcome:
    """Move the memory branch on the remote, or delete it if it adds nothing.

    A branch with the same files is left as it is.

    Returns:
        The outcome; its `detail` is the tip of a branch that is left unchanged.
    """
    repo, name, old_tip = run.workspace.repo, branch.settings.publish.branch, branch.tip
    if built.tip == built.base:
        return (
            PushOutcome("done")
            if old_tip is None
            else push_tip(repo, run.remote, name, None, old_tip)
        )
    if old_tip and is_ancestor(repo, built.base, old_tip):
        old_tree, new_tree = find_objects(repo, [f"{old_tip}^{{tree}}", f"{built.tip}^{{tree}}"])
        if old_tree == new_tree:
            return PushOutcome("done", old_tip)
    options: Sequence[str] = ()
    if branch.request.forge is None:
        options = list_gitlab_options(run.environ, run.branch)
    return push_tip(repo, run.remote, name, built.tip, old_tip, options=options)
