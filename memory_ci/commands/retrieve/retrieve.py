"""Retrieval: the norms and entries that an agent's job is served for a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from memory_ci.commands.retrieve import ranking
from memory_ci.commands.retrieve.norms import ChosenNorms, include_institutional, select_norms
from memory_ci.commands.retrieve.options import (
    DEFAULT_LIMIT,
    RetrieveOptions,
    SearchRequest,
    bound_options,
)
from memory_ci.commands.retrieve.ranking import Ranked
from memory_ci.commands.retrieve.text import MAX_LEFT_OUT, context_cost, entry_cost
from memory_ci.commands.retrieve.view import (
    CallerSession,
    MemoryView,
    asks_for_other_memory,
    load_session,
    open_view,
    resolve_tree,
    warn_of_lost_index,
)
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.memory.workspace import Workspace
from memory_ci.records.anchor import STALE_KINDS
from memory_ci.records.config import Config
from memory_ci.records.retrieval import Hints, Hit, Retrieval, Withheld
from memory_ci.search.query import build_terms
from memory_ci.search.rank import fit_hits
from memory_ci.search.search import list_findings
from memory_ci.search.strength import MAX_HITS, drop_weak, list_strong
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.search.embedders import EmbedderChoice

MAX_ENTRIES_OF_FILE = 5  # Entries that are served about one file.
MAX_CHANGED_NAMES = 5  # Definitions of a diff that join the query.
ENOUGH_ENTRIES = 2  # If so many entries are served, no hints are.


class _Job(msgspec.Struct, frozen=True):
    """One retrieval: the task, the memory that answers it, and the session that asks.

    A job is a task that an agent works on.

    Attributes:
        workspace: the caller's repository; `view` has another one for a fork or the past.
        today: the caller's day; `view` has another one for the past.
        view: the memory that is searched.
        request: the options within their ranges.
    """

    workspace: Workspace
    today: date
    task: str
    options: RetrieveOptions
    environ: Mapping[str, str] | None
    session: CallerSession
    view: MemoryView
    request: SearchRequest


class _ChosenHits(msgspec.Struct, frozen=True):
    """The hits that are worth serving, and how many are too weak or over the limit."""

    hits: Sequence[Hit]
    weak_count: int = 0
    over_limit_count: int = 0


class _Selection(msgspec.Struct, frozen=True):
    """The hits that are worth serving, best first, and the reasons why others are not.

    Attributes:
        gone_hits: hits whose cited code is gone.
        superseded_hits: hits that another hit supersedes.
        weak_count: how many hits are not close enough to the task.
        over_limit_count: how many hits are close enough, but beyond the limit.
        served_before_count: how many hits the session was served before.
    """

    hits: tuple[Hit, ...]
    gone_hits: tuple[Withheld, ...]
    superseded_hits: tuple[Withheld, ...]
    weak_count: int
    over_limit_count: int
    served_before_count: int


def retrieve(
    workspace: Workspace,
    task: str,
    options: RetrieveOptions,
    today: date,
    environ: Mapping[str, str] | None = None,
    *,
    shared_view: MemoryView | None = None,
) -> Retrieval:
    """Return the memory that an agent's job is served for a task, within the budget.

    It consists of norms (the institutional memory, which is served whatever the task) and of the
    entries that match the task. A session that is held out, to measure the effect of memory, is
    served nothing.

    Args:
        workspace: the repository and its configuration.
        task: the task of the job, in a person's words.
        options: the budget, the filters and the session.
        today: the day that counts as today.
        environ: the environment that an embedder is configured by, which finds entries by vectors
            as well. Memory of the past is searched by words alone.
        shared_view: the memory that the options ask for, if several tasks share it.

    Raises:
        RepositoryError: unknown-revision, shallow-clone, unrelated-histories.
        UsageError: option-conflict.
    """
    session = load_session(workspace, options)
    # `about` names a file, about which a session is served entries once.
    is_repeated_file = options.about is not None and not session.is_new(options.about)
    if session.held_out or is_repeated_file:
        return Retrieval(task=task, mode="lexical", held_out=session.held_out)

    with nullcontext(shared_view) if shared_view else open_view(workspace, options, today) as view:
        request = bound_options(options, view.workspace.config, view.today)
        norms = select_norms(view, options, request, session)
        if norms.dropped_ids and not options.scopes:
            request = include_institutional(request)
        job = _Job(
            workspace=workspace,
            today=today,
            task=task,
            options=options,
            environ=environ,
            session=session,
            view=view,
            request=request,
        )
        ranked = _rank_entries(job, norms)
        findings = (*warn_of_lost_index(view), *list_findings(view.index))

    # The index is closed here, so that it is not locked while git runs.
    tree = resolve_tree(view, options)
    selection = _select_hits(job, ranked, tree)
    entry_chars = _count_chars_for_entries(request, norms)
    retrieval = _fit_to_budget(job, norms, ranked, selection, entry_chars)
    retrieval = replace(retrieval, findings=findings)
    retrieval = _add_notes(retrieval, job, ranked, selection, entry_chars)
    retrieval = _add_related(retrieval, job, tree, entry_chars)
    retrieval = _add_hints(retrieval, job)
    return _add_organisation(retrieval, job, norms, ranked)


# -- ranked entries


def _rank_entries(job: _Job, norms: ChosenNorms) -> Ranked:
    """Rank the entries that match the task, or that cite the file in question (`about`).

    Institutional entries are served as norms and not ranked, except for those that did not fit the
    budget of norms.

    Args:
        job: the retrieval.
        norms: the institutional memory, served and dropped.
    """
    view = job.view
    config = view.workspace.config
    embedder = _choose_embedder(config, job.options, job.environ)
    if job.options.about is not None:
        ranked = ranking.rank_about(
            view.index, job.options.about, job.request, job.options, view.today
        )
    else:
        names: tuple[str, ...] = ()
        if job.options.diff is not None:
            names = list_changed_names(job.workspace, job.options.diff)
        ranked = ranking.rank_task(
            view.index,
            job.task,
            job.request,
            job.options,
            view.today,
            embedder=embedder,
            names=names,
        )
    _note_vector_search(job, embedder, ranked)

    hits = []
    for hit in ranked.hits:
        located = hit.located
        if located.scope.name != "institutional" or located.entry.id in norms.dropped_ids:
            hits.append(hit)
    return replace(ranked, hits=tuple(hits))


def _choose_embedder(
    config: Config, options: RetrieveOptions, environ: Mapping[str, str] | None
) -> EmbedderChoice | None:
    """Return the configured embedder; None if entries are searched by words alone.

    They are if the caller passes no environment, from which an embedder is configured, if the
    configuration or the environment says so, and for the memory of the past or of a fork, whose
    index has no vectors.
    """
    if environ is None or config.retrieve.embedder == "none" or asks_for_other_memory(options):
        return None
    if environ.get("MEMORY_CI_EMBEDDER") == "none":
        return None
    from memory_ci.search.embedders import choose_embedder

    return choose_embedder(config.retrieve, environ)


def _note_vector_search(job: _Job, embedder: EmbedderChoice | None, ranked: Ranked) -> None:
    """Note for `memory-ci doctor` whether the embedder answered, if it was called."""
    if embedder is None or embedder.embedder is None or not (ranked.cosines or ranked.reason):
        return
    from memory_ci.memory.embedding import save_embedder_state  # Here, for it takes 1 ms.

    save_embedder_state(job.workspace, job.today, "" if ranked.cosines else ranked.reason)


def list_changed_names(workspace: Workspace, rev: str) -> tuple[str, ...]:
    """Return the names of definitions that the work tree changes since a revision.

    The definition with the most changed places comes first.

    Raises:
        RepositoryError: unknown-revision.
    """
    # Imported here, for most tasks need neither.
    from memory_ci.anchors.symbols import list_definitions
    from memory_ci.gitrepo.log import list_hunk_headings

    counts: Counter[str] = Counter()
    for path, heading in list_hunk_headings(workspace.repo, resolve_commit(workspace.repo, rev)):
        counts.update(definition.name for definition in list_definitions(path, heading.strip()))
    return tuple(name for name, _ in counts.most_common(MAX_CHANGED_NAMES))


def _select_hits(job: _Job, ranked: Ranked, tree: str | None) -> _Selection:
    """Return the hits to serve, best first, and those that are left out, by reason.

    These are left out, in this order: hits whose cited code is gone; hits that another hit
    supersedes; weak hits and hits over the limit, unless the caller wants all matches or asks about
    a file; and hits that the session was served before.

    Args:
        job: the retrieval.
        ranked: the hits, ranked before the code that they cite is compared.
        tree: the revision in which cited code is judged; None is the work tree.
    """
    options = job.options
    workspace = job.view.workspace
    rerank = partial(ranking.rank_by_truth, ranked)
    judged_hits, gone_hits = ranking.judge_hits(
        workspace, ranked.hits, tree, rerank, serves_stale=options.stale
    )
    # More are ordered than are served, so that the hits over the limit can be counted.
    ordered_hits, superseded_hits = ranking.order_hits(
        judged_hits, max(job.request.limit, DEFAULT_LIMIT)
    )

    if options.all_matches or options.about is not None:
        chosen = _ChosenHits(ordered_hits[: _choose_limit(job)])
    else:
        chosen = _choose_close_hits(job, ordered_hits, is_memory_close=ranked.margin >= 0)
    new_hits = [hit for hit in chosen.hits if job.session.is_new(hit)]
    return _Selection(
        hits=tuple(_add_last_edits(workspace, new_hits, tree)),
        gone_hits=gone_hits,
        superseded_hits=superseded_hits,
        weak_count=chosen.weak_count,
        over_limit_count=chosen.over_limit_count,
        served_before_count=len(chosen.hits) - len(new_hits),
    )


def _choose_limit(job: _Job) -> int:
    """Return how many hits are served at most; about a file fewer, if the caller sets no limit."""
    if job.options.about is not None and job.options.limit is None:
        return MAX_ENTRIES_OF_FILE
    return job.request.limit


def _choose_close_hits(
    job: _Job, ordered_hits: Sequence[Hit], *, is_memory_close: bool
) -> _ChosenHits:
    """Choose the hits that are close enough to the task, and count the others.

    Args:
        job: the retrieval.
        ordered_hits: the hits, best first.
        is_memory_close: whether the best hits are close enough to the task to be served; else only
            hits that cite a touched path are.
    """
    hits = _list_close_hits(job, ordered_hits[: job.request.limit], is_memory_close=is_memory_close)
    over_limit_count = 0
    if is_memory_close:
        over_limit_count = sum(hit not in hits for hit in list_strong(ordered_hits))
    weak_count = len(ordered_hits) - len(hits) - over_limit_count
    return _ChosenHits(hits, weak_count, over_limit_count)


def _list_close_hits(job: _Job, hits: Sequence[Hit], *, is_memory_close: bool) -> list[Hit]:
    """Return the hits that match the task well, and the hits that cite a path the work touches.

    Without a limit of the caller, at most `MAX_HITS` are returned.

    Args:
        job: the retrieval.
        hits: the hits, best first.
        is_memory_close: whether the best hits are close enough to the task to be served.
    """
    limit = MAX_HITS if job.options.limit is None else job.request.limit
    cites_touched_path = partial(_cites_any, job.options.paths or ())
    return drop_weak(hits, is_near=is_memory_close, is_exempt=cites_touched_path, max_hits=limit)


def _cites_any(paths: Sequence[str], hit: Hit) -> bool:
    """Return whether an entry cites one of the paths, or a file below one of them."""
    prefixes = tuple(f"{path.rstrip('/')}/" for path in paths)
    return any(f"{verdict.path}/".startswith(prefixes) for verdict in hit.verdicts)


def _add_last_edits(workspace: Workspace, hits: list[Hit], tree: str | None) -> list[Hit]:
    """Return hits with the commit that last changed the cited code, where it changed."""
    has_stale = any(verdict.kind in STALE_KINDS for hit in hits for verdict in hit.verdicts)
    if not has_stale:
        return hits
    from memory_ci.memory.edits import add_edits_to_hits  # Here, for few retrievals need it.

    return add_edits_to_hits(workspace, hits, tree)


# -- the budget


def _count_chars_for_entries(request: SearchRequest, norms: ChosenNorms) -> int:
    """Return how many characters of the budget norms leave to entries.

    A line that names left-out entries takes characters as well. They are reserved if norms are left
    out, or if related entries are added later, which may not fit.

    Args:
        request: the budget of the retrieval.
        norms: the norms that are served, and the norms that are left out.
    """
    norms_alone = Retrieval(task="", mode="lexical", norms=norms.served)
    reserved_chars = MAX_LEFT_OUT if norms.dropped or request.adds_related else 0
    return request.max_chars - context_cost(norms_alone) - reserved_chars


def _fit_to_budget(
    job: _Job, norms: ChosenNorms, ranked: Ranked, selection: _Selection, entry_chars: int
) -> Retrieval:
    """Return the retrieval with the best hits that fit the budget, and the hits that do not.

    Args:
        job: the retrieval's task and options.
        norms: the institutional memory.
        ranked: how the entries were searched.
        selection: the hits that are worth serving.
        entry_chars: how many characters all entries have.
    """
    served_hits, dropped_hits = fit_hits(selection.hits, entry_chars, entry_cost)
    # A line names dropped hits (at most `MAX_LEFT_OUT` characters). `entry_chars` may allow for it.
    is_line_reserved = norms.dropped or job.request.adds_related
    if dropped_hits and not is_line_reserved:
        served_hits, dropped_hits = fit_hits(selection.hits, entry_chars - MAX_LEFT_OUT, entry_cost)

    # A norm that did not fit its own budget may be served as a hit.
    served_ids = {hit.located.entry.id for hit in served_hits}
    dropped_norms = [norm for norm in norms.dropped if norm.entry_id not in served_ids]
    return Retrieval(
        task=job.task,
        mode=ranked.mode,
        norms=norms.served,
        norms_dropped=tuple(dropped_norms),
        hits=served_hits,
        hits_dropped=dropped_hits,
        withheld=(*selection.gone_hits, *selection.superseded_hits),
        verdict=ranked.strength,
        weak_count=selection.weak_count,
        over_limit_count=selection.over_limit_count,
        known_count=norms.served_before_count + selection.served_before_count,
    )


# -- notes


def _add_notes(
    retrieval: Retrieval, job: _Job, ranked: Ranked, selection: _Selection, entry_chars: int
) -> Retrieval:
    """Return the retrieval with sentences for the caller on how the task was answered.

    Args:
        retrieval: the answer.
        job: the task, the memory that was searched, and the options.
        ranked: how the entries were searched.
        selection: the hits that are worth serving, and why others are not.
        entry_chars: how many characters all entries have.
    """
    notes = [job.view.note, *job.request.notes]
    notes = [note for note in notes if note]
    if ranked.mode == "degraded":
        notes.append(f"Searched by words only: {ranked.reason}.")
    overhead_chars = job.request.max_chars - entry_chars
    notes += _explain_missing_entries(retrieval, job.options.about, overhead_chars)
    if selection.gone_hits:
        count = plural(len(selection.gone_hits), "entry")
        notes.append(f"Withheld, because the code cited is gone: {count}. --explain names them.")
    is_below_limit = 0 < len(retrieval.hits) < job.request.limit
    if job.options.limit is not None and retrieval.weak_count and is_below_limit:
        count = plural(retrieval.weak_count, "weaker entry")
        notes.append(f"{count} left out; `--all` shows them.")
    return replace(retrieval, notes=tuple(notes))


def _explain_missing_entries(
    retrieval: Retrieval, about: str | None, overhead_chars: int
) -> Iterator[str]:
    """Yield sentences on why no entries, or fewer than found, are served.

    Several reasons may hold at once.

    Args:
        retrieval: the answer to a task.
        about: the file in question, if the question is about a file.
        overhead_chars: characters of the context that are not available to entries.
    """
    weak_count = retrieval.weak_count
    served_before_count = retrieval.known_count
    is_empty = not retrieval.hits and not retrieval.hits_dropped
    if about is not None and is_empty and not served_before_count:
        yield f"Nothing is known of {about}."
    if retrieval.task.strip() and not build_terms(retrieval.task):
        yield "The task has no words to search for."
    if weak_count and is_empty:
        matches = "match" if weak_count == 1 else "matches"
        yield f"Nothing close ({weak_count} weak {matches}; `--all` shows them)."
    if served_before_count:
        pronoun = "it" if served_before_count == 1 else "them"
        entries = plural(served_before_count, "entry")
        yield f"This session was served {entries} before; `--all` shows {pronoun}."
    if retrieval.hits_dropped and not retrieval.hits:
        entries = plural(len(retrieval.hits_dropped), "entry")
        smallest_entry = min(entry_cost(hit) for hit in retrieval.hits_dropped)
        needed_chars = smallest_entry + overhead_chars
        yield f"{entries} found, but no room: with the smallest it takes {needed_chars} characters."


# -- extensions of a retrieval


def _add_related(retrieval: Retrieval, job: _Job, tree: str | None, entry_chars: int) -> Retrieval:
    """Return the retrieval with entries that are related to its hits, if the caller asks for them.

    Args:
        retrieval: the retrieval.
        job: its task, options and session.
        tree: the revision in which cited code is judged; None is the work tree.
        entry_chars: how many characters all entries have.
    """
    if not (job.request.adds_related and retrieval.hits):
        return retrieval
    # Here, for few retrievals need it.
    from memory_ci.commands.retrieve.walk import add_related, find_related

    # Opened again, and closed before git runs: no lock is held meanwhile.
    with open_view(job.workspace, job.options, job.today) as view:
        related = find_related(view.index, retrieval, job.request)
    retrieval = add_related(
        retrieval,
        related,
        view.workspace,
        job.request,
        entry_chars,
        tree=tree,
        serves_stale=job.options.stale,
    )
    hits = tuple(hit for hit in retrieval.hits if job.session.is_new(hit))
    return replace(retrieval, hits=hits)


def _add_hints(retrieval: Retrieval, job: _Job) -> Retrieval:
    """Return the retrieval with hints of git history on the task, if few entries are served.

    Hints are similar merged changes and habits of the repository. A question about a file gets
    none. Neither does the memory of a past moment: the hints would be of later merges. Hints that
    do not fit the budget are left out.
    """
    options = job.options
    workspace = job.view.workspace
    is_of_past = options.at is not None
    if not workspace.config.retrieve.hints or is_of_past or options.about is not None:
        return retrieval
    if len(retrieval.hits) >= ENOUGH_ENTRIES:
        return retrieval
    from memory_ci.commands.retrieve.similar import find_hints  # Here, for it takes 3 ms.

    hints = find_hints(workspace, retrieval.task, options.paths or (), job.session.is_new)
    extended_retrieval = replace(retrieval, hints=drop_changes_of_entries(hints, retrieval.hits))
    total_chars = context_cost(extended_retrieval) + sum(
        entry_cost(hit) for hit in extended_retrieval.hits
    )
    return extended_retrieval if total_chars <= job.request.max_chars else retrieval


def drop_changes_of_entries(hints: Hints, hits: Sequence[Hit]) -> Hints:
    """Return hints from git history without the changes that a served entry was learned from.

    They would only repeat the entry. An entry names its changes in its source: `pr:128`.
    """
    served_sources: set[str] = set()
    for hit in hits:
        served_sources.update((hit.located.entry.source or "").split())
    changes = [change for change in hints.changes if served_sources.isdisjoint(change.task.sources)]
    return replace(hints, changes=tuple(changes))


def _add_organisation(
    retrieval: Retrieval, job: _Job, norms: ChosenNorms, ranked: Ranked
) -> Retrieval:
    """Return the retrieval with entries of other repositories of the organisation, if configured.

    Args:
        retrieval: the retrieval.
        job: its task, options and session.
        norms: the institutional memory of this repository.
        ranked: the entries of this repository that match the task.
    """
    environ = job.environ
    if environ is None or not environ.get("MEMORY_CI_ORG_INDEX") or not _asks_for_all(job):
        return retrieval
    from memory_ci.commands.table import load_optional  # few organisations have such an index

    own_ids = {match.located.entry.id for match in ranked.matches}
    own_ids |= {norm.entry_id for norm in norms.all if norm.entry_id}
    add_organisation: Callable[..., Retrieval] = load_optional(
        "org.search", "add_organisation", default=_return_unchanged
    )
    return add_organisation(
        retrieval,
        job.view.workspace,
        job.options,
        max_chars=job.request.max_chars,
        environ=environ,
        today=job.today,
        is_new=job.session.is_new,
        own_entry_ids=own_ids,
    )


def _asks_for_all(job: _Job) -> bool:
    """Return whether the present memory is asked, without filters, and in a role that sees all."""
    options = job.options
    is_narrowed = options.about is not None or options.occurred_between is not None
    if is_narrowed or options.statuses or asks_for_other_memory(options):
        return False
    return "global" in (job.request.filters["scopes"] or ())


def _return_unchanged(retrieval: Retrieval, *_: Any, **__: Any) -> Retrieval:  # noqa: ANN401 - as add_organisation
    return retrieval


# -- ids


def list_noted_ids(retrieval: Retrieval) -> tuple[str, ...]:
    """Return the ids to note as served, or the mark of a session that is held out."""
    from memory_ci.sessions.served_ids import HELD_OUT_PREFIX

    if retrieval.held_out:
        return (f"{HELD_OUT_PREFIX}{retrieval.held_out}",)
    return list_served_ids(retrieval)


def list_served_ids(retrieval: Retrieval) -> tuple[str, ...]:
    """Return the ids of the norms and entries that are served."""
    ids = [norm.entry_id for norm in retrieval.norms if norm.entry_id]
    ids += [hit.located.entry.id for hit in retrieval.hits]
    return tuple(dict.fromkeys(ids))
