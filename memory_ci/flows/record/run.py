"""Record: merged work in, decisions out. Planning reads only; `flows.record.apply` performs a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.flows.asker import Asker
from memory_ci.flows.branch import branch_tip
from memory_ci.flows.draft import Draft
from memory_ci.flows.episodes import load_episodes
from memory_ci.flows.lookup import list_past_ids
from memory_ci.flows.model import Model, choose_model, trusted_config
from memory_ci.flows.record.claims import Claims, list_refused, unproved
from memory_ci.flows.record.episode_files import find_fold_day, list_deleted, plan_files
from memory_ci.flows.record.episode_writer import Chronicle
from memory_ci.flows.record.gatherer import Gatherer
from memory_ci.flows.record.inbox_notes import find_note_claims, list_strangers, prove
from memory_ci.flows.record.learner import Copies, Learner, Progress
from memory_ci.flows.record.maintainer_decisions import list_rejected, list_rejected_paths
from memory_ci.flows.record.upkeep import Upkeep, plan_upkeep
from memory_ci.flows.screening import find_unsafe
from memory_ci.flows.sessions.session_join import SessionFinder
from memory_ci.flows.stage import current_phases
from memory_ci.flows.workspace import Snapshot, Workspace, list_memory_files, memory_test, workspace_at
from memory_ci.forge.choose import choose_forge
from memory_ci.gitrepo.buried import BuriedTrailers
from memory_ci.gitrepo.history import (
    Cursor,
    find_addition,
    find_cursor,
    find_lost_cursor,
    list_counted,
    list_reverting,
    plan_range,
)
from memory_ci.gitrepo.past import commit_time
from memory_ci.gitrepo.push import connect
from memory_ci.gitrepo.repo import find_commit, head_branch, is_ancestor, is_shallow, resolve_commit
from memory_ci.gitrepo.sessionrefs import fetch
from memory_ci.gitrepo.settings import find_setting
from memory_ci.lifecycle.fold import plan_fold, strip_claims
from memory_ci.lifecycle.reinforce import plan_reinforcement
from memory_ci.lifecycle.reverts import SHA_WIDTH, Revert, find_reverts
from memory_ci.records.change import STEPS, Change, Step
from memory_ci.records.config import EngineName
from memory_ci.records.plan import PLAN_VERSION, Plan, PlannedStep
from memory_ci.records.report import Finding
from memory_ci.store.files import write_file
from memory_ci.store.layout import is_fragment
from memory_ci.text import plural

NOTHING: Mapping[str, str] = MappingProxyType({})


class RecordOptions(msgspec.Struct, frozen=True):
    """`since` excludes that commit; None takes up where the last record run ended. `ref` None: HEAD's branch; `base` is
    the commit that it is at, where that was asked already.

    `sessions` are transcripts that the caller names, beside those that the repository knows of; `engine` goes before
    the configuration's; with `fetch` the sessions that others captured are fetched first. A first run begins where
    memory-ci came in, or with `from_root` at the first commit.
    """

    since: str | None = None
    ref: str | None = None
    sessions: tuple[Path, ...] = ()
    engine: EngineName | None = None
    fetch: bool = False
    from_root: bool = False
    base: str | None = None


def plan_record(
    workspace: Workspace,
    options: RecordOptions,
    today: date,
    progress: Progress,
    environ: Mapping[str, str] = NOTHING,
    model: Model | None = None,
) -> Plan:
    """Everything a run over the range would do, on the tree of the branch's tip. Writes nothing.

    `environ` says which engine and which forge can be reached; `model` goes before what it says. An engine that fails
    ends the range where it failed: what comes after is for the next run. Raises RepositoryError: unborn-branch,
    detached-head, unknown-revision, shallow-clone, unreachable-cursor; UsageError for an engine that is asked for and
    cannot be had.
    """
    ref, base = branch_tip(workspace, options.ref, options.base)
    workspace = Workspace(workspace.repo, trusted_config(workspace.repo, base))
    cursor = find_cursor(workspace.repo, base, memory_test(workspace))
    span = Span(ref, base, _find_since(workspace, options, base, cursor), cursor)
    draft = Draft(workspace.at(base))
    model = model or choose_model(workspace.config.engine, options.engine, environ)
    gatherer = _gatherer(workspace, options, span.since, environ)
    asker = model.asker(draft.entries, workspace.repo.common_dir / "memory-ci" / "replies")
    learner = _learner(workspace, options, span, draft, gatherer, asker, today)
    folded, findings, waiting = _fold(draft, gatherer, today)
    with closing(model):
        requests = learner.list_declined(_time_of(workspace, span.since, today), base) if gatherer.has_forge else ()
        merged = tuple(learner.learn(span.since, base, progress))
        extracted = (*merged, *learner.learn_declined(requests, base))
    plan = Plan(
        schema_version=PLAN_VERSION,
        ref=ref,
        base=base,
        since=span.since,
        until=base if learner.failure is None else learner.covered,
        engine=model.use(asker, learner.failure),
        counts=learner.counts,
        judged=tuple(learner.judged),
        findings=(
            *workspace_at(workspace.repo, base).findings,
            *draft.base.memory.findings,
            *findings,
            *_uncommitted(draft.base, ref),
            *learner.findings,
        ),
        joins=tuple(learner.joins),
        windows=tuple(learner.windows),
        dropped=dict(sorted(learner.dropped.items())),
        problems=(
            *_lost_cursor(workspace, options, base, cursor),
            *_passed_over(workspace, span),
            *waiting,
            *gatherer.problems,
            *learner.problems,
        ),
    )
    return plan if plan.until is None else _with_steps(workspace, plan, span, draft, learner, folded, extracted)


class Span(NamedTuple):
    """The range of a run on a branch: after `since` (None: from the first commit) up to `base`; the cursor before."""

    ref: str
    base: str
    since: str | None
    cursor: Cursor | None


def _learner(
    workspace: Workspace,
    options: RecordOptions,
    span: Span,
    draft: Draft,
    gatherer: Gatherer,
    asker: Asker | None,
    today: date,
) -> Learner:
    """Who reads the range, with what was written, rejected and told before."""
    past = list_past_ids(workspace, span.base) if options.since is not None else frozenset()
    past |= list_rejected(workspace.at(span.base))
    phases = current_phases(workspace, span.base)
    told = load_episodes(workspace, span.base)
    rejected = list_rejected_paths(workspace.at(span.base))
    unwanted = {path.rpartition("/")[2].removesuffix(".md") for path in rejected}
    deleted = list_deleted(workspace, span.base) | unwanted
    chronicle = Chronicle(workspace, span.base, told, deleted, draft, phases.get(""))
    buried = BuriedTrailers(workspace.repo, span.base)
    copies = Copies(workspace.repo, span.since)
    return Learner(workspace, draft, gatherer, asker, chronicle, buried, copies, today, past, phases)


def _with_steps(
    workspace: Workspace,
    plan: Plan,
    span: Span,
    draft: Draft,
    learner: Learner,
    folded: tuple[Change, ...],
    extracted: tuple[Change, ...],
) -> Plan:
    """The plan with its steps and episodes, once it is known what it covers."""
    reinforced, counted = _reinforce(draft, learner)
    reverts, refused = _new_reverts(workspace, span.cursor, learner)
    times = {commit.sha[:SHA_WIDTH]: commit.committed_at for commit in learner.history}
    parts = {commit.sha[:SHA_WIDTH]: merged.tip.sha for merged, _ in learner.uses for commit in merged.commits}
    learner.chronicle.tell_reverts(reverts, times, parts)
    learner.chronicle.tell_refused(refused, times)
    upkeep = Upkeep(span.since, learner.today, reverts)
    first: tuple[tuple[Step, tuple[Change, ...]], ...] = (
        ("fold", folded), ("extract", extracted), ("reinforce", reinforced)
    )  # fmt: skip
    steps = (*(PlannedStep(step=step, changes=done) for step, done in first), *plan_upkeep(upkeep, draft, STEPS))
    plan = msgspec.structs.replace(
        plan,
        steps=tuple(step for step in steps if step.changes),
        counted=counted,
        findings=(*plan.findings, *list_refused(refused, "notice"), *_trusted_authors(learner, reverts)),
    )
    return _with_episodes(workspace, plan, learner.chronicle, learner.today)


def _with_episodes(workspace: Workspace, plan: Plan, chronicle: Chronicle, today: date) -> Plan:
    """The plan with the episodes that the chronicle tells, unless the configuration wants none."""
    if not workspace.config.episodes.write:
        return plan
    snapshot = workspace.at(plan.base)
    files, problems = plan_files(snapshot, chronicle.tellings)
    before = find_fold_day(snapshot, files, today)
    problems = [*plan.problems, *problems]
    return msgspec.structs.replace(plan, episodes=tuple(files), fold_before=before, problems=tuple(problems))


def _passed_over(workspace: Workspace, span: Span) -> tuple[str, ...]:
    """That a range which begins after the cursor leaves out what lies between, and no later run comes back to it."""
    cursor = span.cursor
    if cursor is None or span.since is None or cursor.source == span.since:
        return ()
    if not is_ancestor(workspace.repo, cursor.source, span.since):
        return ()
    count = plan_range(workspace.repo, cursor.source, span.since).change_count
    message = (
        f"{plural(count, 'change')} between the end of the last run ({cursor.source[:10]}) and --since: "
        "later runs go on from here. Without --since they are read"
    )
    return (message,)


def _lost_cursor(workspace: Workspace, options: RecordOptions, base: str, cursor: Cursor | None) -> tuple[str, ...]:
    """That history was rewritten below the newest record, where the range begins earlier for it."""
    if options.since is not None:
        return ()
    lost = find_lost_cursor(workspace.repo, base, cursor, memory_test(workspace))
    if lost is None:
        return ()
    message = (
        f"where the last run ended: {lost.commit[:12]} says at {lost.source[:12]}, which its history does not hold, "
        "for the branch was rewritten. Older changes are read again; what kept its commit is not counted twice"
    )
    return (message,)


def _time_of(workspace: Workspace, commit: str | None, today: date) -> datetime:
    """When a range begins; one from the root is as long as there is a forge. No clock of a commit is before ours."""
    start = commit and find_commit(workspace.repo, commit)  # one that is not there is told of where the range is read
    midnight = datetime.combine(today, time.min, UTC)
    return min(commit_time(workspace.repo, start), midnight) if start else datetime.min.replace(tzinfo=UTC)


def _gatherer(workspace: Workspace, options: RecordOptions, since: str | None, environ: Mapping[str, str]) -> Gatherer:
    """Every source that can be asked; one that cannot is a problem in the report."""
    cache = workspace.repo.common_dir / "memory-ci" / "forge-cache"
    forge, _ = choose_forge(workspace.config.forge, environ, cache)
    finder = SessionFinder(workspace, options.sessions, since)
    if options.fetch and workspace.config.sessions.read:
        finder.problems += _fetch(workspace, environ)
    return Gatherer(workspace, finder, forge)


def _fetch(workspace: Workspace, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Bring the sessions that others captured; a repository without a remote has none, one out of reach is told."""
    remote = workspace.config.publish.remote
    if find_setting(workspace.repo, f"remote.{remote}.url") is None:
        return ()
    try:
        fetch(workspace.repo, remote, connect(remote, environ).env)
    except EngineError as error:
        return (f"sessions of {remote}: {error.message} [{error.slug}]",)
    return ()


