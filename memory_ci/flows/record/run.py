"""Record: merged work in, decisions out. Planning writes nothing but caches; `flows.record.apply` performs a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.flows.draft import Draft
from memory_ci.flows.episodes import load_episodes
from memory_ci.flows.forgotten import find_forgotten, tombstones_at
from memory_ci.flows.lookup import list_past_ids
from memory_ci.flows.model import Model, choose_run_model, trusted_config
from memory_ci.flows.named_code import cite_named
from memory_ci.flows.record.claims import Claims, list_refused, unproved
from memory_ci.flows.record.episode_files import find_fold_day, list_deleted, plan_files
from memory_ci.flows.record.episode_writer import EpisodeWriter
from memory_ci.flows.record.gatherer import Gatherer, RecordRun
from memory_ci.flows.record.inbox_notes import find_note_claims, list_strangers, prove
from memory_ci.flows.record.learner import Learner, OnProgress, Tally
from memory_ci.flows.record.maintainer_decisions import list_rejected, list_rejected_paths
from memory_ci.flows.record.upkeep import Upkeep, find_same, plan_upkeep
from memory_ci.flows.screening import find_unsafe
from memory_ci.flows.sessions.session_join import SessionFinder
from memory_ci.flows.stage import current_phases
from memory_ci.flows.workspace import Snapshot, Workspace, branch_tip, list_memory_files, memory_test, workspace_at
from memory_ci.forge.selection import choose_forge
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.history import (
    Cursor,
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
from memory_ci.records.config import EngineName
from memory_ci.records.episode import Episode
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.plan import PLAN_VERSION, STEPS, Change, Plan, PlannedStep, Step
from memory_ci.records.report import Finding
from memory_ci.store.files import write_file
from memory_ci.store.layout import is_fragment
from memory_ci.text import plural

NOTHING: Mapping[str, str] = MappingProxyType({})

FREE_EPISODES = 50
"""New episode files that a first run writes unasked."""


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
    workspace = Workspace(workspace.repo, trusted_config(workspace.repo, base))
    cursor = find_cursor(workspace.repo, base, memory_test(workspace))
    since = _find_since(workspace, options, base, cursor, today)
    draft = Draft(workspace.at(base))
    model = model or choose_run_model(workspace, base, options.engine, today, environ)
    cache = workspace.repo.common_dir / "memory-ci"
    forge, _ = choose_forge(workspace.config.forge, environ, cache / "forge-cache")
    gatherer = Gatherer(workspace, SessionFinder(workspace, options.sessions, since), forge)
    asker = model.asker(draft.entries, cache / "replies")
    run = RecordRun(draft, since, cursor, gatherer, asker, current_phases(workspace, base), today)
    learner = _learner(run, options)
    folded, findings, waiting = _fold(run)
    tally = learner.tally
    with closing(model):
        requests = learner.read_declined(_time_of(workspace, since, today)) if gatherer.has_forge else ()
        merged = tuple(learner.learn(progress))
        extracted = (*merged, *learner.learn_declined(requests))
        same = _find_same(run, tally, extracted)
    plan = Plan(
        schema_version=PLAN_VERSION,
        ref=ref,
        base=base,
        since=since,
        until=base if tally.failure is None else tally.covered,
        is_asked=options.since is not None or options.from_root,
        engine=model.use(asker, tally.failure),
        counts=tally.counts,
        judged=tuple(tally.judged),
        findings=(
            *workspace_at(workspace.repo, base).findings,
            *draft.base.memory.findings,
            *findings,
            *_uncommitted(draft.base, ref),
            *tally.findings,
        ),
        joins=tuple(tally.joins),
        windows=tuple(tally.windows),
        dropped=dict(sorted(tally.dropped.items())),
        problems=(
            *_lost_cursor(run, options),
            *_passed_over(run),
            *waiting,
            *options.problems,
            *gatherer.problems,
            *tally.problems,
        ),
    )
    return plan if plan.until is None else _with_steps(plan, run, learner, folded, extracted, same)


def fetch_sessions(
    workspace: Workspace, ref: str | None, environ: Mapping[str, str], base: str | None = None
) -> tuple[str, ...]:
    """Bring the sessions that others captured, for `RecordOptions.problems`: why that could not be done.

    A repository without a remote has none. Raises RepositoryError: unborn-branch, detached-head.
    """
    config = trusted_config(workspace.repo, branch_tip(workspace, ref, base)[1])
    remote = config.publish.remote
    if not config.sessions.read or find_setting(workspace.repo, f"remote.{remote}.url") is None:
        return ()
    try:
        fetch(workspace.repo, remote, connect(remote, environ).env)
    except EngineError as error:
        return (f"sessions of {remote}: {error.message} [{error.slug}]",)
    return ()


def _learner(run: RecordRun, options: RecordOptions) -> Learner:
    """The learner of a run, with what was written, rejected and told before."""
    workspace, base = run.workspace, run.base.sha
    past = list_past_ids(workspace, base) if options.since is not None else frozenset()
    unwanted = {path.rpartition("/")[2].removesuffix(".md") for path in list_rejected_paths(run.base)}
    writer = EpisodeWriter(run, load_episodes(workspace, base), list_deleted(workspace, base) | unwanted)
    return Learner(run, writer, past | list_rejected(run.base), options.accepted, tombstones_at(run.base))


def _find_same(run: RecordRun, tally: Tally, extracted: Sequence[Change]) -> tuple[frozenset[str], ...]:
    """What of the run's learnings the model takes for said before, or twice; a failure is a problem of the run."""
    if run.asker is None or tally.failure is not None:
        return ()
    try:
        return find_same(run.asker, run.draft.kept, {change.entry.id for change in extracted})
    except EngineError as error:
        tally.problems.append(f"which entries say the same: {error.message} [{error.slug}]")
        return ()


