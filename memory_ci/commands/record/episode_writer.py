"""Episodes of a record run: one for each change, amended by what later changes say of it.

They are made of facts: commits, trailers, reviews. They quote merged commits, and what members
wrote in the request; words of outsiders that are not in the history are left out. What git's
history gives by itself is not written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from functools import cached_property

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.commands.record.gatherer import Gathered, RecordRun
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
from memory_ci.records.history import MergedChange, PullRequest
from memory_ci.records.names import SHA_WIDTH, format_work_ref
from memory_ci.records.plan import Unwritten
from memory_ci.sources.reviews import is_outside
from memory_ci.store.episodes import telling_path
from memory_ci.store.ranges import Recorded

REVIEW = "review:"
"""How the reference of a reviewer's feedback begins."""

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


def list_given(ids: Sequence[str], at: str) -> tuple[ServedEntry, ...]:
    """Return entries in the order in which they were served.

    Args:
        ids: the ids of the entries.
        at: the commit that the work was based on.
    """
    return tuple(
        ServedEntry(id=entry_id, rank=rank, at=at) for rank, entry_id in enumerate(ids, start=1)
    )


class Uses(msgspec.Struct, frozen=True):
    """The uses of entries by a change.

    Attributes:
        given: entries that its work was served, in order.
        used: entries that it says it used.
        restated: entries that its learnings say again.
        confirmed: entries that people confirmed.
        held_out: marks of its sessions that were served nothing, for comparison.
    """

    given: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()
    restated: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    held_out: tuple[str, ...] = ()

    @property
    def reinforced(self) -> frozenset[str]:
        """The entries whose count goes up for this work."""
        return self.used | self.restated | self.confirmed

    @property
    def ignored(self) -> frozenset[str]:
        """The served entries that the work did not use.

        Empty if the work names no used entry: then it may have used any of them.
        """
        return frozenset(self.given) - self.reinforced if self.used else frozenset()


