"""Reverts that a record run reads for the first time, and the episodes that they amend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory_ci.commands.record.episode_writer import EpisodeWriter
from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.commands.record.learner import Learner
from memory_ci.commands.record.tally import Tally
from memory_ci.gitrepo.history import list_reverting_commits
from memory_ci.gitrepo.repo import is_ancestor
from memory_ci.lifecycle.reverts import Revert, find_reverts
from memory_ci.memory.claims import Claims
from memory_ci.records.episode import Episode
from memory_ci.records.names import SHA_WIDTH


class NewReverts(NamedTuple):
    """Reverts that no earlier run has read.

    Attributes:
        proved: those that count.
        refused: those that only outsiders claim.
    """

    proved: tuple[Revert, ...]
    refused: tuple[Revert, ...]


def find_new_reverts(run: RecordRun, learner: Learner) -> NewReverts:
    """Return the reverts that no earlier run has read, those that count and those that do not.

    Anyone can write into a commit message that it reverts other work, so a revert by an outsider
    counts only if git proves it. Older reverts are left out, because a person may have decided
    about their episodes since.
    """
    repo, cursor = run.workspace.repo, run.cursor
    tally = learner.tally
    claims = Claims(repo, tally.outsiders, _iter_episodes(learner))
    reverts = find_reverts(tally.history, claims.accept_names)
    if cursor is None:
        return NewReverts(reverts, claims.refused)
    if reverts:
        reverts = _find_with_earlier(run, learner, reverts, cursor.source)

    def is_new(revert: Revert) -> bool:
        return not is_ancestor(repo, revert.sha, cursor.source)

    return NewReverts(tuple(filter(is_new, reverts)), tuple(filter(is_new, claims.refused)))


def _find_with_earlier(
    run: RecordRun, learner: Learner, reverts: Sequence[Revert], last_end: str
) -> tuple[Revert, ...]:
    """Return the reverts of a range, found again together with the reverts before it.

    A revert of a revert restores work that the first revert undid, and an earlier run may have read
    the first revert. If an outsider reverts it, the first revert counts only if git proves it, too.

    Args:
        run: the run.
        learner: the learner, which has read the range.
        reverts: the reverts as the range alone gives them.
        last_end: the commit where the last run ended.
    """
    repo, tally = run.workspace.repo, learner.tally
    reverted_by_outsiders: set[str] = set()
    for revert in reverts:
        if revert.sha in tally.outsiders:
            reverted_by_outsiders |= revert.reverted_names
    earlier = list_reverting_commits(repo, last_end)
    # Each with the commits before and after it, between which git can prove the revert.
    doubted_commits: dict[str, tuple[str, str]] = {}
    for commit in earlier:
        short_sha = commit.sha[:SHA_WIDTH]
        if short_sha in reverted_by_outsiders:
            doubted_commits[short_sha] = (commit.parents[0], commit.sha)
    claims = Claims(repo, tally.outsiders | doubted_commits, _iter_episodes(learner))
    new_shas = {revert.sha for revert in reverts}
    all_reverts = find_reverts([*earlier, *tally.history], claims.accept_names)
    return tuple(revert for revert in all_reverts if revert.sha in new_shas)


def _iter_episodes(learner: Learner) -> Iterator[Episode]:
    """Yield the episodes of earlier runs and of this one.

    Nothing is read before the first is needed: older ones are derived from git's history.
    """
    yield from learner.writer.episodes.values()


def amend_episodes(writer: EpisodeWriter, tally: Tally, reverts: NewReverts) -> None:
    """Add to the episodes of reverted work that it was reverted, and when."""
    commit_times = {commit.sha[:SHA_WIDTH]: commit.committed_at for commit in tally.history}
    change_tips: dict[str, str] = {}
    for merged, _ in tally.uses:
        for commit in merged.commits:
            change_tips[commit.sha[:SHA_WIDTH]] = merged.tip.sha
    writer.amend(reverts.proved, reverts.refused, commit_times, change_tips)