def _with_steps(
    plan: Plan,
    run: RecordRun,
    learner: Learner,
    folded: tuple[Change, ...],
    extracted: tuple[Change, ...],
    same: tuple[frozenset[str], ...],
) -> Plan:
    """The plan with its steps and episodes, once it is known what it covers."""
    tally, writer = learner.tally, learner.writer
    reinforced, counted = _reinforce(run.draft, tally)
    reverts, refused = _new_reverts(run, tally, writer.episodes.values())
    times = {commit.sha[:SHA_WIDTH]: commit.committed_at for commit in tally.history}
    parts = {commit.sha[:SHA_WIDTH]: merged.tip.sha for merged, _ in tally.uses for commit in merged.commits}
    writer.amend_reverted(reverts, times, parts)
    writer.amend_refused(refused, times)
    first: tuple[tuple[Step, tuple[Change, ...]], ...] = (
        ("fold", folded), ("extract", extracted), ("reinforce", reinforced)
    )  # fmt: skip
    upkeep = plan_upkeep(Upkeep(run.since, run.today, reverts, same=same), run.draft, STEPS)
    steps = (*(PlannedStep(step=step, changes=done) for step, done in first if done), *upkeep)
    findings = (*plan.findings, *list_refused(refused, "notice"), *_trusted_authors(run, tally, reverts))
    plan = replace(plan, steps=steps, counted=counted, findings=findings)
    if not run.workspace.config.episodes.write:
        return plan
    files, problems = plan_files(run.base, map(tombstones_at(run.base).mask_all, writer.tellings))
    return replace(
        plan,
        episodes=tuple(files),
        fold_before=find_fold_day(run.base, files, run.today),
        problems=(*plan.problems, *problems),
    )


