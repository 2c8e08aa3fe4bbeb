"""Health: how well the memory of a work tree or a commit is kept, from the tree and its history alone (docs/health.md).

Nothing is written: the index that is asked is made in memory, of the tree at hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from functools import lru_cache
from itertools import islice

import msgspec
from msgspec.structs import replace

from memory_ci.errors import MemoryCIError, RepositoryError, UsageError
from memory_ci.flows.anchors import judge_anchors
from memory_ci.flows.eligible import (
    count_judged,
    list_eligible,
    list_questions,
    name_question,
    names_of,
    names_of_episode,
    title_of,
    window_start,
)
from memory_ci.flows.episodes import load_episodes
from memory_ci.flows.lookup import list_past_ids
from memory_ci.flows.measure.closeness import Closeness, measure_closeness
from memory_ci.flows.past_index import PastMoment, find_moment
from memory_ci.flows.screening import screen
from memory_ci.flows.serve.anchor_verdicts import soften
from memory_ci.flows.serve.options import RetrieveOptions, make_sound
from memory_ci.flows.serve.ranking import find_ranked
from memory_ci.flows.serve.retrieve import find_overflow
from memory_ci.flows.sessions.nudge import find_nudge
from memory_ci.flows.workspace import Workspace, list_memory_files, load_files, readable_path, workspace_at
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.gitrepo.history import list_readers
from memory_ci.gitrepo.repo import find_commit, find_objects, list_foreign, read_tips
from memory_ci.index.builder import open_index, sync
from memory_ci.index.database import Index
from memory_ci.index.neighbours import LEAST_JACCARD, find_similar
from memory_ci.index.search import list_entries
from memory_ci.lifecycle.anchors import format_anchor, parse_anchor
from memory_ci.lifecycle.episodes import combine, count_usage
from memory_ci.lifecycle.health import (
    OFTEN,
    Jobs,
    Measured,
    find_alike,
    find_related,
    is_idle,
    is_in_force,
    names_of_source,
    score_age,
    score_coherence,
    score_coverage,
    score_efficiency,
    score_hits,
    score_indexed,
    score_linked,
    score_reachability,
    score_recency,
    score_tightness,
    score_truth,
    weigh,
)
from memory_ci.lifecycle.similarity import words_of
from memory_ci.lifecycle.verdicts import judge_entry
from memory_ci.records.anchor import VerdictKind
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode
from memory_ci.records.health import Health, MetricName, Profile
from memory_ci.records.history import MergedChange
from memory_ci.records.names import COMMIT_ORIGIN
from memory_ci.records.report import LoadedFile
from memory_ci.rendering.health import render_health_line, render_holdout
from memory_ci.rendering.table import printable
from memory_ci.text import plural

MAX_ASKED = 300
"""So many titles of the newest merged changes are asked of the index."""

MAX_NAMED = 50
"""So many of those that find nothing are named."""

MAX_ON_PAGE = 5_000
"""Of more entries than this the health is said when it is asked for, not on the page of every job."""

NO_COMMIT = "0" * 40
"""The id of no commit: what cites it is judged by the hash that it carries, if it does."""

MONTHS = 12
_coherence_of = lru_cache(maxsize=1)(score_coherence)
"""The same entries from one month to the next are compared once."""

NOT_ASKED = "nothing was merged in the last 90 days that could be asked for"


class HealthView(msgspec.Struct, frozen=True):
    """Where and when: the tree (None: the work tree, "": none, it was before the first commit), the commit whose
    history counts, the day that counts as today, the commit that is checked out under a work tree."""

    view: str | None
    tip: str | None
    today: date
    head: str | None = None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to measure at a place.

    `active` are the entries in force that the index holds; `known` the ids of all entries and of those that they
    replaced; `left_out` how many places of the files it does not hold. `silence` says why history cannot be read.
    """

    workspace: Workspace
    place: HealthView
    index: Index
    active: tuple[Located, ...]
    known: frozenset[str]
    left_out: int
    changes: tuple[MergedChange, ...]
    episodes: tuple[Episode, ...]
    silence: str

    @property
    def today(self) -> date:
        return self.place.today

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(place.entry for place in self.active)


def measure_health(
    workspace: Workspace,
    today: date,
    *,
    at: str | None = None,
    profile: Profile | None = None,
    environ: Mapping[str, str] | None = None,
) -> Health:
    """The health of the work tree today, or of a revision or a day (`2026-09-01`) with that day for today.

    `profile` None: what the configuration says. `environ` gives the crewship profile its embedder; None: none is asked.
    Raises RepositoryError: unknown-revision, shallow-clone.
    """
    if at is None:
        tips, head = read_tips(workspace.repo), find_commit(workspace.repo, "HEAD")
        # Of a branch of work the merged changes of the default branch count.
        place = HealthView(None, tips.commit if tips.work and tips.commit else head, today, head)
        return _measure(workspace, place, profile, environ)
    return _measure_moment(find_moment(workspace, at), profile, environ)


