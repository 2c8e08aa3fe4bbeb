"""Search for episodes, records of earlier work, and merged changes that answer a question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from itertools import islice
from operator import mul
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.gitrepo.addresses import find_forge_address
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.log import follow_renames, list_renames
from memory_ci.gitrepo.repo import find_commit, find_objects, find_setting, read_tips
from memory_ci.lifecycle.episodes import apply_amendments, list_feedback, weigh_by_learned
from memory_ci.lifecycle.utility import compute_utilities
from memory_ci.memory.episodes import Episodes, add_derived_episodes, load_episode_files
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
WORDS_MEASURE = "tf-idf"
"""The measure of similarity where texts are compared by their words."""


class RecallQuery(msgspec.Struct, frozen=True):
    """A question to the episodes, and the time at which it is asked.

    Attributes:
        ranking: the formula that orders the episodes: `similar`, or that of another memory for
            agents (`mempalace`, `t4dm`); None is the configured one.
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
        """Return whether work of a day and an outcome is within the limits of the query."""
        first_day, last_day = self.occurred or (date.min, date.max)
        if not first_day <= day <= last_day:
            return False
        return not self.outcomes or outcome in self.outcomes


def recall_episodes(
    workspace: Workspace, query: RecallQuery, environ: Mapping[str, str] | None = None
) -> Recalled:
    """Return the episodes that answer a query, best first, with the factors of their scores.

    Episodes are records of earlier work. If the query is about the present, not about a moment in
    the past, merged changes of git history follow that answer it and have no episode.

    Args:
        workspace: the repository and its configuration.
        query: the question, and which episodes may answer it.
        environ: the environment that an embedder is configured by; without it, words alone are
            compared.

    Raises:
        RepositoryError: unknown-revision, shallow-clone.
    """
    moment, now = _find_past_moment(workspace, query)
    ranking = query.ranking or workspace.config.episodes.ranking
    limit = min(max(query.limit, 1), MAX_LIMIT)
    bounded_query = replace(query, ranking=ranking, limit=limit, now=now)
    stored = _load_episodes(workspace, moment)
    episodes = _filter_episodes(apply_amendments(stored.records), bounded_query)
    recalled = _rank_episodes(
        workspace, bounded_query, episodes, stored, moment=moment, environ=environ
    )
    changes: tuple[RecalledEpisode, ...] = ()
    if moment is None:
        changes = _search_history(workspace, bounded_query, recalled.hits)
    address = ""
    if recalled.hits or changes:
        remote = find_setting(workspace.repo, f"remote.{workspace.config.publish.remote}.url")
        address = find_forge_address(remote or "")

    notes = []
    if moment and moment.note:
        notes.append(moment.note)
    if query.limit != limit:
        notes.append(f"A limit of {query.limit} is out of range, {limit} is taken.")
    notes += _note_unread(stored)
    if ranking == "similar" and not count_terms(query.query):
        notes.append("The question has no words to search for.")
    all_notes = (*notes, *recalled.notes)
    return replace(recalled, notes=all_notes, changes=changes, address=address)


def _note_unread(stored: Episodes) -> Iterator[str]:
    """Yield sentences on episode files and merged changes that could not be read."""
    if stored.findings:
        count = plural(len(stored.findings), "finding")
        yield f"Not everything could be read: {count}. `memory-ci check` names them."
    if stored.problem:
        yield f"Merged changes without a file cannot be read: {stored.problem}."


def _find_past_moment(
    workspace: Workspace, query: RecallQuery
) -> tuple[PastMoment | None, datetime]:
    """Return the moment whose memory is searched, and the time by which the ages count.

    The moment is None for the work tree.
    """
    if query.at is None:
        return None, query.now
    if isinstance(query.at, datetime):
        return find_instant(workspace, query.at), query.at
    moment = find_moment(workspace, query.at)
    # The end of that day, but not the future.
    end_of_day = datetime.combine(moment.today, time.max, UTC)
    return moment, min(query.now, end_of_day)


def _load_episodes(workspace: Workspace, moment: PastMoment | None) -> Episodes:
    """Load the episodes of a moment or of the work tree: written files, and derived ones.

    Episodes of merged changes without a file are derived from git history. Their importance
    depends on what memory learned from the change.
    """
    commit = None
    if moment is not None:
        commit = moment.commit
        if commit is None:  # Before the first commit.
            return Episodes((), ())
    files = load_episode_files(workspace, commit)
    stored = add_derived_episodes(workspace, files, commit)
    has_derived = len(stored.records) > len(files.written.records)
    if not has_derived:
        return stored
    entries = [located.entry for located in load_memory(workspace, commit).located]
    written_ids = {record.id for record in files.written.records}
    return replace(stored, records=weigh_by_learned(stored.records, written_ids, entries))


