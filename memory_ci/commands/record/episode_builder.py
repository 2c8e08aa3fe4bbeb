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
from memory_ci.commands.record.change_uses import ChangeUses
from memory_ci.commands.record.gatherer import GatheredEvents, RecordRun
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
from memory_ci.memory.eligible import find_title, list_prose, list_work_commits
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

CHANGED_ON_REQUEST = ("outcome", "requested-then-made")
"""The label of an event: a change was requested in review, and made."""

MAX_TOOLS = 12
MAX_SESSIONS = 3
"""Tools and sessions that an episode names."""

DECLINED_OUTCOME = "Closed without a merge."

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
        git_episode: Episode,
        merged: MergedChange,
        gathered_events: GatheredEvents,
        change_uses: ChangeUses,
        judged_candidates: Sequence[Judged],
    ) -> Episode:
        """Return the episode of a merged change from git, its sessions and its pull request.

        An episode is the record of a change: its situation, the agent's context and tools, the
        entries that were served and used, the outcome, and a valence, which says how much it
        matters, from 0 to 1.

        Args:
            git_episode: the episode as git's history alone gives it.
            merged: the change.
            gathered_events: its sessions and its pull request.
            change_uses: the entries that it was served and used.
            judged_candidates: the candidates for entries, with their verdicts.
        """
        request = gathered_events.request
        number = _find_request_number(merged, request)
        branch = request.branch if request else find_branch(merged.tip.message)
        commits = list_work_commits(merged)
        paths = list_paths(merged, commits)
        outcome = _find_outcome(paths, gathered_events.events)
        ref = format_work_ref(number, merged.tip.sha)
        feedback_facts = self._find_feedback_facts(
            merged, gathered_events.events, change_uses, ref, paths
        )
        episode = replace(
            git_episode,
            id=name_change(number, merged.tip.sha),
            context=self._describe_context(branch, gathered_events, change_uses.held_out),
            retrieved=_list_served(change_uses.served_ids, _first_parent(commits[0])),
            used=tuple(sorted(change_uses.used_ids)),
            action=replace(
                git_episode.action, pr=number, tools=_list_tools(gathered_events.events)
            ),
            outcome=outcome,
            valence=_measure_valence(outcome, judged_candidates),
            feedback=(*derive_feedback(feedback_facts), *self.list_commands(request)),
        )
        if request is None:
            return episode
        return self._add_request_text(episode, merged, request, gathered_events.events)

    def _add_request_text(
        self,
        episode: Episode,
        merged: MergedChange,
        request: PullRequest,
        events: Iterable[Event],
    ) -> Episode:
        """Return an episode with the labels and the text of its pull request as well."""
        config = self._run.workspace.config.extraction
        title = make_safe(find_title(merged))
        prose = list_prose(list_trusted_commits(config, merged, events))
        labels = list_safe_names(request.labels)
        return replace(
            episode,
            situation=derive_situation(title, episode.action.files, labels),
            text=render_episode_text(title, prose, request, MERGED_AS[episode.outcome]),
        )

    def build_declined(self, request: PullRequest, change_uses: ChangeUses) -> Episode:
        """Return the episode of a pull request that was closed without a merge.

        Its outcome is a failure if the request had commits; otherwise nothing was tried. Its
        valence (how much it matters) is `DETOUR_VALENCE`.

        Args:
            request: the pull request.
            change_uses: the entries that it names in trailers.
        """
        closed_at = (request.closed_at or request.created_at).astimezone(UTC)
        work = MergedWork(
            ref=format_work_ref(request.number, ""),
            at=closed_at,
            served=frozenset(change_uses.served_ids),
            used=change_uses.used_ids,
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
            retrieved=_list_served(change_uses.served_ids, ""),
            used=tuple(sorted(change_uses.used_ids)),
            action=Action(pr=request.number),
            outcome="failure" if request.commits else "neutral",
            valence=DETOUR_VALENCE,
            feedback=(*derive_feedback(work), *self.list_commands(request)),
            text=render_episode_text(title, (), request, DECLINED_OUTCOME),
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

    def _find_feedback_facts(
        self,
        merged: MergedChange,
        events: Iterable[Event],
        change_uses: ChangeUses,
        ref: str,
        paths: Collection[str],
    ) -> MergedWork:
        """Return the facts of a change from which feedback on entries is derived.

        These are: entries that the agent used; used entries whose code a reviewer asked to change
        (`corrected`); entries that it was served and did not use (`served`); and served entries
        that have a file or a name in common with the change (`touched`).

        Args:
            merged: the change.
            events: its commits, reviews and sessions.
            change_uses: the entries that it was served and used.
            ref: its name in feedback: `pr:128` or a commit.
            paths: the files that it touched.
        """
        located_by_id = self._run.draft.by_id
        requested_paths: set[str] = set()
        for event in events:
            if CHANGED_ON_REQUEST in event.labels:
                requested_paths |= set(event.paths)
        corrected_ids: set[str] = set()
        for entry_id in change_uses.used_ids:
            located = located_by_id.get(entry_id)
            if located is not None and _is_about(located, requested_paths):
                corrected_ids.add(entry_id)
        return MergedWork(
            ref=ref,
            at=merged.tip.committed_at,
            served=change_uses.ignored,
            used=change_uses.used_ids,
            corrected=frozenset(corrected_ids),
            touched=self._find_touched_entries(merged, change_uses.served_ids, paths),
        )

    def _find_touched_entries(
        self, merged: MergedChange, served_ids: Iterable[str], paths: Collection[str]
    ) -> frozenset[str]:
        """Return the served entries that have a file or a name in common with a merged change.

        Args:
            merged: the change.
            served_ids: ids of the entries that the agent was served.
            paths: the files that the change touched.
        """
        located_by_id = self._run.draft.by_id
        served_entries = [
            located_by_id[entry_id].entry for entry_id in served_ids if entry_id in located_by_id
        ]
        if not served_entries:
            return frozenset()
        messages = [commit.message for commit in (merged.tip, *merged.commits)]

        def read_lines() -> str:  # One git process, which most changes can do without.
            start = find_start(merged)
            if not start:
                return ""
            return read_added_lines(self._run.workspace.repo, start, merged.tip.sha)

        return find_touched(
            served_entries, self._run.draft.entries, paths, "\n".join(messages), read_lines
        )

    def _describe_context(
        self,
        branch: str,
        gathered_events: GatheredEvents | None = None,
        held_out: Iterable[str] = (),
    ) -> dict[str, str]:
        """Return the context of an episode: its branch, agents, sessions and project stage.

        Args:
            branch: the branch of the work.
            gathered_events: the events of the work; None for a declined request, which names no
                sessions.
            held_out: marks of the sessions that were shown no entries, to compare sessions with
                and without memory.
        """
        sources = gathered_events.sources if gathered_events else ()
        session_keys = [source.id for source in sources if source.kind == "session"]
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


def _find_request_number(merged: MergedChange, request: PullRequest | None) -> int | None:
    """Return the number of the pull request that a merged change came from, None without one.

    Without a forge it is the number in the commit message, which may be an issue's.
    """
    if request is None:
        return merged.number
    return request.number if request.state == "merged" else None


def _list_served(ids: Sequence[str], base_sha: str) -> tuple[ServedEntry, ...]:
    """Return the entries that an agent was shown, ranked in the order of their ids.

    Args:
        ids: the ids of the entries.
        base_sha: the commit that the work was based on.
    """
    return tuple(
        ServedEntry(id=entry_id, rank=rank, at=base_sha)
        for rank, entry_id in enumerate(ids, start=1)
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
    is_changed_on_request = any(CHANGED_ON_REQUEST in event.labels for event in events)
    return "partial" if is_changed_on_request else "success"


def _list_tools(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the tools that the sessions called most, sorted by name."""
    calls = Counter(event.tool for event in events if event.kind == "tool_call" and event.tool)
    names = [name for name, _ in calls.most_common()]
    return tuple(sorted(list_safe_names(names, MAX_TOOLS)))


def _measure_valence(outcome: Outcome, judged_candidates: Sequence[Judged]) -> float:
    """Return how much an episode matters, from 0 to 1: as much as the best entry learned from it.

    Work that needed correction counts at least `DETOUR_VALENCE`, other work `ROUTINE_VALENCE`.
    """
    valences = [DETOUR_VALENCE if outcome == "partial" else ROUTINE_VALENCE]
    for judged in judged_candidates:
        if judged.verdict in ("written", "restates"):
            valences.append(judged.candidate.importance)
    return max(valences)


def _is_about(located: Located, changed_paths: set[str]) -> bool:
    """Return whether an entry is about one of the changed files.

    An entry is about the files that it cites, and about the directory whose memory it is in.
    """
    anchors = [parse_anchor(cite) for cite in located.entry.cites]
    paths = {anchor.path for anchor in anchors if anchor}
    if located.scope.name == "team" and located.scope.where:
        paths.add(located.scope.where)
    return bool(changed_paths) and covers_changed_path(paths, changed_paths)
