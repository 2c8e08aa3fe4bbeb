"""Planning of a record run: merged work is read, and a plan says what memory learns from it.

Planning writes nothing but caches; `memory.apply` commits a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.commands.record.episode_writer import EpisodeWriter
from memory_ci.commands.record.gatherer import Gatherer, RecordRun
from memory_ci.commands.record.learner import Learner, OnProgress, Tally
from memory_ci.commands.record.proposed_checks import (
    judge_checks,
    plan_checks_of_entries,
    plan_new_rules,
)
from memory_ci.commands.record.repeated_candidates import judge_repeated, plan_repeated
from memory_ci.commands.record.strangers import list_strangers
from memory_ci.commands.record.upkeep import Upkeep, find_same, plan_upkeep
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.forge.selection import choose_forge
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.history import find_addition, list_reverting_commits, plan_range
from memory_ci.gitrepo.log import read_commit_time
from memory_ci.gitrepo.network import connect
from memory_ci.gitrepo.past import find_range_start
from memory_ci.gitrepo.record_commits import find_cursor, find_lost_cursor, list_counted_commits
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
from memory_ci.memory.episode_files import DeletedEpisodes, find_fold_day, plan_files
from memory_ci.memory.episodes import load_episode_files
from memory_ci.memory.forgotten import find_forgotten, tombstones_at
from memory_ci.memory.git_episodes import cache_range
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.maintainer_decisions import list_rejected, list_rejected_paths
from memory_ci.memory.model import Model, choose_run_model, trusted_at
from memory_ci.memory.named_code import cite_named
from memory_ci.memory.recorded_ranges import list_recorded_commits
from memory_ci.memory.screening import find_unsafe
from memory_ci.memory.stage import current_phases
from memory_ci.memory.workspace import (
    Snapshot,
    Workspace,
    branch_tip,
    build_memory_test,
    list_memory_files,
    workspace_at,
    workspace_here,
)
from memory_ci.progress import report
from memory_ci.records.config import EngineName
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode
from memory_ci.records.history import PullRequest
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.plan import (
    PLAN_VERSION,
    STEPS,
    Change,
    Counts,
    Plan,
    PlannedStep,
    Step,
    Unwritten,
)
from memory_ci.records.report import Finding
from memory_ci.sessions.repetitions import REPETITION
from memory_ci.sessions.session_join import SessionFinder
from memory_ci.store.files import write_file
from memory_ci.store.layout import is_fragment
from memory_ci.store.ranges import RecordedRange
from memory_ci.text import plural

NOTHING: Mapping[str, str] = MappingProxyType({})

FREE_EPISODES = 50
"""New episode files that a first run writes without asking."""


class RecordOptions(msgspec.Struct, frozen=True):
    """The range that a run reads, and with what.

    Attributes:
        since: begin after this revision, or so long ago (`90d`, `12w`, `6m`, `1y`); None takes up
            where the last run ended.
        ref: the branch; None for the one that is checked out.
        sessions: transcripts that the caller names, beside those that the repository has.
        engine: the engine to use instead of the configuration's.
        from_root: on a first run, begin at the first commit and not where memory-ci was set up.
        base: the commit that the branch is at, if the caller knows it.
        problems: problems that the caller met before (`fetch_sessions`).
        accepted: content keys of candidates that a person accepted in the memory pull request.
    """

    since: str | None = None
    ref: str | None = None
    sessions: tuple[Path, ...] = ()
    engine: EngineName | None = None
    from_root: bool = False
    base: str | None = None
    problems: tuple[str, ...] = ()
    accepted: frozenset[str] = frozenset()

    @property
    def is_range_named(self) -> bool:
        """Whether the caller said where the range begins."""
        return self.since is not None or self.from_root


class NewReverts(NamedTuple):
    """Reverts that no earlier run has read.

    Attributes:
        proved: those that count.
        refused: those that only outsiders claim.
    """

    proved: tuple[Revert, ...]
    refused: tuple[Revert, ...]


def plan_record(
    workspace: Workspace,
    options: RecordOptions,
    today: date,
    progress: OnProgress,
    environ: Mapping[str, str] = NOTHING,
    *,
    model: Model | None = None,
) -> Plan:
    """Return the plan of a run over a range, made on the tree of the branch's tip.

    If an engine fails, the range ends where it failed, and the next run reads the rest.

    Args:
        workspace: the repository.
        options: the range.
        today: the date of the run.
        progress: called as merged changes are read.
        environ: says which engine and which forge can be reached.
        model: the model to use instead of the one that `environ` names.

    Raises:
        RepositoryError: unborn-branch, detached-head, unknown-revision, shallow-clone,
            unreachable-cursor.
        UsageError: for an engine that is named and not available.
    """
    ref, base = branch_tip(workspace, options.ref, options.base)
    run = _open_run(trusted_at(workspace.repo, base).at(base), options, today, environ, model)
    learner = _open_learner(run, options)
    tally = learner.tally
    problems = list(_find_gaps(run, options))
    tally.findings += workspace_at(workspace.repo, base).findings
    tally.findings += run.base.memory.findings
    folded = _fold_inbox(run, tally, problems)
    tally.findings += _find_uncommitted(run.base, ref)
    with closing(run.model):
        extracted = _extract(run, learner, progress)
        repeated = _learn_repeated(run, options, tally)
        extracted += repeated.added
        report("Comparing entries")
        same = _find_same_entries(run, tally, extracted)
    plan = _describe_range(run, options, tally, ref)
    if plan.until is not None:
        first_steps: dict[Step, tuple[Change, ...]] = {"fold": folded, "extract": extracted}
        plan = _add_steps(plan, run, learner, first_steps, Agreement(same, repeated.checked))
        if run.workspace.config.episodes.write:
            report("Noting episodes")
            plan = _add_episodes(plan, run, learner)
    problems += (*options.problems, *run.gatherer.problems, *tally.problems)
    return replace(plan, findings=tuple(tally.findings), problems=tuple(problems))


def _open_run(
    base: Snapshot,
    options: RecordOptions,
    today: date,
    environ: Mapping[str, str],
    model: Model | None,
) -> RecordRun:
    """Return the run, with where its range begins.

    That is where the caller says, else after the last run, else where memory-ci was set up, else
    the first commit.
    """
    workspace = base.workspace
    repo = workspace.repo
    cursor = find_cursor(repo, base.sha, build_memory_test(workspace))
    since = None
    if options.since is not None:
        since = find_range_start(repo, options.since, base.sha, today)
    elif cursor is not None:
        since = cursor.source
    elif not options.from_root and not is_shallow(repo):
        # In a shallow clone the oldest commit seems to add every file.
        since = find_addition(repo, base.sha, CONFIG_FILE)
    cache = repo.common_dir / "memory-ci"
    forge, _ = choose_forge(workspace.config.forge, environ, cache / "forge-cache")
    finder = SessionFinder(workspace, options.sessions, since, base.sha)
    draft = Draft(base)
    model = model or choose_run_model(workspace, base.sha, options.engine, today, environ)
    return RecordRun(
        draft=draft,
        since=since,
        cursor=cursor,
        gatherer=Gatherer(workspace, finder, forge),
        model=model,
        asker=model.asker(draft.entries, cache / "replies"),
        phases=current_phases(workspace, base.sha),
        today=today,
    )


def _open_learner(run: RecordRun, options: RecordOptions) -> Learner:
    """Return the learner of a run, with the entries written, rejected and forgotten before."""
    workspace, base = run.workspace, run.base
    past_ids: frozenset[str] = frozenset()
    if options.since is not None:
        past_ids = list_past_ids(workspace, base.sha)
    rejected_episodes = {
        path.rpartition("/")[2].removesuffix(".md") for path in list_rejected_paths(base)
    }
    deleted = DeletedEpisodes(base, run.since, rejected_episodes)
    writer = EpisodeWriter(run, load_episode_files(workspace, base.sha), deleted)
    rejected = past_ids | list_rejected(base)
    return Learner(run, writer, rejected, options.accepted, tombstones_at(base))


def _fold_inbox(run: RecordRun, tally: Tally, problems: list[str]) -> tuple[Change, ...]:
    """Plan how the notes of the inbox become entries in the files of their scopes.

    Notes that must not be served stay in the inbox, with a finding. If it cannot be found out who
    brought the notes, all of them wait, and that is a problem of the run.
    """
    draft = run.draft
    forgotten = tombstones_at(draft.base)
    unsafe: list[Finding] = []
    for note in draft.inbox:
        unsafe += [*find_unsafe(note), *find_forgotten(forgotten, note)]
    unsafe_paths = {finding.path for finding in unsafe}
    safe_notes = [note for note in draft.inbox if note.path not in unsafe_paths]
    try:
        strange_paths = list_strangers(run, {note.path for note in safe_notes})
    except (EngineError, RepositoryError) as error:
        tally.findings += unsafe
        reason = f"{error.message} [{error.slug}]"
        problems.append(f"who brought the notes of the inbox, which wait: {reason}")
        return ()
    notes: list[Located] = []
    claims: list[Finding] = []
    for note in safe_notes:
        if note.path in strange_paths:
            claims += find_note_claims(note, run.today, "notice")
            notes.append(strip_claims(note, run.today))
        else:
            notes.append(replace(note, entry=_prove_note(run, note.entry)))
    targets = {note.path: draft.path_of(note.scope) for note in notes}
    planned, findings = plan_fold(notes, draft.kept, targets, strange_paths)
    cited = cite_named(draft.base.workspace, [change.entry for change in planned], draft.base.sha)
    changes = [
        replace(change, entry=entry) if change.kind == "move" else change
        for change, entry in zip(planned, cited, strict=True)
    ]
    tally.findings += (*findings, *claims, *unsafe)
    return draft.take(changes)


def _prove_note(run: RecordRun, entry: Entry) -> Entry:
    """Return the entry of a note with its claims marked; all sessions prove what was repeated."""
    is_typed = run.gatherer.is_typed if entry.engine == REPETITION else None
    return prove(run.draft.base, entry, is_typed)


def _extract(run: RecordRun, learner: Learner, progress: OnProgress) -> tuple[Change, ...]:
    """Learn from merged changes, unmerged checkpoints and declined requests."""
    requests: Sequence[PullRequest] = ()
    if run.gatherer.has_forge:
        requests = learner.read_declined(_find_start_time(run))
    merged = tuple(learner.learn(progress))
    return (*merged, *learner.learn_unmerged(), *learner.learn_declined(requests))


class Agreement(NamedTuple):
    """The changes of entries that a model or a person has agreed to.

    Attributes:
        same: groups of ids whose entries say the same according to a model.
        checked: the updates of entries that get a check, which a person accepted.
    """

    same: tuple[frozenset[str], ...]
    checked: tuple[Change, ...]


class Repetitions(NamedTuple):
    """The changes of entries by repeated requests and failures, and by checks.

    Attributes:
        added: the additions.
        checked: the updates of entries that get a check.
    """

    added: tuple[Change, ...] = ()
    checked: tuple[Change, ...] = ()


def _learn_repeated(run: RecordRun, options: RecordOptions, tally: Tally) -> Repetitions:
    """Return the changes by repetitions and by checks; tally the candidates.

    A rule that gets a check is written once, with the check.
    """
    report("Looking for what people asked before")
    judged = judge_repeated(run, options.accepted, tally.problems)
    report("Trying checks on history")
    checks = judge_checks(run, judged, options.accepted, tally.problems)
    checked = {item.candidate.title for item in checks if item.verdict == "written"}
    judged = [item for item in judged if item.candidate.title not in checked]
    tally.judged += [*judged, *checks]
    added = run.draft.take([*plan_repeated(run, judged), *plan_new_rules(run, checks)])
    return Repetitions(added, tuple(plan_checks_of_entries(run, checks)))


def _find_start_time(run: RecordRun) -> datetime:
    """Return when the range begins; a commit dated in the future counts as of today."""
    repo = run.workspace.repo
    # A revision that does not exist is reported where the range is read.
    start = find_commit(repo, run.since) if run.since else None
    if not start:
        return datetime.min.replace(tzinfo=UTC)
    midnight = datetime.combine(run.today, time.min, UTC)
    return min(read_commit_time(repo, start), midnight)


def _find_same_entries(
    run: RecordRun, tally: Tally, extracted: Sequence[Change]
) -> tuple[frozenset[str], ...]:
    """Return groups of ids whose entries say the same according to the model."""
    if run.asker is None or tally.failure is not None:
        return ()
    try:
        return find_same(run.asker, run.draft.kept, {change.entry.id for change in extracted})
    except EngineError as error:
        tally.problems.append(f"which entries say the same: {error.message} [{error.slug}]")
        return ()


def _describe_range(run: RecordRun, options: RecordOptions, tally: Tally, ref: str) -> Plan:
    """Return the plan without its steps: the evidence read, and the judged candidates."""
    return Plan(
        schema_version=PLAN_VERSION,
        ref=ref,
        base=run.base.sha,
        since=run.since,
        until=run.base.sha if tally.failure is None else tally.covered,
        is_asked=options.is_range_named,
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


def _add_steps(
    plan: Plan,
    run: RecordRun,
    learner: Learner,
    first_steps: Mapping[Step, tuple[Change, ...]],
    agreement: Agreement,
) -> Plan:
    """Return the plan with its steps, now that its range is known."""
    tally = learner.tally
    reinforced, counted = _reinforce(run, tally)
    reverts = _find_new_reverts(run, learner)
    _amend_episodes(learner.writer, tally, reverts)

    steps: list[PlannedStep] = []
    for step, changes in {**first_steps, "reinforce": reinforced}.items():
        if changes:
            steps.append(PlannedStep(step=step, changes=changes))
    is_counted = run.workspace.config.extraction.repeated != "off"
    archive = run.gatherer.archive if is_counted else None
    upkeep = Upkeep(
        run.since,
        run.today,
        reverts.proved,
        same=agreement.same,
        checked=agreement.checked,
        archive=archive,
    )
    steps += plan_upkeep(upkeep, run.draft, STEPS)

    tally.findings += list_refused(reverts.refused, "notice")
    tally.findings += _find_unproved_claims(run, tally, reverts)
    return replace(plan, steps=tuple(steps), counted=counted)


def _reinforce(run: RecordRun, tally: Tally) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Plan the reinforcement of the entries that merged changes used.

    Returns:
        The changes of entries, and the tips of the merged changes whose uses they count, so that no
        later run counts them again.
    """
    changes = [(merged, use) for merged, use in tally.uses if use.ids]
    if not changes:
        return (), ()
    repo, is_memory = run.workspace.repo, build_memory_test(run.workspace)
    counted = list_counted_commits(repo, run.base.sha, run.since, is_memory)
    uses = []
    tips = []
    for merged, use in changes:
        if merged.tip.sha not in counted:
            uses.append(use)
            tips.append(merged.tip.sha)
    reinforced = run.draft.take(plan_reinforcement(uses, run.draft.by_id))
    return reinforced, tuple(tips) if reinforced else ()


