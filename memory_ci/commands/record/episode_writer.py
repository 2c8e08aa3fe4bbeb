"""The episodes of a record run: one for each change, amended by what later changes say of it.

They are made of facts: commits, trailers, reviews. What they quote is what the merged commits say, and what members
wrote in the request: words of outsiders that are not in the history are no part of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import MappingProxyType
from typing import Literal

import msgspec

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.commands.record.gatherer import Gathered, RecordRun
from memory_ci.evidence.content import redact
from memory_ci.evidence.trust import tier
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import read_added
from memory_ci.gitrepo.merges import find_bringer
from memory_ci.lifecycle.episodes import (
    BY_FACTS,
    MergedWork,
    combine,
    derive_feedback,
    find_commands,
    is_spoken_of,
    make_amendment,
    situation_of,
    undone_feedback,
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
from memory_ci.records.episode import Action, Amendment, Episode, Feedback, Given, Outcome, Telling
from memory_ci.records.event import Event
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.names import SHA_WIDTH, work_ref
from memory_ci.sources.reviews import is_outside
from memory_ci.store.episodes import telling_path
from memory_ci.text import shorten

REVIEW = "review:"  # How the reference of what a reviewer said begins.
REQUESTED = (
    "outcome",
    "requested-then-made",
)  # The label of an event: a change was requested, and made.
MAX_FILES, MAX_TOOLS, MAX_SESSIONS = 50, 12, 3
MAX_PATH, BRANCH_WIDTH = 300, 100
MAX_TEXT, MAX_REVIEW = (
    600,
    200,
)  # Characters of the text of an episode, and what of them reviewers may take up.
MAX_ASKED = 50  # Reverted commits of which git is asked how they came in.
KEPT_FOR = timedelta(
    days=30
)  # Work that is reverted later than this was a success for a while, and stays one.

MERGED_AS: Mapping[Outcome, str] = MappingProxyType(
    {
        "success": "Merged.",
        "partial": "Merged after requested changes.",
        "neutral": "Merged; no file was changed.",
    }
)
DECLINED = "Closed without a merge."

SOLVED, ROUTINE = 0.6, 0.4
"""How much an episode matters (the rubric of importance): an error or a detour; everyday work."""

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def list_given(ids: Sequence[str], at: str) -> tuple[Given, ...]:
    """Entries in the order in which they were given to work that stood at the commit `at`."""
    return tuple(Given(id=one, rank=rank, at=at) for rank, one in enumerate(ids, start=1))


def list_paths(merged: MergedChange, own: Sequence[Commit]) -> list[str]:
    """The files that a change touched, the most touched first."""
    commits = (merged.tip,) if merged.kind == "merge" and merged.tip.files else own
    counts = Counter(file.path for commit in commits for file in commit.files)
    return sorted(counts, key=lambda path: (-counts[path], path))


def keep_safe(texts: Iterable[str], limit: int = MAX_FILES) -> list[str]:
    """The first of these names (paths, labels, tools, keys) that may be kept as they are."""
    return list(
        islice((text for text in texts if len(text) <= MAX_PATH and safe(text) == text), limit)
    )


def tell(title: str, said: Iterable[str], request: PullRequest | None, ended: str) -> str:
    """The one line of an episode: what was said of the change, what reviewers asked for, and how it ended."""
    is_ours = request is not None and not is_outside(request, request.permission)
    own = list_paragraphs([request.body]) if request and is_ours else ()
    words = dict.fromkeys(
        line for line in map(safe, (*own, *list_paragraphs(said))) if line and line != title
    )
    asked: dict[str, None] = {}
    for review in request.reviews if request else ():
        # What members asked to be changed: a review that requests it, and what begins a thread at a line.
        is_member = (
            review.permission == "write"
            and not review.is_bot
            and request
            and review.author != request.author
        )
        if is_member and (
            review.state == "changes_requested" or (review.path and not review.in_reply_to)
        ):
            asked |= dict.fromkeys(
                islice(filter(None, map(safe, list_paragraphs([review.body]))), 1)
            )
    review_words = shorten(f"Asked in review: {'; '.join(asked)}", MAX_REVIEW) if asked else ""
    parts = (shorten(" ".join(words), MAX_TEXT - len(f" {review_words}. {ended}.")), review_words)
    text = " ".join(
        [*(part if part[-1] in ".!?…" else f"{part}." for part in parts if part), ended]
    )
    return ended if is_unsafe(text) else text


def safe(text: str) -> str:
    """Words that may stand in memory: without credentials, in one line; "" for what an agent must not be given."""
    line = " ".join(redact(text).text.split())
    return "" if CONTROL.search(line) or is_unsafe(line) else line


class Uses(msgspec.Struct, frozen=True):
    """The entries of a change: given to its work, used by it, said again by what was learned, confirmed by people; the
    marks of its sessions that were given nothing."""

    given: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()
    restated: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    reinforced_by: Literal["used", "given"] = "used"
    held_out: tuple[str, ...] = ()

    @property
    def reinforced(self) -> frozenset[str]:
        """The entries that count once more for the work; what was only given does by the seed's rule alone."""
        return (self.used | self.restated | self.confirmed).union(
            self.given if self.reinforced_by == "given" else ()
        )

    @property
    def ignored(self) -> frozenset[str]:
        """The entries that the work passed over. Work that names nothing as used may have used any of them."""
        return frozenset(self.given) - self.reinforced if self.used else frozenset()


