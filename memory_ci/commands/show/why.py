"""Why: what an entry counts on a day and what made it so; what is around it, what lost it, which lines taught it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import partial

from msgspec.structs import replace

from memory_ci.commands.retrieve.anchor_verdicts import judge_located, weigh_truth
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.ranking import make_standing, weights_of
from memory_ci.commands.show.records import CountedFeedback, Edge, Graph, Node, Retrievability, Why
from memory_ci.errors import UsageError
from memory_ci.gitrepo.edits import blame_lines
from memory_ci.gitrepo.forges import find_number
from memory_ci.gitrepo.log import read_log
from memory_ci.lifecycle import episodes as told
from memory_ci.lifecycle.prominence import effective_importance, prominence, retrievability
from memory_ci.lifecycle.relations import relations_of
from memory_ci.lifecycle.similarity import words_of
from memory_ci.lifecycle.utility import find_retentions, list_turns, replay
from memory_ci.memory.edits import name_edits
from memory_ci.memory.episodes import load_episodes, mask_feedback
from memory_ci.memory.index import synced_index
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.past_index import find_moment
from memory_ci.memory.screening import find_unsafe, is_unsafe
from memory_ci.memory.workspace import Workspace, list_view, load_memory
from memory_ci.records.config import EpisodesConfig
from memory_ci.records.entry import Located
from memory_ci.records.episode import Episode, Telling, UseCount
from memory_ci.records.history import BlamedLines, NamedEntry
from memory_ci.records.names import SHA_WIDTH, work_ref
from memory_ci.records.retrieval import Match
from memory_ci.search.neighbours import LEAST_JACCARD, find_similar
from memory_ci.search.rank import rank
from memory_ci.search.search import list_entries
from memory_ci.text import plural

WITHHELD = "[withheld]"
MAX_NAMED = 5
NO_FSRS = (
    "How much of it is left to memory is told by the package fsrs: pip install 'memory-ci[fsrs]'."
)
LOW = "Much was said against it: a person should look whether it still holds. It is never retired for that alone."


def explain_entry(workspace: Workspace, prefix: str, today: date, at: str | None = None) -> Why:
    """Why the entry whose id begins with `prefix` ranks as it does; `at` a commit or day, with that day as today.
    Raises UsageError (unknown-entry, ambiguous-entry), RepositoryError (unknown-revision, shallow-clone)."""
    view = None
    if at is not None:
        moment = find_moment(workspace, at)
        workspace, view, today = moment.workspace, moment.commit, moment.today
        if view is None:
            raise UsageError(
                f"no entry has an id that starts with {prefix!r}",
                slug="unknown-entry",
                hint=moment.note,
            )
    known, episodes, config = (
        load_memory(workspace, view),
        load_episodes(workspace, view),
        workspace.config,
    )
    located = known.located
    if view is None:
        with synced_index(workspace) as index:  # it alone has global memory
            located = (*located, *list_entries(index, scopes=("global",)))
    place = find_entry(located, prefix, known.findings)
    entry, decay = place.entry, config.prominence.decay
    heirs, said = (
        told.find_heirs_among(one.entry for one in located),
        told.list_feedback(episodes.tellings),
    )
    feedback = told.pass_on(said, heirs)
    usage = told.count_usage(told.combine(episodes.tellings), heirs).get(entry.id, UseCount())
    utilities = replay(said, config.episodes.ignored_policy, heirs=heirs)
    standing = make_standing([entry], feedback, utilities, config, today)
    # What global memory cites is of other repositories.
    truth = judge_located(workspace, [place], view) if place.scope.name != "global" else {}
    weights = weights_of(config, RetrieveOptions(), standing)
    weights = replace(weights, truth=partial(weigh_truth, truth, stale=False))
    ranked = [] if place.scope.name == "institutional" else rank([Match(place, 1.0)], weights)
    utility = standing.utilities.get(entry.id)
    is_low = utility is not None and utility.is_low
    memory, lacking = None, list[str]()
    try:
        if kept := find_retentions([entry], feedback).get(entry.id):
            left = retrievability(entry, today, kept)
            memory = Retrievability(kept.stability, left, kept.reviews, kept.reviewed_on)
    except UsageError:
        lacking = [NO_FSRS]
    return Why(
        located=place,
        today=today,
        prominence=prominence(entry, today, decay, standing.retentions.get(entry.id)),
        parts=(
            ("importance", effective_importance(entry)),
            ("recency", standing.recency(entry)),
            ("reinforcement", 1.0 + entry.reinforcement_count),
            *((("retired", 0.0),) if entry.status == "retired" else ()),
        ),
        decay=decay,
        utility=standing.utility(entry),
        given=usage.given,
        used=usage.used,
        touched=utility.touched if utility else 0,
        heard=tuple(_list_heard(entry.id, episodes.tellings, heirs, config.episodes)),
        is_low=is_low,
        memory=memory,
        factors=ranked[0].factors[1:] if ranked else (),
        verdicts=name_edits(workspace, [(entry, truth.get(entry, ()))], view)[0],
        notes=(
            *_note_twins(place, located),
            *((LOW,) if is_low else ()),
            *lacking,
            *_note_absence(place, today, is_ranked=bool(ranked)),
        ),
        findings=episodes.findings,
    )


def _list_heard(
    entry_id: str, tellings: Sequence[Telling], heirs: told.Heirs, settings: EpisodesConfig
) -> Iterator[CountedFeedback]:
    """Each event of an entry in the order of replay, with the episode that it belongs to."""
    episodes = reversed(told.combine(tellings))
    tellers = {
        told.event_key(said): one for one in episodes for said in told.pass_on(one.feedback, heirs)
    }
    for turn in list_turns(told.list_feedback(tellings), settings.ignored_policy, heirs=heirs):
        if turn.said.id == entry_id:
            said, episode = mask_feedback(turn.said), tellers.get(told.event_key(turn.said))
            counted = CountedFeedback(
                said.at, said.kind, turn.delta, turn.utility.value, said.by, said.ref
            )
            if episode is not None:
                summary = episode.situation.summary or episode.text
                summary = WITHHELD if is_unsafe(summary) else summary
                counted = replace(
                    counted, episode=episode.id, outcome=episode.outcome, summary=summary
                )
            yield counted


def _note_twins(place: Located, located: Sequence[Located]) -> Iterator[str]:
    """A note on other places of the same id: the first place counts."""
    twins = sorted(
        (other.path, other.line) for other in located if other.entry.id == place.entry.id
    )
    others = [f"{path}:{line}" for path, line in twins if (path, line) != (place.path, place.line)]
    if others:
        yield f"Its id stands at {', '.join(others[:MAX_NAMED])} as well; this is the first place."


def _note_absence(place: Located, today: date, *, is_ranked: bool) -> Iterator[str]:
    """Why `retrieve` does not give it, or not by its rank."""
    entry = place.entry
    if place.scope.name == "institutional":
        yield "Institutional memory is given whole and never ranked."
    elif entry.status == "retired":
        yield "It is retired: retrieve does not give it."
    elif not is_ranked:
        yield "Nothing is left of the code that it cites: retrieve withholds it."
    if entry.valid_until is not None and entry.valid_until <= today:
        yield f"It is not valid any more since {entry.valid_until}: retrieve does not give it."
    for finding in find_unsafe(place):
        yield f"It {finding.message} [{finding.code}]: retrieve does not give it."


# -- graph: an entry, what it names, what names it, and what is like it

MAX_NODES = 200  # more than that nobody reads, and for each of them the index is asked


def build_graph(workspace: Workspace, prefix: str, depth: int, most: int = MAX_NODES) -> Graph:
    """The entry whose id starts with `prefix`, with up to `most` that are at most `depth` edges away in memory at hand.

    Stated edges are followed both ways. Retired entries are shown where they are named; none is similar to anything.
    Raises UsageError: unknown-entry, ambiguous-entry.
    """
    edges: dict[tuple[frozenset[str] | tuple[str, str], str], Edge] = {}
    left_out, is_by_words = set[str](), False
    with synced_index(workspace) as index:
        located = list_entries(index)
        center = find_entry(located, prefix).entry.id
        places = {place.entry.id: place for place in reversed(located)}
        stated, distances, frontier = _list_stated(places), {center: 0}, [center]
        for distance in range(1, depth + 1):
            alive = [
                places[id_]
                for id_ in frontier
                if id_ in places and places[id_].entry.status != "retired"
            ]
            found = find_similar(index, alive, words_of, scopes=None)
            is_by_words |= any(one.basis == "words" for one in found)
            around = {id_: list(stated[id_]) for id_ in frontier}
            for place, one in zip(alive, found, strict=True):
                id_ = place.entry.id
                around[id_] += [
                    Edge(id_, n.located.entry.id, "similar", round(n.weight, 4)) for n in one.near
                ]
            frontier = []
            for id_, edge in ((id_, edge) for id_, own in around.items() for edge in own):
                other = edge.target if edge.source == id_ else edge.source
                if other not in distances and len(distances) >= most:
                    left_out.add(other)
                    continue
                if other not in distances:
                    distances[other] = distance
                    frontier.append(other)
                ends = (edge.source, edge.target)
                edges.setdefault(
                    (frozenset(ends) if edge.kind == "similar" else ends, edge.kind), edge
                )
    notes = []
    if is_by_words:
        notes.append(
            f"Similar entries were found by words in common ({LEAST_JACCARD:.2f} or more), not by vectors."
        )
    if left_out:
        notes.append(
            f"Only {most} entries are shown; {plural(len(left_out), 'entry')} around them left out."
        )
    nodes = tuple(_node(id_, distance, places.get(id_)) for id_, distance in distances.items())
    return Graph(center, depth, nodes, tuple(edges.values()), tuple(notes))


def _list_stated(places: Mapping[str, Located]) -> defaultdict[str, list[Edge]]:
    """By each id the edges that it has a part in, in the order of the kinds and of the ids at their other ends."""
    edges: defaultdict[str, list[Edge]] = defaultdict(list)
    for id_, place in sorted(places.items()):
        relations = (
            Edge(id_, relation.id, relation.kind) for relation in relations_of(place.entry)
        )
        older = (Edge(id_, old, "supersedes") for old in place.entry.supersedes)
        for edge in dict.fromkeys((*relations, *older)):
            for end in {edge.source, edge.target}:
                edges[end].append(edge)
    return edges


def _node(id_: str, distance: int, place: Located | None) -> Node:
    if place is None:
        return Node(id_, distance, is_missing=True)
    entry, scope = place.entry, place.scope
    return Node(
        id_, distance, entry.title, entry.type, entry.status, scope.target, place.path, place.line
    )


# -- blame: for each line the work that brought it, what that was given and used, and what was learned of it

MAX_FILES = 50  # files of one piece of work whose lines are looked up


def blame(workspace: Workspace, place: str, view: str | None) -> tuple[BlamedLines, ...]:
    """The lines of PATH or PATH:A-B, as the work tree (None) or a revision has them, with their work. Raises UsageError
    (unknown-cite) for what is no file or no lines, RepositoryError (unknown-revision)."""
    path, _, range_ = place.rpartition(":")
    first, _, last = range_.partition("-")
    lines = (
        (int(first), int(last or first))
        if path and first.isdecimal() and (last or first).isdecimal()
        else None
    )
    path = path if lines else place
    if path not in {file.path for file in list_view(workspace, view, [f":(literal){path}"])}:
        hint = "Name it from the top of the repository: src/client.py:10-20."
        raise UsageError(f"there is no file {path} here", slug="unknown-cite", hint=hint)
    located, episodes = load_memory(workspace, view).located, _episodes_by_ref(workspace, view)
    return tuple(_blame_file(workspace, path, lines, view, located, episodes))


def list_lines_of(workspace: Workspace, prefix: str, view: str | None) -> tuple[BlamedLines, ...]:
    """The lines that the work which taught an entry brought, and that stand today, of at most MAX_FILES files. Raises
    UsageError (unknown-entry)."""
    memory, episodes = load_memory(workspace, view), _episodes_by_ref(workspace, view)
    located = memory.located
    entry = find_entry(located, prefix, memory.findings).entry
    taught = set((entry.source or "").split())
    files = list(
        dict.fromkeys(
            path for ref in taught if ref in episodes for path in episodes[ref].action.files
        )
    )
    here = (
        {file.path for file in list_view(workspace, view, [f":(literal){path}" for path in files])}
        if files
        else ()
    )
    return tuple(
        one
        for path in files[:MAX_FILES]
        if path in here
        for one in _blame_file(workspace, path, None, view, located, episodes)
        if any(named.id == entry.id for named in one.learned)
    )


def _blame_file(
    workspace: Workspace,
    path: str,
    lines: tuple[int, int] | None,
    view: str | None,
    located: Sequence[Located],
    episodes: Mapping[str, Episode],
) -> Iterator[BlamedLines]:
    titles = {one.entry.id: one.entry.title for one in located}
    brought = blame_lines(workspace.repo, path, lines, view)
    shas = sorted({one.sha for one in brought if one.sha})
    log = read_log(workspace.repo, "--no-walk", "--end-of-options", *shas) if shas else ()
    numbers = {commit.sha: find_number(commit.message) for commit, _ in log}
    for one in brought:
        number = numbers.get(one.sha)
        refs = (work_ref(number, one.sha), f"commit:{one.sha[:SHA_WIDTH]}")
        episode = next((episodes[ref] for ref in refs if one.sha and ref in episodes), None)
        given = (
            dict.fromkeys([*(given.id for given in episode.retrieved), *episode.used])
            if episode
            else ()
        )
        used = set(episode.used) if episode else ()
        taught = [
            own.entry
            for own in located
            if one.sha and {*refs}.intersection((own.entry.source or "").split())
        ]
        yield BlamedLines(
            path=path,
            first=one.first,
            last=one.last,
            commit=one.sha,
            day=one.day,
            subject=one.subject,
            number=number,
            given=tuple(NamedEntry(key, titles.get(key, ""), key in used) for key in given),
            learned=tuple(NamedEntry(entry.id, entry.title) for entry in taught),
        )


def _episodes_by_ref(workspace: Workspace, view: str | None) -> dict[str, Episode]:
    found: dict[str, Episode] = {}
    for one in told.combine(load_episodes(workspace, view).tellings):
        for ref in (
            f"pr:{one.action.pr}" if one.action.pr else "",
            f"commit:{one.action.commit[:SHA_WIDTH]}",
        ):
            found[ref] = one
    return found