def _add_episodes(plan: Plan, run: RecordRun, learner: Learner) -> Plan:
    """Return the plan with the files of its episodes."""
    tellings = map(tombstones_at(run.base).mask_all, learner.writer.tellings)
    files, problems = plan_files(run.base, tellings)
    learner.tally.problems += problems
    writer = learner.writer
    if writer.problem:
        learner.tally.problems.append(f"the episodes of earlier changes: {writer.problem}")
    fold_before = find_fold_day(run.base, files, run.today)
    unwritten = _describe_unwritten(plan, run, writer)
    return replace(plan, episodes=tuple(files), unwritten=unwritten, fold_before=fold_before)


def _describe_unwritten(plan: Plan, run: RecordRun, writer: EpisodeWriter) -> Unwritten:
    """Return the changes whose episode git gives and that no earlier run has read.

    The cache of derived episodes gets them, so that nobody reads them in history again.
    """
    if plan.until is None:
        return Unwritten()
    if not writer.derived:
        return writer.describe_unwritten(frozenset())
    repo = run.workspace.repo
    since = find_commit(repo, plan.since) if plan.since else None
    unwritten = writer.describe_unwritten(list_recorded_commits(repo, writer.recorded, since))
    if unwritten.changes:
        new_range = RecordedRange(since, plan.until, unwritten.stage)
        derived = tombstones_at(run.base).mask_all(writer.derived)
        cache_range(run.workspace, new_range, derived)
    return unwritten