class EpisodeWriter:
    """Writes an episode for each change. `tellings` are new; an episode that an earlier run wrote is not written again.
    `known` has what earlier runs wrote; `deleted` are ids of what a person deleted, which stays deleted.
    `episodes` are those of earlier runs and of this one, by id."""

    def __init__(self, run: RecordRun, known: Episodes, deleted: frozenset[str]) -> None:
        self._run = run
        self.tellings: list[Telling] = []
        self.episodes = {episode.id: episode for episode in combine(known.tellings)}
        self.known = {telling.id for telling in known.tellings} | deleted
        self._tellings = {telling_path(telling): telling for telling in known.tellings}
        self._merged_as = {
            told.id: told.outcome for told in known.tellings if isinstance(told, Episode)
        }
        self._outcomes = {episode.id: episode.outcome for episode in self.episodes.values()}
        self._reverted: set[str] = set()
        self._undone_at: dict[str, datetime] = {}

    def add_merged(
        self, merged: MergedChange, gathered: Gathered, uses: Uses, judged: Sequence[Judged]
    ) -> None:
        """The episode of a merged change; none of a bot's, of one that touched memory alone, or that teaches nothing.
        What reviewers said of entries by command counts in any case. A change of a class that teaches nothing does
        where it says something of entries, of review, or of earlier work."""
        commands = tuple(self.list_commands(gathered.request))
        if not is_work(self._run.workspace, merged):
            self._add_feedback(commands)
            return
        episode = self._merged_episode(merged, gathered, uses, judged, commands)
        is_amending = f"pr-{merged.number}" in self.episodes or any(find_reverts(merged.commits))
        is_learned = any(one.verdict == "written" for one in judged)
        said = (episode.retrieved, episode.used, episode.feedback, episode.outcome == "partial")
        if not is_routine(title_of(merged)) or is_amending or is_learned or any(said):
            self._add(episode)

    def add_declined(self, request: PullRequest, uses: Uses) -> None:
        """The episode of a request that was closed without a merge; none of a stranger's, which anyone could open."""
        commands = tuple(self.list_commands(request))
        if is_outside(request, request.permission):
            self._add_feedback(commands)
            return
        at = (request.closed_at or request.created_at).astimezone(UTC)
        ref = work_ref(request.number, "")
        work = MergedWork(
            ref=ref, at=at, given=frozenset(uses.given), used=uses.used, is_declined=True
        )
        title, reviewed = (
            safe(request.title),
            sorted({review.path for review in request.reviews if review.path}),
        )
        episode = Episode(
            id=f"pr-{request.number}",
            occurred_at=at,
            situation=situation_of(title, keep_safe(reviewed), keep_safe(request.labels)),
            context=self._context(request.branch),
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
        """Amend the episodes of reverted work, and of work that came back. `reverts` begin with the oldest; `refused`
        are false claims of outsiders, whose messages alone would mislead.

        By shortened ids, `times` says when each was committed, and `parts` which merged change brought it: work that
        one change reverts and restores was never gone.
        """
        for revert in reverts:
            part = parts.get(revert.sha)
            if part and any(
                part == parts.get(later.sha) and revert.sha in later.undoes for later in reverts
            ):
                continue  # nothing changed in the end
            at = times[revert.sha].astimezone(UTC)
            self._reverted |= revert.undoes
            self._reverted -= revert.restores
            for episode in self._told_of(revert.undoes):
                outcome: Outcome | None = (
                    "failure" if at - episode.occurred_at <= KEPT_FOR else None
                )
                self._outcomes[episode.id] = outcome or episode.outcome
                self._undone_at[episode.id] = at
                said = undone_feedback(
                    episode.used, work_ref(episode.action.pr, episode.action.commit), at
                )
                text = f"Reverted in {revert.label}."
                self._amend(
                    make_amendment(at, episode.id, outcome=outcome, feedback=said, text=text)
                )
            for episode in self._told_of(revert.restores):
                first = self._merged_as[episode.id]
                if self._outcomes[episode.id] != first:
                    self._outcomes[episode.id] = first
                    # Of one moment the worse outcome stands: what came after is told as later.
                    after = max(at, self._undone_at.get(episode.id, at) + timedelta(seconds=1))
                    text = f"Brought back in {revert.label}."
                    self._amend(make_amendment(after, episode.id, outcome=first, text=text))
        for revert in refused:
            for episode in self._told_of(revert.undoes):
                outcome, text = (
                    self._outcomes[episode.id],
                    f"Not reverted in {revert.label}, which says so.",
                )
                self._amend(
                    make_amendment(times[revert.sha], episode.id, outcome=outcome, text=text)
                )

    def list_confirmed(self, paths: Iterable[str], request: PullRequest | None) -> frozenset[str]:
        """The entries that people confirm: by a command in a review, or in a file of feedback among `paths`."""
        noted = (told for path in paths if isinstance(told := self._tellings.get(path), Amendment))
        by_hand = (
            one
            for told in noted
            for one in told.feedback
            if one.by != BY_FACTS and not one.ref.startswith(REVIEW)
        )
        return frozenset(
            said.id for said in (*by_hand, *self.list_commands(request)) if said.kind == "confirmed"
        )

    def list_commands(self, request: PullRequest | None) -> Iterator[Feedback]:
        """What people with write access said of entries by `/memory …` in a review or a comment."""
        for review in request.reviews if request else ():
            if review.permission != "write" or review.is_bot:
                continue
            for kind, prefix in find_commands(review.body):
                if (entry_id := find_id(self._run.draft.entries, prefix)) and request:
                    ref, at = f"{REVIEW}{request.number}#{review.id}", review.at.astimezone(UTC)
                    yield Feedback(id=entry_id, kind=kind, at=at, by=safe(review.author), ref=ref)

    def _merged_episode(
        self,
        merged: MergedChange,
        gathered: Gathered,
        uses: Uses,
        judged: Sequence[Judged],
        commands: tuple[Feedback, ...],
    ) -> Episode:
        request, title, own = gathered.request, safe(title_of(merged)), own_commits(merged)
        number = (
            merged.number
        )  # of an issue perhaps, or of a request that was not merged: the forge knows better
        if request is not None:
            number = request.number if request.state == "merged" else None
        paths, sha = list_paths(merged, own), merged.tip.sha
        files = keep_safe(paths)
        outcome: Outcome = "success" if paths else "neutral"
        if paths and any(REQUESTED in event.labels for event in gathered.events):
            outcome = "partial"
        learned = (
            one.candidate.importance for one in judged if one.verdict in ("written", "restates")
        )
        calls = Counter(
            event.tool for event in gathered.events if event.kind == "tool_call" and event.tool
        )
        tools = tuple(sorted(keep_safe((name for name, _ in calls.most_common()), MAX_TOOLS)))
        # What trusted authors say below their subjects: words of others are no part of memory.
        config = self._run.workspace.config.extraction
        told = [one for one in gathered.events if one.kind == "commit"]
        known = {
            one.origin.id
            for one in told
            if tier(one, config.trusted_authors, config.bot_authors) == "T0"
        }
        trusted = [commit for commit in (merged.tip, *merged.commits) if commit.sha in known]
        work = self._find_facts(merged, gathered.events, uses, work_ref(number, sha), paths)
        branch = request.branch if request else find_branch(merged.tip.message)
        return Episode(
            id=self._free_id(number, sha),
            occurred_at=merged.tip.committed_at.astimezone(UTC),
            situation=situation_of(title, files, keep_safe(request.labels if request else ())),
            context=self._context(branch, gathered, uses.held_out),
            retrieved=list_given(uses.given, next(iter(own[0].parents), "")[:SHA_WIDTH]),
            used=tuple(sorted(uses.used)),
            action=Action(pr=number, commit=sha, files=tuple(files), tools=tools),
            outcome=outcome,
            valence=max([*learned, SOLVED if outcome == "partial" else ROUTINE]),
            feedback=(*derive_feedback(work), *commands),
            text=tell(title, list_prose(trusted), request, MERGED_AS[outcome]),
        )

    def _find_facts(
        self,
        merged: MergedChange,
        events: Iterable[Event],
        uses: Uses,
        ref: str,
        paths: Collection[str],
    ) -> MergedWork:
        """What work says of entries by facts alone: which it corrected or was about, of those that it used or got."""
        draft, start, tip, repo = (
            self._run.draft,
            start_of(merged),
            merged.tip,
            self._run.workspace.repo,
        )
        places = draft.by_id
        changed = {path for event in events if REQUESTED in event.labels for path in event.paths}
        corrected: set[str] = set()
        for place in (places[one] for one in uses.used if changed and one in places):
            # It speaks of the files that it cites, and of the directory whose memory it stands in.
            files = {anchor.path for anchor in map(parse_anchor, place.entry.cites) if anchor}
            team = (
                {place.scope.where} if place.scope.name == "team" and place.scope.where else set()
            )
            corrected |= {place.entry.id} if is_spoken_of(files | team, changed) else set()
        given = [places[one].entry for one in uses.given if one in places]
        message = "\n".join(commit.message for commit in (tip, *merged.commits))
        return MergedWork(
            ref=ref,
            at=tip.committed_at,
            given=uses.ignored,
            used=uses.used,
            corrected=frozenset(corrected),
            touched=find_touched(
                given,
                draft.entries,
                paths,
                message,
                lambda: read_added(repo, start, tip.sha) if start else "",
            )
            if given
            else frozenset(),
        )

    def _free_id(self, number: int | None, sha: str) -> str:
        """`pr-128`; if another change has that number, the commit is added."""
        if number is None:
            return f"commit-{sha[:SHA_WIDTH]}"
        name = f"pr-{number}"
        known = self.episodes.get(name)
        return name if known is None or known.action.commit == sha else f"{name}-{sha[:SHA_WIDTH]}"

    def _context(
        self, branch: str, gathered: Gathered | None = None, held_out: Iterable[str] = ()
    ) -> dict[str, str]:
        joined = [join.id for join in gathered.joins if join.kind == "session"] if gathered else []
        sessions = keep_safe(joined, MAX_SESSIONS)
        found = {
            "branch": safe(shorten(branch, BRANCH_WIDTH)),
            "agent": ", ".join(sorted({key.partition(":")[0] for key in sessions})),
            "sessions": ", ".join(sessions),
            "holdout": ", ".join(keep_safe(held_out, MAX_SESSIONS)),
            "stage": self._run.phases.get("") or "",
        }
        return {key: value for key, value in found.items() if value}

    def _told_of(self, names: frozenset[str]) -> list[Episode]:
        """The episodes of merged changes that have one of these names, as `lifecycle.reverts` gives them. A change is
        named by its tip or its request. It is also meant where each of its commits is reverted."""
        merged = [episode for episode in self.episodes.values() if episode.action.commit]
        if found := [
            one for one in merged if names & {one.action.commit[:SHA_WIDTH], f"pr:{one.action.pr}"}
        ]:
            return found
        commits = sorted(name for name in names if ":" not in name)[:MAX_ASKED]
        bringers = (
            find_bringer(self._run.workspace.repo, name, self._run.base.sha) for name in commits
        )
        gone = self._reverted | names
        whole = {
            one.merge
            for one in bringers
            if one and gone.issuperset(sha[:SHA_WIDTH] for sha in one.brought)
        }
        return [episode for episode in merged if episode.action.commit in whole]

    def _add(self, episode: Episode) -> None:
        """Add an episode. If its request was declined before, that episode is amended: it was merged after all."""
        if episode.id in self.known:
            return
        self.episodes[episode.id] = episode
        self._merged_as[episode.id] = self._outcomes[episode.id] = episode.outcome
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
            self._amend(make_amendment(max(said.at for said in commands), "", feedback=commands))

    def _amend(self, told: Amendment) -> None:
        if told.id not in self.known:
            self.known.add(told.id)
            self.tellings.append(told)
