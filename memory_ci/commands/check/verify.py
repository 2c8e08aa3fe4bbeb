"""Checks of the changes that a pull request makes to memory files (notes for coding agents).

Only commits are read, nothing is written, and no secret is needed.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec import structs
from msgspec.structs import replace

from memory_ci import progress
from memory_ci.commands.check.change_checks import JudgedChecks, judge_request
from memory_ci.commands.check.check import CheckReport, check_memory
from memory_ci.commands.check.range_findings import (
    find_entries_with_changed_code,
    find_machine_priorities,
)
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.log import FILE_OPTIONS, read_commit_time, read_log
from memory_ci.gitrepo.past import EPOCH, resolve_merge_base
from memory_ci.gitrepo.record_commits import COUNTED, SOURCE, STEP
from memory_ci.gitrepo.repo import Repository, read_tips, resolve_commit
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.lifecycle.episodes import apply_amendments
from memory_ci.lifecycle.reverts import find_reverts
from memory_ci.memory.claims import Claims, find_claimed_uses, find_note_claims, list_refused
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.index import build_index, verify_index
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.workspace import (
    Snapshot,
    Workspace,
    build_memory_test,
    readable_path,
    workspace_at,
)
from memory_ci.records.config import Config
from memory_ci.records.entry import Entry
from memory_ci.records.history import Commit
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.store.layout import is_fragment

RESURRECTED_HINT = "Take it out again; what holds after all gets a new id (`memory-ci add`)."
REACTIVATED_HINT = "Right if the code it is about is back; else set `status: retired` again."
LOST_HINT = (
    "Take the file from the base and merge again: `memory-ci resolve` merges memory entry by entry."
)
REMOVED_HINT = "Right if it is meant. `status: retired` does the same, and leaves a trace."
RUN_TRAILER_HINT = (
    "Reword the commit without the trailer: record runs alone write it, and read by it how far "
    "they came."
)
CLOCK_SLACK = timedelta(days=2)
"""An entry is dated by a clock that may be in another time zone than the committer's, or wrong."""

MENTIONS_REVERT = Regex(r"\bre(?:vert|apply)", re.IGNORECASE)
"""Every message that `find_reverts` recognises matches; otherwise no older commit is read."""

FORK_HINT = (
    "Put learnings into the inbox (`memory-ci add`): they are folded after review. "
    "Leave the rest as it was."
)


class ChangeEnds(NamedTuple):
    """The two ends of a change, both read by the configuration of `before`.

    Attributes:
        before: the commit where the change left its base branch.
        after: the newest commit of the change.
    """

    before: Snapshot
    after: Snapshot

    @property
    def workspace(self) -> Workspace:
        """The repository with the base's configuration."""
        return self.before.workspace

    @property
    def span(self) -> tuple[str, str]:
        """The commits of the change, as arguments of `git log`."""
        return self.after.sha, f"^{self.before.sha}"


def verify_change(
    workspace: Workspace, base: str | None, head: str, *, is_fork: bool = False, title: str = ""
) -> CheckReport:
    """Check the changes that the commits of `head` make to a base, and to its memory above all.

    The files of `head` are read by its own configuration, changes of entries by that of the base,
    so that a change cannot hide its effect. The checks of entries are those of the base's tip.

    Args:
        workspace: the repository.
        base: the revision to compare with, None for the default branch.
        head: the revision to check.
        is_fork: the author of the change may not write to the repository.
        title: the title of the request, "" if unknown.

    Raises:
        RepositoryError: unknown-revision, unrelated-histories, shallow-clone.
        UsageError: bad-config.
    """
    repo = workspace.repo
    tip = resolve_commit(repo, head)
    if base is None:
        base = _find_default_branch(repo)
    start = resolve_merge_base(repo, tip, base)
    proposed = workspace_at(repo, tip)
    trusted = workspace_at(repo, start)
    ends = ChangeEnds(trusted.at(start), trusted.at(tip))

    progress.report("Checking memory files")
    report = check_memory(proposed, tip)
    findings = list(report.findings)
    findings += _find_resurrected_entries(ends)
    findings += _find_reactivated_entries(ends)
    findings += _find_lost_entries(ends)
    if is_fork:
        findings += _find_forbidden_fork_changes(ends)
        findings += _find_fork_claims(ends)
    findings += find_entries_with_changed_code(ends.before, ends.after)
    findings += find_machine_priorities(ends.before, ends.after)
    findings += _find_removed_policy(trusted.config, proposed.config)
    findings += _verify_built_index(trusted, tip)
    progress.report("Judging the change by checks")
    judged = _judge_by_base(ends, base, is_fork=is_fork, title=title)
    return replace(report, findings=(*findings, *judged.findings), checks=judged.outcomes)