def _filter_episodes(episodes: Iterable[Episode], query: RecallQuery) -> list[Episode]:
    """Return the episodes that the session of a query may see, and that are within its limits."""
    filtered = []
    for episode in episodes:
        if not is_visible(episode, query.session, all_sessions=query.all_sessions):
            continue
        if query.allows(episode.occurred_at.astimezone(UTC).date(), episode.outcome):
            filtered.append(episode)
    return filtered


def is_visible(episode: Episode, session: str | None, *, all_sessions: bool = False) -> bool:
    """Return whether a session may see an episode: its own, or one of no session."""
    return all_sessions or episode.context.get("session", "") in ("", session)


# -- history


def _search_history(
    workspace: Workspace, query: RecallQuery, hits: Sequence[RecalledEpisode]
) -> tuple[RecalledEpisode, ...]:
    """Return the merged changes that answer a query and have no episode among the hits.

    A change answers by its title, or by the words of people that are joined with it, its prompts.
    There are at most MAX_CHANGES, and no more than the limit of the query. A shallow clone has
    none.
    """
    max_count = min(MAX_CHANGES, query.limit - len(hits))
    if max_count <= 0:
        return ()
    change_names = _list_change_names(hits)

    def may_answer(task: Task) -> bool:
        if not task.is_merged or not query.allows(task.merged_on, task.outcome):
            return False
        return change_names.isdisjoint((task.number, task.sha[:SHA_WIDTH]))

    with suppress(RepositoryError):
        tip = read_tips(workspace.repo).commit
        if tip is not None:
            past_work = load_tasks(workspace, tip)
            answers = find_answers(
                query.query, past_work.tasks, past_work.prompts, max_count, may_answer
            )
            return tuple(_make_episode_of_change(answer) for answer in answers)
    return ()


def _list_change_names(hits: Sequence[RecalledEpisode]) -> set[int | str]:
    """Return the numbers of the pull requests and the short commit ids that episodes are about."""
    names: set[int | str] = set()
    for hit in hits:
        action = hit.episode.action
        if action.pr:
            names.add(action.pr)
        if action.commit:
            names.add(action.commit[:SHA_WIDTH])
    return names


def _make_episode_of_change(similar: SimilarTask) -> RecalledEpisode:
    """Return a merged change in the form of an episode, with its score and factors."""
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


def _rank_episodes(
    workspace: Workspace,
    query: RecallQuery,
    episodes: Sequence[Episode],
    stored: Episodes,
    *,
    moment: PastMoment | None,
    environ: Mapping[str, str] | None,
) -> Recalled:
    """Rank episodes by the formula that a query names, without those withheld from agents.

    `similar` is our own formula; `mempalace` and `t4dm` are those of other memories for agents.

    Args:
        workspace: the repository and its configuration.
        query: the question, its ranking and its limit.
        episodes: the episodes that may answer.
        stored: all episodes and the feedback in them.
        moment: a moment in the past; work on files that existed then ranks higher. None: HEAD.
        environ: the environment that an embedder is configured by; None: no embedder is used.
    """
    if query.ranking == "mempalace":
        return _rank_by_mempalace(query, episodes, stored)
    if query.ranking == "t4dm":
        return _rank_by_t4dm(workspace, query, episodes, environ)
    similar_episodes = find_similar_episodes(query.query, episodes)
    candidates = [(episode, score) for episode, score in similar_episodes if is_safe(episode)]
    rev = moment.commit if moment else "HEAD"
    safe_episodes = [episode for episode, _ in candidates]
    existing_counts = _count_existing_files(workspace, safe_episodes, rev)
    return Recalled(
        "similar", WORDS_MEASURE, rank_similar(candidates, existing_counts, query.limit)
    )


def _rank_by_mempalace(
    query: RecallQuery, episodes: Sequence[Episode], stored: Episodes
) -> Recalled:
    """Rank episodes by the formula of MemPalace, which also uses the feedback on entries."""
    feedback = list_feedback(stored.records)
    utilities = {}
    for entry_id, utility in compute_utilities(feedback).items():
        utilities[entry_id] = utility.value
    ranked_hits = rank_mempalace(query.query, episodes, utilities, query.now)
    safe_hits = (hit for hit in ranked_hits if is_safe(hit.episode))
    return Recalled("mempalace", hits=tuple(islice(safe_hits, query.limit)))