def health_history(
    workspace: Workspace,
    today: date,
    profile: Profile | None = None,
    environ: Mapping[str, str] | None = None,
    most: int = MONTHS,
) -> tuple[Health, ...]:
    """The health today and at the end of each month before, newest first, as far as commits go back.

    All are measured by one profile: `profile`, or what the configuration of today says.
    """
    return tuple(islice(_past(workspace, today, profile or workspace.config.health.profile, environ), most))


def find_branch_health(workspace: Workspace, ref: str, today: date) -> Health | None:
    """The health of a branch, for a page about something else.

    None if it cannot be measured, or if there is so much memory that a job would have to wait.
    """
    with suppress(MemoryCIError):
        tip = find_commit(workspace.repo, ref)
        if tip is not None:
            with _looking(workspace, HealthView(tip, tip, today)) as scene:
                return _judge(scene, None, None) if len(scene.active) <= MAX_ON_PAGE else None
    return None


def _past(
    workspace: Workspace, today: date, profile: Profile | None, environ: Mapping[str, str] | None
) -> Iterator[Health]:
    day = today
    with suppress(RepositoryError):  # a shallow clone tells as much as it holds
        while (moment := find_moment(workspace, day.isoformat())).commit is not None:
            yield _measure_moment(moment, profile, environ)
            day = day.replace(day=1) - timedelta(days=1)


def _measure_moment(moment: PastMoment, profile: Profile | None, environ: Mapping[str, str] | None) -> Health:
    place = HealthView(moment.commit or "", moment.commit, moment.today)
    return _measure(_as_then(moment), place, profile, environ)


def _as_then(moment: PastMoment) -> Workspace:
    """The workspace with the configuration of a moment, so that a commit has one health wherever it is asked.

    One that cannot be read any more is passed over for the present one, which also says who is sent the texts.
    """
    workspace = moment.workspace
    if moment.commit is None:
        return workspace
    with suppress(UsageError):
        then, now = workspace_at(workspace.repo, moment.commit).config, workspace.config.retrieve
        retrieve = replace(then.retrieve, embedder=now.embedder, embedder_model=now.embedder_model)
        return Workspace(workspace.repo, replace(then, retrieve=retrieve))
    return workspace


def _measure(
    workspace: Workspace, place: HealthView, profile: Profile | None, environ: Mapping[str, str] | None
) -> Health:
    with _looking(workspace, place) as scene:
        return _judge(scene, profile, environ)


def _judge(scene: Scene, profile: Profile | None, environ: Mapping[str, str] | None) -> Health:
    chosen = profile or scene.workspace.config.health.profile
    measured = _measure_git(scene) if chosen == "git" else _measure_crewship(scene, environ)
    return weigh(chosen, scene.today, scene.place.view, measured)


@contextmanager
def _looking(workspace: Workspace, place: HealthView) -> Iterator[Scene]:
    """The scene of a place; its index is open inside the block."""
    is_void = place.view == ""
    files = () if is_void else list_memory_files(workspace, place.view)
    held_back, screened = _read(workspace, files)
    changes, silence = _list_changes(workspace, place)
    with open_index(None) as index:
        sync(index, {readable_path(file): file.oid for file in files}, lambda paths: screened)
        held = list_entries(index)
        yield Scene(
            workspace=workspace,
            place=place,
            index=index,
            active=tuple(one for one in held if is_in_force(one.entry, place.today)),
            known=_find_known(workspace, place, [one.entry for one in held]),
            left_out=held_back,
            changes=changes,
            episodes=() if is_void else combine(load_episodes(workspace, place.view).tellings),
            silence=silence,
        )


def _read(workspace: Workspace, files: Iterable[TreeFile]) -> tuple[int, list[LoadedFile]]:
    """(how many places of the files no index holds: unreadable, or unsafe; the files as an index holds them)."""
    read = list(load_files(workspace, files))
    screened = list(map(screen, read))
    broken = {(one.path, one.line) for file in read for one in file.findings if one.level == "error"}
    refused = sum(len(before.entries) - len(after.entries) for before, after in zip(read, screened, strict=True))
    return len(broken) + refused, screened


def _find_known(workspace: Workspace, place: HealthView, entries: Sequence[Entry]) -> frozenset[str]:
    """The ids that are there, and of what these replaced the ids that some commit had; any other is only a word."""
    held = frozenset(entry.id for entry in entries)
    replaced = frozenset(older for entry in entries for older in entry.supersedes) - held
    pasts = (list_past_ids(workspace, head) for head in _list_heads(place)) if replaced else ()
    return held | (replaced & frozenset().union(*pasts))