def _passed_over(run: RecordRun) -> tuple[str, ...]:
    """A problem if the range begins after the cursor: no later run reads the changes between."""
    repo, cursor = run.workspace.repo, run.cursor
    if cursor is None or run.since is None or cursor.source == run.since:
        return ()
    if not is_ancestor(repo, cursor.source, run.since):
        return ()
    count = plan_range(repo, cursor.source, run.since).change_count
    message = (
        f"{plural(count, 'change')} between the end of the last run ({cursor.source[:10]}) and --since: "
        "later runs go on from here. Without --since they are read"
    )
    return (message,)


def _lost_cursor(run: RecordRun, options: RecordOptions) -> tuple[str, ...]:
    """A problem if history was rewritten below the newest record, so that the range begins earlier."""
    if options.since is not None:
        return ()
    lost = find_lost_cursor(run.workspace.repo, run.base.sha, run.cursor, memory_test(run.workspace))
    if lost is None:
        return ()
    message = (
        f"where the last run ended: {lost.commit[:12]} says at {lost.source[:12]}, which its history does not hold, "
        "for the branch was rewritten. Older changes are read again; what kept its commit is not counted twice"
    )
    return (message,)


def _time_of(workspace: Workspace, commit: str | None, today: date) -> datetime:
    """When a range begins; one from the root has no beginning. A commit dated in the future counts as of today."""
    start = commit and find_commit(workspace.repo, commit)  # one that is not there is told of where the range is read
    midnight = datetime.combine(today, time.min, UTC)
    return min(commit_time(workspace.repo, start), midnight) if start else datetime.min.replace(tzinfo=UTC)


def _uncommitted(snapshot: Snapshot, ref: str) -> tuple[Finding, ...]:
    """A notice for each file that waits in the inbox of the work tree and is not committed: a run does not see it."""
    workspace = snapshot.workspace
    if workspace.repo.root is None or head_branch(workspace.repo) != ref:
        return ()
    known = {file.path for file in snapshot.memory.files}
    waiting = [file for file in list_memory_files(workspace, None) if is_fragment(file.path) and file.path not in known]
    hint = "Commit it, and the next run folds it."
    return tuple(Finding(f.path, 1, "not-committed", "waits in the work tree only", hint, "notice") for f in waiting)


def _new_reverts(
    run: RecordRun, tally: Tally, episodes: Collection[Episode]
) -> tuple[tuple[Revert, ...], tuple[Revert, ...]]:
    """The reverts of the range that no earlier run has seen: those that count, and those that outsiders only claim.

    A person may have decided about an older one, and that stays.
    """
    repo, cursor = run.workspace.repo, run.cursor
    claims = Claims(repo, tally.strangers, episodes)
    found = find_reverts(tally.history, claims.count)
    refused = claims.refused
    if cursor is not None and found:
        # What they bring back is known by the reverts before them, which an earlier run has read.
        new = {revert.sha for revert in found}
        before = list_reverting(repo, cursor.source)
        doubted = frozenset[str]().union(*(revert.undoes for revert in found if revert.sha in tally.strangers))
        older = {one.sha[:SHA_WIDTH]: (one.parents[0], one.sha) for one in before if one.sha[:SHA_WIDTH] in doubted}
        claims = Claims(repo, tally.strangers | older, episodes)
        found = tuple(one for one in find_reverts([*before, *tally.history], claims.count) if one.sha in new)
    if cursor is None:
        return found, refused
    covered = {one.sha for one in (*found, *refused) if is_ancestor(repo, one.sha, cursor.source)}
    return tuple(o for o in found if o.sha not in covered), tuple(o for o in refused if o.sha not in covered)


def _trusted_authors(run: RecordRun, tally: Tally, reverts: Sequence[Revert]) -> Iterator[Finding]:
    """A notice that without a forge the configured authors decide whose claims count, if there are claims."""
    is_said = tally.has_uses or any(revert.sha not in tally.strangers for revert in reverts)
    if is_said and not run.gatherer.has_forge:
        message = (
            "no forge was asked who may write: what commits say of other work (reverts, Memory-Retrieved, Memory-Used) "
            "counts for whoever extraction.trusted_authors names"
        )
        yield unproved(message, "notice")


