"""Record: merged work in, decisions out. Planning writes nothing but caches; `flows.record.apply` performs a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, date, datetime, time
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from memory_ci.commands.record.episode_writer import EpisodeWriter
from memory_ci.commands.record.gatherer import Gatherer, RecordRun
from memory_ci.commands.record.learner import Learner, OnProgress, Tally
from memory_ci.commands.record.strangers import list_strangers
from memory_ci.commands.record.upkeep import Upkeep, find_same, plan_upkeep
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.forge.selection import choose_forge
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.history import (
    commit_time,
    find_addition,
    find_cursor,
    find_lost_cursor,
    find_start,
    list_counted,
    list_reverting,
    plan_range,
)
from memory_ci.gitrepo.network import connect
from memory_ci.gitrepo.repo import (
    find_commit,
    find_setting,
    head_branch,
    is_ancestor,
    is_shallow,
    read_tips,
)
from memory_ci.gitrepo.sessionrefs import fetch
from memory_ci.lifecycle.fold import plan_fold, strip_claims
from memory_ci.lifecycle.reinforcement import plan_reinforcement
from memory_ci.lifecycle.reverts import Revert, find_reverts
from memory_ci.memory.claims import Claims, find_note_claims, list_refused, prove, unproved
from memory_ci.memory.draft import Draft
from memory_ci.memory.eligible import is_own_commit, is_own_run
from memory_ci.memory.episode_files import find_fold_day, list_deleted, plan_files
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.forgotten import find_forgotten, tombstones_at
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.maintainer_decisions import list_rejected, list_rejected_paths
from memory_ci.memory.model import Model, choose_run_model, trusted_at
from memory_ci.memory.named_code import cite_named
from memory_ci.memory.screening import find_unsafe
from memory_ci.memory.stage import current_phases
from memory_ci.memory.workspace import (
    Snapshot,
    Workspace,
    branch_tip,
    list_memory_files,
    memory_test,
    workspace_at,
    workspace_here,
)
from memory_ci.records.config import EngineName
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.plan import PLAN_VERSION, STEPS, Change, Counts, Plan, PlannedStep, Step
from memory_ci.records.report import Finding
from memory_ci.sessions.session_join import SessionFinder
from memory_ci.store.files import write_file
from memory_ci.store.layout import is_fragment
from memory_ci.text import plural

NOTHING: Mapping[str, str] = MappingProxyType({})
FREE_EPISODES = 50  # New episode files that a first run writes unasked.


class RecordOptions(msgspec.Struct, frozen=True):
    """`since` excludes that commit; None takes up where the last record run ended. `ref` None: HEAD's branch; `base` is
    the commit that it is at, where that was asked already.

    `sessions` are transcripts that the caller names, beside those that the repository knows of; `engine` goes before
    the configuration's; `problems` are those that the caller met before (`fetch_sessions`). A first run begins where
    memory-ci came in, or with `from_root` at the first commit. `since` may be an age, too (`90d`, `12w`, `6m`, `1y`).
    `accepted` are the content keys of candidates that a person accepted in the memory pull request.
    """

    since: str | None = None
    ref: str | None = None
    sessions: tuple[Path, ...] = ()
    engine: EngineName | None = None
    from_root: bool = False
    base: str | None = None
    problems: tuple[str, ...] = ()
    accepted: frozenset[str] = frozenset()


def plan_record(
    workspace: Workspace,
    options: RecordOptions,
    today: date,
    progress: OnProgress,
    environ: Mapping[str, str] = NOTHING,
    model: Model | None = None,
) -> Plan:
    """Everything a run over the range would do, on the tree of the branch's tip. Writes nothing but caches.

    `environ` says which engine and which forge can be reached; `model` goes before what it says. An engine that fails
    ends the range where it failed: what comes after is for the next run. Raises RepositoryError: unborn-branch,
    detached-head, unknown-revision, shallow-clone, unreachable-cursor; UsageError for an engine that is asked for and
    cannot be had.
    """
    ref, base = branch_tip(workspace, options.ref, options.base)
    run = _open_run(trusted_at(workspace.repo, base).at(base), options, today, environ, model)
    learner = _open_learner(run, options)
    tally = learner.tally
    problems = [*_find_gaps(run, options)]
    tally.findings += (*workspace_at(workspace.repo, base).findings, *run.base.memory.findings)
    first: dict[Step, tuple[Change, ...]] = {"fold": _fold(run, tally, problems)}
    tally.findings += _uncommitted(run.base, ref)
    same: tuple[frozenset[str], ...] = ()
    with closing(run.model):
        requests = learner.read_declined(_time_of(run)) if run.gatherer.has_forge else ()
        merged = tuple(learner.learn(progress))
        first["extract"] = (*merged, *learner.learn_left(), *learner.learn_declined(requests))
        if run.asker is not None and tally.failure is None:
            try:
                same = find_same(
                    run.asker, run.draft.kept, {change.entry.id for change in first["extract"]}
                )
            except EngineError as error:
                tally.problems.append(f"which entries say the same: {error.message} [{error.slug}]")
    plan = Plan(
        schema_version=PLAN_VERSION,
        ref=ref,
        base=base,
        since=run.since,
        until=base if tally.failure is None else tally.covered,
        is_asked=options.since is not None or options.from_root,
        engine=run.model.use(run.asker, tally.failure),
        counts=Counts(
            merged_changes=sum(not is_own_run(merged) for merged, _ in tally.uses),
            declined_changes=tally.declined,
            commits=sum(not is_own_commit(commit) for commit in tally.history),
            redactions=tally.redactions,
            left_out=dict(sorted(tally.left_out.items())),
        ),
        judged=tuple(tally.judged),
        joins=tuple(tally.joins),
        windows=tuple(tally.windows),
        dropped=dict(sorted(tally.dropped.items())),
    )
    if plan.until is not None:
        plan = _with_steps(plan, run, learner, first, same)
    problems += (*options.problems, *run.gatherer.problems, *tally.problems)
    return replace(plan, findings=tuple(tally.findings), problems=tuple(problems))


def _open_run(
    base: Snapshot,
    options: RecordOptions,
    today: date,
    environ: Mapping[str, str],
    model: Model | None,
) -> RecordRun:
    """The run, from where it was asked to begin, else after the newest record, else where memory-ci came in, else the
    root."""
    workspace, repo = base.workspace, base.workspace.repo
    since, cursor = None, find_cursor(repo, base.sha, memory_test(workspace))
    if options.since is not None:
        since = find_start(repo, options.since, base.sha, today)
    elif cursor is not None:
        since = cursor.source
    elif not options.from_root and not is_shallow(repo):  # where the oldest commit seems to add all
        since = find_addition(repo, base.sha, CONFIG_FILE)
    cache = repo.common_dir / "memory-ci"
    forge, _ = choose_forge(workspace.config.forge, environ, cache / "forge-cache")
    gatherer = Gatherer(
        workspace, SessionFinder(workspace, options.sessions, since, base.sha), forge
    )
    draft = Draft(base)
    model = model or choose_run_model(workspace, base.sha, options.engine, today, environ)
    asker = model.asker(draft.entries, cache / "replies")
    return RecordRun(
        draft, since, cursor, gatherer, model, asker, current_phases(workspace, base.sha), today
    )


def _open_learner(run: RecordRun, options: RecordOptions) -> Learner:
    """The learner of a run, with what was written, rejected and told before."""
    workspace, base = run.workspace, run.base.sha
    past = list_past_ids(workspace, base) if options.since is not None else frozenset()
    unwanted = {
        path.rpartition("/")[2].removesuffix(".md") for path in list_rejected_paths(run.base)
    }
    writer = EpisodeWriter(
        run, load_episodes(workspace, base), list_deleted(workspace, base) | unwanted
    )
    return Learner(
        run, writer, past | list_rejected(run.base), options.accepted, tombstones_at(run.base)
    )


def _fold(run: RecordRun, tally: Tally, problems: list[str]) -> tuple[Change, ...]:
    """Fold the inbox into the files of its scopes; notes that must not be given to agents stay, with a finding. If it
    cannot be found out who brought the notes, they wait, and that is a problem."""
    draft, today = run.draft, run.today
    forgotten = tombstones_at(draft.base)
    unsafe = tuple(
        one
        for place in draft.inbox
        for one in (*find_unsafe(place), *find_forgotten(forgotten, place))
    )
    fragments = [
        place for place in draft.inbox if place.path not in {finding.path for finding in unsafe}
    ]
    try:
        strangers = list_strangers(run, {place.path for place in fragments})
    except (EngineError, RepositoryError) as error:
        tally.findings += unsafe
        problems.append(
            f"who brought the notes of the inbox, which wait: {error.message} [{error.slug}]"
        )
        return ()
    claims = [
        found
        for one in fragments
        if one.path in strangers
        for found in find_note_claims(one, today, "notice")
    ]
    notes = [
        strip_claims(place, today)
        if place.path in strangers
        else replace(place, entry=prove(draft.base, place.entry))
        for place in fragments
    ]
    targets = {place.path: draft.path_of(place.scope) for place in notes}
    planned, findings = plan_fold(notes, draft.kept, targets, strangers)
    cited = cite_named(draft.base.workspace, [change.entry for change in planned], draft.base.sha)
    changes = [
        replace(change, entry=entry) if change.kind == "move" else change
        for change, entry in zip(planned, cited, strict=True)
    ]
    tally.findings += (*findings, *claims, *unsafe)
    return draft.take(changes)


def _time_of(run: RecordRun) -> datetime:
    """When a range begins; one from the root has no beginning. A commit dated in the future counts as of today."""
    repo = run.workspace.repo
    start = run.since and find_commit(
        repo, run.since
    )  # one that is not there is told of where the range is read
    midnight = datetime.combine(run.today, time.min, UTC)
    return min(commit_time(repo, start), midnight) if start else datetime.min.replace(tzinfo=UTC)


def _with_steps(
    plan: Plan,
    run: RecordRun,
    learner: Learner,
    first: Mapping[Step, tuple[Change, ...]],
    same: tuple[frozenset[str], ...],
) -> Plan:
    """The plan with its steps and episodes, once it is known what it covers."""
    tally, writer, workspace = learner.tally, learner.writer, run.workspace
    seen = list_counted(workspace.repo, run.base.sha, memory_test(workspace))
    uses = [(merged, use) for merged, use in tally.uses if use.ids and merged.tip.sha not in seen]
    reinforced = run.draft.take(plan_reinforcement([use for _, use in uses], run.draft.by_id))
    reverts, refused = _new_reverts(run, learner)
    times = {commit.sha[:SHA_WIDTH]: commit.committed_at for commit in tally.history}
    parts = {
        commit.sha[:SHA_WIDTH]: merged.tip.sha
        for merged, _ in tally.uses
        for commit in merged.commits
    }
    writer.amend(reverts, refused, times, parts)
    upkeep = plan_upkeep(Upkeep(run.since, run.today, reverts, same=same), run.draft, STEPS)
    done = (
        (step, changes) for step, changes in (*first.items(), ("reinforce", reinforced)) if changes
    )
    steps = (*(PlannedStep(step=step, changes=changes) for step, changes in done), *upkeep)
    tally.findings += list_refused(refused, "notice")
    is_said = tally.has_uses or any(revert.sha not in tally.strangers for revert in reverts)
    if is_said and not run.gatherer.has_forge:
        message = (
            "no forge was asked who may write: what commits say of other work (reverts, Memory-Retrieved, Memory-Used) "
            "counts for whoever extraction.trusted_authors names"
        )
        tally.findings.append(unproved(message, "notice"))
    plan = replace(
        plan, steps=steps, counted=tuple(merged.tip.sha for merged, _ in uses) if reinforced else ()
    )
    if not workspace.config.episodes.write:
        return plan
    files, problems = plan_files(run.base, map(tombstones_at(run.base).mask_all, writer.tellings))
    tally.problems += problems
    return replace(
        plan, episodes=tuple(files), fold_before=find_fold_day(run.base, files, run.today)
    )


def _find_gaps(run: RecordRun, options: RecordOptions) -> Iterator[str]:
    """Problems: history was rewritten below the newest record, so that the range begins earlier; or the range begins
    after the cursor, so that no later run reads the changes between."""
    repo, cursor = run.workspace.repo, run.cursor
    is_asked = options.since is not None
    lost = (
        None
        if is_asked
        else find_lost_cursor(repo, run.base.sha, cursor, memory_test(run.workspace))
    )
    if lost is not None:
        yield (
            f"where the last run ended: {lost.commit[:12]} says at {lost.source[:12]}, which its history does not "
            "hold, for the branch was rewritten. Older changes are read again; "
            "what kept its commit is not counted twice"
        )
    if (
        cursor is None
        or run.since in (None, cursor.source)
        or not is_ancestor(repo, cursor.source, run.since)
    ):
        return
    count = plan_range(repo, cursor.source, run.since).change_count
    yield (
        f"{plural(count, 'change')} between the end of the last run ({cursor.source[:10]}) and --since: "
        "later runs go on from here. Without --since they are read"
    )


def _uncommitted(snapshot: Snapshot, ref: str) -> Iterator[Finding]:
    """What of the work tree a run does not see: each file that waits in the inbox and is not committed, and a
    configuration that cannot be read, for the commit's holds."""
    workspace = snapshot.workspace
    if workspace.repo.root is None or head_branch(workspace.repo) != ref:
        return
    try:
        workspace_here(workspace.repo)
    except UsageError as error:
        message = f"the configuration of the work tree cannot be read, and that of the commit holds: {error.message}"
        yield Finding(CONFIG_FILE, 1, error.slug, message, error.hint, "notice")
    known = {file.path for file in snapshot.memory.files}
    for file in list_memory_files(workspace, None):
        if is_fragment(file.path) and file.path not in known:
            hint = "Commit it, and the next run folds it."
            yield Finding(
                file.path, 1, "not-committed", "waits in the work tree only", hint, "notice"
            )


