"""The chronicle of a record run: an episode of each change, and what later changes say of earlier ones.

Facts alone make it: commits, trailers, reviews. The words of strangers are no part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from memory_ci.evidence.redact import redact
from memory_ci.flows.draft import Draft
from memory_ci.flows.eligible import is_work, own_commits, title_of
from memory_ci.flows.episodes import Episodes
from memory_ci.flows.gather import Gathered
from memory_ci.flows.screening import is_unsafe
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.lifecycle.anchors import parse_anchor
from memory_ci.lifecycle.episodes import combine, make_amendment
from memory_ci.lifecycle.feedback import Work, derive_feedback, find_commands, is_spoken_of, undone_feedback
from memory_ci.lifecycle.reverts import SHA_WIDTH, Revert
from memory_ci.lifecycle.situation import situation_of, time_context
from memory_ci.records.candidate import Judged
from memory_ci.records.entry import Phase
from memory_ci.records.episode import Action, Amendment, Episode, Feedback, Given, Outcome, Telling
from memory_ci.records.event import Event
from memory_ci.records.forge import PullRequest
from memory_ci.records.history import Commit, MergedChange
from memory_ci.sources.reviews import is_outside
from memory_ci.text import shorten

GIVEN, USED = "Memory-Retrieved", "Memory-Used"
KEPT_FOR = timedelta(days=30)
"""Work that is reverted later than this was a success for a while, and stays one."""

MAX_FILES = 50
MAX_TOOLS = 12
TEXT_WIDTH = 200
BRANCH_WIDTH = 100

SOLVED, ROUTINE = 0.6, 0.4
"""How much an episode matters (the rubric of importance): an error or a detour; everyday work."""


class Uses(msgspec.Struct, frozen=True):
    """Entries by what became of them in a change: injected, named as used, and said again by what was learned."""

    given: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()
    restated: frozenset[str] = frozenset()


class Chronicle:
    """Tells one change after another. `tellings` are new; what an earlier run told is not told again."""

    def __init__(self, workspace: Workspace, known: Episodes, draft: Draft, phase: Phase | None) -> None:
        self._workspace, self._draft, self._phase = workspace, draft, phase
        self._episodes = {episode.id: episode for episode in combine(known.tellings)}
        self._known = {telling.id for telling in known.tellings}
        self._merged_as = {told.id: told.outcome for told in known.tellings if isinstance(told, Episode)}
        self.tellings: list[Telling] = []

    def tell_merged(self, merged: MergedChange, gathered: Gathered, uses: Uses, judged: Sequence[Judged]) -> None:
        """The episode of a merged change; none of a bot's, or of one that touched memory alone.

        What reviewers said of entries by command counts in any case.
        """
        commands = tuple(self._commands(gathered.request))
        if is_work(self._workspace, merged):
            self._tell(self._merged_episode(merged, gathered, uses, judged, commands))
        elif commands:
            self._amend(max(said.at for said in commands), "", feedback=commands)

    def tell_declined(self, request: PullRequest, uses: Uses) -> None:
        """The episode of a request that was closed without a merge; none of a stranger's, which anyone could open."""
        if is_outside(request, request.permission):
            return
        at = (request.closed_at or request.created_at).astimezone(UTC)
        ref = f"pr:{request.number}"
        work = Work(ref=ref, at=at, given=frozenset(uses.given), used=uses.used, is_declined=True)
        title = _safe(request.title)
        episode = Episode(
            id=f"pr-{request.number}",
            occurred_at=at,
            situation=situation_of(title, _reviewed(request), request.labels),
            context=self._context(at, request.branch),
            retrieved=_given(uses.given, ""),
            used=tuple(sorted(uses.used)),
            action=Action(pr=request.number),
            outcome="failure" if request.commits else "neutral",
            valence=SOLVED,
            feedback=(*derive_feedback(work), *self._commands(request)),
            text=_line(title, f"#{request.number}"),
        )
        self._tell(episode)

    def tell_reverts(self, reverts: Iterable[Revert], times: Mapping[str, datetime]) -> None:
        """What the reverts, oldest first, say of episodes; `times` is when each was committed, by shortened id."""
        for revert in reverts:
            at = times[revert.sha].astimezone(UTC)
            for episode in self._told_of(revert.undoes):
                self._undo(episode, revert, at)
            for episode in self._told_of(revert.restores):
                text = f"Brought back in {revert.label}."
                self._amend(at, episode.id, outcome=self._merged_as[episode.id], text=text)

    # -- parts

    def _merged_episode(
        self,
        merged: MergedChange,
        gathered: Gathered,
        uses: Uses,
        judged: Sequence[Judged],
        commands: tuple[Feedback, ...],
    ) -> Episode:
        request, title, own = gathered.request, _safe(title_of(merged)), own_commits(merged)
        paths = _paths(merged, own)
        outcome = _outcome(paths, gathered.events)
        ref = f"pr:{merged.number}" if merged.number is not None else f"commit:{merged.tip.sha[:SHA_WIDTH]}"
        work = Work(
            ref=ref,
            at=merged.tip.committed_at,
            given=frozenset(uses.given) - uses.restated,
            used=uses.used,
            corrected=self._corrected(uses.used, gathered.events),
        )
        return Episode(
            id=self._free_id(merged),
            occurred_at=merged.tip.committed_at.astimezone(UTC),
            situation=situation_of(title, paths, request.labels if request else ()),
            context=self._context(
                own[-1].authored_at, request.branch if request else find_branch(merged.tip.message), gathered
            ),
            retrieved=_given(uses.given, start[:SHA_WIDTH] if (start := next(iter(own[0].parents), "")) else ""),
            used=tuple(sorted(uses.used)),
            action=Action(
                pr=merged.number,
                commit=merged.tip.sha,
                files=tuple(path for path in paths if path.isprintable())[:MAX_FILES],
                tools=_tools(gathered.events),
            ),
            outcome=outcome,
            valence=_valence(judged, outcome),
            feedback=(*derive_feedback(work), *commands),
            text=_line(title, merged.label),
        )

    def _free_id(self, merged: MergedChange) -> str:
        """`pr-128`; of a second change with that number the commit tells them apart."""
        commit = merged.tip.sha[:SHA_WIDTH]
        if merged.number is None:
            return f"commit-{commit}"
        name = f"pr-{merged.number}"
        known = self._episodes.get(name)
        return name if known is None or known.action.commit in ("", merged.tip.sha) else f"{name}-{commit}"

    def _context(self, at: datetime, branch: str, gathered: Gathered | None = None) -> dict[str, str]:
        sessions = [join.id for join in gathered.joins if join.kind == "session"] if gathered else []
        found = {
            "branch": _safe(shorten(branch, BRANCH_WIDTH)),
            "agent": ", ".join(sorted({key.partition(":")[0] for key in sessions})),
            "sessions": ", ".join(sessions[:3]),
            "stage": self._phase or "",
            **time_context(at),
        }
        return {key: value for key, value in found.items() if value}

    def _corrected(self, used: Iterable[str], events: Iterable[Event]) -> frozenset[str]:
        """Of the used entries those that speak of a file in which a requested change was made."""
        changed = {
            path for event in events if ("outcome", "requested-then-made") in event.labels for path in event.paths
        }
        return frozenset(one for one in used if changed and is_spoken_of(self._places_of(one), changed))

    def _places_of(self, entry_id: str) -> frozenset[str]:
        """The files that an entry cites, and the directory whose memory it stands in."""
        place = self._draft.by_id.get(entry_id)
        if place is None:
            return frozenset()
        anchors = (parse_anchor(cite) for cite in place.entry.cites)
        team = {place.scope.where} if place.scope.name == "team" and place.scope.where else set()
        return frozenset({anchor.path for anchor in anchors if anchor} | team)

    def _commands(self, request: PullRequest | None) -> Iterator[Feedback]:
        """What people with write access said of entries by `/memory …` in a review or a comment."""
        for review in request.reviews if request else ():
            if review.permission != "write" or review.is_bot:
                continue
            for kind, prefix in find_commands(review.body):
                if (entry_id := self._resolve(prefix)) and request:
                    ref = f"review:{request.number}#{review.id}"
                    yield Feedback(
                        id=entry_id, kind=kind, at=review.at.astimezone(UTC), by=_safe(review.author), ref=ref
                    )

    def _resolve(self, prefix: str) -> str | None:
        fits = {entry.id for entry in self._draft.entries if entry.id.startswith(prefix)}
        return fits.pop() if len(fits) == 1 else None

    def _told_of(self, names: frozenset[str]) -> list[Episode]:
        """The episodes of merged changes that go by one of these names, as lifecycle.reverts gives them."""
        return [episode for episode in self._episodes.values() if names & _names_of(episode.action)]

    def _undo(self, episode: Episode, revert: Revert, at: datetime) -> None:
        ref = f"pr:{revert.label[1:]}" if revert.label.startswith("#") else f"commit:{revert.sha}"
        outcome: Outcome | None = "failure" if at - episode.occurred_at <= KEPT_FOR else None
        said = undone_feedback(episode.used, ref, at)
        self._amend(at, episode.id, outcome=outcome, feedback=said, text=f"Reverted in {revert.label}.")

    # -- telling

    def _tell(self, episode: Episode) -> None:
        """A new episode; of a request that was declined before and merged after all, what changed."""
        known = self._episodes.get(episode.id)
        if known is None:
            self._episodes[episode.id] = episode
            self._merged_as[episode.id] = episode.outcome
            self._known.add(episode.id)
            self.tellings.append(episode)
        elif episode.action.commit and not known.action.commit:
            text = f"Merged after all as {episode.action.commit[:SHA_WIDTH]}."
            self._amend(episode.occurred_at, known.id, outcome=episode.outcome, feedback=episode.feedback, text=text)

    def _amend(
        self,
        at: datetime,
        amends: str,
        *,
        outcome: Outcome | None = None,
        feedback: Iterable[Feedback] = (),
        text: str = "",
    ) -> None:
        told: Amendment = make_amendment(at, amends, outcome=outcome, feedback=feedback, text=text)
        if told.id not in self._known:
            self._known.add(told.id)
            self.tellings.append(told)


