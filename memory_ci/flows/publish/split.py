"""Splitting: a request for each team that CODEOWNERS names, with the memory of its directories alone.

All is planned once, on what every request holds already, so that nothing is proposed twice. How far the run came says
the plain request alone: what stands on the branch of a team stays there, until it is merged or taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.flows.publish.carry_over import Carried
from memory_ci.flows.publish.pull_request import Built, RequestState
from memory_ci.flows.record.maintainer_decisions import MaintainerDecisions
from memory_ci.flows.workspace import Workspace
from memory_ci.forge.owners import PLACES, OwnedPath, find_team, parse_owners
from memory_ci.records.config import Config
from memory_ci.records.plan import Change, Plan, PlannedStep
from memory_ci.store.layout import classify_scope


class TeamBranch(NamedTuple):
    """The branch of a team as the remote has it, what is to stay of it, its request, and why it must not move ("": it
    may).
    """

    tip: str
    verdicts: MaintainerDecisions
    standing: RequestState
    hold: str = ""


class Teams(NamedTuple):
    """Who owns which directory, by the base."""

    workspace: Workspace
    owners: tuple[OwnedPath, ...]

    def of(self, path: str) -> str:
        """The team whose memory a file is; "" for that of the whole project, and for what has no owner."""
        scope = classify_scope(path, self.workspace.config.scopes)
        return find_team(self.owners, path) if scope is not None and scope.name == "team" else ""


def read_teams(workspace: Workspace, base: str) -> Teams:
    """The teams of a base; none where its configuration splits nothing."""
    if workspace.config.publish.split == "none":
        return Teams(workspace, ())
    found = workspace.at(base).read(PLACES)
    text = next((found[place] for place in PLACES if place in found), b"")
    return Teams(workspace, parse_owners(text.decode("utf-8", "replace")))


def of_team(settings: Config, team: str) -> Config:
    """The configuration by which a team's request is brought."""
    return replace(settings, publish=replace(settings.publish, branch=f"{settings.publish.branch}-{team}"))


def merge_verdicts(main: MaintainerDecisions, branches: Mapping[str, TeamBranch]) -> MaintainerDecisions:
    """What is to stay of all branches: the ground that the run is planned on."""
    every = (main, *(one.verdicts for one in branches.values()))
    return MaintainerDecisions(
        tuple(dict.fromkeys(line for one in every for line in one.rejected)),
        tuple(entry for one in every for entry in one.taken_out),
        tuple(edit for one in every for edit in one.edits),
        tuple(file for one in every for file in one.touched),
        main.released,
    )


def part_of_plan(plan: Plan, teams: Teams, team: str) -> Plan:
    """What of a plan is a team's, or for "" what is nobody's, and the episodes."""
    chosen = (
        PlannedStep(step=step.step, changes=tuple(one for one in step.changes if teams.of(one.path) == team))
        for step in plan.steps
    )
    part = replace(plan, steps=tuple(step for step in chosen if step.changes))
    return replace(part, episodes=(), fold_before=None) if team else part


def list_teams(plan: Plan, teams: Teams, branches: Mapping[str, TeamBranch]) -> list[str]:
    """The teams that have a branch, or get one."""
    new = {teams.of(change.path) for step in plan.steps for change in step.changes}
    return sorted({*branches, *new}.difference([""]))


def shown(workspace: Workspace, built: Built) -> Built:
    """A team's part as its request shows it: what an earlier run put on its branch is new, too."""
    before = workspace.at(built.base).places
    known = {change.entry.id for step in built.plan.steps for change in step.changes}
    kept = tuple(
        Change(step="extract", kind="update" if entry.id in before else "add", path=place.path, entry=entry, why="")
        for place in workspace.at(built.tip).places.values()
        if (entry := place.entry).id not in known and (entry.id not in before or before[entry.id].entry != entry)
    )
    steps = (*built.plan.steps, *([PlannedStep(step="extract", changes=kept)] if kept else []))
    return built._replace(plan=replace(built.plan, steps=steps, judged=()), carried=Carried())
