"""Health: how well the memory of a work tree or a commit is kept, from the tree and its history alone (docs/health.md).

Nothing is written: the index that is asked is made in memory, of the tree at hand.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import format_anchor, parse_anchor
from memory_ci.anchors.verdicts import judge_entry
from memory_ci.commands.health import metrics
from memory_ci.commands.health.metrics import Jobs, Measured
from memory_ci.commands.health.records import Health, MetricName, Profile
from memory_ci.commands.health.text import render_health_line, render_holdout
from memory_ci.commands.retrieve.anchor_verdicts import soften
from memory_ci.commands.retrieve.options import RetrieveOptions, make_sound
from memory_ci.commands.retrieve.ranking import find_ranked
from memory_ci.commands.retrieve.retrieve import find_overflow
from memory_ci.errors import EngineError, MemoryCIError, RepositoryError, UsageError
from memory_ci.evidence.content import redact
from memory_ci.findings import printable
from memory_ci.gitrepo.history import list_readers
from memory_ci.gitrepo.repo import find_commit, find_objects, list_foreign, read_tips
from memory_ci.lifecycle.episodes import combine, count_usage
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.lifecycle.similarity import words_of
from memory_ci.lifecycle.utility import OFTEN, is_idle
from memory_ci.memory import eligible
from memory_ci.memory.cites import judge_anchors
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.past_index import PastMoment, find_moment
from memory_ci.memory.screening import screen
from memory_ci.memory.workspace import (
    Workspace,
    list_memory_files,
    load_files,
    readable_path,
    workspace_at,
)
from memory_ci.records.anchor import VerdictKind
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode
from memory_ci.records.history import MergedChange
from memory_ci.records.names import COMMIT_ORIGIN
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index
from memory_ci.search.embedders import Vectors, choose_embedder
from memory_ci.search.embedders.remote import UNHURRIED
from memory_ci.search.neighbours import LEAST_JACCARD, find_similar
from memory_ci.search.search import list_entries
from memory_ci.search.strength import drop_weak
from memory_ci.search.vectors import Nearest, missing, nearest, nearest_to, store
from memory_ci.sessions.nudge import find_nudge
from memory_ci.text import plural

MAX_ASKED = 300  # titles of the newest merged changes that are asked of the index
MAX_NAMED = 50  # of those that find nothing are named
MAX_LOST = 3  # places that cannot be read or served are named
MAX_ON_PAGE = (
    5_000  # entries: of more the health is said when it is asked for, not on the page of every job
)
MAX_EMBEDDED = (
    1_000  # texts: of more no vectors are made for the crewship profile, for that takes minutes
)
MONTHS = 12
NO_COMMIT = (
    "0" * 40
)  # the id of no commit: what cites it is judged by the hash that it carries, if it does
_coherence_of = lru_cache(maxsize=1)(metrics.score_coherence)
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
    replaced; `lost` the places in files that it does not hold. `silence` says why history cannot be read.
    """

    workspace: Workspace
    place: HealthView
    index: Index
    active: tuple[Located, ...]
    known: frozenset[str]
    lost: tuple[str, ...]
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
    if at is not None:
        return _measure_moment(find_moment(workspace, at), profile, environ)
    tips, head = read_tips(workspace.repo), find_commit(workspace.repo, "HEAD")
    # Of a branch of work the merged changes of the default branch count.
    place = HealthView(None, tips.commit if tips.work and tips.commit else head, today, head)
    with _looking(workspace, place) as scene:
        return _judge(scene, profile, environ)


def health_history(
    workspace: Workspace,
    today: date,
    profile: Profile | None = None,
    environ: Mapping[str, str] | None = None,
    most: int = MONTHS,
) -> tuple[Health, ...]:
    """The health today and at the end of each month before, newest first, as far as commits go back. All are measured
    by one profile: `profile`, or what the configuration of today says."""
    day, found = today, list[Health]()
    with suppress(RepositoryError):  # a shallow clone tells as much as it holds
        while (
            len(found) < most
            and (moment := find_moment(workspace, day.isoformat())).commit is not None
        ):
            found.append(
                _measure_moment(moment, profile or workspace.config.health.profile, environ)
            )
            day = day.replace(day=1) - timedelta(days=1)
    return tuple(found)


def find_branch_health(workspace: Workspace, ref: str, today: date) -> Health | None:
    """The health of a branch, for a page about something else. None if it cannot be measured, or if there is so much
    memory that a job would have to wait."""
    with suppress(MemoryCIError):
        tip = find_commit(workspace.repo, ref)
        if tip is not None:
            with _looking(workspace, HealthView(tip, tip, today)) as scene:
                return _judge(scene, None, None) if len(scene.active) <= MAX_ON_PAGE else None
    return None


