"""Search of the organisation's index: entries of other repositories for a task.

`memory-ci org search` uses it, and `memory-ci retrieve`, which adds the entries to its answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path

from msgspec.structs import replace

from memory_ci.commands.org.address import INDEX_VARIABLE, choose_audiences, find_index
from memory_ci.commands.org.engine import OrgEngine
from memory_ci.commands.org.index import open_engine
from memory_ci.commands.org.records import MAX_SHARED_CHARS, OrgFilters, OrgMatch
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.ranking import FeedbackWeights, make_weights
from memory_ci.commands.retrieve.text import ORGANISATION_CHARS, context_cost, entry_cost
from memory_ci.errors import MemoryCIError
from memory_ci.gitrepo.addresses import normalize_address
from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.memory.screening import find_unsafe_entry
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import Located, ScopeOf
from memory_ci.records.retrieval import Hit, Match, Retrieval
from memory_ci.search.query import Corpus, build_terms
from memory_ci.search.rank import EntryPlace, diversify, fit_hits, get_entry_place, rank
from memory_ci.search.strength import drop_weak, measure_margin, score_lexically

MAX_SHARE = 0.25  # The share of an answer's characters that other repositories may fill.
OTHER_REPOSITORY_WEIGHT = (
    0.8  # The weight of a score of another repository; one of this repository has 1.
)
DEADLINE_SECONDS = 0.5  # Seconds after which nothing of the organisation is served.
MAX_RANKED = 100  # Matches that are ranked; the organisation's share of a budget holds a few.
DROPPED_CHARS = 300  # Characters that are left free where own entries did not fit.


def search_org(
    task: str,
    index: str,
    audiences: tuple[str, ...],
    *,
    top: int,
    environ: Mapping[str, str],
    today: date,
) -> tuple[Hit, ...]:
    """Return the entries of the audiences that match a task, best first.

    Args:
        task: the task in words.
        index: the address of the index.
        audiences: the audiences to search.
        top: the number of entries at most.
        environ: the environment, which may have a token for the index.
        today: entries that are valid up to an earlier day are left out.

    Raises:
        EngineError: org-missing, org-damaged, org-digest.
        UsageError: bad-org-index.
    """
    filters = OrgFilters(today=today)
    with closing(open_engine(find_index(index, environ))) as engine:
        search = OrgSearch(engine, audiences)
        hits = search.find(task, RetrieveOptions(), filters)
    return tuple(hits[:top])


def add_organisation(
    answer: Retrieval,
    workspace: Workspace,
    options: RetrieveOptions,
    *,
    max_chars: int,
    environ: Mapping[str, str],
    today: date,
    is_new: Callable[[Hit], bool],
    own_entry_ids: Collection[str | None],
) -> Retrieval:
    """Add entries of other repositories to an answer, within the budget that it leaves.

    An error or a missed deadline becomes a note.

    Args:
        answer: the answer of the own memory.
        workspace: the own repository and its configuration.
        options: the options of the query.
        max_chars: the budget of the whole answer, in characters.
        environ: the environment, which names the index.
        today: the present day.
        is_new: returns whether the session was not served a hit before.
        own_entry_ids: ids of entries of the own memory.
    """
    budget = _find_budget(answer, max_chars)
    if budget <= 0:
        return answer
    try:
        hits = _find_in_time(answer.task, workspace, options, environ, today)
    except TimeoutError:
        note = (
            "The organisation's index did not answer within"
            f" {DEADLINE_SECONDS * 1000:.0f} ms: its entries are left out."
        )
        return replace(answer, notes=(*answer.notes, note))
    except MemoryCIError as error:
        note = f"Entries of the organisation are left out: {error.message}."
        return replace(answer, notes=(*answer.notes, note))
    new_hits = [hit for hit in hits if hit.located.entry.id not in own_entry_ids and is_new(hit)]
    fitting_hits, _ = fit_hits(new_hits, budget, entry_cost)
    return replace(answer, organisation=fitting_hits)


def _find_budget(answer: Retrieval, max_chars: int) -> int:
    """Return the characters that an answer leaves for entries of other repositories.

    Zero or less means that there is no room. `max_chars` is the budget of the whole answer.
    """
    used_chars = context_cost(answer) + ORGANISATION_CHARS
    used_chars += sum(entry_cost(hit) for hit in answer.hits)
    if answer.hits_dropped or answer.norms_dropped:
        used_chars += DROPPED_CHARS
    return min(int(MAX_SHARE * max_chars), max_chars - used_chars)


def _find_in_time(
    task: str,
    workspace: Workspace,
    options: RetrieveOptions,
    environ: Mapping[str, str],
    today: date,
) -> list[Hit]:
    """Return the entries of other repositories that match a task, within the deadline.

    Raises:
        TimeoutError: the deadline is over.
        UsageError, EngineError: the index cannot be found or read.
    """
    config = workspace.config
    audiences = choose_audiences(environ, config.org.audiences)
    index = find_index(environ[INDEX_VARIABLE], environ)
    filters = OrgFilters(
        types=options.types,
        domains=options.domains,
        phases=options.phases,
        today=today,
        excluded_repositories=_list_own_addresses(workspace),
    )
    deadline = time.monotonic() + DEADLINE_SECONDS
    with closing(open_engine(index, deadline=deadline)) as engine:
        hits = OrgSearch(engine, audiences).find(task, options, filters)
    if time.monotonic() > deadline:
        raise TimeoutError
    return hits


class OrgSearch:
    """A search in the audiences of an index, ranked as a repository ranks its own entries.

    Feedback on the entries is unknown, and their cites are not judged: they are of other trees.
    """

    def __init__(self, engine: OrgEngine, audiences: tuple[str, ...]) -> None:
        self._engine = engine
        self._audiences = audiences

    def find(self, task: str, options: RetrieveOptions, filters: OrgFilters) -> list[Hit]:
        """Return the entries that match a task, best first.

        Args:
            task: the task in words.
            options: the options of the query; `all_matches` keeps weak matches.
            filters: the entries that may answer.
        """
        corpus = self._load_corpus(task)
        terms = build_terms(task, corpus)
        # Entries are ranked with a place that is unique in the organisation; by it their matches,
        # which have the repository, are found again.
        org_match_by_place: dict[EntryPlace, OrgMatch] = {}
        matches: list[Match] = []
        for org_match in self._engine.search(terms, filters, self._audiences, MAX_RANKED):
            entry = org_match.located.entry
            if len(entry.title) + len(entry.body) > MAX_SHARED_CHARS:
                continue  # To compare megabytes would take the time of all others.
            located = _give_global_scope(org_match)
            org_match_by_place[get_entry_place(located)] = org_match
            matches.append(Match(located, org_match.lexical))

        hits = self._rank_matches(task, matches, options, filters.today or date.max)
        if not options.all_matches:
            # The best match must be near enough to the task; else nothing is served.
            is_near = bool(matches) and measure_margin(task, matches, terms, corpus) >= 0
            hits = drop_weak(hits, is_near=is_near)

        safe_hits = []
        for hit in hits:
            # The sync screened them by the rules of its version, and a file may have been changed.
            if not any(find_unsafe_entry(hit.located)):
                org_match = org_match_by_place[get_entry_place(hit.located)]
                safe_hits.append(_name_repository(hit, org_match))
        return safe_hits

    def _load_corpus(self, task: str) -> Corpus:
        """Return the word statistics of the audiences, which the words of a task are weighed by.

        The terms of the task are collected first, so that a server is asked once for all of them.
        """
        task_terms: list[str] = []

        def collect_term(term: str) -> int:
            task_terms.append(term)
            return 1

        build_terms(task, Corpus(1, collect_term))  # asks for the count of each term
        entry_count, count_by_term = self._engine.count(task_terms, self._audiences)

        def count_entries(term: str) -> int:
            if term not in count_by_term:
                _, new_counts = self._engine.count([term], self._audiences)
                count_by_term.update(new_counts)
            return count_by_term[term]

        return Corpus(entry_count, count_entries)

    def _rank_matches(
        self, task: str, matches: Sequence[Match], options: RetrieveOptions, today: date
    ) -> list[Hit]:
        """Rank matches for a task, with the weight of other repositories among their factors.

        Their relevance is measured by words alone: the index has no vectors.
        """
        weights = make_weights(options, FeedbackWeights(today))
        # Notes of sessions, which gain from their neighbours, are not shared.
        relevances = score_lexically(task, matches, neighbours={})
        factor = ("organisation", OTHER_REPOSITORY_WEIGHT)
        weighted_hits = []
        for hit in rank(matches, weights, relevances):
            score = hit.score * OTHER_REPOSITORY_WEIGHT
            weighted_hits.append(replace(hit, score=score, factors=(*hit.factors, factor)))
        return diversify(weighted_hits)


def _give_global_scope(org_match: OrgMatch) -> Located:
    """Return the entry of a match with its repository in the path, and of global scope.

    Entries with the same path in two repositories stay distinct, and no scope ranks higher.
    """
    path = f"{org_match.repository.id}:{org_match.located.path}"
    return replace(org_match.located, path=path, scope=ScopeOf("global"))


def _name_repository(hit: Hit, org_match: OrgMatch) -> Hit:
    """Return a hit with its own path, and with the name and link of its repository."""
    return replace(
        hit,
        located=replace(hit.located, path=org_match.located.path),
        repository=org_match.repository.name,
        link=org_match.repository.link,
    )


def _list_own_addresses(workspace: Workspace) -> tuple[str, ...]:
    """Return the ids and links that this repository may have in the index.

    They are made of its directories and of the URLs of its remotes.
    """
    repo = workspace.repo
    addresses = {
        directory.resolve().as_uri()
        for directory in (repo.root, repo.common_dir, repo.cwd)
        if directory is not None
    }
    arguments = ("config", "--get-regexp", "-z", r"^remote\..*\.url$")
    output = decode_path(run_git(repo.cwd, *arguments, ok=(0, 1)))
    for setting in output.split("\0"):
        _, _, url = setting.partition("\n")  # with -z a setting is `key\nvalue`
        address = normalize_address(url)
        if address:
            addresses |= {address, f"https://{address}"}
        elif setting and "://" not in url:
            addresses.add(Path(url).resolve().as_uri())
    return tuple(sorted(addresses))