def _amend_episodes(writer: EpisodeWriter, tally: Tally, reverts: NewReverts) -> None:
    """Note in the episodes which work was reverted."""
    commit_times = {commit.sha[:SHA_WIDTH]: commit.committed_at for commit in tally.history}
    change_tips: dict[str, str] = {}
    for merged, _ in tally.uses:
        for commit in merged.commits:
            change_tips[commit.sha[:SHA_WIDTH]] = merged.tip.sha
    writer.amend(reverts.proved, reverts.refused, commit_times, change_tips)


def _find_unproved_claims(run: RecordRun, tally: Tally, reverts: NewReverts) -> list[Finding]:
    """Return a notice if commits make claims about other work and no forge says who may."""
    has_reverts = any(revert.sha not in tally.strangers for revert in reverts.proved)
    if run.gatherer.has_forge or not (tally.has_uses or has_reverts):
        return []
    message = (
        "no forge was asked who may write: what commits say of other work (reverts, "
        "Memory-Retrieved, Memory-Used) counts for whoever extraction.trusted_authors names"
    )
    return [unproved(message, "notice")]


def _find_gaps(run: RecordRun, options: RecordOptions) -> Iterator[str]:
    """Yield problems with where the range begins.

    Either the branch was rewritten below the last run, so that the range begins earlier; or the
    range begins after the last run's end, so that no later run reads the changes between.
    """
    repo, cursor = run.workspace.repo, run.cursor
    if options.since is None:
        lost = find_lost_cursor(repo, run.base.sha, cursor, build_memory_test(run.workspace))
        if lost is not None:
            yield (
                f"where the last run ended: {lost.commit[:12]} says at {lost.source[:12]}, "
                "which its history does not hold, for the branch was rewritten. "
                "Older changes are read again; what kept its commit is not counted twice"
            )
    if cursor is None or run.since in (None, cursor.source):
        return
    if not is_ancestor(repo, cursor.source, run.since):
        return
    count = plan_range(repo, cursor.source, run.since).change_count
    yield (
        f"{plural(count, 'change')} between the end of the last run ({cursor.source[:10]}) "
        "and --since: later runs go on from here. Without --since they are read"
    )


