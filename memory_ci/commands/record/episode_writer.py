"""Episodes of a record run: one record for each change, amended when a later change reverts it.

An episode that git's history gives by itself is not written to a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from functools import cached_property

from memory_ci.commands.record.change_uses import ChangeUses
from memory_ci.commands.record.episode_builder import REVIEW, EpisodeBuilder
from memory_ci.commands.record.gatherer import GatheredEvents, RecordRun
from memory_ci.gitrepo.merges import find_containing_merge
from memory_ci.lifecycle.episodes import (
    BY_FACTS,
    apply_amendments,
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

MAX_SEARCHED_COMMITS = 50
"""Reverted commits for which git is asked which merge brought them."""

KEPT_FOR = timedelta(days=30)
"""Work that is reverted later than this was a success for a while, and stays one."""


class EpisodeWriter:
    """A collector of the episodes of a run: a record of each change, unless an earlier run has it.

    Only an episode with something that git does not have is written. The others are derived from
    history wherever they are read (`memory.git_episodes`).

    Attributes:
        records: the new episodes and amendments of this run, which are written.
        derived_episodes: the episodes of this run's changes as git's history gives them, oldest
            first.
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
        self._episode_files = files
        self._deleted_episodes = deleted
        self.records: list[EpisodeRecord] = []
        self.derived_episodes: list[Episode] = []
        self.problem = ""

        # Episodes in files: those of earlier runs, to which this run adds its own.
        written_records = files.written.records
        self._written_by_id = {episode.id: episode for episode in apply_amendments(written_records)}
        self._written_ids = {record.id for record in written_records}
        self._amendments_by_path: dict[str, Amendment] = {}
        for record in written_records:
            if isinstance(record, Amendment):
                self._amendments_by_path[episode_record_path(record)] = record
        # Episodes of this run that git's history gives, so that they need no file.
        self._unwritten_episodes: list[Episode] = []

        # By the ids of episodes: the outcome when the work was merged, and the outcome after the
        # reverts so far; when the work was last reverted.
        self._first_outcomes: dict[str, Outcome] = {}
        self._current_outcomes: dict[str, Outcome] = {}
        self._reverted_at_by_id: dict[str, datetime] = {}
        # Commits and pull requests that are reverted and not restored.
        self._reverted_names: set[str] = set()

    @cached_property
    def episodes(self) -> dict[str, Episode]:
        """The episodes of earlier runs and of this one, by id; `_load_episodes` at first access."""
        return self._load_episodes()

    def _load_episodes(self) -> dict[str, Episode]:
        """Return the episodes of earlier runs and of this one so far, by id.

        It is called once, when the first episode is needed, because many runs need none and it
        reads git's history. It also sets `problem`, and the outcomes that reverts change.
        """
        earlier = add_derived_episodes(self._run.workspace, self._episode_files, self._run.base.sha)
        self.problem = earlier.problem
        episodes = {episode.id: episode for episode in apply_amendments(earlier.records)}
        for record in earlier.records:
            if isinstance(record, Episode):
                self._first_outcomes.setdefault(record.id, record.outcome)
        for episode in episodes.values():
            self._current_outcomes.setdefault(episode.id, episode.outcome)
        for episode in self._unwritten_episodes:
            self._register_for_reverts(episode, episodes)
        return episodes

    @property
    def recorded_ranges(self) -> Recorded:
        """The ranges that earlier runs have read."""
        return self._episode_files.recorded

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of episodes and amendments that exist or that a person deleted."""
        return self._deleted_episodes.ids | self._written_ids | self.episodes.keys()

    def describe_unwritten(self, recorded_commits: Set[str]) -> Unwritten:
        """Count the changes of this run whose episode needs no file: git's history gives it.

        The result also names such episodes that a person deleted, and the stage of the project
        (such as `beta`) that the configuration names, which the episodes get.

        Args:
            recorded_commits: tips of changes that earlier runs have read, which are not counted.
        """
        change_count = 0
        deleted_ids: list[str] = []
        for episode in self._unwritten_episodes:
            # Two changes may have one id, such as a request merged twice: the second gets another.
            episode_id = distinguish_id(episode, self._written_by_id.get(episode.id)).id
            if episode_id in self._deleted_episodes.ids_deleted_in_range:
                deleted_ids.append(episode_id)
            elif episode.action.commit not in recorded_commits:
                change_count += 1
        return Unwritten(change_count, self._builder.stage, tuple(deleted_ids))

    def add_merged(
        self,
        merged: MergedChange,
        gathered_events: GatheredEvents,
        change_uses: ChangeUses,
        judged_candidates: Sequence[Judged],
    ) -> None:
        """Add the episode of a merged change.

        Two episodes are compared: the one that git's history alone gives, and the full one with the
        data of sessions and the pull request. If they are equal for readers, no file is written.

        - Changes of bots and of memory alone get no episode. Feedback that reviewers gave by
          command (`/memory …`) is kept.
        - Changes of a kind that teaches nothing, such as updates of dependencies, have no episode
          in git's history. They get a file only if it says more: an entry, a use, a review.

        Args:
            merged: the change.
            gathered_events: its sessions and its pull request.
            change_uses: the entries that it was served and used.
            judged_candidates: the candidates for entries, with their verdicts.
        """
        workspace, builder = self._run.workspace, self._builder
        if not is_work(workspace, merged):
            self._add_feedback(tuple(builder.list_commands(gathered_events.request)))
            return
        git_episode = derive_episode(workspace.config.extraction, merged, builder.stage)
        full_episode = builder.build_merged(
            git_episode, merged, gathered_events, change_uses, judged_candidates
        )
        has_git_episode = is_derived(workspace, merged)
        if has_git_episode:
            self.derived_episodes.append(git_episode)
            if _says_no_more_than_git(full_episode, git_episode):
                self._add_episode_of_history(git_episode)
            else:
                self._add_written_episode(full_episode)
            return
        is_worth_a_file = (
            f"pr-{merged.number}" in self._written_by_id
            or any(judged.verdict == "written" for judged in judged_candidates)
            or bool(full_episode.retrieved or full_episode.used or full_episode.feedback)
            or full_episode.outcome == "partial"
        )
        if is_worth_a_file:
            self._add_written_episode(full_episode)

    def add_declined(self, request: PullRequest, change_uses: ChangeUses) -> None:
        """Add the episode of a pull request that was closed without a merge.

        Requests of outsiders get no episode, because anyone can open one. Members may have written
        feedback commands in their reviews, which are kept.
        """
        if is_outside(request, request.permission):
            self._add_feedback(tuple(self._builder.list_commands(request)))
            return
        self._add_written_episode(self._builder.build_declined(request, change_uses))

    def amend(
        self,
        proved_reverts: Sequence[Revert],
        refused_reverts: Sequence[Revert],
        commit_times: Mapping[str, datetime],
        tip_by_commit: Mapping[str, str],
    ) -> None:
        """Amend the episodes of work that was reverted, and of work that was restored.

        A revert undoes work; if it is a revert of a revert, it restores work as well.

        Args:
            proved_reverts: the reverts that count, the oldest first.
            refused_reverts: reverts that an outsider's message claims and git does not prove. The
                claimed episodes get a note that they were not reverted, because readers see the
                message.
            commit_times: when each revert was committed, by shortened id.
            tip_by_commit: the tip of the merged change that holds each revert, by shortened id.
        """
        for revert in proved_reverts:
            if _is_taken_back_in_same_change(revert, proved_reverts, tip_by_commit):
                continue
            reverted_at = commit_times[revert.sha].astimezone(UTC)
            self._reverted_names |= revert.reverted_names
            self._reverted_names -= revert.restored_names
            self._amend_reverted(revert, reverted_at)
            self._amend_restored(revert, reverted_at)
        for revert in refused_reverts:
            for episode in self._find_episodes(revert.reverted_names):
                outcome = self._current_outcomes[episode.id]
                text = f"Not reverted in {revert.label}, which says so."
                self._add_amendment(
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
            self._current_outcomes[episode.id] = outcome or episode.outcome
            self._reverted_at_by_id[episode.id] = reverted_at
            work = format_work_ref(episode.action.pr, episode.action.commit)
            feedback = derive_undone_feedback(episode.used, work, reverted_at)
            text = f"Reverted in {revert.label}."
            self._add_amendment(
                make_amendment(
                    reverted_at, episode.id, outcome=outcome, feedback=feedback, text=text
                )
            )

    def _amend_restored(self, revert: Revert, restored_at: datetime) -> None:
        """Give the episodes of work that a revert of a revert restored their first outcome again.

        Readers apply the amendments of an episode by time, and of two at the same time the one with
        the worse outcome last (`lifecycle.episodes`). So this amendment is dated at least a second
        after the amendment for the first revert.
        """
        for episode in self._find_episodes(revert.restored_names):
            first_outcome = self._first_outcomes[episode.id]
            if self._current_outcomes[episode.id] == first_outcome:
                continue
            self._current_outcomes[episode.id] = first_outcome
            reverted_at = self._reverted_at_by_id.get(episode.id, restored_at)
            amended_at = max(restored_at, reverted_at + timedelta(seconds=1))
            text = f"Brought back in {revert.label}."
            self._add_amendment(
                make_amendment(amended_at, episode.id, outcome=first_outcome, text=text)
            )

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
        """Return the episodes of the merged changes that a revert names.

        A change is named by its tip or its pull request. If no change is, the names may be commits
        inside of merges: a merge counts if all of its commits are reverted, by this or by earlier
        reverts.

        Args:
            names: shortened ids of commits, and pull requests (`pr:128`).
        """
        merged_episodes = [episode for episode in self.episodes.values() if episode.action.commit]
        named_episodes: list[Episode] = []
        for episode in merged_episodes:
            own_names = {episode.action.commit[:SHA_WIDTH], f"pr:{episode.action.pr}"}
            if names & own_names:
                named_episodes.append(episode)
        if named_episodes:
            return named_episodes
        repo, base = self._run.workspace.repo, self._run.base.sha
        reverted_names = self._reverted_names | names
        short_shas = sorted(name for name in names if ":" not in name)
        reverted_merges: set[str] = set()
        for short_sha in short_shas[:MAX_SEARCHED_COMMITS]:
            containing_merge = find_containing_merge(repo, short_sha, base)
            if containing_merge is None:
                continue
            if reverted_names.issuperset(
                sha[:SHA_WIDTH] for sha in containing_merge.merged_commits
            ):
                reverted_merges.add(containing_merge.merge)
        return [episode for episode in merged_episodes if episode.action.commit in reverted_merges]

    def _add_written_episode(self, episode: Episode) -> None:
        """Add an episode that is written to a file, unless an earlier run wrote it."""
        # Another change may have the same id: then this episode gets an id of its own.
        episode = distinguish_id(episode, self.episodes.get(episode.id))
        if episode.id in self.known_ids:
            return
        self._register_for_reverts(episode, self.episodes)
        self._written_by_id[episode.id] = episode
        self._written_ids.add(episode.id)
        self.records.append(episode)
        self._note_late_merge(episode)

    def _add_episode_of_history(self, episode: Episode) -> None:
        """Add an episode that git's history gives, unless an earlier run wrote a file for it."""
        commit = episode.action.commit
        if commit in self._written_commits:
            return
        self._unwritten_episodes.append(episode)
        # A cached property is in `__dict__` once it is read. Before, `_load_episodes` does this.
        are_episodes_loaded = "episodes" in self.__dict__
        if are_episodes_loaded:
            self._register_for_reverts(episode, self.episodes)
        self._note_late_merge(episode)

    @cached_property
    def _written_commits(self) -> frozenset[str]:
        """The commits whose episode an earlier run wrote."""
        return frozenset(episode.action.commit for episode in self._written_by_id.values())

    def _register_for_reverts(self, episode: Episode, episodes: dict[str, Episode]) -> None:
        """Add an episode to those that later changes may revert, unless a person deleted it.

        Args:
            episode: the episode of a change of this run.
            episodes: ids episodes by id, to which it is added.
        """
        episode = distinguish_id(episode, episodes.get(episode.id))
        if episode.id in episodes or episode.id in self._deleted_episodes.ids_deleted_in_range:
            return
        episodes[episode.id] = episode
        self._first_outcomes[episode.id] = episode.outcome
        self._current_outcomes[episode.id] = episode.outcome

    def _note_late_merge(self, episode: Episode) -> None:
        """Amend the episode of a pull request that was declined before and is merged now."""
        declined_episode = self._written_by_id.get(f"pr-{episode.action.pr}")
        if declined_episode is None or declined_episode.action.commit or not episode.action.commit:
            return
        text = f"Merged after all, as {episode.action.commit[:SHA_WIDTH]}."
        self._add_amendment(
            make_amendment(
                episode.occurred_at, declined_episode.id, outcome=episode.outcome, text=text
            )
        )

    def _add_feedback(self, commands: Sequence[Feedback]) -> None:
        """Add feedback that belongs to no episode."""
        if commands:
            latest = max(feedback.at for feedback in commands)
            self._add_amendment(make_amendment(latest, "", feedback=commands))

    def _add_amendment(self, amendment: Amendment) -> None:
        """Add an amendment to the records, unless it exists or a person deleted it."""
        if amendment.id not in self._written_ids | self._deleted_episodes.ids:
            self._written_ids.add(amendment.id)
            self.records.append(amendment)


