"""Recall: the episodes that answer a question, of the work tree or of a moment of the past; where none, history."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from itertools import islice
from operator import mul

import msgspec
from msgspec.structs import replace

from memory_ci.errors import MemoryCIError, RepositoryError
from memory_ci.gitrepo.addresses import find_address
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.log import follow_renames, list_renames
from memory_ci.gitrepo.repo import find_commit, find_objects, find_setting, read_tips
from memory_ci.lifecycle.episodes import combine, list_feedback
from memory_ci.lifecycle.utility import replay
from memory_ci.memory.episodes import Episodes, load_episodes
from memory_ci.memory.past_index import PastMoment, find_instant, find_moment
from memory_ci.memory.past_tasks import load_tasks
from memory_ci.memory.screening import is_unsafe
from memory_ci.memory.workspace import Workspace, readable_path
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
    Near,
    find_near,
    find_pool,
    prompt_of,
    rank_mempalace,
    rank_similar,
    rank_t4dm,
)
from memory_ci.search.similar_tasks import count_terms, find_answers
from memory_ci.text import plural

MAX_LIMIT = 100
MAX_CHANGES = 3  # Of history that are named below the episodes.
MAX_EMBEDDED = (
    100  # Episodes that are embedded for a question: about a second of the local model's work.
)
WORDS = "tf-idf"


class RecallQuery(msgspec.Struct, frozen=True):
    """What is asked of episodes, and when. `occurred`: first and last day (UTC), both included.

    `ranking` None is what the configuration says. `at` asks the memory of a revision, of the end of a day or of a
    moment, as it was ranked then. A session sees its own episodes and those of none, unless all are asked for.
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


def recall_episodes(
    workspace: Workspace, wanted: RecallQuery, environ: Mapping[str, str] | None = None
) -> Recalled:
    """The episodes that answer a query, best first, each with the factors of its score. Without `environ` no vectors
    are asked. Raises RepositoryError: unknown-revision, shallow-clone."""
    at, now, moment = wanted.at, wanted.now, None
    if isinstance(at, datetime):
        moment, now = find_instant(workspace, at), at
    elif at is not None:
        moment = find_moment(workspace, at)
        now = min(
            now, datetime.combine(moment.today, time.max, UTC)
        )  # the end of that day, but nothing yet to come
    ranking = wanted.ranking or workspace.config.episodes.ranking
    asked = replace(wanted, ranking=ranking, limit=min(max(wanted.limit, 1), MAX_LIMIT), now=now)
    is_before = moment is not None and moment.commit is None
    told = (
        Episodes((), ())
        if is_before
        else load_episodes(workspace, moment.commit if moment else None)
    )
    first, last = asked.occurred or (date.min, date.max)
    episodes = [
        episode
        for episode in combine(told.tellings)
        if is_visible(episode, asked.session, all_sessions=asked.all_sessions)
        and (not asked.outcomes or episode.outcome in asked.outcomes)
        and first <= episode.occurred_at.astimezone(UTC).date() <= last
    ]
    recalled = _rank(workspace, asked, episodes, told, moment, environ)
    notes = [moment.note] if moment and moment.note else []
    if wanted.limit != asked.limit:
        notes.append(f"A limit of {wanted.limit} is out of range, {asked.limit} is taken.")
    if told.findings:
        count = plural(len(told.findings), "finding")
        notes.append(f"Not everything could be read: {count}. `memory-ci check` names them.")
    if ranking == "similar" and not count_terms(asked.query):
        notes.append("The question has no words to search for.")
    recalled = replace(recalled, notes=(*notes, *recalled.notes))
    if moment is None:
        recalled = replace(recalled, changes=_search_history(workspace, asked, recalled.hits))
    if not recalled.hits and not recalled.changes:
        return recalled
    remote = find_setting(workspace.repo, f"remote.{workspace.config.publish.remote}.url")
    return replace(recalled, address=find_address(remote or ""))


def _search_history(
    workspace: Workspace, asked: RecallQuery, hits: Sequence[RecalledEpisode]
) -> tuple[RecalledEpisode, ...]:
    """The merged changes that answer too and that no episode of the answer tells of; none in a shallow clone."""
    named = {
        name
        for hit in hits
        for name in (hit.episode.action.pr, hit.episode.action.commit[:SHA_WIDTH])
        if name
    }
    first, last = asked.occurred or (date.min, date.max)

    def is_wanted(task: Task) -> bool:
        is_told = not named.isdisjoint((task.number, task.sha[:SHA_WIDTH]))
        is_asked = first <= task.merged_on <= last and (
            not asked.outcomes or task.outcome in asked.outcomes
        )
        return task.is_merged and is_asked and not is_told

    def told_by_git(found: SimilarTask) -> RecalledEpisode:
        """A merged change as the episode that it would have."""
        task = found.task
        episode = Episode(
            id=f"commit-{task.sha[:SHA_WIDTH]}" if task.number is None else f"pr-{task.number}",
            occurred_at=datetime.combine(task.merged_on, time.min, UTC),
            situation=Situation(summary=task.title),
            action=Action(pr=task.number, commit=task.sha, files=task.touched),
            outcome=task.outcome,
            text=task.quote,
        )
        return RecalledEpisode(
            episode, found.score, tuple(Factor(name, value) for name, value in found.factors)
        )

    room = min(MAX_CHANGES, asked.limit - len(hits))
    with suppress(RepositoryError):
        if room > 0 and (tip := read_tips(workspace.repo).commit) is not None:
            kept = load_tasks(workspace, tip)
            return tuple(
                map(
                    told_by_git,
                    find_answers(asked.query, kept.tasks, kept.prompts, room, is_wanted),
                )
            )
    return ()


