"""Episodes of a record run: one for each change, amended by what later changes say of it.

They are made of facts: commits, trailers, reviews. They quote merged commits, and what members
wrote in the request; words of outsiders that are not in the history are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import MappingProxyType

import msgspec

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.commands.record.gatherer import Gathered, RecordRun
from memory_ci.evidence.content import redact
from memory_ci.evidence.trust import classify_trust
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
from memory_ci.lifecycle.reverts import Revert, find_reverts
from memory_ci.memory.commit_texts import start_of
from memory_ci.memory.eligible import (
    is_routine,
    is_work,
    list_paragraphs,
    list_prose,
    own_commits,
    title_of,
)
from memory_ci.memory.episodes import Episodes
from memory_ci.memory.screening import is_unsafe
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
from memory_ci.sources.reviews import is_outside
from memory_ci.store.episodes import telling_path
from memory_ci.text import shorten

REVIEW = "review:"
"""How the reference of a reviewer's feedback begins."""

REQUESTED = ("outcome", "requested-then-made")
"""The label of an event: a change was requested in review, and made."""

MAX_FILES = 50
MAX_TOOLS = 12
MAX_SESSIONS = 3
"""Files, tools and sessions that an episode names."""

MAX_PATH = 300
BRANCH_WIDTH = 100
"""Characters of a path, and of a branch, that an episode holds."""

MAX_TEXT = 600
MAX_REVIEW = 200
"""Characters of an episode's text, and of the part of it that reviewers wrote."""

MAX_SEARCHED = 50
"""Reverted commits for which git is asked which merge brought them."""

KEPT_FOR = timedelta(days=30)
"""Work that is reverted later than this was a success for a while, and stays one."""

MERGED_AS: Mapping[Outcome, str] = MappingProxyType(
    {
        "success": "Merged.",
        "partial": "Merged after requested changes.",
        "neutral": "Merged; no file was changed.",
    }
)
DECLINED = "Closed without a merge."

SOLVED = 0.6
ROUTINE = 0.4
"""How much an episode matters (the rubric of importance): an error or a detour; everyday work."""

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def list_given(ids: Sequence[str], at: str) -> tuple[ServedEntry, ...]:
    """Return entries in the order in which they were served.

    Args:
        ids: the ids of the entries.
        at: the commit that the work was based on.
    """
    return tuple(
        ServedEntry(id=entry_id, rank=rank, at=at) for rank, entry_id in enumerate(ids, start=1)
    )


def list_paths(merged: MergedChange, own: Sequence[Commit]) -> list[str]:
    """Return the files that a change touched, the most touched first."""
    commits = (merged.tip,) if merged.kind == "merge" and merged.tip.files else own
    counts = Counter(file.path for commit in commits for file in commit.files)
    return sorted(counts, key=lambda path: (-counts[path], path))


def keep_safe(texts: Iterable[str], limit: int = MAX_FILES) -> list[str]:
    """Return the first names (paths, labels, tools, keys) that may be written unchanged."""
    safe_texts = (text for text in texts if len(text) <= MAX_PATH and safe(text) == text)
    return list(islice(safe_texts, limit))


def tell(title: str, said: Iterable[str], request: PullRequest | None, ended: str) -> str:
    """Return the text of an episode in one line.

    Args:
        title: the title of the change.
        said: texts of its commits.
        request: its request.
        ended: the sentence that says how it ended.
    """
    texts = list(said)
    is_by_member = request is not None and not is_outside(request, request.permission)
    paragraphs = list_paragraphs([request.body]) if request and is_by_member else ()
    lines = [safe(line) for line in (*paragraphs, *list_paragraphs(texts))]
    words = " ".join(dict.fromkeys(line for line in lines if line and line != title))
    review_words = _render_requested_changes(request) if request else ""
    room = MAX_TEXT - len(f" {review_words}. {ended}.")
    sentences: list[str] = []
    for part in (shorten(words, room), review_words):
        if part:
            sentences.append(part if part[-1] in ".!?…" else f"{part}.")
    text = " ".join([*sentences, ended])
    return ended if is_unsafe(text) else text


