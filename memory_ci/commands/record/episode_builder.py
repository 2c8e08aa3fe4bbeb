"""The making of episodes: the record of one change from git, its sessions and its pull request.

Episodes quote merged commits, and what members wrote in the pull request; words of outsiders that
are not in the history are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC

from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.commands.record.gatherer import Gathered, RecordRun
from memory_ci.commands.record.uses import Uses
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import read_added_lines
from memory_ci.lifecycle.episodes import (
    MergedWork,
    covers_changed_path,
    derive_feedback,
    derive_situation,
    find_commands,
)
from memory_ci.lifecycle.reinforcement import find_touched
from memory_ci.lifecycle.relations import find_id
from memory_ci.memory.commit_texts import find_start
from memory_ci.memory.eligible import list_prose, own_commits, title_of
from memory_ci.memory.episode_texts import (
    MERGED_AS,
    list_paths,
    list_safe_names,
    make_safe,
    name_branch,
    render_episode_text,
)
from memory_ci.memory.git_episodes import (
    ROUTINE_VALENCE,
    list_trusted_commits,
    name_change,
)
from memory_ci.records.candidate import Judged
from memory_ci.records.entry import Located
from memory_ci.records.episode import (
    Action,
    Episode,
    Feedback,
    Outcome,
    ServedEntry,
)
from memory_ci.records.event import Event
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.names import SHA_WIDTH, format_work_ref

REVIEW = "review:"
"""Prefix of the source of feedback from a review: `review:128#4`."""

REQUESTED = ("outcome", "requested-then-made")
"""The label of an event: a change was requested in review, and made."""

MAX_TOOLS = 12
MAX_SESSIONS = 3
"""Tools and sessions that an episode names."""

DECLINED = "Closed without a merge."

DETOUR_VALENCE = 0.6
"""How much an episode of an error or a detour matters (the rubric of importance)."""


class EpisodeBuilder:
    """A maker of the episodes of single changes, each by the facts of that change alone."""

    def __init__(self, run: RecordRun) -> None:
        """Create a builder for the changes of a run."""
        self._run = run

    @property
    def stage(self) -> str:
        """The stage of the whole project that the configuration names, such as `beta`, or ""."""
        return self._run.phases.get("") or ""

    def build_merged(
        self,
        derived: Episode,
        merged: MergedChange,
        gathered: Gathered,
        uses: Uses,
        judged: Sequence[Judged],
    ) -> Episode:
        """Return the episode of a merged change from git, its sessions and its pull request.

        Its valence says how much it matters, from 0 to 1.

        Args:
            derived: the episode as git's history alone gives it.
            merged: the change.
            gathered: its sessions and its pull request.
            uses: the entries that it was served and used.
            judged: the candidates for entries, with their verdicts.
        """
        request = gathered.request
        commits = own_commits(merged)
        # A number in a message may be an issue's or that of a request that was not merged.
        number = merged.number
        if request is not None:
            number = request.number if request.state == "merged" else None
        ref = format_work_ref(number, merged.tip.sha)
        paths = list_paths(merged, commits)
        outcome = _find_outcome(paths, gathered.events)
        facts = self._find_facts(merged, gathered.events, uses, ref, paths)
        branch = request.branch if request else find_branch(merged.tip.message)
        episode = replace(
            derived,
            id=name_change(number, merged.tip.sha),
            context=self._describe_context(branch, gathered, uses.held_out),
            retrieved=_list_served(uses.served, _first_parent(commits[0])),
            used=tuple(sorted(uses.used)),
            action=replace(derived.action, pr=number, tools=_list_tools(gathered.events)),
            outcome=outcome,
            valence=_measure_valence(outcome, judged),
            feedback=(*derive_feedback(facts), *self.list_commands(request)),
        )
        if request is None:
            return episode
        return self._add_request_text(episode, merged, request, gathered.events)

    def _add_request_text(
        self,
        episode: Episode,
        merged: MergedChange,
        request: PullRequest,
        events: Iterable[Event],
    ) -> Episode:
        """Return an episode with the labels and the text of its pull request as well."""
        config = self._run.workspace.config.extraction
        title = make_safe(title_of(merged))
        prose = list_prose(list_trusted_commits(config, merged, events))
        labels = list_safe_names(request.labels)
        return replace(
            episode,
            situation=derive_situation(title, episode.action.files, labels),
            text=render_episode_text(title, prose, request, MERGED_AS[episode.outcome]),
        )

    def build_declined(self, request: PullRequest, uses: Uses) -> Episode:
        """Return the episode of a pull request that was closed without a merge.

        It is a failure if the request had commits; otherwise nothing was tried.
        """
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
        return Episode(
            id=f"pr-{request.number}",
            occurred_at=closed_at,
            situation=derive_situation(title, list_safe_names(reviewed_paths), labels),
            context=self._describe_context(request.branch),
            retrieved=_list_served(uses.served, ""),
            used=tuple(sorted(uses.used)),
            action=Action(pr=request.number),
            outcome="failure" if request.commits else "neutral",
            valence=DETOUR_VALENCE,
            feedback=(*derive_feedback(work), *self.list_commands(request)),
            text=render_episode_text(title, (), request, DECLINED),
        )

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

    def _find_facts(
        self,
        merged: MergedChange,
        events: Iterable[Event],
        uses: Uses,
        ref: str,
        paths: Collection[str],
    ) -> MergedWork:
        """Return the facts of a change from which feedback on entries is derived.

        These are the entries that the agent was served and used; among them those whose code a
        reviewer asked to change, and those that have a file or a name in common with the change.

        Args:
            merged: the change.
            events: its commits, reviews and sessions.
            uses: the entries that it was served and used.
            ref: its name in feedback: `pr:128` or a commit.
            paths: the files that it touched.
        """
        tip = merged.tip
        located_by_id = self._run.draft.by_id
        requested_paths: set[str] = set()
        for event in events:
            if REQUESTED in event.labels:
                requested_paths |= set(event.paths)
        corrected: set[str] = set()
        for entry_id in uses.used:
            if entry_id in located_by_id and _is_about(located_by_id[entry_id], requested_paths):
                corrected.add(entry_id)
        touched: frozenset[str] = frozenset()
        served = []
        for entry_id in uses.served:
            if entry_id in located_by_id:
                served.append(located_by_id[entry_id].entry)
        if served:
            repo, start = self._run.workspace.repo, find_start(merged)
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
            served=uses.ignored,  # Feedback on used entries follows from `used`.
            used=uses.used,
            corrected=frozenset(corrected),
            touched=touched,
        )

    def _describe_context(
        self, branch: str, gathered: Gathered | None = None, held_out: Iterable[str] = ()
    ) -> dict[str, str]:
        """Return the context of an episode: its branch, agents, sessions and project stage.

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
            "stage": self.stage,
        }
        return {key: value for key, value in context.items() if value}


def _list_served(ids: Sequence[str], at: str) -> tuple[ServedEntry, ...]:
    """Return the entries that an agent was shown, ranked in the order of their ids.

    Args:
        ids: the ids of the entries.
        at: the commit that the work was based on.
    """
    return tuple(
        ServedEntry(id=entry_id, rank=rank, at=at) for rank, entry_id in enumerate(ids, start=1)
    )


def _first_parent(commit: Commit) -> str:
    """Return the shortened id of a commit's first parent, "" for the first commit of history."""
    return commit.parents[0][:SHA_WIDTH] if commit.parents else ""


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


def _measure_valence(outcome: Outcome, judged: Sequence[Judged]) -> float:
    """Return how much an episode matters, from 0 to 1: as much as the best entry learned from it.

    Work that needed correction counts at least `DETOUR_VALENCE`, other work `ROUTINE_VALENCE`.
    """
    least = DETOUR_VALENCE if outcome == "partial" else ROUTINE_VALENCE
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