def list_uses(texts: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the ids that messages say were given, those that they say were used), as they are written, in order."""
    given: dict[str, None] = {}
    used: dict[str, None] = {}
    for text in texts:
        for key, value in find_trailers(text, (GIVEN, USED)):
            (given if key == GIVEN else used).update(dict.fromkeys(split_ids(value)))
    return tuple(given), tuple(used)


def _given(ids: Sequence[str], at: str) -> tuple[Given, ...]:
    return tuple(Given(id=one, rank=rank, at=at) for rank, one in enumerate(ids, start=1))


def _paths(merged: MergedChange, own: Sequence[Commit]) -> list[str]:
    """The files that a change touched, the most touched first."""
    commits = (merged.tip,) if merged.kind == "merge" and merged.tip.files else own
    counts = Counter(file.path for commit in commits for file in commit.files)
    return sorted(counts, key=lambda path: (-counts[path], path))


def _names_of(action: Action) -> set[str]:
    """By what a revert would name the work; what was declined has nothing to revert."""
    if not action.commit:
        return set()
    return {action.commit[:SHA_WIDTH], *([f"pr:{action.pr}"] if action.pr is not None else [])}


def _reviewed(request: PullRequest) -> list[str]:
    return sorted({review.path for review in request.reviews if review.path})


def _tools(events: Iterable[Event]) -> tuple[str, ...]:
    counts = Counter(event.tool for event in events if event.kind == "tool_call" and event.tool)
    names = [name for name, _ in counts.most_common(MAX_TOOLS)]
    return tuple(sorted(name for name in names if name.isprintable() and not is_unsafe(name)))


def _outcome(paths: Sequence[str], events: Iterable[Event]) -> Outcome:
    if not paths:
        return "neutral"
    is_detour = any(("outcome", "requested-then-made") in event.labels for event in events)
    return "partial" if is_detour else "success"


def _valence(judged: Iterable[Judged], outcome: Outcome) -> float:
    learned = [one.candidate.importance for one in judged if one.verdict in ("written", "restates")]
    return max([*learned, SOLVED if outcome == "partial" else ROUTINE])


def _line(title: str, label: str) -> str:
    return shorten(f"{title} ({label})" if title else label, TEXT_WIDTH)


def _safe(text: str) -> str:
    """Words that may stand in memory: without credentials, in one line; "" for what an agent must not be given."""
    line = " ".join(redact(text).text.split())
    return line if line.isprintable() and not is_unsafe(line) else ""
