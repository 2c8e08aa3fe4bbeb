"""Publish: a record run whose commits reach others, by push, by pull request or through the forge's API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.flows.publish.landing import (
    BY_HAND,
    Pace,
    Planner,
    Run,
    fetch,
    is_started,
    land,
    refuse_mode,
    send_by_api,
    send_by_push,
)
from memory_ci.flows.publish.proposal import find_pause, propose
from memory_ci.flows.publish.pull_request import find_request_state
from memory_ci.flows.publish.replan import COVERED, is_covered
from memory_ci.flows.record.apply import apply_plan
from memory_ci.flows.workspace import PRIVATE, Workspace, branch_name, workspace_at
from memory_ci.forge.selection import choose_committer
from memory_ci.gitrepo.merges import private_ref
from memory_ci.gitrepo.network import connect, find_remote_tip
from memory_ci.gitrepo.repo import find_commit, find_setting
from memory_ci.records.config import PublishConfig, PublishMode
from memory_ci.records.names import HEADS
from memory_ci.records.plan import Plan, Published

REFUSALS = frozenset({"push-refused", "forge-refused"})
"""After these another way is tried, where the mode has one."""


class PublishOptions(msgspec.Struct, frozen=True):
    """`mode` None: what the configuration of the branch says; `ref` None: HEAD's branch.

    `at_once`: not only when `publish.every` says; a job that a person started is never late. `is_asked`: the range was
    named, so that the request is made of that alone, and not of what an earlier range brought, too.
    """

    mode: PublishMode | None = None
    ref: str | None = None
    at_once: bool = False
    is_asked: bool = False


def publish_mode(workspace: Workspace, options: PublishOptions) -> PublishMode:
    """The mode asked for, or else the one that is committed on the branch."""
    settings = _settings(workspace, branch_name(workspace, options.ref))
    mode = options.mode or settings.mode
    refuse_mode(settings, mode)
    return mode


def publish(
    workspace: Workspace,
    options: PublishOptions,
    make_plan: Planner,
    now: datetime,
    environ: Mapping[str, str],
    pace: Pace | None = None,
) -> Published:
    """Plan a run with `make_plan`, commit it, and bring it to the remote as the mode says.

    `none` commits on the local branch. All others plan on the tip of the remote's branch: what is committed here and
    not pushed takes no part. Raises RepositoryError (no-remote, push-refused), EngineError (push-contended,
    remote-failed, `forge-…`), and what planning and applying raise.
    """
    mode, ref = publish_mode(workspace, options), branch_name(workspace, options.ref)
    if mode == "none":
        plan = make_plan(ref, frozenset())
        applied = apply_plan(workspace, plan, now, in_actions="GITHUB_ACTIONS" in environ)
        reason = COVERED if is_covered(plan) else ""
        return Published(mode, applied.tip, "", 1, reason, plan, applied.subjects, is_followed=True)
    run = _start(workspace, replace(options, ref=ref), make_plan, now, environ, pace)
    if mode == "pr":
        return propose(run)
    committer = None
    if mode == "api":
        committer = choose_committer(environ, workspace.repo.common_dir / "memory-ci" / "forge-cache")
        if committer is None:
            return propose(run, "api needs GITHUB_REPOSITORY and GITHUB_TOKEN: a pull request instead")
    try:
        return land(run, "api", send_by_api(run, committer)) if committer else land(run, "push", send_by_push(run))
    except MemoryCIError as error:
        if error.slug not in REFUSALS or mode == "push":
            raise
        return propose(run, error.message)


def find_delay(workspace: Workspace, options: PublishOptions, now: datetime, environ: Mapping[str, str]) -> str:
    """Why a run would publish nothing now, "" if it would: asked before a model reads anything.

    Raises RepositoryError (no-remote), EngineError (remote-failed, `forge-…`).
    """
    if publish_mode(workspace, options) == "none":
        return ""

    def make_plan(ref: str, accepted: frozenset[str]) -> Plan:
        raise AssertionError("nothing is planned to ask whether a run is due")

    with private_ref(workspace.repo, PRIVATE) as ref, private_ref(workspace.repo, PRIVATE) as theirs:
        run = _start(workspace, options, make_plan, now, environ)
        base = fetch(run, run.branch, ref)
        here = workspace_at(workspace.repo, base)
        branch = here.config.publish.branch
        old = find_remote_tip(workspace.repo, run.remote, branch) and fetch(run, branch, theirs)
        standing = find_request_state(run, here.config)
        return find_pause(run, here, standing, (base, old) if old else (base,))


def _start(
    workspace: Workspace,
    options: PublishOptions,
    make_plan: Planner,
    now: datetime,
    environ: Mapping[str, str],
    pace: Pace | None = None,
) -> Run:
    """The run on the remote that the configuration of the branch names; a name that is none would be a directory."""
    ref = branch_name(workspace, options.ref)
    name = _settings(workspace, ref).remote
    if find_setting(workspace.repo, f"remote.{name}.url") is None:
        hint = f"Add it: git remote add {name} ADDRESS, or name another under publish.remote."
        raise RepositoryError(f"there is no remote {name!r} to publish to", slug="no-remote", hint=hint)
    return Run(
        workspace,
        connect(name, environ),
        ref.removeprefix(HEADS),
        make_plan,
        now,
        environ,
        pace or Pace(),
        at_once=options.at_once or is_started(environ, BY_HAND),
        is_asked=options.is_asked,
    )


def _settings(workspace: Workspace, ref: str) -> PublishConfig:
    """What the branch says; what HEAD says where the branch is not here, as in a job that checks out a commit."""
    is_here = find_commit(workspace.repo, ref) is not None
    return workspace_at(workspace.repo, ref if is_here else "HEAD").config.publish