def list_remarks(workspace: Workspace, ref: str, today: date) -> tuple[str, ...]:
    """The health of a branch, the nudge if one is due, and whether sessions are held out: what can be told of them."""
    here = workspace_at(workspace.repo, ref)
    health = find_branch_health(here, ref, today)
    holdout = render_holdout(here.config.retrieve.holdout)
    readers = ", ".join(
        f"{name} on {at:%Y-%m-%d}" for name, at in list_readers(here.repo, ref).items()
    )
    seen = (
        printable(f"Work that was given memory was last committed by {readers}.") if readers else ""
    )
    return tuple(
        filter(
            None,
            (render_health_line(health) if health else "", find_nudge(here, ref), seen, holdout),
        )
    )


def _measure_moment(
    moment: PastMoment, profile: Profile | None, environ: Mapping[str, str] | None
) -> Health:
    """By the configuration of a moment, so that a commit has one health wherever it is asked. One that cannot be read
    any more is passed over for the present one, which also says who is sent the texts."""
    workspace, now = moment.workspace, moment.workspace.config.retrieve
    with suppress(UsageError):
        if moment.commit is not None:
            then = workspace_at(workspace.repo, moment.commit).config
            retrieve = replace(
                then.retrieve, embedder=now.embedder, embedder_model=now.embedder_model
            )
            workspace = Workspace(workspace.repo, replace(then, retrieve=retrieve))
    with _looking(workspace, HealthView(moment.commit or "", moment.commit, moment.today)) as scene:
        return _judge(scene, profile, environ)


def _judge(scene: Scene, profile: Profile | None, environ: Mapping[str, str] | None) -> Health:
    chosen = profile or scene.workspace.config.health.profile
    measured = _measure_git(scene) if chosen == "git" else _measure_crewship(scene, environ)
    return metrics.weigh(chosen, scene.today, scene.place.view, measured)


@contextmanager
def _looking(workspace: Workspace, place: HealthView) -> Iterator[Scene]:
    """The scene of a place; its index is open inside the block."""
    is_void = place.view == ""
    files = () if is_void else list_memory_files(workspace, place.view)
    read = list(load_files(workspace, files))
    screened = list(map(screen, read))
    lost = sorted(
        {(one.path, one.line) for file in read for one in file.findings if one.level == "error"}
    )
    for before, after in zip(read, screened, strict=True):
        kept = {(one.path, one.line) for one in after.entries}
        lost += [(one.path, one.line) for one in before.entries if (one.path, one.line) not in kept]
    changes: tuple[MergedChange, ...] = ()
    silence = "there is no commit yet" if place.tip is None else ""
    try:
        changes = (
            eligible.list_eligible(workspace, place.tip, place.today)
            if place.tip is not None
            else ()
        )
    except RepositoryError as error:
        silence = error.message.splitlines()[0]
    with open_index(None) as index:
        sync(index, {readable_path(file): file.oid for file in files}, lambda paths: screened)
        held = list_entries(index)
        ids = frozenset(one.entry.id for one in held)
        replaced = frozenset(older for one in held for older in one.entry.supersedes) - ids
        pasts = (list_past_ids(workspace, head) for head in _list_heads(place)) if replaced else ()
        yield Scene(
            workspace=workspace,
            place=place,
            index=index,
            active=tuple(one for one in held if is_in_force(one.entry, place.today)),
            known=ids
            | (replaced & frozenset().union(*pasts)),  # an id that no commit had is only a word
            lost=tuple(f"{path}:{line}" for path, line in lost),
            changes=changes,
            episodes=() if is_void else combine(load_episodes(workspace, place.view).tellings),
            silence=silence,
        )


def _list_heads(place: HealthView) -> list[str]:
    """The commits of whose history a place is: its own, and that of its branch where it is not merged yet."""
    own = place.view if place.view is not None else place.head
    return list(dict.fromkeys(filter(None, (own, place.tip))))


# -- the profile "git"


def _measure_git(scene: Scene) -> dict[MetricName, Measured]:
    proven, truth = _judge_sources(scene)
    reached = metrics.find_related(scene.entries, scene.known) | proven
    if left := frozenset(entry.id for entry in scene.entries) - reached:
        reached |= metrics.find_alike(scene.entries, LEAST_JACCARD, left)
    return {
        "truth": metrics.score_truth(
            {entry.id: truth.get(entry.id) for entry in _newest(scene.entries)}
        ),
        "recency": metrics.score_recency(
            scene.entries, scene.today, scene.workspace.config.prominence.decay
        ),
        "coverage": _coverage(scene),
        "coherence": _coherence_of(scene.active),
        "efficiency": _efficiency(scene),
        "reachability": _reach(scene, reached, metrics.score_reachability),
    }


