"""Episodes that answer a question, and merged changes of git history that do so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from itertools import islice
from operator import mul

import msgspec
from msgspec.structs import replace

from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.gitrepo.addresses import find_forge_address
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.log import follow_renames, list_renames
from memory_ci.gitrepo.repo import find_commit, find_objects, find_setting, read_tips
from memory_ci.lifecycle.episodes import combine, list_feedback, weigh_by_learned
from memory_ci.lifecycle.utility import replay
from memory_ci.memory.episodes import Episodes, add_derived, load_episode_files
from memory_ci.memory.past_index import PastMoment, find_instant, find_moment
from memory_ci.memory.past_tasks import load_tasks
from memory_ci.memory.screening import is_unsafe
from memory_ci.memory.workspace import Workspace, load_memory, readable_path
from memory_ci.records.episode import (
    Action,
    Episode,
    Factor,
    Outcome,
    Ranking,
    Recalled,
    RecalledEpisode,
    Situation,
)
from memory_ci.records.names import SHA_WIDTH, SHORT_ID
from memory_ci.records.retrieval import SimilarTask, Task
from memory_ci.search.embedders import choose_embedder
from memory_ci.search.episode_rank import (
    POOL,
    ScoredEpisode,
    build_prompt,
    find_similar_episodes,
    list_candidates,
    rank_mempalace,
    rank_similar,
    rank_t4dm,
)
from memory_ci.search.similar_tasks import count_terms, find_answers
from memory_ci.text import plural

MAX_LIMIT = 100
MAX_CHANGES = 3  # Changes of history that are listed below the episodes.
MAX_EMBEDDED = 100  # Episodes that are embedded: about a second of the local model's work.
WORDS = "tf-idf"


class RecallQuery(msgspec.Struct, frozen=True):
    """A question to the episodes, and the time at which it is asked.

    Attributes:
        ranking: None is the configured one.
        session: this session's episodes are visible, in addition to those of no session.
        all_sessions: the episodes of all sessions are visible.
        occurred: first and last day (UTC), both included.
        at: a revision, a day or a moment; its memory is asked, and ranked as then.
    """

    query: str
    now: datetime
    ranking: Ranking | None = None
    limit: int = 10
    session: str | None = None
    all_sessions: bool = False
    outcomes: tuple[Outcome, ...] = ()
    occurred: tuple[date, date] | None = None
    at: str | datetime | None = None

    def allows(self, day: date, outcome: Outcome) -> bool:
        """Tell whether work of this day and outcome may answer."""
        first, last = self.occurred or (date.min, date.max)
        return first <= day <= last and (not self.outcomes or outcome in self.outcomes)


def recall_episodes(
    workspace: Workspace, query: RecallQuery, environ: Mapping[str, str] | None = None
) -> Recalled:
    """Return the episodes that answer a query, best first, with the factors of their scores.

    Args:
        environ: the environment of embedders; without it no vectors are asked.

    Raises:
        RepositoryError: unknown-revision, shallow-clone.
    """
    moment, now = _find_moment(workspace, query)
    ranking = query.ranking or workspace.config.episodes.ranking
    limit = min(max(query.limit, 1), MAX_LIMIT)
    sound_query = replace(query, ranking=ranking, limit=limit, now=now)
    stored = _load_episodes(workspace, moment)
    episodes = _filter_episodes(combine(stored.tellings), sound_query)
    recalled = _rank(workspace, sound_query, episodes, stored, moment=moment, environ=environ)

    notes = [moment.note] if moment and moment.note else []
    if query.limit != limit:
        notes.append(f"A limit of {query.limit} is out of range, {limit} is taken.")
    if stored.findings:
        count = plural(len(stored.findings), "finding")
        notes.append(f"Not everything could be read: {count}. `memory-ci check` names them.")
    if stored.problem:
        notes.append(f"Merged changes without a file cannot be read: {stored.problem}.")
    if ranking == "similar" and not count_terms(query.query):
        notes.append("The question has no words to search for.")
    recalled = replace(recalled, notes=(*notes, *recalled.notes))
    if moment is None:
        changes = _search_history(workspace, sound_query, recalled.hits)
        recalled = replace(recalled, changes=changes)
    if not recalled.hits and not recalled.changes:
        return recalled
    remote = find_setting(workspace.repo, f"remote.{workspace.config.publish.remote}.url")
    return replace(recalled, address=find_forge_address(remote or ""))


def _find_moment(workspace: Workspace, query: RecallQuery) -> tuple[PastMoment | None, datetime]:
    """Return the moment whose memory is asked (None: the work tree), and the time for ranking."""
    if query.at is None:
        return None, query.now
    if isinstance(query.at, datetime):
        return find_instant(workspace, query.at), query.at
    moment = find_moment(workspace, query.at)
    # The end of that day, but not the future.
    end_of_day = datetime.combine(moment.today, time.max, UTC)
    return moment, min(query.now, end_of_day)


def _load_episodes(workspace: Workspace, moment: PastMoment | None) -> Episodes:
    view = None
    if moment is not None:
        view = moment.commit
        if view is None:  # Before the first commit.
            return Episodes((), ())
    files = load_episode_files(workspace, view)
    stored = add_derived(workspace, files, view)
    if len(stored.tellings) == len(files.written.tellings):
        return stored
    entries = [located.entry for located in load_memory(workspace, view).located]
    written_ids = {telling.id for telling in files.written.tellings}
    return replace(stored, tellings=weigh_by_learned(stored.tellings, written_ids, entries))


def _filter_episodes(episodes: Iterable[Episode], query: RecallQuery) -> list[Episode]:
    return [
        episode
        for episode in episodes
        if is_visible(episode, query.session, all_sessions=query.all_sessions)
        and query.allows(episode.occurred_at.astimezone(UTC).date(), episode.outcome)
    ]


def is_visible(episode: Episode, session: str | None, *, all_sessions: bool = False) -> bool:
    """Tell whether a session may see an episode: its own, or one of no session."""
    return all_sessions or episode.context.get("session", "") in ("", session)


# -- history


def _search_history(
    workspace: Workspace, query: RecallQuery, hits: Sequence[RecalledEpisode]
) -> tuple[RecalledEpisode, ...]:
    """Return the merged changes that answer and have no episode among the hits.

    A shallow clone has none.
    """
    free = min(MAX_CHANGES, query.limit - len(hits))
    if free <= 0:
        return ()
    names = _list_names(hits)

    def may_answer(task: Task) -> bool:
        has_episode = not names.isdisjoint((task.number, task.sha[:SHA_WIDTH]))
        return task.is_merged and not has_episode and query.allows(task.merged_on, task.outcome)

    with suppress(RepositoryError):
        tip = read_tips(workspace.repo).commit
        if tip is not None:
            tasks = load_tasks(workspace, tip)
            answers = find_answers(query.query, tasks.tasks, tasks.prompts, free, may_answer)
            return tuple(_as_episode(answer) for answer in answers)
    return ()


def _list_names(hits: Sequence[RecalledEpisode]) -> set[int | str]:
    """List the numbers and short shas of the changes that episodes tell of."""
    names: set[int | str] = set()
    for hit in hits:
        action = hit.episode.action
        if action.pr:
            names.add(action.pr)
        if action.commit:
            names.add(action.commit[:SHA_WIDTH])
    return names


def _as_episode(similar: SimilarTask) -> RecalledEpisode:
    """Return a merged change as the episode that it would have."""
    task = similar.task
    short_sha = task.sha[:SHA_WIDTH]
    episode = Episode(
        id=f"commit-{short_sha}" if task.number is None else f"pr-{task.number}",
        occurred_at=datetime.combine(task.merged_on, time.min, UTC),
        situation=Situation(summary=task.title),
        action=Action(pr=task.number, commit=task.sha, files=task.touched),
        outcome=task.outcome,
        text=task.quote,
    )
    factors = tuple(Factor(name, value) for name, value in similar.factors)
    return RecalledEpisode(episode, similar.score, factors)


# -- ranking


def _rank(
    workspace: Workspace,
    query: RecallQuery,
    episodes: Sequence[Episode],
    stored: Episodes,
    *,
    moment: PastMoment | None,
    environ: Mapping[str, str] | None,
) -> Recalled:
    if query.ranking == "mempalace":
        return _rank_by_mempalace(query, episodes, stored)
    if query.ranking == "t4dm":
        return _rank_by_t4dm(workspace, query, episodes, environ)
    candidates = [pair for pair in find_similar_episodes(query.query, episodes) if is_safe(pair[0])]
    rev = moment.commit if moment else "HEAD"
    still = _count_existing_files(workspace, [episode for episode, _ in candidates], rev)
    return Recalled("similar", WORDS, rank_similar(candidates, still, query.limit))


def _rank_by_mempalace(
    query: RecallQuery, episodes: Sequence[Episode], stored: Episodes
) -> Recalled:
    feedback = list_feedback(stored.tellings)
    utilities = replay(feedback)
    values = {entry_id: utility.value for entry_id, utility in utilities.items()}
    ranked = rank_mempalace(query.query, episodes, values, query.now)
    safe = (hit for hit in ranked if is_safe(hit.episode))
    return Recalled("mempalace", hits=tuple(islice(safe, query.limit)))


def _rank_by_t4dm(
    workspace: Workspace,
    query: RecallQuery,
    episodes: Sequence[Episode],
    environ: Mapping[str, str] | None,
) -> Recalled:
    safe = (pair for pair in list_candidates(query.query, episodes) if is_safe(pair[0]))
    pool = list(islice(safe, POOL * query.limit))
    likeness = WORDS
    reason = ""
    if environ is not None and pool:
        pool, likeness, reason = _compare_vectors(workspace, query.query, pool, environ)
    notes = (f"Words alone were compared: {reason}.",) if reason else ()
    hits = rank_t4dm(pool, query.now)[: query.limit]
    return Recalled("t4dm", likeness, tuple(hits), notes)


def _compare_vectors(
    workspace: Workspace, query: str, pool: list[ScoredEpisode], environ: Mapping[str, str]
) -> tuple[list[ScoredEpisode], str, str]:
    """Replace the likeness of words by cosines of vectors.

    Returns:
        The pool, the name of the likeness, and a reason if vectors failed.
    """
    choice = choose_embedder(workspace.config.retrieve, environ)
    if choice.embedder is None or len(pool) > MAX_EMBEDDED:
        return pool, WORDS, choice.reason if choice.mode == "degraded" else ""
    try:
        query_vector = choice.embedder.embed([query], "query").data
        vectors = choice.embedder.embed([build_prompt(episode) for episode, _ in pool])
    except MemoryCIError as error:
        return pool, WORDS, error.message

    starts = range(0, len(vectors.data), vectors.dim)
    compared = []
    for (episode, _), start in zip(pool, starts, strict=True):
        vector = vectors.data[start : start + vectors.dim]
        cosine = sum(map(mul, query_vector, vector))
        compared.append((episode, max(0.0, cosine)))
    return compared, choice.embedder.model_id, ""


def is_safe(episode: Episode) -> bool:
    """Tell whether nothing in the words of an episode must be withheld from an agent."""
    action = episode.action
    names = (episode.id, *action.files, *action.tools, *episode.context, *episode.context.values())
    return not is_unsafe("\n".join((build_prompt(episode), *names)))


def _count_existing_files(
    workspace: Workspace, episodes: Sequence[Episode], rev: str | None
) -> dict[str, int]:
    """Count for each episode its files that exist at a revision, renamed or not."""
    commit = find_commit(workspace.repo, rev) if rev else None
    if commit is None or not episodes:
        return {}
    files = tree_at(workspace.repo, commit).files.values()
    existing = frozenset(readable_path(path) for path in files)
    renames = _list_renames(workspace, episodes, existing, commit)

    counts = {}
    for episode in episodes:
        paths = episode.action.files
        counts[episode.id] = sum(_exists(path, renames, existing) for path in paths)
    return counts


def _list_renames(
    workspace: Workspace, episodes: Sequence[Episode], existing: frozenset[str], commit: str
) -> dict[str, str]:
    """List the renames since the commits of the episodes that have files which do not exist."""
    shas = []
    for episode in episodes:
        sha = episode.action.commit
        if not existing.issuperset(episode.action.files) and re.fullmatch(SHORT_ID, sha):
            shas.append(f"{sha}^{{commit}}")
    commits = [sha for sha in find_objects(workspace.repo, shas) if sha]  # those that exist
    return list_renames(workspace.repo, commits, commit) if commits else {}


def _exists(path: str, renames: Mapping[str, str], existing: frozenset[str]) -> bool:
    return path in existing or follow_renames(path, renames, existing) is not None
