"""Episodes of a record run: one record for each change, amended when a later change reverts it.

An episode that git's history gives by itself is not written to a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from functools import cached_property

from memory_ci.commands.record.episode_builder import REVIEW, EpisodeBuilder
from memory_ci.commands.record.gatherer import Gathered, RecordRun
from memory_ci.commands.record.uses import Uses
from memory_ci.gitrepo.merges import find_containing_merge
from memory_ci.lifecycle.episodes import (
    BY_FACTS,
    combine,
    derive_undone_feedback,
    make_amendment,
)
from memory_ci.lifecycle.reverts import Revert
from memory_ci.memory.eligible import is_work
from memory_ci.memory.episode_files import DeletedEpisodes
from memory_ci.memory.episodes import EpisodeFiles, add_derived_episodes
from memory_ci.memory.git_episodes import (
    derive_episode,
    distinguish_id,
    is_derived,
)
from memory_ci.records.candidate import Judged
from memory_ci.records.episode import (
    Amendment,
    Episode,
    EpisodeRecord,
    Feedback,
    Outcome,
)
from memory_ci.records.history import MergedChange, PullRequest
from memory_ci.records.names import SHA_WIDTH, format_work_ref
from memory_ci.records.plan import Unwritten
from memory_ci.sources.reviews import is_outside
from memory_ci.store.episodes import episode_record_path
from memory_ci.store.ranges import Recorded

MAX_SEARCHED = 50
"""Reverted commits for which git is asked which merge brought them."""

KEPT_FOR = timedelta(days=30)
"""Work that is reverted later than this was a success for a while, and stays one."""


class EpisodeWriter:
    """A collector of the episodes of a run: a record of each change, unless an earlier run has it.

    Only an episode with something that git does not have is written. The others are derived from
    history wherever they are read (`memory.git_episodes`).

    Attributes:
        records: the new episodes and amendments of this run, which are written.
        derived: what git says of the changes of this run, oldest first.
        problem: why the derived episodes of earlier runs are missing; "" if they are not needed.
    """

    def __init__(self, run: RecordRun, files: EpisodeFiles, deleted: DeletedEpisodes) -> None:
        """Create a writer.

        Args:
            run: the state that the parts of the run share.
            files: the episode files that earlier runs wrote.
            deleted: the episodes that people deleted, which stay deleted.
        """
        self._run = run
        self._builder = EpisodeBuilder(run)
        self._files = files
        self._deleted = deleted
        self.records: list[EpisodeRecord] = []
        self.derived: list[Episode] = []
        self.problem = ""

        written_records = files.written.records
        self._written = {episode.id: episode for episode in combine(written_records)}
        self._written_ids = {record.id for record in written_records}
        self._amendments_by_path: dict[str, Amendment] = {}
        for record in written_records:
            if isinstance(record, Amendment):
                self._amendments_by_path[episode_record_path(record)] = record
        self._unwritten: list[Episode] = []

        # By the ids of episodes: how each ended when it was merged, and with what is known now.
        self._first_outcomes: dict[str, Outcome] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._reverted_at: dict[str, datetime] = {}
        self._reverted_names: set[str] = set()

    @cached_property
    def episodes(self) -> dict[str, Episode]:
        """The episodes of earlier runs and of this one, by id.

        Episodes of earlier runs are derived from git's history on first access, because many runs
        do not need them. The first access also sets their outcomes, which reverts change.
        """
        base = self._run.base
        earlier = add_derived_episodes(self._run.workspace, self._files, base.sha)
        self.problem = earlier.problem
        episodes = {episode.id: episode for episode in combine(earlier.records)}
        for record in earlier.records:
            if isinstance(record, Episode):
                self._first_outcomes.setdefault(record.id, record.outcome)
        for episode in episodes.values():
            self._outcomes.setdefault(episode.id, episode.outcome)
        for episode in self._unwritten:
            self._add_revertible(episode, episodes)
        return episodes

    @property
    def recorded(self) -> Recorded:
        """The ranges that earlier runs have read."""
        return self._files.recorded

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of episodes and amendments that exist or that a person deleted."""
        return self._deleted.ids | self._written_ids | self.episodes.keys()

    def describe_unwritten(self, recorded_commits: Set[str]) -> Unwritten:
        """Count the changes of this run whose episode needs no file: git's history gives it.

        Args:
            recorded_commits: tips of changes that earlier runs have read, which are not counted.
        """
        count = 0
        deleted_ids: list[str] = []
        for episode in self._unwritten:
            named = distinguish_id(episode, self._written.get(episode.id))
            if named.id in self._deleted.ids_deleted_in_range:
                deleted_ids.append(named.id)
            elif episode.action.commit not in recorded_commits:
                count += 1
        return Unwritten(count, self._builder.stage, tuple(deleted_ids))

    def add_merged(
        self, merged: MergedChange, gathered: Gathered, uses: Uses, judged: Sequence[Judged]
    ) -> None:
        """Add the episode of a merged change.

        Changes of bots and of memory alone get none. Changes of a kind that teaches nothing, such
        as updates of dependencies, get one only if it names entries or a review. Feedback that
        reviewers gave by command (`/memory …`) is kept in any case.

        Args:
            merged: the change.
            gathered: its sessions and its pull request.
            uses: the entries that it was served and used.
            judged: the candidates for entries, with their verdicts.
        """
        if not is_work(self._run.workspace, merged):
            self._add_feedback(tuple(self._builder.list_commands(gathered.request)))
            return
        # The episode as git's history alone gives it.
        derived = derive_episode(self._run.workspace.config.extraction, merged, self._builder.stage)
        episode = self._builder.build_merged(derived, merged, gathered, uses, judged)
        if is_derived(self._run.workspace, merged):
            self.derived.append(derived)
            if _is_derivable(episode, derived):
                self._add_unwritten(derived)
            else:
                self._add(episode)
            return
        is_worth_keeping = (
            f"pr-{merged.number}" in self._written
            or any(candidate.verdict == "written" for candidate in judged)
            or bool(episode.retrieved or episode.used or episode.feedback)
            or episode.outcome == "partial"
        )
        if is_worth_keeping:
            self._add(episode)

    def add_declined(self, request: PullRequest, uses: Uses) -> None:
        """Add the episode of a pull request that was closed without a merge.

        Requests of outsiders get none, because anyone can open one.
        """
        if is_outside(request, request.permission):
            self._add_feedback(tuple(self._builder.list_commands(request)))
            return
        self._add(self._builder.build_declined(request, uses))

    def amend(
        self,
        reverts: Sequence[Revert],
        refused: Sequence[Revert],
        commit_times: Mapping[str, datetime],
        change_tips: Mapping[str, str],
    ) -> None:
        """Amend the episodes of work that was reverted, and of work that was restored.

        Args:
            reverts: the reverts, the oldest first.
            refused: reverts that an outsider's message claims and git does not prove; the claimed
                episodes get a note that they were not reverted, because readers see the message.
            commit_times: when each revert was committed, by shortened id.
            change_tips: the tip of the merged change that holds each revert, by shortened id.
        """
        for revert in reverts:
            if _is_taken_back_in_same_change(revert, reverts, change_tips):
                continue
            reverted_at = commit_times[revert.sha].astimezone(UTC)
            self._reverted_names |= revert.reverted_names
            self._reverted_names -= revert.restored_names
            self._amend_reverted(revert, reverted_at)
            self._amend_restored(revert, reverted_at)
        for revert in refused:
            for episode in self._find_episodes(revert.reverted_names):
                outcome = self._outcomes[episode.id]
                text = f"Not reverted in {revert.label}, which says so."
                self._amend(
                    make_amendment(commit_times[revert.sha], episode.id, outcome=outcome, text=text)
                )

    def _amend_reverted(self, revert: Revert, reverted_at: datetime) -> None:
        """Amend the episodes of work that a revert took back.

        Work that was in place for longer than `KEPT_FOR` keeps its outcome.
        """
        for episode in self._find_episodes(revert.reverted_names):
            outcome: Outcome | None = None
            if reverted_at - episode.occurred_at <= KEPT_FOR:
                outcome = "failure"
            self._outcomes[episode.id] = outcome or episode.outcome
            self._reverted_at[episode.id] = reverted_at
            work = format_work_ref(episode.action.pr, episode.action.commit)
            feedback = derive_undone_feedback(episode.used, work, reverted_at)
            text = f"Reverted in {revert.label}."
            self._amend(
                make_amendment(
                    reverted_at, episode.id, outcome=outcome, feedback=feedback, text=text
                )
            )

    def _amend_restored(self, revert: Revert, restored_at: datetime) -> None:
        """Amend the episodes of work that a revert of a revert restored: the first outcome counts.

        If two amendments had the same time, the worse outcome would count, so this amendment is at
        least a second later than the amendment for the first revert.
        """
        for episode in self._find_episodes(revert.restored_names):
            first_outcome = self._first_outcomes[episode.id]
            if self._outcomes[episode.id] == first_outcome:
                continue
            self._outcomes[episode.id] = first_outcome
            reverted_at = self._reverted_at.get(episode.id, restored_at)
            amended_at = max(restored_at, reverted_at + timedelta(seconds=1))
            text = f"Brought back in {revert.label}."
            self._amend(make_amendment(amended_at, episode.id, outcome=first_outcome, text=text))

    def list_confirmed(self, paths: Iterable[str], request: PullRequest | None) -> frozenset[str]:
        """Return the ids of entries that people confirm in a merged change.

        They confirm an entry by a command in a review, or by a feedback file that the change adds.
        A feedback file that copies a review, or that is derived from facts, does not count again.

        Args:
            paths: the files that the change touched.
            request: the pull request of the change.
        """
        feedback = list(self._builder.list_commands(request))
        for path in paths:
            amendment = self._amendments_by_path.get(path)
            if amendment is None:
                continue
            for item in amendment.feedback:
                is_by_person = item.by != BY_FACTS and not item.ref.startswith(REVIEW)
                if is_by_person:
                    feedback.append(item)
        return frozenset(item.id for item in feedback if item.kind == "confirmed")

    def _find_episodes(self, names: frozenset[str]) -> list[Episode]:
        """Return the episodes of merged changes that have one of these names.

        A change is named by its tip or its pull request, or by its commits if all of them were
        reverted.

        Args:
            names: shortened ids of commits, and pull requests (`pr:128`).
        """
        merged = [episode for episode in self.episodes.values() if episode.action.commit]
        named = [
            episode
            for episode in merged
            if names & {episode.action.commit[:SHA_WIDTH], f"pr:{episode.action.pr}"}
        ]
        if named:
            return named
        repo, base = self._run.workspace.repo, self._run.base.sha
        reverted_names = self._reverted_names | names
        short_shas = sorted(name for name in names if ":" not in name)
        reverted_merges: set[str] = set()
        for short_sha in short_shas[:MAX_SEARCHED]:
            containing = find_containing_merge(repo, short_sha, base)
            if containing is None:
                continue
            if reverted_names.issuperset(sha[:SHA_WIDTH] for sha in containing.merged):
                reverted_merges.add(containing.merge)
        return [episode for episode in merged if episode.action.commit in reverted_merges]

    def _add(self, episode: Episode) -> None:
        """Add an episode that is written to a file, unless an earlier run wrote it."""
        named = distinguish_id(episode, self.episodes.get(episode.id))
        if named.id in self.known_ids:
            return
        self._add_revertible(named, self.episodes)
        self._written[named.id] = named
        self._written_ids.add(named.id)
        self.records.append(named)
        self._amend_declined(named)

    def _add_unwritten(self, episode: Episode) -> None:
        """Add an episode that git's history gives, unless an earlier run wrote a file for it."""
        commit = episode.action.commit
        if commit in self._written_commits:
            return
        self._unwritten.append(episode)
        # `episodes` takes it from `_unwritten` when it is first read.
        is_episodes_read = "episodes" in self.__dict__
        if is_episodes_read:
            self._add_revertible(episode, self.episodes)
        self._amend_declined(episode)

    @cached_property
    def _written_commits(self) -> frozenset[str]:
        """The commits whose episode an earlier run wrote."""
        return frozenset(episode.action.commit for episode in self._written.values())

    def _add_revertible(self, episode: Episode, episodes: dict[str, Episode]) -> None:
        """Add an episode to those that later changes may revert, unless a person deleted it."""
        named = distinguish_id(episode, episodes.get(episode.id))
        if named.id in episodes or named.id in self._deleted.ids_deleted_in_range:
            return
        episodes[named.id] = named
        self._first_outcomes[named.id] = named.outcome
        self._outcomes[named.id] = named.outcome

    def _amend_declined(self, episode: Episode) -> None:
        """Amend the episode of a pull request that was declined before and is merged now."""
        declined = self._written.get(f"pr-{episode.action.pr}")
        if declined is None or declined.action.commit or not episode.action.commit:
            return
        text = f"Merged after all, as {episode.action.commit[:SHA_WIDTH]}."
        self._amend(
            make_amendment(episode.occurred_at, declined.id, outcome=episode.outcome, text=text)
        )

    def _add_feedback(self, commands: Sequence[Feedback]) -> None:
        """Add feedback that belongs to no episode."""
        if commands:
            latest = max(feedback.at for feedback in commands)
            self._amend(make_amendment(latest, "", feedback=commands))

    def _amend(self, amendment: Amendment) -> None:
        """Add an amendment to the records, unless it exists or a person deleted it."""
        if amendment.id not in self._written_ids | self._deleted.ids:
            self._written_ids.add(amendment.id)
            self.records.append(amendment)


def _is_derivable(episode: Episode, derived: Episode) -> bool:
    """Return whether git's history alone gives all data of an episode that commands read.

    The text and the labels of its pull request do not count: they alone are worth no file.

    Args:
        episode: the episode from all sources.
        derived: the episode from git's history alone.
    """
    has_agent_data = (
        episode.retrieved
        or episode.used
        or episode.action.tools
        or not episode.context.keys() <= {"branch", "stage"}
    )
    if has_agent_data or episode.feedback:
        return False
    return episode.outcome == derived.outcome and episode.action.pr == derived.action.pr


def _is_taken_back_in_same_change(
    revert: Revert, reverts: Sequence[Revert], change_tips: Mapping[str, str]
) -> bool:
    """Return whether a later revert of the same merged change undoes a revert.

    Args:
        revert: the revert.
        reverts: all reverts.
        change_tips: the tip of the merged change that holds each revert, by shortened id.
    """
    change_tip = change_tips.get(revert.sha)
    if not change_tip:
        return False
    return any(
        change_tip == change_tips.get(later.sha) and revert.sha in later.reverted_names
        for later in reverts
    )