class EpisodeWriter:
    """Notes an episode for each change, unless an earlier run did.

    Only an episode with something that git does not have is written. The others are derived from
    history wherever they are read (`memory.git_episodes`).

    Attributes:
        tellings: the new episodes and amendments of this run, which are written.
        derived: what git says of the changes of this run, oldest first.
        problem: why the derived episodes of earlier runs are missing; "" if they are not needed.
    """

    def __init__(self, run: RecordRun, files: EpisodeFiles, deleted: DeletedEpisodes) -> None:
        """Create a writer.

        Args:
            run: the state that the parts of the run share.
            files: what earlier runs wrote.
            deleted: the episodes that people deleted, which stay deleted.
        """
        known = files.written.tellings
        self._run = run
        self._files = files
        self._deleted = deleted
        self.tellings: list[EpisodeRecord] = []
        self.derived: list[Episode] = []
        self.problem = ""
        self._written = {episode.id: episode for episode in combine(known)}
        self._written_ids = {telling.id for telling in known}
        self._unwritten: list[Episode] = []
        self._amendments_by_path = {
            telling_path(telling): telling for telling in known if isinstance(telling, Amendment)
        }
        self._first_outcomes: dict[str, Outcome] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._reverted: set[str] = set()
        self._reverted_at: dict[str, datetime] = {}

    @cached_property
    def episodes(self) -> dict[str, Episode]:
        """The episodes of earlier runs and of this one, by id.

        Those of earlier runs are derived when this is first read, which many runs do not need.
        """
        base = self._run.base
        known = add_derived(self._run.workspace, self._files, base.sha)
        self.problem = known.problem
        episodes = {episode.id: episode for episode in combine(known.tellings)}
        for telling in known.tellings:
            if isinstance(telling, Episode):
                self._first_outcomes.setdefault(telling.id, telling.outcome)
        for episode in episodes.values():
            self._outcomes.setdefault(episode.id, episode.outcome)
        for episode in self._unwritten:
            self._note(episode, episodes)
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
        """Return the plan's records of changes in this run that get no file.

        Args:
            recorded_commits: changes that earlier runs have read, which are left out.
        """
        count = 0
        removed: list[str] = []
        for episode in self._unwritten:
            named = distinguish_id(episode, self._written.get(episode.id))
            if named.id in self._deleted.of_range:
                removed.append(named.id)
            elif episode.action.commit not in recorded_commits:
                count += 1
        return Unwritten(count, self._stage, tuple(removed))

    @property
    def _stage(self) -> str:
        return self._run.phases.get("") or ""

    def add_merged(
        self, merged: MergedChange, gathered: Gathered, uses: Uses, judged: Sequence[Judged]
    ) -> None:
        """Add the episode of a merged change.

        Changes of bots, of memory alone, and of a class that teaches nothing get none, unless the
        last says something of entries, of review or of earlier work. Feedback that reviewers gave
        by command is kept in any case.
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
        """Add the episode of a request that was closed without a merge.

        Requests of strangers get none, because anyone can open one.
        """
        commands = tuple(self.list_commands(request))
        if is_outside(request, request.permission):
            self._add_feedback(commands)
            return
        closed_at = (request.closed_at or request.created_at).astimezone(UTC)
        work = MergedWork(
            ref=format_work_ref(request.number, ""),
            at=closed_at,
            served=frozenset(uses.given),
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
            retrieved=list_given(uses.given, ""),
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
        times: Mapping[str, datetime],
        parts: Mapping[str, str],
    ) -> None:
        """Amend the episodes of work that was reverted, and of work that was restored.

        Args:
            reverts: the reverts, the oldest first.
            refused: false claims of outsiders, whose messages alone would mislead.
            times: when each was committed, by shortened id.
            parts: the tip of the merged change that brought each, by shortened id.
        """
        for revert in reverts:
            if not _is_taken_back_in_same_change(revert, reverts, parts):
                reverted_at = times[revert.sha].astimezone(UTC)
                self._reverted |= revert.undoes
                self._reverted -= revert.restores
                self._amend_reverted(revert, reverted_at)
                self._amend_restored(revert, reverted_at)
        for revert in refused:
            for episode in self._find_episodes(revert.undoes):
                outcome = self._outcomes[episode.id]
                text = f"Not reverted in {revert.label}, which says so."
                self._amend(
                    make_amendment(times[revert.sha], episode.id, outcome=outcome, text=text)
                )

    def _amend_reverted(self, revert: Revert, reverted_at: datetime) -> None:
        """Amend the episodes of work that a revert took back."""
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
        """Amend the episodes of work that a revert of a revert restored."""
        for episode in self._find_episodes(revert.restores):
            first_outcome = self._first_outcomes[episode.id]
            if self._outcomes[episode.id] == first_outcome:
                continue
            self._outcomes[episode.id] = first_outcome
            # Of two amendments of one moment the worse outcome counts: this is a second later.
            reverted_at = self._reverted_at.get(episode.id, restored_at)
            at = max(restored_at, reverted_at + timedelta(seconds=1))
            text = f"Brought back in {revert.label}."
            self._amend(make_amendment(at, episode.id, outcome=first_outcome, text=text))

    def list_confirmed(self, paths: Iterable[str], request: PullRequest | None) -> frozenset[str]:
        """Return the entries that people confirm.

        They do so by a command in a review, or in a feedback file.

        Args:
            paths: the files that the change touched.
            request: the request of the change.
        """
        confirmed: set[str] = set()
        for path in paths:
            amendment = self._amendments_by_path.get(path)
            if amendment is not None:
                confirmed |= {
                    feedback.id
                    for feedback in amendment.feedback
                    if feedback.kind == "confirmed"
                    and feedback.by != BY_FACTS
                    and not feedback.ref.startswith(REVIEW)
                }
        commands = self.list_commands(request)
        confirmed |= {feedback.id for feedback in commands if feedback.kind == "confirmed"}
        return frozenset(confirmed)

    def list_commands(self, request: PullRequest | None) -> Iterator[Feedback]:
        """Yield what people with write access say of entries by `/memory …` in reviews."""
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
        """Return the episode of a merged change: what git says, the sessions, and the request."""
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
        base = next(iter(own[0].parents), "")[:SHA_WIDTH]
        branch = request.branch if request else find_branch(merged.tip.message)
        action = replace(derived.action, pr=number, tools=_list_tools(gathered.events))
        episode = replace(
            derived,
            id=name_change(number, sha),
            context=self._describe_context(branch, gathered, uses.held_out),
            retrieved=list_given(uses.given, base),
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
        """Return the feedback on entries that follows from the facts of a change.

        That is which entries it corrected, of those it used, and which it was about, of those it
        was served.
        """
        tip = merged.tip
        places = self._run.draft.by_id
        changed: set[str] = set()
        for event in events:
            if REQUESTED in event.labels:
                changed |= set(event.paths)
        corrected = {
            entry_id
            for entry_id in uses.used
            if entry_id in places and _is_about(places[entry_id], changed)
        }
        touched: frozenset[str] = frozenset()
        served = [places[entry_id].entry for entry_id in uses.given if entry_id in places]
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
        joins = gathered.joins if gathered else ()
        session_keys = [join.id for join in joins if join.kind == "session"]
        sessions = list_safe_names(session_keys, MAX_SESSIONS)
        agents = {key.partition(":")[0] for key in sessions}
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

        A change is named by its tip or its request, or by its commits if all of them are reverted.

        Args:
            names: shortened ids and requests (`pr:128`), as in `lifecycle.reverts`.
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
        reverted = self._reverted | names
        merges: set[str] = set()
        for sha in sorted(name for name in names if ":" not in name)[:MAX_SEARCHED]:
            containing = find_containing_merge(repo, sha, base)
            if containing and reverted.issuperset(sha[:SHA_WIDTH] for sha in containing.merged):
                merges.add(containing.merge)
        return [episode for episode in merged if episode.action.commit in merges]

    def _add(self, episode: Episode) -> None:
        """Add an episode that is written, unless an earlier run noted it."""
        named = distinguish_id(episode, self.episodes.get(episode.id))
        if named.id in self.known_ids:
            return
        self._note(named, self.episodes)
        self._written[named.id] = named
        self._written_ids.add(named.id)
        self.tellings.append(named)
        self._amend_declined(named)

    def _add_unwritten(self, episode: Episode) -> None:
        """Add an episode that git's history gives, unless its change has a file."""
        commit = episode.action.commit
        if commit in self._written_commits:
            return
        self._unwritten.append(episode)
        if "episodes" in self.__dict__:
            self._note(episode, self.episodes)
        self._amend_declined(episode)

    @cached_property
    def _written_commits(self) -> frozenset[str]:
        """The commits whose episode an earlier run wrote."""
        return frozenset(episode.action.commit for episode in self._written.values())

    def _note(self, episode: Episode, episodes: dict[str, Episode]) -> None:
        """Add an episode to those that later changes may revert."""
        named = distinguish_id(episode, episodes.get(episode.id))
        if named.id in episodes or named.id in self._deleted.of_range:
            return
        episodes[named.id] = named
        self._first_outcomes[named.id] = named.outcome
        self._outcomes[named.id] = named.outcome

    def _amend_declined(self, episode: Episode) -> None:
        """Amend the episode of a request that was declined before and is merged now."""
        declined = self._written.get(f"pr-{episode.action.pr}")
        if declined is not None and episode.action.commit and not declined.action.commit:
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
        if amendment.id not in self._written_ids | self._deleted.all:
            self._written_ids.add(amendment.id)
            self.tellings.append(amendment)


