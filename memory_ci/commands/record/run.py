"""Planning of a record run, which reads merged changes and plans the entries learned from them.

The plan lists all changes of memory: entries, one learning each, and episodes, the records of
merged changes. Planning writes nothing but caches; `memory.apply` commits a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.commands.record.episode_writer import EpisodeWriter
from memory_ci.commands.record.gatherer import Gatherer, RecordRun
from memory_ci.commands.record.inbox import fold_inbox
from memory_ci.commands.record.learner import Learner, OnProgress
from memory_ci.commands.record.new_reverts import amend_episodes, find_new_reverts
from memory_ci.commands.record.proposed_checks import (
    MAX_AGE,
    MAX_CHANGES,
    judge_checks,
    plan_checks_of_entries,
    plan_new_rules,
)
from memory_ci.commands.record.repeated_candidates import judge_repeated, plan_repeated
from memory_ci.commands.record.run_findings import find_gaps, find_uncommitted, find_unproved_claims
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.run_results import RunResults
from memory_ci.commands.record.upkeep import Upkeep, find_same, plan_upkeep
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.forge.selection import choose_forge
from memory_ci.gitrepo.history import (
    HistoryRange,
    find_addition,
    iter_merged_changes,
    read_time_once,
)
from memory_ci.gitrepo.network import connect
from memory_ci.gitrepo.past import find_range_start, plan_newest
from memory_ci.gitrepo.record_commits import (
    Cursor,
    list_counted_commits,
    search_cursors,
)
from memory_ci.gitrepo.repo import (
    find_commit,
    find_setting,
    is_shallow,
)
from memory_ci.gitrepo.sessionrefs import fetch
from memory_ci.lifecycle.reinforcement import plan_reinforcement
from memory_ci.memory.claims import list_refused
from memory_ci.memory.draft import Draft
from memory_ci.memory.eligible import is_own_commit, is_own_run
from memory_ci.memory.episode_files import DeletedEpisodes, find_fold_day, plan_files
from memory_ci.memory.episodes import load_episode_files
from memory_ci.memory.forgotten import read_tombstones_at
from memory_ci.memory.git_episodes import cache_range
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.maintainer_decisions import list_rejected_keys, list_rejected_paths
from memory_ci.memory.model import Model, choose_run_model, trust_config_at
from memory_ci.memory.recorded_ranges import list_recorded_commits
from memory_ci.memory.stage import read_current_phases
from memory_ci.memory.workspace import (
    Snapshot,
    Workspace,
    build_memory_test,
    find_branch_tip,
    workspace_at,
)
from memory_ci.progress import report
from memory_ci.records.history import PullRequest
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
from memory_ci.sessions.session_join import SessionFinder
from memory_ci.store.files import write_file
from memory_ci.store.ranges import RecordedRange

MAX_COMMITS_READ_FIRST = 1_000
"""Number of commits of the last year that are read at the start; they take about 3 MB."""

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def plan_record(
    workspace: Workspace,
    options: RecordOptions,
    today: date,
    progress: OnProgress,
    environ: Mapping[str, str] = NO_VARIABLES,
    *,
    model: Model | None = None,
) -> Plan:
    """Return the plan of a record run over a range of merged changes of a branch.

    It is made for the files at the tip of the branch, whatever the work tree holds. If the model
    fails, the range ends where it failed, and the next run reads the rest.

    Args:
        workspace: the repository.
        options: the range.
        today: the date of the run.
        progress: called as merged changes are read.
        environ: environment variables, which say which model and which forge can be reached.
        model: the model to use instead of the model that `environ` names.

    Raises:
        RepositoryError: unborn-branch, detached-head, unknown-revision, shallow-clone,
            unreachable-cursor.
        UsageError: for an engine that is named and not available.
    """
    ref, base_sha = find_branch_tip(workspace, options.ref, options.base)
    base = trust_config_at(workspace.repo, base_sha).at(base_sha)
    run = _open_run(base, options, today, environ, model)
    learner = _open_learner(run, options)
    # Every step below adds to the results, and to the draft of memory in `run`.
    results = learner.results
    problems = list(find_gaps(run, options))
    results.findings += workspace_at(workspace.repo, base_sha).findings
    results.findings += base.memory.findings
    inbox_moves = fold_inbox(run, results, problems)
    results.findings += find_uncommitted(base, ref)
    with closing(run.model):
        additions = _extract_entries(run, learner, progress)
        repetitions = _learn_repeated(run, options, results)
        additions += repetitions.additions
        report("Comparing entries")
        same_entries = _find_same_entries(run, results, additions)
    plan = _describe_range(run, options, results, ref)
    if plan.until is not None:
        planned_changes = PlannedChanges(
            inbox_moves, additions, repetitions.check_updates, same_entries
        )
        plan = _add_steps(plan, run, learner, planned_changes)
        if run.workspace.config.episodes.write:
            report("Noting episodes")
            plan = _add_episodes(plan, run, learner)
    problems += (*options.problems, *run.gatherer.problems, *results.problems)
    return replace(plan, findings=tuple(results.findings), problems=tuple(problems))


def _open_run(
    base: Snapshot,
    options: RecordOptions,
    today: date,
    environ: Mapping[str, str],
    model: Model | None,
) -> RecordRun:
    """Return the state that the parts of the run share; nothing of the range is read yet.

    Args:
        base: the commit that the run reads.
        options: the range as the caller names it.
        today: the date of the run.
        environ: environment variables, which say which model and which forge can be reached.
        model: the model to use instead of the model that `environ` names.
    """
    workspace = base.workspace
    newest = _read_newest(base, today)
    search = search_cursors(workspace.repo, base.sha, build_memory_test(workspace))
    since = _choose_start(base, options, search.cursor, today)
    cache = workspace.repo.common_dir / "memory-ci"
    forge, _ = choose_forge(workspace.config.forge, environ, cache / "forge-cache")
    session_finder = SessionFinder(workspace, options.sessions, since, base.sha)
    draft = Draft(base)
    model = model or choose_run_model(workspace, base.sha, options.engine, today, environ)
    return RecordRun(
        draft=draft,
        since=since,
        cursor=search.cursor,
        lost_cursor=search.lost,
        gatherer=Gatherer(workspace, session_finder, forge),
        model=model,
        client=model.make_client(draft.entries, cache / "replies"),
        phases=read_current_phases(workspace, base.sha),
        today=today,
        newest=newest,
    )


def _read_newest(base: Snapshot, today: date) -> HistoryRange | None:
    """Read the commits of the last year, and return their range; None if the run needs none.

    Checks are tried on these commits at the end of the run. If they are few, they are read now:
    the repository keeps them, so that git need not search them for earlier runs and for transcripts
    of sessions, and need not read the new ones again for the run to learn from.

    Args:
        base: the commit that the run reads.
        today: the date of the run.
    """
    repo = base.workspace.repo
    if base.workspace.config.extraction.repeated == "off":
        return None
    try:
        history = plan_newest(repo, base.sha, MAX_AGE, today, MAX_CHANGES)
        if sum(map(len, history.groups)) <= MAX_COMMITS_READ_FIRST:
            for _ in iter_merged_changes(repo, history):
                pass
    except RepositoryError:
        return None  # The error is raised where the checks are tried.
    return history


def _choose_start(
    base: Snapshot, options: RecordOptions, cursor: Cursor | None, today: date
) -> str | None:
    """Return the commit after which the range begins; None for the first commit of history.

    The range begins where the caller says, else after the last run, else where memory-ci was set
    up, else at the first commit.

    Args:
        base: the commit that the run reads.
        options: the range as the caller names it.
        cursor: where the last run ended, None on a first run.
        today: the date of the run.
    """
    repo = base.workspace.repo
    if options.since is not None:
        return find_range_start(repo, options.since, base.sha, today)
    if cursor is not None:
        return cursor.source
    # In a shallow clone the oldest commit seems to add every file.
    if options.from_root or is_shallow(repo):
        return None
    return find_addition(repo, base.sha, CONFIG_FILE)


def _open_learner(run: RecordRun, options: RecordOptions) -> Learner:
    """Return the learner of a run, with the entries and episodes that it must not write.

    It must not write entries that people rejected, nor text that was removed for good (tombstones
    hold its hashes). If the caller names where the range begins, it may begin before the end of the
    last run. Then the learner must not write any entry that history ever held.
    """
    workspace, base = run.workspace, run.base
    # The file of an episode is named after its id.
    rejected_episode_ids = {
        PurePosixPath(path).name.removesuffix(".md") for path in list_rejected_paths(base)
    }
    deleted = DeletedEpisodes(base, run.since, rejected_episode_ids)
    writer = EpisodeWriter(run, load_episode_files(workspace, base.sha), deleted)

    past_keys = list_rejected_keys(base)
    if options.since is not None:
        past_keys |= list_past_ids(workspace, base.sha)
    return Learner(
        run,
        writer,
        past_keys=past_keys,
        accepted_keys=options.accepted_keys,
        tombstones=read_tombstones_at(base),
    )


def _extract_entries(run: RecordRun, learner: Learner, progress: OnProgress) -> tuple[Change, ...]:
    """Return the entries learned from merged changes, unmerged work and declined pull requests."""
    requests: Sequence[PullRequest] = ()
    if run.gatherer.has_forge:
        requests = learner.read_declined(_find_start_time(run))
    from_merged = tuple(learner.learn(progress))
    return (*from_merged, *learner.learn_unmerged(), *learner.learn_declined(requests))


class PlannedChanges(NamedTuple):
    """The changes of entries that are planned before the uses and reverts of the range are counted.

    Attributes:
        inbox_moves: the moves of notes from the inbox to memory files.
        additions: the new entries.
        check_updates: the updates of entries that get a check, which a person accepted.
        same_entries: groups of ids whose entries say the same according to a model.
    """

    inbox_moves: tuple[Change, ...]
    additions: tuple[Change, ...]
    check_updates: tuple[Change, ...]
    same_entries: tuple[frozenset[str], ...]


class Repetitions(NamedTuple):
    """The changes of entries by repeated requests and failures, and by checks.

    Attributes:
        additions: the new entries.
        check_updates: the updates of existing entries that get a check.
    """

    additions: tuple[Change, ...] = ()
    check_updates: tuple[Change, ...] = ()


def _learn_repeated(run: RecordRun, options: RecordOptions, results: RunResults) -> Repetitions:
    """Return the entries for what people asked again and again, and the checks of entries.

    A check is a test of later changes, such as a glob of files that stay untouched. An entry that
    gets a check is written once, with the check. All candidates are added to the results, and the
    new entries to the draft of memory.
    """
    report("Looking for earlier requests of people")
    judged_requests = judge_repeated(run, options.accepted_keys, results.problems)
    report("Trying checks on history")
    judged_checks = judge_checks(run, judged_requests, options.accepted_keys, results.problems)
    titles_with_check = {
        judged.candidate.title for judged in judged_checks if judged.verdict == "written"
    }
    without_check = [
        judged for judged in judged_requests if judged.candidate.title not in titles_with_check
    ]
    results.judged_candidates += [*without_check, *judged_checks]
    additions = run.draft.apply(
        [*plan_repeated(run, without_check), *plan_new_rules(run, judged_checks)]
    )
    return Repetitions(additions, tuple(plan_checks_of_entries(run, judged_checks)))


def _find_start_time(run: RecordRun) -> datetime:
    """Return the time of the commit after which the range begins.

    A commit dated in the future counts as of today. A range without a begin starts at year 1.
    """
    repo = run.workspace.repo
    # A revision that does not exist is reported where the range is read.
    start = find_commit(repo, run.since) if run.since else None
    if not start:
        return datetime.min.replace(tzinfo=UTC)
    midnight = datetime.combine(run.today, time.min, UTC)
    return min(read_time_once(repo, start), midnight)


def _find_same_entries(
    run: RecordRun, results: RunResults, additions: Sequence[Change]
) -> tuple[frozenset[str], ...]:
    """Return groups of entries, as ids, that say the same according to the model.

    Each group holds at least one of the extracted entries. Without a model, the result is empty.
    """
    if run.client is None or results.model_failure is not None:
        return ()
    try:
        return find_same(run.client, run.draft.located, {change.entry.id for change in additions})
    except EngineError as error:
        results.problems.append(f"which entries say the same: {error.message} [{error.slug}]")
        return ()


def _describe_range(run: RecordRun, options: RecordOptions, results: RunResults, ref: str) -> Plan:
    """Return the plan with its range and counts, but without changes of memory.

    The range ends at the base commit. If the model failed, it ends at the last change that was read
    before.

    Args:
        run: the run.
        options: the range as the caller names it.
        results: what the run has read and judged.
        ref: the full name of the branch.
    """
    until: str | None = run.base.sha
    if results.model_failure is not None:
        until = results.last_change_sha
    # Commits and changes by which memory-ci itself wrote memory are not counted.
    merged_changes = [merged for merged, _ in results.counted_uses if not is_own_run(merged)]
    commits = [commit for commit in results.range_commits if not is_own_commit(commit)]
    return Plan(
        schema_version=PLAN_VERSION,
        ref=ref,
        base=run.base.sha,
        since=run.since,
        until=until,
        is_asked=options.is_range_named,
        engine=run.model.describe_use(run.client, results.model_failure),
        counts=Counts(
            merged_changes=len(merged_changes),
            declined_changes=results.declined_count,
            commits=len(commits),
            redactions=results.redaction_count,
            left_out=dict(sorted(results.left_out_events.items())),
        ),
        judged=tuple(results.judged_candidates),
        joins=tuple(results.joined_sources),
        windows=tuple(results.evidence_gaps),
        dropped=dict(sorted(results.unread_learnings.items())),
    )


def _add_steps(
    plan: Plan,
    run: RecordRun,
    learner: Learner,
    planned_changes: PlannedChanges,
) -> Plan:
    """Return the plan with the changes of entries, grouped by the commits that will hold them.

    Each group is planned on the draft of memory that the groups before it leave, so their order
    matters. The episodes of reverted work are amended, and findings on the reverts are added to the
    results.

    Args:
        plan: the plan with its range.
        run: the run.
        learner: the learner, which has read the range.
        planned_changes: the changes that are in the draft of memory already, and those to plan in
            upkeep.
    """
    results = learner.results
    reinforced = _reinforce_entries(run, results)
    reverts = find_new_reverts(run, learner)
    amend_episodes(learner.writer, results, reverts)

    steps: list[PlannedStep] = []
    changes_by_step: dict[Step, tuple[Change, ...]] = {
        "fold": planned_changes.inbox_moves,
        "extract": planned_changes.additions,
        "reinforce": reinforced.changes,
    }
    for step, changes in changes_by_step.items():
        if changes:
            steps.append(PlannedStep(step=step, changes=changes))
    counts_repetitions = run.workspace.config.extraction.repeated != "off"
    upkeep = Upkeep(
        since=run.since,
        today=run.today,
        reverts=reverts.proved,
        same_entries=planned_changes.same_entries,
        check_updates=planned_changes.check_updates,
        archive=run.gatherer.archive if counts_repetitions else None,
    )
    steps += plan_upkeep(upkeep, run.draft, STEPS)

    results.findings += list_refused(reverts.refused, "notice")
    results.findings += find_unproved_claims(run, results, reverts)
    return replace(plan, steps=tuple(steps), counted=reinforced.counted_tips)


class Reinforcement(NamedTuple):
    """The changes of entries whose use counts go up.

    Attributes:
        changes: the updates of entries.
        counted_tips: the tips of the merged changes whose uses are counted. The plan names them, so
            that no later run counts them again.
    """

    changes: tuple[Change, ...] = ()
    counted_tips: tuple[str, ...] = ()


def _reinforce_entries(run: RecordRun, results: RunResults) -> Reinforcement:
    """Raise the use counts of the entries that merged changes used, in the draft of memory."""
    changes_with_uses = [(merged, use) for merged, use in results.counted_uses if use.ids]
    if not changes_with_uses:
        return Reinforcement()
    repo, is_memory = run.workspace.repo, build_memory_test(run.workspace)
    counted_tips = list_counted_commits(repo, run.base.sha, run.since, is_memory)
    new_uses = []
    new_tips = []
    for merged, use in changes_with_uses:
        if merged.tip.sha not in counted_tips:
            new_uses.append(use)
            new_tips.append(merged.tip.sha)
    changes = run.draft.apply(plan_reinforcement(new_uses, run.draft.by_id))
    if not changes:
        return Reinforcement()
    return Reinforcement(changes, tuple(new_tips))


def _add_episodes(plan: Plan, run: RecordRun, learner: Learner) -> Plan:
    """Return the plan with the files of its episodes, the records of merged changes.

    Text that was removed from memory for good (tombstones hold its hashes) is masked. The plan also
    counts the episodes that need no file, and names the day before which files of single episodes
    are combined into one file (folded).
    """
    writer = learner.writer
    records = map(read_tombstones_at(run.base).mask_all, writer.records)
    files, problems = plan_files(run.base, records)
    learner.results.problems += problems
    if writer.problem:
        learner.results.problems.append(f"the episodes of earlier changes: {writer.problem}")
    fold_before = find_fold_day(run.base, files, run.today)
    unwritten = _count_and_cache_unwritten(plan, run, writer)
    return replace(plan, episodes=tuple(files), unwritten=unwritten, fold_before=fold_before)


def _count_and_cache_unwritten(plan: Plan, run: RecordRun, writer: EpisodeWriter) -> Unwritten:
    """Count the changes of this run whose episode needs no file, and cache their episodes.

    Such an episode holds no more than git's history, from which it is derived wherever it is read.
    A cache in the git directory spares later commands that work.
    """
    if plan.until is None:
        return Unwritten()
    if not writer.derived_episodes:
        return writer.describe_unwritten(frozenset())
    repo = run.workspace.repo
    since = find_commit(repo, plan.since) if plan.since else None
    earlier_commits = list_recorded_commits(repo, writer.recorded_ranges, since)
    unwritten = writer.describe_unwritten(earlier_commits)
    if unwritten.changes:
        new_range = RecordedRange(since, plan.until, unwritten.stage)
        masked_episodes = read_tombstones_at(run.base).mask_all(writer.derived_episodes)
        cache_range(run.workspace, new_range, masked_episodes)
    return unwritten


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
    """Fetch the agent sessions that others captured, if the repository has a remote.

    Args:
        workspace: the repository.
        ref: the branch; None for the checked-out branch.
        environ: environment variables, for the credentials of the remote.
        base: the commit that the branch is at, if the caller knows it.

    Returns:
        Why that was not possible, for `RecordOptions.problems`; else nothing.

    Raises:
        RepositoryError: unborn-branch, detached-head.
    """
    _, tip = find_branch_tip(workspace, ref, base)
    config = trust_config_at(workspace.repo, tip).config
    remote = config.publish.remote
    if not config.sessions.read or find_setting(workspace.repo, f"remote.{remote}.url") is None:
        return ()
    report("Fetching sessions")
    try:
        fetch(workspace.repo, remote, connect(remote, environ).env)
    except EngineError as error:
        return (f"sessions of {remote}: {error.message} [{error.slug}]",)
    return ()