def _find_uncommitted(snapshot: Snapshot, ref: str) -> Iterator[Finding]:
    """Yield findings for files of the work tree that a run does not read.

    These are notes of the inbox that are not committed, and a configuration that cannot be read,
    for which the committed one is used.
    """
    workspace = snapshot.workspace
    if workspace.repo.root is None or head_branch(workspace.repo) != ref:
        return
    try:
        workspace_here(workspace.repo)
    except UsageError as error:
        message = (
            "the configuration of the work tree cannot be read, and that of the commit holds: "
            f"{error.message}"
        )
        yield Finding(CONFIG_FILE, 1, error.slug, message, error.hint, "notice")
    committed_paths = {file.path for file in snapshot.memory.files}
    hint = "Commit it, and the next run folds it."
    for file in list_memory_files(workspace, None):
        if is_fragment(file.path) and file.path not in committed_paths:
            message = "waits in the work tree only"
            yield Finding(file.path, 1, "not-committed", message, hint, "notice")


def _find_new_reverts(run: RecordRun, learner: Learner) -> NewReverts:
    """Return the reverts that no earlier run has read.

    A person may have decided about an older one, and that decision stays.
    """
    repo, cursor = run.workspace.repo, run.cursor
    tally = learner.tally
    claims = Claims(repo, tally.strangers, _iter_episodes(learner))
    reverts = find_reverts(tally.history, claims.count)
    if cursor is None:
        return NewReverts(reverts, claims.refused)
    refused = claims.refused
    if reverts:
        # A revert of a revert restores what the first one took back, and an earlier run read that.
        new_shas = {revert.sha for revert in reverts}
        earlier = list_reverting_commits(repo, cursor.source)
        doubted: set[str] = set()
        for revert in reverts:
            if revert.sha in tally.strangers:
                doubted |= revert.undoes
        earlier_ranges = {
            commit.sha[:SHA_WIDTH]: (commit.parents[0], commit.sha)
            for commit in earlier
            if commit.sha[:SHA_WIDTH] in doubted
        }
        claims = Claims(repo, tally.strangers | earlier_ranges, _iter_episodes(learner))
        history = [*earlier, *tally.history]
        reverts = tuple(
            revert for revert in find_reverts(history, claims.count) if revert.sha in new_shas
        )

    def is_new(revert: Revert) -> bool:
        return not is_ancestor(repo, revert.sha, cursor.source)

    return NewReverts(tuple(filter(is_new, reverts)), tuple(filter(is_new, refused)))


