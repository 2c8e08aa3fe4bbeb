"""Stopped: how loud a job says that its run ended before its range did, and whether it ends red."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice

import msgspec

from memory_ci.flows.workspace import Workspace, workspace_at
from memory_ci.gitrepo.history import STEP, iter_merged_changes, plan_range
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.records.plan import Plan
from memory_ci.records.report import Level

LASTING = frozenset({"forge-failed", "forge-unauthorised", "engine-unauthorised", "unreadable-reply"})
"""A wrong permission or a bad answer: it does not pass by itself, as a fault of the network does."""

PATIENCE = timedelta(days=1)
"""How long one merge may wait for its first run, before an earlier run must have failed at it too."""


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