def _says_no_more_than_git(full_episode: Episode, git_episode: Episode) -> bool:
    """Return whether git's history alone gives all data of an episode that commands read.

    Commands do not read the text and the labels of the pull request, so these need no file.

    Args:
        full_episode: the episode from all sources.
        git_episode: the episode from git's history alone.
    """
    # Git gives the branch; the configuration gives the stage of the project.
    has_session_context = not full_episode.context.keys() <= {"branch", "stage"}
    has_agent_data = (
        full_episode.retrieved
        or full_episode.used
        or full_episode.action.tools
        or has_session_context
    )
    if has_agent_data or full_episode.feedback:
        return False
    has_same_outcome = full_episode.outcome == git_episode.outcome
    return has_same_outcome and full_episode.action.pr == git_episode.action.pr


def _is_taken_back_in_same_change(
    revert: Revert, reverts: Sequence[Revert], tip_by_commit: Mapping[str, str]
) -> bool:
    """Return whether a later revert of the same merged change undoes a revert.

    Args:
        revert: the revert.
        reverts: all reverts.
        tip_by_commit: the tip of the merged change that holds each revert, by shortened id.
    """
    change_tip = tip_by_commit.get(revert.sha)
    if not change_tip:
        return False
    return any(
        change_tip == tip_by_commit.get(later.sha) and revert.sha in later.reverted_names
        for later in reverts
    )