def _iter_episodes(learner: Learner) -> Iterator[Episode]:
    """Yield the episodes of earlier runs and of this one; they are derived when one is needed."""
    yield from learner.writer.episodes.values()


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan as JSON.

    Raises:
        RepositoryError: write-failed.
    """
    write_file(path, format_plan(plan))


def format_plan(plan: Plan) -> bytes:
    """Return a plan as indented JSON, which `memory.apply.parse_plan` reads."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def fetch_sessions(
    workspace: Workspace, ref: str | None, environ: Mapping[str, str], base: str | None = None
) -> tuple[str, ...]:
    """Fetch the sessions that others captured, if the repository has a remote.

    Returns:
        Why that was not possible, for `RecordOptions.problems`; else nothing.

    Raises:
        RepositoryError: unborn-branch, detached-head.
    """
    _, tip = branch_tip(workspace, ref, base)
    config = trusted_at(workspace.repo, tip).config
    remote = config.publish.remote
    if not config.sessions.read or find_setting(workspace.repo, f"remote.{remote}.url") is None:
        return ()
    report("Fetching sessions")
    try:
        fetch(workspace.repo, remote, connect(remote, environ).env)
    except EngineError as error:
        return (f"sessions of {remote}: {error.message} [{error.slug}]",)
    return ()


