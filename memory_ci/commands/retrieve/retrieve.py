"""Retrieve: what an agent's job is given, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from memory_ci.commands.retrieve.options import RetrieveOptions, make_sound
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

MOST_ABOUT = 5  # Entries that are given of one file.
MAX_NAMES = 5  # Definitions of a diff that are asked.


class View(msgspec.Struct, frozen=True):
    """The memory that is asked: whose, of which commit (None: the work tree), on which day, and what to say of it."""

    workspace: Workspace
    today: date
    index: Index
    commit: str | None = None
    note: str = ""


def retrieve(
    workspace: Workspace,
    task: str,
    options: RetrieveOptions,
    today: date,
    environ: Mapping[str, str] | None = None,
    opened: View | None = None,
) -> Retrieval:
    """Institutional memory, then the entries that the task finds, ranked, true and within the budget.

    `opened` is the memory that the options ask for, where several tasks share it.

    Words find them, and vectors where `environ` and the configuration give an embedder; memory of the past is asked
    for words alone.
    Raises RepositoryError: unknown-revision, shallow-clone, unrelated-histories; UsageError: option-conflict.
    """
    held_out, is_new = _ask_session(workspace, options)
    if held_out or (options.about is not None and not is_new(options.about)):
        return Retrieval(task=task, mode="lexical", held_out=held_out)
    with nullcontext(opened) if opened else open_view(workspace, options, today) as view:
        config = view.workspace.config
        asked = make_sound(options, config, view.today)
        always = [] if options.about else _norms(view.index, view.today, config.prominence.decay)
        fresh = list(filter(is_new, always))
        norms_room = min(config.retrieve.institutional_max_chars, asked.max_chars // 2)
        norms, norms_dropped = fit_norms(fresh, norms_room, norm_cost)
        over = frozenset(norm.entry_id for norm in norms_dropped if norm.entry_id)
        if over and not options.scopes:
            scopes = (*(asked.filters["scopes"] or ()), "institutional")
            asked = replace(asked, filters={**asked.filters, "scopes": scopes})
        embedder = _find_embedder(config, options, environ)
        if options.about is None:
            names = list_changed_names(workspace, options.diff) if options.diff is not None else ()
            found = find_ranked(
                view.index, config, task, asked, options, view.today, embedder, names
            )
        else:
            found = find_about(view.index, config, options.about, asked, options, view.today)
        # Institutional memory is not ranked, but for what found no room in its budget.
        hits = [
            one
            for one in found.hits
            if one.located.scope.name != "institutional" or one.located.entry.id in over
        ]
        found = replace(found, hits=tuple(hits))
        _note_lane(workspace, embedder, found, today)
        findings = (*_degraded(view.index, view), *list_findings(view.index))
    tree = view.commit if options.tree is None else options.tree
    if options.tree is not None:
        resolve_commit(view.workspace.repo, options.tree)
    judged, gone = judge_hits(
        view.workspace, found.hits, tree, partial(weigh_again, found), stale=options.stale
    )
    ranked, superseded = arrange(
        judged, min(asked.limit, MOST_ABOUT) if options.about else asked.limit
    )

    def is_named(hit: Hit) -> bool:
        """Whether an entry cites one of the files at hand, or one below a directory at hand."""
        places = [f"{path.rstrip('/')}/" for path in options.paths or ()]
        return any(f"{one.path}/".startswith(place) for one in hit.verdicts for place in places)

    is_all = options.all_matches or options.about is not None
    most = MOST if options.limit is None else asked.limit
    best = (
        ranked
        if is_all
        else drop_weak(ranked, is_near=found.margin >= 0, is_exempt=is_named, most=most)
    )
    weak = len(ranked) - len(best)
    fresh_hits = list(filter(is_new, best))
    known = len(always) - len(fresh) + len(best) - len(fresh_hits)
    best = _name_edits(view.workspace, fresh_hits, tree)
    answer = Retrieval(task=task, mode=found.mode, norms=norms, norms_dropped=norms_dropped)
    room = (
        asked.max_chars
        - context_cost(answer)
        - (MAX_LEFT_OUT if norms_dropped or asked.walk else 0)
    )
    kept, dropped = fit(best, room, entry_cost, config.retrieve.type_max_chars)
    if dropped and not (norms_dropped or asked.walk):
        kept, dropped = fit(best, room - MAX_LEFT_OUT, entry_cost, config.retrieve.type_max_chars)
    shown = {hit.located.entry.id for hit in kept}
    answer = replace(
        answer,
        hits=kept,
        norms_dropped=tuple(norm for norm in norms_dropped if norm.entry_id not in shown),
        hits_dropped=dropped,
        withheld=(*gone, *superseded),
        notes=tuple(filter(None, (view.note, *asked.notes))),
        findings=findings,
        verdict=found.verdict,
        weak=weak,
        known=known,
    )
    silence = _explain_silence(answer, found, len(gone), asked.max_chars - room, options.about)
    answer = replace(answer, notes=(*answer.notes, *silence))
    if options.limit is not None and kept and weak and len(kept) < asked.limit:
        answer = replace(
            answer,
            notes=(*answer.notes, f"{plural(weak, 'weaker entry')} left out; `--all` shows them."),
        )
    if asked.walk and kept:
        from memory_ci.commands.retrieve.walk import (
            add_related,
        )  # nobody pays for this who does not walk

        with open_view(
            workspace, options, today
        ) as here:  # anew: git was asked meanwhile, without a lock
            there = here.workspace, here.index
            answer = add_related(answer, *there, asked, room, tree=tree, stale=options.stale)
        answer = replace(answer, hits=tuple(filter(is_new, answer.hits)))
    answer = _add_hints(answer, view, options, asked.max_chars, is_new)
    # What holds beyond this repository: of today, and by a role that sees it.
    narrower = (
        options.about,
        options.at,
        options.base,
        options.occurred_between,
        *options.statuses,
    )
    is_of_all = all(one is None for one in narrower) and "global" in (asked.filters["scopes"] or ())
    if not (environ and environ.get("MEMORY_CI_ORG_INDEX") and is_of_all):
        return answer
    add_organisation = load_optional(
        "org.search", "add_organisation", default=lambda answer, *_: answer
    )
    own = {match.located.entry.id for match in found.matches} | {norm.entry_id for norm in always}
    extended: Retrieval = add_organisation(
        answer, view.workspace, options, asked.max_chars, environ, today, is_new, own
    )
    return extended


def list_changed_names(workspace: Workspace, rev: str) -> tuple[str, ...]:
    """The definitions around the lines that the work tree changes since `rev`, the most changed first. Raises
    RepositoryError (unknown-revision)."""
    from memory_ci.anchors.symbols import list_definitions
    from memory_ci.gitrepo.log import list_hunk_headings  # two that other tasks spare

    headings = list_hunk_headings(workspace.repo, resolve_commit(workspace.repo, rev))
    names = Counter(
        one.name for path, heading in headings for one in list_definitions(path, heading.strip())
    )
    return tuple(name for name, _ in names.most_common(MAX_NAMES))


def find_overflow(index: Index, config: Config, today: date) -> tuple[Norm, ...]:
    """What does not fit the budget of institutional memory: it is found by its words like any entry."""
    norms = _norms(index, today, config.prominence.decay)
    room = min(config.retrieve.institutional_max_chars, config.retrieve.max_chars // 2)
    return fit_norms(norms, room, norm_cost)[1]


def _ask_session(
    workspace: Workspace, options: RetrieveOptions
) -> tuple[str, Callable[[Given], bool]]:
    """The mark of the session that asks, if it is one of those that are given nothing, else ""; and whether something
    is new to it (str: what is known of that file)."""
    if (
        options.session is None
        or options.all_matches
        or options.at is not None
        or options.base is not None
    ):
        return "", lambda _: True
    from memory_ci.sessions.session_note import fingerprint, is_held_out, list_given, mark_session

    share, mark = workspace.config.retrieve.holdout, mark_session(options.session)
    given = list_given(workspace, options.session)
    return mark if is_held_out(mark, share) else "", lambda item: fingerprint(item) not in given


@contextmanager
def open_view(workspace: Workspace, options: RetrieveOptions, today: date) -> Iterator[View]:
    """The memory that the options ask for: of the work tree, of an earlier moment, or of where a fork began."""
    if options.at is not None and options.base is not None:
        hint = "--at names an earlier state of this branch, --base what a fork's branch was started from."
        raise UsageError("--at and --base exclude each other", slug="option-conflict", hint=hint)
    if options.at is None and options.base is None:
        with synced_index(workspace) as index:
            yield View(workspace, today, index)
        return
    from memory_ci.memory.past_index import (
        Past,
        find_fork_point,
        find_moment,
    )  # 15 ms of codec that the present spares

    moment = (
        find_moment(workspace, options.at)
        if options.at
        else find_fork_point(workspace, options.base or "", today)
    )
    with Past(moment.workspace).index(moment.commit) as index:
        yield View(
            moment.workspace,
            moment.today,
            index,
            moment.commit if options.at else None,
            moment.note,
        )


def _name_edits(workspace: Workspace, hits: list[Hit], tree: str | None) -> list[Hit]:
    """The hits, those that are marked with what changed the code that they cite."""
    if all(verdict.kind not in MARKED for hit in hits for verdict in hit.verdicts):
        return hits
    from memory_ci.memory.edits import with_edits  # for those that are marked

    return with_edits(workspace, hits, tree)


def _find_embedder(
    config: Config, options: RetrieveOptions, environ: Mapping[str, str] | None
) -> EmbedderChoice | None:
    if (
        environ is None
        or config.retrieve.embedder == "none"
        or options.at is not None
        or options.base is not None
    ):
        return None
    from memory_ci.search.embedders import choose_embedder

    return choose_embedder(config.retrieve, environ)


def _note_lane(
    workspace: Workspace, embedder: EmbedderChoice | None, found: Ranked, today: date
) -> None:
    """Remember for `doctor` whether the vectors answered; where none were asked there is nothing to remember."""
    if embedder is None or embedder.embedder is None or not (found.cosines or found.reason):
        return
    from memory_ci.memory.embedding import note_lane  # 1 ms that words alone spare

    note_lane(workspace, today, "" if found.cosines else found.reason)


def _add_hints(
    answer: Retrieval,
    view: View,
    options: RetrieveOptions,
    max_chars: int,
    is_new: Callable[[Given], bool],
) -> Retrieval:
    """The answer, with what git history says where it holds fewer than two entries, if there is room. None for a file,
    and for a moment of the past, which did not know what was merged since."""
    if (
        not view.workspace.config.retrieve.hints
        or options.at is not None
        or options.about is not None
    ):
        return answer
    from memory_ci.commands.retrieve.similar import FEW, find_hints  # 3 ms that others spare

    if len(answer.hits) >= FEW:
        return answer
    hints = drop_taught(
        find_hints(view.workspace, answer.task, options.paths or (), is_new), answer.hits
    )
    told = replace(answer, hints=hints)
    total = context_cost(told) + sum(map(entry_cost, answer.hits))
    return told if total <= max_chars else answer


def drop_taught(hints: Hints, hits: Sequence[Hit]) -> Hints:
    """Return the hints without those of a change whose own entries are served: they would say the same again."""
    sources = {source for hit in hits for source in (hit.located.entry.source or "").split()}
    changes = [found for found in hints.changes if not sources & set(found.task.sources)]
    return replace(hints, changes=tuple(changes))


def _explain_silence(
    answer: Retrieval, found: Ranked, gone: int, besides: int, about: str | None
) -> Iterator[str]:
    """What the caller should know of what did not answer, and of what is not shown."""
    is_nothing, weak, known = not answer.hits and not answer.hits_dropped, answer.weak, answer.known
    if found.mode == "degraded":
        yield f"Words alone were asked: {found.reason}."
    if about is not None and is_nothing and not known:
        yield f"Nothing is known of {about}."
    if answer.task.strip() and not build_terms(answer.task):
        yield "The task has no words to search for."
    if weak and is_nothing:
        yield f"Nothing close ({weak} weak {'match' if weak == 1 else 'matches'}; `--all` shows them)."
    if known:
        yield f"This session was given {plural(known, 'entry')} before; `--all` shows {'it' if known == 1 else 'them'}."
    if answer.hits_dropped and not answer.hits:
        found_, least = (
            plural(len(answer.hits_dropped), "entry"),
            min(map(entry_cost, answer.hits_dropped)) + besides,
        )
        yield f"{found_} found, but no room: with the smallest it takes {least} characters."
    if gone:
        yield f"Withheld, because the code cited is gone: {plural(gone, 'entry')}. --stale shows them."


def _degraded(index: Index, view: View) -> tuple[Finding, ...]:
    """A warning when the index could not be kept: the answer is whole, but the next one costs as much again."""
    if not index.is_temporary or not index.reason:
        return ()
    path: Path = index_path(view.workspace)
    message = f"the index could not be kept: {index.reason}"
    return (
        Finding(
            str(path),
            1,
            "index-not-kept",
            message,
            "Check the rights and the space there.",
            "warning",
        ),
    )


def _norms(index: Index, today: date, decay: Decay) -> list[Norm]:
    """Institutional memory in file order: entries without their front matter, and prose that says something."""
    norms = []
    for place in list_entries(index, scopes=("institutional",), statuses=("active", "compacted")):
        entry = (
            place.entry
        )  # Title and body; what was declined is worded so that nobody follows it.
        declined = "[tried and rejected] " if entry.adoption == "rejected" else ""
        instead = f"\n\nDone instead: {entry.instead}" if entry.instead else ""
        text = f"## {declined}{entry.title}\n\n{entry.body}".rstrip() + instead
        norms.append(Norm(place.path, place.line, text, entry.id, prominence(entry, today, decay)))
    for norm in list_prose(index, "institutional"):
        text = strip_comments(norm.text).strip()
        if any(
            line.strip() and not line.startswith("#") for line in text.splitlines()
        ):  # a heading alone is no norm
            norms.append(replace(norm, text=text, prominence=1.0))
    return sorted(norms, key=lambda norm: (norm.path, norm.line))


def find_visible(
    workspace: Workspace, prefix: str, options: RetrieveOptions, today: date
) -> Located:
    """The entry whose id starts with `prefix`, among those that `retrieve` could give to who asks: not retired, not
    withheld as unsafe. Another one is as unknown as one that does not exist. Raises UsageError: unknown-entry,
    ambiguous-entry."""
    from memory_ci.memory.lookup import find_entry  # an answer to a task spares it

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
        raise UsageError(
            error.message, slug=error.slug, hint="What retrieve gives has its id."
        ) from error


def show_visible(
    workspace: Workspace, prefix: str, options: RetrieveOptions, today: date
) -> Retrieval:
    """That entry as an answer, marked where the code that it cites has changed. Raises UsageError: unknown-entry,
    ambiguous-entry."""
    from memory_ci.commands.retrieve.anchor_verdicts import judge_located
    from memory_ci.memory.edits import with_edits

    place = find_visible(workspace, prefix, options, today)
    truth = judge_located(workspace, [place], None) if may_be_judged(place) else {}
    hits = with_edits(workspace, [Hit(place, 1.0, (), verdicts=truth.get(place.entry, ()))], None)
    return Retrieval(task=prefix, mode="lexical", hits=tuple(hits))


def noted_ids(answer: Retrieval) -> tuple[str, ...]:
    """What the record of given ids holds of an answer: `injected_ids`, or that its session is given nothing."""
    from memory_ci.sessions.served_ids import HELD_OUT

    return (f"{HELD_OUT}{answer.held_out}",) if answer.held_out else injected_ids(answer)


def injected_ids(answer: Retrieval) -> tuple[str, ...]:
    """The ids of what the answer holds after its budget, norms and ranked entries alike."""
    norms = [norm.entry_id for norm in answer.norms if norm.entry_id]
    return tuple(dict.fromkeys([*norms, *(hit.located.entry.id for hit in answer.hits)]))
