"""Retrieval: the entries that an agent's job is served for a task, within its budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.commands.retrieve.options import RetrieveOptions, SearchRequest, make_sound
from memory_ci.commands.retrieve.ranking import (
    Ranked,
    arrange,
    find_about,
    find_ranked,
    judge_hits,
    may_be_judged,
    weigh_again,
)
from memory_ci.commands.retrieve.text import MAX_LEFT_OUT, context_cost, entry_cost, norm_cost
from memory_ci.commands.table import load_optional
from memory_ci.errors import UsageError
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.lifecycle.prominence import prominence
from memory_ci.memory.index import synced_index
from memory_ci.memory.workspace import Workspace, index_path
from memory_ci.records.anchor import MARKED
from memory_ci.records.config import Config, Decay
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import Hints, Hit, Norm, Retrieval
from memory_ci.search.database import Index
from memory_ci.search.query import build_terms
from memory_ci.search.rank import fit, fit_norms
from memory_ci.search.search import SHOWN_STATUSES, Filters, list_entries, list_findings, list_prose
from memory_ci.search.strength import MOST, drop_weak
from memory_ci.text import plural, strip_comments

if TYPE_CHECKING:
    from memory_ci.search.embedders import EmbedderChoice
    from memory_ci.sessions.session_note import Given

MAX_ABOUT = 5
"""Entries that are served for one file."""

MAX_NAMES = 5
"""Definitions of a diff that are searched for."""


class View(msgspec.Struct, frozen=True):
    """The memory that is searched.

    Attributes:
        workspace: the repository, with its configuration at that commit.
        today: the day that ages are counted to.
        index: the search index.
        commit: the commit; None for the work tree.
        note: a remark for the caller.
    """

    workspace: Workspace
    today: date
    index: Index
    commit: str | None = None
    note: str = ""


class SessionFilter(NamedTuple):
    """What a session may be served.

    Attributes:
        held_out: the mark of a session that is served nothing, for comparison; else "".
        is_new: returns whether the session was not served an item before; for a path, whether
            there is something new about that file.
    """

    held_out: str
    is_new: Callable[[Given], bool]


class SelectedNorms(NamedTuple):
    """Institutional memory that is always served.

    Attributes:
        all: every norm.
        new: those that the session was not served before.
        served: those that fit their budget.
        dropped: those that do not.
    """

    all: Sequence[Norm]
    new: Sequence[Norm]
    served: tuple[Norm, ...]
    dropped: tuple[Norm, ...]

    @property
    def overflow_ids(self) -> frozenset[str]:
        """The entries that do not fit, which are found by their words like any other."""
        return frozenset(norm.entry_id for norm in self.dropped if norm.entry_id)


class FittedHits(NamedTuple):
    """The ranked entries within the budget.

    Attributes:
        served: the entries that fit.
        dropped: those that do not.
        max_chars: the characters that were available for them.
    """

    served: tuple[Hit, ...]
    dropped: tuple[Hit, ...]
    max_chars: int


def retrieve(
    workspace: Workspace,
    task: str,
    options: RetrieveOptions,
    today: date,
    environ: Mapping[str, str] | None = None,
    opened: View | None = None,
) -> Retrieval:
    """Return what an agent's job is served for a task: norms, then ranked entries, then hints.

    Entries are found by words, and by vectors where `environ` and the configuration name an
    embedder. Memory of the past is searched by words alone.

    Args:
        workspace: the repository.
        task: the task in words.
        options: filters and budgets.
        today: the day that ages are counted to.
        environ: names an embedder and an organisation's index.
        opened: the memory that the options name, if the caller opened it for several tasks.

    Raises:
        RepositoryError: unknown-revision, shallow-clone, unrelated-histories.
        UsageError: option-conflict.
    """
    session = _open_session(workspace, options)
    if session.held_out or (options.about is not None and not session.is_new(options.about)):
        return Retrieval(task=task, mode="lexical", held_out=session.held_out)
    with nullcontext(opened) if opened else open_view(workspace, options, today) as view:
        config = view.workspace.config
        request = make_sound(options, config, view.today)
        norms = _select_norms(view, options, request, session)
        request = _search_overflow(request, options, norms)
        embedder = _find_embedder(config, options, environ)
        found = _find_candidates(view, task, options, request, embedder)
        found = _leave_out_served_norms(found, norms)
        _note_vector_search(workspace, embedder, found, today)
        findings = (*_warn_of_temporary_index(view), *list_findings(view.index))
    tree = _resolve_tree(view, options)
    weigh = partial(weigh_again, found)
    judged, gone = judge_hits(view.workspace, found.hits, tree, weigh, stale=options.stale)
    limit = request.limit if options.about is None else min(request.limit, MAX_ABOUT)
    ranked, superseded = arrange(judged, limit)
    strong = _drop_weak(ranked, found, options, request)
    new_hits = [hit for hit in strong if session.is_new(hit)]
    retrieval = Retrieval(
        task=task,
        mode=found.mode,
        norms=norms.served,
        norms_dropped=norms.dropped,
        withheld=(*gone, *superseded),
        notes=tuple(filter(None, (view.note, *request.notes))),
        findings=findings,
        verdict=found.verdict,
        weak=len(ranked) - len(strong),
        known=len(norms.all) - len(norms.new) + len(strong) - len(new_hits),
    )
    marked_hits = _name_edits(view.workspace, new_hits, tree)
    fitted = _fit_hits(marked_hits, retrieval, request, config)
    retrieval = _add_hits(retrieval, fitted)
    retrieval = _explain(retrieval, found, request, options, fitted, gone=len(gone))
    if request.walk and fitted.served:
        retrieval = _add_related(
            retrieval, workspace, options, request, fitted.max_chars, tree, today
        )
        new_served = tuple(hit for hit in retrieval.hits if session.is_new(hit))
        retrieval = replace(retrieval, hits=new_served)
    retrieval = _add_hints(retrieval, view, options, request.max_chars, session.is_new)
    if not _asks_organisation(options, request, environ):
        return retrieval
    add_organisation = load_optional("org.search", "add_organisation", default=_keep)
    own_ids = {match.located.entry.id for match in found.matches}
    own_ids |= {norm.entry_id for norm in norms.all if norm.entry_id}
    extended: Retrieval = add_organisation(
        retrieval,
        view.workspace,
        options,
        request.max_chars,
        environ,
        today,
        session.is_new,
        own_ids,
    )
    return extended


def _keep(retrieval: Retrieval, *_: object) -> Retrieval:
    return retrieval


def _open_session(workspace: Workspace, options: RetrieveOptions) -> SessionFilter:
    """Return what the session of a job may be served; without a session that is everything."""
    is_past = options.at is not None or options.base is not None
    if options.session is None or options.all_matches or is_past:
        return SessionFilter("", lambda _: True)
    from memory_ci.sessions.session_note import fingerprint, is_held_out, list_given, mark_session

    mark = mark_session(options.session)
    served = list_given(workspace, options.session)
    is_silent = is_held_out(mark, workspace.config.retrieve.holdout)
    return SessionFilter(mark if is_silent else "", lambda item: fingerprint(item) not in served)


@contextmanager
def open_view(workspace: Workspace, options: RetrieveOptions, today: date) -> Iterator[View]:
    """Open the memory that the options name: of the work tree, of the past, or of a fork's base.

    Raises:
        RepositoryError: unknown-revision, shallow-clone, unrelated-histories.
        UsageError: option-conflict.
    """
    if options.at is not None and options.base is not None:
        hint = "--at names an earlier state of this branch, --base what a fork's branch was started from."
        raise UsageError("--at and --base exclude each other", slug="option-conflict", hint=hint)
    if options.at is None and options.base is None:
        with synced_index(workspace) as index:
            yield View(workspace, today, index)
        return
    # These modules take 15 ms to import, which most retrievals do not need.
    from memory_ci.memory.past_index import Past, find_fork_point, find_moment

    if options.at:
        moment = find_moment(workspace, options.at)
    else:
        moment = find_fork_point(workspace, options.base or "", today)
    commit = moment.commit if options.at else None
    with Past(moment.workspace).index(moment.commit) as index:
        yield View(moment.workspace, moment.today, index, commit, moment.note)


def _select_norms(
    view: View, options: RetrieveOptions, request: SearchRequest, session: SessionFilter
) -> SelectedNorms:
    """Return the norms that are served; none for a question about one file."""
    config = view.workspace.config
    norms: list[Norm] = []
    if not options.about:
        norms = _list_norms(view.index, view.today, config.prominence.decay)
    new = [norm for norm in norms if session.is_new(norm)]
    max_chars = min(config.retrieve.institutional_max_chars, request.max_chars // 2)
    served, dropped = fit_norms(new, max_chars, norm_cost)
    return SelectedNorms(norms, new, served, dropped)


def _search_overflow(
    request: SearchRequest, options: RetrieveOptions, norms: SelectedNorms
) -> SearchRequest:
    """Return the request with institutional memory in its scopes, if some norms did not fit."""
    if not norms.overflow_ids or options.scopes:
        return request
    scopes = (*(request.filters["scopes"] or ()), "institutional")
    return replace(request, filters={**request.filters, "scopes": scopes})


def _find_candidates(
    view: View,
    task: str,
    options: RetrieveOptions,
    request: SearchRequest,
    embedder: EmbedderChoice | None,
) -> Ranked:
    """Return the entries that the task finds, or those about a file, ranked."""
    config = view.workspace.config
    if options.about is not None:
        return find_about(view.index, config, options.about, request, options, view.today)
    names: tuple[str, ...] = ()
    if options.diff is not None:
        names = list_changed_names(view.workspace, options.diff)
    return find_ranked(view.index, config, task, request, options, view.today, embedder, names)


def _leave_out_served_norms(found: Ranked, norms: SelectedNorms) -> Ranked:
    """Return the candidates without institutional memory, but for norms that did not fit."""
    hits = [
        hit
        for hit in found.hits
        if hit.located.scope.name != "institutional" or hit.located.entry.id in norms.overflow_ids
    ]
    return replace(found, hits=tuple(hits))


def _resolve_tree(view: View, options: RetrieveOptions) -> str | None:
    """Return the revision in which cited code is judged; None for the work tree.

    Raises:
        RepositoryError: unknown-revision.
    """
    if options.tree is None:
        return view.commit
    resolve_commit(view.workspace.repo, options.tree)
    return options.tree


def _drop_weak(
    ranked: Sequence[Hit], found: Ranked, options: RetrieveOptions, request: SearchRequest
) -> Sequence[Hit]:
    """Return the entries that are close enough to the task; all, if the caller wants all."""
    if options.all_matches or options.about is not None:
        return ranked
    directories = [f"{path.rstrip('/')}/" for path in options.paths or ()]

    def cites_given_path(hit: Hit) -> bool:
        """Return whether an entry cites one of the paths of the task, or a file below one."""
        cited = [f"{verdict.path}/" for verdict in hit.verdicts]
        return any(path.startswith(directory) for path in cited for directory in directories)

    most = MOST if options.limit is None else request.limit
    is_near = found.margin >= 0
    return drop_weak(ranked, is_near=is_near, is_exempt=cites_given_path, most=most)


def _fit_hits(
    hits: Sequence[Hit], retrieval: Retrieval, request: SearchRequest, config: Config
) -> FittedHits:
    """Return the entries that fit into what the norms leave of the budget.

    The line that names what was left out needs room as well, if something is.
    """
    max_chars = request.max_chars - context_cost(retrieval)
    names_dropped = bool(retrieval.norms_dropped or request.walk)
    if names_dropped:
        max_chars -= MAX_LEFT_OUT
    by_type = config.retrieve.type_max_chars
    served, dropped = fit(hits, max_chars, entry_cost, by_type)
    if dropped and not names_dropped:
        served, dropped = fit(hits, max_chars - MAX_LEFT_OUT, entry_cost, by_type)
    return FittedHits(served, dropped, max_chars)


def _add_hits(retrieval: Retrieval, fitted: FittedHits) -> Retrieval:
    """Return the retrieval with its entries; a norm that is served as an entry was not dropped."""
    served_ids = {hit.located.entry.id for hit in fitted.served}
    norms_dropped = [norm for norm in retrieval.norms_dropped if norm.entry_id not in served_ids]
    return replace(
        retrieval,
        hits=fitted.served,
        hits_dropped=fitted.dropped,
        norms_dropped=tuple(norms_dropped),
    )


def _explain(
    retrieval: Retrieval,
    found: Ranked,
    request: SearchRequest,
    options: RetrieveOptions,
    fitted: FittedHits,
    *,
    gone: int,
) -> Retrieval:
    """Return the retrieval with notes on what did not answer and what is not shown."""
    used_chars = request.max_chars - fitted.max_chars
    notes = [*retrieval.notes, *_explain_silence(retrieval, found, gone, used_chars, options.about)]
    served, weak = len(retrieval.hits), retrieval.weak
    if options.limit is not None and weak and 0 < served < request.limit:
        notes.append(f"{plural(weak, 'weaker entry')} left out; `--all` shows them.")
    return replace(retrieval, notes=tuple(notes))


def _add_related(
    retrieval: Retrieval,
    workspace: Workspace,
    options: RetrieveOptions,
    request: SearchRequest,
    max_chars: int,
    tree: str | None,
    today: date,
) -> Retrieval:
    """Return the retrieval with entries one relation away from its entries."""
    from memory_ci.commands.retrieve.walk import add_related

    # The view is opened again because git ran without a lock in between.
    with open_view(workspace, options, today) as view:
        return add_related(
            retrieval,
            view.workspace,
            view.index,
            request,
            max_chars,
            tree=tree,
            stale=options.stale,
        )


def _asks_organisation(
    options: RetrieveOptions, request: SearchRequest, environ: Mapping[str, str] | None
) -> bool:
    """Return whether the organisation's memory is searched.

    It applies to the present alone, and to roles that see global memory.
    """
    if not environ or not environ.get("MEMORY_CI_ORG_INDEX"):
        return False
    filters = (options.about, options.at, options.base, options.occurred_between)
    is_narrowed = bool(options.statuses) or any(value is not None for value in filters)
    return not is_narrowed and "global" in (request.filters["scopes"] or ())


def list_changed_names(workspace: Workspace, rev: str) -> tuple[str, ...]:
    """Return the definitions that the work tree changes since a revision, the most changed first.

    Raises:
        RepositoryError: unknown-revision.
    """
    # Other tasks do not need these modules.
    from memory_ci.anchors.symbols import list_definitions
    from memory_ci.gitrepo.log import list_hunk_headings

    counts: Counter[str] = Counter()
    for path, heading in list_hunk_headings(workspace.repo, resolve_commit(workspace.repo, rev)):
        counts.update(definition.name for definition in list_definitions(path, heading.strip()))
    return tuple(name for name, _ in counts.most_common(MAX_NAMES))


def find_overflow(index: Index, config: Config, today: date) -> tuple[Norm, ...]:
    """Return the norms that do not fit the budget of institutional memory."""
    norms = _list_norms(index, today, config.prominence.decay)
    max_chars = min(config.retrieve.institutional_max_chars, config.retrieve.max_chars // 2)
    _, dropped = fit_norms(norms, max_chars, norm_cost)
    return dropped


def _name_edits(workspace: Workspace, hits: Sequence[Hit], tree: str | None) -> Sequence[Hit]:
    """Return the entries, with what changed the code that they cite where it has changed."""
    is_marked = any(verdict.kind in MARKED for hit in hits for verdict in hit.verdicts)
    if not is_marked:
        return hits
    from memory_ci.memory.edits import with_edits

    return with_edits(workspace, list(hits), tree)


def _find_embedder(
    config: Config, options: RetrieveOptions, environ: Mapping[str, str] | None
) -> EmbedderChoice | None:
    """Return the embedder for the task; None for memory of the past, or if none is configured."""
    is_past = options.at is not None or options.base is not None
    if environ is None or is_past or config.retrieve.embedder == "none":
        return None
    from memory_ci.search.embedders import choose_embedder

    return choose_embedder(config.retrieve, environ)


def _note_vector_search(
    workspace: Workspace, embedder: EmbedderChoice | None, found: Ranked, today: date
) -> None:
    """Note for `doctor` whether the vectors answered, if they were searched."""
    if embedder is None or embedder.embedder is None or not (found.cosines or found.reason):
        return
    from memory_ci.memory.embedding import note_lane

    note_lane(workspace, today, "" if found.cosines else found.reason)


def _add_hints(
    retrieval: Retrieval,
    view: View,
    options: RetrieveOptions,
    max_chars: int,
    is_new: Callable[[Given], bool],
) -> Retrieval:
    """Return the retrieval with hints from git history, if it has fewer than two entries and room.

    A question about a file gets none, nor does memory of the past, which did not know what was
    merged since.
    """
    has_hints = view.workspace.config.retrieve.hints
    if not has_hints or options.at is not None or options.about is not None:
        return retrieval
    # This module takes 3 ms to import, which other tasks do not need.
    from memory_ci.commands.retrieve.similar import FEW, find_hints

    if len(retrieval.hits) >= FEW:
        return retrieval
    hints = find_hints(view.workspace, retrieval.task, options.paths or (), is_new)
    with_hints = replace(retrieval, hints=drop_taught(hints, retrieval.hits))
    used_chars = context_cost(with_hints) + sum(entry_cost(hit) for hit in retrieval.hits)
    return with_hints if used_chars <= max_chars else retrieval


def drop_taught(hints: Hints, hits: Sequence[Hit]) -> Hints:
    """Return the hints without changes whose own entries are served: they would say the same."""
    sources: set[str] = set()
    for hit in hits:
        sources |= set((hit.located.entry.source or "").split())
    changes = [found for found in hints.changes if not sources & set(found.task.sources)]
    return replace(hints, changes=tuple(changes))


def _explain_silence(
    retrieval: Retrieval, found: Ranked, gone: int, used_chars: int, about: str | None
) -> Iterator[str]:
    """Yield notes on what did not answer, and on what is not shown.

    Args:
        retrieval: what is served.
        found: the candidates.
        gone: how many entries were withheld because their code is gone.
        used_chars: characters of the budget that norms and notes take.
        about: the file that was asked about.
    """
    is_empty = not retrieval.hits and not retrieval.hits_dropped
    weak, known = retrieval.weak, retrieval.known
    if found.mode == "degraded":
        yield f"Words alone were asked: {found.reason}."
    if about is not None and is_empty and not known:
        yield f"Nothing is known of {about}."
    if retrieval.task.strip() and not build_terms(retrieval.task):
        yield "The task has no words to search for."
    if weak and is_empty:
        matches = "match" if weak == 1 else "matches"
        yield f"Nothing close ({weak} weak {matches}; `--all` shows them)."
    if known:
        pronoun = "it" if known == 1 else "them"
        yield f"This session was given {plural(known, 'entry')} before; `--all` shows {pronoun}."
    if retrieval.hits_dropped and not retrieval.hits:
        count = plural(len(retrieval.hits_dropped), "entry")
        smallest = min(entry_cost(hit) for hit in retrieval.hits_dropped) + used_chars
        yield f"{count} found, but no room: with the smallest it takes {smallest} characters."
    if gone:
        count = plural(gone, "entry")
        yield f"Withheld, because the code cited is gone: {count}. --stale shows them."


def _warn_of_temporary_index(view: View) -> tuple[Finding, ...]:
    """Return a warning if the index could not be kept, so that the next retrieval builds it again."""
    index = view.index
    if not index.is_temporary or not index.reason:
        return ()
    path = str(index_path(view.workspace))
    message = f"the index could not be kept: {index.reason}"
    hint = "Check the rights and the space there."
    return (Finding(path, 1, "index-not-kept", message, hint, "warning"),)


def _list_norms(index: Index, today: date, decay: Decay) -> list[Norm]:
    """Return institutional memory in file order: entries without front matter, and prose."""
    norms: list[Norm] = []
    for place in list_entries(index, scopes=("institutional",), statuses=("active", "compacted")):
        entry = place.entry
        # A rejected rule is worded so that nobody follows it.
        mark = "[tried and rejected] " if entry.adoption == "rejected" else ""
        text = f"## {mark}{entry.title}\n\n{entry.body}".rstrip()
        if entry.instead:
            text += f"\n\nDone instead: {entry.instead}"
        norms.append(Norm(place.path, place.line, text, entry.id, prominence(entry, today, decay)))
    for norm in list_prose(index, "institutional"):
        text = strip_comments(norm.text).strip()
        lines = text.splitlines()
        has_content = any(line.strip() and not line.startswith("#") for line in lines)
        if has_content:
            norms.append(replace(norm, text=text, prominence=1.0))
    return sorted(norms, key=lambda norm: (norm.path, norm.line))


def find_visible(
    workspace: Workspace, prefix: str, options: RetrieveOptions, today: date
) -> Located:
    """Return the entry whose id starts with a prefix, if `retrieve` may serve it to the caller.

    A retired entry, and one that is withheld as unsafe, is as unknown as one that does not exist.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    from memory_ci.memory.lookup import find_entry

    filters: Filters = {**make_sound(options, workspace.config, today).filters}
    filters["scopes"] = (*(filters["scopes"] or ()), "institutional")
    filters.setdefault("statuses", SHOWN_STATUSES)
    with synced_index(workspace) as index:
        located = list_entries(index, **filters)
    try:
        return find_entry(located, prefix)
    except UsageError as error:
        if error.slug != "unknown-entry":
            raise
        hint = "What retrieve gives has its id."
        raise UsageError(error.message, slug=error.slug, hint=hint) from error