def check_branch(workspace: Workspace) -> str | None:
    """Return the full name of the branch that is checked out, or None if it has no commit.

    Raises:
        UsageError: other-branch if it is not the default branch, where that is known.
    """
    tips = read_tips(workspace.repo, workspace_at(workspace.repo, "HEAD").config.publish.remote)
    if tips.default and tips.work:
        hint = f"Check out {tips.name!r}, or say that you mean this branch: --branch {tips.work}"
        message = (
            f"{tips.work!r} is checked out, and memory is recorded on {tips.name!r}, "
            "the default branch"
        )
        raise UsageError(message, slug="other-branch", hint=hint)
    return tips.branch or None


def check_range(workspace: Workspace, options: RecordOptions, base: str) -> None:
    """Refuse a first run that would read all history because nothing says where to begin.

    Raises:
        UsageError: nothing-committed.
    """
    repo = workspace.repo
    if CONFIG_FILE in tree_at(repo, base).files or is_shallow(repo):
        return
    if not _is_first_run(workspace, options, base):
        return
    if find_addition(repo, base, CONFIG_FILE) is None:
        message = f"{CONFIG_FILE} is not committed, so nothing says where memory begins"
        hint = f"Commit {CONFIG_FILE} first (`memory-ci init` writes it), or say --since REV."
        raise UsageError(message, slug="nothing-committed", hint=hint)


def count_unasked(workspace: Workspace, options: RecordOptions, plan: Plan) -> int:
    """Return how many new episodes a person has to agree to.

    These are the episodes of a first run whose range nobody named, if they are over the limit.
    """
    count = len(plan.episodes)
    if count <= FREE_EPISODES or not _is_first_run(workspace, options, plan.base):
        return 0
    return count


def _is_first_run(workspace: Workspace, options: RecordOptions, base: str) -> bool:
    """Return whether no run has recorded yet and the caller named no range."""
    if options.is_range_named:
        return False
    committed = workspace_at(workspace.repo, base)
    return find_cursor(workspace.repo, base, build_memory_test(committed)) is None