def _uncommitted(snapshot: Snapshot, ref: str) -> tuple[Finding, ...]:
    """What waits in the inbox of this work tree and is not on the branch yet: a run does not see it."""
    workspace = snapshot.workspace
    if workspace.repo.root is None or head_branch(workspace.repo) != ref:
        return ()
    known = {file.path for file in snapshot.memory.files}
    waiting = [file for file in list_memory_files(workspace, None) if is_fragment(file.path) and file.path not in known]
    hint = "Commit it, and the next run folds it."
    return tuple(Finding(f.path, 1, "not-committed", "waits in the work tree only", hint, "notice") for f in waiting)


def _new_reverts(
    workspace: Workspace, cursor: Cursor | None, learner: Learner
) -> tuple[tuple[Revert, ...], tuple[Revert, ...]]:
    """The reverts of the range that no earlier run has seen: those that count, and those that strangers only claim.

    What a person decided about an older one stays decided.
    """
    episodes = learner.chronicle.episodes.values()
    claims = Claims(workspace.repo, learner.strangers, episodes)
    found = find_reverts(learner.history, claims.count)
    refused = claims.refused
    if cursor is not None and found:
        # What they bring back is known by the reverts before them, which an earlier run has read.
        new = {revert.sha for revert in found}
        before = list_reverting(workspace.repo, cursor.source)
        doubted = frozenset[str]().union(*(revert.undoes for revert in found if revert.sha in learner.strangers))
        older = {one.sha[:SHA_WIDTH]: (one.parents[0], one.sha) for one in before if one.sha[:SHA_WIDTH] in doubted}
        claims = Claims(workspace.repo, learner.strangers | older, episodes)
        found = tuple(one for one in find_reverts([*before, *learner.history], claims.count) if one.sha in new)
    if cursor is None:
        return found, refused
    covered = {one.sha for one in (*found, *refused) if is_ancestor(workspace.repo, one.sha, cursor.source)}
    return tuple(o for o in found if o.sha not in covered), tuple(o for o in refused if o.sha not in covered)


