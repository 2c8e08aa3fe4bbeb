"""Publish: a record run whose commits reach others, by push, by pull request or through the forge's API.

A pull request has one branch that holds what memory would gain, made anew by each run. What maintainers did on that
branch stays: `flows.record.maintainer_decisions`, `flows.publish.carry_over`. The branch moves only from where it was
read. What becomes of its pull request: `flows.publish.pull_request`.

Where it is split, each team that CODEOWNERS names has a request with the memory of its directories alone. All is
planned once, on what every request holds already, so that nothing is proposed twice. How far the run came says the
plain request alone: what stands on the branch of a team stays there, until it is merged or taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.commands.publish.carry_over import (
    COVERED,
    Carried,
    carry_over,
    is_covered,
    list_lost,
)
from memory_ci.commands.publish.landing import (
    BY_HAND,
    Pace,
    Planner,
    Run,
    commit_files,
    contended,
    fetch,
    find_hold,
    find_shortage,
    find_wait,
    is_own_push,
    is_started,
    land,
    named,
    perform,
    refusal,
    refuse_mode,
    request_options,
    send_by_api,
    send_by_push,
)
from memory_ci.commands.publish.pull_request import (
    CLOSED,
    Built,
    RequestState,
    close_request,
    find_answer,
    find_request_state,
    update_request,
)
from memory_ci.commands.review.priority import ASKED
from memory_ci.commands.review.queue import KEPT, PROPOSED, find_week, list_questions, note_asked
from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.forge.owners import PLACES, find_team, parse_owners
from memory_ci.forge.selection import choose_committer
from memory_ci.gitrepo.history import STEP, find_cursor
from memory_ci.gitrepo.merges import private_ref
from memory_ci.gitrepo.network import (
    PushOutcome,
    connect,
    find_remote_tip,
    list_remote_branches,
    push_tip,
)
from memory_ci.gitrepo.repo import (
    find_commit,
    find_objects,
    find_setting,
    is_ancestor,
    resolve_commit,
)
from memory_ci.memory.apply import apply_plan
from memory_ci.memory.forgotten import REJECTED_FILE, read_rejected
from memory_ci.memory.maintainer_decisions import KEEP, MaintainerDecisions, read_decisions
from memory_ci.memory.workspace import PRIVATE, Workspace, branch_name, memory_test, workspace_at
from memory_ci.records.config import Config, PublishConfig, PublishMode
from memory_ci.records.names import HEADS
from memory_ci.records.plan import Change, Plan, PlannedStep, Published
from memory_ci.store.layout import classify_scope
from memory_ci.text import plural

REFUSALS = frozenset(
    {"push-refused", "forge-refused"}
)  # After these another way is tried, where the mode has one.
ASKING = f"memory: note what this week asks\n\n{STEP}: ask\n"
CARRIED = f"memory: keep what maintainers decided on this branch\n\n{STEP}: {KEEP}\n"


class PublishOptions(msgspec.Struct, frozen=True):
    """`mode` None: what the configuration of the branch says; `ref` None: HEAD's branch.

    `at_once`: not only when `publish.every` says; a job that a person started is never late. `is_asked`: the range was
    named, so that the request is made of that alone, and not of what an earlier range brought, too.
    """

    mode: PublishMode | None = None
    ref: str | None = None
    at_once: bool = False
    is_asked: bool = False


class TeamBranch(NamedTuple):
    """The branch of a team as the remote has it, what is to stay of it, its request, and why it must not move ("": it
    may)."""

    tip: str
    verdicts: MaintainerDecisions
    standing: RequestState
    hold: str = ""


class Teams(NamedTuple):
    """Who gets a request: the team whose memory a path is by the base ("": nobody's), all names, and their branches."""

    workspace: Workspace
    of: Callable[[str], str]
    names: Sequence[str]
    branches: Mapping[str, TeamBranch]

    def part(self, plan: Plan, team: str) -> Plan:
        """What of a plan is a team's, or for "" what is nobody's, and the episodes."""
        chosen = (
            PlannedStep(
                step=step.step,
                changes=tuple(one for one in step.changes if self.of(one.path) == team),
            )
            for step in plan.steps
        )
        part = replace(plan, steps=tuple(step for step in chosen if step.changes))
        return replace(part, episodes=(), fold_before=None) if team else part


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
        return _propose(run)
    committer = None
    if mode == "api":
        committer = choose_committer(
            environ, workspace.repo.common_dir / "memory-ci" / "forge-cache"
        )
        if committer is None:
            return _propose(
                run, "api needs GITHUB_REPOSITORY and GITHUB_TOKEN: a pull request instead"
            )
    try:
        return (
            land(run, "api", send_by_api(run, committer))
            if committer
            else land(run, "push", send_by_push(run))
        )
    except MemoryCIError as error:
        if error.slug not in REFUSALS or mode == "push":
            raise
        return _propose(run, error.message)


def find_delay(
    workspace: Workspace,
    options: PublishOptions,
    make_plan: Planner,
    now: datetime,
    environ: Mapping[str, str],
) -> str:
    """Why a run would publish nothing now, "" if it would: asked before a model reads anything. Raises RepositoryError
    (no-remote), EngineError (remote-failed, `forge-…`)."""
    if publish_mode(workspace, options) == "none":
        return ""
    with (
        private_ref(workspace.repo, PRIVATE) as ref,
        private_ref(workspace.repo, PRIVATE) as theirs,
    ):
        run = _start(workspace, options, make_plan, now, environ)
        base = fetch(run, run.branch, ref)
        here = workspace_at(workspace.repo, base)
        branch = here.config.publish.branch
        old = find_remote_tip(workspace.repo, run.remote, branch) and fetch(run, branch, theirs)
        standing = find_request_state(run, here.config)
        return _find_pause(run, here, standing, (base, old) if old else (base,))


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
        raise RepositoryError(
            f"there is no remote {name!r} to publish to", slug="no-remote", hint=hint
        )
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


def _propose(run: Run, reason: str = "") -> Published:
    """Bring the memory branch and its pull request up to date; both go away when there is nothing to propose. Raises
    RepositoryError (push-refused), EngineError (push-contended, remote-failed, `forge-…`)."""
    for tries in run.pace.tries():
        with (
            private_ref(run.workspace.repo, PRIVATE) as ref,
            private_ref(run.workspace.repo, PRIVATE) as theirs,
        ):
            base = fetch(run, run.branch, ref)
            settings = workspace_at(run.workspace.repo, base).config
            refuse_mode(settings.publish, "pr")
            here, standing = (
                Workspace(run.workspace.repo, settings),
                find_request_state(run, settings),
            )
            boxes = standing.boxes
            if is_own_push(run, base) and (standing.open or not boxes.unticked):
                return Published(
                    "pr", base, tries=tries, reason="nothing but memory was pushed: nothing to do"
                )
            old = find_remote_tip(run.workspace.repo, run.remote, settings.publish.branch)
            if old is not None:
                old = fetch(run, settings.publish.branch, theirs)
            if pause := _find_pause(run, here, standing, (base, old) if old else (base,)):
                url, opened = (
                    (standing.open.url, standing.open.opened) if standing.open else ("", None)
                )
                return Published(
                    "pr", old or base, url, tries, pause, opened=opened, is_paused=True
                )
            verdicts = read_decisions(here, base, old or base, boxes, with_ranges=not run.is_asked)
            team_of = _read_teams(here, base)
            branches = _read_branches(run, here, base) if team_of else {}
            ground = _merge_verdicts(verdicts, branches) if branches else verdicts
            built = verdicts.obstacle or _build(
                replace(run, accepted=boxes.accepted), ref, base, ground
            )
            if isinstance(built, str):
                return Published(
                    "pr", old or base, tries=tries, reason=f"the branch is left as it is: {built}"
                )
            new = (
                {team_of(one.path) for step in built.plan.steps for one in step.changes}
                if team_of
                else set[str]()
            )
            if team_of and (names := sorted({*branches, *new}.difference([""]))):
                teams = Teams(here, team_of, names, branches)
                published = _bring_parts(run, teams, built, verdicts, old, standing, reason)
            else:
                published = _bring(run, settings, built, old, standing, reason)
            if published is not None:
                return named(run, replace(published, tries=tries))
    raise contended(run.branch)


def _bring_parts(
    run: Run,
    teams: Teams,
    built: Built,
    verdicts: MaintainerDecisions,
    old: str | None,
    standing: RequestState,
    reason: str,
) -> Published | None:
    """The requests of the teams, then the plain one, which says how far the run came if nothing waits for a review."""
    here, base = teams.workspace, built.base

    def make(ref: str, plan: Plan, verdicts: MaintainerDecisions, *, covers: bool) -> Built:
        """One of them, on a ref that is at the base: what is to stay of its branch, then its part of the plan."""
        carried = _carry(run, here, ref, base, verdicts)
        part = replace(plan, ref=ref, base=resolve_commit(here.repo, ref))
        applied = apply_plan(here, part, run.now, in_actions=run.in_actions, covers=covers)
        lost = list_lost(here, applied.tip, verdicts)
        return Built(base, applied.tip, part, applied.subjects, verdicts.rejected, carried, lost)

    said, waits = [], False
    for team in teams.names:
        branch, part = teams.branches.get(team), teams.part(built.plan, team)
        if branch and branch.hold:
            waits |= bool(part.steps)
            said.append(f"{team}: {branch.hold}")
            continue
        stays = (
            branch.verdicts._replace(rejected=(), released=frozenset())
            if branch
            else MaintainerDecisions()
        )
        with private_ref(here.repo, PRIVATE, base) as ref:
            shown = _shown(here, make(ref, part, stays, covers=False))
            settings = _of_team(here.config, team)
            state = branch.standing if branch else find_request_state(run, settings)
            done = _bring(run, settings, shown, branch.tip if branch else None, state, "")
        if done is None:
            return None
        waits |= bool(part.steps) and not done.subjects and CLOSED not in done.reason
        said.append(f"{team}: {done.url or done.reason}")
    rejected = _merge_verdicts(verdicts, teams.branches).rejected
    with private_ref(here.repo, PRIVATE, base) as ref:
        lines = (*rejected, *(line for line in built.rejected if ASKED.match(line)))
        stays = verdicts._replace(rejected=tuple(dict.fromkeys(lines)))
        rest = make(ref, teams.part(built.plan, ""), stays, covers=not waits)._replace(
            questions=built.questions
        )
        done = _bring(run, here.config, rest, old, standing, reason)
    return done and replace(
        done, reason="; ".join(filter(None, (done.reason, *said))), plan=built.plan
    )


def _read_teams(workspace: Workspace, base: str) -> Callable[[str], str] | None:
    """Which team's memory a file is by CODEOWNERS of a base; None where its configuration or that names no team."""
    if workspace.config.publish.split == "none":
        return None
    found = workspace.at(base).read(PLACES)
    text = next((found[place] for place in PLACES if place in found), b"")
    owners = parse_owners(text.decode("utf-8", "replace"))

    def team_of(path: str) -> str:
        scope = classify_scope(path, workspace.config.scopes)
        return find_team(owners, path) if scope is not None and scope.name == "team" else ""

    return team_of if owners else None


def _read_branches(run: Run, here: Workspace, base: str) -> dict[str, TeamBranch]:
    """The branches of teams on the remote. All that stands on one stays, but for what people took out."""
    prefix, found = f"{here.config.publish.branch}-", {}
    for branch in list_remote_branches(run.workspace.repo, run.remote, prefix):
        team = branch.removeprefix(prefix)
        with private_ref(run.workspace.repo, PRIVATE) as ref:
            tip = fetch(run, branch, ref)
            standing = find_request_state(run, _of_team(here.config, team))
            verdicts = read_decisions(here, base, tip, standing.boxes, with_ours=True)
            hold = verdicts.obstacle or find_hold(
                standing.forge, standing.open, at_once=run.at_once
            )
            found[team] = TeamBranch(
                tip, MaintainerDecisions() if verdicts.obstacle else verdicts, standing, hold
            )
    return found


def _merge_verdicts(
    main: MaintainerDecisions, branches: Mapping[str, TeamBranch]
) -> MaintainerDecisions:
    """What is to stay of all branches: the ground that the run is planned on."""
    every = (main, *(one.verdicts for one in branches.values()))
    return MaintainerDecisions(
        tuple(dict.fromkeys(line for one in every for line in one.rejected)),
        tuple(entry for one in every for entry in one.taken_out),
        tuple(edit for one in every for edit in one.edits),
        tuple(file for one in every for file in one.touched),
        main.released,
    )


def _of_team(settings: Config, team: str) -> Config:
    """The configuration by which a team's request is brought."""
    return replace(
        settings, publish=replace(settings.publish, branch=f"{settings.publish.branch}-{team}")
    )


def _shown(workspace: Workspace, built: Built) -> Built:
    """A team's part as its request shows it: what an earlier run put on its branch is new, too."""
    before = workspace.at(built.base).places
    known = {change.entry.id for step in built.plan.steps for change in step.changes}
    kept = tuple(
        Change(
            step="extract",
            kind="update" if entry.id in before else "add",
            path=place.path,
            entry=entry,
            why="",
        )
        for place in workspace.at(built.tip).places.values()
        if (entry := place.entry).id not in known
        and (entry.id not in before or before[entry.id].entry != entry)
    )
    steps = (*built.plan.steps, *([PlannedStep(step="extract", changes=kept)] if kept else []))
    return built._replace(plan=replace(built.plan, steps=steps, judged=()), carried=Carried())


def _find_pause(run: Run, here: Workspace, standing: RequestState, tips: tuple[str, ...]) -> str:
    """Why nothing is proposed now, before anything is planned. Raises EngineError (`forge-…`)."""
    wait = "" if run.at_once else find_wait(here, tips, run.now)
    return wait or (
        find_hold(standing.forge, standing.open, at_once=run.at_once) if len(tips) > 1 else ""
    )


def _build(run: Run, ref: str, base: str, verdicts: MaintainerDecisions) -> Built | str:
    """What maintainers decided first, so that the plan is made with it; then the plan. Or why that cannot be."""
    workspace = workspace_at(run.workspace.repo, base)
    asked = tuple(line for line in verdicts.rejected if ASKED.match(line))
    decided = verdicts._replace(
        rejected=tuple(line for line in verdicts.rejected if line not in asked)
    )
    carried = _carry(run, workspace, ref, base, decided)
    try:
        plan, applied = perform(run, ref, base if carried.files else None)
    except RepositoryError as error:
        if error.slug != "ref-moved" or not carried.files:
            raise
        return (
            error.message
        )  # what another job planned knows nothing of their words, which go before it
    lost = list_lost(workspace, applied.tip, verdicts)
    built = Built(base, applied.tip, plan, applied.subjects, verdicts.rejected, carried, lost)
    return built if built.tip == base else _ask(run, workspace, ref, built, asked)


def _ask(run: Run, workspace: Workspace, ref: str, built: Built, asked: tuple[str, ...]) -> Built:
    """With the questions of the week, and the commit that says what was asked, which never stands alone."""
    today, tip = run.now.astimezone(UTC).date(), built.tip
    found = tuple(
        list_questions(workspace, tip, built.plan.judged, run.now, PROPOSED | KEPT - {"promotion"})
    )
    week = find_week(workspace, tip, found, today, asked)
    data = note_asked(workspace, tip, week.shown, (), today, asked)
    if (week.shown or asked) and data != workspace.at(tip).read([REJECTED_FILE]).get(REJECTED_FILE):
        tip = commit_files(
            workspace, ref, tip, {REJECTED_FILE: data}, ASKING, run.now, in_actions=run.in_actions
        )
    lines = tuple(line for line in read_rejected(workspace.at(tip)) if ASKED.match(line))
    return built._replace(
        tip=tip, questions=week.shown, rejected=tuple(dict.fromkeys((*built.rejected, *lines)))
    )


def _carry(
    run: Run, workspace: Workspace, ref: str, base: str, verdicts: MaintainerDecisions
) -> Carried:
    """Commit on a ref that is at `base` what is to stay of a branch."""
    carried = carry_over(workspace, base, verdicts)
    if carried.files:
        commit_files(
            workspace, ref, base, carried.files, CARRIED, run.now, in_actions=run.in_actions
        )
    return carried


def _bring(
    run: Run, settings: Config, built: Built, old: str | None, standing: RequestState, reason: str
) -> Published | None:
    """Branch and pull request brought up to date, or left as they are; None where the branch moved meanwhile."""
    here, is_more = Workspace(run.workspace.repo, settings), built.tip != built.base
    stays = COVERED if is_covered(built.plan) else _find_newer(here, built, old) if old else ""
    short = find_shortage(here, old or built.base, built.tip) if is_more and not run.at_once else ""
    # A review may have been submitted while the run was planned.
    pause = (
        ""
        if stays
        else short or (find_hold(standing.forge, standing.open, at_once=run.at_once) if old else "")
    )
    if left := stays or pause or (find_answer(built, standing) if is_more else ""):
        return Published(
            "pr", old or built.base, reason=left, plan=built.plan, is_paused=bool(pause)
        )
    # A forge closes the request of a branch that is gone, and its text would pass for an answer of people.
    url = "" if is_more else close_request(standing)
    outcome = _push(run, settings, built, old, standing)
    if outcome.state == "refused":
        raise refusal(settings.publish.branch, outcome)
    if outcome.state == "moved":
        return None
    lost = (
        f"{plural(len(built.lost), 'edit')} of the branch could not be kept: see the pull request"
    )
    reason = "; ".join(filter(None, (reason, lost if built.lost else "")))
    done = Published("pr", outcome.said or built.tip, url, 1, reason, built.plan, built.subjects)
    return update_request(run, settings, built, done, standing)


def _find_newer(here: Workspace, built: Built, old: str) -> str:
    """Why the branch stays as it is, whatever the plan says: it knows less than the run that made the branch."""
    if built.plan.engine.failure:
        return "the run stopped before its end: the branch is left as it is"
    until = built.plan.until
    if until is None or until == built.base:
        return ""
    theirs = find_cursor(here.repo, old, memory_test(here))
    is_older = (
        theirs is not None
        and theirs.source != until
        and is_ancestor(here.repo, until, theirs.source)
    )
    return "a newer run made the branch: it is left as it is" if is_older else ""


def _push(
    run: Run, settings: Config, built: Built, old: str | None, standing: RequestState
) -> PushOutcome:
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
