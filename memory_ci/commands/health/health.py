"""The health of the memory of a work tree or a commit (docs/report.md).

It is measured from the tree and its history alone, in an index in memory; nothing is written.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci import progress
from memory_ci.anchors.anchors import format_anchor, parse_anchor
from memory_ci.anchors.verdicts import judge_entry
from memory_ci.commands.health import metrics
from memory_ci.commands.health.metrics import JobUsage, Measurement
from memory_ci.commands.health.records import Health, MetricName, Profile
from memory_ci.commands.health.text import render_health_line, render_holdout
from memory_ci.commands.retrieve.anchor_verdicts import soften_verdicts
from memory_ci.commands.retrieve.options import RetrieveOptions, bound_options
from memory_ci.commands.retrieve.ranking import rank_task
from memory_ci.commands.retrieve.retrieve import MAX_NORM_CHARS, list_dropped_norms
from memory_ci.errors import EngineError, MemoryCIError, RepositoryError, UsageError
from memory_ci.evidence.content import redact
from memory_ci.findings import printable
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.gitrepo.history import list_readers
from memory_ci.gitrepo.repo import find_commit, find_objects, list_outside_history, read_tips
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
from memory_ci.records.report import LoadedFile
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index
from memory_ci.search.embedders import Embedder, Vectors, choose_embedder
from memory_ci.search.embedders.remote import UNHURRIED
from memory_ci.search.neighbours import LEAST_JACCARD, find_similar
from memory_ci.search.search import list_entries
from memory_ci.search.strength import drop_weak
from memory_ci.search.vectors import (
    Nearest,
    find_nearest,
    find_nearest_to_texts,
    list_missing_texts,
    store_vectors,
)
from memory_ci.sessions.nudge import find_nudge
from memory_ci.text import plural

MAX_QUESTIONS = 300  # Titles of the newest merged changes that are asked of the index.
MAX_NAMED = 50  # Titles that find nothing, entries and norms that are named in a basis.
MAX_LOST = 3  # Places that cannot be read or served that are named in a basis.
MAX_ON_PAGE = 5_000  # Active entries; a page of a job does not wait for the health of more.
MAX_EMBEDDED = 1_000  # Texts; to embed more for the profile "crewship" takes minutes.
MONTHS = 12
NO_COMMIT = "0" * 40
"""The id of no commit. An anchor at it is judged by the text hash in the anchor, if it has one."""

NO_QUESTION = "nothing was merged in the last 90 days that could be asked for"

# A history compares the same entries from one month to the next.
_score_coherence = lru_cache(maxsize=1)(metrics.score_coherence)


class HealthView(msgspec.Struct, frozen=True):
    """The tree and the day that health is measured for.

    Attributes:
        tree: a commit; None for the work tree, "" for the time before the first commit.
        tip: the commit whose history of merged changes counts.
        today: the day that counts as today.
        head: the commit that is checked out under a work tree.
    """

    tree: str | None
    tip: str | None
    today: date
    head: str | None = None


class HealthInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The memory and history that the metrics are counted in.

    Attributes:
        index: an index in memory of all entries that can be served.
        active: the entries of the index that are in force.
        known_ids: ids of all entries, and of those that they replaced.
        lost: places in files, as `path:line`, that the index does not hold.
        changes: the eligible merged changes of the last 90 days, oldest first.
        silence: why history cannot be read; "" if it can.
    """

    workspace: Workspace
    view: HealthView
    index: Index
    active: tuple[Located, ...]
    known_ids: frozenset[str]
    lost: tuple[str, ...]
    changes: tuple[MergedChange, ...]
    episodes: tuple[Episode, ...]
    silence: str

    @property
    def today(self) -> date:
        """The day that counts as today."""
        return self.view.today

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The active entries."""
        return tuple(located.entry for located in self.active)


def measure_health(
    workspace: Workspace,
    today: date,
    *,
    at: str | None = None,
    profile: Profile | None = None,
    environ: Mapping[str, str] | None = None,
) -> Health:
    """Return the health of the work tree today, or of a revision or a day.

    Args:
        workspace: the repository and its configuration.
        today: the present day.
        at: a revision or a day (`2026-09-01`), with that day for today; None: the work tree.
        profile: the definitions of the metrics; None: those of the configuration.
        environ: gives the profile "crewship" its embedder; None: none is used.

    Raises:
        RepositoryError: unknown-revision, shallow-clone.
    """
    if at is not None:
        return _measure_moment(find_moment(workspace, at), profile, environ)

    tips = read_tips(workspace.repo)
    head = find_commit(workspace.repo, "HEAD")
    # On a branch of work the merged changes of the default branch count.
    tip = tips.commit if tips.work and tips.commit else head
    with _open_inputs(workspace, HealthView(None, tip, today, head)) as inputs:
        return _measure(inputs, profile, environ)


def measure_history(
    workspace: Workspace,
    today: date,
    profile: Profile | None = None,
    environ: Mapping[str, str] | None = None,
    limit: int = MONTHS,
) -> tuple[Health, ...]:
    """Return the health today and at the end of each month before, newest first.

    It goes back at most `limit` months, to the first commit or to the end of a shallow clone.
    All are measured by one profile: `profile`, or that of today's configuration.
    """
    profile = profile or workspace.config.health.profile
    day = today
    past: list[Health] = []
    with suppress(RepositoryError):  # The months that a shallow clone holds are measured.
        while len(past) < limit:
            progress.report("Measuring months", len(past), limit)
            moment = find_moment(workspace, day.isoformat())
            if moment.commit is None:
                break
            past.append(_measure_moment(moment, profile, environ))
            day = day.replace(day=1) - timedelta(days=1)
    return tuple(past)


def find_branch_health(workspace: Workspace, ref: str, today: date) -> Health | None:
    """Return the health of a branch, for a page about something else.

    None if it cannot be measured, or if the branch has more than `MAX_ON_PAGE` active entries.
    """
    with suppress(MemoryCIError):
        tip = find_commit(workspace.repo, ref)
        if tip is None:
            return None
        with _open_inputs(workspace, HealthView(tip, tip, today)) as inputs:
            if len(inputs.active) <= MAX_ON_PAGE:
                return _measure(inputs, None, None)
    return None


def list_health_remarks(workspace: Workspace, ref: str, today: date) -> tuple[str, ...]:
    """Return lines about a branch for the page of a job, without those that do not apply.

    They are its health, a nudge that is due, who was served memory last, and whether
    sessions are held out.
    """
    branch = workspace_at(workspace.repo, ref)
    remarks = []
    health = find_branch_health(branch, ref, today)
    if health:
        remarks.append(render_health_line(health))

    remarks.append(find_nudge(branch, ref))

    readers = list_readers(branch.repo, ref)
    if readers:
        last_commits = ", ".join(f"{name} on {time:%Y-%m-%d}" for name, time in readers.items())
        remarks.append(
            printable(f"Work that was given memory was last committed by {last_commits}.")
        )

    remarks.append(render_holdout(branch.config.retrieve.holdout))
    return tuple(remark for remark in remarks if remark)


def _measure_moment(
    moment: PastMoment, profile: Profile | None, environ: Mapping[str, str] | None
) -> Health:
    """Return the health of a past moment by the configuration of its commit.

    So a commit has the same health on every clone. A configuration that cannot be read is
    replaced by the present one, which also chooses the embedder, and with it who is sent texts.
    """
    workspace = moment.workspace
    if moment.commit is not None:
        with suppress(UsageError):
            config = workspace_at(workspace.repo, moment.commit).config
            present = workspace.config.retrieve
            retrieve = replace(
                config.retrieve,
                embedder=present.embedder,
                embedder_model=present.embedder_model,
            )
            workspace = Workspace(workspace.repo, replace(config, retrieve=retrieve))

    view = HealthView(moment.commit or "", moment.commit, moment.today)
    with _open_inputs(workspace, view) as inputs:
        return _measure(inputs, profile, environ)


def _measure(
    inputs: HealthInputs, profile: Profile | None, environ: Mapping[str, str] | None
) -> Health:
    profile = profile or inputs.workspace.config.health.profile
    is_git = profile == "git"
    measurements = _measure_git(inputs) if is_git else _measure_crewship(inputs, environ)
    return metrics.weigh_metrics(profile, inputs.today, inputs.view.tree, measurements)


# -- inputs


@contextmanager
def _open_inputs(workspace: Workspace, view: HealthView) -> Iterator[HealthInputs]:
    """Read the memory and history of a view; its index is open inside the block."""
    files: tuple[TreeFile, ...] = ()
    episodes: tuple[Episode, ...] = ()
    if view.tree != "":
        files = list_memory_files(workspace, view.tree)
        episodes = combine(load_episodes(workspace, view.tree).tellings)
    loaded_files = list(load_files(workspace, files))
    screened_files = [screen(file) for file in loaded_files]
    changes, silence = _list_changes(workspace, view)

    with open_index(None) as index:
        oids = {readable_path(file): file.oid for file in files}
        sync(index, oids, lambda _: screened_files)
        located_entries = list_entries(index)
        yield HealthInputs(
            workspace=workspace,
            view=view,
            index=index,
            active=tuple(
                located for located in located_entries if is_in_force(located.entry, view.today)
            ),
            known_ids=_list_known_ids(workspace, view, located_entries),
            lost=tuple(_list_lost(loaded_files, screened_files)),
            changes=changes,
            episodes=episodes,
            silence=silence,
        )


def _list_lost(
    loaded_files: Sequence[LoadedFile], screened_files: Sequence[LoadedFile]
) -> list[str]:
    """Return the places, as `path:line`, that cannot be read or that screening withholds."""
    unreadable = set()
    for file in loaded_files:
        for finding in file.findings:
            if finding.level == "error":
                unreadable.add((finding.path, finding.line))

    withheld = []
    for loaded, screened in zip(loaded_files, screened_files, strict=True):
        served = {(located.path, located.line) for located in screened.entries}
        places = [(located.path, located.line) for located in loaded.entries]
        withheld += [place for place in places if place not in served]
    return [f"{path}:{line}" for path, line in [*sorted(unreadable), *withheld]]


def _list_changes(workspace: Workspace, view: HealthView) -> tuple[tuple[MergedChange, ...], str]:
    """Return the eligible changes of the last 90 days, and why they cannot be read, or ""."""
    if view.tip is None:
        return (), "there is no commit yet"
    try:
        return eligible.list_eligible(workspace, view.tip, view.today), ""
    except RepositoryError as error:
        return (), error.message.splitlines()[0]


def _list_known_ids(
    workspace: Workspace, view: HealthView, located_entries: Sequence[Located]
) -> frozenset[str]:
    """Return the ids of the entries, and those of replaced entries that a commit once held."""
    ids = frozenset(located.entry.id for located in located_entries)
    replaced_ids: set[str] = set()
    for located in located_entries:
        replaced_ids.update(located.entry.supersedes)
    replaced_ids -= ids
    if not replaced_ids:
        return ids

    past_ids: set[str] = set()
    for head in _list_heads(view):
        past_ids |= list_past_ids(workspace, head)
    return ids | (replaced_ids & past_ids)


def _list_heads(view: HealthView) -> list[str]:
    """Return the commits whose history the view has: its own, and the tip of its branch.

    The two differ where a branch of work is not merged yet.
    """
    commit = view.head if view.tree is None else view.tree
    heads = [head for head in (commit, view.tip) if head]
    return list(dict.fromkeys(heads))


# -- the profile "git"


def _measure_git(inputs: HealthInputs) -> dict[MetricName, Measurement]:
    evidence = _judge_sources(inputs)
    reached_ids = metrics.find_related(inputs.entries, inputs.known_ids) | evidence.evident_ids
    unreached_ids = frozenset(entry.id for entry in inputs.entries) - reached_ids
    if unreached_ids:
        reached_ids |= metrics.find_similar_entries(inputs.entries, LEAST_JACCARD, unreached_ids)
    lone_ids = _list_lone_ids(inputs, reached_ids)
    total = len(inputs.active)
    reachability = metrics.score_reachability(total - len(lone_ids), total)
    kinds = {entry.id: evidence.kinds.get(entry.id) for entry in _newest_first(inputs.entries)}
    return {
        "truth": metrics.score_truth(kinds),
        "recency": metrics.score_recency(inputs.entries, inputs.today),
        "coverage": _measure_coverage(inputs),
        "coherence": _score_coherence(inputs.active),
        "efficiency": _measure_efficiency(inputs),
        "reachability": reachability._replace(missing=lone_ids),
    }


def _measure_coverage(inputs: HealthInputs) -> Measurement:
    names: set[str] = set()
    for entry in inputs.entries:
        names |= metrics.parse_source_names(entry)
    for episode in inputs.episodes:
        names |= eligible.names_of_episode(episode)

    judged = 0
    if inputs.view.tip and inputs.changes:
        judged = eligible.count_judged(inputs.workspace, inputs.view.tip, inputs.changes, names)
    coverage = metrics.score_coverage(
        judged, len(inputs.changes), len(inputs.active), len(inputs.lost), inputs.silence
    )
    return coverage._replace(basis=coverage.basis + _name_lost(inputs))


def _name_lost(inputs: HealthInputs) -> str:
    if not inputs.lost:
        return ""
    names = ", ".join(inputs.lost[:MAX_LOST])
    unnamed = len(inputs.lost) - MAX_LOST
    return f" ({names} and {unnamed} more)" if unnamed > 0 else f" ({names})"


def _measure_efficiency(inputs: HealthInputs) -> Measurement:
    """Measure how many titles of merged changes find an entry, and how entries are used.

    An entry that was learned from a change does not count for the title of that change.
    """
    ranked_ids = [
        located.entry.id for located in inputs.active if located.scope.name != "institutional"
    ]
    questions = _list_questions(inputs) if ranked_ids else []
    silence = NO_QUESTION if ranked_ids else "there is no entry that would be ranked"
    unanswered = _list_unanswered(inputs, questions)
    efficiency = metrics.score_efficiency(
        len(questions), len(unanswered), _count_job_usage(inputs), inputs.silence or silence
    )
    missing_titles = [eligible.name_question(change) for change in unanswered[:MAX_NAMED]]
    basis = efficiency.basis + _name_idle(inputs, ranked_ids) + _name_overflow(inputs)
    return efficiency._replace(basis=basis, missing=tuple(missing_titles))


def _list_questions(inputs: HealthInputs) -> list[MergedChange]:
    """Return the newest merged changes whose titles memory could answer, oldest first."""
    changes = eligible.list_questions(inputs.workspace, inputs.changes, inputs.episodes)
    return changes[-MAX_QUESTIONS:]


def _list_unanswered(inputs: HealthInputs, questions: Sequence[MergedChange]) -> list[MergedChange]:
    """Return the changes whose titles find nothing, newest first."""
    config = inputs.workspace.config
    options = RetrieveOptions()
    request = bound_options(options, config, inputs.today)
    unanswered = []
    for change in reversed(questions):
        title = eligible.title_of(change)
        ranked = rank_task(inputs.index, title, request, options, inputs.today)
        hits = drop_weak(ranked.hits, is_near=ranked.margin >= 0, is_exempt=lambda _: False)
        names = eligible.names_of(change)
        if all(names & metrics.parse_source_names(hit.located.entry) for hit in hits):
            unanswered.append(change)
    return unanswered


def _count_job_usage(inputs: HealthInputs) -> JobUsage:
    """Count the entries that jobs of the last 90 days were served and used."""
    start = eligible.window_start(inputs.today)
    jobs = 0
    served = 0
    used = 0
    for episode in inputs.episodes:
        is_recent = start < episode.occurred_at.date() <= inputs.today
        if episode.retrieved and is_recent:
            served_ids = {retrieved.id for retrieved in episode.retrieved}
            jobs += 1
            served += len(served_ids)
            used += len(served_ids.intersection(episode.used))
    return JobUsage(jobs, served, used)


def _name_idle(inputs: HealthInputs, ids: Iterable[str]) -> str:
    """Return the end of a basis that names the entries that are often served and never used."""
    usage = count_usage(inputs.episodes)
    idle_ids = [entry_id[:8] for entry_id in ids if is_idle(usage.get(entry_id))]
    if not idle_ids:
        return ""
    names = ", ".join(idle_ids[:MAX_NAMED])
    return f"; given {OFTEN} times or more and never used, to review: {names}"


def _name_overflow(inputs: HealthInputs) -> str:
    """Return the end of a basis that names the norms that do not fit their budget."""
    config = inputs.workspace.config
    overflow = list_dropped_norms(inputs.index, config, inputs.today)
    if not overflow:
        return ""
    names = ", ".join(norm.entry_id[:8] for norm in overflow[:MAX_NAMED] if norm.entry_id)
    budget = f"{MAX_NORM_CHARS} characters that every job is given"
    return f"; {plural(len(overflow), 'norm')} over the {budget}: {names}"


def _list_lone_ids(inputs: HealthInputs, reached_ids: Set[str]) -> tuple[str, ...]:
    """Return the ids of the entries that are not reached, newest first."""
    return tuple(entry.id for entry in _newest_first(inputs.entries) if entry.id not in reached_ids)


def _newest_first(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.created_at or date.min, entry.id), reverse=True)


class SourceEvidence(NamedTuple):
    """The evidence of entries in a history.

    Attributes:
        evident_ids: ids of entries that name a commit of this history, or cite code that exists.
        kinds: the verdict of each entry's cites together, by id.
    """

    evident_ids: frozenset[str]
    kinds: Mapping[str, VerdictKind]


def _judge_sources(inputs: HealthInputs) -> SourceEvidence:
    """Compare the commits that entries name and cite with the history of the view.

    A commit that only this clone still has, say of a deleted branch, is no evidence: health
    is the same on every clone.
    """
    if inputs.view.tip is None:
        return SourceEvidence(frozenset(), {})

    origins = {entry.id: _list_origin_shas(entry) for entry in inputs.entries}
    shas = set().union(*origins.values())
    for entry in inputs.entries:
        shas |= _list_anchor_shas(entry)
    merged_shas = _list_merged(inputs, shas)

    judged = []
    for located in inputs.active:
        cites = tuple(_detach_cite(cite, merged_shas) for cite in located.entry.cites)
        judged.append(replace(located, entry=replace(located.entry, cites=cites)))
    verdicts = judge_anchors(inputs.workspace, judged, inputs.view.tree)

    evident_ids = {
        entry_id for entry_id, shas in origins.items() if not shas.isdisjoint(merged_shas)
    }
    for (entry_id, _), verdict in verdicts.items():
        if verdict.kind not in ("gone", "unverifiable"):
            evident_ids.add(entry_id)

    softened = {located.entry.id: soften_verdicts(located.entry, verdicts) for located in judged}
    kinds = {
        entry_id: judge_entry(entry_verdicts)
        for entry_id, entry_verdicts in softened.items()
        if entry_verdicts
    }
    return SourceEvidence(frozenset(evident_ids), kinds)


def _list_origin_shas(entry: Entry) -> frozenset[str]:
    """Return the commits in the source of an entry and in the origins of its quotes."""
    origins = [entry.source or ""]
    origins += [quote.partition(" ")[0] for quote in entry.evidence]
    shas: set[str] = set()
    for origin in origins:
        shas.update(re.findall(COMMIT_ORIGIN, origin))
    return frozenset(shas)


def _list_anchor_shas(entry: Entry) -> set[str]:
    anchors = [parse_anchor(cite) for cite in entry.cites]
    return {anchor.commit for anchor in anchors if anchor is not None}


def _detach_cite(cite: str, merged_shas: Set[str]) -> str:
    """Return a cite with `NO_COMMIT` for its commit if that is not in the history."""
    anchor = parse_anchor(cite)
    if anchor is None or anchor.commit in merged_shas:
        return cite
    return format_anchor(replace(anchor, commit=NO_COMMIT))


def _list_merged(inputs: HealthInputs, shas: Set[str]) -> frozenset[str]:
    """Return the commits that are in the history of the view or of its branch.

    Args:
        inputs: the memory and history.
        shas: ids of commits, whole or abbreviated.
    """
    repo = inputs.workspace.repo
    names = sorted(shas)
    objects = find_objects(repo, [f"{name}^{{commit}}" for name in names])
    full_shas = {name: sha for name, sha in zip(names, objects, strict=True) if sha}
    foreign_shas = set(full_shas.values())
    for head in _list_heads(inputs.view):
        foreign_shas &= list_outside_history(repo, full_shas.values(), head)
    return frozenset(name for name, sha in full_shas.items() if sha not in foreign_shas)


# -- the profile "crewship": cosines of vectors that are made for this one measurement


class Closeness(msgspec.Struct, frozen=True):
    """Cosines of entries with their nearest others and with questions, best first.

    Attributes:
        neighbours: for each text the cosines of its nearest others.
        hits: for each question the cosines of its best hits.
        silence: the reason if both are empty.
    """

    neighbours: tuple[tuple[float, ...], ...] = ()
    hits: tuple[tuple[float, ...], ...] = ()
    silence: str = ""


def _measure_crewship(
    inputs: HealthInputs, environ: Mapping[str, str] | None
) -> dict[MetricName, Measurement]:
    closeness = _measure_closeness(inputs, environ)
    coverage = metrics.score_indexed(len(inputs.active), len(inputs.lost))
    linked_ids = metrics.find_related(inputs.entries, inputs.known_ids)
    if closeness.neighbours:
        linked_ids |= _find_linked(inputs)
    else:
        # Without vectors, entries are compared by their words.
        linked_ids |= metrics.find_similar_entries(inputs.entries, LEAST_JACCARD)
    lone_ids = _list_lone_ids(inputs, linked_ids)
    total = len(inputs.active)
    reachability = metrics.score_linked(total - len(lone_ids), total)
    return {
        "freshness": metrics.score_age(inputs.entries, inputs.today),
        "coverage": coverage._replace(basis=coverage.basis + _name_lost(inputs)),
        "coherence": metrics.score_closeness(closeness.neighbours, closeness.silence),
        "efficiency": metrics.score_hits(closeness.hits, closeness.silence),
        "reachability": reachability._replace(missing=lone_ids),
    }


def _find_linked(inputs: HealthInputs) -> set[str]:
    """Return the ids of entries with a neighbour, and those of the neighbours, by vectors."""
    linked_ids: set[str] = set()
    similars = find_similar(inputs.index, inputs.active, words_of, statuses=("active",))
    for located, similar in zip(inputs.active, similars, strict=True):
        if similar.neighbours:
            linked_ids.add(located.entry.id)
            linked_ids.update(neighbour.located.entry.id for neighbour in similar.neighbours)
    return linked_ids


def _measure_closeness(inputs: HealthInputs, environ: Mapping[str, str] | None) -> Closeness:
    """Embed the active entries and the questions, and compare their vectors.

    The index keeps the vectors of the entries. A failure of the embedder is not raised.
    """
    if environ is None:
        return Closeness(silence="there are no vectors: no embedder was asked")
    questions = [redact(eligible.title_of(change)).text for change in _list_questions(inputs)]
    choice = choose_embedder(inputs.workspace.config.retrieve, environ, UNHURRIED)
    if choice.embedder is None:
        return Closeness(silence=f"there are no vectors: {choice.reason}")
    texts = list_missing_texts(inputs.index, choice.embedder.model_id, statuses=("active",))
    if not texts:
        return Closeness(silence="there is no entry with a vector")
    if len(texts) > MAX_EMBEDDED:
        return Closeness(silence=f"more than {MAX_EMBEDDED} texts are not embedded for this")
    try:
        return _embed_closeness(inputs.index, choice.embedder, texts, questions)
    except EngineError as error:
        return Closeness(silence=f"there are no vectors: {error.message}")


def _embed_closeness(
    index: Index, embedder: Embedder, texts: Mapping[bytes, str], questions: list[str]
) -> Closeness:
    model_id = embedder.model_id
    store_vectors(index, model_id, tuple(texts), embedder.embed(list(texts.values())))
    queries = Vectors(0, array("f"))
    if questions:
        queries = embedder.embed(questions, "query")

    neighbours = []
    if len(texts) > 1:
        nearest_by_text = find_nearest_to_texts(
            index, list(texts), metrics.LINKS + 1, statuses=("active",)
        )
        # The nearest to a text is itself.
        neighbours = [
            _list_cosines(nearest_by_text[text_hash])[1:]
            for text_hash in texts
            if text_hash in nearest_by_text
        ]

    hits = []
    for query in _split_vectors(queries):
        hit = find_nearest(index, query, model_id, metrics.TOP_K, statuses=("active",))
        hits.append(_list_cosines(hit))

    silence = "there is one text alone" if questions else NO_QUESTION
    return Closeness(tuple(neighbours), tuple(hits), silence)


def _split_vectors(vectors: Vectors) -> Iterator[Vectors]:
    """Yield each of several vectors by itself."""
    dim = vectors.dim
    for start in range(0, len(vectors.data), max(1, dim)):
        yield Vectors(dim, array("f", vectors.data[start : start + dim]))


def _list_cosines(hits: Nearest) -> tuple[float, ...]:
    return tuple(hit.cosine for hit in hits.entries)