def _list_heads(place: HealthView) -> list[str]:
    """The commits of whose history a place is: its own, and that of its branch where it is not merged yet."""
    own = place.view if place.view is not None else place.head
    return list(dict.fromkeys(filter(None, (own, place.tip))))


def _list_changes(workspace: Workspace, place: HealthView) -> tuple[tuple[MergedChange, ...], str]:
    if place.tip is None:
        return (), "there is no commit yet"
    try:
        return list_eligible(workspace, place.tip, place.today), ""
    except RepositoryError as error:
        return (), error.message.splitlines()[0]


# -- the profile "git"


def _measure_git(scene: Scene) -> dict[MetricName, Measured]:
    proven, truth = _judge_sources(scene)
    return {
        "truth": score_truth({entry.id: truth.get(entry.id) for entry in _newest(scene.entries)}),
        "recency": score_recency(scene.entries, scene.today, scene.workspace.config.prominence.decay),
        "coverage": _coverage(scene),
        "coherence": _coherence_of(scene.active),
        "efficiency": _efficiency(scene),
        "reachability": _reachability(scene, proven),
    }


def _coverage(scene: Scene) -> Measured:
    sources = frozenset().union(*map(names_of_source, scene.entries))
    names = sources | frozenset().union(*map(names_of_episode, scene.episodes))
    tip = scene.place.tip
    judged = count_judged(scene.workspace, tip, scene.changes, names) if tip and scene.changes else 0
    return score_coverage(judged, len(scene.changes), len(scene.active), scene.left_out, scene.silence)


def _efficiency(scene: Scene) -> Measured:
    ranked = [place for place in scene.active if place.scope.name != "institutional"]
    asked = _newest_asked(scene) if ranked else []
    empty = [change for change in reversed(asked) if not _finds(scene, change)]
    silence = scene.silence or (NOT_ASKED if ranked else "there is no entry that would be ranked")
    measured = score_efficiency(len(asked), len(empty), _count_jobs(scene), silence)
    usage = count_usage(scene.episodes)
    idle = [place.entry.id[:8] for place in ranked if is_idle(usage.get(place.entry.id))]
    said = f"; given {OFTEN} times or more and never used, to review: {', '.join(idle[:MAX_NAMED])}" if idle else ""
    missing = tuple(map(name_question, empty[:MAX_NAMED]))
    return measured._replace(missing=missing, basis=measured.basis + said + _overflow(scene))


def _overflow(scene: Scene) -> str:
    """What of institutional memory does not reach every job, "" where all of it does."""
    over = find_overflow(scene.index, scene.workspace.config, scene.today)
    named = ", ".join(norm.entry_id[:8] for norm in over[:MAX_NAMED] if norm.entry_id)
    room = scene.workspace.config.retrieve.institutional_max_chars
    return f"; {plural(len(over), 'norm')} over the {room} characters that every job is given: {named}" if over else ""


def _newest_asked(scene: Scene) -> list[MergedChange]:
    return list_questions(scene.workspace, scene.changes, scene.episodes)[-MAX_ASKED:]


def _finds(scene: Scene, change: MergedChange) -> bool:
    """Whether the title of a change finds an entry; what was learned from the change itself does not count."""
    options, config = RetrieveOptions(), scene.workspace.config
    asked = make_sound(options, config, scene.today)
    found = find_ranked(scene.index, config, title_of(change), asked, options, scene.today)
    own = names_of(change)
    return any(own.isdisjoint(names_of_source(hit.located.entry)) for hit in found.hits)


def _count_jobs(scene: Scene) -> Jobs:
    start = window_start(scene.today)
    given = [
        (frozenset(one.id for one in episode.retrieved), episode.used)
        for episode in scene.episodes
        if episode.retrieved and start < episode.occurred_at.date() <= scene.today
    ]
    return Jobs(len(given), sum(len(ids) for ids, _ in given), sum(len(ids & set(used)) for ids, used in given))


def _reachability(scene: Scene, proven: Set[str]) -> Measured:
    reached = find_related(scene.entries, scene.known) | proven
    left = frozenset(entry.id for entry in scene.entries) - reached
    reached |= find_alike(scene.entries, LEAST_JACCARD, left) if left else frozenset()
    lone = _list_lone(scene, reached)
    return score_reachability(len(scene.active) - len(lone), len(scene.active))._replace(missing=lone)


def _list_lone(scene: Scene, reached: Set[str]) -> tuple[str, ...]:
    """The ids of the entries that are not reached, newest first."""
    return tuple(entry.id for entry in _newest(scene.entries) if entry.id not in reached)


def _newest(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.created_at or date.min, entry.id), reverse=True)