def show_visible(
    workspace: Workspace, prefix: str, options: RetrieveOptions, today: date
) -> Retrieval:
    """Return one entry as a retrieval, marked where the code that it cites has changed.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    from memory_ci.commands.retrieve.anchor_verdicts import judge_located
    from memory_ci.memory.edits import with_edits

    place = find_visible(workspace, prefix, options, today)
    verdicts = judge_located(workspace, [place], None) if may_be_judged(place) else {}
    hit = Hit(place, 1.0, (), verdicts=verdicts.get(place.entry, ()))
    return Retrieval(task=prefix, mode="lexical", hits=tuple(with_edits(workspace, [hit], None)))


def noted_ids(answer: Retrieval) -> tuple[str, ...]:
    """Return what is noted of a retrieval for trailers: its ids, or that its session is held out."""
    from memory_ci.sessions.served_ids import HELD_OUT

    return (f"{HELD_OUT}{answer.held_out}",) if answer.held_out else injected_ids(answer)


def injected_ids(answer: Retrieval) -> tuple[str, ...]:
    """Return the ids of the norms and entries that are served."""
    norm_ids = [norm.entry_id for norm in answer.norms if norm.entry_id]
    hit_ids = [hit.located.entry.id for hit in answer.hits]
    return tuple(dict.fromkeys([*norm_ids, *hit_ids]))