def _fold(run: RecordRun) -> tuple[tuple[Change, ...], tuple[Finding, ...], tuple[str, ...]]:
    """Fold the inbox into the files of its scopes; notes that must not be given to agents stay, with a finding.

    If it cannot be found out who brought the notes, they wait, and that is a problem.
    """
    draft, today = run.draft, run.today
    forgotten = tombstones_at(draft.base)
    unsafe = tuple(one for place in draft.inbox for one in (*find_unsafe(place), *find_forgotten(forgotten, place)))
    fragments = [place for place in draft.inbox if place.path not in {finding.path for finding in unsafe}]
    try:
        strangers = list_strangers(run, {place.path for place in fragments})
    except (EngineError, RepositoryError) as error:
        return (), unsafe, (f"who brought the notes of the inbox, which wait: {error.message} [{error.slug}]",)
    claims = [found for one in fragments if one.path in strangers for found in find_note_claims(one, today, "notice")]
    notes = [
        strip_claims(place, today) if place.path in strangers else replace(place, entry=prove(draft.base, place.entry))
        for place in fragments
    ]
    targets = {place.path: draft.path_of(place.scope) for place in notes}
    planned, findings = plan_fold(notes, draft.kept, targets, strangers)
    cited = cite_named(draft.base.workspace, [change.entry for change in planned], draft.base.sha)
    changes = [
        replace(change, entry=entry) if change.kind == "move" else change
        for change, entry in zip(planned, cited, strict=True)
    ]
    return draft.take(changes), (*findings, *claims, *unsafe), ()


def _reinforce(draft: Draft, tally: Tally) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """The counters that the merged changes raise, and the tips of those that count now for the first time."""
    workspace = draft.base.workspace
    seen = list_counted(workspace.repo, draft.base.sha, memory_test(workspace))
    uses = [(merged, use) for merged, use in tally.uses if use.ids and merged.tip.sha not in seen]
    changes = plan_reinforcement([use for _, use in uses], draft.by_id)
    return draft.take(changes), tuple(merged.tip.sha for merged, _ in uses) if changes else ()


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan as JSON. Raises RepositoryError (write-failed)."""
    write_file(path, format_plan(plan))


def format_plan(plan: Plan) -> bytes:
    """A plan as indented JSON: what `flows.record.apply.parse_plan` reads."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def _find_since(
    workspace: Workspace, options: RecordOptions, base: str, cursor: Cursor | None, today: date
) -> str | None:
    """Where the range begins: as asked, else after the newest record, else where memory-ci came in, else the root."""
    if options.since is not None:
        return find_start(workspace.repo, options.since, base, today)
    if cursor is not None:
        return cursor.source
    # In a shallow clone the oldest commit seems to add everything: the range refuses it.
    is_from_root = options.from_root or is_shallow(workspace.repo)
    return None if is_from_root else find_addition(workspace.repo, base, CONFIG_FILE)


def check_branch(workspace: Workspace) -> str | None:
    """The full name of the branch that is checked out, if one is that has a commit.

    Raises UsageError (other-branch) where it is another than the default one, if one can be told.
    """
    tips = read_tips(workspace.repo, workspace_at(workspace.repo, "HEAD").config.publish.remote)
    if tips.default and tips.work:
        hint = f"Check out {tips.name!r}, or say that you mean this branch: --branch {tips.work}"
        message = f"{tips.work!r} is checked out, and memory is recorded on {tips.name!r}, the default branch"
        raise UsageError(message, slug="other-branch", hint=hint)
    return tips.branch or None


def check_range(workspace: Workspace, options: RecordOptions, base: str) -> None:
    """Raises UsageError (not-committed) where a first run would read all history, for nothing says where to begin."""
    repo = workspace.repo
    if CONFIG_FILE in tree_at(repo, base).files or is_shallow(repo) or not _is_first(workspace, options, base):
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