def _find_default_branch(repo: Repository) -> str:
    """Return the default branch. Raises RepositoryError (unknown-revision) if it is missing."""
    default_branch = read_tips(repo).default
    if not default_branch:
        message = "there is no main or master here, and no remote that names a default branch"
        hint = "Name what to compare with: --base REV."
        raise RepositoryError(message, slug="unknown-revision", hint=hint)
    return default_branch


def _find_removed_policy(trusted: Config, proposed: Config) -> Iterator[Finding]:
    """Find that a change stops extending the organisation's policy (key `extends`)."""
    if trusted.extends and not proposed.extends:
        policy = trusted.extends.partition(" ")[0]  # a digest may follow the name
        message = f"the policy {policy} is no longer extended"
        hint = "Let whoever owns the policy agree."
        yield Finding(CONFIG_FILE, 1, "policy-removed", message, hint)


def _judge_by_base(ends: ChangeEnds, base: str, *, is_fork: bool, title: str) -> JudgedChecks:
    """Judge a change by the checks that entries of its base branch define.

    The checks are those of the newest commit of the base. It may be newer than the commit where
    the change left the base, from which on the changed lines count.

    Args:
        ends: the two ends of the change.
        base: the base branch, or another revision.
        is_fork: the author of the change may not write to the repository.
        title: the title of the request, "" if unknown.
    """
    repo = ends.workspace.repo
    tip_sha = resolve_commit(repo, base)
    base_tip = ends.before
    if tip_sha != ends.before.sha:
        base_tip = workspace_at(repo, tip_sha).at(tip_sha)
    start_sha, head_sha = ends.before.sha, ends.after.sha
    return judge_request(base_tip, start_sha, head_sha, is_fork=is_fork, title=title)


def _verify_built_index(workspace: Workspace, commit: str) -> Sequence[Finding]:
    """Build the search index of a commit, and find where it differs from the memory files."""
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        path = Path(scratch, "index.db")
        build_index(workspace, commit, path)
        return tuple(verify_index(workspace, commit, path))


def _find_first_day(entries: Iterable[Entry]) -> date | None:
    """Return the first day on which one of some entries can have been committed.

    None if it is not known, because an entry does not say when it was created.
    """
    first_day = date.max
    for entry in entries:
        if entry.created_at is None:
            return None
        first_day = min(first_day, entry.created_at)
    if first_day <= EPOCH + CLOCK_SLACK:
        return None
    return first_day - CLOCK_SLACK