def _rank_by_t4dm(
    workspace: Workspace,
    query: RecallQuery,
    episodes: Sequence[Episode],
    environ: Mapping[str, str] | None,
) -> Recalled:
    """Rank episodes by the formula of T4DM, a weighted sum of similarity, age and outcome.

    The similarity with the question is that of vectors if there is an embedder, else of words. It
    is measured only for the episodes that are best by words.

    Args:
        workspace: the repository and its configuration.
        query: the question and its limit.
        episodes: the episodes that may answer.
        environ: the environment that an embedder is configured by; None: words are compared.
    """
    candidates = list_candidates(query.query, episodes)
    safe_candidates = ((episode, score) for episode, score in candidates if is_safe(episode))
    best_candidates = list(islice(safe_candidates, POOL * query.limit))
    compared = ComparedEpisodes(best_candidates, WORDS_MEASURE)
    if environ is not None and best_candidates:
        compared = _compare_vectors(workspace, query.query, best_candidates, environ)
    notes: tuple[str, ...] = ()
    if compared.failure:
        notes = (f"Words alone were compared: {compared.failure}.",)
    hits = rank_t4dm(compared.episodes, query.now)[: query.limit]
    return Recalled("t4dm", compared.measure, tuple(hits), notes)


class ComparedEpisodes(NamedTuple):
    """Episodes with the similarity of each to a question.

    Attributes:
        episodes: the episodes, each with its similarity.
        measure: the measure of similarity: `tf-idf`, or the id of an embedding model.
        failure: why vectors could not be compared; "" if they were, or were not wanted.
    """

    episodes: list[ScoredEpisode]
    measure: str
    failure: str = ""


def _compare_vectors(
    workspace: Workspace, question: str, pool: list[ScoredEpisode], environ: Mapping[str, str]
) -> ComparedEpisodes:
    """Return episodes with the cosines of their vectors and that of a question.

    Without an embedder, or if it fails, the episodes are returned unchanged.
    """
    choice = choose_embedder(workspace.config.retrieve, environ)
    if choice.embedder is None or len(pool) > MAX_EMBEDDED:
        failure = choice.reason if choice.mode == "degraded" else ""
        return ComparedEpisodes(pool, WORDS_MEASURE, failure)
    try:
        question_vector = choice.embedder.embed([question], "query").data
        vectors = choice.embedder.embed([build_prompt(episode) for episode, _ in pool])
    except MemoryCIError as error:
        return ComparedEpisodes(pool, WORDS_MEASURE, error.message)

    compared = []
    # The vectors of all episodes are in one array, one after another.
    starts = range(0, len(vectors.data), vectors.dim)
    for (episode, _), start in zip(pool, starts, strict=True):
        vector = vectors.data[start : start + vectors.dim]
        cosine = sum(map(mul, question_vector, vector))
        compared.append((episode, max(0.0, cosine)))
    return ComparedEpisodes(compared, choice.embedder.model_id)


def is_safe(episode: Episode) -> bool:
    """Return whether no text of an episode must be withheld from an agent."""
    action = episode.action
    names = (episode.id, *action.files, *action.tools, *episode.context, *episode.context.values())
    return not is_unsafe("\n".join((build_prompt(episode), *names)))


def _count_existing_files(
    workspace: Workspace, episodes: Sequence[Episode], rev: str | None
) -> dict[str, int]:
    """Count for each episode, by id, its files that exist at a revision, renamed or not."""
    commit = find_commit(workspace.repo, rev) if rev else None
    if commit is None or not episodes:
        return {}
    files = tree_at(workspace.repo, commit).files.values()
    existing_paths = frozenset(readable_path(path) for path in files)
    renames = _list_renames(workspace, episodes, existing_paths, commit)

    counts = {}
    for episode in episodes:
        paths = episode.action.files
        counts[episode.id] = sum(_exists(path, renames, existing_paths) for path in paths)
    return counts


def _list_renames(
    workspace: Workspace, episodes: Sequence[Episode], existing_paths: frozenset[str], commit: str
) -> dict[str, str]:
    """Return the renames between the commits of episodes and a commit, as old path: new path.

    Only episodes with files that do not exist any more are looked at.
    """
    revisions = []
    for episode in episodes:
        sha = episode.action.commit
        has_missing_file = not existing_paths.issuperset(episode.action.files)
        if has_missing_file and re.fullmatch(SHORT_ID, sha):
            revisions.append(f"{sha}^{{commit}}")
    # A commit of a deleted branch may not exist any more.
    old_commits = [sha for sha in find_objects(workspace.repo, revisions) if sha]
    return list_renames(workspace.repo, old_commits, commit) if old_commits else {}


def _exists(path: str, renames: Mapping[str, str], existing_paths: frozenset[str]) -> bool:
    return path in existing_paths or follow_renames(path, renames, existing_paths) is not None