def _judge_sources(scene: Scene) -> tuple[frozenset[str], dict[str, VerdictKind]]:
    """(the ids of entries that name a commit of this history, or cite code that is there; what the anchors of each say
    together, by id).

    A commit that only this clone still has, of a branch that is gone say, proves as little here as anywhere else.
    """
    if scene.place.tip is None:
        return frozenset(), {}
    named = {entry.id: _commits_of(entry) for entry in scene.entries}
    anchors = {cite: anchor for entry in scene.entries for cite in entry.cites if (anchor := parse_anchor(cite))}
    here = _list_merged(scene, frozenset().union(*named.values(), (anchor.commit for anchor in anchors.values())))
    unknown = {
        cite: format_anchor(replace(anchor, commit=NO_COMMIT))
        for cite, anchor in anchors.items()
        if anchor.commit not in here
    }
    active = [_recite(one, unknown) for one in scene.active]
    verdicts = judge_anchors(scene.workspace, active, scene.place.view)
    cited = {entry_id for (entry_id, _), verdict in verdicts.items() if verdict.kind not in ("gone", "unverifiable")}
    softened = {one.entry.id: soften(one.entry, verdicts) for one in active}
    truth = {entry_id: judge_entry(found) for entry_id, found in softened.items() if found}
    return frozenset(cited | {entry_id for entry_id, shas in named.items() if not shas.isdisjoint(here)}), truth


def _list_merged(scene: Scene, names: Set[str]) -> frozenset[str]:
    """Those of the names of commits that are in the history of the place, or of what counts as its branch."""
    repo, wanted = scene.workspace.repo, sorted(names)
    found = find_objects(repo, [f"{name}^{{commit}}" for name in wanted])
    shas = {name: sha for name, sha in zip(wanted, found, strict=True) if sha}
    heads = _list_heads(scene.place)
    foreign = frozenset(shas.values()).intersection(*(list_foreign(repo, shas.values(), head) for head in heads))
    return frozenset(name for name, sha in shas.items() if sha not in foreign)


def _recite(place: Located, others: Mapping[str, str]) -> Located:
    """The entry with other words for some of what it cites."""
    if others.keys().isdisjoint(place.entry.cites):
        return place
    cites = tuple(others.get(cite, cite) for cite in place.entry.cites)
    return replace(place, entry=replace(place.entry, cites=cites))


def _commits_of(entry: Entry) -> frozenset[str]:
    """The commits that an entry comes from, and those that its quotes are taken from."""
    origins = (entry.source or "", *(quote.partition(" ")[0] for quote in entry.evidence))
    return frozenset(sha for origin in origins for sha in re.findall(COMMIT_ORIGIN, origin))


# -- the profile "crewship"


def _measure_crewship(scene: Scene, environ: Mapping[str, str] | None) -> dict[MetricName, Measured]:
    close = _measure_closeness(scene, environ)
    lone = _list_lone(scene, find_related(scene.entries, scene.known) | _find_linked(scene, close))
    return {
        "freshness": score_age(scene.entries, scene.today),
        "coverage": score_indexed(len(scene.active), scene.left_out),
        "coherence": score_tightness(close.near, close.silence),
        "efficiency": score_hits(close.hits, close.silence),
        "reachability": score_linked(len(scene.active) - len(lone), len(scene.active))._replace(missing=lone),
    }


def _find_linked(scene: Scene, close: Closeness) -> frozenset[str]:
    """The ids of entries that are similar to another: by their vectors, or by words where there are none."""
    if not close.near:
        return find_alike(scene.entries, LEAST_JACCARD)
    found = find_similar(scene.index, scene.active, words_of, statuses=("active",))
    pairs = zip(scene.active, found, strict=True)
    others = ((place, other.located) for place, similar in pairs for other in similar.near)
    return frozenset(place.entry.id for pair in others for place in pair)


def _measure_closeness(scene: Scene, environ: Mapping[str, str] | None) -> Closeness:
    if environ is None:
        return Closeness(silence="there are no vectors: no embedder was asked")
    questions = [title_of(change) for change in _newest_asked(scene)]
    return measure_closeness(scene.index, scene.workspace.config.retrieve, questions, environ)


def list_remarks(workspace: Workspace, ref: str, today: date) -> tuple[str, ...]:
    """The health of a branch, the nudge if one is due, and whether sessions are held out: what can be told of them."""
    here = workspace_at(workspace.repo, ref)
    health = find_branch_health(here, ref, today)
    holdout = render_holdout(here.config.retrieve.holdout)
    readers = ", ".join(f"{name} on {at:%Y-%m-%d}" for name, at in list_readers(here.repo, ref).items())
    seen = printable(f"Work that was given memory was last committed by {readers}.") if readers else ""
    return tuple(filter(None, (render_health_line(health) if health else "", find_nudge(here, ref), seen, holdout)))