def _find_resurrected_entries(ends: ChangeEnds) -> Iterator[Finding]:
    """Find entries that a change adds again after they were removed from memory.

    This happens when a branch that still has an old entry is merged.
    """
    old_entries = ends.before.entries_by_id
    new_entries = ends.after.entries_by_id
    added_ids = [entry_id for entry_id in new_entries if entry_id not in old_entries]

    past_ids = frozenset[str]()
    if added_ids:
        since = _find_first_day(new_entries[entry_id].entry for entry_id in added_ids)
        past_ids = list_past_ids(ends.workspace, ends.before.sha, since)
    successors: dict[str, Entry] = {}
    for located in old_entries.values():
        successors |= dict.fromkeys(located.entry.supersedes, located.entry)

    for entry_id in added_ids:
        if entry_id in successors:
            successor_id = successors[entry_id].id
            message = f"{entry_id[:8]} was united with {successor_id[:8]}, and comes back"
        elif entry_id in past_ids:
            message = f"{entry_id[:8]} was removed, and comes back"
        else:
            continue
        located = new_entries[entry_id]
        yield Finding(located.path, located.line, "resurrected-entry", message, RESURRECTED_HINT)


def _find_reactivated_entries(ends: ChangeEnds) -> Iterator[Finding]:
    """Find entries whose status a change sets back to `active`, such as retired ones."""
    old_entries = ends.before.entries_by_id
    for entry_id, located in ends.after.entries_by_id.items():
        if entry_id not in old_entries:
            continue
        old_status = old_entries[entry_id].entry.status
        if old_status != "active" and located.entry.status == "active":
            message = f"{entry_id[:8]} was {old_status}, and is active again"
            yield Finding(
                located.path,
                located.line,
                "resurrected-entry",
                message,
                REACTIVATED_HINT,
                "warning",
            )


def _find_lost_entries(ends: ChangeEnds) -> Iterator[Finding]:
    """Find entries that are missing after a change.

    A missing entry is an error if no commit removed it: then a merge has dropped it. It is a
    warning if a commit of a person removed it. An entry may be missing without a finding if
    another entry supersedes it, if a run of memory-ci removed it, or if it was retired when it was
    removed.
    """
    old_entries = ends.before.entries_by_id
    new_entries = ends.after.entries_by_id
    superseded_ids: set[str] = set()
    for located in new_entries.values():
        superseded_ids.update(located.entry.supersedes)
    missing_ids = old_entries.keys() - new_entries.keys() - superseded_ids
    if not missing_ids:
        return

    removed = _list_removed_ids(ends)
    for entry_id in sorted(missing_ids - removed.rightly):
        located = old_entries[entry_id]
        name = f"{entry_id[:8]} ({located.entry.title!r})"
        if entry_id in removed.by_commit:
            message = f"{name} is taken out"
            yield Finding(located.path, 1, "removed-entry", message, REMOVED_HINT, "warning")
        else:
            message = f"{name} was dropped by a merge: no commit takes it out"
            yield Finding(located.path, 1, "lost-entry", message, LOST_HINT)


class RemovedIds(NamedTuple):
    """The ids of entries that commits of a change removed.

    Attributes:
        by_commit: all of them.
        rightly: those that a run of memory-ci removed, or that were retired before.
    """

    by_commit: set[str]
    rightly: set[str]


def _list_removed_ids(ends: ChangeEnds) -> RemovedIds:
    """Return the ids of entries that the commits of a change removed, and whether they might.

    A removal is right if a run of memory-ci made the commit, or if the entry was retired before.
    Merge commits are not read.
    """
    workspace = ends.workspace
    is_memory = build_memory_test(workspace)
    removed = RemovedIds(set(), set())
    arguments = (
        *FILE_OPTIONS,
        "--no-merges",
        "--no-renames",
        "--end-of-options",
        *ends.span,
        "--",
    )
    for commit, _ in read_log(workspace.repo, *arguments):
        are_memory = [is_memory(file.path) for file in commit.files]
        if not any(are_memory) or not commit.parents:
            continue
        old_entries = workspace.at(commit.parents[0]).entries_by_id
        removed_ids = old_entries.keys() - workspace.at(commit.sha).entries_by_id.keys()
        # The commit of a run has our trailer, and changes nothing but memory.
        is_run = bool(find_trailers(commit.message, (STEP,))) and all(are_memory)
        removed.by_commit.update(removed_ids)
        for entry_id in removed_ids:
            was_retired = old_entries[entry_id].entry.status == "retired"
            if is_run or was_retired:
                removed.rightly.add(entry_id)
    return removed