def _new_reverts(run: RecordRun, learner: Learner) -> tuple[tuple[Revert, ...], tuple[Revert, ...]]:
    """The reverts of the range that no earlier run has seen: those that count, and those that outsiders only claim. A
    person may have decided about an older one, and that stays."""
    repo, cursor, tally, episodes = (
        run.workspace.repo,
        run.cursor,
        learner.tally,
        learner.writer.episodes.values(),
    )
    claims = Claims(repo, tally.strangers, episodes)
    found, refused = find_reverts(tally.history, claims.count), claims.refused
    if cursor is None:
        return found, refused
    if found:
        # What they bring back is known by the reverts before them, which an earlier run has read.
        new = {revert.sha for revert in found}
        before = list_reverting(repo, cursor.source)
        doubted = frozenset[str]().union(
            *(revert.undoes for revert in found if revert.sha in tally.strangers)
        )
        older = {
            one.sha[:SHA_WIDTH]: (one.parents[0], one.sha)
            for one in before
            if one.sha[:SHA_WIDTH] in doubted
        }
        claims = Claims(repo, tally.strangers | older, episodes)
        found = tuple(
            one for one in find_reverts([*before, *tally.history], claims.count) if one.sha in new
        )
    covered = {one.sha for one in (*found, *refused) if is_ancestor(repo, one.sha, cursor.source)}
    return tuple(o for o in found if o.sha not in covered), tuple(
        o for o in refused if o.sha not in covered
    )


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan as JSON. Raises RepositoryError (write-failed)."""
    write_file(path, format_plan(plan))


def format_plan(plan: Plan) -> bytes:
    """A plan as indented JSON: what `flows.record.apply.parse_plan` reads."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def fetch_sessions(
    workspace: Workspace, ref: str | None, environ: Mapping[str, str], base: str | None = None
) -> tuple[str, ...]:
    """Bring the sessions that others captured, for `RecordOptions.problems`: why that could not be done. A repository
    without a remote has none. Raises RepositoryError: unborn-branch, detached-head."""
    config = trusted_at(workspace.repo, branch_tip(workspace, ref, base)[1]).config
    remote = config.publish.remote
    if not config.sessions.read or find_setting(workspace.repo, f"remote.{remote}.url") is None:
        return ()
    try:
        fetch(workspace.repo, remote, connect(remote, environ).env)
    except EngineError as error:
        return (f"sessions of {remote}: {error.message} [{error.slug}]",)
    return ()


