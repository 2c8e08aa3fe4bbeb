"""Episodes of a record run: one record for each change, amended when a later change reverts it.

They are made of facts: commits, trailers, reviews. They quote merged commits, and what members
wrote in the pull request; words of outsiders that are not in the history are left out. An episode
that git's history gives by itself is not written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from functools import cached_property

from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.commands.record.gatherer import Gathered, RecordRun
from memory_ci.commands.record.uses import Uses
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import read_added_lines
from memory_ci.gitrepo.merges import find_containing_merge
from memory_ci.lifecycle.episodes import (
    BY_FACTS,
    MergedWork,
    combine,
    covers_changed_path,
    derive_feedback,
    derive_situation,
    derive_undone_feedback,
    find_commands,
    make_amendment,
)
from memory_ci.lifecycle.reinforcement import find_touched
from memory_ci.lifecycle.relations import find_id
from memory_ci.lifecycle.reverts import Revert
from memory_ci.memory.commit_texts import start_of
from memory_ci.memory.eligible import is_work, list_prose, own_commits, title_of
from memory_ci.memory.episode_files import DeletedEpisodes
from memory_ci.memory.episode_texts import (
    MERGED_AS,
    list_paths,
    list_safe_names,
    make_safe,
    name_branch,
    render_episode_text,
)
from memory_ci.memory.episodes import EpisodeFiles, add_derived
from memory_ci.memory.git_episodes import (
    ROUTINE_VALENCE,
    derive_episode,
    distinguish_id,
    is_derived,
    list_trusted_commits,
    name_change,
)
from memory_ci.records.candidate import Judged
from memory_ci.records.entry import Located
from memory_ci.records.episode import (
    Action,
    Amendment,
    Episode,
    EpisodeRecord,
    Feedback,
    Outcome,
    ServedEntry,
)
from memory_ci.records.event import Event
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.names import SHA_WIDTH, format_work_ref
from memory_ci.records.plan import Unwritten
from memory_ci.sources.reviews import is_outside
from memory_ci.store.episodes import episode_record_path
from memory_ci.store.ranges import Recorded

REVIEW = "review:"
"""Prefix of the source of feedback from a review: `review:128#4`."""

REQUESTED = ("outcome", "requested-then-made")
"""The label of an event: a change was requested in review, and made."""

MAX_TOOLS = 12
MAX_SESSIONS = 3
"""Tools and sessions that an episode names."""

MAX_SEARCHED = 50
"""Reverted commits for which git is asked which merge brought them."""

KEPT_FOR = timedelta(days=30)
"""Work that is reverted later than this was a success for a while, and stays one."""

DECLINED = "Closed without a merge."

SOLVED = 0.6
"""How much an episode of an error or a detour matters (the rubric of importance)."""


def _list_served(ids: Sequence[str], at: str) -> tuple[ServedEntry, ...]:
    """Return the entries that an agent was shown, ranked in the order of their ids.

    Args:
        ids: the ids of the entries.
        at: the commit that the work was based on.
    """
    return tuple(
        ServedEntry(id=entry_id, rank=rank, at=at) for rank, entry_id in enumerate(ids, start=1)
    )


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
        self._files = files
        self._deleted = deleted
        self.records: list[EpisodeRecord] = []
        self.derived: list[Episode] = []
        self.problem = ""

        written_records = files.written.tellings
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

        Those of earlier runs are derived from git's history when this is first read, which many
        runs do not need.
        """
        base = self._run.base
        earlier = add_derived(self._run.workspace, self._files, base.sha)
        self.problem = earlier.problem
        episodes = {episode.id: episode for episode in combine(earlier.tellings)}
        for record in earlier.tellings:
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
        return self._deleted.all | self._written_ids | self.episodes.keys()

    def describe_unwritten(self, recorded_commits: Set[str]) -> Unwritten:
        """Return how many changes of this run get no file, for git's history gives their episode.

        Args:
            recorded_commits: tips of changes that earlier runs have read, which are not counted.
        """
        count = 0
        deleted_ids: list[str] = []
        for episode in self._unwritten:
            named = distinguish_id(episode, self._written.get(episode.id))
            if named.id in self._deleted.of_range:
                deleted_ids.append(named.id)
            elif episode.action.commit not in recorded_commits:
                count += 1
        return Unwritten(count, self._stage, tuple(deleted_ids))

    @property
    def _stage(self) -> str:
        """The stage of the whole project that the configuration names, such as `beta`, or ""."""
        return self._run.phases.get("") or ""

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
            self._add_feedback(tuple(self.list_commands(gathered.request)))
            return
        derived = derive_episode(self._run.workspace.config.extraction, merged, self._stage)
        episode = self._build_episode(derived, merged, gathered, uses, judged)
        if is_derived(self._run.workspace, merged):
            self.derived.append(derived)
            if _adds_nothing(episode, derived):
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
        commands = tuple(self.list_commands(request))
        if is_outside(request, request.permission):
            self._add_feedback(commands)
            return
        closed_at = (request.closed_at or request.created_at).astimezone(UTC)
        work = MergedWork(
            ref=format_work_ref(request.number, ""),
            at=closed_at,
            served=frozenset(uses.served),
            used=uses.used,
            is_declined=True,
        )
        title = make_safe(request.title)
        reviewed_paths = sorted({review.path for review in request.reviews if review.path})
        labels = list_safe_names(request.labels)
        episode = Episode(
            id=f"pr-{request.number}",
            occurred_at=closed_at,
            situation=derive_situation(title, list_safe_names(reviewed_paths), labels),
            context=self._describe_context(request.branch),
            retrieved=_list_served(uses.served, ""),
            used=tuple(sorted(uses.used)),
            action=Action(pr=request.number),
            outcome="failure" if request.commits else "neutral",
            valence=SOLVED,
            feedback=(*derive_feedback(work), *commands),
            text=render_episode_text(title, (), request, DECLINED),
        )
        self._add(episode)

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
            refused: false claims of outsiders, whose messages alone would mislead readers.
            commit_times: when each revert was committed, by shortened id.
            change_tips: the tip of the merged change that holds each revert, by shortened id.
        """
        for revert in reverts:
            if _is_taken_back_in_same_change(revert, reverts, change_tips):
                continue
            reverted_at = commit_times[revert.sha].astimezone(UTC)
            self._reverted_names |= revert.undoes
            self._reverted_names -= revert.restores
            self._amend_reverted(revert, reverted_at)
            self._amend_restored(revert, reverted_at)
        for revert in refused:
            for episode in self._find_episodes(revert.undoes):
                outcome = self._outcomes[episode.id]
                text = f"Not reverted in {revert.label}, which says so."
                self._amend(
                    make_amendment(commit_times[revert.sha], episode.id, outcome=outcome, text=text)
                )

    def _amend_reverted(self, revert: Revert, reverted_at: datetime) -> None:
        """Amend the episodes of work that a revert took back.

        Work that was in place for longer than `KEPT_FOR` keeps its outcome.
        """
        for episode in self._find_episodes(revert.undoes):
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

        Of two amendments of the same time the worse outcome would count, so this one is at least a
        second later than that of the first revert.
        """
        for episode in self._find_episodes(revert.restores):
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

        They do so by a command in a review, or by a feedback file that the change adds. What a
        feedback file copies from a review, or derives from facts, does not count again.

        Args:
            paths: the files that the change touched.
            request: the pull request of the change.
        """
        feedback = list(self.list_commands(request))
        for path in paths:
            amendment = self._amendments_by_path.get(path)
            if amendment is None:
                continue
            for item in amendment.feedback:
                is_by_person = item.by != BY_FACTS and not item.ref.startswith(REVIEW)
                if is_by_person:
                    feedback.append(item)
        return frozenset(item.id for item in feedback if item.kind == "confirmed")

    def list_commands(self, request: PullRequest | None) -> Iterator[Feedback]:
        """Yield the feedback on entries by commands (`/memory …`) in reviews of a pull request.

        Only commands of people who may write to the repository count.
        """
        if request is None:
            return
        for review in request.reviews:
            if review.permission != "write" or review.is_bot:
                continue
            ref = f"{REVIEW}{request.number}#{review.id}"
            at = review.at.astimezone(UTC)
            for kind, prefix in find_commands(review.body):
                entry_id = find_id(self._run.draft.entries, prefix)
                if entry_id:
                    yield Feedback(
                        id=entry_id, kind=kind, at=at, by=make_safe(review.author), ref=ref
                    )

    def _build_episode(
        self,
        derived: Episode,
        merged: MergedChange,
        gathered: Gathered,
        uses: Uses,
        judged: Sequence[Judged],
    ) -> Episode:
        """Return the episode of a merged change from git, its sessions and its pull request.

        Args:
            derived: the episode as git's history alone gives it.
            merged: the change.
            gathered: its sessions and its pull request.
            uses: the entries that it was served and used.
            judged: the candidates for entries, with their verdicts.
        """
        request = gathered.request
        own = own_commits(merged)
        sha = merged.tip.sha
        # A number in a message may be an issue's or that of a request that was not merged.
        number = merged.number
        if request is not None:
            number = request.number if request.state == "merged" else None
        paths = list_paths(merged, own)
        outcome = _find_outcome(paths, gathered.events)
        work = self._find_facts(merged, gathered.events, uses, format_work_ref(number, sha), paths)
        branch = request.branch if request else find_branch(merged.tip.message)
        action = replace(derived.action, pr=number, tools=_list_tools(gathered.events))
        episode = replace(
            derived,
            id=name_change(number, sha),
            context=self._describe_context(branch, gathered, uses.held_out),
            retrieved=_list_served(uses.served, _first_parent(own[0])),
            used=tuple(sorted(uses.used)),
            action=action,
            outcome=outcome,
            valence=_weigh(outcome, judged),
            feedback=(*derive_feedback(work), *self.list_commands(request)),
        )
        if request is None:
            return episode
        config = self._run.workspace.config.extraction
        title = make_safe(title_of(merged))
        prose = list_prose(list_trusted_commits(config, merged, gathered.events))
        return replace(
            episode,
            situation=derive_situation(title, action.files, list_safe_names(request.labels)),
            text=render_episode_text(title, prose, request, MERGED_AS[outcome]),
        )

    def _find_facts(
        self,
        merged: MergedChange,
        events: Iterable[Event],
        uses: Uses,
        ref: str,
        paths: Collection[str],
    ) -> MergedWork:
        """Return the facts of a change from which feedback on entries follows.

        These are the used entries that review corrected, and the served entries that name the code
        or the words of the change.

        Args:
            merged: the change.
            events: its commits, reviews and sessions.
            uses: the entries that it was served and used.
            ref: its name in feedback: `pr:128` or a commit.
            paths: the files that it touched.
        """
        tip = merged.tip
        places = self._run.draft.by_id
        requested_paths: set[str] = set()
        for event in events:
            if REQUESTED in event.labels:
                requested_paths |= set(event.paths)
        corrected: set[str] = set()
        for entry_id in uses.used:
            if entry_id in places and _is_about(places[entry_id], requested_paths):
                corrected.add(entry_id)
        touched: frozenset[str] = frozenset()
        served = [places[entry_id].entry for entry_id in uses.served if entry_id in places]
        if served:
            repo, start = self._run.workspace.repo, start_of(merged)
            message = "\n".join(commit.message for commit in (tip, *merged.commits))
            entries = self._run.draft.entries
            touched = find_touched(
                served,
                entries,
                paths,
                message,
                lambda: read_added_lines(repo, start, tip.sha) if start else "",
            )
        return MergedWork(
            ref=ref,
            at=tip.committed_at,
            served=uses.ignored,
            used=uses.used,
            corrected=frozenset(corrected),
            touched=touched,
        )

    def _describe_context(
        self, branch: str, gathered: Gathered | None = None, held_out: Iterable[str] = ()
    ) -> dict[str, str]:
        """Return in what an episode happened: its branch, agents, sessions and project stage.

        Args:
            branch: the branch of the work.
            gathered: the sessions of the work.
            held_out: marks of the sessions that were shown no entries, for comparison.
        """
        joins = gathered.joins if gathered else ()
        session_keys = [join.id for join in joins if join.kind == "session"]
        sessions = list_safe_names(session_keys, MAX_SESSIONS)
        # The key of a session names its agent: `codex:0198c1f2`.
        agents = {session_key.partition(":")[0] for session_key in sessions}
        context = {
            "branch": name_branch(branch),
            "agent": ", ".join(sorted(agents)),
            "sessions": ", ".join(sessions),
            "holdout": ", ".join(list_safe_names(held_out, MAX_SESSIONS)),
            "stage": self._stage,
        }
        return {key: value for key, value in context.items() if value}

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
        if named.id in episodes or named.id in self._deleted.of_range:
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
        if amendment.id not in self._written_ids | self._deleted.all:
            self._written_ids.add(amendment.id)
            self.records.append(amendment)


def _first_parent(commit: Commit) -> str:
    """Return the shortened id of a commit's first parent, "" for the first commit of history."""
    return commit.parents[0][:SHA_WIDTH] if commit.parents else ""