def _coverage(scene: Scene) -> Measured:
    sources = frozenset().union(*map(metrics.names_of_source, scene.entries))
    names = sources | frozenset().union(*map(eligible.names_of_episode, scene.episodes))
    tip = scene.place.tip
    judged = (
        eligible.count_judged(scene.workspace, tip, scene.changes, names)
        if tip and scene.changes
        else 0
    )
    measured = metrics.score_coverage(
        judged, len(scene.changes), len(scene.active), len(scene.lost), scene.silence
    )
    return measured._replace(basis=measured.basis + _name_lost(scene))


def _name_lost(scene: Scene) -> str:
    more = f" and {len(scene.lost) - MAX_LOST} more" if len(scene.lost) > MAX_LOST else ""
    return f" ({', '.join(scene.lost[:MAX_LOST])}{more})" if scene.lost else ""


def _efficiency(scene: Scene) -> Measured:
    """How many of the titles of merged changes find an entry; what was learned from a change itself does not count."""
    config, options, start = (
        scene.workspace.config,
        RetrieveOptions(),
        eligible.window_start(scene.today),
    )
    ranked = [place for place in scene.active if place.scope.name != "institutional"]
    asked, empty = _newest_asked(scene) if ranked else [], list[MergedChange]()
    for change in reversed(asked):
        sound, own = make_sound(options, config, scene.today), eligible.names_of(change)
        found = find_ranked(
            scene.index, config, eligible.title_of(change), sound, options, scene.today
        )
        served = drop_weak(found.hits, is_near=found.margin >= 0, is_exempt=lambda _: False)
        if all(own & metrics.names_of_source(hit.located.entry) for hit in served):
            empty.append(change)
    given = [
        ({one.id for one in episode.retrieved}, episode.used)
        for episode in scene.episodes
        if episode.retrieved and start < episode.occurred_at.date() <= scene.today
    ]
    jobs = Jobs(
        len(given),
        sum(len(ids) for ids, _ in given),
        sum(len(ids.intersection(used)) for ids, used in given),
    )
    silence = scene.silence or (NOT_ASKED if ranked else "there is no entry that would be ranked")
    measured = metrics.score_efficiency(len(asked), len(empty), jobs, silence)
    basis, usage = measured.basis, count_usage(scene.episodes)
    if idle := [place.entry.id[:8] for place in ranked if is_idle(usage.get(place.entry.id))]:
        basis += f"; given {OFTEN} times or more and never used, to review: {', '.join(idle[:MAX_NAMED])}"
    if over := find_overflow(scene.index, config, scene.today):
        named = ", ".join(norm.entry_id[:8] for norm in over[:MAX_NAMED] if norm.entry_id)
        room = f"the {config.retrieve.institutional_max_chars} characters that every job is given"
        basis += f"; {plural(len(over), 'norm')} over {room}: {named}"
    return measured._replace(
        missing=tuple(map(eligible.name_question, empty[:MAX_NAMED])), basis=basis
    )


def _newest_asked(scene: Scene) -> list[MergedChange]:
    return eligible.list_questions(scene.workspace, scene.changes, scene.episodes)[-MAX_ASKED:]


def _reach(scene: Scene, reached: Set[str], score: Callable[[int, int], Measured]) -> Measured:
    """A score of how many entries are reached, with the ids of the others, newest first."""
    lone = tuple(entry.id for entry in _newest(scene.entries) if entry.id not in reached)
    return score(len(scene.active) - len(lone), len(scene.active))._replace(missing=lone)


def _newest(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.created_at or date.min, entry.id), reverse=True)


def _judge_sources(scene: Scene) -> tuple[frozenset[str], dict[str, VerdictKind]]:
    """(the ids of entries that name a commit of this history, or cite code that is there; what the anchors of each say
    together, by id).

    A commit that only this clone still has, of a branch that is gone say, proves as little here as anywhere else.
    """
    if scene.place.tip is None:
        return frozenset(), {}
    named = dict[str, frozenset[str]]()
    for (
        entry
    ) in scene.entries:  # the commits that it comes from, and those that its quotes are taken from
        origins = (entry.source or "", *(quote.partition(" ")[0] for quote in entry.evidence))
        named[entry.id] = frozenset(
            sha for origin in origins for sha in re.findall(COMMIT_ORIGIN, origin)
        )
    anchors = {
        cite: anchor
        for entry in scene.entries
        for cite in entry.cites
        if (anchor := parse_anchor(cite))
    }
    here = _list_merged(
        scene, frozenset().union(*named.values(), (anchor.commit for anchor in anchors.values()))
    )

    def recite(cite: str) -> str:
        is_lost = cite in anchors and anchors[cite].commit not in here
        return format_anchor(replace(anchors[cite], commit=NO_COMMIT)) if is_lost else cite

    active = [
        replace(one, entry=replace(one.entry, cites=tuple(map(recite, one.entry.cites))))
        for one in scene.active
    ]
    verdicts = judge_anchors(scene.workspace, active, scene.place.view)
    cited = {
        entry_id
        for (entry_id, _), verdict in verdicts.items()
        if verdict.kind not in ("gone", "unverifiable")
    }
    softened = {one.entry.id: soften(one.entry, verdicts) for one in active}
    truth = {entry_id: judge_entry(found) for entry_id, found in softened.items() if found}
    return frozenset(
        cited | {entry_id for entry_id, shas in named.items() if not shas.isdisjoint(here)}
    ), truth


