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
    judge_checks,
    plan_checks_of_entries,
    plan_new_rules,
)
from memory_ci.commands.record.repeated_candidates import judge_repeated, plan_repeated
from memory_ci.commands.record.run_findings import find_gaps, find_uncommitted, find_unproved_claims
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.tally import Tally
from memory_ci.commands.record.upkeep import Upkeep, find_same, plan_upkeep
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import EngineError
from memory_ci.forge.selection import choose_forge
from memory_ci.gitrepo.history import find_addition
from memory_ci.gitrepo.log import read_commit_time
from memory_ci.gitrepo.network import connect
from memory_ci.gitrepo.past import find_range_start
from memory_ci.gitrepo.record_commits import (
    Cursor,
    find_cursor,
    list_counted_commits,
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
from memory_ci.memory.forgotten import tombstones_at
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

NOTHING: Mapping[str, str] = MappingProxyType({})


def plan_record(
    workspace: Workspace,
    options: RecordOptions,
    today: date,
    progress: OnProgress,
    environ: Mapping[str, str] = NOTHING,
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
    tally = learner.tally
    problems = list(find_gaps(run, options))
    tally.findings += workspace_at(workspace.repo, base_sha).findings
    tally.findings += base.memory.findings
    folded = fold_inbox(run, tally, problems)
    tally.findings += find_uncommitted(base, ref)
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
    """Return the run with its model, its sources, and the commit after which its range begins."""
    workspace = base.workspace
    cursor = find_cursor(workspace.repo, base.sha, build_memory_test(workspace))
    since = _choose_start(base, options, cursor, today)
    cache = workspace.repo.common_dir / "memory-ci"
    forge, _ = choose_forge(workspace.config.forge, environ, cache / "forge-cache")
    session_finder = SessionFinder(workspace, options.sessions, since, base.sha)
    draft = Draft(base)
    model = model or choose_run_model(workspace, base.sha, options.engine, today, environ)
    return RecordRun(
        draft=draft,
        since=since,
        cursor=cursor,
        gatherer=Gatherer(workspace, session_finder, forge),
        model=model,
        client=model.make_client(draft.entries, cache / "replies"),
        phases=read_current_phases(workspace, base.sha),
        today=today,
    )


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
    """Return the learner of a run, with the ids and hashes of entries that it must not write.

    Those are entries that people rejected, or had removed for good, and in a range that begins
    earlier than the last run's end all entries that history ever held.
    """
    workspace, base = run.workspace, run.base
    past_ids: frozenset[str] = frozenset()
    if options.since is not None:
        past_ids = list_past_ids(workspace, base.sha)
    # The file of an episode is named after its id.
    rejected_episodes = {
        PurePosixPath(path).name.removesuffix(".md") for path in list_rejected_paths(base)
    }
    deleted = DeletedEpisodes(base, run.since, rejected_episodes)
    writer = EpisodeWriter(run, load_episode_files(workspace, base.sha), deleted)
    rejected = past_ids | list_rejected_keys(base)
    return Learner(
        run, writer, past=rejected, accepted=options.accepted, forgotten=tombstones_at(base)
    )


def _extract(run: RecordRun, learner: Learner, progress: OnProgress) -> tuple[Change, ...]:
    """Return the entries learned from merged changes, unmerged work and declined pull requests."""
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
    """Return the entries for what people asked again and again, and the checks of entries.

    A check is a test of later changes, such as a glob of files that stay untouched. An entry that
    gets a check is written once, with the check. All candidates are added to the tally.
    """
    report("Looking for earlier requests of people")
    repeated = judge_repeated(run, options.accepted, tally.problems)
    report("Trying checks on history")
    checks = judge_checks(run, repeated, options.accepted, tally.problems)
    titles_with_check = {judged.candidate.title for judged in checks if judged.verdict == "written"}
    repeated = [item for item in repeated if item.candidate.title not in titles_with_check]
    tally.judged += [*repeated, *checks]
    added = run.draft.apply([*plan_repeated(run, repeated), *plan_new_rules(run, checks)])
    return Repetitions(added, tuple(plan_checks_of_entries(run, checks)))


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
    return min(read_commit_time(repo, start), midnight)


def _find_same_entries(
    run: RecordRun, tally: Tally, extracted: Sequence[Change]
) -> tuple[frozenset[str], ...]:
    """Return groups of entries, as ids, that say the same according to the model.

    Each group holds at least one of the extracted entries. Without a model, the result is empty.
    """
    if run.client is None or tally.failure is not None:
        return ()
    try:
        return find_same(run.client, run.draft.located, {change.entry.id for change in extracted})
    except EngineError as error:
        tally.problems.append(f"which entries say the same: {error.message} [{error.slug}]")
        return ()


def _describe_range(run: RecordRun, options: RecordOptions, tally: Tally, ref: str) -> Plan:
    """Return the plan with its range and counts, but without changes of memory.

    Args:
        run: the run.
        options: the range as the caller names it.
        tally: counts of the events read, and the proposed learnings.
        ref: the full name of the branch.
    """
    merged_changes = [merged for merged, _ in tally.uses if not is_own_run(merged)]
    commits = [commit for commit in tally.history if not is_own_commit(commit)]
    return Plan(
        schema_version=PLAN_VERSION,
        ref=ref,
        base=run.base.sha,
        since=run.since,
        until=run.base.sha if tally.failure is None else tally.covered,
        is_asked=options.is_range_named,
        engine=run.model.describe_use(run.client, tally.failure),
        counts=Counts(
            merged_changes=len(merged_changes),
            declined_changes=tally.declined,
            commits=len(commits),
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
    """Return the plan with the changes of entries, grouped by the commits that will hold them.

    Args:
        plan: the plan with its range.
        run: the run.
        learner: the learner, which has read the range.
        first_steps: the changes that are planned already.
        agreement: changes that a model or a person has agreed to.
    """
    tally = learner.tally
    reinforced, counted = _reinforce(run, tally)
    reverts = find_new_reverts(run, learner)
    amend_episodes(learner.writer, tally, reverts)

    steps: list[PlannedStep] = []
    for step, changes in {**first_steps, "reinforce": reinforced}.items():
        if changes:
            steps.append(PlannedStep(step=step, changes=changes))
    counts_repetitions = run.workspace.config.extraction.repeated != "off"
    upkeep = Upkeep(
        since=run.since,
        today=run.today,
        reverts=reverts.proved,
        same=agreement.same,
        checked=agreement.checked,
        archive=run.gatherer.archive if counts_repetitions else None,
    )
    steps += plan_upkeep(upkeep, run.draft, STEPS)

    tally.findings += list_refused(reverts.refused, "notice")
    tally.findings += find_unproved_claims(run, tally, reverts)
    return replace(plan, steps=tuple(steps), counted=counted)


def _reinforce(run: RecordRun, tally: Tally) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Raise the use counts of the entries that merged changes used.

    Returns:
        The changes of entries, and the tips of the merged changes whose uses they count, so that no
        later run counts them again.
    """
    changes_with_uses = [(merged, use) for merged, use in tally.uses if use.ids]
    if not changes_with_uses:
        return (), ()
    repo, is_memory = run.workspace.repo, build_memory_test(run.workspace)
    counted_tips = list_counted_commits(repo, run.base.sha, run.since, is_memory)
    uses = []
    new_tips = []
    for merged, use in changes_with_uses:
        if merged.tip.sha not in counted_tips:
            uses.append(use)
            new_tips.append(merged.tip.sha)
    reinforced = run.draft.apply(plan_reinforcement(uses, run.draft.by_id))
    return reinforced, tuple(new_tips) if reinforced else ()


def _add_episodes(plan: Plan, run: RecordRun, learner: Learner) -> Plan:
    """Return the plan with the files of its episodes, the records of merged changes."""
    writer = learner.writer
    records = map(tombstones_at(run.base).mask_all, writer.records)
    files, problems = plan_files(run.base, records)
    learner.tally.problems += problems
    if writer.problem:
        learner.tally.problems.append(f"the episodes of earlier changes: {writer.problem}")
    fold_before = find_fold_day(run.base, files, run.today)
    unwritten = _describe_unwritten(plan, run, writer)
    return replace(plan, episodes=tuple(files), unwritten=unwritten, fold_before=fold_before)


def _describe_unwritten(plan: Plan, run: RecordRun, writer: EpisodeWriter) -> Unwritten:
    """Count the changes of this run whose episode needs no file: git's history gives it.

    Their episodes are put into a cache in the git directory, so that later commands need not read
    them from history.
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