def _trusted_authors(learner: Learner, reverts: Sequence[Revert]) -> Iterator[Finding]:
    """That without a forge the authors that git names decide whose claims count, where there are any."""
    is_said = learner.has_uses or any(revert.sha not in learner.strangers for revert in reverts)
    if is_said and not learner.gatherer.has_forge:
        message = (
            "no forge was asked who may write: what commits say of other work (reverts, Memory-Retrieved, Memory-Used) "
            "counts for whoever extraction.trusted_authors names"
        )
        yield unproved(message, "notice")


def _fold(
    draft: Draft, gatherer: Gatherer, today: date
) -> tuple[tuple[Change, ...], tuple[Finding, ...], tuple[str, ...]]:
    """The inbox moved to where it belongs; what must not be given to agents stays, and is named.

    Where it cannot be told who brought the notes, they wait, and the problem is told.
    """
    unsafe = tuple(finding for place in draft.inbox for finding in find_unsafe(place))
    fragments = [place for place in draft.inbox if place.path not in {finding.path for finding in unsafe}]
    try:
        strangers = list_strangers(draft.base.workspace, draft.base.sha, gatherer, {place.path for place in fragments})
    except (EngineError, RepositoryError) as error:
        return (), unsafe, (f"who brought the notes of the inbox, which wait: {error.message} [{error.slug}]",)
    claims = [found for one in fragments if one.path in strangers for found in find_note_claims(one, today, "notice")]
    notes = [
        strip_claims(place, today)
        if place.path in strangers
        else msgspec.structs.replace(place, entry=prove(draft.base, place.entry))
        for place in fragments
    ]
    targets = {place.path: draft.path_of(place.scope) for place in notes}
    changes, findings = plan_fold(notes, draft.kept, targets, strangers)
    return draft.take(changes), (*findings, *claims, *unsafe), ()