def _list_merged(scene: Scene, names: Set[str]) -> frozenset[str]:
    """Those of the names of commits that are in the history of the place, or of what counts as its branch."""
    repo, wanted = scene.workspace.repo, sorted(names)
    found = find_objects(repo, [f"{name}^{{commit}}" for name in wanted])
    shas = {name: sha for name, sha in zip(wanted, found, strict=True) if sha}
    heads = _list_heads(scene.place)
    foreign = frozenset(shas.values()).intersection(
        *(list_foreign(repo, shas.values(), head) for head in heads)
    )
    return frozenset(name for name, sha in shas.items() if sha not in foreign)


# -- the profile "crewship": how near entries are to each other and to questions, by vectors made for this once


class Closeness(msgspec.Struct, frozen=True):
    """For each text the cosines of its nearest others, for each question those of its best hits, both best first.
    `silence` says why there are none."""

    near: tuple[tuple[float, ...], ...] = ()
    hits: tuple[tuple[float, ...], ...] = ()
    silence: str = ""


def _measure_crewship(
    scene: Scene, environ: Mapping[str, str] | None
) -> dict[MetricName, Measured]:
    close, indexed = (
        _measure_closeness(scene, environ),
        metrics.score_indexed(len(scene.active), len(scene.lost)),
    )
    if close.near:
        pairs = zip(
            scene.active,
            find_similar(scene.index, scene.active, words_of, statuses=("active",)),
            strict=True,
        )
        linked = {
            place.entry.id
            for own, found in pairs
            for near in found.near
            for place in (own, near.located)
        }
    else:  # by words where there are no vectors
        linked = set(metrics.find_alike(scene.entries, LEAST_JACCARD))
    return {
        "freshness": metrics.score_age(scene.entries, scene.today),
        "coverage": indexed._replace(basis=indexed.basis + _name_lost(scene)),
        "coherence": metrics.score_tightness(close.near, close.silence),
        "efficiency": metrics.score_hits(close.hits, close.silence),
        "reachability": _reach(
            scene, metrics.find_related(scene.entries, scene.known) | linked, metrics.score_linked
        ),
    }


def _measure_closeness(scene: Scene, environ: Mapping[str, str] | None) -> Closeness:
    """The closeness of the active entries; the index keeps their vectors. Never raises for what an embedder does."""
    if environ is None:
        return Closeness(silence="there are no vectors: no embedder was asked")
    questions = [redact(eligible.title_of(change)).text for change in _newest_asked(scene)]
    choice = choose_embedder(scene.workspace.config.retrieve, environ, UNHURRIED)
    if choice.embedder is None:
        return Closeness(silence=f"there are no vectors: {choice.reason}")
    index, model = scene.index, choice.embedder.model_id
    texts = missing(index, model, statuses=("active",))
    if not texts:
        return Closeness(silence="there is no entry with a vector")
    if len(texts) > MAX_EMBEDDED:
        return Closeness(silence=f"more than {MAX_EMBEDDED} texts are not embedded for this")
    try:
        store(index, model, tuple(texts), choice.embedder.embed(list(texts.values())))
        dim, data = (
            choice.embedder.embed(questions, "query") if questions else Vectors(0, array("f"))
        )
    except EngineError as error:
        return Closeness(silence=f"there are no vectors: {error.message}")
    found = nearest_to(index, list(texts), metrics.LINKS + 1, statuses=("active",))
    near = tuple(
        _cosines(found[name])[1:] for name in texts if name in found
    )  # the nearest to a text is itself
    rows = (
        Vectors(dim, array("f", data[at : at + dim])) for at in range(0, len(data), max(1, dim))
    )
    hits = tuple(
        _cosines(nearest(index, row, model, metrics.TOP_K, statuses=("active",))) for row in rows
    )
    return Closeness(
        near if len(texts) > 1 else (), hits, "there is one text alone" if questions else NOT_ASKED
    )


def _cosines(found: Nearest) -> tuple[float, ...]:
    return tuple(near.cosine for near in found.near)