def _adds_nothing(episode: Episode, derived: Episode) -> bool:
    """Return whether an episode says no more than git's history, for all that commands read of it.

    The text and the labels of its pull request may say more, which are not copied.

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
        change_tip == change_tips.get(later.sha) and revert.sha in later.undoes for later in reverts
    )


def _find_outcome(paths: Sequence[str], events: Iterable[Event]) -> Outcome:
    """Return the outcome of a merged change when it was merged.

    It is partial if a reviewer requested changes that were then made, and neutral if the change
    touched no files.
    """
    if not paths:
        return "neutral"
    is_changed_on_request = any(REQUESTED in event.labels for event in events)
    return "partial" if is_changed_on_request else "success"


def _list_tools(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the tools that the sessions called most, sorted by name."""
    calls = Counter(event.tool for event in events if event.kind == "tool_call" and event.tool)
    names = [name for name, _ in calls.most_common()]
    return tuple(sorted(list_safe_names(names, MAX_TOOLS)))


def _weigh(outcome: Outcome, judged: Sequence[Judged]) -> float:
    """Return how much an episode matters, from 0 to 1: as much as the best entry learned from it.

    Work that needed correction counts at least `SOLVED`, other work `ROUTINE_VALENCE`.
    """
    least = SOLVED if outcome == "partial" else ROUTINE_VALENCE
    learned = [
        item.candidate.importance for item in judged if item.verdict in ("written", "restates")
    ]
    return max([least, *learned])


def _is_about(place: Located, changed_paths: set[str]) -> bool:
    """Return whether an entry is about one of the changed files.

    An entry is about the files that it cites, and about the directory whose memory it is in.
    """
    anchors = [parse_anchor(cite) for cite in place.entry.cites]
    paths = {anchor.path for anchor in anchors if anchor}
    if place.scope.name == "team" and place.scope.where:
        paths.add(place.scope.where)
    return bool(changed_paths) and covers_changed_path(paths, changed_paths)