def is_visible(episode: Episode, session: str | None, *, all_sessions: bool = False) -> bool:
    """Whether a session may see an episode: one that is no session's, or its own."""
    return all_sessions or episode.context.get("session", "") in ("", session)


def _rank(
    workspace: Workspace,
    asked: RecallQuery,
    episodes: Sequence[Episode],
    told: Episodes,
    moment: PastMoment | None,
    environ: Mapping[str, str] | None,
) -> Recalled:
    if asked.ranking == "mempalace":
        replayed = replay(list_feedback(told.tellings), workspace.config.episodes.ignored_policy)
        utilities = {entry_id: utility.value for entry_id, utility in replayed.items()}
        ranked = rank_mempalace(asked.query, episodes, utilities, asked.now)
        return Recalled(
            "mempalace",
            hits=tuple(islice((hit for hit in ranked if is_safe(hit.episode)), asked.limit)),
        )
    if asked.ranking == "t4dm":
        safe = (pair for pair in find_pool(asked.query, episodes) if is_safe(pair[0]))
        pool, likeness, note = list(islice(safe, POOL * asked.limit)), WORDS, ""
        if environ is not None and pool:
            pool, likeness, note = _compare_vectors(workspace, asked.query, pool, environ)
        notes = (f"Words alone were compared: {note}.",) if note else ()
        return Recalled("t4dm", likeness, tuple(rank_t4dm(pool, asked.now)[: asked.limit]), notes)
    near = [pair for pair in find_near(asked.query, episodes) if is_safe(pair[0])]
    still = _count_still(
        workspace, [episode for episode, _ in near], moment.commit if moment else "HEAD"
    )
    return Recalled("similar", WORDS, rank_similar(near, still, asked.limit))


def _compare_vectors(
    workspace: Workspace, query: str, pool: list[Near], environ: Mapping[str, str]
) -> tuple[list[Near], str, str]:
    """The pool with cosines of vectors in place of those of words, and the model; as it was, and why, without one."""
    choice = choose_embedder(workspace.config.retrieve, environ)
    if choice.embedder is None or len(pool) > MAX_EMBEDDED:
        return pool, WORDS, choice.reason if choice.mode == "degraded" else ""
    try:
        asked = choice.embedder.embed([query], "query")
        known = choice.embedder.embed([prompt_of(episode) for episode, _ in pool])
    except MemoryCIError as error:
        return pool, WORDS, error.message
    rows = (known.data[at : at + known.dim] for at in range(0, len(known.data), known.dim))
    cosines = (max(0.0, sum(map(mul, asked.data, row))) for row in rows)
    compared = [(episode, cosine) for (episode, _), cosine in zip(pool, cosines, strict=True)]
    return compared, choice.embedder.model_id, ""


def is_safe(episode: Episode) -> bool:
    """Whether nothing in the words of an episode must be kept from an agent."""
    action = episode.action
    names = (episode.id, *action.files, *action.tools, *episode.context, *episode.context.values())
    return not is_unsafe("\n".join((prompt_of(episode), *names)))


def _count_still(
    workspace: Workspace, episodes: Sequence[Episode], rev: str | None
) -> dict[str, int]:
    """How many files of each episode are there at a revision, renamed or not."""
    commit = find_commit(workspace.repo, rev) if rev else None
    if commit is None or not episodes:
        return {}
    present = frozenset(map(readable_path, tree_at(workspace.repo, commit).files.values()))
    missing = [one.action.commit for one in episodes if not present.issuperset(one.action.files)]
    asked = [f"{sha}^{{commit}}" for sha in missing if re.fullmatch(SHORT_ID, sha)]
    known = [
        found for found in find_objects(workspace.repo, asked) if found
    ]  # as far as their commits are here
    renames = list_renames(workspace.repo, known, commit) if known else {}
    return {
        episode.id: sum(
            path in present or follow_renames(path, renames, present) is not None
            for path in episode.action.files
        )
        for episode in episodes
    }
