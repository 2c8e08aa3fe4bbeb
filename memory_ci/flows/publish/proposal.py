"""Proposing: one branch and one pull request that hold what memory would gain, made anew by each run.

What maintainers did on that branch stays: `flows.record.maintainer_decisions`, `flows.publish.carry_over`. The branch
moves only from where it was read. What becomes of its pull request: `flows.publish.pull_request`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.flows.forgotten import REJECTED_FILE, read_rejected
from memory_ci.flows.inbox.queue import KEPT, PROPOSED, find_week, list_questions, note_asked
from memory_ci.flows.publish.carry_over import Carried, carry_over, list_lost
from memory_ci.flows.publish.landing import (
    Run,
    contended,
    fetch,
    find_hold,
    find_shortage,
    find_wait,
    is_own_push,
    named,
    perform,
    refusal,
    refuse_mode,
    request_options,
)
from memory_ci.flows.publish.pull_request import (
    CLOSED,
    Built,
    RequestState,
    close_request,
    find_answer,
    find_request_state,
    update_request,
)
from memory_ci.flows.publish.replan import COVERED, is_covered
from memory_ci.flows.record.apply import apply_plan
from memory_ci.flows.record.maintainer_decisions import KEEP, MaintainerDecisions, read_decisions
from memory_ci.flows.workspace import PRIVATE, Workspace, memory_test, workspace_at
from memory_ci.forge.owners import PLACES, OwnedPath, find_team, parse_owners
from memory_ci.gitrepo.history import STEP, find_cursor
from memory_ci.gitrepo.merges import private_ref
from memory_ci.gitrepo.network import PushOutcome, find_remote_tip, list_remote_branches, push_tip
from memory_ci.gitrepo.repo import find_objects, is_ancestor, resolve_commit
from memory_ci.lifecycle.queue import ASKED
from memory_ci.records.config import Config
from memory_ci.records.plan import Change, Plan, PlannedStep, Published
from memory_ci.store.layout import classify_scope
from memory_ci.text import plural

ASKING = f"memory: note what this week asks\n\n{STEP}: ask\n"
CARRIED = f"memory: keep what maintainers decided on this branch\n\n{STEP}: {KEEP}\n"


def propose(run: Run, reason: str = "") -> Published:
    """Bring the memory branch and its pull request up to date; both go away when there is nothing to propose.

    Raises RepositoryError (push-refused), EngineError (push-contended, remote-failed, `forge-…`).
    """
    for tries in run.pace.tries():
        with private_ref(run.workspace.repo, PRIVATE) as ref, private_ref(run.workspace.repo, PRIVATE) as theirs:
            base = fetch(run, run.branch, ref)
            settings = workspace_at(run.workspace.repo, base).config
            refuse_mode(settings.publish, "pr")
            here, standing = Workspace(run.workspace.repo, settings), find_request_state(run, settings)
            boxes = standing.boxes
            if is_own_push(run, base) and (standing.open or not boxes.unticked):
                return Published("pr", base, tries=tries, reason="nothing but memory was pushed: nothing to do")
            old = find_remote_tip(run.workspace.repo, run.remote, settings.publish.branch)
            if old is not None:
                old = fetch(run, settings.publish.branch, theirs)
            if pause := find_pause(run, here, standing, (base, old) if old else (base,)):
                asked = standing.open
                url, opened = (asked.url, asked.opened) if asked else ("", None)
                return Published("pr", old or base, url, tries, pause, opened=opened, is_paused=True)
            verdicts = read_decisions(here, base, old or base, boxes, with_ranges=not run.is_asked)
            teams = read_teams(here, base)
            branches = _read_branches(run, here, base) if teams.owners else {}
            ground = merge_verdicts(verdicts, branches) if branches else verdicts
            built = verdicts.obstacle or _build(replace(run, accepted=boxes.accepted), ref, base, ground)
            if isinstance(built, str):
                return Published("pr", old or base, tries=tries, reason=f"the branch is left as it is: {built}")
            if names := list_teams(built.plan, teams, branches):
                parts = _Parts(run, teams, built, verdicts, branches)
                published = _bring_parts(parts, names, old, standing, reason)
            else:
                published = _bring(run, settings, built, old, standing, reason)
            if published is not None:
                return named(run, replace(published, tries=tries))
    raise contended(run.branch)


class _Parts(NamedTuple):
    """What becomes several requests."""

    run: Run
    teams: Teams
    built: Built
    verdicts: MaintainerDecisions
    branches: Mapping[str, TeamBranch]

    def make(self, ref: str, plan: Plan, verdicts: MaintainerDecisions, *, covers: bool) -> Built:
        """One of them, on a ref that is at the base: what is to stay of its branch, then its part of the plan."""
        here, base, run = self.teams.workspace, self.built.base, self.run
        carried = _carry(run, here, ref, base, verdicts)
        part = replace(plan, ref=ref, base=resolve_commit(here.repo, ref))
        applied = apply_plan(here, part, run.now, in_actions="GITHUB_ACTIONS" in run.environ, covers=covers)
        lost = list_lost(here, applied.tip, verdicts)
        return Built(base, applied.tip, part, applied.subjects, verdicts.rejected, carried, lost)


def _read_branches(run: Run, here: Workspace, base: str) -> dict[str, TeamBranch]:
    """The branches of teams on the remote. All that stands on one stays, but for what people took out."""
    prefix, found = f"{here.config.publish.branch}-", {}
    for branch in list_remote_branches(run.workspace.repo, run.remote, prefix):
        team = branch.removeprefix(prefix)
        with private_ref(run.workspace.repo, PRIVATE) as ref:
            tip = fetch(run, branch, ref)
            standing = find_request_state(run, of_team(here.config, team))
            verdicts = read_decisions(here, base, tip, standing.boxes, with_ours=True)
            hold = verdicts.obstacle or find_hold(standing.forge, standing.open, at_once=run.at_once)
            found[team] = TeamBranch(tip, MaintainerDecisions() if verdicts.obstacle else verdicts, standing, hold)
    return found


def _bring_parts(
    parts: _Parts, names: Sequence[str], old: str | None, standing: RequestState, reason: str
) -> Published | None:
    """The requests of the teams, then the plain one, which says how far the run came if nothing waits for a review."""
    run, here, plan = parts.run, parts.teams.workspace, parts.built.plan
    said, waits = [], False
    for team in names:
        branch = parts.branches.get(team)
        part = part_of_plan(plan, parts.teams, team)
        if branch and branch.hold:
            waits |= bool(part.steps)
            said.append(f"{team}: {branch.hold}")
            continue
        stays = branch.verdicts._replace(rejected=(), released=frozenset()) if branch else MaintainerDecisions()
        with private_ref(here.repo, PRIVATE, parts.built.base) as ref:
            built = shown(here, parts.make(ref, part, stays, covers=False))
            settings = of_team(here.config, team)
            state = branch.standing if branch else find_request_state(run, settings)
            done = _bring(run, settings, built, branch.tip if branch else None, state, "")
        if done is None:
            return None
        waits |= bool(part.steps) and not done.subjects and CLOSED not in done.reason
        said.append(f"{team}: {done.url or done.reason}")
    rejected = merge_verdicts(parts.verdicts, parts.branches).rejected
    rest = part_of_plan(plan, parts.teams, "")
    with private_ref(here.repo, PRIVATE, parts.built.base) as ref:
        lines = (*rejected, *(line for line in parts.built.rejected if ASKED.match(line)))
        stays = parts.verdicts._replace(rejected=tuple(dict.fromkeys(lines)))
        built = parts.make(ref, rest, stays, covers=not waits)._replace(questions=parts.built.questions)
        done = _bring(run, here.config, built, old, standing, reason)
    return done and replace(done, reason="; ".join(filter(None, (done.reason, *said))), plan=plan)


def find_pause(run: Run, here: Workspace, standing: RequestState, tips: tuple[str, ...]) -> str:
    """Why nothing is proposed now, before anything is planned. Raises EngineError (`forge-…`)."""
    wait = "" if run.at_once else find_wait(here, tips, run.now)
    return wait or (find_hold(standing.forge, standing.open, at_once=run.at_once) if len(tips) > 1 else "")


def _build(run: Run, ref: str, base: str, verdicts: MaintainerDecisions) -> Built | str:
    """What maintainers decided first, so that the plan is made with it; then the plan. Or why that cannot be."""
    workspace = workspace_at(run.workspace.repo, base)
    asked = tuple(line for line in verdicts.rejected if ASKED.match(line))
    decided = verdicts._replace(rejected=tuple(line for line in verdicts.rejected if line not in asked))
    carried = _carry(run, workspace, ref, base, decided)
    try:
        plan, applied = perform(run, ref, base if carried.files else None)
    except RepositoryError as error:
        if error.slug != "ref-moved" or not carried.files:
            raise
        return error.message  # what another job planned knows nothing of their words, which go before it
    lost = list_lost(workspace, applied.tip, verdicts)
    built = Built(base, applied.tip, plan, applied.subjects, verdicts.rejected, carried, lost)
    return built if built.tip == base else _ask(run, workspace, ref, built, asked)


def _ask(run: Run, workspace: Workspace, ref: str, built: Built, asked: tuple[str, ...]) -> Built:
    """With the questions of the week, and the commit that says what was asked, which never stands alone."""
    today, tip = run.now.astimezone(UTC).date(), built.tip
    found = tuple(list_questions(workspace, tip, built.plan.judged, run.now, PROPOSED | KEPT - {"promotion"}))
    week = find_week(workspace, tip, found, today, asked)
    data = note_asked(workspace, tip, week.shown, (), today, asked)
    if (week.shown or asked) and data != workspace.at(tip).read([REJECTED_FILE]).get(REJECTED_FILE):
        tip = _commit(run, workspace, ref, tip, {REJECTED_FILE: data}, ASKING)
    lines = tuple(line for line in read_rejected(workspace.at(tip)) if ASKED.match(line))
    return built._replace(tip=tip, questions=week.shown, rejected=tuple(dict.fromkeys((*built.rejected, *lines))))


def _commit(
    run: Run, workspace: Workspace, ref: str, base: str, files: Mapping[str, bytes | None], message: str
) -> str:
    from memory_ci.gitrepo.writer import PlannedCommit, choose_identity, commit_series  # GitPython: 75 ms

    return commit_series(
        workspace.repo,
        ref=ref,
        expected=base,
        commits=[PlannedCommit(files, message)],
        identity=choose_identity(workspace.config.publish, in_actions="GITHUB_ACTIONS" in run.environ),
        when=run.now,
    )


def _carry(run: Run, workspace: Workspace, ref: str, base: str, verdicts: MaintainerDecisions) -> Carried:
    """Commit on a ref that is at `base` what is to stay of a branch."""
    carried = carry_over(workspace, base, verdicts)
    if carried.files:
        _commit(run, workspace, ref, base, carried.files, CARRIED)
    return carried


def _bring(
    run: Run, settings: Config, built: Built, old: str | None, standing: RequestState, reason: str
) -> Published | None:
    """Branch and pull request brought up to date, or left as they are; None where the branch moved meanwhile."""
    if left := _why_left(run, settings, built, old):
        return Published("pr", old or built.base, reason=left, plan=built.plan)
    here = Workspace(run.workspace.repo, settings)
    is_more = not run.at_once and built.tip != built.base
    short = find_shortage(here, old or built.base, built.tip) if is_more else ""
    # A review that was submitted while the run was planned.
    if left := short or (find_hold(standing.forge, standing.open, at_once=run.at_once) if old else ""):
        return Published("pr", old or built.base, reason=left, plan=built.plan, is_paused=True)
    if built.tip != built.base and (answer := find_answer(built, standing)):
        return Published("pr", old or built.base, reason=answer, plan=built.plan)
    # A forge closes the request of a branch that is gone, and its text would pass for an answer of people.
    url = close_request(standing) if built.tip == built.base else ""
    outcome = _push(run, settings, built, old, standing)
    if outcome.state == "refused":
        raise refusal(settings.publish.branch, outcome)
    if outcome.state == "moved":
        return None
    done = Published("pr", outcome.said or built.tip, url, 1, _reason(reason, built), built.plan, built.subjects)
    return update_request(run, settings, built, done, standing)


def _reason(reason: str, built: Built) -> str:
    """Why it went this way, and what of the words of maintainers went another."""
    count = len(built.lost)
    lost = f"{plural(count, 'edit')} of the branch could not be kept: see the pull request" if count else ""
    return "; ".join(filter(None, (reason, lost)))


def _why_left(run: Run, settings: Config, built: Built, old: str | None) -> str:
    """Why the branch stays as it is, whatever the plan says: it knows less than the run that made the branch."""
    if is_covered(built.plan):
        return COVERED
    if old is None:
        return ""
    if built.plan.engine.failure:
        return "the run stopped before its end: the branch is left as it is"
    repo, until = run.workspace.repo, built.plan.until
    if until is None or until == built.base:
        return ""
    theirs = find_cursor(repo, old, memory_test(Workspace(repo, settings)))
    is_older = theirs is not None and theirs.source != until and is_ancestor(repo, until, theirs.source)
    return "a newer run made the branch: it is left as it is" if is_older else ""


def _push(run: Run, settings: Config, built: Built, old: str | None, standing: RequestState) -> PushOutcome:
    """Move the branch, or remove it when it adds nothing. `said` is its tip where it stays as it is."""
    repo, branch = run.workspace.repo, settings.publish.branch
    if built.tip == built.base:
        return PushOutcome("done") if old is None else push_tip(repo, run.remote, branch, None, old)
    if old and is_ancestor(repo, built.base, old):
        theirs, ours = find_objects(repo, [f"{old}^{{tree}}", f"{built.tip}^{{tree}}"])
        if theirs == ours:
            return PushOutcome("done", old)
    options = request_options(run.environ, run.branch) if standing.forge is None else ()
    return push_tip(repo, run.remote, branch, built.tip, old, options)


# -- Splitting: a request for each team that CODEOWNERS names, with the memory of its directories alone


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