def check_branch(workspace: Workspace) -> str | None:
    """The full name of the branch that is checked out, if one is that has a commit. Raises UsageError (other-branch)
    where it is another than the default one, if one can be told."""
    tips = read_tips(workspace.repo, workspace_at(workspace.repo, "HEAD").config.publish.remote)
    if tips.default and tips.work:
        hint = f"Check out {tips.name!r}, or say that you mean this branch: --branch {tips.work}"
        message = f"{tips.work!r} is checked out, and memory is recorded on {tips.name!r}, the default branch"
        raise UsageError(message, slug="other-branch", hint=hint)
    return tips.branch or None


def check_range(workspace: Workspace, options: RecordOptions, base: str) -> None:
    """Raises UsageError (not-committed) where a first run would read all history, for nothing says where to begin."""
    repo = workspace.repo
    if (
        CONFIG_FILE in tree_at(repo, base).files
        or is_shallow(repo)
        or not _is_first(workspace, options, base)
    ):
        return
    if find_addition(repo, base, CONFIG_FILE) is None:
        message = f"{CONFIG_FILE} is not committed, so nothing says where memory begins"
        hint = f"Commit {CONFIG_FILE} first (`memory-ci init` writes it), or say --since REV or --from-root."
        raise UsageError(message, slug="nothing-committed", hint=hint)


def count_unasked(workspace: Workspace, options: RecordOptions, plan: Plan) -> int:
    """How many new episodes a person has to agree to: those of a first run whose range nobody named, over the limit."""
    count = len(plan.episodes)
    return count if count > FREE_EPISODES and _is_first(workspace, options, plan.base) else 0


def _is_first(workspace: Workspace, options: RecordOptions, base: str) -> bool:
    if options.since is not None or options.from_root:
        return False
    here = workspace_at(workspace.repo, base)
    return find_cursor(workspace.repo, base, memory_test(here)) is None
