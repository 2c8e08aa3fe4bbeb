"""Reverts that a record run reads for the first time, and the episodes that they amend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory_ci.commands.record.episode_writer import EpisodeWriter
from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.commands.record.learner import Learner
from memory_ci.commands.record.run_results import RunResults
from memory_ci.gitrepo.history import list_reverting_commits
from memory_ci.gitrepo.repo import is_ancestor
from memory_ci.lifecycle.reverts import Revert, find_reverts
from memory_ci.memory.claims import Claims
from memory_ci.records.episode import Episode
from memory_ci.records.names import SHA_WIDTH


class NewReverts(NamedTuple):
    """Reverts that no earlier run has read.

    Attributes:
        proved: the reverts that count, because a member made them or git proves them.
        refused: the reverts that an outsider's message claims and git does not prove.
    """

    proved: tuple[Revert, ...]
    refused: tuple[Revert, ...]


def find_new_reverts(run: RecordRun, learner: Learner) -> NewReverts:
    """Return the reverts of the range that no earlier run has read, proved and refused.

    Anyone can write into a commit message that it reverts other work, so a revert by an outsider
    (a person without write access) counts only if git proves it. Reverts that an earlier run read
    are left out, because a person may have decided about their episodes since.

    Args:
        run: the run.
        learner: the learner, which has read the range.
    """
    repo, results = run.workspace.repo, learner.results
    claims = Claims(repo, results.outsider_commits, _iter_episodes(learner))
    proved = find_reverts(results.range_commits, claims.accept_names)
    refused = claims.refused  # Filled by `accept_names`.
    if run.cursor is None:  # This is the first run.
        return NewReverts(proved, refused)
    last_run_end = run.cursor.source
    if proved:
        proved = _find_effect_on_earlier(run, learner, proved, last_run_end)

    def is_new(revert: Revert) -> bool:
        return not is_ancestor(repo, revert.sha, last_run_end)

    return NewReverts(tuple(filter(is_new, proved)), tuple(filter(is_new, refused)))


def _find_effect_on_earlier(
    run: RecordRun, learner: Learner, reverts: Sequence[Revert], last_run_end: str
) -> tuple[Revert, ...]:
    """Return the reverts of a range, with the work of earlier ranges that they restore as well.

    A revert of a revert restores the work that the first revert undid, and the first revert may be
    in a range that an earlier run read. So reverts are searched in the commits of both. An earlier
    revert that an outsider now reverts counts only if git proves it, whoever made it.

    Args:
        run: the run.
        learner: the learner, which has read the range.
        reverts: the reverts of the range, found without the commits before it.
        last_run_end: the commit where the last run ended.
    """
    repo, results = run.workspace.repo, learner.results
    shas_reverted_by_outsiders: set[str] = set()
    for revert in reverts:
        if revert.sha in results.outsider_commits:
            shas_reverted_by_outsiders |= revert.reverted_names
    earlier_commits = list_reverting_commits(repo, last_run_end)
    # These need a proof as outsiders' commits do. The value is the range in which git can prove it.
    commits_to_prove = dict(results.outsider_commits)
    for commit in earlier_commits:
        short_sha = commit.sha[:SHA_WIDTH]
        if short_sha in shas_reverted_by_outsiders:
            commits_to_prove[short_sha] = (commit.parents[0], commit.sha)
    claims = Claims(repo, commits_to_prove, _iter_episodes(learner))
    all_reverts = find_reverts([*earlier_commits, *results.range_commits], claims.accept_names)
    range_shas = {revert.sha for revert in reverts}
    return tuple(revert for revert in all_reverts if revert.sha in range_shas)


def _iter_episodes(learner: Learner) -> Iterator[Episode]:
    """Yield the episodes of earlier runs and of this one.

    Nothing is read before the first is needed: older ones are derived from git's history.
    """
    yield from learner.writer.episodes.values()


def amend_episodes(writer: EpisodeWriter, results: RunResults, reverts: NewReverts) -> None:
    """Add to the episodes of reverted work that it was reverted, and when.

    Episodes that a refused revert names get a note that they were not reverted.

    Args:
        writer: writes the episodes of the run.
        results: the commits and changes that the run has read.
        reverts: the reverts in these commits.
    """
    commit_times = {commit.sha[:SHA_WIDTH]: commit.committed_at for commit in results.range_commits}
    tip_by_commit: dict[str, str] = {}
    for merged, _ in results.counted_uses:
        for commit in merged.commits:
            tip_by_commit[commit.sha[:SHA_WIDTH]] = merged.tip.sha
    writer.amend(reverts.proved, reverts.refused, commit_times, tip_by_commit)