def _find_forbidden_fork_changes(ends: ChangeEnds) -> Iterator[Finding]:
    """Find changes of memory files that the author of a fork may not make.

    Anyone may open a request from a fork, so it may only add files to the inbox, where new entries
    wait for review. Paths are compared in lower case: some file systems ignore the case.
    """
    repo = ends.workspace.repo
    is_memory = build_memory_test(Workspace(repo, _casefold_scopes(ends.workspace.config)))
    old_files = set(ends.before.tree.files.values())
    new_files = set(ends.after.tree.files.values())
    changed_paths = {readable_path(file) for file in old_files ^ new_files}

    for path in sorted(changed_paths):
        folded_path = path.casefold()
        is_forbidden_memory = is_memory(folded_path) and not is_fragment(path)
        if folded_path == CONFIG_FILE or is_forbidden_memory:
            yield Finding(path, 1, "fork-memory", "a fork may not change this file", FORK_HINT)

    day = read_commit_time(repo, ends.after.sha).date()
    for located in ends.after.memory.located:
        if located.path in changed_paths and is_fragment(located.path):
            yield from find_note_claims(located, day, "error")


def _casefold_scopes(config: Config) -> Config:
    """Return a configuration with its patterns of memory files in lower case.

    On many disks `memory.md` is the file `MEMORY.md`.
    """
    folded_patterns: dict[str, tuple[str, ...]] = {}
    for scope, patterns in structs.asdict(config.scopes).items():
        folded_patterns[scope] = tuple(pattern.casefold() for pattern in patterns)
    return replace(config, scopes=replace(config.scopes, **folded_patterns))


def _find_fork_claims(ends: ChangeEnds) -> Iterator[Finding]:
    """Find statements in a fork's commit messages that a run of memory-ci would not believe.

    These are trailers that only a run may write, uses of entries, and reverts without a proof.
    """
    repo = ends.workspace.repo
    commits = [commit for commit, _ in read_log(repo, "--end-of-options", *ends.span, "--")]
    for commit in commits:
        trailers = find_trailers(commit.message, (STEP, SOURCE, COUNTED))
        keys = dict.fromkeys(key for key, _ in trailers)
        if keys:
            trailer_keys = " and ".join(keys)
            message = (
                f"the commit {commit.sha[:12]} has {trailer_keys}, which only record runs may write"
            )
            yield Finding(".", 1, "own-trailer-from-fork", message, RUN_TRAILER_HINT)
    for commit in commits:
        yield from find_claimed_uses(commit, "warning")
    if any(MENTIONS_REVERT.search(commit.message) for commit in commits):
        yield from _find_refused_reverts(ends, commits)


def _find_refused_reverts(ends: ChangeEnds, commits: Iterable[Commit]) -> Iterator[Finding]:
    """Find reverts that messages of a fork's commits claim, and that their code does not prove.

    All of history is searched for reverts, oldest commit first, since a revert of a revert has to
    know the first one. Each claim is passed to `claims`, which compares the claims of the fork's
    commits with the code and collects those that it refuses.
    """
    workspace = ends.workspace
    change_tips = (ends.before.sha, ends.after.sha)
    tips_by_fork_commit = {commit.sha[:SHA_WIDTH]: change_tips for commit in commits}
    episodes = apply_amendments(load_episodes(workspace, ends.before.sha).records)
    claims = Claims(workspace.repo, tips_by_fork_commit, episodes)

    arguments = ("--topo-order", "--reverse", "--end-of-options", ends.after.sha, "--")
    history = read_log(workspace.repo, *arguments)
    find_reverts((commit for commit, _ in history), accept_names=claims.accept_names)
    yield from list_refused(claims.refused, "warning")
