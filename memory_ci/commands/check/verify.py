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
from memory_ci.commands.check.range_findings import find_machine_priorities, find_touched
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.log import FILE_OPTIONS, read_commit_time, read_log
from memory_ci.gitrepo.past import EPOCH, resolve_merge_base
from memory_ci.gitrepo.record_commits import COUNTED, SOURCE, STEP
from memory_ci.gitrepo.repo import Repository, read_tips, resolve_commit
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.lifecycle.episodes import combine
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

BACK_HINT = "Take it out again; what holds after all gets a new id (`memory-ci add`)."
REVIVED_HINT = "Right if the code it is about is back; else set `status: retired` again."
LOST_HINT = (
    "Take the file from the base and merge again: `memory-ci resolve` merges memory entry by entry."
)
REMOVED_HINT = "Right if it is meant. `status: retired` does the same, and leaves a trace."
OWN_HINT = (
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


class Sides(NamedTuple):
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
    sides = Sides(trusted.at(start), trusted.at(tip))

    progress.report("Checking memory files")
    report = check_memory(proposed, tip)
    findings = list(report.findings)
    findings += _find_resurrected(sides)
    findings += _find_reactivated(sides)
    findings += _find_lost(sides)
    if is_fork:
        findings += _find_foreign(sides)
        findings += _find_claims(sides)
    findings += find_touched(sides.before, sides.after)
    findings += find_machine_priorities(sides.before, sides.after)
    findings += _find_removed_policy(trusted.config, proposed.config)
    findings += _verify_new_index(trusted, tip)
    progress.report("Judging the change by checks")
    judged = _judge_by_base(sides, base, is_fork=is_fork, title=title)
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


def _judge_by_base(sides: Sides, base: str, *, is_fork: bool, title: str) -> JudgedChecks:
    """Judge a change by the checks that entries of its base branch define.

    The checks are those of the newest commit of the base, so a branch that left it long ago is
    judged by all of them.
    """
    repo = sides.workspace.repo
    base_sha = resolve_commit(repo, base)
    base_tip = sides.before
    if base_sha != base_tip.sha:
        base_tip = workspace_at(repo, base_sha).at(base_sha)
    return judge_request(base_tip, sides.before.sha, sides.after.sha, is_fork=is_fork, title=title)


def _verify_new_index(workspace: Workspace, commit: str) -> Sequence[Finding]:
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


def _find_resurrected(sides: Sides) -> Iterator[Finding]:
    """Find entries that a change adds again after they were removed from memory.

    This happens when a branch that still has an old entry is merged.
    """
    old_places = sides.before.entries_by_id
    new_places = sides.after.entries_by_id
    added_ids = [entry_id for entry_id in new_places if entry_id not in old_places]

    past_ids = frozenset[str]()
    if added_ids:
        since = _find_first_day(new_places[entry_id].entry for entry_id in added_ids)
        past_ids = list_past_ids(sides.workspace, sides.before.sha, since)
    successors: dict[str, Entry] = {}
    for place in old_places.values():
        successors |= dict.fromkeys(place.entry.supersedes, place.entry)

    for entry_id in added_ids:
        if entry_id in successors:
            successor_id = successors[entry_id].id
            message = f"{entry_id[:8]} was united with {successor_id[:8]}, and comes back"
        elif entry_id in past_ids:
            message = f"{entry_id[:8]} was removed, and comes back"
        else:
            continue
        place = new_places[entry_id]
        yield Finding(place.path, place.line, "resurrected-entry", message, BACK_HINT)


def _find_reactivated(sides: Sides) -> Iterator[Finding]:
    """Find entries whose status a change sets back to `active`, such as retired ones."""
    old_places = sides.before.entries_by_id
    for entry_id, place in sides.after.entries_by_id.items():
        if entry_id not in old_places:
            continue
        old_status = old_places[entry_id].entry.status
        if old_status != "active" and place.entry.status == "active":
            message = f"{entry_id[:8]} was {old_status}, and is active again"
            yield Finding(
                place.path, place.line, "resurrected-entry", message, REVIVED_HINT, "warning"
            )


def _find_lost(sides: Sides) -> Iterator[Finding]:
    """Find entries that are missing after a change.

    It is an error if only a merge can have dropped an entry, and a warning if a person removed it.
    Three kinds of missing entries are in order: those that a run of memory-ci removed, those that
    another entry supersedes, and those that were retired when a commit removed them.
    """
    old_places = sides.before.entries_by_id
    new_places = sides.after.entries_by_id
    superseded_ids: set[str] = set()
    for place in new_places.values():
        superseded_ids.update(place.entry.supersedes)
    missing_ids = old_places.keys() - new_places.keys() - superseded_ids
    if not missing_ids:
        return

    removed = _list_removed(sides)
    for entry_id in sorted(missing_ids - removed.in_order):
        place = old_places[entry_id]
        name = f"{entry_id[:8]} ({place.entry.title!r})"
        if entry_id in removed.all:
            message = f"{name} is taken out"
            yield Finding(place.path, 1, "removed-entry", message, REMOVED_HINT, "warning")
        else:
            message = f"{name} was dropped by a merge: no commit takes it out"
            yield Finding(place.path, 1, "lost-entry", message, LOST_HINT)


class RemovedIds(NamedTuple):
    """The ids of entries that commits of a change removed.

    Attributes:
        all: all of them.
        in_order: those that a run of memory-ci removed, or that were retired before.
    """

    all: set[str]
    in_order: set[str]


def _list_removed(sides: Sides) -> RemovedIds:
    """Return the ids of entries that the commits of a change removed; merges are not read."""
    workspace = sides.workspace
    is_memory = build_memory_test(workspace)
    removed = RemovedIds(set(), set())
    arguments = (
        *FILE_OPTIONS,
        "--no-merges",
        "--no-renames",
        "--end-of-options",
        *sides.span,
        "--",
    )
    for commit, _ in read_log(workspace.repo, *arguments):
        are_memory = [is_memory(file.path) for file in commit.files]
        if not any(are_memory) or not commit.parents:
            continue
        old_places = workspace.at(commit.parents[0]).entries_by_id
        removed_ids = old_places.keys() - workspace.at(commit.sha).entries_by_id.keys()
        # The commit of a run has our trailer, and changes nothing but memory.
        is_run = bool(find_trailers(commit.message, (STEP,))) and all(are_memory)
        removed.all.update(removed_ids)
        for entry_id in removed_ids:
            if is_run or old_places[entry_id].entry.status == "retired":
                removed.in_order.add(entry_id)
    return removed


def _find_foreign(sides: Sides) -> Iterator[Finding]:
    """Find changes of memory files that the author of a fork may not make.

    A fork may only add files to the inbox, where new entries wait for review.
    """
    repo = sides.workspace.repo
    is_memory = build_memory_test(Workspace(repo, _fold_scopes(sides.workspace.config)))
    old_files = set(sides.before.tree.files.values())
    new_files = set(sides.after.tree.files.values())
    changed_paths = {readable_path(file) for file in old_files ^ new_files}

    for path in sorted(changed_paths):
        folded_path = path.casefold()
        is_forbidden_memory = is_memory(folded_path) and not is_fragment(path)
        if folded_path == CONFIG_FILE or is_forbidden_memory:
            yield Finding(path, 1, "fork-memory", "a fork may not change this file", FORK_HINT)

    day = read_commit_time(repo, sides.after.sha).date()
    for place in sides.after.memory.located:
        if place.path in changed_paths and is_fragment(place.path):
            yield from find_note_claims(place, day, "error")


def _fold_scopes(config: Config) -> Config:
    """Return a configuration with its patterns of memory files in lower case.

    On many disks `memory.md` is the file `MEMORY.md`.
    """
    folded_patterns: dict[str, tuple[str, ...]] = {}
    for scope, patterns in structs.asdict(config.scopes).items():
        folded_patterns[scope] = tuple(pattern.casefold() for pattern in patterns)
    return replace(config, scopes=replace(config.scopes, **folded_patterns))


def _find_claims(sides: Sides) -> Iterator[Finding]:
    """Find statements in a fork's commit messages that a run of memory-ci would not believe.

    These are trailers that only a run may write, uses of entries, and reverts without a proof.
    """
    repo = sides.workspace.repo
    commits = [commit for commit, _ in read_log(repo, "--end-of-options", *sides.span, "--")]
    for commit in commits:
        trailers = find_trailers(commit.message, (STEP, SOURCE, COUNTED))
        keys = dict.fromkeys(key for key, _ in trailers)
        if keys:
            trailer_keys = " and ".join(keys)
            message = (
                f"the commit {commit.sha[:12]} has {trailer_keys}, which only record runs may write"
            )
            yield Finding(".", 1, "own-trailer-from-fork", message, OWN_HINT)
    for commit in commits:
        yield from find_claimed_uses(commit, "warning")
    if any(MENTIONS_REVERT.search(commit.message) for commit in commits):
        yield from _find_refused_reverts(sides, commits)


def _find_refused_reverts(sides: Sides, commits: Iterable[Commit]) -> Iterator[Finding]:
    """Find reverts that messages of a fork's commits claim, and that their code does not prove."""
    workspace = sides.workspace
    span = (sides.before.sha, sides.after.sha)
    fork_spans = {commit.sha[:SHA_WIDTH]: span for commit in commits}
    episodes = combine(load_episodes(workspace, sides.before.sha).records)
    claims = Claims(workspace.repo, fork_spans, episodes)

    # All of history is read, oldest first, for the reverted commits may be old.
    arguments = ("--topo-order", "--reverse", "--end-of-options", sides.after.sha, "--")
    history = read_log(workspace.repo, *arguments)
    find_reverts((commit for commit, _ in history), claims.count)
    yield from list_refused(claims.refused, "warning")