def _adds_nothing(episode: Episode, derived: Episode) -> bool:
    """Return whether git has all that consumers read of an episode.

    Its request may say more in its text and labels, which are not copied.
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
    revert: Revert, reverts: Sequence[Revert], parts: Mapping[str, str]
) -> bool:
    """Return whether a later revert of the same merged change undoes a revert."""
    part = parts.get(revert.sha)
    if not part:
        return False
    return any(part == parts.get(later.sha) and revert.sha in later.undoes for later in reverts)


def _find_outcome(paths: Sequence[str], events: Iterable[Event]) -> Outcome:
    """Return the outcome of a merged change when it was merged."""
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
    """Return how much an episode matters, from 0 to 1."""
    least = SOLVED if outcome == "partial" else ROUTINE_VALENCE
    learned = [
        candidate.candidate.importance
        for candidate in judged
        if candidate.verdict in ("written", "restates")
    ]
    return max([least, *learned])


def _is_about(place: Located, changed: set[str]) -> bool:
    """Return whether an entry is about one of the changed files.

    It is about the files that it cites, and about the directory whose memory it is in.
    """
    anchors = [parse_anchor(cite) for cite in place.entry.cites]
    paths = {anchor.path for anchor in anchors if anchor}
    if place.scope.name == "team" and place.scope.where:
        paths.add(place.scope.where)
    return bool(changed) and covers_changed_path(paths, changed)