def _reinforce(draft: Draft, learner: Learner) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """The counters that the merged changes raise, and the tips of those that count now for the first time."""
    workspace = draft.base.workspace
    seen = list_counted(workspace.repo, draft.base.sha, memory_test(workspace))
    uses = [(merged, use) for merged, use in learner.uses if use.ids and merged.tip.sha not in seen]
    changes = plan_reinforcement([use for _, use in uses], draft.by_id)
    return draft.take(changes), tuple(merged.tip.sha for merged, _ in uses) if changes else ()


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan as JSON. Raises RepositoryError (write-failed)."""
    write_file(path, format_plan(plan))


def format_plan(plan: Plan) -> bytes:
    """A plan as indented JSON: what `flows.record.apply.parse_plan` reads."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def _find_since(workspace: Workspace, options: RecordOptions, base: str, cursor: Cursor | None) -> str | None:
    """Where the range begins: as asked, else after the newest record, else where memory-ci came in, else the root."""
    if options.since is not None:
        return resolve_commit(workspace.repo, options.since)
    if cursor is not None:
        return cursor.source
    # In a shallow clone the oldest commit seems to add everything: the range refuses it.
    is_from_root = options.from_root or is_shallow(workspace.repo)
    return None if is_from_root else find_addition(workspace.repo, base, CONFIG_FILE)