def _render_requested_changes(request: PullRequest) -> str:
    """Return what members asked to be changed in review, or "" if nothing.

    These are reviews that request changes, and comments that begin a thread at a line.
    """
    requested: dict[str, None] = {}
    for review in request.reviews:
        is_member = review.permission == "write" and not review.is_bot
        is_request = review.state == "changes_requested" or (review.path and not review.in_reply_to)
        if is_member and is_request and review.author != request.author:
            lines = [safe(line) for line in list_paragraphs([review.body])]
            first_line = next(filter(None, lines), "")
            if first_line:
                requested[first_line] = None
    if not requested:
        return ""
    return shorten(f"Asked in review: {'; '.join(requested)}", MAX_REVIEW)


def safe(text: str) -> str:
    """Return a text in one line without credentials, or "" if agents must not be served it."""
    line = " ".join(redact(text).text.split())
    return "" if CONTROL.search(line) or is_unsafe(line) else line


class Uses(msgspec.Struct, frozen=True):
    """What a change did with entries.

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
    """Writes an episode for each change, unless an earlier run wrote it.

    Attributes:
        tellings: the new episodes and amendments of this run.
        episodes: the episodes of earlier runs and of this one, by id.
        known: ids of episodes and amendments that exist or that a person deleted.
    """

    def __init__(self, run: RecordRun, known: Episodes, deleted: frozenset[str]) -> None:
        """Create a writer.

        Args:
            run: what the parts of the run share.
            known: what earlier runs wrote.
            deleted: ids of episodes that a person deleted, which stay deleted.
        """
        self._run = run
        self.tellings: list[EpisodeRecord] = []
        self.episodes = {episode.id: episode for episode in combine(known.tellings)}
        self.known = {telling.id for telling in known.tellings} | deleted
        self._tellings = {telling_path(telling): telling for telling in known.tellings}
        self._first_outcomes = {
            telling.id: telling.outcome
            for telling in known.tellings
            if isinstance(telling, Episode)
        }
        self._outcomes = {episode.id: episode.outcome for episode in self.episodes.values()}
        self._reverted: set[str] = set()
        self._reverted_at: dict[str, datetime] = {}

    def add_merged(
        self, merged: MergedChange, gathered: Gathered, uses: Uses, judged: Sequence[Judged]
    ) -> None:
        """Add the episode of a merged change.

        Changes of bots, of memory alone, and of a class that teaches nothing get none, unless the
        last says something of entries, of review or of earlier work. Feedback that reviewers gave
        by command is kept in any case.
        """
        commands = tuple(self.list_commands(gathered.request))
        if not is_work(self._run.workspace, merged):
            self._add_feedback(commands)
            return
        episode = self._build_episode(merged, gathered, uses, judged, commands)
        is_worth_keeping = (
            not is_routine(title_of(merged))
            or f"pr-{merged.number}" in self.episodes
            or any(find_reverts(merged.commits))
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
        title = safe(request.title)
        reviewed_paths = sorted({review.path for review in request.reviews if review.path})
        labels = keep_safe(request.labels)
        episode = Episode(
            id=f"pr-{request.number}",
            occurred_at=closed_at,
            situation=derive_situation(title, keep_safe(reviewed_paths), labels),
            context=self._describe_context(request.branch),
            retrieved=list_given(uses.given, ""),
            used=tuple(sorted(uses.used)),
            action=Action(pr=request.number),
            outcome="failure" if request.commits else "neutral",
            valence=SOLVED,
            feedback=(*derive_feedback(work), *commands),
            text=tell(title, (), request, DECLINED),
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
            telling = self._tellings.get(path)
            if isinstance(telling, Amendment):
                confirmed |= {
                    feedback.id
                    for feedback in telling.feedback
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
                    yield Feedback(id=entry_id, kind=kind, at=at, by=safe(review.author), ref=ref)

    def _build_episode(
        self,
        merged: MergedChange,
        gathered: Gathered,
        uses: Uses,
        judged: Sequence[Judged],
        commands: tuple[Feedback, ...],
    ) -> Episode:
        """Return the episode of a merged change."""
        request = gathered.request
        own = own_commits(merged)
        sha = merged.tip.sha
        # A number in a message may be an issue's or that of a request that was not merged.
        number = merged.number
        if request is not None:
            number = request.number if request.state == "merged" else None
        title = safe(title_of(merged))
        paths = list_paths(merged, own)
        files = keep_safe(paths)
        labels = keep_safe(request.labels if request else ())
        outcome = _find_outcome(paths, gathered.events)
        work = self._find_facts(merged, gathered.events, uses, format_work_ref(number, sha), paths)
        branch = request.branch if request else find_branch(merged.tip.message)
        base = next(iter(own[0].parents), "")[:SHA_WIDTH]
        prose = list_prose(self._list_trusted_commits(merged, gathered.events))
        return Episode(
            id=self._choose_id(number, sha),
            occurred_at=merged.tip.committed_at.astimezone(UTC),
            situation=derive_situation(title, files, labels),
            context=self._describe_context(branch, gathered, uses.held_out),
            retrieved=list_given(uses.given, base),
            used=tuple(sorted(uses.used)),
            action=Action(
                pr=number, commit=sha, files=tuple(files), tools=_list_tools(gathered.events)
            ),
            outcome=outcome,
            valence=_weigh(outcome, judged),
            feedback=(*derive_feedback(work), *commands),
            text=tell(title, prose, request, MERGED_AS[outcome]),
        )

    def _list_trusted_commits(self, merged: MergedChange, events: Iterable[Event]) -> list[Commit]:
        """Return the commits of trusted authors; words of others are no part of memory."""
        config = self._run.workspace.config.extraction
        trusted_shas = {
            event.origin.id
            for event in events
            if event.kind == "commit"
            and classify_trust(event, config.trusted_authors, config.bot_authors) == "T0"
        }
        return [commit for commit in (merged.tip, *merged.commits) if commit.sha in trusted_shas]

    def _find_facts(
        self,
        merged: MergedChange,
        events: Iterable[Event],
        uses: Uses,
        ref: str,
        paths: Collection[str],
    ) -> MergedWork:
        """Return what a change says of entries by facts alone.

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

    def _choose_id(self, number: int | None, sha: str) -> str:
        """Return `pr-128`, with the commit added if another change has that number."""
        if number is None:
            return f"commit-{sha[:SHA_WIDTH]}"
        name = f"pr-{number}"
        existing = self.episodes.get(name)
        if existing is None or existing.action.commit == sha:
            return name
        return f"{name}-{sha[:SHA_WIDTH]}"

    def _describe_context(
        self, branch: str, gathered: Gathered | None = None, held_out: Iterable[str] = ()
    ) -> dict[str, str]:
        joins = gathered.joins if gathered else ()
        session_keys = [join.id for join in joins if join.kind == "session"]
        sessions = keep_safe(session_keys, MAX_SESSIONS)
        agents = {key.partition(":")[0] for key in sessions}
        context = {
            "branch": safe(shorten(branch, BRANCH_WIDTH)),
            "agent": ", ".join(sorted(agents)),
            "sessions": ", ".join(sessions),
            "holdout": ", ".join(keep_safe(held_out, MAX_SESSIONS)),
            "stage": self._run.phases.get("") or "",
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
            bringer = find_containing_merge(repo, sha, base)
            if bringer and reverted.issuperset(sha[:SHA_WIDTH] for sha in bringer.brought):
                merges.add(bringer.merge)
        return [episode for episode in merged if episode.action.commit in merges]

    def _add(self, episode: Episode) -> None:
        """Add an episode; if its request was declined before, amend that episode."""
        if episode.id in self.known:
            return
        self.episodes[episode.id] = episode
        self._first_outcomes[episode.id] = episode.outcome
        self._outcomes[episode.id] = episode.outcome
        self.known.add(episode.id)
        self.tellings.append(episode)
        declined = self.episodes.get(f"pr-{episode.action.pr}")
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
        if amendment.id not in self.known:
            self.known.add(amendment.id)
            self.tellings.append(amendment)


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
    return tuple(sorted(keep_safe(names, MAX_TOOLS)))


def _weigh(outcome: Outcome, judged: Sequence[Judged]) -> float:
    """Return how much an episode matters, from 0 to 1."""
    least = SOLVED if outcome == "partial" else ROUTINE
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
